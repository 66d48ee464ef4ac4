"""Parse and validate the arguments of a call.

A tool never runs with arguments that are invalid or incomplete, and invalid text is never replaced
by `{}`. The error lists all issues at once, so that the model can correct them together. Repairs of
the JSON are reported. This module does not know the registry.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage2_output import Extraction, Issue, OutputError, Repair, extract_json, issue_lines
from stage3_tools.errors import ToolError, exception_text
from stage3_tools.tool import Tool

_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The valid arguments of one call.

    Attributes:
        value: The value for `tool.execute`: a dict, or the result of the tool's `parse`. The tool
            may change it.
        text: The JSON text of the arguments.
        repairs: The repairs that the text needed.
    """

    value: Any
    text: str
    repairs: tuple[Repair, ...] = ()

    def parsed(self) -> Any:
        """Parse the text again; the caller may change the value."""
        return extract_json(self.text).value


def parse_arguments(tool: Tool, text: str) -> Arguments:
    """Parse and validate the JSON text of a call's arguments; raise ToolError if it is invalid."""
    extraction = extract_arguments(tool, text)
    return Arguments(validate_arguments(tool, extraction.value), text, extraction.repairs)


def extract_arguments(tool: Tool, text: str) -> Extraction:
    """Parse the JSON text of arguments; raise ToolError unless it is one complete value."""
    if not isinstance(text, str):
        raise _invalid(tool, f"The arguments of a call must be JSON text, not {_type_name(text)}.")
    try:
        extraction = extract_json(text)
    except OutputError as error:
        raise _invalid(tool, f"The arguments are not valid JSON. {error}") from None
    if extraction.source != "bare":
        raise _invalid(tool, "The arguments must be one JSON object and nothing else.")
    if not extraction.complete:
        raise _invalid(tool, "The arguments are not complete: a bracket or a quote is not closed.")
    return extraction


def validate_arguments(tool: Tool, arguments: Any) -> Any:
    """Validate arguments with the tool's schema and its own `parse`; return the value for the tool.

    Raises:
        ToolError: The arguments are not an object, or do not match ("validation").
    """
    if not isinstance(arguments, Mapping):
        raise _invalid(tool, f"The arguments must be a JSON object, not {_type_name(arguments)}.")
    valid = dict(arguments)
    if issues := tool.schema.issues(valid):
        message = f"The arguments of {tool.name} do not fit:\n{issue_lines(issues)}"
        raise _invalid(tool, message, issues)
    if tool.parse is None:
        return valid
    try:
        return tool.parse(valid)
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:  # `parse` rejects by raising an exception of any type
        issues = _pydantic_issues(error)
        raise _rejected(tool, error, issues) from (None if issues else error)


def canonical(arguments: Any) -> str:
    """Return the same text for the same JSON value, whatever the order of its keys."""
    return _CANONICAL.encode(arguments)


def _pydantic_issues(error: BaseException) -> tuple[Issue, ...]:
    """Convert a pydantic error without the values that its own text repeats."""
    from pydantic import ValidationError  # imported for invalid arguments only

    if not isinstance(error, ValidationError):
        return ()
    return tuple(
        Issue("".join(f"/{step}" for step in item["loc"]), item["msg"], item["type"])
        for item in error.errors(include_input=False, include_url=False)
    )


def _rejected(tool: Tool, error: BaseException, issues: tuple[Issue, ...]) -> ToolError:
    reason = f"\n{issue_lines(issues)}" if issues else f" {exception_text(error)}"
    return _invalid(tool, f"The arguments of {tool.name} do not fit:{reason}", issues)


def _invalid(tool: Tool, message: str, issues: tuple[Issue, ...] = ()) -> ToolError:
    details = {"expected_schema": tool.parameters, "issues": issues}
    return ToolError("validation", message, details=details)


def _type_name(value: Any) -> str:
    names = {
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return names.get(type(value), f"a {type(value).__name__}")
