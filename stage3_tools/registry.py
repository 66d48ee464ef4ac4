"""`ToolRegistry`: the tools that a model may call, by name.

A registry does not know loops, models or dialects. It can serve many sessions at once, and any
thread can change it at the same time: a call that has started keeps its `Tool`.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from stage0_gateway import ToolSpec
from stage2_output import nearest
from stage3_tools.errors import RegistrationError, ToolError
from stage3_tools.execution.arguments import validate_arguments
from stage3_tools.execution.error_kinds import classify_exception
from stage3_tools.execution.invocation import invoke
from stage3_tools.tool import Tool, tool

Registrable = Tool | Callable[..., Any]
"""A tool, or a function that `@tool` converts to one."""

_MAX_LISTED = 50


class ToolRegistry:
    """Tools by name, in registration order. `bool(registry)` is always True.

    Args:
        *tools: The first tools; see `register`.
    """

    def __init__(self, *tools: Registrable) -> None:
        # The dict is replaced, never changed, so readers need no lock.
        self._tools: dict[str, Tool] = {}
        self._changing = threading.Lock()
        if tools:
            self.register(*tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return tuple(self._tools)

    def search(self, *, category: str | None = None, tag: str | None = None) -> list[Tool]:
        """Return the tools with this category and this tag; None does not restrict them."""
        return [
            tool
            for tool in self._tools.values()
            if category in (None, tool.category) and (tag is None or tag in tool.tags)
        ]

    def list(self) -> list[Tool]:
        """Return all tools."""
        return [*self._tools.values()]

    def get(self, name: str) -> Tool:
        """Return the tool with this name.

        Raises:
            ToolError: The name is unknown ("not_found"). The text lists the available names and the
                nearest one.
        """
        tools = self._tools
        if isinstance(name, str) and name in tools:
            return tools[name]
        raise _unknown_tool(str(name), tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the descriptions for `gateway.chat(..., tools=registry.specs())`."""
        return tuple([tool.spec for tool in self._tools.values()])

    def described(self) -> str:
        """Return the descriptions as JSON text, one tool per line."""
        return "\n".join([tool.as_json for tool in self._tools.values()])

    @overload
    def register(self, tool: Registrable, /) -> Tool: ...

    @overload
    def register(
        self, first: Registrable, second: Registrable, /, *more: Registrable
    ) -> tuple[Tool, ...]: ...

    def register(self, *tools: Registrable) -> Tool | tuple[Tool, ...]:
        """Add tools and compile their schemas: all of them, or none if one is invalid.

        Args:
            *tools: Tools, or functions, which are converted as by `@tool`. Works as a decorator.

        Returns:
            The tool; a tuple for several.

        Raises:
            RegistrationError: A name is registered already, a schema is invalid, or a value is not
                a tool.
        """
        converted = tuple([item if isinstance(item, Tool) else tool()(item) for item in tools])
        for new in converted:
            _ = new.schema  # an invalid schema must not surface in the middle of a conversation
        with self._changing:
            changed = dict(self._tools)
            for new in converted:
                if new.name in changed:
                    names = _listed([*changed])
                    raise RegistrationError(
                        f"There is a tool named {new.name!r} already; choose another name. "
                        f"Registered: {names}."
                    )
                changed[new.name] = new
            self._tools = changed
        return converted[0] if len(converted) == 1 else converted

    def unregister(self, name: str) -> Tool:
        """Remove a tool and return it.

        Raises:
            RegistrationError: The name is unknown.
        """
        with self._changing:
            try:
                removed = self.get(name)
            except ToolError as error:
                raise RegistrationError(f"{error.message} {error.hint or ''}".rstrip()) from None
            self._tools = {key: tool for key, tool in self._tools.items() if key != name}
        return removed

    def extended(self, *tools: Tool) -> "ToolRegistry":
        """Return a copy with further tools. A registered tool precedes one with the same name."""
        copy = ToolRegistry()
        copy._tools = {**self._tools, **{t.name: t for t in tools if t.name not in self._tools}}
        return copy

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Validate arguments, run the tool once, and return its value.

        The loop uses `execute_tool_call` instead, which converts failures to results.

        Args:
            name: The tool's name.
            arguments: The arguments by name.

        Raises:
            ToolError: The tool is unknown, the arguments do not match, or the tool failed.
                `details` holds `expected_schema`, `issues` and `available_tools`.
        """
        tool = self.get(name)
        try:
            if not all(isinstance(key, str) for key in arguments):
                raise ToolError("validation", "The names of arguments must be text.")
            return await invoke(tool, validate_arguments(tool, arguments))
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise classify_exception(error).with_details(
                expected_schema=tool.parameters, issues=(), available_tools=self.names
            ) from error

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._tools

    def __repr__(self) -> str:
        return f"ToolRegistry({_listed(self.names)})"


def _unknown_tool(name: str, tools: Mapping[str, Tool]) -> ToolError:
    # Only the first few hundred names are compared, so names that begin alike come first.
    beginning = name[: len(name) // 2]
    similar = nearest(name, sorted(tools, key=lambda known: not known.startswith(beginning)))
    return ToolError(
        "not_found",
        f"There is no tool named {name[:80]!r}. Available tools: {_listed([*tools]) or 'none'}.",
        hint=f"Did you mean {similar}?" if similar else None,
        details={"expected_schema": None, "issues": (), "available_tools": tuple(tools)},
    )


def _listed(names: Sequence[str]) -> str:
    """Join names; many names are reduced to the first ones and a count."""
    rest = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
