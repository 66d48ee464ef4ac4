"""`RunState` and `Turn`: what a run of the loop has done so far.

`RunState` is the one value that changes during a run: `turn.py` and `loop.py` pass it along. Its
parts are values of their own:

    counts     tokens, costs and turns, and whether a limit was reached
    events     passes events to the listeners
    variables  long results
    typed      the type of the final reply
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, field, fields, replace
from typing import Any, Literal, cast

from stage0_gateway import ChatResponse, Message, MessageStream, ToolCall, Usage
from stage1_context import Compaction, Selection, Transcript
from stage3_tools.abort import Abort
from stage3_tools.context import ParentRun
from stage3_tools.dialects.prompt import PromptDialect
from stage3_tools.dialects.protocol import Dialect, FinalReply, ReplyInterpretation, ToolCalls
from stage3_tools.errors import ToolError
from stage3_tools.events import (
    ApprovalDecided,
    Compacted,
    LoopEnded,
    RunStarted,
    ToolProgressed,
    ToolRetried,
)
from stage3_tools.execution.approval import ApprovalRequest, Consent, Verdict
from stage3_tools.execution.results import STOPPED
from stage3_tools.execution.settings import ExecutionSettings
from stage3_tools.options import Listener, RunLimits, ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolLoopResult, plain_data
from stage3_tools.run.counts import RunCounts, check_prices
from stage3_tools.run.emitter import EventEmitter
from stage3_tools.run.tool_choice import ToolChoice
from stage3_tools.run.typed_reply import TypedReply, warn_of_unknown_model
from stage3_tools.run.variables import RunVariables
from stage3_tools.variables.long_values import Values


@dataclass(frozen=True, slots=True)
class ProviderStop:
    """The provider ended the reply: the model refused, or it paused and expects another request."""

    message: Message
    reason: Literal["refusal", "pause"]


@dataclass(eq=False)
class Turn:
    """One model request, the reply to it, and the results of the calls in the reply.

    Attributes:
        tools: The tools that the model may call.
        last: Whether tools could not be called in the request; calls in the reply are dropped.
        choice: What the reply must call.
        sent: When the request was sent, by `time.perf_counter`; None if it was not.
        stream: The reply while it arrives, if it is streamed.
        response: The complete reply; None until it was read.
        was_reported: Whether the listeners have received it.
        interpretation: The meaning of the reply; None until it is known.
        was_read: Whether the interpretation is final: its calls have the ids of the history.
        acted: Whether the reply and the results of its calls are in the history.
        records: The calls of the reply with their results.
        waiting: Calls that wait for approval; if there are any, no tool of the turn was run.
    """

    tools: ToolRegistry
    last: bool = False
    choice: ToolChoice | None = None
    sent: float | None = None
    stream: MessageStream | None = None
    response: ChatResponse | None = None
    was_reported: bool = False
    interpretation: ReplyInterpretation | ProviderStop | None = None
    was_read: bool = False
    acted: bool = False
    records: tuple[ToolCallRecord, ...] = ()
    waiting: tuple[ToolCall, ...] = ()

    @property
    def normalized_response(self) -> ChatResponse:
        """The reply with its interpreted message, which is the same in every dialect."""
        assert self.response is not None
        if isinstance(self.interpretation, ToolCalls | FinalReply):
            return replace(self.response, message=self.interpretation.message)
        return self.response


def ran_tools(records: Iterable[ToolCallRecord]) -> bool:
    """Whether a tool was run or a cached result was used; rejected calls do not count."""
    return any(record.result.attempts or record.result.cached for record in records)


@dataclass(eq=False)
class RunState:
    """The state of one run.

    Attributes:
        deps: The parts of the other stages.
        transcript: The conversation.
        options: The options of the run; `change_options` replaces them.
        question: The message that is being answered. Every request contains it, even if the window
            has moved past it.
        entry: The entry: "loop", "runner" or "chain".
        can_suspend: Whether the run may end because a call waits for approval. If not, such a call
            is rejected.
        max_requests: The maximum number of requests. The calls of the last reply are not run,
            because their results could not be sent.
        values: Where long results are stored; None is the journal of the conversation.
        listeners: The trace and the listeners of the entry, which are called before `on_event`.
        records: All calls with their results.
        sent_at: The number of records in the journal when the last request was made. A reply or
            call that another run has added since is a conflict. None before the first request.
        last_request: The messages of the last request.
        last_selection: The selection from which the last reported request was rendered.
        last_content: The text of the last reply.
        last_usage: The tokens of the last reply.
        tool_choice: What the next reply must call, as in the options; None after a valid reply.
        typed: The type of the final reply; None if any text is accepted.
        dialect: The dialect of the next request.
        counts: What the run has used, and its limits.
        events: Passes events to the listeners.
        variables: The long results.

    Raises:
        ConfigurationError: A limit of the cost needs prices, and the gateway has none.
        InvalidSchema: The output type is an invalid JSON Schema.
        TypeError: The dialect cannot request replies of a type.
    """

    deps: ToolLoopDeps
    transcript: Transcript
    options: ToolLoopOptions
    question: Message | None = None
    entry: Literal["loop", "runner", "chain"] = "loop"
    can_suspend: bool = True
    max_requests: int | None = None
    values: InitVar[Values | None] = None
    listeners: tuple[Listener, ...] = ()
    records: list[ToolCallRecord] = field(default_factory=list)
    sent_at: int | None = None
    last_request: tuple[Message, ...] = ()
    last_selection: Selection | None = None
    last_content: str | None = None
    last_usage: Usage | None = None
    tool_choice: str | None = None
    _has_started: bool = False
    _settings: ExecutionSettings | None = None

    def __post_init__(self, values: Values | None) -> None:
        parent = self.options.parent
        self.counts = RunCounts(parent)
        self.events = EventEmitter(parent, self.counts.is_stopped)
        self.variables = RunVariables(self.transcript, values)
        self.tool_choice = self.options.tool_choice
        if self.options.trace is not None:  # it stays when a runner changes its options
            self.listeners = (self.options.trace, *self.listeners)
        self._use(self.options)
        if self.typed is not None and self.deps.gateway is None:
            warn_of_unknown_model()

    # ---- what follows from the options

    def change_options(self, options: ToolLoopOptions) -> None:
        """Use other options from now on."""
        if options.tool_choice != self.options.tool_choice:
            self.tool_choice = options.tool_choice
        self._use(options)

    def _use(self, options: ToolLoopOptions) -> None:
        controller, output_type = self.deps.output_controller, options.output_type
        if options.limits is not None:
            check_prices(options.limits, self.deps.gateway)
        self.options, self._settings = options, None
        self.typed = None if output_type is None else TypedReply(controller, output_type)
        dialect = options.dialect or PromptDialect(controller)
        self.dialect: Dialect = self.typed.dialect(dialect) if self.typed else dialect
        self.counts.use(options.limits, options.abort)
        self.variables.over = options.variables_over
        self.events.use((*self.listeners, *cast("Sequence[Listener]", options.on_event)))

    def tools(self) -> ToolRegistry:
        """The tools of the next turn."""
        return self.variables.tools(self.deps.tool_registry)

    async def settings(self) -> ExecutionSettings:
        """How the calls of this run are executed."""
        if self._settings is None:
            info, options = await self.transcript.info(), self.options
            origin = f"{info.id}\0{info.created.isoformat()}"
            consent = self.transcript.attachments.get("consent")
            if not isinstance(consent, Consent) or consent.origin != origin:
                consent = self.transcript.attachments["consent"] = Consent(origin)
            self._settings = ExecutionSettings(
                session_id=info.id,
                origin=origin,
                approve=options.approve,
                approve_all=options.approve_all,
                can_suspend=self.can_suspend,
                approve_result=options.approve_result,
                consent=consent,
                cache=options.cache,
                classify=options.classify,
                screen=self.screen,
                expand=None if options.variables_over is None else self.variables.expand,
                stopped=self.counts.is_stopped,
                on_progress=self._on_progress,
                on_retry=self._on_retry,
                on_verdict=self._on_verdict,
                sub_run=self._sub_run,
            )
        return self._settings

    def screen(self, call: ToolCall) -> str:
        """Return a note for the model on a call, or ""; raise ToolError if it must not be run."""
        if limit := self.counts.limit_reached():
            raise ToolError("interrupted", f"{limit} This call was not run.")
        if self.counts.stop_reason():
            raise ToolError("interrupted", STOPPED)
        return self.counts.repeats.note(call)

    @property
    def cache_key(self) -> str | None:
        """The session, as the key of a prompt cache; None if the model accepts none."""
        gateway = self.deps.gateway
        return self.transcript.session_id if gateway and gateway.accepts_cache_key else None

    def add_reply(self, response: ChatResponse) -> None:
        """Count a reply of the model."""
        self.last_usage, self.last_content = response.usage, response.content
        self.transcript.report_usage(response.usage)
        self.counts.add(response)

    def add_compaction(self, compaction: Compaction) -> None:
        """Count the replies that summarized old messages, and report them."""
        for reply in compaction.replies:
            self.counts.add(reply)
        self.events.emit_soon(
            Compacted,
            usage=compaction.usage,
            cost=compaction.cost,
            before=compaction.before,
            after=compaction.after,
            reason=compaction.reason,
            error=compaction.error,
        )

    # ---- events

    async def start(self) -> None:
        """Report once that the run begins. Called if there are listeners."""
        if self._has_started:
            return
        self._has_started = True
        self.events.begin()
        gateway = self.deps.gateway
        await self.events.emit(
            RunStarted,
            started=time.time(),
            entry=self.entry,
            session_id=self.transcript.session_id,
            question=self.question,
            options=self._plain_options(),
            dialect=self.dialect,
            model=self.options.model or (gateway and gateway.model),
            gateway=gateway,
            tools=tuple(self.tools()),
        )

    async def end(self, result: ToolLoopResult) -> None:
        """Report once that the run is over; raise what a listener raised."""
        if self.events.listeners:
            await self.start()
        if not self.events.is_over:
            self.events.is_over = True
            await self.events.emit(
                LoopEnded, status=result.status, reply=result.reply, result=result, **self._totals()
            )

    async def fail(self, error: BaseException, status: str = "") -> None:
        """Report once that the run ended with an exception."""
        if not self.events.is_over:
            self.events.is_over = True
            status = status or ("error" if isinstance(error, Exception) else "cancelled")
            await self.events.emit_safely(
                LoopEnded, status=status, reply=None, result=None, error=error, **self._totals()
            )

    def reopen(self) -> None:
        """Continue a run that ended with an exception."""
        if self.events.is_over:
            self.events.reopen()

    def _totals(self) -> dict[str, Any]:
        counts = self.counts
        return {"usage": counts.usage, "cost": counts.cost, "tool_rounds": counts.tool_rounds}

    def _plain_options(self) -> dict[str, Any]:
        """The options that were set, as plain data."""
        plain = {}
        for option in fields(ToolLoopOptions):
            value = getattr(self.options, option.name)
            if value is not None and value != () and option.name not in _NO_OPTIONS:
                plain[option.name] = _plain(value)
        return plain if self.typed is None else {**plain, "output_type": self.typed.schema}

    def _on_progress(self, call: ToolCall, value: Any) -> None:
        self.events.emit_soon(ToolProgressed, call=call, value=value)

    def _on_retry(self, call: ToolCall, error: ToolError, attempt: int) -> None:
        self.events.emit_soon(ToolRetried, call=call, error=error, attempt=attempt)

    async def _on_verdict(self, request: ApprovalRequest, verdict: Verdict, seconds: float) -> None:
        """Report a verdict, without a result that it may have rejected or redacted."""
        await self.events.emit(
            ApprovalDecided,
            request=replace(request, result=None),
            about="call" if request.result is None else "result",
            verdict=verdict,
            seconds=seconds,
        )

    def _sub_run(self, call: ToolCall, abort: Abort) -> ParentRun:
        return ParentRun(
            self.events.run_id,
            call.id,
            abort,
            self.events.forward,
            self.counts.add,
            self._limit_of_outer_run,
        )

    def _limit_of_outer_run(self) -> str | None:
        """The limit that was reached, in the words for a run inside of a tool."""
        reason = self.counts.limit_reached()
        return reason and reason.replace("this run", "the outer run")


_NO_OPTIONS = {"dialect", "model", "trace", "parent"}
"""Options that `run_start` reports in other fields, or not at all."""


def _plain(value: Any) -> Any:
    """The value of an option as plain data; of functions and other objects, the name."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, RunLimits):
        return {name: limit for name, limit in asdict(value).items() if limit is not None}
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    if isinstance(value, Mapping):
        return plain_data(value)
    return getattr(value, "__qualname__", type(value).__qualname__)
