"""Compare the keys of an object with those of its schema: missing, unknown, and probably meant.

This module knows the errors of the `jsonschema` library, and not how they are described. Used by
`issues.py`.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from stage2_output.validation.json_values import has_type
from stage2_output.validation.patterns import matches_any
from stage2_output.validation.suggestions import nearest, similarity

MOST_NAMES = 20
"""Maximum number of unknown properties with an issue of their own."""

ValidationError = Any
"""`jsonschema.ValidationError`, whose type stubs declare every attribute as possibly unset."""

_MOST_ABSENT = 100  # optional properties to compare
_MARGIN = 0.12  # by which an optional property must be nearer than a missing one

# Keywords whose schemas apply to the same object. References are not followed.
_APPLICATORS = ("allOf", "anyOf", "oneOf", "if", "then", "else")


class ObjectKeys:
    """The keys of an object, compared with its schema; computed on access, once for all errors.

    Args:
        error: An error of the library about the keys.

    Attributes:
        received: The object.
    """

    def __init__(self, error: ValidationError) -> None:
        self.received: dict[str, Any] = error.instance
        self._schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
        # `keywords.py` finds the unevaluated keys and stores them in the message.
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
        """The names of missing properties, by the library's message about each."""
        required = [name for name in self._schema.get("required", ()) if name not in self.received]
        return {f"{name!r} is a required property": name for name in required}

    @cached_property
    def unknown(self) -> list[str]:
        """The keys that the schema does not define."""
        if self._unevaluated:
            return json.loads(self._unevaluated)  # type: ignore[no-any-return]
        unknown = [name for name in self.received if name not in self.known]
        patterns = self._schema.get("patternProperties", ())
        return [name for name in unknown if not matches_any(patterns, name)]

    @cached_property
    def absent(self) -> list[str]:
        """The known properties that were not received."""
        return [name for name in self.known if name not in self.received]

    @cached_property
    def misspelled(self) -> dict[str, str]:
        """For each missing property, the unknown key that probably stands for it, used once."""
        if not self.known:
            return {}
        unknown = self.unknown[:MOST_NAMES]
        missing = [*islice(self.missing.values(), MOST_NAMES)]
        optional = [name for name in islice(self.absent, _MOST_ABSENT) if name not in missing]
        near_optional = {key: nearest(key, optional) for key in unknown} if missing else {}
        found = _pairs(missing, unknown, near_optional)
        open_names = [name for name in missing if name not in found]
        open_keys = [key for key in unknown if key not in found.values()]
        if len(open_names) == len(open_keys) == 1 and not near_optional[open_keys[0]]:
            [name], [key] = open_names, open_keys
            if _may_have_type(self.received[key], self.known.get(name)):
                found[name] = key  # one missing and one unknown property belong together
        return found

    def _schemas(self) -> Iterator[dict[str, Any]]:
        """Yield the schema and its inner schemas that apply to the same object."""
        pending: list[Any] = [self._schema]
        while pending:
            schema = pending.pop(0)
            if isinstance(schema, dict):
                yield schema
                for keyword in _APPLICATORS:
                    inner = schema.get(keyword)
                    pending += inner if isinstance(inner, list) else [inner]


def _pairs(
    missing: list[str], unknown: list[str], near_optional: dict[str, str | None]
) -> dict[str, str]:
    """Pair missing names with similar unknown keys: the most similar first, then unrivaled ones.

    Args:
        missing: The missing names.
        unknown: The unknown keys.
        near_optional: For each unknown key, the nearest optional property.
    """
    scores = {(name, key): similarity(key, name) for name in missing for key in unknown}
    for (name, key), score in [*scores.items()]:
        optional = near_optional[key]
        if not score or (optional is not None and similarity(key, optional) > score + _MARGIN):
            del scores[name, key]

    def order(pair: tuple[str, str]) -> tuple[float, int]:
        rivals = [
            score
            for other, score in scores.items()
            if (other[0] == pair[0]) != (other[1] == pair[1])
        ]
        return -scores[pair], sum(score >= scores[pair] for score in rivals)

    found: dict[str, str] = {}
    for name, key in sorted(scores, key=order):
        if name not in found and key not in found.values():
            found[name] = key
    return found


def _may_have_type(value: Any, schema: Any) -> bool:
    """Whether a value may be valid for a schema; True if the type alone does not decide."""
    expected = schema.get("type") if isinstance(schema, dict) else None
    return not isinstance(expected, str) or has_type(value, expected)
