"""`RunVariables`: the long values of a run, and the tool with which its model reads them.

The tool `read_variable` is added when the model has seen a reference. Used by `RunState`.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stage0_gateway import Message
from stage1_context import StoreFailed, Transcript
from stage3_tools.execution.settings import REFERENCE
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import MAX_RESULT_CHARS, ToolResult, is_longer
from stage3_tools.tool import Tool
from stage3_tools.variables.long_values import LongValues, Values


@dataclass(eq=False)
class RunVariables:
    """The variables of one run.

    Attributes:
        transcript: The conversation.
        given: Where long values are stored; None is the journal of the conversation.
        over: A result with more characters is stored; None stores nothing. It may change between
            turns.
        has_references: Whether the model has seen a reference to a variable.
    """

    transcript: Transcript
    given: Values | None
    over: int | None = None
    has_references: bool = False
    _was_searched: bool = False

    @cached_property
    def values(self) -> Values:
        """Where long values are stored."""
        return LongValues.of(self.transcript) if self.given is None else self.given

    async def expand(self, tool: Tool, arguments: Any) -> str:
        """Replace the references in parsed arguments by values; return the JSON text."""
        return await self.values.expand(tool, arguments)

    def tools(self, registry: ToolRegistry) -> ToolRegistry:
        """The tools of the next turn; `read_variable` is added if the model knows a reference."""
        if not self.has_references or not len(registry):
            return registry
        return registry.extended(self.values.reader)

    def search(self, messages: Iterable[Message]) -> bool:
        """Search the messages of the first request; return whether they contain a reference."""
        if self._was_searched or self.has_references or self.over is None:
            return False
        self._was_searched = True
        self.has_references = any(
            REFERENCE in message.text
            or any(REFERENCE in call.arguments for call in message.tool_calls)
            for message in messages
        )
        return self.has_references

    async def message_of(self, result: ToolResult) -> tuple[Message, str | None]:
        """The message of a result, and the id of the variable that stores it if it is long."""
        variable = None
        if self.over is not None and not result.is_error and is_longer(result.output, self.over):
            with suppress(StoreFailed, ValueError):  # then only its beginning is shown
                result, variable = await self.values.preview(result, self.over)
                self.has_references = self.has_references or variable is not None
        return result.as_message(MAX_RESULT_CHARS), variable
