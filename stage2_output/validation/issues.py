"""Convert the errors of the `jsonschema` library to issues that a model can act on.

An issue contains the JSON pointer, the keyword, the expected schema, the received keys and the
nearest name. It never repeats a value, which may be long, secret or an instruction. This module
knows the errors of the library and nothing else of it.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from stage2_output.result import Issue
from stage2_output.validation import union_errors
from stage2_output.validation.json_values import json_type
from stage2_output.validation.messages import as_json, describe, requirement, type_names
from stage2_output.validation.property_errors import (
    MOST_NAMES,
    ObjectKeys,
    ValidationError,
    missing_property,
)
from stage2_output.validation.suggestions import listed, nearest, pointer_step, quoted
from stage2_output.validation.union_errors import Branch, Choice

MOST_ISSUES = 100
"""Maximum number of issues of one value; further errors are not reported."""

NOT_CHECKED = Issue("", "could not be checked", "unknown")
NOT_IN_TIME = Issue(
    "", "could not be checked in time: matching its patterns takes too long", "pattern"
)
TOO_DEEP = Issue("", "is nested too deeply to be checked", "depth")
TOO_MANY_ALTERNATIVES = Issue(
    "", "is too deeply nested, with too many alternatives, to be checked", "depth"
)
TOO_LARGE = Issue("", "contains a number too large to be checked", "number")

_MOST_BRANCHES = 1000  # nested alternatives may be exponentially many
_LONGEST_SUGGESTION = 200  # suggestions come from the schema, not from the model


@dataclass(frozen=True, slots=True)
class _KeyIssue(Issue):
    """An issue about a key of an object; the first one of each object lists all received keys.

    Attributes:
        received: The object.
        key: The wrong key, or the key that stands for the missing one.
        suggestion: The key that was probably meant.
    """

    received: Any = None
    key: str | None = None
    suggestion: str | None = None


def issues_of(errors: Iterable[ValidationError]) -> tuple[Issue, ...]:
    """Convert the library's errors to issues, sorted by position; empty only without errors.

    Args:
        errors: The errors; only the first ones are requested.
    """
    errors = iter(errors)
    if (first := next(errors, None)) is None:
        return ()
    converter = _Converter()
    found = chain.from_iterable(converter.issues(error) for error in chain([first], errors))
    rule, expected = str(first.validator), first.validator_value
    return collect(found) or (Issue(_pointer(first), "does not fit", rule, expected),)


def collect(found: Iterable[Issue]) -> tuple[Issue, ...]:
    """Return unique issues sorted by position, at most `MOST_ISSUES`.

    Args:
        found: Issues in any order; no more are requested than are needed.
    """
    unique: dict[tuple[str, str, str], Issue] = {}
    for issue in islice(found, 10 * MOST_ISSUES):
        unique.setdefault((issue.path, issue.rule, issue.message), issue)
        if len(unique) == MOST_ISSUES:
            break
    return (*_with_hints(sorted(unique.values(), key=lambda issue: issue.path)),)


class _Converter:
    """Converts the errors of one value; compares the keys of each object once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, int], ObjectKeys] = {}

    def issues(self, error: ValidationError, base: str = "") -> Iterator[Issue]:
        """Yield the issues of an error.

        Args:
            error: An error of the library.
            base: JSON pointer that the error's path is relative to. The library's own absolute path
                may belong to another alternative that followed the same reference.
        """
        path = base + _pointer(error)
        rule, expected = str(error.validator), error.validator_value
        match rule:
            case "required" if isinstance(expected, list):
                yield self._missing(path, error)
            case "additionalProperties":
                yield from self._unknown(path, error)
            case "anyOf" | "oneOf" if error.context:
                yield from self._alternatives(path, error)
            case "enum":
                yield Issue(path, describe(error), rule, expected, _near(error.instance, expected))
            case _ if error.validator is None:  # the schema `false`
                yield Issue(path, "has a value where none is allowed", "false", False)
            case _:
                yield Issue(path, describe(error), rule, expected)

    def _missing(self, path: str, error: ValidationError) -> Issue:
        keys, name = self._object_keys(error), missing_property(error)
        schema, key = keys.known.get(name, {}), keys.misspelled.get(name)
        suggestion = None if key is None else name
        message, path_to = f"is missing{requirement(schema)}", path + pointer_step(name)
        return _KeyIssue(path_to, message, "required", schema, None, keys.received, key, suggestion)

    def _unknown(self, path: str, error: ValidationError) -> Iterator[Issue]:
        keys, rule = self._object_keys(error), str(error.validator)
        misspelled = set(keys.misspelled.values())  # reported with the missing property
        unknown = [name for name in keys.unknown if name not in misspelled]
        expected = sorted(keys.known)
        free = [name for name in keys.absent if name not in keys.misspelled]
        for name in unknown[:MOST_NAMES]:
            suggestion = nearest(name, free) or nearest(name, keys.known)
            message, path_to = "is not a known property", path + pointer_step(name)
            yield _KeyIssue(path_to, message, rule, expected, None, keys.received, name, suggestion)
        if len(unknown) > MOST_NAMES:
            message = f"has {len(unknown)} unknown properties, too many to name them all"
            yield Issue(path, message, rule, expected)

    def _alternatives(self, path: str, error: ValidationError) -> Iterator[Issue]:
        branches = [*islice(union_errors.branches_of(error), _MOST_BRANCHES)]
        rule, expected = str(error.validator), error.validator_value
        if missing := _only_missing(union_errors.possible(branches)):
            names = " or ".join(" and ".join(map(quoted, group)) for group in missing[:MOST_NAMES])
            yield _KeyIssue(path, f"must have {names}", rule, expected, None, error.instance)
        elif found := union_errors.choice(branches):
            yield _choice_issue(found, path)
        else:
            reported, is_clear = union_errors.closest(branches)
            for issue in chain.from_iterable(self.issues(inner, path) for inner in reported):
                if issue.rule == "required" and not is_clear:
                    # The other alternatives may expect another schema for this property.
                    issue = replace(issue, message="is missing", expected={})
                yield issue

    def _object_keys(self, error: ValidationError) -> ObjectKeys:
        # By identity: value and schema exist as long as their errors.
        identity = (id(error.instance), id(error.schema))
        if identity not in self._keys:
            self._keys[identity] = ObjectKeys(error)
        return self._keys[identity]


def _with_hints(issues: list[Issue]) -> Iterator[Issue]:
    """Add hints: the first issue of each object lists its keys, unless the issues name them all."""
    key_issues = [issue for issue in issues if isinstance(issue, _KeyIssue)]
    unlisted = {id(issue.received): issue.received for issue in key_issues}
    for received in [*unlisted.values()]:
        if {issue.key for issue in key_issues if issue.received is received} >= received.keys():
            del unlisted[id(received)]
    for issue in issues:
        if isinstance(issue, _KeyIssue):
            hint = _hint(issue, unlisted.pop(id(issue.received), {}))
            yield Issue(issue.path, issue.message, issue.rule, issue.expected, hint)
        else:
            yield issue


def _hint(issue: _KeyIssue, received: Collection[str]) -> str | None:
    is_replaced = issue.rule == "required" and issue.key is not None
    parts = []
    if received or is_replaced:
        parts.append(f"you sent {listed(received or [str(issue.key)])}")
    if issue.suggestion is not None:
        is_one_of_several = is_replaced and len(received) > 1
        instead = f" instead of {quoted(str(issue.key))}" if is_one_of_several else ""
        parts.append(f"did you mean {quoted(issue.suggestion, _LONGEST_SUGGESTION)}{instead}?")
    return "; ".join(parts) or None


def _only_missing(branches: list[Branch]) -> list[list[str]]:
    """Return the missing properties of each alternative, if nothing else is wrong with any."""
    errors = chain.from_iterable(branches)
    if len(branches) < 2 or any(error.validator != "required" or error.path for error in errors):
        return []
    return [[*map(missing_property, branch)] for branch in branches]


def _choice_issue(found: Choice, base: str) -> Issue:
    """Return the issue of a value that equals none of the allowed values and types."""
    error, values, types = found
    path = base + _pointer(error)
    if not values:
        message = f"must be {type_names(types)}, not {json_type(error.instance)}"
        return Issue(path, message, "type", types)
    constants = f"one of {as_json(values)}" if len(values) > 1 else as_json(values[0])
    message = f"must be {' or '.join([constants, *types])}"
    return Issue(path, message, "enum", values, _near(error.instance, values))


def _near(value: Any, values: Iterable[Any]) -> str | None:
    if not isinstance(value, str):
        return None
    near = nearest(value, (known for known in values if isinstance(known, str)))
    return f"did you mean {quoted(near, _LONGEST_SUGGESTION)}?" if near else None


def _pointer(error: ValidationError) -> str:
    return "".join(map(pointer_step, error.relative_path))
