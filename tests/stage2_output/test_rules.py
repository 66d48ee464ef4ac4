"""Every rule with the values at its edges; the library is asked about each of them too."""

from collections import OrderedDict
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType

import jsonschema
import pytest

from stage2_output.checks import compile_check
from stage2_output.rules import RULES

HUGE = 10**400
SMILE = "\N{GRINNING FACE}"


class Text(str):
    """A text that is not quite one."""


class Array(list):
    """A list that is not quite one."""


class Colour(str, Enum):  # noqa: UP042 - a StrEnum is no trap
    """A text whose hash is another's."""

    RED = "a"


# What stands in a schema, what fits it, what does not.
CASES = {
    "enum": ({"enum": ["a", 1, None, [True]]}, ["a", 1, 1.0, None, [True]], ["b", True, 0, [1], [], {}]),
    "enum, true": ({"enum": [True, 0]}, [True, 0, 0.0], [1, 1.0, False]),
    "const": ({"const": {"a": [1, 2]}}, [{"a": [1.0, 2]}], [{"a": [2, 1]}, {"a": [True, 2]}, {}, []]),
    "const, null": ({"const": None}, [None], [False, 0, "", []]),
    "allOf": ({"allOf": [{"minimum": 1}, {"maximum": 2}, {"multipleOf": 1}]}, [1, 2, "x"], [0, 3, 1.5]),
    "anyOf": ({"anyOf": [{"type": "string"}, {"minimum": 1}, {"const": 0}]}, ["", 1, 0, []], [-1, 0.5]),
    "oneOf": ({"oneOf": [{"minimum": 1}, {"maximum": 2}, {"const": 9}]}, [0, 3], [1, 2, 9, ""]),
    "not": ({"not": {"type": "string"}}, [1, None], ["", "a"]),
    "if": (
        {"if": {"minimum": 5}, "then": {"maximum": 8}, "else": {"multipleOf": 2}},
        [8, 4, -2],
        [9, 3],
    ),
    "if, then": ({"if": {"minimum": 5}, "then": {"maximum": 8}}, [8, 3], [9]),
    "if, else": ({"if": {"minimum": 5}, "else": {"multipleOf": 2}}, [9, 4], [3]),
    "if alone": ({"if": False}, [1], []),
    "then alone": ({"then": False, "else": False}, [1], []),
    "minimum": ({"minimum": 1}, [1, 1.0, 2, HUGE, "0", False, None, []], [0, 0.99, -HUGE]),
    "maximum": ({"maximum": 1}, [1, 1.0, 0, -HUGE, "2", True, {}], [2, 1.01, HUGE]),
    "exclusiveMinimum": ({"exclusiveMinimum": 1}, [1.01, 2, "1", True], [1, 1.0, 0]),
    "exclusiveMaximum": ({"exclusiveMaximum": 1}, [0.99, 0, "1", True], [1, 1.0, 2]),
    "multipleOf": ({"multipleOf": 3}, [0, 3, -6, 9.0, 3 * HUGE, "1", True], [1, 2.5, HUGE, 1e308]),
    "multipleOf a fraction": ({"multipleOf": 0.5}, [0, 1, 2.5, 1e300, "x", False], [0.3, 1.1]),
    "multipleOf as floats are": ({"multipleOf": 0.1}, [1, 0.5, 0.2], [0.3, 0.7, 1.05]),
    "minLength": ({"minLength": 2}, ["ab", "abc", SMILE * 2, 1, []], ["", "a", SMILE]),
    "maxLength": ({"maxLength": 1.0}, ["", "a", SMILE, 12, [1, 2]], ["ab", "e\u0301"]),
    "pattern": ({"pattern": "b+"}, ["abc", "b", 5, None], ["", "ac"]),
    "pattern, anchored": ({"pattern": "^a$"}, ["a", "a\n"], ["ab", "b\na"]),
    "minItems": ({"minItems": 2}, [[1, 2], [1, 2, 3], "a", {}], [[], [1]]),
    "maxItems": ({"maxItems": 1}, [[], [1], "ab", {"a": 1, "b": 2}], [[1, 2]]),
    "uniqueItems": (
        {"uniqueItems": True},
        [[], [1, True, "1"], [0, False], [[1], [True]], [{"a": 1}, {"a": 2}], "aa"],
        [[1, 1.0], [None, None], ["a", "b", "a"], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[True], [True]]],
    ),
    "uniqueItems, unwanted": ({"uniqueItems": False}, [[1, 1]], []),
    "items": ({"items": {"type": "integer"}}, [[], [1, 2], "a", {"a": "a"}], [["a"], [1, "a"]]),
    "items, none": ({"items": False}, [[]], [[1]]),
    "prefixItems": ({"prefixItems": [{"type": "string"}, False]}, [[], ["a"]], [[1], ["a", 1]]),
    "items after prefixItems": (
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        [[], ["a"], ["a", 1, 2]],
        [["a", "b"], [1]],
    ),
    "no items after prefixItems": ({"prefixItems": [True], "items": False}, [[], [1]], [[1, 2]]),
    "contains": ({"contains": {"type": "string"}}, [[1, "a"], ["a", "b"], {}], [[], [1]]),
    "minContains": ({"contains": {"type": "string"}, "minContains": 2}, [["a", 1, "b"]], [["a", 1], []]),
    "minContains, none": ({"contains": {"type": "string"}, "minContains": 0}, [[], [1], ["a"]], []),
    "maxContains": (
        {"contains": {"type": "string"}, "maxContains": 1},
        [["a"], ["a", 1]],
        [[], ["a", "b"]],
    ),
    "minContains alone": ({"minContains": 2, "maxContains": 0}, [[], [1]], []),
    "minProperties": ({"minProperties": 1}, [{"a": 1}, [], "", 0], [{}]),
    "maxProperties": ({"maxProperties": 1}, [{}, {"a": 1}, [1, 2]], [{"a": 1, "b": 2}]),
    "required": ({"required": ["a", "b"]}, [{"a": None, "b": 0, "c": 1}, [], "ab"], [{}, {"a": 1}]),
    "required, nothing": ({"required": []}, [{}], []),
    "properties": (
        {"properties": {"a": {"type": "integer"}, "b": False}},
        [{}, {"a": 1}, {"c": "x"}, ["a"]],
        [{"a": "x"}, {"b": 1}, {"a": 1, "b": 1}],
    ),
    "patternProperties": (
        {"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}}},
        [{}, {"a": 1}, {"ab": 5}, {"c": "x"}, {"b": "x"}],
        [{"a": "x"}, {"ab": 4}, {"ab": "x"}, {"c": 1, "cb": 1}],
    ),
    "additionalProperties": (
        {"properties": {"a": {}}, "additionalProperties": False},
        [{}, {"a": 1}, [], "b"],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    "additionalProperties, a schema": (
        {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
        [{}, {"a": "x", "b": 1}],
        [{"b": "x"}, {"a": 1, "b": 1, "c": "x"}],
    ),
    "additionalProperties, patterns": (
        {"patternProperties": {"^x": {}, "y$": {}}, "additionalProperties": False},
        [{}, {"x": 1}, {"xa": 1, "ay": 2}],
        [{"a": 1}, {"x": 1, "ya": 1}],
    ),
    "additionalProperties, names and patterns": (
        {
            "properties": {"a": {"type": "integer"}},
            "patternProperties": {"^x": {}},
            "additionalProperties": {"type": "null"},
        },
        [{"a": 1, "x": 1, "b": None}],
        [{"a": None}, {"b": 1}],
    ),
    "additionalProperties, the empty pattern": (
        {"patternProperties": {"": {}}, "additionalProperties": False},
        [{}],
        [{"a": 1}],  # the library's reading; the pattern does match
    ),
    "additionalProperties, groups": (
        {"patternProperties": {"(a)": {}, r"(b)\1": {}}, "additionalProperties": {"type": "null"}},
        [{"a": 1}, {"bb": None}],
        [{"bb": 1}],  # the library joins the patterns, so that \1 is the a
    ),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, [{}, {"a": "xx"}, ["xx"]], [{"aa": 1}]),
    "propertyNames, none": ({"propertyNames": False}, [{}], [{"": 1}]),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b", "c"], "d": []}},
        [{}, {"b": 1}, {"d": 1}, {"a": 1, "b": 1, "c": 1}, ["a"]],
        [{"a": 1}, {"a": None, "b": 1}],
    ),
    "dependentSchemas": (
        {"dependentSchemas": {"a": {"required": ["b"]}, "c": False}},
        [{}, {"b": 1}, {"a": 1, "b": 1}, "a"],
        [{"a": 1}, {"c": 1}],
    ),
}


@pytest.mark.parametrize(("schema", "fit", "do_not"), CASES.values(), ids=CASES)
def test_a_rule_takes_what_fits_and_nothing_else_as_the_library_does(schema, fit, do_not):
    jsonschema.Draft202012Validator.check_schema(schema)
    library, check = jsonschema.Draft202012Validator(schema).is_valid, compile_check(schema)
    values = [*fit, *do_not]
    assert [value for value in values if library(value)] == fit
    assert [value for value in values if check(value)] == fit
    # Negated too: "no" must mean no here, and not "cannot tell".
    check = compile_check({"not": schema})
    assert [value for value in values if check(value)] == do_not


@pytest.mark.parametrize("kind", ["null", "boolean", "integer", "number", "string", "array", "object"])
def test_a_rule_beside_a_type_is_what_it_is_for_the_library(kind):
    for schema, fit, do_not in CASES.values():
        for types in (kind, [kind, "string"], ["array", kind, "number"]):
            beside = {**schema, "type": types}
            library, check = jsonschema.Draft202012Validator(beside).is_valid, compile_check(beside)
            values = [None, True, 0, 1.5, "abc", [1, 1], {"c": 1}, *fit, *do_not]
            assert [*map(check, values)] == [*map(library, values)], beside


def test_there_is_a_case_for_every_rule():
    assert {name for rules in RULES.values() for name in rules} <= CASES.keys()


@pytest.mark.parametrize("first", [None, True, 1, 1.5, "a", [1], {"b": 1}])
@pytest.mark.parametrize("kind", [kind for kind in RULES if kind != "any"])
def test_a_rule_about_one_type_says_nothing_of_others(kind, first):
    schemas = [CASES[name][0] for name in RULES[kind]]
    is_kind = jsonschema.Draft202012Validator({"type": kind}).is_valid(first)
    assert is_kind or all(compile_check(schema)(first) for schema in schemas)
    assert is_kind or not any(compile_check({"type": kind, **schema})(first) for schema in schemas)


NUMBER, INTEGER = {"number"}, {"number", "integer"}
TYPES = [
    (None, {"null"}),
    *((value, {"boolean"}) for value in (True, False)),
    *((value, INTEGER) for value in (0, 1, -5, 1.0, -0.0, 1e300, HUGE)),
    *((value, NUMBER) for value in (1.5, -1e-300, float("inf"), Decimal(1), Fraction(1, 2))),
    *((value, {"string"}) for value in ("", "1", Text("a"))),
    *((value, {"array"}) for value in ([], [1], Array())),
    *((value, {"object"}) for value in ({}, {"a": 1}, OrderedDict())),
    *((value, set()) for value in ((), b"", object(), MappingProxyType({}), range(2))),
]
"""Values and the types they are of, in the library's eyes too."""


@pytest.mark.parametrize("name", ["null", "boolean", "integer", "number", "string", "array", "object"])
def test_a_type_takes_its_own_values(name):
    check, library = compile_check({"type": name}), jsonschema.Draft202012Validator({"type": name})
    assert [check(value) for value, _ in TYPES] == [name in names for _, names in TYPES]
    assert [library.is_valid(value) for value, _ in TYPES] == [name in names for _, names in TYPES]


def test_several_types_take_the_values_of_each():
    check = compile_check({"type": ["string", "null", "integer"], "minLength": 1, "minimum": 1})
    assert [*map(check, [None, "a", 1, 1.0])] == [True] * 4
    assert [*map(check, [True, "", 0, 1.5, [], {}])] == [False] * 6


@pytest.mark.parametrize("value", [Text("a"), (1,), Decimal(1), Colour.RED, Array([1]), OrderedDict(a=1)])
def test_a_value_that_is_only_like_one_of_json_is_never_taken_for_what_the_library_refuses(value):
    for schema, fit, do_not in CASES.values():
        for each in (schema, {"not": schema}, {"enum": [*fit, *do_not]}, {"not": {"enum": [*fit, "a", [1]]}}):
            library = jsonschema.Draft202012Validator(each)
            assert not compile_check(each)(value) or library.is_valid(value), each
