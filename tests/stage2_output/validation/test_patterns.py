"""Slow patterns are stopped, and exceptions of libraries become issues."""

import json
import math
from time import thread_time

import pytest

from stage2_output import CompiledSchema, InvalidSchema, Issue, OutputController
from tests.tables import for_each

SLOW = r"^(\w+\s?)*$"
NAME = "a" * 20_000 + "!"
NOT_IN_TIME = (
    Issue("", "could not be checked in time: matching its patterns takes too long", "pattern"),
)
SLOW_SCHEMAS = {
    "pattern": ({"pattern": SLOW}, NAME),
    "in an older draft": (
        {"$schema": "http://json-schema.org/draft-04/schema#", "pattern": SLOW},
        NAME,
    ),
    "in an inner schema that names its draft": (
        {"items": {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": SLOW}},
        [NAME],
    ),
    "patternProperties": ({"patternProperties": {SLOW: {}}}, {NAME: 1}),
    "propertyNames": ({"propertyNames": {"pattern": SLOW}}, {NAME: 1}),
    "additionalProperties": (
        {"patternProperties": {SLOW: {}}, "additionalProperties": False},
        {NAME: 1},
    ),
    "unevaluatedProperties": (
        {"allOf": [{"patternProperties": {SLOW: {}}}], "unevaluatedProperties": False},
        {NAME: 1},
    ),
    "not": ({"not": {"pattern": SLOW}}, NAME),
    "many properties": (
        {"additionalProperties": {"pattern": SLOW}},
        {str(n): NAME for n in range(1000)},
    ),
}


@pytest.mark.parametrize(("schema", "value"), SLOW_SCHEMAS.values(), ids=SLOW_SCHEMAS)
def test_a_pattern_that_takes_too_long_is_an_issue(schema, value):
    compiled, start = CompiledSchema(schema), thread_time()
    assert compiled.issues(value) == NOT_IN_TIME
    assert not compiled.fits(value)
    assert thread_time() - start < 2  # without the limit, it would take years


@pytest.mark.parametrize("coerce", [False, True])
def test_all_values_of_a_text_share_one_time_limit(coerce):
    schema = {
        "properties": {"a": {"pattern": SLOW}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    text = f"{json.dumps({'a': NAME, 'b': '1'})}\n" * 200
    start = thread_time()
    assert not OutputController().parse_and_validate(text, schema, coerce=coerce).success
    assert thread_time() - start < 3


def test_each_value_has_its_own_time_limit():
    compiled = CompiledSchema({"pattern": SLOW})
    assert compiled.issues(NAME) == NOT_IN_TIME
    assert compiled.issues("two words") == ()


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^\p{L}+$", "é", "1"),
        (r"^(?<n>a)$", "a", "b"),
        (r"(?P<n>a)|(?P<n>b)", "b", "c"),
        (r"[[a]", "[", "b"),
        (r"^[a-z--]+$", "a-", "A"),
        (r"a++b", "aab", "aa"),
        (r"^a$", "a\n", "a\nb"),
    ],
)
def test_a_pattern_has_the_syntax_of_the_regex_library(pattern, matching, other):
    compiled = CompiledSchema({"pattern": pattern})
    assert compiled.fits(matching)
    assert not compiled.fits(other)
    keys = CompiledSchema({"patternProperties": {pattern: {}}, "additionalProperties": False})
    assert keys.fits({matching: 1})
    assert [issue.path for issue in keys.issues({other: 1})] == ["/" + other]


@for_each("pattern", ["(", "[a--b]", r"\L<x>", r"\x{41}", "a{99999999999}"])
@for_each("keyword", ["pattern", "patternProperties"])
def test_an_invalid_pattern_is_rejected(pattern, keyword):
    part = {"pattern": pattern} if keyword == "pattern" else {"patternProperties": {pattern: {}}}
    with pytest.raises(InvalidSchema, match="an invalid pattern"):
        CompiledSchema({"properties": {"a": part}})


def test_a_property_may_be_named_like_a_keyword():
    compiled = CompiledSchema(
        {"properties": {"pattern": {"type": "string"}, "$schema": {"type": "string"}}}
    )
    assert compiled.issues({"pattern": "(", "$schema": "x"}) == ()
    assert [issue.path for issue in compiled.issues({"pattern": 1, "$schema": 1})] == [
        "/$schema",
        "/pattern",
    ]


# ---- unevaluated properties
# -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "unknown"),
    [
        ({"allOf": [{"properties": {"a": {}}}]}, {"a": 1, "b": 1}, ["/b"]),
        ({"allOf": [{"patternProperties": {"^a": {}}}]}, {"ab": 1, "b": 1}, ["/b"]),
        (
            {"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}}]},
            {"a": 1, "b": 1},
            ["/a"],
        ),
        (
            {"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": {}}}},
            {"a": 1, "b": 1},
            [],
        ),
        ({"if": {"required": ["a"]}, "else": {"properties": {"b": {}}}}, {"b": 1, "c": 1}, ["/c"]),
        (
            {"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}},
            {"a": 1, "b": 1, "c": 1},
            ["/c"],
        ),
        (
            {"$ref": "#/$defs/s", "$defs": {"s": {"properties": {"a": {}}}}},
            {"a": 1, "b": 1},
            ["/b"],
        ),
        ({"oneOf": [{"additionalProperties": {"type": "integer"}}]}, {"a": 1}, []),
        ({"allOf": [True]}, {"a\"'": 1, "é": 1}, ["/a\"'", "/é"]),
    ],
)
def test_properties_that_no_inner_schema_evaluates_are_unknown(schema, value, unknown):
    compiled = CompiledSchema({**schema, "unevaluatedProperties": False})
    assert [issue.path for issue in compiled.issues(value)] == unknown
    assert compiled.fits(value) is (unknown == [])


# ---- exceptions of libraries
# --------------------------------------------------------------------------------

DEEP = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"not": {"$ref": "#"}}, 1),
        ({"anyOf": [{"$ref": "#"}, {}]}, 1),
        ({"type": "array", "items": {"$ref": "#"}}, DEEP),
        ({"const": 1}, DEEP),
        ({"uniqueItems": True}, [{1}, {2}]),
        ({"multipleOf": 0.3}, 10**400),
        ({"multipleOf": 0.3}, math.nan),
        ({"patternProperties": {"a": {}}, "additionalProperties": False}, {1: 1, "b": 2}),
    ],
    ids=["not itself", "itself", "deep", "deep constant", "sets", "large", "nan", "keys"],
)
def test_a_value_that_cannot_be_checked_is_one_clear_issue(schema, value):
    compiled = CompiledSchema(schema)
    [issue] = compiled.issues(value)
    assert issue.path == ""
    assert "checked" in issue.message or schema.keys() == {"const"}
    assert not compiled.fits(value)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "string", "pattern": "a"}, "\ud800", False),
        ({"maxLength": 1}, "\ud800", True),
        ({"additionalProperties": {"type": "integer"}}, {1: 2}, True),
        ({"additionalProperties": {"pattern": "a"}}, {1: "b"}, False),
        ({"propertyNames": {"pattern": "a"}}, {"\ud800": 2}, False),
        ({"multipleOf": 10**400}, 5, False),
        ({"multipleOf": 10**400}, 10**400, True),
        ({"maximum": 5}, 10**400, False),
    ],
)
def test_unusual_values_are_checked(schema, value, fits):
    compiled = CompiledSchema(schema)
    assert compiled.fits(value) is fits
    assert (compiled.issues(value) == ()) is fits


@pytest.mark.parametrize(
    "schema",
    [{1: 2}, {"properties": {1: {}}}, {"type": {"a": 1}}, {"$ref": "#/enum/0", "enum": [5]}],
)
def test_an_invalid_schema_is_rejected_or_works(schema):
    try:
        compiled = CompiledSchema(schema)
    except InvalidSchema:
        return
    assert compiled.fits({}) in (True, False)
