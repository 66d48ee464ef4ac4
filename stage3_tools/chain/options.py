"""`ToolChainOptions`: how a tool chain is to go, and who is told of it on the way.

What is shown to people while the chain runs is one text: what the model says, and a line for each
tool. Knows no loop; used by `chain`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from stage0_gateway import ChatResponse, Message, MessageStream
from stage1_context import VariableStore
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
from stage3_tools.options import ToolLoopOptions, check_listener, messages_of
from stage3_tools.result import ToolResult
from stage3_tools.variables.long_values import LongValues, value_of


@dataclass(frozen=True)
class ToolChainOptions(ToolLoopOptions):
    """Options of a chain: all of `ToolLoopOptions` except `max_tool_rounds`, and the following.

    Attributes:
        chat: Sends messages and returns the reply; `Gateway.chat`.
        context_messages: The conversation before the reply that the chain begins with.
        max_rounds: The most tool rounds; then one last request is made, in which tools cannot be
            called.
        model: Another "provider:name", for the requests of this chain.
        system_prompt: The system prompt, unless the context contains it already.
        check_tool_results: Whether `approve` also receives the results, if there is no
            `approve_result`.
        on_tool_call_start: Called as `(name, arguments, call_id)` with each call before it is
            checked; arguments that are not a JSON object are passed as text.
        on_tool_call_complete: Called as `(result, call_id)` with each `ToolResult`, in call order.
        on_llm_response_update: Called with the text to show so far: the model's words, streamed if
            `stream` is given and the dialect is a `NativeDialect`, and a line for each tool.
        stream: `Gateway.stream`; used instead of `chat` if it is given.
        variables: Where long results and arguments are kept: `engine.variables`, together with
            `session_id`; or the `variables` of an earlier chain's result. None keeps them in
            memory, as long as the result of the chain. When the chain is over, everything else that
            its flow shows shortened is kept there as well.
        session_id: The session that they belong to.
        dialect: As in `ToolLoopOptions`, but None is a `NativeDialect`.
        approve: As in `ToolLoopOptions`, but without it a tool that needs approval is rejected: a
            chain does not wait.
    """

    chat: Callable[..., Awaitable[ChatResponse]]
    context_messages: Sequence[Message | Mapping[str, Any]] = ()
    max_rounds: int = 10
    max_tool_rounds: int | None = field(init=False, repr=False)
    model: str | None = None
    system_prompt: str | None = None
    check_tool_results: bool = False
    on_tool_call_start: Callable[[str, Any, str], object] | None = None
    on_tool_call_complete: Callable[[ToolResult, str], object] | None = None
    on_llm_response_update: Callable[[str], object] | None = None
    stream: Callable[..., MessageStream] | None = None
    variables: VariableStore | LongValues | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("on_tool_call_start", "on_tool_call_complete", "on_llm_response_update"):
            check_listener(name, getattr(self, name))
        if self.max_rounds < 0:
            raise ValueError(f"max_rounds is {self.max_rounds}; 0 is the least.")
        if not isinstance(self.variables, LongValues) and (self.variables is None) != (
            self.session_id is None
        ):
            raise ValueError(
                "variables and session_id belong together: engine.variables, and whose they are."
            )
        if self.check_tool_results and self.approve is None and self.approve_result is None:
            raise ValueError(
                "check_tool_results needs somebody to ask: approve_result, or approve."
            )
        self._set("context_messages", messages_of("context_messages", self.context_messages))
        self._set("max_tool_rounds", self.max_rounds)
        self._set("dialect", self.dialect or NativeDialect())
        if self.check_tool_results:
            self._set("approve_result", self.approve_result or self.approve)
        super().__post_init__()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    @property
    def context(self) -> tuple[Message, ...]:
        """The context, each a `Message`."""
        return cast("tuple[Message, ...]", self.context_messages)

    def with_callbacks(self) -> "ToolChainOptions":
        """The same options with a listener that calls the callbacks."""
        return replace(self, on_event=_Told(self).tell)


class _Told:
    """Who is told what, and the text that people see so far."""

    def __init__(self, options: ToolChainOptions) -> None:
        self._options = options
        # The text of native replies is meant for people.
        self._plain = isinstance(options.dialect, NativeDialect)
        self._blocks: list[str] = []
        self._lines: dict[str, int] = {}  # in which block a call stands
        self._arriving = ""

    def tell(self, event: LoopEvent) -> None:
        """Tell whom it concerns."""
        options = self._options
        match event:
            case ReplyStreamed(stream=stream) if (
                self._plain and options.on_llm_response_update is not None
            ):
                stream.on("text", lambda piece: self._arrives(getattr(piece, "delta", "")))
            case DecisionMade():
                self._said(event.reply or (event.text if self._plain else ""))
            case FeedbackGiven():  # nothing in it was used; another reply follows
                self._said("")
            case TurnEnded() if self._arriving:  # the provider ended it: refused, paused
                self._said(self._arriving)
            case ToolCalled(call=call):
                self._line(call.id, f"[{call.name} …]")
                if options.on_tool_call_start is not None:
                    options.on_tool_call_start(call.name, _object_or_text(call.arguments), call.id)
            case ToolAnswered(result=result):
                self._line(
                    result.call_id,
                    f"[{result.name} {'✗ ' + result.status if result.is_error else '✓'}]",
                )
                if options.on_tool_call_complete is not None:
                    options.on_tool_call_complete(result, result.call_id)
        if options.on_event is not None:
            options.on_event(event)

    def _arrives(self, delta: str) -> None:
        self._arriving += delta
        self._update()

    def _said(self, said: str) -> None:
        changed, self._arriving = said != self._arriving, ""
        if said:
            self._blocks.append(said)
        if changed:
            self._update()

    def _line(self, call_id: str, line: str) -> None:
        place = self._lines.setdefault(call_id, len(self._blocks))
        self._blocks[place : place + 1] = [line]
        self._update()

    def _update(self) -> None:
        if self._options.on_llm_response_update is not None:
            shown = [*self._blocks, self._arriving] if self._arriving else self._blocks
            self._options.on_llm_response_update("\n\n".join(shown))


def _object_or_text(arguments: str) -> Any:
    value = value_of(arguments)
    return value if isinstance(value, dict) else arguments
