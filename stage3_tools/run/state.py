"""A run of the loop in progress: what it has used so far, and how its calls are executed.

The only value in this stage that changes on the way: `turn.py` and `loop.py` carry it through the
turns. Does not know what comes next.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stage0_gateway import ChatResponse, Message, ToolCall, Usage
from stage1_context import StoreFailed, Transcript
from stage3_tools.dialects.prompt import PromptDialect
from stage3_tools.dialects.protocol import Dialect
from stage3_tools.errors import ToolError
from stage3_tools.events import LoopEnded, LoopEvent, ToolProgressed, ToolRetried
from stage3_tools.execution.results import STOPPED
from stage3_tools.execution.settings import REFERENCE, Consent, Execution
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import ToolRegistry
from stage3_tools.registry_view import ExtendedRegistry
from stage3_tools.result import ToolCallRecord, ToolResult, is_longer
from stage3_tools.run.abort import RunStopped
from stage3_tools.run.repeats import Repeats
from stage3_tools.tool import Tool
from stage3_tools.variables.long_values import LongValues


@dataclass
class Run:
    """One run in progress. The only value here that changes: the counts grow with each turn."""

    deps: ToolLoopDeps
    transcript: Transcript
    options: ToolLoopOptions
    question: Message | None = None
    """What is being answered. It is sent in every turn, also where the window has moved past it."""

    # How it may end, and be changed on the way.
    waits: bool = True
    """Whether the run may end because a call waits for consent; else such a call is rejected."""
    max_turns: int | None = None
    """The most requests; after the last one nothing is run whose result could not be sent."""
    between: Callable[[], Awaitable[bool]] | None = None
    """Awaited after each turn, for edits; returns whether there is something new to answer."""
    started: float = field(default_factory=time.perf_counter)
    """When it began, as `time.perf_counter` counts; its limit of time counts from here."""
    over: bool = False
    """Whether nobody listens any more: a tool may go on that did not end when it was told to."""

    # What it has done so far.
    turns: int = 0
    tool_rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    records: list[ToolCallRecord] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)

    # Of the newest request and its reply.
    seen: int | None = None
    """How many records the journal had when the request was made: whoever replied since is a
    rival."""
    shown: tuple[Message, ...] = ()
    last_content: str | None = None
    asked_with: Usage | None = None
    """What the reply took."""

    # Long results and arguments.
    long_values_in: LongValues | None = None
    """Where they are kept, if not in the journal of the conversation."""
    reads_variables: bool | None = None
    """Whether the model has seen a reference, and so has a tool that reads variables; None: to be
    found out."""

    expands: bool = False
    """Whether references are expanded although `variables_over` is None: in calls that another run
    has stored."""

    _execution: Execution | None = None
    _untold: Exception | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of this run."""
        return self.options.dialect or PromptDialect(self.deps.output_controller)

    def tools(self, registry: ToolRegistry) -> ToolRegistry:
        """These tools, and one that reads variables where there are any; no tools stay no tools."""
        if not self.reads_variables or not len(registry):
            return registry
        return ExtendedRegistry(registry, self.long_values.reader)

    @property
    def long_values(self) -> LongValues:
        """Where long results and arguments of this run are kept; most runs have none."""
        if self.long_values_in is None:
            self.long_values_in = LongValues.of(self.transcript)
        return self.long_values_in

    async def storable(self, message: Message) -> Message:
        """The message of a reply as it is stored: with references to its long arguments.

        A conversation without a session keeps them: another runner may continue with its messages
        elsewhere.
        """
        most = self.options.variables_over
        if most is None or not self.transcript.session_id:
            return message
        if all(len(call.arguments) <= most for call in message.tool_calls):
            return message
        with suppress(StoreFailed, ValueError):  # then they are stored whole
            shorter = await self.long_values.with_references(message, most)
            self.reads_variables = self.reads_variables or shorter is not message or None
            return shorter
        return message

    async def answer(self, result: ToolResult) -> tuple[Message, str | None]:
        """The message that answers a call; a long result is kept as a variable, whose id is
        returned, too.
        """
        most, variable = self.options.variables_over, None
        if most is not None and not result.is_error and is_longer(result.output, most):
            with suppress(StoreFailed, ValueError):  # then its beginning is shown, and no more
                result, variable = await self.long_values.preview(result, most)
                self.reads_variables = self.reads_variables or variable is not None or None
        return result.as_message(self.options.max_result_chars), variable

    def change(self, options: ToolLoopOptions) -> None:
        """Go on with other options."""
        self.options, self._execution = options, None

    def has_seen(self, messages: Iterable[Message]) -> bool:
        """Look for references in what the model is shown; returns whether these are the first
        ones.
        """
        if self.reads_variables is not None or self.options.variables_over is None:
            return False
        self.reads_variables = any(map(_refers, messages))
        return self.reads_variables

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

    def tell(self, kind: Callable[..., LoopEvent], **what: Any) -> None:
        """Tell of this turn whoever watches; where nobody does, no event is made."""
        if self.options.on_event is not None:
            self.emit(kind(turn=self.turns, **what))

    def emit_safely(self, event: LoopEvent) -> None:
        """Tell it where nothing may fail, such as in a tool; what a listener raises comes with the
        next event.
        """
        try:
            self.emit(event)
        except Exception as error:
            self._untold = error

    def end(self, status: str, reply: str | None) -> None:
        """Report once that the run is over.

        Raises:
            Exception: What a listener raises.
        """
        if not self.over:
            self.over = True
            self.tell(LoopEnded, status=status, reply=reply)

    @property
    def is_aborted(self) -> bool:
        """Whether somebody has set the `abort` of the options."""
        return self.options.abort is not None and self.options.abort.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether the run was aborted, or its time is over: no further request or tool call may
        begin.
        """
        left = self.seconds_left
        return (left is not None and left <= 0) or self.is_aborted

    @property
    def seconds_left(self) -> float | None:
        """How many seconds the run still has; None is no limit."""
        limits = self.options.limits
        if limits is None or limits.seconds is None:
            return None
        return self.started + limits.seconds - time.perf_counter()

    def checkpoint(self) -> None:
        """End the run here if it was stopped; called before each request.

        A task is cancelled only once when it is stopped, and a function of the user may suppress
        that.

        Raises:
            RunStopped: It was stopped.
        """
        if self.is_stopped:
            raise RunStopped("aborted" if self.is_aborted else "timeout")

    @property
    def spent(self) -> str | None:
        """Which limit of tokens or money was reached, in a sentence; or None."""
        limits = self.options.limits
        return None if limits is None else limits.reached(self.usage, self.cost)

    def screen(self, call: ToolCall) -> str:
        """Look at a call before anything else does; returns what to tell the model besides its
        result.

        Raises:
            ToolError: It is not to be run.
        """
        if spent := self.spent:
            raise ToolError("interrupted", f"{spent} This call was not run.")
        if self.is_stopped:
            raise ToolError("interrupted", STOPPED)
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
                consent=consent,
                cache=options.cache,
                classify=options.classify,
                error_text=options.error_text,
                screen=self.screen,
                expand=self._expanded
                if self.expands or options.variables_over is not None
                else None,
                stopped=lambda: self.is_stopped,
                on_progress=self._progressed,
                on_retry=self._retried,
            )
        return self._execution

    async def _expanded(self, tool: Tool, arguments: Any) -> str:
        return await self.long_values.expanded(tool, arguments)

    def _progressed(self, call: ToolCall, value: Any) -> None:
        if not self.over:
            self.emit_safely(ToolProgressed(turn=self.turns, call=call, value=value))

    def _retried(self, call: ToolCall, error: ToolError, attempt: int) -> None:
        self.emit_safely(ToolRetried(turn=self.turns, call=call, error=error, attempt=attempt))

    def took(self, response: ChatResponse) -> ChatResponse:
        """Add up what a reply took; returns it."""
        self.asked_with = response.usage
        self.usage += response.usage or Usage()
        self.transcript.report_usage(response.usage)
        if response.cost is not None:
            self.cost = (self.cost or 0.0) + response.cost
        self.last_content = response.content
        return response


def _refers(message: Message) -> bool:
    """Whether a reference stands in a message, or in the arguments of its calls."""
    return REFERENCE in message.text or any(
        REFERENCE in call.arguments for call in message.tool_calls
    )
