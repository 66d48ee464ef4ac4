"""A run of the loop: what it works with, how it is set, and what it has used so far.

`ToolLoopDeps` names the pieces of the stages below, `ToolLoopOptions` the knobs, and `Run` carries both
through the turns together with the counts. Knows no order of things: that is `turn.py` and `loop.py`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property

from stage0_gateway import ChatResponse, Message, Usage
from stage1_context import ContextEngine, Transcript
from stage2_output import OutputController
from stage3_tools.dialect import Dialect, RequestParts
from stage3_tools.events import LoopEvent
from stage3_tools.limits import Repeats
from stage3_tools.prompt import PromptDialect
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord


@dataclass(frozen=True)
class ToolLoopDeps:
    """The pieces a loop is made of, one from each stage.

    Attributes:
        chat: Sends messages and returns the reply; `Gateway.chat`.
        context_engine: Keeps the sessions.
        output_controller: Reads decisions out of replies.
        tool_registry: The tools.
    """

    chat: Callable[..., Awaitable[ChatResponse]]
    context_engine: ContextEngine
    output_controller: OutputController
    tool_registry: ToolRegistry

    @cached_property
    def prompt_dialect(self) -> PromptDialect:
        """The dialect of runs that name no other; kept, because it remembers the description of the tools."""
        return PromptDialect(self.output_controller)


@dataclass(frozen=True)
class ToolLoopOptions:
    """How a run is to go.

    Attributes:
        max_tool_rounds: The most turns that run tools; then one last call is made without tools.
        max_parse_retries: How often in a row a reply that could not be used is answered with feedback.
        temperature: Passed on to the model.
        max_tokens: The most tokens of one reply; also kept free in the window.
        dialect: How to talk about tools; None is a `PromptDialect`.
        on_event: Called with each `LoopEvent`, in the order drawn in `events`. What it raises ends the run.

    Raises:
        ValueError: A limit is negative.
    """

    max_tool_rounds: int = 10
    max_parse_retries: int = 2
    temperature: float | None = None
    max_tokens: int | None = None
    dialect: Dialect | None = None
    on_event: Callable[[LoopEvent], None] | None = None

    def __post_init__(self) -> None:
        for name in ("max_tool_rounds", "max_parse_retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; 0 is the least.")


@dataclass
class Run:
    """One run in progress. The only value here that changes: the counts grow with each turn."""

    deps: ToolLoopDeps
    transcript: Transcript
    options: ToolLoopOptions
    question: Message | None = None
    """What is being answered. It is sent in every turn, also where the window has moved past it."""
    turns: int = 0
    tool_rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    records: list[ToolCallRecord] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)
    shown: tuple[Message, ...] = ()
    last_content: str | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of this run."""
        return self.options.dialect or self.deps.prompt_dialect

    def emit(self, event: LoopEvent) -> None:
        """Tell whoever watches."""
        if self.options.on_event is not None:
            self.options.on_event(event)

    async def ask(self, parts: RequestParts) -> ChatResponse:
        """One model call; its usage is added up.

        Raises:
            GatewayError: The model could not be asked.
        """
        settings = {
            "tools": parts.tools,
            "temperature": self.options.temperature,
            "max_tokens": self.options.max_tokens,
        }
        given = {name: value for name, value in settings.items() if value not in (None, ())}
        self.shown = parts.messages
        response = await self.deps.chat(parts.messages, **given)
        self.usage += response.usage or Usage()
        self.transcript.report_usage(response.usage)
        if response.cost is not None:
            self.cost = (self.cost or 0.0) + response.cost
        self.last_content = response.content
        return response
