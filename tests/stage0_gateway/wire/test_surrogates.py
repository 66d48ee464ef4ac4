import json

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.wire.surrogates import with_whole_characters, with_whole_escapes
from tests.tables import for_each


@for_each(
    "text, expected",
    [
        (r'{"a": "\ud83d"}', r'{"a": "\ufffd"}'),
        (r'{"a": "\uDE00\uD83D"}', r'{"a": "\ufffd\ufffd"}'),
        (r'{"a": "\ud83d\ud83d\ude00"}', r'{"a": "\ufffd\ud83d\ude00"}'),
        (r'{"a": "\ud83d\ude00 \u00e4 \n"}', r'{"a": "\ud83d\ude00 \u00e4 \n"}'),
        (r'{"path": "C:\\ud83d"}', r'{"path": "C:\\ud83d"}'),
        (r'{"a": "\\\ud83d"}', r'{"a": "\\\ufffd"}'),
        (r"no JSON \ud83d", r"no JSON \ufffd"),
        ("{}", "{}"),
    ],
)
def test_only_escapes_of_single_halves_are_replaced(text, expected):
    assert with_whole_escapes(text) == expected


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_escaped_arguments_never_contain_a_half_after_parsing(text):
    parsed = json.loads(with_whole_escapes(json.dumps(text)))
    assert parsed == with_whole_characters(text)
    parsed.encode()


@given(st.text())
def test_valid_text_is_unchanged(text):
    assert with_whole_characters(text) == text
    assert with_whole_escapes(json.dumps(text)) == json.dumps(text)
