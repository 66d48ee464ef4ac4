"""Of several alternatives that a value does not fit: which was meant, or else what they have in
common.

    {"anyOf": [{"type": "null"}, {"type": "object", "required": ["n"]}]}    {}    -> `n` is missing
    {"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}         "c"    -> "a", "b" or null

Knows the shape of the `jsonschema` library's errors, and not how anything is said; used by
`issues.py`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from stage2_output.validation.property_errors import ValidationError

Branch = list[ValidationError]
"""What is wrong with a value if one alternative was meant."""

_DEEPEST = 20  # alternatives in alternatives; nobody writes more by hand


class Choice(NamedTuple):
    """What several alternatives want at one place.

    Attributes:
        error: One of the errors, for its place and what stands there.
        values: The constants, of which any will do.
        types: The types, of which any will do.
    """

    error: ValidationError
    values: list[Any]
    types: list[str]


def branches_of(error: ValidationError, depth: int = 0) -> Iterator[Branch]:
    """The errors of an `anyOf` or `oneOf` by alternative; alternatives of alternatives are
    alternatives, too.
    """
    branches: dict[Any, Branch] = {}
    for each in error.context:
        branches.setdefault(each.schema_path[0] if each.schema_path else None, []).append(each)
    if len(branches) > 1:
        branches.pop(
            None, None
        )  # a schema `false`, of which the library tells no number: nothing can fit it
    for branch in branches.values():
        only = branch[0]
        if len(branch) == 1 and only.context and not only.path and depth < _DEEPEST:
            yield from branches_of(only, depth + 1)
        else:
            yield branch


def closest(branches: list[Branch]) -> tuple[Branch, bool]:
    """What to tell, and whether it is clear that this alternative was meant.

    Of several that are equally close it is the errors they share, or those of the first.
    """
    best = max(map(_closeness, branches))
    first, *others = [branch for branch in branches if _closeness(branch) == best]
    shared = set(map(_key, first)).intersection(*({*map(_key, branch)} for branch in others))
    return [error for error in first if _key(error) in shared] or first, not others


def possible(branches: list[Branch]) -> list[Branch]:
    """The alternatives that want something of the value's type."""
    return [
        branch
        for branch in branches
        if all(e.path or e.validator not in ("type", None) for e in branch)
    ]


def choice(branches: list[Branch]) -> Choice | None:
    """What may stand at the one place where every alternative wants something else, if there is
    such a place.
    """
    best = max(branches, key=_closeness)
    typed = possible(branches)
    decided = _right_constant(best) and not all(map(_right_constant, typed))
    places, typed_places = [*map(_by_place, branches)], [*map(_by_place, typed)]
    for error in best:
        if error.validator not in ("type", "enum", "const") or len(error.path) > 1:
            continue
        asked = typed_places if error.path else places
        at_it = [each.get((*error.path,), []) for each in asked]
        if error.path and (decided or len(asked) < 2 or not all(map(_constants, at_it))):
            continue  # a property of one alternative, and not what tells the alternatives apart
        values = [value for branch in at_it for value in _constants(branch)]
        types = [name for branch in at_it if not _constants(branch) for name in _types(branch)]
        return Choice(error, _each_once(values), _each_once(types))
    return None


def _by_place(branch: Branch) -> dict[tuple[Any, ...], Branch]:
    """The errors of a branch, grouped by the place of the value that they are about."""
    places: dict[tuple[Any, ...], Branch] = {}
    for error in branch:
        places.setdefault((*error.path,), []).append(error)
    return places


def _closeness(branch: Branch) -> tuple[bool, bool, int, int]:
    """The branch that was meant has the right type and constant; the value comes far into it;
    little is wrong.
    """
    depth = max(len(error.path) for error in branch)
    return (bool(possible([branch])), _right_constant(branch), depth, -len(branch))


def _right_constant(branch: Branch) -> bool:
    return not any(len(error.path) <= 1 and _is_constant(error) for error in branch)


def _is_constant(error: ValidationError) -> bool:
    """An `enum` of one value is a constant; one of several may just as well be a wrong answer."""
    return error.validator == "const" or (
        error.validator == "enum" and len(error.validator_value) == 1
    )


def _constants(branch: Branch) -> list[Any]:
    found: list[Any] = []
    for error in branch:
        if error.validator in ("const", "enum"):
            found += (
                [error.validator_value] if error.validator == "const" else error.validator_value
            )
    return found


def _types(branch: Branch) -> list[str]:
    named = [error.validator_value for error in branch if error.validator == "type"]
    return [name for each in named for name in (each if isinstance(each, list) else [each])]


def _each_once(values: list[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for value in values:
        seen.setdefault(repr(value), value)
    return [*seen.values()]


def _key(error: ValidationError) -> tuple[Any, ...]:
    return (tuple(error.path), error.validator, error.message)
