"""Keywords of JSON Schema with an implementation of our own.

Patterns are matched with a time limit. A reference is followed once for each part of a value: if
several alternatives lead to the same schema, the library would take twice as long for each level of
the value. `uniqueItems` takes linear time. An error of `required` leads to the name of the missing
property, which the library only writes into its message. The library evaluates all other keywords.
Used by `schema.py`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar

from stage2_output.validation.issues import MOST_ISSUES
from stage2_output.validation.json_values import frozen
from stage2_output.validation.patterns import matches, matches_any
from stage2_output.validation.property_errors import ValidationError

T = TypeVar("T")

_Errors = Iterable[ValidationError]

_FOLLOWED: ContextVar[dict[Hashable, list[ValidationError]]] = ContextVar("_FOLLOWED")
"""Errors behind each reference that was followed for a part of the current value."""


def follow_references_once(check: Callable[[Any], T], value: Any) -> T:
    """Check a value, and reuse the errors behind a reference during the check."""
    token = _FOLLOWED.set({})
    try:
        return check(value)
    finally:
        _FOLLOWED.reset(token)


@cache
def extended(validator_class: Any) -> Any:
    """Return a validator class of the library with the keywords of this module."""
    from jsonschema.validators import extend  # slow to import

    rules = validator_class.VALIDATORS
    own: dict[str, Any] = {name: rule for name, rule in _REPLACED.items() if name in rules}
    own |= {name: partial(rule, rules[name]) for name, rule in _WRAPPED.items() if name in rules}
    untyped_extend: Any = extend
    return untyped_extend(validator_class, own)


def _error(message: str, **position: Any) -> ValidationError:
    from jsonschema import ValidationError

    return ValidationError(message, **position)


def _resolver(validator: Any) -> Any:
    """Return the resolver of a validator, which knows the resources that were entered."""
    # This attribute, and the parameter `_resolver` of `evolve`, are private. The public `registry=`
    # sets the resolver of the root only, and a rule learns the entered resources in no other way.
    # If a version of the library renames them, values behind references "could not be checked",
    # and the tests of references fail.
    return validator._resolver


def _inner(validator: Any, schema: Any) -> Any:
    """Return a validator of an inner schema, which may be a resource with an `$id` of its own."""
    from referencing.jsonschema import specification_with  # slow to import

    resource = specification_with(validator.META_SCHEMA["$schema"]).create_resource(schema)
    return validator.evolve(schema=schema, _resolver=_resolver(validator).in_subresource(resource))


def _reference(rule: Any, validator: Any, reference: str, value: Any, schema: Any) -> _Errors:
    """Follow a reference, or repeat its errors for the same part of the value."""
    # The target of a dynamic reference depends on the entered resources, outermost first.
    scope = [uri for uri, _ in _resolver(validator).dynamic_scope()]
    key = (id(schema), id(value), *dict.fromkeys(reversed(scope)))
    followed = _FOLLOWED.get()
    if key not in followed:
        followed[key] = [*islice(rule(validator, reference, value, schema), MOST_ISSUES + 1)]
    # Copies, because the library adds positions to its errors.
    return [error.create_from(error) for error in followed[key]]


def _items(rule: Any, validator: Any, items: Any, value: Any, schema: Any) -> _Errors:
    """Yield the first errors of items; inside alternatives the library would collect all."""
    return islice(rule(validator, items, value, schema), MOST_ISSUES + 1)


def _unique_items(validator: Any, expected: bool, value: Any, schema: Any) -> _Errors:
    if expected and isinstance(value, list) and len(set(map(frozen, value))) < len(value):
        yield _error("has equal items")


def _required(validator: Any, names: list[str], value: Any, schema: Any) -> _Errors:
    """Report each missing property; `missing_property` reads its name from the error."""
    for index, name in enumerate(names if isinstance(value, dict) else ()):
        if name not in value:
            yield _error(f"lacks {name!r}", schema_path=[index])


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> _Errors:
    if isinstance(value, str) and not matches(pattern, value):
        yield _error(f"does not match {pattern!r}")


def _pattern_properties(validator: Any, schemas: Any, value: Any, schema: Any) -> _Errors:
    if not isinstance(value, dict):
        return
    for pattern, inner in schemas.items():
        for name in filter(partial(matches, pattern), value):
            yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _property_names(validator: Any, names: Any, value: Any, schema: Any) -> _Errors:
    name_validator = _inner(validator, names)
    for name in value if isinstance(value, dict) else ():
        if not name_validator.is_valid(name):
            yield _error("has an invalid name", path=[name])


def _additional_properties(
    rule: Any, validator: Any, others: Any, value: Any, schema: Any
) -> _Errors:
    """Apply the library's rule to the properties that match no pattern."""
    patterns = schema.get("patternProperties")
    if not patterns or not isinstance(value, dict):
        return rule(validator, others, value, schema)  # type: ignore[no-any-return]
    unmatched = {name: item for name, item in value.items() if not matches_any(patterns, name)}
    known = {"properties": schema.get("properties", {})}
    return rule(validator, others, unmatched, known)  # type: ignore[no-any-return]


def _unevaluated_properties(validator: Any, rule: Any, value: Any, schema: Any) -> _Errors:
    if not isinstance(value, dict):
        return
    evaluated = _evaluated_names(validator, value)
    # The library reports no position for the schema `false`.
    rule = {"not": {}} if rule is False else rule
    for name in value:
        if name not in evaluated:
            yield from validator.descend(value[name], rule, path=name)


def _evaluated_names(validator: Any, value: dict[str, Any]) -> set[str]:
    """Return the names of properties that a schema, or one for the same value, evaluates."""
    names: set[str] = set()
    seen: set[int] = set()
    pending = [validator]
    while pending:
        validator = pending.pop()
        schema = validator.schema
        if id(schema) in seen or not isinstance(schema, dict):
            continue
        seen.add(id(schema))
        patterns = schema.get("patternProperties", ())
        names |= value.keys() & schema.get("properties", {}).keys()
        names |= {name for name in value if matches_any(patterns, name)}
        for keyword in {"additionalProperties", "unevaluatedProperties"} & schema.keys():
            others = _inner(validator, schema[keyword])
            names |= {name for name in value if others.is_valid(value[name])}
        pending += _applied(validator, value)
    return names


def _applied(validator: Any, value: dict[str, Any]) -> Iterator[Any]:
    """Yield validators of the inner schemas that apply to the same value and accept it."""
    schema = validator.schema
    inner = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
    inner += [part for name, part in schema.get("dependentSchemas", {}).items() if name in value]
    if "if" in schema:
        holds = _inner(validator, schema["if"]).is_valid(value)
        inner += [schema["if"], schema.get("then", True)] if holds else [schema.get("else", True)]
    for part in inner:
        applied = _inner(validator, part)
        if applied.is_valid(value):
            yield applied
    for target in _targets(validator):
        yield validator.evolve(schema=target.contents, _resolver=target.resolver)


def _targets(validator: Any) -> Iterator[Any]:
    """Yield the targets of the references of a schema that its draft defines."""
    from referencing.jsonschema import lookup_recursive_ref  # slow to import

    resolver, schema = _resolver(validator), validator.schema
    for keyword in schema.keys() & validator.VALIDATORS.keys():
        if keyword in ("$ref", "$dynamicRef"):
            yield resolver.lookup(schema[keyword])
        elif keyword == "$recursiveRef":
            yield lookup_recursive_ref(resolver)


_REPLACED = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "required": _required,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
"""Rules that replace the library's."""

_WRAPPED = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "$recursiveRef": _reference,
    "additionalProperties": _additional_properties,
    "items": _items,
}
"""Rules that call the library's."""
