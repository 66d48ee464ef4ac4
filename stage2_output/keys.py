"""The keys of an object beside those its schema knows: which are missing, unknown, and meant for each other.

Knows the shape of the `jsonschema` library's errors, and not how anything is said; used by `issues.py`.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from stage2_output.names import nearest

MOST_NAMES = 20
"""Unknown properties that are named one by one; comparing names costs time, and more would not be read."""

ValidationError = Any
"""`jsonschema.ValidationError`, whose type stubs call every attribute possibly unset."""

# Schemas in these hold for the same object. What stands behind a `$ref` is not looked up.
_ALSO = ("allOf", "anyOf", "oneOf", "if", "then", "else")


class Keys:
    """What can be said of an object's keys; worked out when asked, and once for all errors about them.

    Args:
        error: Any of the library's errors about the keys.

    Attributes:
        received: The object.
    """

    def __init__(self, error: ValidationError) -> None:
        self.received: dict[str, Any] = error.instance
        self._schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
        # Which keys other schemas know is known to the library only; it tells the others in its message.
        self._told = error.message if error.validator == "unevaluatedProperties" else None
        self._only_known = error.validator_value is False

    @cached_property
    def known(self) -> dict[str, Any]:
        """The schemas of the known properties."""
        found: dict[str, Any] = {}
        for schema in self._schemas() if self._told else [self._schema]:
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
        if self._told:
            return [*self._names_told(self._told)]
        strangers = [name for name in self.received if name not in self.known]
        patterns = [re.compile(pattern) for pattern in self._schema.get("patternProperties", ())]
        return [name for name in strangers if not any(pattern.search(name) for pattern in patterns)]

    @cached_property
    def meant(self) -> dict[str, str]:
        """For a missing property the unknown one that was probably meant for it."""
        if not self.known:
            return {}
        strangers = self.strangers[:MOST_NAMES]
        missing = [*islice(self.missing.values(), MOST_NAMES)]
        if len(missing) == len(strangers) == 1:
            return {missing[0]: strangers[0]}  # one is missing and one is unknown: they mean each other
        return {name: near for name in missing if (near := nearest(name, strangers)) is not None}

    def _names_told(self, message: str) -> Iterator[str]:
        """The keys that the library names, in brackets and one behind the other, as Python would print them."""
        place = message.find("(") + 1
        in_order = sorted(self.received) if self._only_known else self.received
        for name in in_order:
            if message.startswith(repr(name), place):
                yield name
                place += len(repr(name)) + len(", ")

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
