import asyncio
from dataclasses import dataclass, replace

import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ServerFailed, ToolCall
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    SqliteStore,
    Transcript,
    WindowTooSmall,
)
from stage2_output import OutputController
from stage3_tools import (
    FinalReply,
    InvalidReply,
    NativeDialect,
    RunState,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    ToolResult,
    run_turn,
)
from stage3_tools.run.state import ProviderStop, ran_tools
from stage3_tools.turn import read, request
from tests.stage3_tools.conversation import DONE, Native, Recorder, call, native_response
from tests.tables import for_each

CALL = call()
UNKNOWN = "may have happened"


@dataclass
class RunCase:
    run: RunState

    async def turn(self):
        return await run_turn(self.run)

    async def history(self):
        return list(await self.run.transcript.history())

    async def problems(self):
        return (await self.run.transcript.history()).check_history()


def run_case(response, *tools, history=(), window=None, **options):
    """Return a run whose model gives this response: text, a ChatResponse, or an exception to raise."""

    async def chat(messages, **settings):
        if isinstance(response, Exception):
            raise response
        return (
            ChatResponse(Message.assistant(response), "stop")
            if isinstance(response, str)
            else response
        )

    registry = ToolRegistry(*tools)
    deps = ToolLoopDeps(chat, ContextEngine(), OutputController(), registry)
    transcript = Transcript.of(history or [Message.user("Go.")], window)
    return RunCase(RunState(deps, transcript, ToolLoopOptions(**options)))


class Blocking:
    """A tool that sets an event when it starts, and then blocks."""

    def __init__(self, effect):
        self.started = asyncio.Event()
        self.tool = Tool("f", "", None, self.wait, effect=effect)

    async def wait(self, arguments):
        self.started.set()
        await asyncio.Event().wait()


def listener(name):
    """Return a listener that raises at the first event of this name."""

    def listen(event):
        if event.name == name:
            raise LookupError("the listener broke")

    return listen


async def test_a_turn_with_a_call_runs_the_tool_and_records_the_result():
    recorder = Recorder()
    case = run_case(CALL, recorder.tool)
    turn = await case.turn()
    (record,) = turn.records
    assert (record.id, record.name, record.arguments, record.round) == ("call_1", "f", "{}", 1)
    assert replace(record.result, duration=0.0) == ToolResult("call_1", "f", "ok", attempts=1)
    assert record.started <= record.ended
    assert (ran_tools(turn.records), case.run.records, case.run.counts.requests) == (
        True,
        [record],
        1,
    )


async def test_a_turn_with_only_rejected_calls_counts_as_having_run_no_tools():
    turn = await run_case('{"tool": "g"}', Recorder().tool).turn()
    assert [record.result.error.kind for record in turn.records] == ["not_found"]
    assert not ran_tools(turn.records)


async def test_repeated_or_missing_call_ids_are_made_unique():
    before = [
        Message.user("Go."),
        Message.assistant("", [ToolCall("x", "f")]),
        Message.tool("ok", "x", name="f"),
    ]
    calls = [ToolCall("x", "f"), ToolCall("x", "f"), ToolCall("", "f"), ToolCall("y", "f")]
    case = run_case(native_response(*calls), Recorder().tool, history=before, dialect=Native())
    turn = await case.turn()
    ids = [record.id for record in turn.records]
    assert len({"x", *ids}) == 5
    assert ids[3] == "y"
    assert all(ids)
    assert await case.problems() == []


async def test_reading_a_turn_again_keeps_the_ids_of_its_calls():
    it = run_case(ChatResponse(Message.assistant("", [ToolCall("", "f", "{}")]), "tool_calls"))
    it.run.change_options(ToolLoopOptions(dialect=NativeDialect()))
    it.run.deps.tool_registry.register(Recorder().tool)
    turn = await request(it.run)
    await read(it.run, turn)
    first = turn.interpretation
    await read(it.run, turn)
    assert turn.interpretation is first


@for_each(
    "response, reading",
    [
        (DONE, FinalReply(Message.assistant("done", raw_text=DONE))),
        (CALL, FinalReply(Message.assistant(""))),
        ("plain words", FinalReply(Message.assistant("plain words", raw_text="plain words"))),
    ],
)
async def test_without_tools_a_call_is_dropped_and_any_text_is_the_reply(response, reading):
    assert (await run_case(response).turn()).interpretation == reading


async def test_the_window_selects_the_messages_of_a_request():
    history = [Message.user("old"), Message.assistant("yes"), Message.user("new")]
    case = run_case(DONE, history=history, window=KeepSystemAndRecent(max_messages=1))
    await case.turn()
    assert case.run.last_request[1:] == (Message.user("new"),)


async def test_the_tool_description_and_the_reply_reserve_count_toward_the_window():
    window = KeepSystemAndRecent(max_tokens=1000)
    await run_case(DONE, Recorder().tool, window=window).turn()
    with pytest.raises(WindowTooSmall):
        await run_case(DONE, Recorder().tool, window=window, max_tokens=990).turn()
    long = Tool("f", "word " * 2000, None, lambda arguments: None)
    with pytest.raises(WindowTooSmall):
        await run_case(DONE, long, window=window).turn()


async def test_a_failed_request_leaves_the_history_unchanged():
    case = run_case(ServerFailed("down"))
    with pytest.raises(ServerFailed, match="down"):
        await case.turn()
    assert await case.history() == [Message.user("Go.")]


@for_each("effect, ends", [("write", True), ("read", False), ("idempotent", False)])
async def test_cancelling_a_running_tool_leaves_a_result_that_states_a_possible_effect(
    effect, ends
):
    blocking = Blocking(effect)
    case = run_case(
        native_response(ToolCall("a", "f"), ToolCall("b", "f")), blocking.tool, dialect=Native()
    )
    running = asyncio.create_task(case.turn())
    await blocking.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await case.problems() == []
    results = (await case.history())[2:]
    assert [(each.tool_call_id, each.is_error, UNKNOWN in each.text) for each in results] == [
        ("a", True, ends),
        ("b", True, ends),
    ]


@for_each(
    "name",
    [
        "turn_start",
        "decision",
        "tool_call",
        "tool_result",
        "turn_end",
    ],
)
async def test_a_listener_that_raises_ends_the_turn_and_leaves_a_valid_history(name):
    calls = native_response(ToolCall("a", "f"), ToolCall("b", "f"))
    case = run_case(calls, Recorder().tool, dialect=Native(), on_event=listener(name))
    with pytest.raises(LookupError, match="the listener broke"):
        await case.turn()
    assert await case.problems() == []


async def test_a_write_that_never_began_has_no_note_about_a_possible_effect():
    recorder = Recorder(effect="write")
    calls = native_response(ToolCall("a", "f"), ToolCall("b", "f"))
    case = run_case(calls, recorder.tool, dialect=Native(), on_event=listener("tool_call"))
    with pytest.raises(LookupError):
        await case.turn()
    results = (await case.history())[2:]
    assert recorder.seen == []
    assert [(each.tool_call_id, UNKNOWN in each.text) for each in results] == [
        ("a", False),
        ("b", False),
    ]


async def test_a_listener_that_raises_at_the_first_result_does_not_affect_the_second_call():
    recorder = Recorder(effect="write")
    calls = native_response(ToolCall("a", "f"), ToolCall("b", "f"))
    case = run_case(calls, recorder.tool, dialect=Native(), on_event=listener("tool_result"))
    with pytest.raises(LookupError):
        await case.turn()
    results = (await case.history())[2:]
    assert [(each.tool_call_id, each.text) for each in results] == [("a", "ok"), ("b", "ok")]


@for_each("reason", ["refusal", "pause"])
async def test_a_refused_or_paused_reply_is_stored_and_nothing_in_it_runs(reason):
    recorder = Recorder()
    case = run_case(ChatResponse(Message.assistant(CALL), reason), recorder.tool)
    turn = await case.turn()
    stored = Message.assistant(CALL, raw_text=CALL)
    assert turn.interpretation == ProviderStop(stored, reason)
    assert (recorder.seen, (await case.history())[1:]) == ([], [stored])


@for_each("reason", ["refusal", "pause"])
async def test_calls_in_a_refused_or_paused_reply_get_results(reason):
    message = Message.assistant("I would", [ToolCall("c1", "f")])
    case = run_case(ChatResponse(message, reason), Recorder().tool, dialect=Native())
    await case.turn()
    assert await case.problems() == []


@for_each("raw, named", [("oops", "oops"), (None, "error")])
@for_each("text", [CALL, ""])
async def test_a_failed_reply_gets_feedback_and_nothing_in_it_runs(text, raw, named):
    recorder = Recorder()
    case = run_case(ChatResponse(Message.assistant(text), "error", raw), recorder.tool)
    turn = await case.turn()
    feedback = f"Your reply ended with the error {named}, so nothing in it was used. Answer again."
    reply = Message.assistant(text)
    assert turn.interpretation == InvalidReply(reply, feedback)
    assert await case.history() == [
        Message.user("Go."),
        *([reply] if text else []),
        Message("user", f"[Feedback]\n{feedback}", name="feedback"),
    ]
    assert recorder.seen == []


async def test_an_invalid_reply_without_text_is_not_stored():
    case = run_case("", Recorder().tool)
    turn = await case.turn()
    feedback = Message("user", f"[Feedback]\n{turn.interpretation.feedback}", name="feedback")
    assert await case.history() == [Message.user("Go."), feedback]


class Interrupting(SqliteStore):
    """A store that cancels the run when its n-th append begins."""

    def __init__(self, path, number):
        super().__init__(path)
        self.number = number
        self.run = None

    async def append(self, *given, **named):
        self.number -= 1
        if self.number == 0:
            asyncio.get_running_loop().call_soon(self.run.cancel)
        return await super().append(*given, **named)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_cancelling_a_run_during_a_write_to_a_file_leaves_one_result_for_each_call(
    number, tmp_path
):
    store = Interrupting(tmp_path / "sessions.db", number)
    engine = ContextEngine(store=store)
    session = await engine.create_session()
    response, recorder = native_response(ToolCall("a", "f"), ToolCall("b", "f")), Recorder()
    case = run_case(response, recorder.tool, dialect=Native())
    case.run.transcript = engine.transcript(session)
    store.run = asyncio.ensure_future(case.turn())
    with pytest.raises(asyncio.CancelledError):
        await store.run
    assert await case.problems() == []
    assert [each.tool_call_id for each in await case.history() if each.role == "tool"] == ["a", "b"]
    if number <= 2:  # the reply, or the start of its calls, was being written
        assert recorder.seen == []
    await store.aclose()


# ---- request


def a_run(*tools, text="hi", **options):
    """Return a run, and the list of calls of its `chat` function."""
    given = []

    async def chat(messages, **settings):
        given.append((messages, settings))
        return ChatResponse(Message.assistant("hello"), "stop")

    deps = ToolLoopDeps(chat, ContextEngine(), OutputController(), ToolRegistry(*tools))
    options = {"dialect": NativeDialect(), **options}
    return RunState(deps, Transcript.of([Message.user(text)]), ToolLoopOptions(**options)), given


async def test_only_settings_with_a_value_are_passed_to_the_model():
    run, given = a_run()
    await request(run)
    assert given == [((Message.user("hi"),), {})]
    run, given = a_run(Recorder().tool, temperature=0.0, max_tokens=7, model="a:b")
    await request(run)
    [(messages, settings)] = given
    assert (messages, settings["temperature"], settings["max_tokens"]) == (run.last_request, 0.0, 7)
    assert settings["model"] == "a:b"
    assert [spec.name for spec in settings["tools"]] == ["f"]


@for_each("asynchronous", [False, True])
async def test_before_send_changes_one_request_only(asynchronous):
    def shorter(messages, info):
        return [{"role": "user", "content": messages[0].text + "!"}]

    async def later(messages, info):
        return shorter(messages, info)

    run, given = a_run(before_send=later if asynchronous else shorter)
    await request(run)
    assert given == [((Message.user("hi!"),), {})]
    assert run.last_request == (Message.user("hi!"),)
    assert [*await run.transcript.history()] == [Message.user("hi")]


async def test_a_request_is_unchanged_if_before_send_returns_none():
    seen = []
    run, given = a_run(before_send=lambda messages, info: seen.append(messages))
    await request(run)
    assert (seen, given[0][0]) == ([[Message.user("hi")]], (Message.user("hi"),))


async def test_an_empty_list_or_an_invalid_message_of_before_send_raises_a_value_error():
    for nothing in ([], ["hi"]):
        run, given = a_run(before_send=lambda messages, info, nothing=nothing: nothing)
        with pytest.raises(
            ValueError, match=r"before_send returned an empty list|A message is a Message, or"
        ):
            await request(run)
        assert given == []


async def test_a_streamed_reply_is_announced_before_the_request_is_sent():
    model, events = ScriptedModel(["hello"]), []
    async with Gateway("openai:m", transport=model) as gateway:
        deps = ToolLoopDeps(
            gateway, ContextEngine(), OutputController(), ToolRegistry(), stream=True
        )
        run = RunState(
            deps,
            Transcript.of([Message.user("hi")]),
            ToolLoopOptions(on_event=events.append, dialect=NativeDialect()),
        )
        turn = await request(run)
        assert ([event.name for event in events], model.requests) == (
            ["turn_start", "request", "reply_stream"],
            [],
        )
        assert events[2].stream is turn.stream
        await read(run, turn)
        assert turn.response.content == "hello"


async def test_a_stream_of_another_type_raises_a_type_error_that_states_what_to_pass():
    run, _ = a_run()
    run.deps = ToolLoopDeps(run.deps.chat, stream=lambda messages, **settings: "hello")
    with pytest.raises(TypeError) as caught:
        await request(run)
    assert str(caught.value) == "The value of stream must be of type MessageStream, not str."


async def test_read_variable_is_available_from_the_first_reference_on():
    run, given = a_run(Recorder().tool, text="Look at $VAR_REF{{var_1}}.")
    turn = await request(run)
    assert turn.tools.names == ("f", "read_variable")
    assert [spec.name for spec in given[0][1]["tools"]] == ["f", "read_variable"]
    assert (await request(run)).tools.names == turn.tools.names


@for_each("options", [{}, {"variables_over": None}])
async def test_without_tools_or_variables_read_variable_is_not_available(options):
    tools = [Recorder().tool] if options else []
    run, _ = a_run(*tools, text="Look at $VAR_REF{{var_1}}.", **options)
    assert "read_variable" not in (await request(run)).tools


async def test_two_calls_with_one_id_and_one_result_are_repaired_without_a_conflict():
    run, given = a_run(Recorder().tool)
    twice = Message.assistant("", [ToolCall("a", "f"), ToolCall("a", "f")])
    await run.transcript.append(twice, Message.tool("ok", "a"))
    await request(run)
    assert [each.role for each in given[0][0]] == ["user", "assistant", "tool", "tool"]
    assert (await run.transcript.history()).check_history() == []
