"""`RunState` and `Turn`: what a run of the loop has done so far.

`RunState` is the one value that changes during a run: `turn.py` and `loop.py` pass it along. It
counts usage, notifies the listener, and holds the settings for executing calls. It does not decide
what happens next.
"""

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from stage0_gateway import (
    ChatResponse,
    Message,
    MessageStream,
    ToolCall,
    Usage,
)
from stage1_context import Compaction, StoreFailed, Transcript
from stage2_output import feedback
from stage3_tools.abort import RunStopped
from stage3_tools.dialects.prompt import PromptDialect
from stage3_tools.dialects.protocol import (
    Dialect,
    FinalReply,
    InvalidReply,
    OutputDialect,
    ReplyInterpretation,
    RequestParts,
    ToolCalls,
)
from stage3_tools.errors import ToolError
from stage3_tools.events import LoopEnded, LoopEvent, ToolProgressed, ToolRetried
from stage3_tools.execution.approval import Consent
from stage3_tools.execution.results import STOPPED
from stage3_tools.execution.settings import REFERENCE, ExecutionSettings
from stage3_tools.options import RunTrace, ToolLoopDeps, ToolLoopOptions, type_error
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import (
    MAX_RESULT_CHARS,
    ToolCallRecord,
    ToolLoopResult,
    ToolResult,
    is_longer,
)
from stage3_tools.run.cost_limit import check_prices, unknown_cost
from stage3_tools.run.notifier import Notifier
from stage3_tools.run.repeats import Repeats
from stage3_tools.run.tool_choice import ToolChoice
from stage3_tools.tool import Tool
from stage3_tools.variables.long_values import LongValues

_INVALID_OUTPUT = "Your answer must be JSON that fits its schema."


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
        stream: The reply while it arrives, if it is streamed.
        response: The complete reply; None until it was read.
        interpretation: The meaning of the reply; None until it is known.
        was_read: Whether the interpretation is final: its calls have the ids of the history.
        acted: Whether the reply and the results of its calls are in the history.
        records: The calls of the reply with their results.
        waiting: Calls that wait for approval; if there are any, no tool of the turn was run.
    """

    tools: ToolRegistry
    last: bool = False
    choice: ToolChoice | None = None
    stream: MessageStream | None = None
    response: ChatResponse | None = None
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


@dataclass
class RunState:
    """The state of one run.

    Attributes:
        deps: The parts of the other stages.
        transcript: The conversation.
        options: The options of the run.
        question: The message that is being answered. Every request contains it, even if the window
            has moved past it.
        can_suspend: Whether the run may end because a call waits for approval. If not, such a call
            is rejected.
        max_requests: The maximum number of requests. The calls of the last reply are not run,
            because their results could not be sent.
        started: When the run started, by `time.perf_counter`.
        is_over: Whether `loop_end` was reported. An abandoned tool may still run.
        turns: The number of requests so far.
        tool_rounds: The number of turns that ran a tool.
        usage: The tokens of all replies, and of summaries of old messages.
        cost: Their cost in US dollars; None if no price is known.
        unknown_cost: Why a limit of the cost ends the run although the cost is unknown; None if it
            is known, or not limited.
        summaries: The replies that summarized old messages for a request of this run.
        records: All calls with their results.
        repeats: Counts equal calls in a row.
        expected_length: The number of records in the journal when the last request was made. A
            reply or call that another run has added since is a conflict.
        last_request: The messages of the last request.
        last_content: The text of the last reply.
        last_usage: The tokens of the last reply.
        tool_choice: What the next reply must call, as in the options; None after a valid reply.
        reads_variables: Whether the model has seen a reference, and therefore has the tool
            `read_variable`; None if not known yet.
        trace: Follows the run; None if nothing does.
    """

    deps: ToolLoopDeps
    transcript: Transcript
    options: ToolLoopOptions
    question: Message | None = None
    can_suspend: bool = True
    max_requests: int | None = None
    started: float = field(default_factory=time.perf_counter)
    is_over: bool = False
    turns: int = 0
    tool_rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    unknown_cost: str | None = None
    summaries: list[ChatResponse] = field(default_factory=list)
    records: list[ToolCallRecord] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)
    expected_length: int | None = None
    last_request: tuple[Message, ...] = ()
    last_content: str | None = None
    last_usage: Usage | None = None
    tool_choice: str | None = None
    reads_variables: bool | None = None
    _settings: ExecutionSettings | None = None
    _notifier: Notifier = field(default_factory=Notifier)
    trace: RunTrace | None = None

    def __post_init__(self) -> None:
        self.tool_choice = self.options.tool_choice
        if self.options.limits is not None:
            check_prices(self.options.limits, self.deps.gateway)
        if self.options.trace is not None:
            self.trace = self.options.trace.start(self)

    @cached_property
    def long_values(self) -> LongValues:
        """Long results, stored as variables. Created when first used."""
        return LongValues.of(self.transcript)

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect of this run."""
        dialect = self.options.dialect or PromptDialect(self.deps.output_controller)
        return dialect if self.options.output_type is None else self._with_output(dialect)

    def _with_output(self, dialect: Dialect) -> Dialect:
        if not isinstance(dialect, OutputDialect):
            hint = "output_type needs for_output(schema)."
            raise type_error("dialect", dialect, OutputDialect, hint)
        return dialect.for_output(
            self.deps.output_controller.compile(self.options.output_type).schema
        )

    # ---- tools and their settings

    def tools(self) -> ToolRegistry:
        """The tools of the next turn; `read_variable` is added if the model knows a reference."""
        registry = self.deps.tool_registry
        if not self.reads_variables or not len(registry):
            return registry
        return registry.extended(self.long_values.reader)

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
                approve_result=options.approve_result,
                consent=consent,
                cache=options.cache,
                classify=options.classify,
                screen=self.screen,
                expand=None if options.variables_over is None else self._expand,
                stopped=lambda: self.stop_reason is not None,
                on_progress=self._on_progress,
                on_retry=self._on_retry,
            )
        return self._settings

    async def _expand(self, tool: Tool, arguments: Any) -> str:
        return await self.long_values.expand(tool, arguments)

    def change_options(self, options: ToolLoopOptions) -> None:
        """Use other options from now on."""
        if options.tool_choice != self.options.tool_choice:
            self.tool_choice = options.tool_choice
        self.options = options if self.trace is None else self.trace.wrap_options(options)
        self._settings = None
        vars(self).pop("dialect", None)

    def screen(self, call: ToolCall) -> str:
        """Return a note for the model on a call, or ""; raise ToolError if it must not be run."""
        if limit := self.limit_reached:
            raise ToolError("interrupted", f"{limit} This call was not run.")
        if self.stop_reason:
            raise ToolError("interrupted", STOPPED)
        return self.repeats.note(call)

    @property
    def cache_key(self) -> str | None:
        """The session, as the key of a prompt cache; None if the model accepts none."""
        gateway = self.deps.gateway
        return self.transcript.session_id if gateway and gateway.accepts_cache_key else None

    # ---- replies with a type

    def server_supports_schema(self, parts: RequestParts) -> bool:
        """Whether the server supports structured output for the schema of this request."""
        gateway, schema = self.deps.gateway, parts.response_schema
        if gateway is None or not isinstance(schema, Mapping) or schema.get("type") != "object":
            return False
        return gateway.supports_schema_with_tools if parts.tools else gateway.supports_schema

    def check_output(self, reply: FinalReply) -> FinalReply | InvalidReply:
        """Validate a reply with the output type, if there is one."""
        if self.options.output_type is None:
            return reply
        controller = self.deps.output_controller
        result = controller.parse_and_validate(reply.message.text, self.options.output_type)
        if result.extraction is None or not result.success:
            problem = f"{_INVALID_OUTPUT}\n{feedback(result)}"
            return InvalidReply(reply.message, problem, result.errors)
        text = json.dumps(result.extraction.value, ensure_ascii=False)
        return replace(reply, output_text=text, output=result.data)

    # ---- long values

    async def result_message(self, result: ToolResult) -> tuple[Message, str | None]:
        """The message of a result, and the id of the variable that stores it if it is long."""
        limit, variable = self.options.variables_over, None
        if limit is not None and not result.is_error and is_longer(result.output, limit):
            with suppress(StoreFailed, ValueError):  # then only its beginning is shown
                result, variable = await self.long_values.preview(result, limit)
                self.reads_variables = self.reads_variables or variable is not None or None
        return result.as_message(MAX_RESULT_CHARS), variable

    def find_references(self, messages: Iterable[Message]) -> bool:
        """Search messages for references to variables; return whether these are the first ones."""
        if self.reads_variables is not None or self.options.variables_over is None:
            return False
        self.reads_variables = any(
            REFERENCE in message.text
            or any(REFERENCE in call.arguments for call in message.tool_calls)
            for message in messages
        )
        return self.reads_variables

    # ---- usage and limits

    def add_usage(self, response: ChatResponse) -> None:
        """Add the tokens and the cost of a reply."""
        self.last_usage, self.last_content = response.usage, response.content
        self.transcript.report_usage(response.usage)
        self._count(response)

    def add_compaction(self, compaction: Compaction) -> None:
        """Add the tokens and the cost of the replies that summarized old messages."""
        for reply in compaction.replies:
            self.summaries.append(reply)
            self._count(reply)

    def _count(self, response: ChatResponse) -> None:
        if response.usage is not None:
            self.usage += response.usage
        if response.cost is not None:
            self.cost = (self.cost or 0.0) + response.cost
        elif self.options.limits is not None:
            self.unknown_cost = unknown_cost(self.options.limits, response)

    @property
    def limit_reached(self) -> str | None:
        """The limit of tokens or money that was reached, as a sentence; None if none was."""
        limits = self.options.limits
        return self.unknown_cost or (limits.reached(self.usage, self.cost) if limits else None)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit; None without a limit."""
        limits = self.options.limits
        if limits is None or limits.seconds is None:
            return None
        return self.started + limits.seconds - time.perf_counter()

    @property
    def stop_reason(self) -> Literal["aborted", "timeout"] | None:
        """Why no further request or call may begin; None if the run was not stopped."""
        if self.options.abort is not None and self.options.abort.is_set():
            return "aborted"
        seconds = self.seconds_left
        return "timeout" if seconds is not None and seconds <= 0 else None

    def checkpoint(self) -> None:
        """Raise RunStopped if the run was stopped or a limit was reached, before each request.

        A stopped run is cancelled only once, and a function of the user may suppress that.
        """
        if reason := self.stop_reason or ("limit" if self.limit_reached else None):
            raise RunStopped(reason)

    # ---- events

    async def notify(self, event: type[LoopEvent], **fields: Any) -> None:
        """Report an event; raise what the listener raised now, or at an event of a tool."""
        if self.trace is not None:
            self.trace.record(event, fields)
        if self.options.on_event is not None:
            await self._notifier.call(self.options.on_event, event(turn=self.turns, **fields))

    async def notify_safely(self, event: type[LoopEvent], **fields: Any) -> None:
        """Report an event where nothing may fail; `notify` raises the listener's error later."""
        try:
            await self.notify(event, **fields)
        except Exception as error:
            self._notifier.error = error

    def _notify_soon(self, event: type[LoopEvent], **fields: Any) -> None:
        if self.trace is not None and not self.is_over:
            self.trace.record(event, fields)
        if self.options.on_event is not None and not self.is_over:
            self._notifier.call_soon(self.options.on_event, event(turn=self.turns, **fields))

    async def end(self, result: ToolLoopResult, status: str | None = None) -> None:
        """Report once that the run is over."""
        if not self.is_over:
            self.is_over = True
            status = status or result.status
            await self.notify(LoopEnded, status=status, reply=result.reply, result=result)

    def _on_progress(self, call: ToolCall, value: Any) -> None:
        self._notify_soon(ToolProgressed, call=call, value=value)

    def _on_retry(self, call: ToolCall, error: ToolError, attempt: int) -> None:
        self._notify_soon(ToolRetried, call=call, error=error, attempt=attempt)
