"""Tests of `ask` and `run_events`: the loop in one call, and as an iterator."""

import asyncio
import inspect
import json
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import fields

import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage3_tools import (
    Abort,
    LoopEnded,
    NativeDialect,
    PromptDialect,
    ReplyStreamed,
    RunLimits,
    ToolContext,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolProgressed,
    ToolRegistry,
    ask,
    ask_sync,
    run_events,
    run_tool_loop,
    tool,
)
from stage3_tools.run.keywords import AskKeywords, LoopKeywords
from tests.stage3_tools.clock import without_waiting
from tests.tables import for_each


def get_weather(city: str) -> dict[str, object]:
    """Tell the weather in a city."""
    return {"city": city, "temp": 22}


CALL = Message.assistant("", [ToolCall("c1", "get_weather", '{"city": "Rome"}')])


def scripted(*replies):
    return Gateway("openai:m", transport=ScriptedModel(replies), max_retries=0)


class Script:
    """A chat function whose replies need not all be used."""

    def __init__(self, *replies):
        self.replies = [*replies]

    async def __call__(self, messages, **settings):
        reply = self.replies.pop(0)
        return ChatResponse(reply) if isinstance(reply, Message) else reply

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


# ---- ask


async def test_ask_needs_only_a_question_a_function_and_the_offline_model():
    result = await ask(
        "What is the weather in Shanghai?", tools=[get_weather], model="offline:teacher"
    )
    assert (result.status, result.tool_rounds) == ("completed", 1)
    assert "22" in result.reply


async def test_ask_uses_a_given_gateway_and_leaves_it_open():
    async with scripted(CALL, "22 degrees.", "Yes.") as gateway:
        result = await ask(
            "Rome?", tools=[get_weather], model=gateway, dialect=NativeDialect(), max_tool_rounds=1
        )
        assert (result.reply, result.status) == ("22 degrees.", "max_rounds")
        assert (await gateway.chat([Message.user("Still there?")])).content == "Yes."


async def test_without_a_model_ask_uses_the_environment(monkeypatch):
    monkeypatch.setenv("LLM_MODEL", "offline:teacher")
    assert (await ask("Who are you?")).reply.startswith("I am the teacher")


async def test_an_unknown_option_raises_an_error_that_lists_the_valid_ones():
    with pytest.raises(TypeError, match=r"Unknown option 'max_rounds'\. The options are max_tool"):
        await ask("Hi.", model="offline:teacher", max_rounds=3)


def test_the_keyword_types_match_the_options_of_the_loop():
    names = {each.name for each in fields(ToolLoopOptions)}
    assert set(LoopKeywords.__annotations__) == names
    assert set(AskKeywords.__annotations__) == names - {"model"}


# ---- ask_sync


def test_ask_sync_answers_like_ask_also_repeatedly_and_in_threads():
    def question(city):
        return ask_sync(f"Weather in {city}?", tools=[get_weather], model="offline:teacher").reply

    cities = ["Rome", "Oslo", "Paris", "Lima"]
    replies = [f"get_weather says for {city}: temp 22." for city in cities]
    assert [question(city) for city in cities] == replies
    with ThreadPoolExecutor(len(cities)) as threads:
        assert [*threads.map(question, cities)] == replies
    parameters = [inspect.signature(each).parameters for each in (ask, ask_sync)]
    assert parameters[0] == parameters[1]


def test_ask_sync_uses_a_given_gateway_in_all_calls():
    gateway = scripted("One.", "Two.")
    assert [ask_sync("Hi.", model=gateway).reply for _ in range(2)] == ["One.", "Two."]


def test_ask_sync_passes_its_options():
    model = ScriptedModel(["Hello."])
    gateway = Gateway("openai:m", transport=model)
    ask_sync("Hi.", model=gateway, temperature=0.5)
    assert model.requests[0].temperature == 0.5


async def test_ask_sync_inside_of_an_event_loop_raises_an_error_that_names_ask():
    with pytest.raises(RuntimeError, match=r"inside of a running event loop.*`await ask\(...\)`"):
        ask_sync("Hi.", model="offline:teacher")


def test_ctrl_c_ends_ask_sync():
    def weather(city: str) -> str:
        """Tell the weather in a city."""
        signal.raise_signal(signal.SIGINT)
        return "rain"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask_sync("Weather in Rome?", tools=[weather], model="offline:teacher")
    finally:
        signal.signal(signal.SIGINT, before)


# ---- deps and keywords


async def test_deps_need_only_a_chat_function_and_it_may_return_text():
    async def chat(messages, **settings):
        return json.dumps({"tool": None, "reply": f"{len(messages)} messages"})

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    result = await run_tool_loop(deps, session, "Hi.")
    assert (result.status, result.reply, result.usage.input_tokens) == (
        "completed",
        "2 messages",
        None,
    )


@for_each("chat, name", [(lambda messages: "text", "'text'"), (lambda messages: None, "None")])
async def test_a_chat_function_that_is_not_async_raises_a_type_error(chat, name):
    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    with pytest.raises(TypeError, match=f"A chat function must be async .* returned {name}"):
        await run_tool_loop(deps, session, "Hi.")


async def test_a_chat_function_that_returns_a_wrong_type_raises_a_type_error():
    async def chat(messages):
        return {"role": "assistant"}

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    with pytest.raises(TypeError, match="this one returned an awaitable dict"):
        await run_tool_loop(deps, session, "Hi.")


def test_tools_may_be_a_list_of_functions_and_tools():
    @tool(effect="read")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    registry = ToolLoopDeps(ask, tool_registry=[get_weather, add]).tool_registry
    assert registry.names == ("get_weather", "add")
    same = ToolRegistry(add)
    assert ToolLoopDeps(ask, tool_registry=same).tool_registry is same
    assert ToolLoopDeps(ask).tool_registry.names == ()
    with pytest.raises(TypeError, match=r"list such as tool_registry=\[get_weather\]"):
        ToolLoopDeps(ask, tool_registry=get_weather)


async def test_keywords_override_the_options():
    async with scripted(CALL, "Done.") as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[get_weather])
        session = await deps.context_engine.create_session()
        options = ToolLoopOptions(max_tool_rounds=5, dialect=NativeDialect())
        result = await run_tool_loop(deps, session, "Rome?", options, max_tool_rounds=1)
    assert result.status == "max_rounds"
    assert options.max_tool_rounds == 5


# ---- words while they arrive


class Told:
    """What `on_text` received, from a plain or an async function."""

    def __init__(self, *, later=False):
        self.pieces = []
        self.on_text = self.later if later else self.pieces.append

    async def later(self, piece):
        await asyncio.sleep(0)
        self.pieces.append(piece)


@for_each("later", [False, True])
@for_each(
    "dialect, reply",
    [
        (NativeDialect, "It is 22 degrees in Rome."),
        (PromptDialect, '{"tool": null, "reply": "It is 22 degrees in Rome."}'),
    ],
)
async def test_on_text_receives_the_words_of_the_reply_piece_by_piece(dialect, reply, later):
    told, model = Told(later=later), ScriptedModel([reply], piece=4)
    async with Gateway("openai:m", transport=model) as gateway:
        result = await ask("Rome?", model=gateway, dialect=dialect(), on_text=told.on_text)
    assert result.reply == "".join(told.pieces) == "It is 22 degrees in Rome."
    assert len(told.pieces) > 1
    assert model.bodies[0]["stream"] is True


async def test_without_on_text_the_reply_is_not_streamed():
    model = ScriptedModel(["Hello."])
    async with Gateway("openai:m", transport=model) as gateway:
        await ask("Hi.", model=gateway, dialect=NativeDialect())
    assert not model.bodies[0].get("stream")


async def test_on_text_receives_the_words_of_all_turns_and_no_calls():
    told = Told()
    call = Message.assistant("Let me look.", CALL.tool_calls)
    async with scripted(call, "22 degrees.") as gateway:
        await ask(
            "Rome?",
            tools=[get_weather],
            model=gateway,
            dialect=NativeDialect(),
            on_text=told.on_text,
        )
    assert "".join(told.pieces) == "Let me look.22 degrees."


async def test_on_text_receives_the_partial_values_of_an_output_type():
    told = Told()
    async with scripted('{"city": "Rome", "temp": 22}') as gateway:
        result = await ask(
            "Rome?",
            model=gateway,
            dialect=NativeDialect(),
            output_type=dict[str, int | str],
            on_text=told.on_text,
        )
    assert result.output == told.pieces[-1] == {"city": "Rome", "temp": 22}
    assert all(isinstance(piece, dict) for piece in told.pieces)
    assert {"city": "Rome"} in told.pieces


async def test_on_text_is_one_more_listener_and_comes_last():
    order = []
    async with scripted("Hello.") as gateway:
        await ask(
            "Hi.",
            model=gateway,
            dialect=NativeDialect(),
            on_event=lambda event: order.append(event.name),
            on_text=order.append,
        )
    place = order.index("reply_text")
    assert order[place + 1] == "Hello."[: len(order[place + 1])]
    assert {"run_start", "loop_end"} <= {*order}


async def test_an_exception_of_on_text_ends_the_run():
    def broken(piece):
        raise LookupError("broken")

    async with scripted("Hello.") as gateway:
        with pytest.raises(LookupError, match="broken"):
            await ask("Hi.", model=gateway, dialect=NativeDialect(), on_text=broken)


def test_on_text_may_be_used_without_asyncio():
    told = Told()
    result = ask_sync("What is the weather in Shanghai?", tools=[get_weather], on_text=told.on_text)
    assert result.reply == "".join(told.pieces)


@for_each("on_text", [True, "print"])
async def test_on_text_must_be_a_function(on_text):
    with pytest.raises(TypeError, match="on_text must be a function of one text, such as on_text="):
        await ask("Hi.", on_text=on_text)


async def test_on_text_does_not_receive_the_words_of_a_run_inside_of_a_tool():
    told = Told()

    @tool(effect="read")
    async def research(context: ToolContext) -> str:
        """Research."""
        inner = ToolLoopDeps(Script("The inner words."))
        session = await inner.context_engine.create_session()
        options = {"dialect": NativeDialect(), **context.sub_run}
        return (await run_tool_loop(inner, session, "Cats?", **options)).reply

    call = Message.assistant("", [ToolCall("c1", "research", "{}")])
    async with scripted(call, "Done.") as gateway:
        await ask(
            "Go.",
            tools=[research],
            model=gateway,
            dialect=NativeDialect(),
            on_text=told.on_text,
        )
    assert "".join(told.pieces) == "Done."


# ---- run_events


async def session_of(gateway, *tools, streamed=False):
    engine = ContextEngine()
    deps = ToolLoopDeps(gateway, engine, tool_registry=tools, stream=streamed)
    return deps, await engine.create_session("s")


async def test_the_iterator_yields_the_events_of_a_listener_and_the_last_one_has_the_result():
    received = []
    async with scripted(CALL, "22 degrees.") as gateway:
        deps, session = await session_of(gateway, get_weather)
        events = run_events(
            deps, session, "Rome?", dialect=NativeDialect(), on_event=received.append
        )
        seen = [event async for event in events]
    assert [each.name for each in seen] == [
        *("run_start", "turn_start", "request", "reply"),
        *("decision", "tool_call", "tool_result", "turn_end"),
        *("turn_start", "request", "reply_text", "reply", "decision", "turn_end", "loop_end"),
    ]
    assert received == seen
    assert isinstance(seen[-1], LoopEnded)
    assert (seen[-1].result.reply, seen[-1].status) == ("22 degrees.", "completed")


@without_waiting
async def test_a_stream_listener_receives_every_piece_even_if_the_consumer_is_slow():
    texts = []
    async with scripted("Streamed in pieces.") as gateway:
        deps, session = await session_of(gateway, streamed=True)
        async for event in run_events(deps, session, "Hi.", dialect=NativeDialect()):
            await asyncio.sleep(60)
            match event:
                case ReplyStreamed(stream=stream):
                    stream.on("text", lambda piece: texts.append(piece.delta))
    assert "".join(texts) == "Streamed in pieces."


async def test_closing_the_iterator_stops_the_run_and_leaves_a_valid_history():
    started, stopped = asyncio.Event(), []

    async def wait_long() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        return "never"

    call = Message.assistant("", [ToolCall("c1", "wait_long", "{}")])
    async with Script(call, "never") as chat:
        deps, session = await session_of(chat, wait_long)
        events = run_events(deps, session, "Go.", dialect=NativeDialect())
        async for event in events:
            if event.name == "tool_call":
                break
        reading = asyncio.create_task(anext(events))
        await started.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await events.aclose()
        history = await deps.context_engine.history(session)
    assert stopped == [True]
    assert history.check_history() == []
    assert [each.role for each in history] == ["user", "assistant", "tool"]


@for_each(
    "name",
    [
        *("run_start", "turn_start", "request", "reply"),
        *("decision", "tool_call", "tool_result", "turn_end"),
    ],
)
async def test_the_iterator_may_be_closed_at_every_event(name):
    async with Script(CALL, "Done.") as chat:
        deps, session = await session_of(chat, get_weather)
        events = run_events(deps, session, "Rome?", dialect=NativeDialect())
        async for event in events:
            if event.name == name:
                break
        await events.aclose()
        assert (await deps.context_engine.history(session)).check_history() == []


async def test_a_second_run_on_the_session_of_the_iterator_raises_until_the_last_event():
    """The first run waits for the consumer, so a second run would wait forever."""
    deps = ToolLoopDeps(Script(CALL, "Mild.", "Bye."), tool_registry=[get_weather])
    session_id = await deps.context_engine.create_session()
    refused = []

    async def ask_again():
        return await run_tool_loop(deps, session_id, "And now?", dialect=NativeDialect())

    options = ToolLoopOptions(dialect=NativeDialect())
    async for event in run_events(deps, session_id, "Weather?", options):
        if isinstance(event, LoopEnded):
            assert (await ask_again()).reply == "Bye."
            break
        for second in (ask_again(), asyncio.create_task(ask_again())):
            with pytest.raises(RuntimeError, match="is running already, and waits for"):
                await second
        refused.append(event.name)
    assert refused == [
        *("run_start", "turn_start", "request", "reply"),
        *("decision", "tool_call", "tool_result", "turn_end"),
        *("turn_start", "request", "reply_text", "reply", "decision", "turn_end"),
    ]


async def test_the_session_is_in_use_also_at_the_end_of_a_run_inside_of_a_tool():
    @tool(effect="read")
    async def research(context: ToolContext) -> str:
        """Research."""
        inner = ToolLoopDeps(Script("Cats sleep."))
        session = await inner.context_engine.create_session()
        options = {"dialect": NativeDialect(), **context.sub_run}
        return (await run_tool_loop(inner, session, "Cats?", **options)).reply

    call = Message.assistant("", [ToolCall("c1", "research", "{}")])
    deps = ToolLoopDeps(Script(call, "Done."), tool_registry=[research])
    session_id = await deps.context_engine.create_session()
    events = run_events(deps, session_id, "Go.", dialect=NativeDialect())
    async with aclosing(events):
        async for event in events:
            if isinstance(event, LoopEnded):
                break
        again = asyncio.create_task(run_tool_loop(deps, session_id, "And now?"))
        for _ in range(20):
            await asyncio.sleep(0)
        was_refused = again.done()
        again.cancel()
    [refusal] = await asyncio.gather(again, return_exceptions=True)
    assert (event.reply, was_refused, type(refusal)) == ("Cats sleep.", True, RuntimeError)


async def test_after_the_iterator_was_left_the_session_can_be_used_again():
    deps = ToolLoopDeps(Script("Hello.", "Hello again."))
    session_id = await deps.context_engine.create_session()
    options = ToolLoopOptions(dialect=NativeDialect())
    events = run_events(deps, session_id, "Hi", options)
    async for _ in events:
        break
    await events.aclose()
    assert (await run_tool_loop(deps, session_id, "Hi", options)).status == "completed"


async def test_progress_is_yielded_while_the_tool_runs():
    @tool(effect="read")
    async def steps(context: ToolContext) -> str:
        """Report."""
        for number in range(3):
            context.progress(number)
            await asyncio.sleep(0)
        return "done"

    call = Message.assistant("", [ToolCall("c1", "steps", "{}")])
    async with scripted(call, "Done.") as gateway:
        deps, session = await session_of(gateway, steps)
        seen = [each async for each in run_events(deps, session, "Go.", dialect=NativeDialect())]
    assert [each.value for each in seen if isinstance(each, ToolProgressed)] == [0, 1, 2]
    names = [each.name for each in seen]
    assert names.index("tool_call") < names.index("tool_progress") < names.index("tool_result")


async def test_an_exception_of_the_run_is_raised_by_the_iterator():
    async def chat(messages, **settings):
        raise ConnectionError("no line")

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    events = run_events(deps, session, "Hi.")
    seen = [await anext(events) for _ in range(5)]
    with pytest.raises(ConnectionError, match="no line") as raised:
        await anext(events)
    assert [each.name for each in seen] == [
        *("run_start", "turn_start", "request", "request_failed", "loop_end")
    ]
    assert seen[-2].error is seen[-1].error is raised.value
    assert (seen[-1].status, seen[-1].result) == ("error", None)


async def test_an_abort_ends_the_iterator_with_its_status():
    abort = Abort()
    async with Script(CALL, "Done.") as chat:
        deps, session = await session_of(chat, get_weather)
        async for event in run_events(
            deps, session, "Rome?", dialect=NativeDialect(), abort=abort, limits=RunLimits(60)
        ):
            if event.name == "tool_call":
                abort.set("enough")
    assert (event.result.status, event.result.status_reason) == (
        "aborted",
        "The run was aborted: enough",
    )


# ---- listeners


@without_waiting
async def test_an_async_listener_is_awaited_before_the_run_continues():
    order = []

    async def listen(event):
        await asyncio.sleep(60)
        order.append(event.name)

    async def chat(messages, **settings):
        order.append("chat")
        return ChatResponse(Message.assistant("Done."), "stop")

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Hi.", on_event=listen, dialect=NativeDialect())
    assert order == [
        *("run_start", "turn_start", "request", "chat", "reply_text", "reply"),
        *("decision", "turn_end", "loop_end"),
    ]


@without_waiting
async def test_an_async_listener_receives_progress_events_in_order():
    order = []

    async def listen(event):
        await asyncio.sleep(60 if event.name == "tool_progress" else 0)
        order.append((event.name, getattr(event, "value", None)))

    @tool(effect="read")
    async def steps(context: ToolContext) -> str:
        """Report."""
        context.progress(1)
        context.progress(2)
        return "done"

    call = Message.assistant("", [ToolCall("c1", "steps", "{}")])
    async with scripted(call, "Done.") as gateway:
        deps, session = await session_of(gateway, steps)
        await run_tool_loop(deps, session, "Go.", on_event=listen, dialect=NativeDialect())
    assert order[5:9] == [
        ("tool_call", None),
        ("tool_progress", 1),
        ("tool_progress", 2),
        ("tool_result", None),
    ]


async def test_an_exception_of_an_async_listener_at_a_progress_event_ends_the_run():
    async def listen(event):
        if event.name == "tool_progress":
            raise ZeroDivisionError

    @tool(effect="read")
    async def steps(context: ToolContext) -> str:
        """Report."""
        context.progress(1)
        return "done"

    call = Message.assistant("", [ToolCall("c1", "steps", "{}")])
    async with Script(call, "Done.") as chat:
        deps, session = await session_of(chat, steps)
        with pytest.raises(ZeroDivisionError):
            await run_tool_loop(deps, session, "Go.", on_event=listen, dialect=NativeDialect())
        assert (await deps.context_engine.history(session)).check_history() == []
