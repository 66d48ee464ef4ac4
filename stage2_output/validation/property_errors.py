"""Compare the keys of an object with those of its schema: missing, unknown, and probably meant.

This module knows the errors of the `jsonschema` library, and not how they are described. Used by
`issues.py`.
"""

from functools import cached_property
from itertools import islice
from typing import Any

from stage2_output.validation.json_values import has_type
from stage2_output.validation.patterns import matches_any
from stage2_output.validation.suggestions import nearest

MOST_NAMES = 20
"""Maximum number of unknown properties with an issue of their own."""

ValidationError = Any
"""`jsonschema.ValidationError`, whose type stubs declare every attribute as possibly unset."""

_MOST_ABSENT = 100  # optional properties to compare


def missing_property(error: ValidationError) -> str:
    """Return the name of the missing property of an error of `required`.

    The rule in `keywords.py` ends the path of its error in the schema with the index of the name.
    """
    return str(error.validator_value[error.schema_path[-1]])


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

    @cached_property
    def known(self) -> dict[str, Any]:
        """The schemas of the known properties."""
        properties = self._schema.get("properties")
        return properties if isinstance(properties, dict) else {}

    @cached_property
    def missing(self) -> list[str]:
        """The names of missing properties."""
        required = self._schema.get("required")
        names = required if isinstance(required, list) else ()  # a bool in draft 3
        return [name for name in names if name not in self.received]

    @cached_property
    def unknown(self) -> list[str]:
        """The keys that the schema does not define."""
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
        missing = [*islice(self.missing, MOST_NAMES)]
        optional = [name for name in islice(self.absent, _MOST_ABSENT) if name not in missing]
        found: dict[str, str] = {}
        others: list[str] = []  # keys that resemble no name
        for key in self.unknown[:MOST_NAMES] if missing and self.known else ():
            name = nearest(key, [*missing, *optional])
            if name is None:
                others.append(key)
            elif name in missing:
                found[name] = key
                missing.remove(name)
        if len(missing) == len(others) == 1:
            [name], [key] = missing, others
            if _may_have_type(self.received[key], self.known.get(name)):
                found[name] = key  # one missing and one unknown property belong together
        return found


def _may_have_type(value: Any, schema: Any) -> bool:
    """Whether a value may be valid for a schema; True if the type alone does not decide."""
    expected = schema.get("type") if isinstance(schema, dict) else None
    return not isinstance(expected, str) or has_type(value, expected)
