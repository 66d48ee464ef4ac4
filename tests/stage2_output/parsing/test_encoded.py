"""JSON that is encoded as a string: with escaped quotes, with or without quotes around it."""

import json

import pytest

from stage2_output import ExtractionError, extract_json
from stage2_output.parsing.encoded import BEGINS_ESCAPED
from tests.tables import for_each


def value_and_repairs(text):
    """The value of a text, and the name of each repair with the text at its position."""
    found = extract_json(text)
    return found.value, [(repair.name, text[repair.position :]) for repair in found.repairs]


# ---- in quotes


@for_each(
    "inner, value",
    [('{"a": 1}', {"a": 1}), (" [1, 2]\n", [1, 2]), ("{}", {}), ('{"é": "\\ud83d"}', None)],
)
def test_a_string_may_contain_an_object_or_a_list(inner, value):
    text = json.dumps(inner)
    found = extract_json(text)
    assert found.value == (json.loads(inner) if value is None else value)
    assert found.repairs == (("double_encoded", 0),)


@for_each(
    "inner",
    [
        '{"a": 1',
        '{"a": 1} or so',
        "{'a': 1}",
        "[1,]",
        "5",
        '"a"',
        "",
        '{"a": 1, "a": 2}',
        "[" * 300,
    ],
)
def test_a_string_with_other_content_is_only_a_string(inner):
    assert value_and_repairs(json.dumps(inner)) == (inner, [])


def test_a_string_with_json_that_is_nested_too_deeply_is_only_a_string():
    inner = "[" * 300 + "]" * 300
    assert value_and_repairs(json.dumps(inner)) == (inner, [])


# ---- without quotes

ESCAPED = {
    "an object": (r"{\"a\": 1}", {"a": 1}),
    "a list": (r"[\"a\", \"b\"]", ["a", "b"]),
    "an escaped quote in it": (r"{\"a\": \"\\\"b\\\"\"}", {"a": '"b"'}),
    "an escaped line break in it": (r"{\"a\": \"b\\nc\"}", {"a": "b\nc"}),
    "line breaks between its parts": (r"{\n  \"a\": 1\n}", {"a": 1}),
    "line breaks as they are": ('{\n  \\"a\\": 1\n}', {"a": 1}),
    "letters by number": (r"{\"\u00e9\": \"\\u00e8\"}", {"é": "è"}),
    "a surrogate pair": (r"{\"\ud83d\ude00\": 1}", {"😀": 1}),
    "brackets in a text": (r"{\"a\": \"}]\"}", {"a": "}]"}),
    "more than one slice of the text": (
        r"{\"a\": \"" + "b\\\\n" * 1000 + r"\"}",
        {"a": "b\n" * 1000},
    ),
}


@for_each("before, after", [("Hm ", ""), ('Hm "', '"'), ("Hm ", " and so on"), ('Hm "', '" [2]')])
@for_each("text, value", ESCAPED.values())
def test_json_with_escaped_quotes_is_read_up_to_its_end(text, value, before, after):
    found = extract_json(before + text + after)
    assert (found.value, found.start, found.end) == (value, len(before), len(before + text))
    assert found.repairs == (("escaped_json", len(before)),)


@for_each(
    "text, reason",
    [
        (r"{\"a\": 1", "has escaped quotes and is not valid"),
        (r"{\"a\": 1,}", "has escaped quotes and is not valid"),
        (r"{\"a\": NaN}", "has escaped quotes and is not valid"),
        (r"{\"a\": 1, \"a\": 2}", "has escaped quotes and is not valid"),
        (r"{\"a\": 1, b: \d}", "has invalid escapes"),
        ('{\\"a\\": "b"}', "has escaped quotes and is not valid"),
        (r"{\"a\": " + "[" * 300 + "]" * 300 + "}", "is nested too deeply"),
    ],
)
def test_invalid_json_with_escaped_quotes_is_rejected(text, reason):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert (caught.value.position, reason in str(caught.value)) == (0, True)


@for_each("text", ['{"a": 1}', r'{"\"a": 1}', "{", r"\"a\"", r"{a: \"b\"}"])
def test_begins_escaped_does_not_match_other_json(text):
    assert BEGINS_ESCAPED.match(text) is None


@for_each("inner", ['{"a": 1, "a": 1}', '{"a": 1, "a": 2}'])
def test_duplicate_keys_in_json_with_escaped_quotes_are_rejected(inner):
    encoded = json.dumps(inner)
    assert extract_json(encoded).value == inner
    with pytest.raises(ExtractionError):
        extract_json(encoded[1:-1])
