"""`ToolRegistry`: the tools that a model may call, by name.

It knows nothing of loops, models or dialects; all of them look tools up here. One registry may
serve many sessions at once, and be changed meanwhile, from any thread: a call that has begun keeps
the `Tool` it found.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from stage0_gateway import ToolSpec
from stage2_output import nearest
from stage3_tools.decorator import tool
from stage3_tools.errors import RegistrationError, ToolError
from stage3_tools.execution.arguments import check_arguments
from stage3_tools.execution.error_kinds import error_of
from stage3_tools.tool import Tool

if TYPE_CHECKING:
    from stage3_tools.registry_view import RegistryView

_MOST_LISTED = 50

Registrable = Tool | Callable[..., Any]
"""What can be registered: a tool, or a plain or async function, of which `@tool` makes one."""


class ToolRegistry:
    """Tools by name, in the order they were registered.

    Args:
        tools: Tools to begin with; see `register`.
    """

    def __init__(self, *tools: Registrable) -> None:
        self._tools: dict[str, Tool] = {}
        self._changing = threading.Lock()
        if tools:
            self.register(*tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in the order they were registered."""
        return tuple(each.name for each in self.list())

    def get(self, name: str) -> Tool:
        """The tool of this name.

        Raises:
            ToolError: The name is unknown ("not_found"); the text lists the available names and the
                nearest one.
        """
        tool = self._find(name)
        if tool is None:
            raise self._unknown(name)
        return tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a provider is told of them: for `gateway.chat(…,
        tools=registry.specs())`.
        """
        return tuple([tool.spec for tool in self.list()])

    @overload
    def register(self, tool: Registrable, /) -> Tool: ...

    @overload
    def register(
        self, first: Registrable, second: Registrable, /, *more: Registrable
    ) -> tuple[Tool, ...]: ...

    def register(self, *tools: Registrable) -> Tool | tuple[Tool, ...]:
        """Add tools and compile their schemas: all of them, or none if one cannot be added.

        Args:
            tools: Tools, or functions, which become tools as with `@tool`. Works as a decorator,
                too.

        Returns:
            The tool; of several, a tuple.

        Raises:
            RegistrationError: A name is taken, a schema is none, or something is no tool.
        """
        made = tuple(_as_tool(each) for each in tools)
        for each in made:
            _ = (
                each.schema
            )  # compiled now: a wrong one is told here, not in the middle of a conversation
        added: dict[str, Tool] = {}
        with self._changing:
            for each in made:
                if each.name in self._tools or each.name in added:
                    names = listed([*self._tools, *added])
                    raise RegistrationError(
                        f"There is a tool named {each.name!r} already; choose another name. Registered: {names}."
                    )
                added[each.name] = each
            self._tools.update(added)  # at once, for other threads
        return made[0] if len(made) == 1 else made

    def unregister(self, name: str) -> Tool:
        """Take a tool away, and return it.

        Raises:
            RegistrationError: There is none of this name.
        """
        with self._changing:
            tool = self._known(name)
            del self._tools[name]
        return tool

    def subset(self, *names: str) -> "RegistryView":
        """A live view of the tools of these names: for an agent that may use no others.

        Raises:
            RegistrationError: There is no tool of one of these names.
        """
        from stage3_tools.registry_view import RegistryView

        return RegistryView(self, frozenset(self._known(each).name for each in names).__contains__)

    def group(self, prefix: str) -> "RegistryView":
        """A live view of the tools whose names begin with this; there need be none yet."""
        from stage3_tools.registry_view import RegistryView

        return RegistryView(self, lambda name: name.startswith(prefix))

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments, run the tool once, and return what it returns.

        For use by hand; the loop runs tools through `execute_tool_call`, which turns failures into
        results.

        Raises:
            ToolError: The tool is unknown, the arguments do not fit, or it failed. Its `details`
                have `expected_schema`, `issues` and `available_tools`.
        """
        tool = self.get(name)
        try:
            return await tool.run(check_arguments(tool, arguments))
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            told = {"expected_schema": tool.parameters, "issues": (), "available_tools": self.names}
            raise error_of(error).with_details(**told) from error

    def list(self) -> list[Tool]:
        """All tools, in the order they were registered."""
        return [*self._tools.values()]

    def __len__(self) -> int:
        return len(self.list())

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({listed(self.names)})"

    def _find(self, name: object) -> Tool | None:
        return self._tools.get(name) if isinstance(name, str) else None

    def _unknown(self, name: object) -> ToolError:
        beginning = str(name)[: len(str(name)) // 2]
        # Of very many names only the first few hundred are compared, so those that begin alike come
        # first.
        near = nearest(
            str(name), sorted(self.names, key=lambda each: not each.startswith(beginning))
        )
        return ToolError(
            "not_found",
            f"There is no tool named {str(name)[:80]!r}. Available tools: {listed(self.names) or 'none'}.",
            hint=f"Did you mean {near}?" if near else None,
            details={"expected_schema": None, "issues": (), "available_tools": self.names},
        )

    def _known(self, name: str) -> Tool:
        tool = self._find(name)
        if tool is None:
            unknown = self._unknown(name)
            raise RegistrationError(f"{unknown.message} {unknown.hint or ''}".rstrip())
        return tool


def _as_tool(given: Registrable) -> Tool:
    return given if isinstance(given, Tool) else tool()(given)


def listed(names: Sequence[str]) -> str:
    """Join names in one line; of very many, only the first ones."""
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
