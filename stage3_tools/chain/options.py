"""`ToolChainOptions`: the options of a tool chain.

Used by `chain.py`; `callbacks.py` calls the callbacks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, cast

from stage0_gateway import (
    FUNCTION,
    Accepted,
    Chat,
    ChatModel,
    Message,
    as_messages,
    check_arguments,
)
from stage1_context import Transcript
from stage3_tools.dialects.native import NativeDialect
from stage3_tools.options import Stream, ToolLoopDeps, ToolLoopOptions
from stage3_tools.result import ToolResult
from stage3_tools.variables.long_values import LongValues

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
        on_llm_response_update: Called with the text so far: the words of the model, which arrive
            piece by piece if `stream` is set, and a line for each tool.
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
        ToolLoopDeps(self.chat, stream=self.stream, gateway=self.gateway)  # raises for other values
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

    @property
    def has_callbacks(self) -> bool:
        """Whether a callback is set."""
        callbacks = (self.on_tool_call_start, self.on_tool_call_complete)
        return any(callbacks) or self.on_llm_response_update is not None
