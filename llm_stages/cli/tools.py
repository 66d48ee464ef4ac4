"""`llm-stages tools` and `llm-stages check`: the tools of a file, as a model sees them.

`check` reports what models and providers handle badly: missing descriptions, types and return
annotations, effects that are not declared, names that are easily confused, and schemas that a
provider rejects.
"""

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from llm_stages.cli.terminal import Terminal
from llm_stages.cli.tool_file import load_tools
from stage1_context import (
    ApproximateCounter,
)
from stage3_tools import (
    FunctionTool,
    Tool,
    ToolRegistry,
)

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""Names that OpenAI, Anthropic and Gemini accept."""

_PARAMETER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of parameters that Anthropic accepts."""

_REJECTED = {
    "oneOf": "OpenAI and Anthropic reject",
    "anyOf": "OpenAI and Anthropic reject",
    "allOf": "OpenAI and Anthropic reject",
    "enum": "OpenAI rejects",
    "not": "OpenAI rejects",
}
"""Keywords that a schema must not have at its root."""

_NO_EFFECT = (
    "The effect is not declared, so it counts as a write: it is never retried, and its call must "
    "be the whole reply."
)


def list_tools(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the description, the schema and the token cost of each tool; return 0."""
    registry = load_tools(options.file)
    found = [{**json.loads(tool.as_json), "tokens": tokens(tool)} for tool in registry]
    if terminal.as_json:
        terminal.json(found)
        return 0
    for tool, fields in zip(registry, found, strict=True):
        terminal.text(tool.name, "bold")
        terminal.text(f"  {tool.description or '(no description)'}")
        effect = tool.effect if tool.declares_effect else f"{tool.effect} (not declared)"
        terminal.text(f"  effect {effect}, about {fields['tokens']} tokens in each request")
        schema = json.dumps(tool.parameters or {}, indent=2, ensure_ascii=False)
        terminal.text("\n".join(f"  {line}" for line in schema.splitlines()), "dim")
    total = sum(fields["tokens"] for fields in found)
    terminal.text(f"{len(found)} tools, about {total} tokens in each request.")
    return 0


def check(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the problems of the tools; return 1 if there are any."""
    registry = load_tools(options.file)
    problems = list(problems_of(registry))
    if terminal.as_json:
        terminal.json([{"tool": name, "problem": problem} for name, problem in problems])
    elif problems:
        terminal.table(("tool", "problem"), problems)
    else:
        terminal.text(f"{len(registry)} tools, no problems.")
    return 1 if problems else 0


def tokens(tool: Tool) -> int:
    """Estimate the tokens that a tool costs in each request."""
    return ApproximateCounter().count(tool.as_json)


def problems_of(registry: ToolRegistry) -> Iterator[tuple[str, str]]:
    """Yield problems as the tool's name and a sentence."""
    tools = registry.list()
    for tool in tools:
        for problem in [*_text_problems(tool), *_schema_problems(tool.parameters or {})]:
            yield tool.name, problem
        if not tool.declares_effect:
            yield tool.name, _NO_EFFECT
        if isinstance(tool, FunctionTool):
            for problem in _signature_problems(tool.function):
                yield tool.name, problem
    for number, tool in enumerate(tools):
        for other in tools[number + 1 :]:
            if _alike(tool.name, other.name):
                yield tool.name, f"The name is easily confused with {other.name!r}."
            if tool.description and tool.description == other.description:
                yield tool.name, f"The description is the same as that of {other.name!r}."


def _text_problems(tool: Tool) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield (
            "The name is sent in another form: providers accept 1 to 64 letters, digits, _ and -, "
            "and no digit at the beginning."
        )
    if not tool.description.strip():
        yield "The description is missing: the model must guess what the tool does."


def _signature_problems(function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.annotation is parameter.empty:
            yield (
                f"The parameter /{parameter.name} has no type, so the model may send any value: "
                f"write {parameter.name}: str, or another type."
            )
    if signature.return_annotation is signature.empty:
        yield (
            "The function has no return annotation: write -> str, or another type. A function that "
            "prints its result returns None, and the model receives null."
        )


def _schema_problems(schema: Any, at: str = "", *, is_root: bool = True) -> Iterable[str]:
    if not isinstance(schema, dict):
        return
    if is_root:
        for keyword in _REJECTED.keys() & schema.keys():
            yield f"{_REJECTED[keyword]} {keyword} at the root of the schema."
    elif "description" not in schema and "$ref" not in schema:
        yield f"The parameter {at} has no description."
    if "$ref" in schema and not str(schema["$ref"]).startswith("#"):
        yield f"The reference {schema['$ref']!r} is outside of the schema."
    if schema.get("type") == "array" and "items" not in schema:
        yield f"The array {at or 'root'} has no items: OpenAI rejects it."
    for name, each in schema.get("properties", {}).items():
        if not _PARAMETER.fullmatch(name):
            yield f"Anthropic accepts 1 to 64 letters, digits, _, . and - as a name, not {name!r}."
        yield from _schema_problems(each, f"{at}/{name}", is_root=False)


def _alike(name: str, other: str) -> bool:
    """Whether two names differ only by case, separators and the plural."""
    first, second = (re.sub(r"[_.-]", "", each).lower().rstrip("s") for each in (name, other))
    return first == second
