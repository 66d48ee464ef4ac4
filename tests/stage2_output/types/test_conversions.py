import math

from hypothesis import given
from hypothesis import strategies as st

from stage2_output.types.conversions import ExpectedType
from tests.stage2_output.schemas import ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING
from tests.tables import for_each


def convert(value, schema):
    return ExpectedType(schema).convert(value)


def allows(value, schema):
    return ExpectedType(schema).allows(value)


@for_each(
    "value, schema, result, description",
    [
        ("5", INTEGER, 5, "string to integer"),
        ("-5", INTEGER, -5, "string to integer"),
        (" 5\n", INTEGER, 5, "string to integer"),
        ("5.0", INTEGER, 5, "string to integer"),
        ("1e3", INTEGER, 1000, "string to integer"),
        ("1e23", INTEGER, 10**23, "string to integer"),
        ("9" * 300, INTEGER, 10**300 - 1, "string to integer"),
        ("5", NUMBER, 5, "string to integer"),
        ("5.0", NUMBER, 5.0, "string to number"),
        ("-1.5e-3", NUMBER, -0.0015, "string to number"),
        ("5.0", {"type": ["integer", "number"]}, 5.0, "string to number"),
        ("true", BOOLEAN, True, "string to boolean"),
        ("False", BOOLEAN, False, "string to boolean"),
        (" TRUE ", BOOLEAN, True, "string to boolean"),
        ("null", {"type": ["integer", "null"]}, None, "string to null"),
        ("None", {"type": ["integer", "null"]}, None, "string to null"),
        ('{"a": ["5"]}', OBJECT, {"a": ["5"]}, "string to object"),
        (' [1, "2"]\n', ARRAY, [1, "2"], "string to array"),
        (5, STRING, "5", "integer to string"),
        (10**400, STRING, "1" + "0" * 400, "integer to string"),
        ("5", {"enum": [4, 5]}, 5, "string to integer"),
        ("5", {"const": 5}, 5, "string to integer"),
        (5, {"enum": ["4", "5"]}, "5", "integer to string"),
        ("Red", {"enum": ["red", "green"]}, "red", "string to the known value"),
        (" RED", {"type": "string", "enum": ["Red"]}, "Red", "string to the known value"),
        ("STRASSE", {"const": "straße"}, "straße", "string to the known value"),
        ("[1]", {"enum": [[1], [2]]}, [1], "string to array"),
    ],
)
def test_an_exact_and_unambiguous_value_is_converted(value, schema, result, description):
    found = convert(value, schema)
    assert found == (result, description)
    assert type(found[0]) is type(result)
    assert allows(result, schema)


@for_each(
    "value, schema",
    [
        ("5.5", INTEGER),
        ("+5", INTEGER),
        ("05", INTEGER),
        ("1,000", INTEGER),
        ("1_000", INTEGER),
        ("0x10", INTEGER),
        ("٥", INTEGER),
        ("five", INTEGER),
        ("", INTEGER),
        ("9" * 301, INTEGER),
        ("1e309", INTEGER),
        ("1e999999999", INTEGER),
        ("true", INTEGER),
        (True, INTEGER),
        (None, INTEGER),
        (5.5, INTEGER),
        ([5], INTEGER),
        ("NaN", NUMBER),
        ("Infinity", NUMBER),
        ("1e309", NUMBER),
        (".5", NUMBER),
        ("5.", NUMBER),
        ("5%", NUMBER),
        ("yes", BOOLEAN),
        ("1", BOOLEAN),
        (1, BOOLEAN),
        (0, BOOLEAN),
        ("", NULL),
        ("nil", NULL),
        (False, NULL),
        (5.5, STRING),
        (1.10, STRING),
        (True, STRING),
        (None, STRING),
        ([], STRING),
        ('{"a": 1, "a": 2}', OBJECT),
        ('{"a": NaN}', OBJECT),
        ('{"a": 1} or so', OBJECT),
        ('{"a": 1', OBJECT),
        ("[1]", OBJECT),
        ("{}", ARRAY),
        ("{'a': 1}", OBJECT),
        ("[" * 1000 + "]" * 1000, ARRAY),
        ("Red", {"enum": ["red", "RED"]}),
        ("Reds", {"enum": ["red"]}),
        ("6", {"enum": [4, 5]}),
        ("5", {"enum": [4, True]}),
        ("1", {"enum": [True]}),
        ("5", {"type": "integer", "enum": ["5"]}),
        ("5", {}),
        ("5", {"minimum": 6}),
    ],
)
def test_an_ambiguous_or_lossy_value_is_not_converted(value, schema):
    assert convert(value, schema) is None


def test_a_text_with_two_possible_values_is_not_converted():
    assert convert("NULL", {"enum": [None, "null"]}) is None


@for_each(
    "value, schema, answer",
    [
        (5.0, INTEGER, True),
        (5.5, INTEGER, False),
        (math.inf, INTEGER, False),
        (math.nan, NUMBER, True),
        (True, INTEGER, False),
        (True, NUMBER, False),
        (1, {"enum": [True]}, False),
        (1.0, {"const": 1}, True),
        ({"a": [1]}, {"const": {"a": [1.0]}}, True),
        (object(), {"const": 1}, False),
        (object(), {"type": "object"}, False),
        ("a", {"type": ["string", "null"]}, True),
        ("a", {}, True),
    ],
)
def test_allows_checks_whether_a_value_has_the_expected_type(value, schema, answer):
    assert allows(value, schema) is answer


@given(st.integers())
def test_an_integer_converted_to_a_text_and_back_is_unchanged(number):
    assert convert(str(number), INTEGER) == (number, "string to integer")
    assert convert(number, STRING) == (str(number), "integer to string")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_in_a_text_is_converted_to_that_number(number):
    found = convert(repr(number), NUMBER)
    assert found is not None
    assert found[0] == number


@given(
    st.text() | st.from_regex(r"[-+0-9.eE]{0,12}", fullmatch=True),
    st.sampled_from([INTEGER, NUMBER, BOOLEAN]),
)
def test_any_text_is_converted_to_an_allowed_value_or_not_at_all(text, schema):
    found = convert(text, schema)
    assert found is None or allows(found[0], schema)
