"""`ChainCallbacks`: the listener that calls the callbacks of a chain.

While the chain runs, people see one text: the words of the model, and a line for each tool. Used by
`chain.py`.
"""

from typing import Any

from stage3_tools.chain.options import ToolChainOptions
from stage3_tools.events import (
    DecisionMade,
    FeedbackGiven,
    LoopEvent,
    ReplyText,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
)
from stage3_tools.run.emitter import call_back
from stage3_tools.variables.long_values import json_value


class ChainCallbacks:
    """Calls the callbacks of a chain, and composes the text that people see.

    Args:
        options: The options with the callbacks.
    """

    def __init__(self, options: ToolChainOptions) -> None:
        self._options = options
        self._blocks: list[str] = []
        self._call_blocks: dict[str, int] = {}  # the index of the block of each call
        self._words = ""  # of the current reply

    async def on_event(self, event: LoopEvent) -> None:
        """Call the callbacks that an event concerns."""
        options = self._options
        match event:
            case ReplyText(text=text):
                self._words = text
                await self._update()
            case DecisionMade(reply=reply):
                await self._end_words(reply or self._words)
            case FeedbackGiven():  # the reply was not used; another one follows
                await self._end_words("")
            case TurnEnded() if self._words:  # the provider ended the reply
                await self._end_words(self._words)
            case ToolCalled(call=call):
                await self._show_call(call.id, f"[{call.name} …]")
                arguments = _object_or_text(call.arguments)
                await call_back(options.on_tool_call_start, call.name, arguments, call.id)
            case ToolAnswered(result=result):
                mark = f"✗ {result.status}" if result.is_error else "✓"
                await self._show_call(result.call_id, f"[{result.name} {mark}]")
                await call_back(options.on_tool_call_complete, result, result.call_id)

    async def _end_words(self, text: str) -> None:
        has_changed, self._words = text != self._words, ""
        if text:
            self._blocks.append(text)
        if has_changed:
            await self._update()

    async def _show_call(self, call_id: str, line: str) -> None:
        index = self._call_blocks.setdefault(call_id, len(self._blocks))
        self._blocks[index : index + 1] = [line]
        await self._update()

    async def _update(self) -> None:
        words = [self._words] if self._words else []
        await call_back(self._options.on_llm_response_update, "\n\n".join([*self._blocks, *words]))


def _object_or_text(arguments: str) -> Any:
    value = json_value(arguments)
    return value if isinstance(value, dict) else arguments
