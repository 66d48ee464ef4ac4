"""JSON that was written as a string: with escaped quotes, in quotes or without."""

import json

import pytest

from stage2_output import ExtractionError, extract_json
from stage2_output.parsing.encoded import BEGINS_ESCAPED


def mended(text):
    """The value of a text, and for each repair its name and the text that begins at its
    position."""
    found = extract_json(text)
    return found.value, [(each.name, text[each.position :]) for each in found.repairs]


# ---- in quotes ----


@pytest.mark.parametrize(
    ("inner", "value"),
    [('{"a": 1}', {"a": 1}), (" [1, 2]\n", [1, 2]), ("{}", {}), ('{"é": "\\ud83d"}', None)],
)
def test_a_string_may_hold_an_object_or_a_list(inner, value):
    text = json.dumps(inner)
    found = extract_json(text)
    assert found.value == (json.loads(inner) if value is None else value)
    assert found.repairs == (("double_encoded", 0),)


@pytest.mark.parametrize(
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
def test_any_other_string_is_only_a_string(inner):
    assert mended(json.dumps(inner)) == (inner, [])


def test_a_string_that_holds_json_nested_too_deeply_is_only_a_string():
    inner = "[" * 300 + "]" * 300
    assert mended(json.dumps(inner)) == (inner, [])


# ---- without quotes ----

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


@pytest.mark.parametrize(
    ("before", "behind"), [("Hm ", ""), ('Hm "', '"'), ("Hm ", " and so on"), ('Hm "', '" [2]')]
)
@pytest.mark.parametrize(("text", "value"), ESCAPED.values(), ids=ESCAPED)
def test_json_with_escaped_quotes_is_read_and_ends_where_it_ends(text, value, before, behind):
    found = extract_json(before + text + behind)
    assert (found.value, found.start, found.end) == (value, len(before), len(before + text))
    assert found.repairs == (("escaped_json", len(before)),)


@pytest.mark.parametrize(
    ("text", "why"),
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
def test_what_is_not_valid_below_its_escapes_is_refused(text, why):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert (caught.value.position, why in str(caught.value)) == (0, True)


@pytest.mark.parametrize("text", ['{"a": 1}', r'{"\"a": 1}', "{", r"\"a\"", r"{a: \"b\"}"])
def test_other_json_does_not_begin_so(text):
    assert BEGINS_ESCAPED.match(text) is None


@pytest.mark.parametrize("inner", ['{"a": 1, "a": 1}', '{"a": 1, "a": 2}'])
def test_duplicate_keys_below_escapes_are_refused(inner):
    encoded = json.dumps(inner)
    assert extract_json(encoded).value == inner
    with pytest.raises(ExtractionError):
        extract_json(encoded[1:-1])
