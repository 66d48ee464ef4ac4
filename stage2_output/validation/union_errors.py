"""Choose what to report when a value fits no alternative of `anyOf` or `oneOf`.

    {"anyOf": [{"type": "null"}, {"type": "object", "required": ["n"]}]}    {}    -> `n` is missing
    {"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}         "c"    -> "a", "b" or null

This module knows the errors of the `jsonschema` library, and not how they are described. Used by
`issues.py`.
"""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from stage2_output.validation.property_errors import ObjectKeys, ValidationError, missing_property

Branch = list[ValidationError]
"""The errors of a value for one alternative."""

_MOST_LEVELS = 20  # of nested alternatives


class Choice(NamedTuple):
    """The values and types that several alternatives allow at one position.

    Attributes:
        error: One of the errors, for its position and the invalid value.
        values: The allowed constants.
        types: The allowed types.
    """

    error: ValidationError
    values: list[Any]
    types: list[str]


def branches_of(error: ValidationError, depth: int = 0) -> Iterator[Branch]:
    """Yield the errors of an `anyOf` or `oneOf` by alternative; nested alternatives are merged."""
    branches: dict[Any, Branch] = {}
    for inner in error.context:
        index = inner.schema_path[0] if inner.schema_path else None
        branches.setdefault(index, []).append(inner)
    if len(branches) > 1:
        branches.pop(None, None)  # a schema `false`, which the library reports without an index
    for branch in branches.values():
        only = branch[0]
        if len(branch) == 1 and only.context and not only.path and depth < _MOST_LEVELS:
            yield from branches_of(only, depth + 1)
        else:
            yield branch


def closest(branches: list[Branch]) -> tuple[Branch, bool]:
    """Return the errors to report, and whether one alternative was clearly meant.

    If several alternatives are equally close, the errors they share are reported, or those of the
    first one.
    """
    best = max(map(_closeness, branches))
    first, *others = [branch for branch in branches if _closeness(branch) == best]
    shared = set(map(_identity, first)).intersection(*(map(_identity, branch) for branch in others))
    return [error for error in first if _identity(error) in shared] or first, not others


def possible(branches: list[Branch]) -> list[Branch]:
    """Return the alternatives that allow the value's type."""
    return [
        branch
        for branch in branches
        if all(error.path or error.validator not in ("type", None) for error in branch)
    ]


def choice(branches: list[Branch]) -> Choice | None:
    """Return the allowed values at the one position where all alternatives differ, if any."""
    best = max(branches, key=_closeness)
    typed = possible(branches)
    is_decided = _has_right_constant(best) and not all(map(_has_right_constant, typed))
    by_path, typed_by_path = [*map(_by_path, branches)], [*map(_by_path, typed)]
    for error in best:
        if error.validator not in ("type", "enum", "const") or len(error.path) > 1:
            continue
        path = (*error.path,)
        at_path = [errors.get(path, []) for errors in (typed_by_path if path else by_path)]
        if path and (is_decided or len(at_path) < 2 or not all(map(_constants, at_path))):
            continue  # a property of one alternative, which does not distinguish the alternatives
        values = [value for branch in at_path for value in _constants(branch)]
        types = [name for branch in at_path if not _constants(branch) for name in _types(branch)]
        return Choice(error, _unique(values), _unique(types))
    return None


def _by_path(branch: Branch) -> dict[tuple[Any, ...], Branch]:
    """Group the errors of a branch by the position of the value."""
    groups: dict[tuple[Any, ...], Branch] = {}
    for error in branch:
        groups.setdefault((*error.path,), []).append(error)
    return groups


def _closeness(branch: Branch) -> tuple[bool, bool, int, int]:
    """Return a sort key: right type, right constant, a deep position, and few errors are close."""
    depth = max(len(error.path) for error in branch)
    return bool(possible([branch])), _has_right_constant(branch), depth, -len(branch)


def _has_right_constant(branch: Branch) -> bool:
    # An `enum` of one value is a constant; with several values it may be a wrong answer.
    return not any(len(error.path) <= 1 and len(_constants([error])) == 1 for error in branch)


def _constants(branch: Branch) -> list[Any]:
    found: list[Any] = []
    for error in branch:
        if error.validator == "const":
            found.append(error.validator_value)
        elif error.validator == "enum":
            found += error.validator_value
    return found


def _types(branch: Branch) -> list[str]:
    types = [error.validator_value for error in branch if error.validator == "type"]
    return [name for names in types for name in (names if isinstance(names, list) else [names])]


def _unique(values: list[Any]) -> list[Any]:
    return [*{repr(value): value for value in values}.values()]


def _identity(error: ValidationError) -> Hashable:
    """Return what equal errors of two alternatives share: position, keyword and expectation."""
    expected = error.validator_value
    if error.validator == "required" and isinstance(expected, list):
        expected = missing_property(error)
    elif error.validator == "additionalProperties":
        expected = ObjectKeys(error).unknown
    return (*error.path,), error.validator, repr(expected)
