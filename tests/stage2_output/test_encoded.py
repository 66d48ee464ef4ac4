import pytest

from stage2_output.damage import Damaged
from stage2_output.encoded import BEGINS_ESCAPED, inside_of, read_escaped


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1, 2]\n", [1, 2]),
        ("{}", {}),
        ('{"a": 1', None),
        ('{"a": 1} or so', None),
        ("{'a': 1}", None),
        ("[1,]", None),
        ("5", None),
        ('"a"', None),
        ("", None),
        (5, None),
        ({"a": 1}, None),
    ],
)
def test_a_string_may_hold_an_object_or_a_list(value, inside):
    assert inside_of(value) == inside


ESCAPED = {
    "an object": (r"{\"a\": 1}", {"a": 1}),
    "a list": (r"[\"a\", \"b\"]", ["a", "b"]),
    "an escaped quote in it": (r"{\"a\": \"\\\"b\\\"\"}", {"a": '"b"'}),
    "an escaped line break in it": (r"{\"a\": \"b\\nc\"}", {"a": "b\nc"}),
    "line breaks between its parts": (r"{\n  \"a\": 1\n}", {"a": 1}),
    "line breaks as they are": ('{\n  \\"a\\": 1\n}', {"a": 1}),
    "letters by number": (r"{\"\u00e9\": \"\\u00e8\"}", {"é": "è"}),
    "brackets in a text": (r"{\"a\": \"}]\"}", {"a": "}]"}),
}


@pytest.mark.parametrize("behind", ["", '"', " and so on", r"\n\nSo: \"b\"", '" {"b": 1}'])
@pytest.mark.parametrize(("text", "value"), ESCAPED.values(), ids=ESCAPED)
def test_json_with_escaped_quotes_is_read_and_ends_where_it_ends(text, value, behind):
    whole = "Hm " + text + behind
    assert BEGINS_ESCAPED.match(whole, 3)
    assert read_escaped(whole, 3, len(whole)) == (value, 3 + len(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (r"{\"a\": 1", "has escaped quotes and is not valid"),
        (r"{\"a\": 1,}", "has escaped quotes and is not valid"),
        (r"{\"a\": NaN}", "has escaped quotes and is not valid"),
        (r"{\"a\": 1, \"a\": 1}", "has escaped quotes and is not valid"),
        (r"{\"a\": 1, b: \d}", "has escapes that JSON does not know"),
        ('{\\"a\\": "b"}', "has escaped quotes and is not valid"),
    ],
)
def test_what_is_not_valid_below_its_escapes_is_given_up(text, why):
    with pytest.raises(Damaged) as caught:
        read_escaped("x" + text, 1, 1 + len(text))
    assert (caught.value.why, caught.value.position) == (why, 1)


@pytest.mark.parametrize("text", ['{"a": 1}', r'{"\"a": 1}', "{", r"\"a\"", r"{a: \"b\"}"])
def test_other_json_does_not_begin_so(text):
    assert BEGINS_ESCAPED.match(text) is None
