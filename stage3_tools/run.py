"""A run of the loop in progress: what it has used so far, and how its calls are executed.

The only value in this stage that changes on the way: `turn.py` and `loop.py` carry it through the turns. Knows no
order of things.
"""

from dataclasses import dataclass, field
from typing import Any

from stage0_gateway import ChatResponse, Message, ToolCall, Usage
from stage1_context import Transcript
from stage3_tools.dialect import Dialect, RequestParts
from stage3_tools.errors import ToolError
from stage3_tools.events import LoopEvent, ToolProgressed, ToolRetried
from stage3_tools.execution import Execution
from stage3_tools.options import Consent, ToolLoopDeps, ToolLoopOptions
from stage3_tools.repeats import Repeats
from stage3_tools.result import ToolCallRecord


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
    over: bool = False
    """Whether nobody listens any more: a tool may go on that did not end when it was told to."""
    _execution: Execution | None = None
    _untold: Exception | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of this run."""
        return self.options.dialect or self.deps.prompt_dialect

    def emit(self, event: LoopEvent) -> None:
        """Tell whoever watches.

        Raises:
            Exception: What a listener raises, now or when it was told by a tool.
        """
        if self._untold is not None:
            untold, self._untold = self._untold, None
            raise untold
        if self.options.on_event is not None:
            self.options.on_event(event)

    def emit_safely(self, event: LoopEvent) -> None:
        """Tell it where nothing may fail, such as in a tool; what a listener raises comes with the next event."""
        try:
            self.emit(event)
        except Exception as error:
            self._untold = error

    @property
    def spent(self) -> str | None:
        """Which limit of tokens or money was reached, in a sentence; or None."""
        limits = self.options.limits
        return None if limits is None else limits.reached(self.usage, self.cost)

    def screen(self, call: ToolCall) -> str:
        """Look at a call before anything else does; returns what to tell the model besides its result.

        Raises:
            ToolError: It is not to be run.
        """
        if spent := self.spent:
            raise ToolError("interrupted", f"{spent} This call was not run.")
        return self.repeats.note(call)

    async def execution(self) -> Execution:
        """How the calls of this run are executed."""
        if self._execution is None:
            info, options = await self.transcript.info(), self.options
            origin = f"{info.id}\0{info.created.isoformat()}"
            consent = self.deps.always.get(self.transcript)
            if consent is None or consent.origin != origin:
                consent = self.deps.always[self.transcript] = Consent(origin)
            self._execution = Execution(
                session_id=info.id,
                origin=origin,
                approve=options.approve,
                approve_result=options.approve_result,
                always=consent.calls,
                always_results=consent.results,
                cache=options.cache,
                classify=options.classify,
                error_text=options.error_text,
                screen=self.screen,
                stopped=None if options.abort is None else options.abort.is_set,
                on_progress=self._progressed,
                on_retry=self._retried,
            )
        return self._execution

    def _progressed(self, call: ToolCall, value: Any) -> None:
        if not self.over:
            self.emit_safely(ToolProgressed(turn=self.turns, call=call, value=value))

    def _retried(self, call: ToolCall, error: ToolError, attempt: int) -> None:
        self.emit_safely(ToolRetried(turn=self.turns, call=call, error=error, attempt=attempt))

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
