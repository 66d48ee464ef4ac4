import re

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ToolSpec
from stage0_gateway.wire.names import own_names, sent_id, sent_name, shortened
from tests.tables import for_each

ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@for_each("name", ["f", "get_weather", "_x", "A-1", "a" * 64])
def test_a_name_that_every_provider_accepts_is_sent_unchanged(name):
    assert sent_name(name) == name


@for_each(
    "name, sent",
    [
        ("math.add", "math_add_ecef409b"),
        ("math add", "math_add_47dba5ca"),
        ("1st", "_1st_e01ddf65"),
        ("天气", "___4d947325"),
        ("", "__e3b0c442"),
        ("a" * 65, f"{'a' * 55}_635361c4"),
    ],
)
def test_any_other_name_is_sent_with_a_stable_fingerprint(name, sent):
    assert sent_name(name) == sent


@given(st.lists(st.text(max_size=70) | st.text("a.b c", max_size=4), unique=True, max_size=30))
def test_sent_names_are_accepted_and_distinct(names):
    sent = [sent_name(name) for name in names]
    assert all(ACCEPTED.fullmatch(each) for each in sent)
    assert len({*sent}) == len(names)


def test_only_changed_names_need_a_reverse_mapping():
    tools = [ToolSpec("f", ""), ToolSpec("a.b", ""), ToolSpec("a b", "")]
    assert own_names(tools) == {sent_name("a.b"): "a.b", sent_name("a b"): "a b"}


def test_an_unsupported_id_is_replaced_by_a_distinct_one():
    assert sent_id("toolu_01-a") == "toolu_01-a"
    one, other = sent_id("functions.look:0"), sent_id("functions.look.0")
    assert one != other
    assert one.startswith("functions_look_0_")
    assert re.fullmatch("[a-zA-Z0-9_-]+", one)


@given(st.lists(st.text(max_size=90), unique=True, max_size=30), st.sampled_from([20, 40, 64]))
def test_shortened_texts_fit_and_stay_distinct(texts, length):
    sent = [shortened(text, length) for text in texts]
    assert all(len(each) <= length for each in sent)
    assert len({*sent}) == len(texts)
    assert [each for each in texts if len(each) <= length] == [
        each for each, before in zip(sent, texts, strict=True) if len(before) <= length
    ]


def test_a_long_text_keeps_its_beginning_and_gets_a_stable_fingerprint():
    assert shortened("toolu_" + "a" * 40, 40) == "toolu_aaaaaaaaaaaaaaaaa_ef57c573734feaf4"


@given(st.lists(st.text(max_size=90), unique=True, max_size=30))
def test_sent_ids_are_accepted_and_distinct(ids):
    sent = [sent_id(each) for each in ids]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in sent)
    assert len({*sent}) == len(ids)
