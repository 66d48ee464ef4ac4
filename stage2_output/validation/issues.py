"""What is wrong with a value, in words a model can act on.

Where (a JSON pointer), which rule, what was expected, the keys that were received, and the nearest
name. The words never repeat a value: it may be long, secret, or an instruction. Knows the shape of
the `jsonschema` library's errors and nothing else.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from stage2_output.validation.messages import either, kind, sentence, short, type_of
from stage2_output.validation.property_errors import MOST_NAMES, Keys, ValidationError
from stage2_output.validation.suggestions import listed, nearest, order, quoted, step
from stage2_output.validation.union_errors import (
    Branch,
    Choice,
    branches_of,
    choice,
    closest,
    possible,
)

MOST_FOUND = 100
"""Issues of one value; to find and word more costs time that nobody would be glad of."""

MORE = "more"
"""The rule of the issue that says that there are more than `MOST_FOUND`."""

_MOST_BRANCHES = 1000  # alternatives within alternatives may be exponentially many

_LONGEST_MEANT = 200  # it is copied as it stands, and comes from a schema, not from a model

# Rules behind which a name follows in the path to a schema, which must not be taken for a rule.
_BEFORE_NAMES = {"properties", "patternProperties", "dependentSchemas", "dependencies"}


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with a value.

    Attributes:
        path: JSON pointer to the place; "" is the whole value.
        message: What is wrong, without the value.
        rule: The keyword of the schema that says so, such as "type" or "required".
        expected: The part of the schema that was not met.
        hint: The keys that were received, and what was probably meant; or None.
    """

    path: str
    message: str
    rule: str
    expected: Any = None
    hint: str | None = None


NOT_CHECKED = Issue("", "could not be checked", "unknown")
NOT_IN_TIME = Issue(
    "", "could not be checked in time: matching its patterns takes too long", "pattern"
)
TOO_DEEP = Issue("", "is nested too deeply to be checked", "depth")
TOO_MANY_WAYS = Issue(
    "", "is too deeply nested, with too many alternatives, to be checked", "depth"
)
TOO_LARGE = Issue("", "holds a number too large to be checked", "number")


@dataclass(frozen=True, slots=True)
class _KeyIssue(Issue):
    """One about the keys of an object, all of which are told with the first such issue.

    Attributes:
        received: The object.
        sent: The key that is wrong, or stands for the missing one.
        meant: The key that was meant.
    """

    received: Any = None
    sent: str | None = None
    meant: str | None = None


def issues_of(errors: Iterable[ValidationError]) -> tuple[Issue, ...]:
    """Put what the library found into words, sorted by place, each once; () only where it found
    nothing.

    Args:
        errors: Its errors; of very many only the first are asked for.
    """
    errors = iter(errors)
    if (first := next(errors, None)) is None:
        return ()
    words = _Words()
    found = (issue for error in chain([first], errors) for issue in words.of(error))
    return gathered(found) or (_unworded(first),)


def gathered(found: Iterable[Issue]) -> tuple[Issue, ...]:
    """Issues as they are told: each once, sorted by place, at most `MOST_FOUND` and one that says
    so.

    Args:
        found: Issues in any order; no more are asked for than are told.
    """
    found = iter(found)
    unique: dict[tuple[str, str, str], Issue] = {}
    for issue in islice(found, 10 * MOST_FOUND):
        unique.setdefault((issue.path, issue.rule, issue.message), issue)
        if len(unique) > MOST_FOUND:
            break
    more = len(unique) > MOST_FOUND or next(found, None) is not None
    told = sorted([*unique.values()][:MOST_FOUND], key=lambda issue: order(issue.path))
    rest = [Issue("", f"has more wrong with it than these {len(told)}", MORE)] if more else []
    return (*_with_keys(told), *rest)


class _Words:
    """Words for the errors of one value; keeps what was worked out about each object's keys."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, int], Keys] = {}

    def of(self, error: ValidationError, place: str = "") -> Iterator[Issue]:
        """The issues an error amounts to.

        Args:
            error: An error of the library.
            place: JSON pointer to what the error's path is relative to. The library's own absolute
                path may belong to another alternative, in which the same reference was followed.
        """
        if not isinstance(error.instance, str) or not _is_about_a_name(error):
            yield from self._of(error, place)
            return
        for issue in self._of(error, place):
            path = issue.path + step(error.instance)
            message = (
                "is not allowed" if issue.rule == "false" else f"has a name that {issue.message}"
            )
            yield replace(issue, path=path, message=message, rule="propertyNames")

    def _of(self, error: ValidationError, place: str) -> Iterator[Issue]:
        path = place + _pointer(error)
        rule, expected = str(error.validator), error.validator_value
        match rule:
            case "required" if isinstance(expected, list):
                yield from self._missing(path, error)
            case "dependentRequired" | "dependencies":
                yield from self._dependent(path, error)
            case "additionalProperties" | "unevaluatedProperties":
                yield from self._unknown(path, error)
            case "anyOf" | "oneOf" if error.context:
                yield from self._alternatives(path, error)
            case "enum":
                hint = _did_you_mean(error.instance, expected)
                yield Issue(path, sentence(error), rule, expected, hint)
            case _ if error.validator is None:  # the schema `false`
                yield Issue(path, "holds something where nothing is allowed", "false", False)
            case _:
                yield Issue(path, sentence(error), rule, expected)

    def _missing(self, path: str, error: ValidationError) -> Iterator[Issue]:
        keys = self._keys_of(error)
        one = keys.missing.get(error.message)
        for name in keys.missing.values() if one is None else [one]:
            wanted, sent = keys.known.get(name, {}), keys.meant.get(name)
            meant = None if sent is None else name
            message = f"is missing{kind(wanted)}"
            yield _KeyIssue(
                path + step(name), message, "required", wanted, None, keys.received, sent, meant
            )

    def _dependent(self, path: str, error: ValidationError) -> Iterator[Issue]:
        # The library tells one missing name at a time, and which one only in its message.
        wanted = error.schema.get("properties", {})
        for name, needed in error.validator_value.items():
            for each in [needed] if isinstance(needed, str) else needed:
                if error.message == f"{each!r} is a dependency of {name!r}":
                    message = f"is missing{kind(wanted.get(each))}, and {quoted(name)} needs it"
                    yield Issue(
                        path + step(each), message, str(error.validator), error.validator_value
                    )

    def _unknown(self, path: str, error: ValidationError) -> Iterator[Issue]:
        keys, rule = self._keys_of(error), str(error.validator)
        expected = sorted(keys.known) if error.validator_value is False else error.validator_value
        told = set(keys.meant.values())  # with the property that is missing
        strangers = [name for name in keys.strangers if name not in told]
        free = [name for name in keys.unsent if name not in keys.meant]
        for name in strangers[:MOST_NAMES]:
            if error.validator_value is not False:
                yield Issue(path + step(name), sentence(error), rule, expected)
                continue
            message, meant = (
                "is not a known property",
                nearest(name, free) or nearest(name, keys.known),
            )
            yield _KeyIssue(
                path + step(name), message, rule, expected, None, keys.received, name, meant
            )
        if len(strangers) > MOST_NAMES:
            message = f"has {len(strangers)} unknown properties, too many to name them all"
            yield Issue(path, message, rule, expected)

    def _alternatives(self, path: str, error: ValidationError) -> Iterator[Issue]:
        branches = [*islice(branches_of(error), _MOST_BRANCHES)]
        rule, expected = str(error.validator), error.validator_value
        if names := _only_missing(possible(branches)):
            several = " or ".join(" and ".join(map(quoted, each)) for each in names[:MOST_NAMES])
            yield _KeyIssue(path, f"must have {several}", rule, expected, None, error.instance)
        elif made := choice(branches):
            yield _chosen(made, path)
        else:
            meant, is_clear = closest(branches)
            for issue in chain.from_iterable(self.of(each, path) for each in meant):
                # What kind of thing is missing is told by one alternative, and may be wrong for the
                # others.
                one_of_many = issue.rule == "required" and not is_clear
                yield replace(issue, message="is missing", expected={}) if one_of_many else issue

    def _keys_of(self, error: ValidationError) -> Keys:
        # Kept by identity: value and schema live as long as their errors are looked at.
        place = (id(error.instance), id(error.schema))
        if place not in self._keys or error.validator == "unevaluatedProperties":
            self._keys[place] = Keys(error)
        return self._keys[place]


def _with_keys(issues: list[Issue]) -> Iterator[Issue]:
    """The issues with hints: the first one of each object tells its keys, unless they are named
    anyway.
    """
    about_keys = [issue for issue in issues if isinstance(issue, _KeyIssue)]
    unsaid = {id(issue.received): issue.received for issue in about_keys}
    for received in [*unsaid.values()]:
        named = {issue.sent for issue in about_keys if issue.received is received}
        if named >= received.keys():
            del unsaid[id(received)]
    for issue in issues:
        if isinstance(issue, _KeyIssue):
            hint = _hint(issue, unsaid.pop(id(issue.received), {}))
            yield Issue(issue.path, issue.message, issue.rule, issue.expected, hint)
        else:
            yield issue


def _hint(issue: _KeyIssue, keys: Collection[str]) -> str | None:
    instead = issue.rule == "required" and issue.sent is not None
    words = [f"you sent {listed(keys or [str(issue.sent)])}"] if keys or instead else []
    if issue.meant is not None:
        of_many = f" instead of {quoted(str(issue.sent))}" if instead and len(keys) > 1 else ""
        words.append(f"did you mean {quoted(issue.meant, _LONGEST_MEANT)}{of_many}?")
    return "; ".join(words) or None


def _only_missing(branches: list[Branch]) -> list[list[str]]:
    """For each of several alternatives the properties it misses, if that is all that is wrong with
    any of them.
    """
    if len(branches) < 2 or any(
        each.validator != "required" or each.path for each in chain(*branches)
    ):
        return []
    missing = [
        [Keys(error).missing.get(error.message, "") for error in branch] for branch in branches
    ]
    return missing if all(map(all, missing)) else []


def _chosen(made: Choice, place: str) -> Issue:
    """The issue of a value that is none of those that several alternatives want."""
    error, values, types = made
    path = place + _pointer(error)
    if not values:
        message = f"must be {either(types)}, not {type_of(error.instance)}"
        return Issue(path, message, "type", types)
    one_of = f"one of {short(values)}" if len(values) > 1 else short(values[0])
    message = f"must be {' or '.join([one_of, *types])}"
    return Issue(path, message, "enum", values, _did_you_mean(error.instance, values))


def _did_you_mean(value: Any, values: Iterable[Any]) -> str | None:
    if not isinstance(value, str):
        return None
    near = nearest(value, (each for each in values if isinstance(each, str)))
    return f"did you mean {quoted(near, _LONGEST_MEANT)}?" if near else None


def _unworded(error: ValidationError) -> Issue:
    return Issue(_pointer(error), "does not fit", str(error.validator), error.validator_value)


def _pointer(error: ValidationError) -> str:
    return "".join(map(step, error.relative_path))


def _is_about_a_name(error: ValidationError) -> bool:
    """Whether it was not a value that was looked at, but the name of a property."""
    rules = iter(error.relative_schema_path)
    for rule in rules:
        if rule == "propertyNames":
            return True
        if rule in _BEFORE_NAMES:
            next(rules, None)
    return False
