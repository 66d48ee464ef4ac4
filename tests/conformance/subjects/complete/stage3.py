"""The complete stage 3 as a subject: `stage3_tools`, with the model behind a real gateway.

The model of a case answers HTTP requests, so `requests` holds what a server receives.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from stage0_gateway import Gateway, GatewayError, Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent
from stage3_tools import (
    Abort,
    Approve,
    Edit,
    FinalReply,
    InvalidReply,
    NativeDialect,
    PromptDialect,
    RegistrationError,
    Reject,
    RunState,
    Tool,
    ToolCalls,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolLoopResult,
    ToolRegistry,
    Turn,
    execute_tool_call,
    run_tool_loop,
)
from stage3_tools.turn import read
from tests.conformance.surroundings import Failure

Plain = dict[str, Any]
Run = Callable[[str, Plain], Any]

MAX_TOKENS = 8000
"""The window of the requests."""

NOTHING_ANSWERED = {"max_rounds", "parse_failed", "limit", "completed"}
"""The statuses of a run that ended at a limit, if it has no reply."""


def registry(tools: list[Plain], run: Run) -> Plain:
    """Register tools by name."""
    try:
        return {"names": list(registry_of(tools, run).names)}
    except RegistrationError as error:
        raise Failure("duplicate", str(error)) from error


def describe(messages: list[Plain], tools: list[Plain], run: Run) -> Plain:
    """Render messages for the prompt dialect."""
    history = [Message.from_dict(message) for message in messages]
    parts = PromptDialect().render(history, registry_of(tools, run))
    return {"messages": [as_plain(message) for message in parts.messages]}


async def decide(
    reply: Plain, tools: list[Plain], run: Run, dialect: str = "prompt", multiple: bool = False
) -> Plain:
    """Interpret a reply."""
    fields = {"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}

    async def ask(messages: Any, tools: Any) -> Plain:
        return fields | reply

    engine = ContextEngine()
    async with gateway(ask) as model:
        deps = ToolLoopDeps(model, engine, tool_registry=registry_of(tools, run))
        options = ToolLoopOptions(dialect=dialect_of(dialect, multiple))
        state = RunState(deps, engine.transcript(await engine.create_session()), options)
        turn = Turn(deps.tool_registry, False, response=await model.chat([Message.user("?")]))
        await read(state, turn)
    match turn.interpretation:
        case ToolCalls(message):
            calls = [
                {"name": call.name, "arguments": call.arguments} for call in message.tool_calls
            ]
            return {"calls": calls, "answer": "", "problem": ""}
        case FinalReply() as final if final.text.strip():
            return {"calls": [], "answer": final.text, "problem": ""}
        case InvalidReply(feedback=feedback):
            return {"calls": [], "answer": "", "problem": feedback}
    return {"calls": [], "answer": "", "problem": "The reply was empty, or the server ended it."}


async def call(call: Plain, tools: list[Plain], run: Run) -> Plain:
    """Run one call of a model."""
    function = call["function"]
    made = ToolCall(call["id"], function["name"], function["arguments"])
    result = await execute_tool_call(registry_of(tools, run), made)
    return {"result": as_plain(result.as_message())}


async def answer(
    question: str,
    ask: Any,
    tools: list[Plain],
    run: Run,
    dialect: str = "prompt",
    history: Sequence[Plain] = (),
    multiple: bool = False,
    rounds: int = 10,
    parallel: int = 8,
    approve: Mapping[str, Plain] | None = None,
    abort_after: int | None = None,
    cancel_after: float | None = None,
) -> Plain:
    """Answer a question with the loop."""
    abort = Abort()

    def run_or_abort(name: str, arguments: Plain) -> Any:
        try:
            return run(name, arguments)
        finally:
            counted[0] += 1
            if counted[0] == abort_after:
                abort.set()

    counted = [0]
    if abort_after == 0:
        abort.set()
    options = ToolLoopOptions(
        dialect=dialect_of(dialect, multiple),
        max_tool_rounds=rounds,
        max_parallel_tools=parallel,
        approve=None if approve is None else lambda request: verdict(approve, request),
        approve_all=True,
        abort=None if abort_after is None else abort,
    )
    engine = ContextEngine(window=KeepSystemAndRecent(max_tokens=MAX_TOKENS))
    session = await engine.create_session()
    if history:
        await engine.transcript(session).append(*map(Message.from_dict, history))
    async with gateway(ask) as model:
        registered = registry_of(tools, run_or_abort if abort_after else run)
        deps = ToolLoopDeps(model, engine, tool_registry=registered)
        task = asyncio.create_task(run_tool_loop(deps, session, question, options))
        if cancel_after is not None:
            asyncio.get_running_loop().call_later(cancel_after, task.cancel)
        try:
            fields = fields_of(await task)
        except asyncio.CancelledError:
            fields = error_fields("cancelled", "The run was cancelled.")
        except GatewayError as error:
            kind = "temporary" if error.retryable else "permanent"
            fields = error_fields(kind, str(error))
    messages = [as_plain(message) for message in (await engine.history(session)).messages]
    return {**fields, "messages": messages}


def fields_of(result: ToolLoopResult) -> Plain:
    """The reply, or the error of a run without one."""
    if result.reply:
        return {"answer": result.reply}
    kind = "limit" if result.status in NOTHING_ANSWERED else result.status
    return error_fields(kind, result.status_reason or "")


def error_fields(kind: str, message: str) -> Plain:
    """The outcome of an expected error."""
    return {"error": {"kind": kind, "message": message}}


def verdict(verdicts: Mapping[str, Plain], request: Any) -> Approve | Edit | Reject:
    """The decision of a person about a call, by the name of the tool."""
    match verdicts.get(request.tool):
        case {"reject": reason}:
            return Reject(reason)
        case {"edit": arguments}:
            return Edit(arguments)
    return Approve()


def dialect_of(name: str, multiple: bool) -> NativeDialect | PromptDialect:
    """The dialect with a name."""
    return NativeDialect() if name == "native" else PromptDialect(multiple=multiple)


def registry_of(tools: list[Plain], run: Run) -> ToolRegistry:
    """The tools of a case."""
    return ToolRegistry(*(tool_of(tool, run) for tool in tools))


def tool_of(tool: Plain, run: Run) -> Tool:
    """A tool whose function is in the surroundings."""

    def execute(arguments: Plain) -> Any:
        return run(tool["name"], arguments)

    async def execute_async(arguments: Plain) -> Any:
        value = run(tool["name"], arguments)
        return await value if inspect.isawaitable(value) else value

    function = execute_async if tool.get("async") else execute
    return Tool(
        tool["name"],
        tool["description"],
        tool["parameters"],
        function,
        effect=tool.get("effect", "write"),
        timeout=tool.get("timeout"),
    )


def gateway(ask: Any) -> Gateway:
    """A gateway to the model of a case."""

    async def respond(request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        tools = [tool["function"] for tool in body.get("tools", ())]
        try:
            reply = await ask(body["messages"], tools)
        except Failure as error:
            status = 503 if error.kind == "temporary" else 400
            return httpx.Response(status, json={"error": {"message": str(error)}})
        return httpx.Response(200, json={"choices": [{"index": 0, **reply}]})

    return Gateway(
        "openai:m",
        api_key="k",
        base_url="http://model.test/v1",
        transport=httpx.MockTransport(respond),
        max_retries=0,
    )


def as_plain(message: Message) -> Plain:
    """A message in OpenAI's format."""
    plain: Plain = {"role": message.role, "content": message.text}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


OPERATIONS = {
    "registry": registry,
    "describe": describe,
    "decide": decide,
    "call": call,
    "answer": answer,
}
"""The operations of stage 3."""
