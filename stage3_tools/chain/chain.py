"""`execute_tool_chain`: from a reply with tool calls to a reply without, outside of a session.

    your request ─▶ reply with calls ─▶ execute_tool_chain ─▶ ToolChainResult ─▶ one message

For programs that make the first request themselves and store their messages elsewhere. The chain
is `run_turns` (`loop.py`), started with a turn whose reply exists already.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from stage0_gateway import ChatResponse, GatewayError, Message, Usage
from stage1_context import (
    MemoryStore,
    MessageRecord,
    StoreFailed,
    Transcript,
    VariableStore,
)
from stage3_tools.chain.callbacks import ChainCallbacks
from stage3_tools.chain.formatter import MessageFlowFormatter
from stage3_tools.chain.options import ToolChainOptions
from stage3_tools.dialects.protocol import ToolCalls
from stage3_tools.execution.results import STOPPED
from stage3_tools.loop import reports_failure, result_of, run_turns, stoppable
from stage3_tools.options import ToolLoopDeps, type_error
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord
from stage3_tools.run.emitter import of_one_run
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import Ending
from stage3_tools.turn import act, read
from stage3_tools.variables.long_values import PREVIEW, LongValues, json_value, mark_of

ChainStatus = Literal["completed", "aborted", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class ChainMessages:
    """The messages of a chain.

    Attributes:
        context: The messages before the chain, without the first reply.
        tool_chain: The first reply, its results, and everything that followed.
    """

    context: tuple[Message, ...]
    tool_chain: tuple[Message, ...]

    @property
    def complete(self) -> tuple[Message, ...]:
        """All messages: the context, then the chain."""
        return self.context + self.tool_chain


@dataclass(frozen=True, slots=True)
class ChainStats:
    """Counts and times of a chain.

    Attributes:
        total_rounds: The number of turns that ran at least one tool.
        total_calls: The number of calls.
        total_time: Seconds.
        start_time: Seconds since the epoch.
        end_time: Seconds since the epoch.
    """

    total_rounds: int
    total_calls: int
    total_time: float
    start_time: float
    end_time: float


@dataclass(frozen=True, slots=True)
class ToolChainResult:
    """The result of a chain.

    Attributes:
        reply: The last reply of the model; "" if there is none.
        response_content: All replies and calls as one text for people; it ends with the reply.
        tool_chain_content: A hint for the model: the tools that ran, and the variables that hold
            their results.
        usage: The tokens of all replies, including the first one.
        cost: US dollars, or None if no price is known.
        messages: The messages before the chain and of the chain.
        tool_call_history: Every call with its result.
        status: "completed"; "aborted"; "timeout"; "error" if there is no reply.
        status_reason: The reason in a sentence, where the status does not say everything.
        max_rounds_reached: Whether the limit of tool rounds was reached.
        error: The error of the gateway that ended the chain, or None.
        stats: Rounds, calls and times.
        variables: The variables of long results and arguments.
        output: With `output_type`, the value of the last reply; None without one.
    """

    reply: str
    response_content: str
    tool_chain_content: str
    usage: Usage
    cost: float | None
    messages: ChainMessages = field(repr=False)
    tool_call_history: tuple[ToolCallRecord, ...] = field(repr=False)
    status: ChainStatus
    status_reason: str | None
    max_rounds_reached: bool
    error: GatewayError | None
    stats: ChainStats
    variables: LongValues = field(repr=False)
    output: Any = None

    @property
    def hint_size(self) -> int:
        """The number of characters of `as_message()` that are the hint; the rest is for people."""
        return len(self.tool_chain_content)

    def as_message(self) -> Message:
        """The chain as one assistant message, to be stored instead of all its messages."""
        return Message.assistant(self.tool_chain_content + self.response_content)


async def execute_tool_chain(
    executor: ToolRegistry, first_response: ChatResponse | Message, options: ToolChainOptions
) -> ToolChainResult:
    """Run the tools that a reply calls, request the next reply, until a reply has no calls.

    Args:
        executor: The tools.
        first_response: The first reply. A reply without calls is the final reply.
        options: The options.

    Returns:
        The result. Errors of the gateway (`status`, `error`) and of tools are part of it.

    Raises:
        TypeError: An argument has the wrong type.
        SessionNotFound: The session of the variables does not exist.
        Exception: A callback or an approver raised.
    """
    if not isinstance(executor, ToolRegistry):
        raise type_error("executor", executor, ToolRegistry, "Create a ToolRegistry(tool, …).")
    if not isinstance(options, ToolChainOptions):
        raise type_error("options", options, ToolChainOptions)
    started = time.time()
    context, reply = _without_reply(options.context, _as_response(first_response))
    values = _long_values(options, [*context, reply.message])
    run = await _start(executor, reply, context, options, values)
    before, error = len(await run.transcript.history()), None
    try:
        async with reports_failure(run):
            ending = await _run(run, reply)
        await run.end(result_of(run, ending))
    except GatewayError as failure:
        ending, error = Ending("limit", None, str(failure)), failure
    records = tuple(run.records)
    if options.variables_over is not None:
        records = tuple([await _with_variables(values, record) for record in records])
    chain = tuple([*await run.transcript.history()][before:])
    counts, seconds = run.counts, time.perf_counter() - run.counts.started
    return ToolChainResult(
        reply=ending.reply or "",
        response_content=MessageFlowFormatter.natural_flow(chain, records),
        tool_chain_content=MessageFlowFormatter.system_hint(records),
        usage=counts.usage,
        cost=counts.cost,
        messages=ChainMessages(context, chain),
        tool_call_history=records,
        status=_status(ending),
        status_reason=ending.reason,
        max_rounds_reached=ending.status == "max_rounds",
        error=error,
        stats=ChainStats(counts.tool_rounds, len(records), seconds, started, started + seconds),
        variables=values,
        output=ending.output,
    )


async def _start(
    registry: ToolRegistry,
    reply: ChatResponse,
    context: tuple[Message, ...],
    options: ToolChainOptions,
    values: LongValues,
) -> RunState:
    """The state of a run whose conversation is the context, in memory."""
    deps = ToolLoopDeps(
        options.chat, tool_registry=registry, stream=options.stream, gateway=options.gateway
    )
    prompt = Message.system(options.system_prompt or "")
    system = [prompt] if options.system_prompt and prompt not in context else []
    name = values.session_id or "chain"
    transcript = Transcript(MemoryStore({name: map(MessageRecord, [*system, *context])}), name)
    await transcript.repair_history()
    await values.check()
    listeners = (of_one_run(ChainCallbacks(options).on_event),) if options.has_callbacks else ()
    run = RunState(
        deps,
        transcript,
        options,
        entry="chain",
        can_suspend=False,
        values=values,
        listeners=listeners,
    )
    run.add_reply(reply)
    run.variables.search(context)
    return run


async def _run(run: RunState, reply: ChatResponse) -> Ending:
    # Native calls are calls in every dialect; a text may be a decision.
    is_usable = reply.finish_reason in ("tool_calls", "stop", "unknown")
    is_calls = reply.tool_calls and len(run.deps.tool_registry) and is_usable
    first = Turn(
        run.tools(), response=reply, interpretation=ToolCalls(reply.message) if is_calls else None
    )
    await run.settings()

    ending = await stoppable(run, partial(run_turns, run, first))
    if ending.status == "aborted" and not run.records:  # before the first reply was stored
        await read(run, first)
        await act(run, first, STOPPED)
    return ending


def _long_values(options: ToolChainOptions, messages: list[Message]) -> LongValues:
    if isinstance(options.variables, Transcript):
        return LongValues.of(options.variables)
    return options.variables or LongValues(VariableStore(mark=mark_of(messages)), "chain")


def _as_response(response: ChatResponse | Message) -> ChatResponse:
    if isinstance(response, Message) and response.role == "assistant":
        return ChatResponse(response, "tool_calls" if response.tool_calls else "stop")
    if isinstance(response, ChatResponse):
        return response
    raise TypeError(
        "A chain starts with a ChatResponse or an assistant message, not "
        f"{type(response).__name__}."
    )


def _without_reply(
    context: tuple[Message, ...], reply: ChatResponse
) -> tuple[tuple[Message, ...], ChatResponse]:
    """Remove the first reply from the context, if the caller has added it already."""
    last = context[-1] if context else None
    if last is None or last.role != "assistant" or last.tool_calls != reply.tool_calls:
        return context, reply
    is_reply = last.tool_calls or reply.content in (last.text, last.raw_text)
    return context[:-1] if is_reply else context, reply


async def _with_variables(long_values: LongValues, record: ToolCallRecord) -> ToolCallRecord:
    """Store the result and the arguments of a call as variables, if the flow shortens them."""
    result, stored = record.result, record
    is_text = isinstance(result.output, str)  # a result of several parts has several variables
    with suppress(StoreFailed):  # the result of the chain is reported in any case
        text = result.as_message().text
        if (record.variable is None or not is_text) and len(text) > PREVIEW:
            value = json_value(text) if result.is_json and not result.note else text
            stored = replace(stored, variable=await long_values.store(value))
        if len(record.arguments) > PREVIEW:
            arguments = await long_values.store(json_value(record.arguments))
            stored = replace(stored, arguments_variable=arguments)
    return stored


def _status(ending: Ending) -> ChainStatus:
    if ending.status == "aborted" or ending.status == "timeout":
        return ending.status
    return "completed" if ending.reply else "error"
