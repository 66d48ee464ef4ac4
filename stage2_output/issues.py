"""What is wrong with a value, in words a model can act on.

Where (a JSON pointer), which rule, what was expected, and the nearest name. The words never repeat the
value: it may be long, secret, or an instruction. Knows the shape of the `jsonschema` library's errors and
nothing else.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MOST_NAMES = 20
"""Unknown properties that are named one by one; comparing names costs time, and more would not be read."""

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
    return tuple(sorted(unique.values(), key=lambda issue: _place(issue.path)))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like this one, or None where none is near."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _issues(error: ValidationError) -> Iterator[Issue]:
    path = "".join(map(_step, error.absolute_path))
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
        case _ if error.validator is None:  # the schema `false`, of which the library tells no place
            yield Issue(path, "holds something where nothing is allowed", "false", False)
        case _ if rule in _LIMITS:
            yield Issue(path, _LIMITS[rule].format(_short(expected)), rule, expected)
        case _:
            yield Issue(path, f"does not meet the rule {rule}", rule, expected)


def _missing(path: str, error: ValidationError) -> Issue:
    # The library names the missing property only in its message, as Python would print it.
    name = next(n for n in error.validator_value if n not in error.instance and repr(n) in error.message)
    wanted = _properties(error).get(name, {})
    kind = f" ({_either(wanted['type'])})" if isinstance(wanted, dict) and "type" in wanted else ""
    sent = _sent_instead(error).get(name)
    hint = f"you sent {_quoted(sent)}; did you mean {_quoted(name)}?" if sent is not None else None
    return Issue(path + _step(name), f"is missing{kind}", "required", wanted, hint)


def _unknown(path: str, error: ValidationError) -> Iterator[Issue]:
    known, rule = _properties(error), str(error.validator)
    told = set(_sent_instead(error).values())  # with the property that is missing
    strangers = [name for name in _strangers(error) if name not in told]
    for name in strangers[:MOST_NAMES]:
        hint = _did_you_mean(nearest(name, known))
        yield Issue(path + _step(name[:80]), "is not a known property", rule, sorted(known), hint)
    if len(strangers) > MOST_NAMES:
        yield Issue(path, f"has {len(strangers) - MOST_NAMES} more unknown properties", rule, sorted(known))


def _strangers(error: ValidationError) -> list[str]:
    """The properties the schema does not name."""
    if error.validator == "unevaluatedProperties":  # only the library knows which other schemas name some
        return [name for name in [*error.instance][: 10 * MOST_NAMES] if repr(name) in error.message]
    schema = error.schema if isinstance(error.schema, dict) else {}
    known, patterns = _properties(error), list(schema.get("patternProperties", {}))
    strangers = [name for name in error.instance if name not in known]
    return [name for name in strangers if not any(re.search(pattern, name) for pattern in patterns)]


def _sent_instead(error: ValidationError) -> dict[str, str]:
    """For each missing property the unknown one that was probably meant for it."""
    if not _properties(error):
        return {}
    strangers = _strangers(error)[:MOST_NAMES]
    required = error.schema.get("required", [])
    missing = [name for name in required if name not in error.instance][:MOST_NAMES]
    if len(missing) == len(strangers) == 1:
        return {missing[0]: strangers[0]}  # one is missing and one is unknown: they mean each other
    return {name: near for name in missing if (near := nearest(name, strangers)) is not None}


def _closest_branch(error: ValidationError) -> Iterator[Issue]:
    branches: dict[Any, list[ValidationError]] = {}
    for each in error.context:
        branches.setdefault(each.schema_path[0], []).append(each)
    for each in max(branches.values(), key=_closeness):
        yield from _issues(each)


def _closeness(branch: list[ValidationError]) -> tuple[bool, bool, int, int]:
    """The branch that was meant has the right constant and type; the value comes far into it; little is wrong."""
    at_the_top = {error.validator for error in branch if len(error.path) <= 1}
    right_type = all(error.validator != "type" or error.path for error in branch)
    depth = max(len(error.path) for error in branch)
    return (not at_the_top & {"const", "enum"}, right_type, depth, -len(branch))


def _place(path: str) -> list[tuple[bool, int, str]]:
    """Sorts pointers as their places stand in a list: 2 before 10."""
    return [
        (not step.isdecimal(), int(step[:9]) if step.isdecimal() else 0, step) for step in path.split("/")
    ]


def _step(name: str | int) -> str:
    """One step of a JSON pointer."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def _properties(error: ValidationError) -> dict[str, Any]:
    found = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    return found if isinstance(found, dict) else {}


def _did_you_mean(name: str | None) -> str | None:
    return f"did you mean {_quoted(name)}?" if name else None


def _quoted(name: str) -> str:
    return f"`{name[:80]}`"


def _either(types: Any) -> str:
    return " or ".join(map(str, types)) if isinstance(types, list) else str(types)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + " …"
