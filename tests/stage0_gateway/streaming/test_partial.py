import json

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.streaming.partial import GrowingText, partial_json
from tests.tables import for_each

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcü天", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
JSON_LIKE = st.text(
    st.sampled_from('{}[]",: \n\\/u0123dDcC89-+.eEtrufalsn\x01\ud83d\ude00天'), max_size=30
)


@given(st.text() | JSON_LIKE)
def test_any_text_gives_a_value_or_none(text):
    partial_json(text)


@given(VALUES, st.booleans())
def test_complete_json_is_parsed_and_every_prefix_of_an_object_gives_an_object(value, ascii_only):
    text = json.dumps({"value": value}, ensure_ascii=ascii_only)
    assert partial_json(text) == {"value": value}
    for end in range(1, len(text)):
        assert partial_json(text[:end]).keys() <= {"value"}


@for_each(
    "text, value",
    [
        ('{"city": "Shang', {"city": "Shang"}),
        ('{"text": "a\\', {"text": "a"}),
        ('{"text": "a\\u00', {"text": "a"}),
        ('{"text": "\\ud83d', {"text": ""}),
        ('{"text": "\\ud83d\\ude42', {"text": "🙂"}),
        ('{"text": "\ud83d\ude42', {"text": "🙂"}),
        ('{"n": 1', {"n": 1}),
        ('{"n": 1.', {}),
        ('{"n": -', {}),
        ('{"ok": tru', {}),
        ('{"a": [1, {"b', {"a": [1, {}]}),
        ('{"a": 1, "a": 2', {"a": 2}),
    ],
)
def test_complete_elements_and_an_unfinished_string_are_returned(text, value):
    assert partial_json(text) == value


@for_each(
    "text",
    [
        "",
        " ",
        "nope",
        "{'a': 1",
        '{"a": NaN',
        '{"a": 1,}',
        '{"a": "\ud83d',
        "[" * 100_000,
        "7" * 5000,
    ],
)
def test_text_that_is_not_a_prefix_of_json_gives_none(text):
    assert partial_json(text) is None


def test_a_growing_text_joins_its_pieces():
    text = GrowingText()
    seen = [(str(text), text.length)]
    for piece in ("a", "bc", "ü"):
        text.append(piece)
        seen.append((str(text), text.length))
    assert seen == [("", 0), ("a", 1), ("abc", 3), ("abcü", 4)]
