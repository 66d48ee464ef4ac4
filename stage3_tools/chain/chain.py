"""`execute_tool_chain`: from a reply that asks for tools to one that does not, outside of any
session.

    your request ─▶ reply with calls ─▶ execute_tool_chain ─▶ ToolChainResult ─▶ one assistant
    message to keep

For programs that make the first request themselves, keep their messages elsewhere, and want the
tools handled in between. The loop is `run_turns`, begun with a turn whose reply is there already.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from stage0_gateway import ChatResponse, GatewayError, Message, Usage
from stage1_context import (
    ContextEngine,
    MemoryStore,
    MessageRecord,
    StoreFailed,
    Transcript,
    VariableStore,
)
from stage2_output import OutputController
from stage3_tools.chain.formatter import MessageFlowFormatter
from stage3_tools.chain.options import ToolChainOptions
from stage3_tools.dialects.protocol import Calls
from stage3_tools.execution.results import STOPPED
from stage3_tools.loop import stoppable, until_over
from stage3_tools.options import PREVIEW, ToolLoopDeps, check_kind
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord
from stage3_tools.run.state import Run
from stage3_tools.run.stop_policy import Ending
from stage3_tools.turn import OpenTurn
from stage3_tools.variables.long_values import LongValues, mark_of, value_of

ChainStatus = Literal["completed", "aborted", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class ChainMessages:
    """The messages of a chain.

    Attributes:
        context: What was said before, as it was given, without the first reply.
        tool_chain: The first reply, results, further replies, the last one.
        complete: All of them.
    """

    context: tuple[Message, ...]
    tool_chain: tuple[Message, ...]

    @property
    def complete(self) -> tuple[Message, ...]:
        """All messages: the context, then the chain."""
        return self.context + self.tool_chain


@dataclass(frozen=True, slots=True)
class ChainStats:
    """What a chain took: rounds, calls, seconds; when it began and ended, in seconds since the
    epoch.
    """

    total_rounds: int
    total_calls: int
    total_time: float
    start_time: float
    end_time: float


@dataclass(frozen=True, slots=True)
class ToolChainResult:
    """What became of a chain.

    Attributes:
        reply: The model's last reply; "" where there is none.
        response_content: All that was said and done, as a flow that ends with the reply; for
            people.
        tool_chain_content: A hint for the model: which tools ran, which variables hold what.
        usage: The tokens of all replies, the first one's too.
        cost: US dollars, or None where no price is known.
        messages: The messages, those before apart from those of the chain.
        tool_call_history: Every call with its result.
        status: "completed"; "aborted"; "timeout"; "error" where there is no reply.
        status_reason: The same in a sentence, where there is more to say.
        max_rounds_reached: Whether the limit of tool rounds was reached.
        error: What the gateway raised, if that ended it.
        stats: Rounds, calls, times.
        variables: What long results and arguments were kept in.
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

    @property
    def hint_size(self) -> int:
        """How many characters of `as_message()` are the hint; what follows is for people."""
        return len(self.tool_chain_content)

    def as_message(self) -> Message:
        """The whole chain as one assistant message, to be kept instead of all its messages."""
        return Message.assistant(self.tool_chain_content + self.response_content)


async def execute_tool_chain(
    executor: ToolRegistry, first_response: ChatResponse | Message, options: ToolChainOptions
) -> ToolChainResult:
    """Run the tools that a reply asks for, ask again, and so on, until there is a reply without
    calls.

    Args:
        executor: The tools.
        first_response: The reply to begin with; one without calls is the result already.
        options: How it is to go.

    Returns:
        What became of it. A model that cannot be asked is part of it (`status`, `error`), as are
        failing tools.

    Raises:
        TypeError: `executor` is no registry, or the reply is none.
        SessionNotFound: The session that variables are to belong to is not there.
        Exception: What a callback or an approver raises.
    """
    check_kind("The executor", executor, ToolRegistry, "ToolRegistry(tool, …) makes one.")
    check_kind("options", options, ToolChainOptions)
    started = time.time()
    context, reply = _parted(options.context, _response(first_response))
    run = await _run(executor, reply, context, options)
    before, error = len(await run.transcript.history()), None
    try:
        ending = await _through(run, reply)
    except GatewayError as failure:
        ending, error = Ending("limit", None, str(failure)), failure
    run.end("error" if error else ending.status, ending.reply)
    keeps = options.variables_over is not None
    records = tuple([await _kept(run.long_values, each) if keeps else each for each in run.records])
    chain = tuple([*await run.transcript.history()][before:])
    seconds = time.perf_counter() - run.started
    return ToolChainResult(
        reply=ending.reply or "",
        response_content=MessageFlowFormatter.natural_flow(chain, records),
        tool_chain_content=MessageFlowFormatter.system_hint(records),
        usage=run.usage,
        cost=run.cost,
        messages=ChainMessages(context, chain),
        tool_call_history=records,
        status=_status(ending),
        status_reason=ending.reason,
        max_rounds_reached=ending.status == "max_rounds",
        error=error,
        stats=ChainStats(run.tool_rounds, len(records), seconds, started, started + seconds),
        variables=run.long_values,
    )


async def _through(run: Run, reply: ChatResponse) -> Ending:
    # Calls are calls, in whatever dialect the chain goes on; a text may be a decision.
    tools = run.deps.tool_registry
    sound = (
        reply.tool_calls and len(tools) and reply.finish_reason in ("tool_calls", "stop", "unknown")
    )
    first = OpenTurn(run, run.tools(tools), reply, Calls(reply.message) if sound else None)

    async def body() -> Ending:
        if run.options.max_tool_rounds == 0:  # nobody took the tools away for this turn
            await first.finish("The limit of 0 tool rounds was reached. This call was not run.")
        return await until_over(run, first)

    ending = await stoppable(run, body)
    if (
        ending.status == "aborted" and not run.records
    ):  # before anything of the first reply was done
        await first.finish(STOPPED)
    return ending


async def _run(
    registry: ToolRegistry,
    reply: ChatResponse,
    context: tuple[Message, ...],
    options: ToolChainOptions,
) -> Run:
    model = {"model": options.model} if options.model else {}
    stream = None if options.stream is None else partial(options.stream, **model)
    deps = ToolLoopDeps(
        partial(options.chat, **model), ContextEngine(), OutputController(), registry, stream
    )
    prompt = Message.system(options.system_prompt or "")
    system = [prompt] if options.system_prompt and prompt not in context else []
    name = options.session_id or "chain"
    transcript = Transcript(MemoryStore({name: map(MessageRecord, [*system, *context])}), name)
    await transcript.repair_history()
    run = Run(deps, transcript, options.with_callbacks(), waits=False)
    run.long_values_in = _long_values(options, name, [*context, reply.message])
    await run.long_values_in.check()
    run.usage, run.cost, run.asked_with = (
        run.usage + (reply.usage or Usage()),
        reply.cost,
        reply.usage,
    )
    run.has_seen(context)
    await run.execution()  # as in `begin_turn`
    return run


def _long_values(options: ToolChainOptions, name: str, said: list[Message]) -> LongValues:
    if isinstance(options.variables, LongValues):
        return options.variables
    return LongValues(options.variables or VariableStore(mark=mark_of(said)), name)


def _response(given: ChatResponse | Message) -> ChatResponse:
    if isinstance(given, Message) and given.role == "assistant":
        return ChatResponse(given, "tool_calls" if given.tool_calls else "stop")
    if isinstance(given, ChatResponse):
        return given
    raise TypeError(
        f"A chain begins with a ChatResponse or an assistant's Message, not {type(given).__name__}."
    )


def _parted(
    context: tuple[Message, ...], reply: ChatResponse
) -> tuple[tuple[Message, ...], ChatResponse]:
    """The context without the first reply, where the caller has added that already."""
    last = context[-1] if context else None
    if last is None or last.role != "assistant" or last.tool_calls != reply.tool_calls:
        return context, reply
    is_reply = last.tool_calls or reply.content in (last.text, last.raw_text)
    return context[:-1] if is_reply else context, reply


async def _kept(long_values: LongValues, record: ToolCallRecord) -> ToolCallRecord:
    """A call whose result and arguments can be read in full, where the flow shows only how they
    begin.
    """
    result, kept = record.result, record
    whole = isinstance(
        result.output, str
    )  # of several parts each has a variable, and the record knows one
    with suppress(StoreFailed):  # what was done is told, even where it cannot be kept
        if (record.variable is None or not whole) and len(
            text := result.as_message().text
        ) > PREVIEW:
            value = value_of(text) if result.is_json and not result.note else text
            kept = replace(kept, variable=await long_values.keep(value))
        if len(record.arguments) > PREVIEW:
            kept = replace(
                kept, arguments_variable=await long_values.keep(value_of(record.arguments))
            )
    return kept


def _status(ending: Ending) -> ChainStatus:
    if ending.status in ("aborted", "timeout"):
        return "aborted" if ending.status == "aborted" else "timeout"
    return "completed" if ending.reply else "error"
