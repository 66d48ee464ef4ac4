"""Keywords of JSON Schema that are evaluated in another way than by the `jsonschema` library.

Patterns are matched with a time limit. A reference is followed only once for each part of a value:
where several alternatives lead to the same schema again, the library would take twice as long for
each level of the value. `uniqueItems` takes linear time. Everything else is left to the library.
Used by `schema.py`.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar

from jsonschema import ValidationError
from jsonschema.validators import extend
from referencing.jsonschema import lookup_recursive_ref

from stage2_output.validation.equality import frozen
from stage2_output.validation.issues import MOST_FOUND
from stage2_output.validation.patterns import matches, matches_any

T = TypeVar("T")

_Errors = Iterable[ValidationError]

_FOLLOWED: ContextVar[dict[Hashable, list[ValidationError]]] = ContextVar("_FOLLOWED")
"""The errors behind each reference that was followed for a part of the value that is being
checked."""


def follow_each_reference_once(check: Callable[[Any], T], value: Any) -> T:
    """Check a value, and keep what is found behind references until that is done."""
    token = _FOLLOWED.set({})
    try:
        return check(value)
    finally:
        _FOLLOWED.reset(token)


@cache
def extended(kind: Any) -> Any:
    """A validator class of the library with the keywords of this module."""
    rules = kind.VALIDATORS
    own: dict[str, Any] = {name: rule for name, rule in _OWN.items() if name in rules}
    own |= {name: partial(rule, rules[name]) for name, rule in _AROUND.items() if name in rules}
    extend_untyped: Any = extend
    return extend_untyped(kind, own)


def _reference(rule: Any, validator: Any, reference: str, value: Any, schema: Any) -> _Errors:
    """Follow a reference, or repeat what was found when it was followed for the same part of the
    value.
    """
    # What a dynamic reference leads to depends on the resources that were entered, the outermost
    # first.
    scope = [uri for uri, _ in validator._resolver.dynamic_scope()]
    key = (id(schema), id(value), *dict.fromkeys(reversed(scope)))
    followed = _FOLLOWED.get()
    if key not in followed:
        followed[key] = [*islice(rule(validator, reference, value, schema), MOST_FOUND + 1)]
    return map(
        ValidationError.create_from, followed[key]
    )  # copies: the library adds their place to them


def _items(rule: Any, validator: Any, items: Any, value: Any, schema: Any) -> _Errors:
    """The first errors of items: within alternatives the library would collect all of them."""
    return islice(rule(validator, items, value, schema), MOST_FOUND + 1)


def _unique_items(validator: Any, wanted: bool, value: Any, schema: Any) -> _Errors:
    if wanted and isinstance(value, list) and len(set(map(frozen, value))) < len(value):
        yield ValidationError("has equal items")


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> _Errors:
    if isinstance(value, str) and not matches(pattern, value):
        yield ValidationError(f"does not match {pattern!r}")


def _pattern_properties(
    validator: Any, schemas: Mapping[str, Any], value: Any, schema: Any
) -> _Errors:
    if not isinstance(value, dict):
        return
    for pattern, each in schemas.items():
        for name in filter(partial(matches, pattern), value):
            yield from validator.descend(value[name], each, path=name, schema_path=pattern)


def _additional_properties(
    rule: Any, validator: Any, others: Any, value: Any, schema: Any
) -> _Errors:
    """The library's rule, without the properties that match a pattern."""
    patterns = schema.get("patternProperties")
    if not patterns or not isinstance(value, dict):
        return rule(validator, others, value, schema)  # type: ignore[no-any-return]
    unmatched = {name: each for name, each in value.items() if not matches_any(patterns, name)}
    known = {"properties": schema.get("properties", {})}
    return rule(validator, others, unmatched, known)  # type: ignore[no-any-return]


def _unevaluated_properties(validator: Any, rule: Any, value: Any, schema: Any) -> _Errors:
    if not isinstance(value, dict):
        return
    evaluated = _evaluated_names(validator, value)
    if names := [name for name in value if name not in evaluated]:
        yield ValidationError(json.dumps(names))  # `keys.py` reads them


def _evaluated_names(validator: Any, value: dict[str, Any]) -> set[str]:
    """The names of properties that a schema, or one that applies to the same value, says something
    about.
    """
    names: set[str] = set()
    seen: set[int] = set()
    todo = [validator]
    while todo:
        validator = todo.pop()
        schema = validator.schema
        if id(schema) in seen or not isinstance(schema, dict):
            continue
        seen.add(id(schema))
        patterns = schema.get("patternProperties", ())
        names |= value.keys() & schema.get("properties", {}).keys()
        names |= {name for name in value if matches_any(patterns, name)}
        for keyword in {"additionalProperties", "unevaluatedProperties"} & schema.keys():
            others = validator.evolve(schema=schema[keyword])
            names |= {name for name in value if others.is_valid(value[name])}
        todo += _applied(validator, value)
    return names


def _applied(validator: Any, value: dict[str, Any]) -> Iterator[Any]:
    """Validators of the inner schemas that apply to the same value and accept it."""
    schema = validator.schema
    inner = [each for keyword in ("allOf", "anyOf", "oneOf") for each in schema.get(keyword, ())]
    inner += [each for name, each in schema.get("dependentSchemas", {}).items() if name in value]
    if "if" in schema:
        holds = validator.evolve(schema=schema["if"]).is_valid(value)
        inner += [schema["if"], schema.get("then", True)] if holds else [schema.get("else", True)]
    for each in inner:
        applied = validator.evolve(schema=each)
        if applied.is_valid(value):
            yield applied
    targets = [
        validator._resolver.lookup(schema[name])
        for name in ("$ref", "$dynamicRef")
        if name in schema
    ]
    if "$recursiveRef" in schema:
        targets.append(lookup_recursive_ref(validator._resolver))
    for target in targets:
        yield validator.evolve(schema=target.contents, _resolver=target.resolver)


_OWN = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
"""Rules that replace the library's."""

_AROUND = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "$recursiveRef": _reference,
    "additionalProperties": _additional_properties,
    "items": _items,
}
"""Rules that call the library's."""
