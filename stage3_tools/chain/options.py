"""`ToolChainOptions`: the options of a tool chain, and its callbacks.

While the chain runs, people see one text: the words of the model, and a line for each tool. Used by
`chain.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, cast

from stage0_gateway import (
    FUNCTION,
    Accepted,
    Chat,
    ChatModel,
    Message,
    as_messages,
    chat_of,
    check_arguments,
)
from stage1_context import Transcript
from stage3_tools.dialects.native import NativeDialect
from stage3_tools.events import (
    DecisionMade,
    FeedbackGiven,
    LoopEvent,
    ReplyStreamed,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
)
from stage3_tools.options import Stream, ToolLoopOptions
from stage3_tools.result import ToolResult
from stage3_tools.run.notifier import Notifier
from stage3_tools.variables.long_values import LongValues, json_value

_ACCEPTED = {
    "system_prompt": Accepted(str, "a text"),
    "check_tool_results": Accepted(bool, "True or False"),
    "on_tool_call_start": Accepted(FUNCTION, "a function of the name, the arguments and the id"),
    "on_tool_call_complete": Accepted(FUNCTION, "a function of the result and the id"),
    "on_llm_response_update": Accepted(FUNCTION, "a function of one text"),
    "variables": Accepted(Transcript | LongValues, "engine.transcript(session_id)"),
}


@dataclass(frozen=True)
class ToolChainOptions(ToolLoopOptions):
    """The options of a chain: those of `ToolLoopOptions`, and these.

    Attributes:
        chat: The model: a `Gateway`, or an async function as in `ToolLoopDeps`.
        context_messages: The conversation before the first reply of the chain.
        max_rounds: Another name of `max_tool_rounds`.
        system_prompt: The system prompt, unless the context contains it already.
        check_tool_results: Whether `approve` also receives the results, if there is no
            `approve_result`.
        on_tool_call_start: Called as `(name, arguments, call_id)` with each call before it is
            checked; arguments that are not a JSON object are passed as text.
        on_tool_call_complete: Called as `(result, call_id)` with each `ToolResult`, in call order.
        on_llm_response_update: Called with the text so far: the words of the model, streamed if
            `stream` is set and the dialect is a `NativeDialect`, and a line for each tool.
        stream: As in `ToolLoopDeps`: True streams the replies through the gateway.
        gateway: The model behind a function, as in `ToolLoopDeps`.
        variables: Where long results are stored: a session, `engine.transcript(session_id)`; or the
            `variables` of an earlier chain's result. None stores them in memory, with the result of
            the chain. At the end of the chain, everything else that its flow shortens is stored
            there too.
        dialect: As in `ToolLoopOptions`, but None is a `NativeDialect`.
        approve: As in `ToolLoopOptions`. Without it, a call whose tool requires approval is
            rejected: a chain does not wait.

    Raises:
        ValueError: A number is out of range, or two options contradict each other.
    """

    chat: Chat | ChatModel
    context_messages: str | Sequence[Message | Mapping[str, Any]] = ()
    max_rounds: InitVar[int | None] = None
    system_prompt: str | None = None
    check_tool_results: bool = False
    on_tool_call_start: Callable[[str, Any, str], object] | None = None
    on_tool_call_complete: Callable[[ToolResult, str], object] | None = None
    on_llm_response_update: Callable[[str], object] | None = None
    stream: Stream | bool | None = None
    gateway: ChatModel | None = None
    variables: Transcript | LongValues | None = None

    def __post_init__(self, max_rounds: int | None) -> None:
        check_arguments(vars(self), _ACCEPTED)
        chat_of(self.chat)  # raises for other values
        if self.check_tool_results and self.approve is None and self.approve_result is None:
            raise ValueError("check_tool_results needs an approver: set approve_result or approve.")
        if self.tool_choice is not None:
            raise ValueError(
                "A chain starts with a reply, so tool_choice comes too late. Pass it to the "
                "request for this reply: gateway.chat(messages, tools=..., tool_choice=...)."
            )
        self._set("context_messages", as_messages(self.context_messages, "context_messages"))
        if max_rounds is not None:
            self._set("max_tool_rounds", max_rounds)
        self._set("dialect", self.dialect or NativeDialect())
        if self.check_tool_results:
            self._set("approve_result", self.approve_result or self.approve)
        super().__post_init__()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    @property
    def context(self) -> tuple[Message, ...]:
        """`context_messages`, with the type that they have after the conversion."""
        return cast("tuple[Message, ...]", self.context_messages)

    def with_callbacks(self) -> "ToolChainOptions":
        """The same options with a listener that calls the callbacks."""
        return replace(self, on_event=_Callbacks(self).on_event)


class _Callbacks:
    """Calls the callbacks of a chain, and composes the text that people see."""

    def __init__(self, options: ToolChainOptions) -> None:
        self._options = options
        # The text of native replies is meant for people; the text of prompt replies is JSON.
        self._shows_text = isinstance(options.dialect, NativeDialect)
        self._blocks: list[str] = []
        self._call_blocks: dict[str, int] = {}  # the index of the block of each call
        self._partial_text = ""
        self._notifier = Notifier()

    async def on_event(self, event: LoopEvent) -> None:
        """Call the callbacks that an event concerns."""
        options = self._options
        match event:
            case ReplyStreamed(stream=stream) if (
                self._shows_text and options.on_llm_response_update is not None
            ):
                stream.on("text", lambda piece: self._add_text(getattr(piece, "delta", "")))
            case DecisionMade():
                self._end_text(event.reply or (event.text if self._shows_text else ""))
            case FeedbackGiven():  # the reply was not used; another one follows
                self._end_text("")
            case TurnEnded() if self._partial_text:  # the provider ended the reply
                self._end_text(self._partial_text)
            case ToolCalled(call=call):
                self._show_call(call.id, f"[{call.name} …]")
                arguments = _object_or_text(call.arguments)
                await self._notifier.call(options.on_tool_call_start, call.name, arguments, call.id)
            case ToolAnswered(result=result):
                mark = f"✗ {result.status}" if result.is_error else "✓"
                self._show_call(result.call_id, f"[{result.name} {mark}]")
                await self._notifier.call(options.on_tool_call_complete, result, result.call_id)
        await self._notifier.call(options.on_event, event)

    def _add_text(self, delta: str) -> None:
        self._partial_text += delta
        self._update()

    def _end_text(self, text: str) -> None:
        has_changed, self._partial_text = text != self._partial_text, ""
        if text:
            self._blocks.append(text)
        if has_changed:
            self._update()

    def _show_call(self, call_id: str, line: str) -> None:
        index = self._call_blocks.setdefault(call_id, len(self._blocks))
        self._blocks[index : index + 1] = [line]
        self._update()

    def _update(self) -> None:
        if self._options.on_llm_response_update is not None:
            partial_text = [self._partial_text] if self._partial_text else []
            text = "\n\n".join([*self._blocks, *partial_text])
            self._notifier.call_soon(self._options.on_llm_response_update, text)


def _object_or_text(arguments: str) -> Any:
    value = json_value(arguments)
    return value if isinstance(value, dict) else arguments
