"""What is read from a text with JSON, and the spellings of JSON, for the tests of this stage."""

import json

from stage2_output import ExtractionError, extract_json

SPELLINGS = {
    "the default of Python": {},
    "compact": {"separators": (",", ":")},
    "indented": {"indent": 2},
    "not escaped": {"ensure_ascii": False},
    "indented, not escaped": {"indent": 4, "ensure_ascii": False},
}


def read(text):
    """Return the extraction from a text, or None for an `ExtractionError`."""
    try:
        return extract_json(text)
    except ExtractionError:
        return None


def repairs(found, start=0):
    """Return the repairs of a result as "name@position"; positions count from the start."""
    return " ".join(f"{name}@{position - start}" for name, position in found.repairs)


def same(one, other):
    """Return whether two values have the same JSON; unlike `==`, 1 is neither True nor 1.0."""
    return json.dumps(one) == json.dumps(other)
