"""The `jsonschema` library, kept from working for ever on a value that was made to keep it busy.

Where each of several alternatives leads to the same alternatives again, as in a tree of sums and products, the
library takes twice as long for each level of a value. So it is made to be brief after a while, and stopped in the
end. Also, it tells here where a schema `false` stands. Knows the library's rules; used by `schema.py`.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from itertools import chain, islice
from typing import Any

from stage2_output.issues import MOST_FOUND, Issue

# Keywords under which the library loses the place of the schema `false`.
_LOSE_THE_PLACE = ("properties", "patternProperties", "prefixItems")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NOTHING: Mapping[str, Any] = {"not": {}}

# The library writes every value it refuses into a message, so its effort is told in characters.
_FOLLOWING = 5_000
"""What it costs to follow a reference, beside writing."""
_MOST = 3_000 * _FOLLOWING
"""What any value may cost, beside once for each part of it and each reference of the schema."""
_LONG = 500
"""References that are followed before the library is made to be brief."""

TOO_DEEP = Issue("", "is nested too deeply to be checked", "depth")
TOO_MANY_WAYS = Issue("", "is too deeply nested, with too many alternatives, to be checked", "depth")
TOO_LARGE = Issue("", "holds a number too large to be checked", "number")


class CannotBeChecked(Exception):
    """A value is more than the library can check."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


class _Effort:
    """What the library may still do for one value.

    Attributes:
        followed: How many references it followed.
    """

    def __init__(self, value: Any, references: int) -> None:
        self.followed = 0
        self._parts, self._sizes = 0, dict[int, int]()
        if references:
            self._measure(value)
        self._left = _MOST + _FOLLOWING * references * self._parts

    def follow(self, value: Any) -> None:
        """Count a reference."""
        self.followed += 1
        size = len(value) if isinstance(value, str) else self._sizes.get(id(value), 0)
        self._left -= _FOLLOWING + size
        if self._left < 0:
            raise CannotBeChecked(TOO_MANY_WAYS)

    def _measure(self, part: Any) -> int:
        self._parts += 1
        if isinstance(part, dict):
            size = sum(map(self._measure, chain(part, part.values())))
        elif isinstance(part, list):
            size = sum(map(self._measure, part))
        else:
            return len(part) if isinstance(part, str) else 1
        self._sizes[id(part)] = size
        return size


_EFFORT: ContextVar[_Effort] = ContextVar("_EFFORT")


@contextmanager
def bounds(value: Any, references: int) -> Iterator[None]:
    """In which the library may be asked about a value.

    Raises:
        CannotBeChecked: It takes too much.
    """
    token = None
    try:
        token = _EFFORT.set(_Effort(value, references))
        yield
    except RecursionError:
        raise CannotBeChecked(TOO_DEEP) from None
    except ArithmeticError:
        raise CannotBeChecked(TOO_LARGE) from None
    except ValueError:
        # The library asked for int(nan), or wrote thousands of digits into a message. Anything else is a bug.
        if not _has_a_monstrous_number(value):
            raise
        raise CannotBeChecked(TOO_LARGE) from None
    finally:
        if token is not None:
            _EFFORT.reset(token)


def _has_a_monstrous_number(value: Any) -> bool:
    """Whether there is one that is infinite, none at all, or too long to be written."""
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return True
        try:
            str(part if isinstance(part, int) else "")
        except ValueError:
            return True
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return False


@cache
def bounded(kind: Any) -> Any:
    """A kind of validator that does not take for ever, and knows where each schema `false` stands."""
    import jsonschema

    rules = kind.VALIDATORS
    own = {name: partial(_followed, rules[name]) for name in _REFERENCES if name in rules}
    own |= {name: partial(_placed, rules[name]) for name in _LOSE_THE_PLACE if name in rules}
    own["properties"] = partial(_briefly, own["properties"])
    own["items"] = partial(_first_errors, rules["items"])
    own["uniqueItems"] = partial(_unique, rules.get("uniqueItems"))
    extend: Any = jsonschema.validators.extend  # has no types
    return extend(kind, own)


# What follows stands in for rules of the library. What is handed through is not iterated over here: a generator
# more on each level, and values could be nested less deeply.


def _followed(rule: Any, validator: Any, reference: Any, value: Any, schema: Any) -> Any:
    """A reference, counted."""
    _EFFORT.get().follow(value)
    return rule(validator, reference, value, schema)


def _briefly(rule: Any, validator: Any, schemas: Any, value: Any, schema: Any) -> Any:
    """Properties; after a while none but the constants if one of them is wrong, as in the wrong alternative."""
    if _EFFORT.get().followed > _LONG:
        constants = {name: each for name, each in schemas.items() if _is_constant(each)}
        if errors := [*rule(validator, constants, value, schema)]:
            return errors
    return rule(validator, schemas, value, schema)


def _first_errors(rule: Any, validator: Any, schema: Any, value: Any, whole: Any) -> Any:
    """Errors of items, no more than are reported: inside `anyOf` the library collects all of them."""
    return islice(rule(validator, schema, value, whole), MOST_FOUND + 1)


def _is_constant(schema: Any) -> bool:
    return isinstance(schema, Mapping) and ("const" in schema or "enum" in schema)


def _placed(rule: Any, validator: Any, schemas: Any, value: Any, schema: Any) -> Any:
    """Several schemas by name or number, of which the library would lose the place of `false`."""
    named = isinstance(schemas, Mapping)
    if not any(each is False for each in (schemas.values() if named else schemas)):
        return rule(validator, schemas, value, schema)
    pairs = schemas.items() if named else enumerate(schemas)
    placed = {name: _NOTHING if each is False else each for name, each in pairs}
    return _as_false(rule(validator, placed if named else [*placed.values()], value, schema))


def _as_false(errors: Any) -> Iterator[Any]:
    for error in errors:
        if error.schema is _NOTHING:
            error.validator = error.validator_value = None
            error.schema = False
        yield error


def _unique(rule: Any, validator: Any, wanted: bool, value: Any, schema: Any) -> Iterator[Any]:
    """Unique items, without comparing each with each: 10,000 would take minutes."""
    import jsonschema

    from stage2_output.equality import CannotTell, are_unique

    try:
        if wanted and isinstance(value, list) and not are_unique(value):
            yield jsonschema.ValidationError("has equal items")
    except CannotTell:
        yield from rule(validator, wanted, value, schema)
