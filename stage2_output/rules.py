"""What each keyword of JSON Schema asks of a value, as a small function that says yes or no.

A rule takes what is written behind its keyword, the 2 of `{"minLength": 2}`, and returns a `Check`, here
`lambda value: len(value) >= 2`. The table at the end holds them all. A rule about strings is asked about
strings only: `checks.py`, which puts the rules of a schema together, sees to that. Knows neither references
nor drafts.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stage2_output.equality import are_unique, frozen

Check = Callable[[Any], bool]
"""Says whether a value is valid; raises something where it cannot tell."""

Compile = Callable[[Any], Check]
"""Makes a check of a schema."""

Rule = Callable[[Any, Mapping[str, Any], Compile], Check]
"""Makes a check of a keyword: from what is written behind it, the schema around it, and a way to go deeper."""


def anything(_: Any) -> bool:
    """The schema `true`."""
    return True


def nothing(_: Any) -> bool:
    """The schema `false`."""
    return False


def every(checks: Iterable[Check]) -> Check:
    """One check that asks several, and stops at the first no."""
    several = [check for check in checks if check is not anything]
    match several:
        case []:
            return anything
        case [only]:
            return only
        case [first, second]:
            return lambda value: first(value) and second(value)

    def check(value: Any) -> bool:
        for each in several:  # noqa: SIM110 - `all` would take twice as long
            if not each(value):
                return False
        return True

    return check


def some(checks: Iterable[Check]) -> Check:
    """One check that asks several, and stops at the first yes."""
    several = [*checks]

    def check(value: Any) -> bool:
        for each in several:  # noqa: SIM110 - `any` would take twice as long
            if each(value):
                return True
        return False

    return check


# ---- any value --------------------------------------------------------------------------------------------


def _enum(values: Iterable[Any], *_: Any) -> Check:
    allowed = frozenset(map(frozen, values))
    return lambda value: frozen(value) in allowed


def _const(value: Any, *_: Any) -> Check:
    return _enum([value])


def _all_of(schemas: list[Any], _: Any, compile: Compile) -> Check:
    return every(map(compile, schemas))


def _any_of(schemas: list[Any], _: Any, compile: Compile) -> Check:
    return some(map(compile, schemas))


def _one_of(schemas: list[Any], _: Any, compile: Compile) -> Check:
    checks = [*map(compile, schemas)]
    return lambda value: sum(check(value) for check in checks) == 1


def _not(schema: Any, _: Any, compile: Compile) -> Check:
    check = compile(schema)
    return lambda value: not check(value)


def _if(condition: Any, schema: Mapping[str, Any], compile: Compile) -> Check:
    check, then, other = map(compile, (condition, schema.get("then", True), schema.get("else", True)))
    return lambda value: then(value) if check(value) else other(value)


# ---- numbers and strings ----------------------------------------------------------------------------------


def _minimum(least: float, *_: Any) -> Check:
    return lambda value: not value < least


def _maximum(most: float, *_: Any) -> Check:
    return lambda value: not value > most


def _exclusive_minimum(limit: float, *_: Any) -> Check:
    return lambda value: not value <= limit


def _exclusive_maximum(limit: float, *_: Any) -> Check:
    return lambda value: not value >= limit


def _multiple_of(step: Any, *_: Any) -> Check:
    if not isinstance(step, float):
        return lambda value: not value % step

    def check(value: float) -> bool:
        quotient = value / step
        return int(quotient) == quotient

    return check


def _pattern(pattern: str, *_: Any) -> Check:
    search = re.compile(pattern).search
    return lambda text: search(text) is not None


def _min_size(least: float, *_: Any) -> Check:
    return lambda value: len(value) >= least


def _max_size(most: float, *_: Any) -> Check:
    return lambda value: len(value) <= most


# ---- arrays -----------------------------------------------------------------------------------------------


def _items(items: Any, schema: Mapping[str, Any], compile: Compile) -> Check:
    check, start = compile(items), len(schema.get("prefixItems", ()))
    return lambda value: all(map(check, value[start:] if start else value))


def _prefix_items(schemas: list[Any], _: Any, compile: Compile) -> Check:
    checks = [*map(compile, schemas)]
    return lambda value: all(check(item) for check, item in zip(checks, value, strict=False))


def _unique_items(wanted: bool, *_: Any) -> Check:
    return are_unique if wanted else anything


def _contains(item: Any, schema: Mapping[str, Any], compile: Compile) -> Check:
    check = compile(item)
    least, most = schema.get("minContains", 1), schema.get("maxContains", float("inf"))
    return lambda value: least <= sum(map(check, value)) <= most


# ---- objects ----------------------------------------------------------------------------------------------


def _properties(schemas: Mapping[str, Any], schema: Mapping[str, Any], compile: Compile) -> Check:
    check_of = {name: compile(each) for name, each in schemas.items()}.get
    others = compile(schema.get("additionalProperties", True)) if _goes_along(schema) else anything

    def check(value: dict[str, Any]) -> bool:
        for name, each in value.items():  # noqa: SIM110 - as above
            if not check_of(name, others)(each):
                return False
        return True

    return check


def _goes_along(schema: Mapping[str, Any]) -> bool:
    """Whether `additionalProperties` is seen to in the same pass as `properties`."""
    return "properties" in schema and "patternProperties" not in schema


def _pattern_properties(schemas: Mapping[str, Any], _: Any, compile: Compile) -> Check:
    checks = [(re.compile(pattern).search, compile(schema)) for pattern, schema in schemas.items()]
    return lambda value: all(
        fits(each) for name, each in value.items() for matches, fits in checks if matches(name)
    )


def _additional_properties(others: Any, schema: Mapping[str, Any], compile: Compile) -> Check:
    if _goes_along(schema):
        return anything
    fits, known = compile(others), frozenset(schema.get("properties", ()))
    pattern = "|".join(schema.get("patternProperties", ()))
    matches = re.compile(pattern).search if pattern else nothing
    return lambda value: all(
        fits(each) for name, each in value.items() if name not in known and not matches(name)
    )


def _property_names(schema: Any, _: Any, compile: Compile) -> Check:
    check = compile(schema)
    return lambda value: all(map(check, value))


def _required(names: Iterable[str], *_: Any) -> Check:
    needed = frozenset(names)
    return lambda value: value.keys() >= needed


def _dependent_required(names: Mapping[str, list[str]], *_: Any) -> Check:
    return _where_present({name: _required(needed) for name, needed in names.items()})


def _dependent_schemas(schemas: Mapping[str, Any], _: Any, compile: Compile) -> Check:
    return _where_present({name: compile(schema) for name, schema in schemas.items()})


def _where_present(checks: Mapping[str, Check]) -> Check:
    return lambda value: all(check(value) for name, check in checks.items() if name in value)


# ---- the table --------------------------------------------------------------------------------------------


RULES: dict[str, dict[str, Rule]] = {
    "any": {
        "enum": _enum,
        "const": _const,
        "allOf": _all_of,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _not,
        "if": _if,
    },
    "number": {
        "minimum": _minimum,
        "maximum": _maximum,
        "exclusiveMinimum": _exclusive_minimum,
        "exclusiveMaximum": _exclusive_maximum,
        "multipleOf": _multiple_of,
    },
    "string": {"minLength": _min_size, "maxLength": _max_size, "pattern": _pattern},
    "array": {
        "minItems": _min_size,
        "maxItems": _max_size,
        "uniqueItems": _unique_items,
        "items": _items,
        "prefixItems": _prefix_items,
        "contains": _contains,
    },
    "object": {
        "minProperties": _min_size,
        "maxProperties": _max_size,
        "required": _required,
        "additionalProperties": _additional_properties,
        "properties": _properties,
        "patternProperties": _pattern_properties,
        "propertyNames": _property_names,
        "dependentRequired": _dependent_required,
        "dependentSchemas": _dependent_schemas,
    },
}
"""The rules by the type they are about, in the order in which they are asked: the cheap ones first."""
