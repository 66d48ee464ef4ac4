"""What is wrong with a value, in words a model can act on.

Where (a JSON pointer), which rule, what was expected, and the nearest name. The words never repeat the
value: it may be long, secret, or an instruction. Knows the shape of the `jsonschema` library's errors and
nothing else.
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

ValidationError = Any
"""`jsonschema.ValidationError`, whose type stubs call every attribute possibly unset."""

_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
# Each rule that compares with one number or text, and how to say it.
_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} properties",
    "maxProperties": "must have at most {} properties",
    "pattern": "must match the pattern {}",
    "format": "must be a {}",
    "const": "must be {}",
}


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with a value.

    Attributes:
        path: JSON pointer to the place; "" is the whole value.
        message: What is wrong, without the value.
        rule: The keyword of the schema that says so, such as "type" or "required".
        expected: The part of the schema that was not met.
        hint: What to do instead, such as the nearest name; or None.
    """

    path: str
    message: str
    rule: str
    expected: Any = None
    hint: str | None = None


def issues_of(errors: Iterable[ValidationError]) -> tuple[Issue, ...]:
    """Put everything the library found into words, sorted by place, each once."""
    found = [issue for error in errors for issue in _issues(error)]
    unique = {(issue.path, issue.rule, issue.message): issue for issue in found}
    return tuple(sorted(unique.values(), key=lambda issue: issue.path))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like this one, or None where none is near."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _issues(error: ValidationError) -> Iterator[Issue]:
    path = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_path)
    rule, expected = str(error.validator), error.validator_value
    match rule:
        case "required" if isinstance(expected, list):
            yield _missing(path, error)
        case "additionalProperties" | "unevaluatedProperties" if isinstance(error.instance, dict):
            yield from _unknown(path, error)
        case "anyOf" | "oneOf" if error.context:
            yield from _closest_branch(error)
        case "type":
            is_ = _TYPE_NAMES.get(type(error.instance), "null")
            yield Issue(path, f"must be {_either(expected)}, not {is_}", rule, expected)
        case "enum":
            near = nearest(error.instance, map(str, expected)) if isinstance(error.instance, str) else None
            yield Issue(path, f"must be one of {_short(expected)}", rule, expected, _did_you_mean(near))
        case _ if rule in _LIMITS:
            yield Issue(path, _LIMITS[rule].format(_short(expected)), rule, expected)
        case _:
            yield Issue(path, f"does not meet the rule {rule}", rule, expected)


def _missing(path: str, error: ValidationError) -> Issue:
    # The library names the missing property only in its message, as Python would print it.
    name = next(n for n in error.validator_value if n not in error.instance and repr(n) in error.message)
    known = _properties(error)
    strangers = [key for key in error.instance if key not in known]
    near = nearest(name, strangers)
    if near is None and len(strangers) == 1 and _missing_names(error) == [name]:
        near = strangers[0]  # one name is missing and one is unknown: they mean each other
    hint = f"you sent {_quoted(near)}; did you mean {_quoted(name)}?" if near else None
    wanted = known.get(name, {})
    kind = f" ({_either(wanted['type'])})" if isinstance(wanted, dict) and "type" in wanted else ""
    return Issue(f"{path}/{name}", f"is missing{kind}", "required", wanted, hint)


def _unknown(path: str, error: ValidationError) -> Iterator[Issue]:
    known = _properties(error)
    missing = _missing_names(error)
    strangers = [key for key in error.instance if key not in known and repr(key) in error.message]
    for name in strangers:
        near = nearest(name, known)
        if near is None and len(missing) == len(strangers) == 1:
            near = missing[0]
        place = f"{path}/{name[:80]}"
        yield Issue(
            place, "is not a known property", str(error.validator), sorted(known), _did_you_mean(near)
        )


def _closest_branch(error: ValidationError) -> Iterator[Issue]:
    branches: dict[Any, list[ValidationError]] = {}
    for each in error.context:
        branches.setdefault(each.schema_path[0], []).append(each)
    # The branch that was meant is the one the value comes furthest into, with the least wrong in it.
    closest = max(
        branches.values(), key=lambda b: (max(len(e.path) for e in b), b[0].validator != "type", -len(b))
    )
    for each in closest:
        yield from _issues(each)


def _properties(error: ValidationError) -> dict[str, Any]:
    found = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    return found if isinstance(found, dict) else {}


def _missing_names(error: ValidationError) -> list[str]:
    required = error.schema.get("required", []) if isinstance(error.schema, dict) else []
    return [name for name in required if name not in error.instance]


def _did_you_mean(name: str | None) -> str | None:
    return f"did you mean {_quoted(name)}?" if name else None


def _quoted(name: str) -> str:
    return f"`{name[:80]}`"


def _either(types: Any) -> str:
    return " or ".join(map(str, types)) if isinstance(types, list) else str(types)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + " …"
