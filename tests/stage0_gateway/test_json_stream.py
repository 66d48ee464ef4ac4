import json
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stage0_gateway.json_stream import LONGEST_NUMBER, MOST_DEPTH, JsonReader, plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.builds(json.dumps, VALUES, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 2]))
JSON_LIKE = st.text(st.sampled_from('{}[]",: \n\\/u0123dDcC89-+.eEtrufalsn\x01\ud83d天'), max_size=30)
SPOILED = st.builds(
    lambda text, at, gone, new: text[: at % len(text)] + new + text[at % len(text) + gone :],
    TEXTS,
    st.integers(0, 200),
    st.integers(0, 2),
    st.text(st.sampled_from('{}[]",:\\-.e01 \ud83dx'), max_size=2),
)


def read(*pieces):
    reader = JsonReader()
    for piece in pieces:
        reader.feed(piece)
    return reader


def state(reader):
    """All that can be seen of a reader; `repr` tells 1 from 1.0 and keeps the order of keys."""
    return repr(plain(reader.value)), reader.complete, reader.failed


def seen(pieces):
    """Value and completeness after each piece."""
    reader = JsonReader()
    for piece in pieces:
        reader.feed(piece)
        yield reader.value, reader.complete


def cut(text, places):
    ends = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(ends)]


def accepts(text):
    """Whether this is JSON for the standard library, without the constants that JSON does not have."""
    try:
        json.loads(text, parse_constant=int)  # which takes none of them
    except ValueError:
        return False
    return True


def closed(text):
    """The most of a beginning of JSON that parses once strings, arrays and objects are closed.

    So it is a beginning of the whole value too: nothing but the last element of each level is partial.
    """
    for end in range(len(text), 0, -1):
        begun, closing = text[:end], ""
        if re.search(r"\\u[dD][89abAB]..\Z", begun):
            continue  # half a character
        for mark in re.findall(r'"(?:[^"\\]|\\.)*"|".*|[{}\[\]]', begun, re.DOTALL):
            if mark in "{[":
                closing = ("}" if mark == "{" else "]") + closing
            elif mark in "}]":
                closing = closing[1:]
            elif not accepts(mark):
                closing = '"' + closing
        if accepts(begun + closing):
            return json.loads(begun + closing)
    return None


# ---- what holds for any text ----------------------------------------------------------------------------


@given(TEXTS, st.lists(st.integers(0, 1000)))
def test_json_in_any_pieces_ends_as_the_value_that_json_loads_gives(text, places):
    reader, value = read(*cut(text, places)), json.loads(text)
    assert state(reader) == (repr(value), True, False)
    assert value == reader.value == value


@given(TEXTS)
@example('{"a": "\\ud83d\\ude00\\n", "b": [-1.5e+3, true, null], "": {"c": "\\\\"}}')
def test_every_beginning_of_json_shows_as_much_as_can_be_known(text):
    for end, (value, complete) in enumerate(seen(text), 1):
        assert repr(plain(value)) == repr(closed(text[:end]))
        assert complete == accepts(text[:end])


@given(st.text() | JSON_LIKE | SPOILED)
@example('"\x1f"')
@example('"\\ud83d\\u"')
@example('"\\\\ud83d')
def test_what_is_complete_is_what_json_loads_accepts_and_nothing_raises(text):
    assert read(text).complete == accepts(text)


@given(st.text() | JSON_LIKE | SPOILED, st.lists(st.integers(0, 1000)))
@example('"\\ud83d\\ud83d\\ude00', [3, 7, 9, 14])
@example('{"a": 01', [7])
@example("[1.5e+x", [2, 3, 4, 5, 6])
@example("[" + "1" * (LONGEST_NUMBER + 1) + "]", [100, LONGEST_NUMBER, LONGEST_NUMBER + 1])
def test_the_pieces_make_no_difference_not_even_to_what_is_no_json(text, places):
    assert state(read(*cut(text, places))) == state(read(text)) == state(read(*text))


def test_a_string_is_shown_as_it_grows_and_a_key_when_its_value_begins():
    text = '| {|"ci|ty"|: |"|Shang|hai"|, "at": [{"h|": "n|oon"|}]|}'
    shown = [plain(value) for value, _ in seen(text.split("|"))]
    city, noon = {"city": "Shanghai"}, {"city": "Shanghai", "at": [{"h": "noon"}]}
    assert shown[:7] == [None, {}, {}, {}, {}, {"city": ""}, {"city": "Shang"}]
    assert shown[7:] == [city, {**city, "at": [{}]}, {**city, "at": [{"h": "n"}]}, noon, noon, noon]


ESCAPES = [
    (["\\", "\\u", "\\u005", "\\ud83d", "\\ud83d\\", "\\ud83d\\u", "\\ud83d\\ud", "\\ud83d\\ude0"], ""),
    (["\\n", "\\n\\", "\\n\\u00"], "\n"),
    (["\\u00E9", "\\u00e9\\u"], "é"),
    (["\\uD83D\\uDE00", "\\ud83d\\ude00\\ud83d"], "😀"),
    (["\\ud83d\\u12", "\\ud83d\\ud8", "\\ud83d\\ud83d", '\\ud83d"', "\ud83d", "\ud83d\\"], "\ud83d"),
    (["\\\\ud83d"], "\\ud83d"),
]


@pytest.mark.parametrize(("text", "shown"), [(text, shown) for texts, shown in ESCAPES for text in texts])
def test_an_escape_is_held_back_until_it_is_complete(text, shown):
    assert read('"a' + text).value == read('"a', *text).value == "a" + shown


BEGINNINGS = [
    (["-", "t", "tru", "fals", "n", "nul"], []),
    (["-0.0", "-0.0e"], [-0.0]),
    (["12", "12.", "12e", "12e+"], [12]),
    (["12.5", "12.5E", "12.5e-"], [12.5]),
    (["12.5e-1"], [1.25]),
    (["1e999"], [float("inf")]),
]


@pytest.mark.parametrize(("text", "shown"), [(text, shown) for texts, shown in BEGINNINGS for text in texts])
def test_a_number_is_shown_as_far_as_it_is_valid_and_a_word_when_it_is_complete(text, shown):
    assert state(read("[", *text)) == (repr(shown), False, False)


def test_of_two_equal_keys_the_last_is_shown_from_where_its_value_begins():
    shown = [repr(value) for value, _ in seen(['{"a": 1, "b": 2, "a": ', '"x'])]
    assert shown == ["{'a': 1, 'b': 2}", "{'a': 'x', 'b': 2}"]


def test_before_anything_was_read_and_for_null_the_value_is_none():
    assert state(read()) == state(read(" ")) == ("None", False, False)
    assert state(read("null")) == ("None", True, False)


def test_a_bare_number_is_complete_and_may_go_on():
    assert [*seen("12.5 ")] == [(1, True), (12, True), (12, False), (12.5, True), (12.5, True)]


SPOILING = {
    "number": ["01", "-01", "1.e", "1..", "1e5.", "--", "+", ".", "1-", "N", "I", "-I", "0x", "1_", "\u0661"],
    "word": ["'", "tx", "tru ", "T", "nulll", "/", "#", "\ufeff", "\u00a0", "a", "]", ",", ":"],
    "end or array": ["1 2", "{} {", '"" "', "null,", "[,", "[1,]", "[1 2", "[}", "[1}", "[1:", '["a" "'],
    "key": ["{,", "{1", "{'", "{a", "{]", '{"a"}', '{"a",', '{"a" 1'],
    "object": ['{"a":}', '{"a":,', '{"a":1,}', '{"a":1]', '{"a":1 "'],
    "string": ['"\x00', '"\n', '"\t', '{"\x1f', '"\\x', '"\\u12g', '"\\\n', '"\\ud83d\n', '"\\ud83d\\x'],
    "pair": ['"\\ud83d\\a', '"\\ud83d\\ux', '"\\ud83d\\udx', '"\\ud83d\\u12x', '"\\ud83d\\ud83x'],
}


@pytest.mark.parametrize("text", [text for texts in SPOILING.values() for text in texts])
def test_it_fails_at_the_first_character_that_no_json_could_have_there(text):
    before = read(text[:-1])
    assert not before.failed
    assert state(read(text)) == (repr(plain(before.value)), False, True)


def test_after_a_failure_the_value_stays_and_what_follows_is_ignored():
    reader = read('{"a": [1, "two', '\n", 3]}', '", 4]}')
    assert state(reader) == ("{'a': [1, 'two']}", False, True)


# ---- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_read_compared_and_printed_up_to_the_limit_and_refused_beyond(opened, closed):
    text = opened * MOST_DEPTH + "1" + closed * MOST_DEPTH
    assert state(read(text)) == (repr(json.loads(text)), True, False)
    assert read(text).value == read(text).value == json.loads(text)
    assert repr(read(text).value) == repr(json.loads(text))
    assert not read(opened * MOST_DEPTH).failed
    assert read(opened * (MOST_DEPTH + 1)).failed
    assert read(opened * 100_000).value == read(opened * MOST_DEPTH).value


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_is_read_up_to_the_limit_and_refused_beyond(sign):
    text = sign + "7" * LONGEST_NUMBER
    assert state(read(text)) == (text, True, False)
    assert read(text + "7").failed
    assert read(sign + "0." + "7" * LONGEST_NUMBER).failed


def test_a_number_that_this_interpreter_refuses_is_no_error():
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(1000)
    try:
        reader = read('{"a": 1, "b": ' + "7" * 1001)
    finally:
        sys.set_int_max_str_digits(usual)
    assert state(reader) == ("{'a': 1}", False, True)


MANY = 100_000
LONG = {
    "string": '{"code": "' + "x = 1 # 天气" * (MANY // 10) + '"}',
    "escapes": '"' + "\\n\\u00e9" * (MANY // 8) + '"',
    "half characters": '"' + "\\ud83d" * (MANY // 6) + '"',
    "key": '{"' + "k" * MANY + '": 1}',
    "small keys": json.dumps({f"key{i}": str(i) for i in range(MANY // 16)}),
    "numbers": json.dumps([i / 8 for i in range(MANY // 8)]),
    "white space": " " * MANY + "[]" + " " * MANY,
    "failed": "[" * MANY,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_text_in_single_characters_is_read_and_looked_at_in_linear_time(text):
    reader = JsonReader()  # reading or copying all again for each character would not end
    for character in text:
        reader.feed(character)
        len(reader.value or "")
    assert reader.complete or text == LONG["failed"]


def test_a_very_long_string_costs_nothing_for_what_came_before():
    reader = read('{"code": "')
    for _ in range(20_000):
        reader.feed("x" * 1000)
    for length in range(20_001_000, 40_000_001, 1000):
        reader.feed("x" * 1000)
        assert len(reader.value["code"]) == length


# ---- views ----------------------------------------------------------------------------------------------


def test_a_view_is_live_at_every_depth_and_a_plain_copy_is_not():
    reader = read('{"a": [{"b": "x')
    outer, array, inner = reader.value, reader.value["a"], reader.value["a"][0]
    copy = plain(outer)
    reader.feed('y"}, 2')
    assert (outer, array, inner) == ({"a": [{"b": "xy"}, 2]}, [{"b": "xy"}, 2], {"b": "xy"})
    assert copy == {"a": [{"b": "x"}]}
    assert plain(copy) is copy


def test_a_view_is_a_mapping_or_a_sequence_all_the_way_down():
    view = read('{"a": [1, {"b": "gro').value
    assert isinstance(view, Mapping)
    assert isinstance(view["a"], Sequence)
    assert (len(view), list(view), "a" in view, "b" in view, view.get("b", 0)) == (1, ["a"], True, False, 0)
    assert dict(view.items()) == {"a": [1, {"b": "gro"}]}
    assert (view["a"][-1], view["a"][1:], view["a"].index(1)) == ({"b": "gro"}, [{"b": "gro"}], 0)
    with pytest.raises(KeyError, match="b"):
        view["b"]


def test_a_view_equals_its_content_from_both_sides_and_nothing_else():
    view, same = read('{"a": [1, "x').value, {"a": [1, "x"]}
    assert view == same == view
    assert view == read('{"a": [1, "x"]}').value == {"a": view["a"]}
    assert same["a"] == view["a"]
    assert view["a"] not in ((1, "x"), [1], [1, "xy"], {"a": 1}, None)
    assert view not in ({}, {"a": [1, "xy"]}, {"b": [1, "x"]}, [("a", [1, "x"])])
    assert repr(view) == str(view) == repr(same)


def test_a_view_can_be_neither_changed_nor_dumped_nor_hashed():
    view = read('{"a": [1], "o": {}}').value
    for part in (view, view["a"], view["o"]):
        assert {"__setitem__", "__delitem__"}.isdisjoint(dir(part))
        with pytest.raises(AttributeError):
            part.note = "mine"
        with pytest.raises(TypeError, match="not JSON serializable"):
            json.dumps(part)
        with pytest.raises(TypeError, match="unhashable"):
            hash(part)
