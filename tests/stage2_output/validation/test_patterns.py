"""Slow patterns are stopped, and patterns have the syntax of the `regex` library."""

from contextlib import contextmanager

import pytest

from stage2_output import CompiledSchema, InvalidSchema, Issue, OutputController
from stage2_output.types.coercion import coerce_types
from stage2_output.validation import patterns
from tests.stage2_output.schemas import DRAFT4, DRAFT2020, INTEGER
from tests.tables import for_each

SLOW = r"^(\w+\s?)*$"
NAME = "a" * 20_000 + "!"
NOT_IN_TIME = (
    Issue("", "could not be checked in time: matching its patterns takes too long", "pattern"),
)
SLOW_SCHEMAS = {
    "pattern": ({"pattern": SLOW}, NAME),
    "in an older draft": (
        {"$schema": DRAFT4, "pattern": SLOW},
        NAME,
    ),
    "in an inner schema that names its draft": (
        {"items": {"$schema": DRAFT2020, "pattern": SLOW}},
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
}


@contextmanager
def short_limit():
    """Stop slow patterns after a few milliseconds; without a limit, they would take years."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(patterns, "MOST_SECONDS", 0.005)
        yield


@for_each("schema, value", SLOW_SCHEMAS.values())
def test_a_pattern_that_takes_too_long_is_an_issue(schema, value):
    compiled = CompiledSchema(schema)
    with short_limit():
        assert compiled.issues(value) == NOT_IN_TIME
        assert not compiled.fits(value)


@for_each("coerce", [False, True])
def test_all_values_of_a_text_share_one_time_limit(coerce):
    schema = {"properties": {"a": {"pattern": SLOW}, "b": INTEGER}, "required": ["a", "b"]}
    controller = OutputController()
    fits, slow = '{"a": "two words", "b": 1}', f'{{"a": "{NAME}", "b": 1}}'
    assert controller.parse_and_validate(fits, schema, coerce=coerce).success
    with short_limit():  # the last value is checked first, and leaves no time for the other one
        result = controller.parse_and_validate(f"{fits}\n{slow}", schema, coerce=coerce)
    assert result.errors == NOT_IN_TIME


def test_all_parts_of_a_value_that_is_coerced_share_one_time_limit():
    five = {"anyOf": [{"type": "string", "pattern": "^5$"}]}
    compiled = CompiledSchema({"properties": {"a": {"anyOf": [{"pattern": SLOW}]}, "b": five}})
    assert coerce_types({"b": 5}, compiled) == ({"b": "5"}, ("/b: integer to string",))
    with short_limit():
        assert coerce_types({"a": NAME, "b": 5}, compiled) == ({"a": NAME, "b": 5}, ())


def test_each_value_has_its_own_time_limit():
    compiled = CompiledSchema({"pattern": SLOW})
    with short_limit():
        assert compiled.issues(NAME) == NOT_IN_TIME
    assert compiled.issues("two words") == ()


@for_each(
    "pattern, matching, other",
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
