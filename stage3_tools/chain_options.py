"""`ToolChainOptions`: how a tool chain is to go, and who is told of it on the way.

What is shown to people while the chain runs is one text: what the model says, and a line for each tool. Knows no
loop; used by `chain`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from stage0_gateway import ChatResponse, Message, MessageStream
from stage1_context import VariableStore
from stage3_tools.abort import Abort
from stage3_tools.batch import MAX_PARALLEL
from stage3_tools.dialect import Dialect
from stage3_tools.events import (
    DecisionMade,
    FeedbackGiven,
    LoopEvent,
    ReplyStreamed,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
)
from stage3_tools.kinds import Classify, ErrorText
from stage3_tools.native import NativeDialect
from stage3_tools.options import (
    LONG,
    MOST_CHARACTERS,
    BeforeSend,
    ToolLoopOptions,
    check_kind,
    check_listener,
    messages_of,
)
from stage3_tools.result import ToolResult

if TYPE_CHECKING:
    from stage3_tools.approval import Approver
    from stage3_tools.cache import ResultCache
    from stage3_tools.limits import RunLimits
    from stage3_tools.long_values import LongValues


@dataclass(frozen=True)
class ToolChainOptions:
    """How a chain is to go.

    Attributes:
        chat: Sends messages and returns the reply; `Gateway.chat`.
        context_messages: The conversation before the reply that the chain begins with.
        max_rounds: The most rounds of tools; then one last request is made, in which tools cannot be called.
        abort: Stops the chain when it is set, with the status "aborted".
        model: Another "provider:name", for the requests of this chain.
        system_prompt: What the model is told first, if the context does not say it.
        check_tool_results: Whether results are asked about, too: by `approve_result`, or else by `approve`.
        on_tool_call_start: Called as `(name, arguments, call_id)` with each call before it is checked; arguments that
            are no JSON object come as the text they are.
        on_tool_call_complete: Called as `(result, call_id)` with each `ToolResult`, in call order.
        on_llm_response_update: Called with all there is to show so far: the model's words, streamed where `stream` is
            given and the dialect is the native one, and a line for each tool.
        before_send: Called as `before_send(messages, info)` with each request; may return other messages, for this
            request only.
        approve: Asked about each call before anything of its round is run. Where it is None, a tool that needs
            approval is rejected: a chain does not wait.
        approve_result: Asked about each result before the model sees it.
        stream: `Gateway.stream`; used instead of `chat` where it is given.
        chat_options: Passed on to `chat` or `stream` with each request, such as `provider_options`.
        temperature: Passed on to the model.
        max_tokens: The most tokens of one reply.
        dialect: How to talk about tools; None is a `NativeDialect`.
        max_parallel_tools: The most tools of one round that run at once.
        limits: The most the chain may use: seconds, tokens, cost.
        variables_over: Results and arguments with more characters are shown to the model as previews. When the chain
            is over, everything else that the flow shows shortened is kept, too. None keeps nothing.
        variables: Where they are kept: `engine.variables`, together with `session_id`; or the `variables` of an
            earlier chain's result. None keeps them in memory, for as long as the result of the chain is there.
        session_id: The session that they belong to.
        max_parse_retries: As in `ToolLoopOptions`, like the next four.
        cache: Keeps what read tools said.
        classify: Says what the exceptions of tools mean.
        error_text: What the model is told of an exception.
        max_result_chars: The most characters of a result that the model is shown.
        on_event: Called with each `LoopEvent`.

    Raises:
        ValueError: A number makes no sense, a callback is async, or variables have no session.
    """

    chat: Callable[..., Awaitable[ChatResponse]]
    context_messages: Sequence[Message | Mapping[str, Any]] = ()
    max_rounds: int = 10
    abort: Abort | asyncio.Event | None = None
    model: str | None = None
    system_prompt: str | None = None
    check_tool_results: bool = False
    on_tool_call_start: Callable[[str, Any, str], object] | None = None
    on_tool_call_complete: Callable[[ToolResult, str], object] | None = None
    on_llm_response_update: Callable[[str], object] | None = None
    before_send: BeforeSend | None = None
    approve: "Approver | None" = None
    approve_result: "Approver | None" = None
    stream: Callable[..., MessageStream] | None = None
    chat_options: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    max_tokens: int | None = None
    dialect: Dialect | None = None
    max_parallel_tools: int = MAX_PARALLEL
    limits: "RunLimits | None" = None
    variables_over: int | None = LONG
    variables: "VariableStore | LongValues | None" = None
    session_id: str | None = None
    max_parse_retries: int = 2
    cache: "ResultCache | None" = None
    classify: Classify | None = None
    error_text: ErrorText = "message"
    max_result_chars: int | None = MOST_CHARACTERS
    on_event: Callable[[LoopEvent], None] | None = None

    def __post_init__(self) -> None:
        for name in ("on_tool_call_start", "on_tool_call_complete", "on_llm_response_update"):
            check_listener(name, getattr(self, name))
        if self.chat is not None and not callable(self.chat):
            raise TypeError(f"chat is a function, such as gateway.chat, not {type(self.chat).__name__}.")
        object.__setattr__(self, "context_messages", messages_of("context_messages", self.context_messages))
        if self.max_rounds < 0:
            raise ValueError(f"max_rounds is {self.max_rounds}; 0 is the least.")
        if self.variables is not None and not isinstance(self.variables, VariableStore):
            from stage3_tools.long_values import LongValues

            check_kind("variables", self.variables, LongValues, "Or it is engine.variables.")
        in_store = self.variables is None or isinstance(self.variables, VariableStore)
        if in_store and (self.variables is None) != (self.session_id is None):
            raise ValueError(
                "variables and session_id belong together: engine.variables, and whose they are."
            )
        if self.check_tool_results and self.approve is None and self.approve_result is None:
            raise ValueError("check_tool_results needs somebody to ask: approve_result, or approve.")
        self.for_loop()

    @property
    def context(self) -> tuple[Message, ...]:
        """The context, each a `Message`."""
        return cast("tuple[Message, ...]", self.context_messages)

    def for_loop(self) -> ToolLoopOptions:
        """The same for the loop: what is called the same, and three things that are not."""
        names = {each.name for each in fields(ToolLoopOptions)} & {each.name for each in fields(self)}
        return ToolLoopOptions(
            **{name: getattr(self, name) for name in names - {"dialect", "approve_result"}},
            max_tool_rounds=self.max_rounds,
            dialect=self.dialect or NativeDialect(),
            approve_result=self.approve_result or (self.approve if self.check_tool_results else None),
        )

    def watched(self) -> ToolLoopOptions:
        """The same with a listener that calls the callbacks."""
        return replace(self.for_loop(), on_event=_Told(self).tell)


class _Told:
    """Who is told what, and the text that people see so far."""

    def __init__(self, options: ToolChainOptions) -> None:
        self._options = options
        # The text of native replies is meant for people.
        self._plain = options.dialect is None or isinstance(options.dialect, NativeDialect)
        self._blocks: list[str] = []
        self._lines: dict[str, int] = {}  # in which block a call stands
        self._arriving = ""

    def tell(self, event: LoopEvent) -> None:
        """Tell whom it concerns."""
        options = self._options
        match event:
            case ReplyStreamed(stream=stream) if self._plain and options.on_llm_response_update is not None:
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
                    result.call_id, f"[{result.name} {'✗ ' + result.status if result.is_error else '✓'}]"
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


def readable(text: str) -> Any:
    """The JSON value in a text, or the text."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)  # Python reads NaN, which is no JSON
        return value
    except (ValueError, RecursionError):
        return text


def _object_or_text(arguments: str) -> Any:
    value = readable(arguments)
    return value if isinstance(value, dict) else arguments
