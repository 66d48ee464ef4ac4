"""The keys of an object beside those its schema knows: which are missing, unknown, and meant for
each other.

Knows the shape of the `jsonschema` library's errors, and not how anything is said; used by
`issues.py`.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from stage2_output.validation.patterns import matches_any
from stage2_output.validation.suggestions import likeness, nearest

MOST_NAMES = 20
"""Unknown properties that are named one by one; comparing names costs time, and more would not be
read."""

ValidationError = Any
"""`jsonschema.ValidationError`, whose type stubs call every attribute possibly unset."""

_MOST_UNSENT = 100  # of a schema with very many properties not all are compared

_CLEARLY = 0.12  # by so much nearer to a property that need not be there than to a missing one

_CLASSES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}

# Schemas in these hold for the same object. What stands behind a `$ref` is not looked up.
_ALSO = ("allOf", "anyOf", "oneOf", "if", "then", "else")


class Keys:
    """What can be said of an object's keys; worked out when asked, and once for all errors about
    them.

    Args:
        error: Any of the library's errors about the keys.

    Attributes:
        received: The object.
    """

    def __init__(self, error: ValidationError) -> None:
        self.received: dict[str, Any] = error.instance
        self._schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
        # Which keys other schemas know was found out by `keywords.py`; its message holds the
        # others.
        self._unevaluated = error.message if error.validator == "unevaluatedProperties" else None

    @cached_property
    def known(self) -> dict[str, Any]:
        """The schemas of the known properties."""
        found: dict[str, Any] = {}
        for schema in self._schemas() if self._unevaluated else [self._schema]:
            properties = schema.get("properties")
            found |= properties if isinstance(properties, dict) else {}
        return found

    @cached_property
    def missing(self) -> dict[str, str]:
        """The names of missing properties, by the message in which the library hides each."""
        required = [name for name in self._schema.get("required", ()) if name not in self.received]
        return {f"{name!r} is a required property": name for name in required}

    @cached_property
    def strangers(self) -> list[str]:
        """The keys the schema does not know."""
        if self._unevaluated:
            return json.loads(self._unevaluated)  # type: ignore[no-any-return]
        strangers = [name for name in self.received if name not in self.known]
        patterns = self._schema.get("patternProperties", ())
        return [name for name in strangers if not matches_any(patterns, name)]

    @cached_property
    def meant(self) -> dict[str, str]:
        """For a missing property the unknown one that was probably meant for it; each at most
        once.
        """
        if not self.known:
            return {}
        strangers = self.strangers[:MOST_NAMES]
        missing = [*islice(self.missing.values(), MOST_NAMES)]
        optional = [name for name in islice(self.unsent, _MOST_UNSENT) if name not in missing]
        others = {each: nearest(each, optional) for each in strangers} if missing else {}
        found = _pairs(missing, strangers, others)
        left = [name for name in missing if name not in found]
        free = [each for each in strangers if each not in found.values()]
        if len(left) == len(free) == 1 and not others[free[0]]:
            [name], [stranger] = (
                left,
                free,
            )  # one is missing and one is unknown: they mean each other
            if _has_type(self.received[stranger], self.known.get(name)):
                found[name] = stranger
        return found

    @cached_property
    def unsent(self) -> list[str]:
        """The known properties that were not received."""
        return [name for name in self.known if name not in self.received]

    def _schemas(self) -> Iterator[dict[str, Any]]:
        """The schema and those within it that hold for the same object."""
        todo: list[Any] = [self._schema]
        while todo:
            schema = todo.pop(0)
            if isinstance(schema, dict):
                yield schema
                for keyword in _ALSO:
                    inner = schema.get(keyword)
                    todo += inner if isinstance(inner, list) else [inner]


def _pairs(
    missing: list[str], strangers: list[str], others: dict[str, str | None]
) -> dict[str, str]:
    """The missing and unknown names that are near, each once: the nearest first, then those with no
    choice.

    Args:
        missing: The missing names.
        strangers: The unknown names.
        others: For each unknown name a property it is near to that need not be there.
    """
    near = {(name, each): likeness(each, name) for name in missing for each in strangers}
    for (name, each), like in [*near.items()]:
        other = others[each]
        if not like or (other is not None and likeness(each, other) > like + _CLEARLY):
            del near[name, each]

    def place(pair: tuple[str, str]) -> tuple[float, int]:
        rivals = [
            like for (name, each), like in near.items() if (name == pair[0]) != (each == pair[1])
        ]
        return -near[pair], sum(like >= near[pair] for like in rivals)

    found: dict[str, str] = {}
    for name, each in sorted(near, key=place):
        if name not in found and each not in found.values():
            found[name] = each
    return found


def _has_type(value: Any, schema: Any) -> bool:
    """Whether a value may be meant for a schema; where it cannot be seen at once, it may."""
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(wanted, str) or wanted not in _CLASSES:
        return True
    return isinstance(value, _CLASSES[wanted]) and (wanted == "boolean") == isinstance(value, bool)
