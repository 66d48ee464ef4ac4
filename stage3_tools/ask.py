"""`ask`, `ask_sync` and `run_events`: shorter entries to the loop.

    ask           a question and a list of functions; gateway and session are created
    ask_sync      `ask` for programs without asyncio
    run_events    `run_tool_loop` as an iterator of its events

All run the same loop (`loop.py`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, nullcontext
from typing import Any, Unpack

from stage0_gateway import FUNCTION, Accepted, ChatModel, Gateway, Message, check_arguments
from stage3_tools.events import LoopEnded, LoopEvent, ReplyText
from stage3_tools.loop import part_of_run, run_tool_loop, with_keywords
from stage3_tools.options import Listener, ToolLoopDeps, ToolLoopOptions, as_registry
from stage3_tools.registry import Registrable, ToolRegistry
from stage3_tools.result import ToolLoopResult
from stage3_tools.run.emitter import call_back, of_one_run
from stage3_tools.run.keywords import AskKeywords, LoopKeywords

_ACCEPTED = {
    "model": Accepted(str | ChatModel, "a text such as 'openai:gpt-5-mini' or a Gateway"),
    "on_text": Accepted(FUNCTION, "a function of one text, such as on_text=print"),
}


async def ask(
    question: str | Message,
    *,
    tools: ToolRegistry | Iterable[Registrable] = (),
    model: str | ChatModel | None = None,
    on_text: Callable[[Any], object] | None = None,
    **options: Unpack[AskKeywords],
) -> ToolLoopResult:
    """Answer one question, with tools where the model calls them.

    Args:
        question: The question.
        tools: A list of functions and tools, or a registry.
        model: "provider:name", such as "offline:teacher"; or a gateway, which stays open. None uses
            the environment: `Gateway.from_env()`.
        on_text: A plain or async function. The reply is streamed, and each new piece of its words
            is passed; with an `output_type`, the partial value. `on_text=print` shows them.
        options: Options of the loop, such as `output_type` and `max_tool_rounds`; see
            `ToolLoopOptions`.

    Raises:
        GatewayError: The model could not be reached.
        RegistrationError: A tool is invalid.
    """
    check_arguments({"model": model, "on_text": on_text}, _ACCEPTED)
    registry, settings = as_registry(tools, "tools"), with_keywords(None, options)
    if on_text is not None:
        settings = settings.with_listener(of_one_run(_text_listener(on_text)))
    async with AsyncExitStack() as stack:
        if not isinstance(model, ChatModel):
            model = await stack.enter_async_context(Gateway.from_env(model))
        deps = ToolLoopDeps(model, tool_registry=registry, stream=on_text is not None)
        session_id = await deps.context_engine.create_session()
        return await run_tool_loop(deps, session_id, question, settings)


def _text_listener(on_text: Callable[[Any], object]) -> Listener:
    async def listen(event: LoopEvent) -> None:
        if isinstance(event, ReplyText):
            await call_back(on_text, event.delta if event.value is None else event.value)

    return listen


def ask_sync(
    question: str | Message,
    *,
    tools: ToolRegistry | Iterable[Registrable] = (),
    model: str | ChatModel | None = None,
    on_text: Callable[[Any], object] | None = None,
    **options: Unpack[AskKeywords],
) -> ToolLoopResult:
    """Answer one question like `ask`, in a program without asyncio.

    Each call runs in an event loop of its own, also in a thread.

    Args:
        question: As for `ask`, like all other arguments.
        tools: A list of functions and tools, or a registry.
        model: "provider:name", or a gateway, which may serve any number of calls. Each call closes
            the connections that it opened.
        on_text: Receives the words of the reply while they arrive.
        options: Options of the loop.

    Raises:
        RuntimeError: An event loop runs in this thread. Use `await ask(...)`.
        Exception: As for `ask`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(
            "ask_sync() cannot wait inside of a running event loop, such as in an async function "
            "or a notebook. Use `await ask(...)`."
        )
    return asyncio.run(ask(question, tools=tools, model=model, on_text=on_text, **options))


async def run_events(
    deps: ToolLoopDeps,
    session_id: str,
    user_message: str | Message | Mapping[str, Any] | None,
    options: ToolLoopOptions | None = None,
    *,
    resume: bool = False,
    **keywords: Unpack[LoopKeywords],
) -> AsyncGenerator[LoopEvent, None]:
    """Run the loop and yield its events; the last one, `LoopEnded`, holds the result.

    The run continues when the next event is requested, so a listener of a `reply_stream` misses
    nothing. The session is therefore in use until the last event: another run on it raises a
    RuntimeError there. Closing the iterator cancels the run: each call gets its result.

    Args:
        deps: As for `run_tool_loop`, like all other arguments.
        session_id: A session of `deps.context_engine`.
        user_message: The question.
        options: The options. Their `on_event` is called before an event is yielded.
        resume: Whether calls that an earlier run left without results are run first.
        keywords: Options by name.

    Raises:
        Exception: As for `run_tool_loop`.
    """
    options = with_keywords(options, keywords)
    events = asyncio.Queue[LoopEvent | None]()
    untaken = deque[asyncio.Event]()  # one for each event that was not yielded yet
    run_id = ""
    is_closed = False

    async def deliver(event: LoopEvent) -> None:
        if not is_closed:
            events.put_nowait(event)
            untaken.append(taken := asyncio.Event())
            await taken.wait()

    options = options.with_listener(deliver)
    run = asyncio.create_task(run_tool_loop(deps, session_id, user_message, options, resume=resume))
    run.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            run_id = run_id or event.run_id
            # Then the session is free again. Runs inside of tools end earlier.
            has_ended = isinstance(event, LoopEnded) and event.run_id == run_id
            transcript = deps.context_engine.transcript(session_id)
            with nullcontext() if has_ended else part_of_run(transcript):
                yield event
            untaken.popleft().set()
        run.result()  # raises what the run raised
    finally:
        is_closed = True
        run.cancel()
        for taken in untaken:
            taken.set()
        await asyncio.gather(run, return_exceptions=True)
