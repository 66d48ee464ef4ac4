"""`ToolRegistry`: tools by name.

It knows nothing of loops, models or dialects; all of them look tools up here. One registry may serve many
sessions at once.
"""

from collections.abc import Mapping
from typing import Any

from stage2_output import nearest
from stage3_tools.arguments import check_arguments
from stage3_tools.errors import RegistrationError, ToolError, error_of
from stage3_tools.tool import Tool


class ToolRegistry:
    """Tools by name, in the order they were registered.

    Args:
        tools: Tools to begin with.

    Attributes:
        version: Grows with every change, so that whoever describes the tools knows when to do it anew.
    """

    def __init__(self, *tools: Tool) -> None:
        self.version = 0
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.register(each)

    def register(self, tool: Tool) -> Tool:
        """Add a tool and compile its schema.

        Returns:
            The tool itself.

        Raises:
            RegistrationError: The name is taken, or the schema is none.
        """
        if not isinstance(tool, Tool):
            raise RegistrationError(
                f"{tool!r} is not a Tool. Put @tool above the function, or make one with Tool(...)."
            )
        if tool.name in self._tools:
            raise RegistrationError(
                f"There is a tool named {tool.name!r} already; choose another name. "
                f"Registered: {', '.join(self._tools)}."
            )
        _ = tool.schema  # compiled now: a wrong schema is told here, not in the middle of a conversation
        self._tools[tool.name] = tool
        self.version += 1
        return tool

    def get(self, name: str) -> Tool:
        """The tool of this name.

        Raises:
            ToolError: There is none ("not_found"); the text names those there are, and the nearest.
        """
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise self._unknown(name)
        return tool

    def list(self) -> list[Tool]:
        """All tools, in the order they were registered."""
        return [*self._tools.values()]

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments, run the tool, and return what it returns.

        For use by hand; the loop runs tools through `execute_tool_call`, which turns failures into results.

        Raises:
            ToolError: The tool is unknown, the arguments do not fit, or it failed.
        """
        tool = self.get(name)
        checked = check_arguments(tool, arguments)
        try:
            return await tool.run(checked)
        except ToolError:
            raise
        except Exception as error:
            raise error_of(error) from error

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._tools)})"

    def _unknown(self, name: object) -> ToolError:
        names = [*self._tools]
        near = nearest(str(name), names)
        shown = ", ".join(names[:50]) + (f" and {len(names) - 50} more" if len(names) > 50 else "")
        return ToolError(
            "not_found",
            f"There is no tool named {str(name)[:80]!r}. Available tools: {shown or 'none'}.",
            hint=f"Did you mean {near}?" if near else None,
            details={"available_tools": names},
        )
