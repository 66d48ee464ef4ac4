"""From the text a model wrote as arguments to a dict that fits the tool's schema, or a ToolError.

Nothing is run on arguments that did not parse, not even with `{}`, nor on those that are not
complete. What had to be mended is told along with them. The error names every argument that is
wrong, so that the model can mend all of them at once. Knows no registry.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage2_output import Extraction, Issue, OutputError, Repair, extract_json, issue_lines
from stage3_tools.errors import ToolError
from stage3_tools.execution.error_kinds import words_of
from stage3_tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, checked.

    Attributes:
        value: What `tool.execute` is given: a dict, or what the tool's `parse` made of it. It is
            the tool's own to change.
        text: What they were read from.
        repairs: What had to be mended to read them.
    """

    value: Any
    text: str
    repairs: tuple[Repair, ...] = ()

    @property
    def given(self) -> Any:
        """As JSON has them, read anew: whoever gets them may change them."""
        return extract_json(self.text).value


def parse_arguments(tool: Tool, text: str) -> Arguments:
    """Read and check the JSON text of a call's arguments.

    Raises:
        ToolError: It is no whole JSON object, or does not fit ("validation").
    """
    found = read_arguments(tool, text)
    return Arguments(check_arguments(tool, found.value), text, found.repairs)


def read_arguments(tool: Tool, text: str) -> Extraction:
    """Read the JSON text of a call's arguments without checking them.

    Raises:
        ToolError: It is no whole JSON value ("validation").
    """
    if not isinstance(text, str):
        raise _refusal(tool, f"The arguments of a call are JSON text, not {_kind(text)}.", ())
    try:
        found = extract_json(text)
    except OutputError as error:
        raise _refusal(tool, f"The arguments are not valid JSON. {error}", ()) from None
    if found.source != "bare":
        raise _refusal(tool, "The arguments must be one JSON object and nothing else.", ())
    if not found.complete:
        raise _refusal(
            tool, "The arguments are not complete: something that was opened is never closed.", ()
        )
    return found


def check_arguments(tool: Tool, arguments: Any) -> Any:
    """Hold arguments to the tool's schema, then to its own `parse`; returns what `tool.execute` is
    given.

    Raises:
        ToolError: They are no object, or do not fit ("validation"); `details` hold schema and
            issues.
    """
    if not isinstance(arguments, Mapping):
        raise _refusal(tool, f"The arguments must be a JSON object, not {_kind(arguments)}.", ())
    if not all(isinstance(name, str) for name in arguments):
        raise _refusal(tool, "The names of arguments must be text.", ())
    checked = dict(arguments)
    issues = tool.schema.issues(checked)
    if issues:
        raise _refusal(
            tool, f"The arguments of {tool.name} do not fit:\n{issue_lines(issues)}", issues
        )
    if tool.parse is None:
        return checked
    try:
        return tool.parse(checked)
    except (ToolError, KeyboardInterrupt):
        raise
    except (
        BaseException
    ) as error:  # a parser refuses by raising, and which type it raises is its own choice
        issues = _issues(error)
        said = f"\n{issue_lines(issues)}" if issues else f" {words_of(error)}"
        refusal = _refusal(tool, f"The arguments of {tool.name} do not fit:{said}", issues)
        raise refusal from (None if issues else error)


def _issues(error: BaseException) -> tuple[Issue, ...]:
    """What a pydantic model found wrong; its own text would repeat the values."""
    from pydantic import ValidationError  # where something is wrong, which is seldom

    if not isinstance(error, ValidationError):
        return ()
    found = error.errors(include_input=False, include_url=False)
    return tuple(
        Issue("".join(f"/{step}" for step in each["loc"]), each["msg"], each["type"])
        for each in found
    )


def canonical(arguments: Any) -> str:
    """The same text for the same JSON, in whatever order its keys stand."""
    return _CANONICAL.encode(arguments)


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _refusal(tool: Tool, message: str, issues: tuple[Any, ...]) -> ToolError:
    return ToolError(
        "validation", message, details={"expected_schema": tool.parameters, "issues": issues}
    )


def _kind(value: Any) -> str:
    names = {
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null" if value is None else f"a {type(value).__name__}")
