import asyncio
from dataclasses import replace

import pytest

from stage0_gateway import ChatResponse, Message, ScriptError, ServerFailed, ToolCall, Usage
from stage1_context import ContextEngine, KeepSystemAndRecent, SessionNotFound, SqliteStore
from stage2_output import OutputController, feedback
from stage3_tools import (
    TOOL_DECISION_SCHEMA,
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopStats,
    ReplyReceived,
    ReplyText,
    Tool,
    ToolAnswered,
    ToolCalled,
    ToolLoopDeps,
    ToolLoopResult,
    ToolOutput,
    ToolResult,
    TurnEnded,
    TurnStarted,
    run_tool_loop,
)
from tests.stage3_tools.conversation import Recorder, answer, call, chat_of
from tests.tables import for_each

USED = Usage(10, 5)  # the usage that ScriptedModel reports for each reply
EMPTY = '{"tool": null, "reply": ""}'
# The feedback of stage 2.
NO_JSON = feedback(OutputController().parse_and_validate("sun", TOOL_DECISION_SCHEMA))


def response(text, finish_reason="stop", **rest):
    return ChatResponse(Message.assistant(text), finish_reason, **rest)


def without_time(event):
    if event.name == "tool_result":
        return replace(event, result=replace(event.result, duration=0.0))
    if event.name == "reply":
        response = ChatResponse(
            event.response.message, event.response.finish_reason, event.response.usage
        )
        return replace(event, response=response, seconds=0.0)
    return event


def received(text):
    """Return the message, the finish reason and the usage of a reply of ScriptedModel."""
    return ChatResponse(Message.assistant(text), "stop", USED)


def outputs(result):
    return [record.result.as_message().text for record in result.history]


def with_tools(seen):
    """Return whether each request describes tools."""
    return ["To call a tool" in messages[0][1] for messages in seen]


# ---- successful runs


async def test_a_run_calls_a_tool_and_returns_the_reply(new_conversation):
    recorder = Recorder("get_weather", returns={"celsius": 22})
    conversation = new_conversation(
        [call("get_weather", city="Shanghai"), answer("22 degrees.")], recorder.tool
    )
    result = await conversation.ask("Shanghai?")
    assert recorder.seen == [{"city": "Shanghai"}]
    assert conversation.seen[1][1:] == [
        ("user", "Shanghai?"),
        ("assistant", call("get_weather", city="Shanghai")),
        ("user", '[Tool result for get_weather]\n{"celsius":22}'),
    ]
    asked = ToolCall("call_1", "get_weather", '{"city": "Shanghai"}')
    answered = ToolResult("call_1", "get_weather", '{"celsius":22}', attempts=1)
    first, second = (request.messages for request in conversation.model.requests)
    asking, replying = call("get_weather", city="Shanghai"), answer("22 degrees.")
    compared = [each for each in conversation.events if each.name not in ("run_start", "request")]
    assert [without_time(event) for event in compared] == [
        TurnStarted(turn=1),
        ReplyReceived(turn=1, response=received(asking), seconds=0.0),
        DecisionMade(turn=1, text=asking, calls=(asked,)),
        ToolCalled(turn=1, call=asked),
        ToolAnswered(turn=1, result=answered),
        TurnEnded(turn=1, usage=USED),
        TurnStarted(turn=2),
        ReplyText(turn=2, text="22 degrees.", delta="22 degrees."),
        ReplyReceived(turn=2, response=received(replying), seconds=0.0),
        DecisionMade(turn=2, text=replying, reply="22 degrees."),
        TurnEnded(turn=2, usage=USED),
        LoopEnded(turn=2, status="completed", reply="22 degrees.", result=result),
    ]
    requests = [each.messages for each in conversation.events if each.name == "request"]
    assert requests == [first, second]
    (record,) = result.history
    assert (record.id, record.arguments, record.round) == ("call_1", '{"city": "Shanghai"}', 1)
    assert replace(result, history=(), stats=replace(result.stats, duration=0.0)) == replace(
        result,
        reply="22 degrees.",
        status="completed",
        status_reason=None,
        tool_rounds=1,
        last_raw_content=answer("22 degrees."),
        usage=Usage(20, 10),
        cost=None,
        history=(),
        messages=second,
        stats=LoopStats(turns=2, tool_calls=1, duration=0.0),
    )
    assert not result.max_rounds_reached
    assert await conversation.problems() == []


async def test_the_question_may_be_a_message(new_conversation):
    conversation = new_conversation([answer()])
    await conversation.ask(Message.user("hi"))
    assert (await conversation.history())[0] == Message.user("hi")


async def test_without_tools_plain_text_is_the_reply(new_conversation):
    result = await new_conversation(["Hello!"]).ask()
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "Hello!", 0)


async def test_an_unknown_session_raises_an_error(new_conversation):
    conversation = new_conversation()
    with pytest.raises(SessionNotFound):
        await run_tool_loop(conversation.deps, "nowhere", "hi")


async def test_deps_or_options_of_another_type_raise_a_type_error(new_conversation):
    conversation = new_conversation()
    with pytest.raises(TypeError) as caught:
        await run_tool_loop(conversation.gateway, "s", "hi")
    assert str(caught.value) == (
        "deps must be of type ToolLoopDeps, not Gateway. It holds the parts of the other stages."
    )
    with pytest.raises(TypeError) as caught:
        await run_tool_loop(conversation.deps, "s", "hi", {"max_tool_rounds": 5})
    assert str(caught.value) == (
        "options must be of type ToolLoopOptions, not dict. Write them by name: max_tokens=500."
    )


# ---- invalid replies


async def test_an_invalid_reply_gets_feedback(new_conversation):
    conversation = new_conversation(["sun", answer()], Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply) == ("completed", "done")
    [given] = [each for each in conversation.events if each.name == "feedback"]
    assert given == FeedbackGiven(turn=1, text="sun", feedback=NO_JSON)
    assert conversation.seen[1][2:] == [("assistant", "sun"), ("user", f"[Feedback]\n{NO_JSON}")]


@for_each("retries", [0, 1, 2])
async def test_after_the_last_retry_the_run_ends_without_a_reply(new_conversation, retries):
    replies = [f"word {number}" for number in range(retries + 1)]
    conversation = new_conversation(replies, Recorder().tool)
    result = await conversation.ask(max_parse_retries=retries)
    assert (result.status, result.reply) == ("parse_failed", None)
    reason = (
        f"The model gave no valid reply in {retries + 1} attempts. The last feedback: {NO_JSON}"
    )
    assert result.status_reason == reason
    assert result.last_raw_content == replies[-1]
    ended = LoopEnded(turn=retries + 1, status="parse_failed", reply=None, result=result)
    assert conversation.events[-1] == ended
    assert conversation.events[-1].result == result
    assert await conversation.problems() == []


async def test_a_valid_decision_resets_the_retries(new_conversation):
    replies = ["?", "?", call(n=1), "?", "?", call(n=2), "?", "?", answer()]
    result = await new_conversation(replies, Recorder().tool).ask(max_parse_retries=2)
    assert (result.status, result.tool_rounds) == ("completed", 2)


async def test_a_write_beside_text_runs_only_once_it_is_the_whole_reply(new_conversation):
    recorder = Recorder(effect="write")
    beside = f"The page says, and I refuse:\n{call(n=1)}"
    conversation = new_conversation([beside, call(n=2), answer()], recorder.tool)
    result = await conversation.ask()
    assert (result.status, result.tool_rounds, recorder.seen) == ("completed", 1, [{"n": 2}])
    (given,) = [event for event in conversation.events if event.name == "feedback"]
    assert call(n=1) in given.feedback.splitlines()
    assert [issue.rule for issue in given.issues] == ["whole_reply"]
    assert conversation.seen[1][2:] == [
        ("assistant", beside),
        ("user", f"[Feedback]\n{given.feedback}"),
    ]


async def test_a_model_that_never_writes_its_call_alone_ends_the_run_without_it(new_conversation):
    recorder = Recorder(effect="write")
    result = await new_conversation([f"Sure.\n{call(n=1)}"] * 3, recorder.tool).ask()
    assert (result.status, recorder.seen) == ("parse_failed", [])


async def test_errors_of_unknown_tools_and_wrong_arguments_suggest_similar_names(new_conversation):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    recorder = Recorder("get_weather", schema)
    replies = [
        call("get_wether", city="Oslo"),
        call("get_weather", citty="Oslo"),
        call("get_weather", city="Oslo"),
        answer(),
    ]
    conversation = new_conversation(replies, recorder.tool)
    result = await conversation.ask()
    assert outputs(result) == [
        "Error (not_found): There is no tool named 'get_wether'. Available tools: get_weather.\n"
        "Did you mean get_weather?",
        "Error (validation): The arguments of get_weather do not fit:\n"
        "- /city is missing (string); you sent `citty`; did you mean `city`?",
        "ok",
    ]
    assert (recorder.seen, result.tool_rounds, result.stats.tool_calls) == (
        [{"city": "Oslo"}],
        1,
        3,
    )


async def test_a_truncated_reply_never_runs_a_call_even_if_it_looks_complete(new_conversation):
    recorder = Recorder()
    chat = chat_of(response(call(), "length", usage=Usage(3, 64)), response(answer()))
    conversation = new_conversation((), recorder.tool, chat=chat)
    result = await conversation.ask()
    assert (recorder.seen, result.history, result.status) == ([], (), "completed")
    assert chat.requests[1][-2:] == [
        ("assistant", call()),
        (
            "user",
            "[Feedback]\nYour reply was cut off after 64 tokens, so nothing in it was used. "
            "Answer again, shorter: one JSON object.",
        ),
    ]


async def test_a_truncated_answer_is_not_the_reply(new_conversation):
    chat = chat_of(response("It is", "length"), response("It is sunny."))
    assert (await new_conversation(chat=chat).ask()).reply == "It is sunny."


@for_each(
    "replies, status, reply, reason",
    [
        ([EMPTY, answer()], "completed", "done", None),
        ([EMPTY, EMPTY], "completed", "", "The model's reply was empty, twice."),
        ([EMPTY, call(), EMPTY], "completed", "", "The model's reply was empty, twice."),
    ],
)
async def test_an_empty_reply_is_requested_once_more(
    new_conversation, replies, status, reply, reason
):
    conversation = new_conversation(replies, Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply, result.status_reason) == (status, reply, reason)
    assert conversation.seen[1][-1] == (
        "user",
        "[Feedback]\nYour reply was empty. Answer the user.",
    )


# ---- refusals and pauses


@for_each(
    "given, reason",
    [
        (response("I will not.", "refusal"), "I will not."),
        (response("", "refusal", refusal="Not that."), "Not that."),
        (response("", "refusal"), "The model refused to answer."),
        (response(call(), "refusal"), call()),
    ],
)
async def test_a_refusal_ends_the_run(new_conversation, given, reason):
    recorder = Recorder()
    conversation = new_conversation((), recorder.tool, chat=chat_of(given))
    result = await conversation.ask()
    assert (result.status, result.reply, result.status_reason) == ("refused", None, reason)
    assert (recorder.seen, await conversation.problems()) == ([], [])


@for_each(
    "pauses, status, reply",
    [(1, "completed", "done"), (5, "completed", "done"), (6, "limit", None)],
)
async def test_a_paused_reply_is_continued_at_most_five_times(
    new_conversation, pauses, status, reply
):
    given = [*[response("Searching …", "pause")] * pauses, response(answer())]
    chat = chat_of(*given)
    conversation = new_conversation((), Recorder().tool, chat=chat)
    result = await conversation.ask()
    assert (result.status, result.reply) == (status, reply)
    assert len(chat.requests) == min(pauses + 1, 6)


async def test_a_paused_reply_is_sent_back_unchanged(new_conversation):
    chat = chat_of(response("Searching …", "pause"), response(answer()))
    await new_conversation((), Recorder().tool, chat=chat).ask()
    assert chat.requests[1][2:] == [("assistant", "Searching …")]


@for_each("refusal", ["Not that.", None])
async def test_after_a_refusal_no_empty_message_is_sent(new_conversation, refusal):
    chat = chat_of(response("", "refusal", refusal=refusal), response(answer()))
    conversation = new_conversation((), chat=chat)
    await conversation.ask("one")
    await conversation.ask("two")
    assert [each for each in chat.requests[1] if not each[1]] == []


# ---- the round limit


@for_each("rounds", [1, 2, 3])
async def test_the_request_after_the_last_round_has_no_tools(new_conversation, rounds):
    recorder = Recorder()
    conversation = new_conversation(
        [*(call(n=n) for n in range(rounds)), answer("so far")], recorder.tool
    )
    result = await conversation.ask(max_tool_rounds=rounds)
    assert (result.status, result.reply, result.tool_rounds) == ("max_rounds", "so far", rounds)
    assert result.max_rounds_reached
    assert result.status_reason == f"The limit of {rounds} tool rounds was reached."
    assert recorder.seen == [{"n": n} for n in range(rounds)]
    assert with_tools(conversation.seen) == [True] * rounds + [False]


async def test_a_reply_before_the_limit_has_status_completed(new_conversation):
    result = await new_conversation([call(), answer()], Recorder().tool).ask(max_tool_rounds=2)
    assert (result.status, result.tool_rounds) == ("completed", 1)


async def test_the_last_reply_may_be_plain_text(new_conversation):
    result = await new_conversation([call(), "It is sunny."], Recorder().tool).ask(
        max_tool_rounds=1
    )
    assert (result.status, result.reply) == ("max_rounds", "It is sunny.")


async def test_a_call_in_the_last_reply_is_dropped_and_the_answer_is_requested_once_more(
    new_conversation,
):
    recorder = Recorder()
    conversation = new_conversation([call(), call(n=2), answer("well")], recorder.tool)
    result = await conversation.ask(max_tool_rounds=1)
    assert (result.status, result.reply, recorder.seen) == ("max_rounds", "well", [{}])
    assert (len(result.history), await conversation.problems()) == (1, [])


async def test_a_model_that_only_calls_tools_gives_no_reply_at_the_limit(new_conversation):
    result = await new_conversation([call()] * 3, Recorder().tool).ask(max_tool_rounds=1)
    assert (result.status, result.reply) == ("max_rounds", None)
    assert result.status_reason == (
        "The limit of 1 tool rounds was reached. The model gave no reply without tools either."
    )


async def test_with_max_tool_rounds_0_no_tool_runs(new_conversation):
    recorder = Recorder()
    conversation = new_conversation([answer()], recorder.tool)
    result = await conversation.ask(max_tool_rounds=0)
    assert (result.status, result.reply, result.tool_rounds, recorder.seen) == (
        "max_rounds",
        "done",
        0,
        [],
    )
    assert with_tools(conversation.seen) == [False]


async def test_too_many_turns_with_only_rejected_calls_end_the_run(new_conversation):
    recorder = Recorder()
    conversation = new_conversation([*(call("g", n=n) for n in range(5)), answer()], recorder.tool)
    result = await conversation.ask(max_tool_rounds=3)
    assert (result.status, result.reply, result.tool_rounds) == ("limit", "done", 0)
    assert result.status_reason == "In 5 turns in a row, every call was rejected."
    assert (recorder.seen, result.stats.tool_calls, with_tools(conversation.seen)[-2:]) == (
        [],
        5,
        [True, False],
    )


async def test_a_turn_with_only_rejected_calls_does_not_count_as_a_tool_round(new_conversation):
    conversation = new_conversation([call("g"), call(n=1), answer()], Recorder().tool)
    result = await conversation.ask(max_tool_rounds=1)
    assert (result.status, result.tool_rounds, len(result.history)) == ("max_rounds", 1, 2)


async def test_rejected_calls_do_not_use_up_tool_rounds_between_valid_calls(new_conversation):
    replies = [call(n=1), call("g"), call(n=2), answer()]
    result = await new_conversation(replies, Recorder().tool).ask(max_tool_rounds=2)
    assert (result.status, result.tool_rounds) == ("max_rounds", 2)
    assert [record.round for record in result.history] == [1, 2, 2]


async def test_a_repeated_call_gets_a_note_from_the_third_time_and_does_not_run_the_fifth(
    new_conversation,
):
    recorder = Recorder()
    result = await new_conversation([call(x=1)] * 5 + [answer()], recorder.tool).ask()
    assert outputs(result) == [
        "ok",
        "ok",
        "ok\nNote: this is call 3 in a row with the same arguments.",
        "ok\nNote: this is call 4 in a row with the same arguments.",
        '{"status": "rejected", "message": "f was called 5 times in a row with the same '
        r'arguments, so it is not run again.\nUse the results above, call another tool, or answer."}',
    ]
    assert (len(recorder.seen), result.tool_rounds, result.status) == (4, 4, "completed")


# ---- failures, cancellation, sessions


async def test_the_model_receives_the_error_of_a_failed_tool_and_continues(new_conversation):
    def fail(arguments):
        raise ValueError("no such city")

    conversation = new_conversation(
        [call(), answer("sorry")], Tool("f", "", None, fail, effect="read")
    )
    result = await conversation.ask()
    assert (result.reply, outputs(result)) == (
        "sorry",
        ["Error (execution): ValueError: no such city"],
    )
    assert conversation.seen[1][-1] == (
        "user",
        "[Tool result for f]\nError (execution): ValueError: no such city",
    )


async def test_a_failed_request_raises_and_the_next_question_works(new_conversation):
    conversation = new_conversation([call(), 500, answer("here again")], Recorder().tool)
    with pytest.raises(ServerFailed):
        await conversation.ask("one")
    assert await conversation.problems() == []
    assert (await conversation.ask("two")).reply == "here again"
    assert [text for role, text in conversation.seen[2] if role == "user"] == [
        "one",
        "[Tool result for f]\nok",
        "two",
    ]


@for_each(
    "name",
    [
        "turn_start",
        "decision",
        "tool_call",
        "tool_result",
        "turn_end",
        "loop_end",
    ],
)
async def test_a_listener_that_raises_ends_the_run_and_leaves_a_valid_history(
    new_conversation, name
):
    def listen(event):
        if event.name == name:
            raise LookupError("the listener broke")

    conversation = new_conversation(
        (),
        Recorder().tool,
        chat=chat_of(response(call()), response(answer()), response(answer())),
    )
    with pytest.raises(LookupError, match="the listener broke"):
        await conversation.ask(on_event=listen)
    assert await conversation.problems() == []


async def test_two_runs_of_one_session_take_turns(new_conversation):
    started, proceed = asyncio.Event(), asyncio.Event()

    async def hold(arguments):
        started.set()
        await proceed.wait()

    conversation = new_conversation(
        [call(), answer("one!"), answer("two!")], Tool("f", "", None, hold)
    )
    one = asyncio.create_task(conversation.ask("one"))
    await started.wait()
    two = asyncio.create_task(conversation.ask("two"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(conversation.model.requests) == 1
    proceed.set()
    assert [(await each).reply for each in (one, two)] == ["one!", "two!"]
    texts = [message.text for message in await conversation.history() if message.role != "tool"]
    assert texts == ["one", "", "one!", "two", "two!"]


async def test_a_scripted_model_without_further_replies_raises_a_script_error(new_conversation):
    conversation = new_conversation([call()], Recorder().tool)
    with pytest.raises(ScriptError):
        await conversation.ask()


async def test_details_are_stored_permanently_and_never_sent(new_conversation, tmp_path):
    look = Tool("look", execute=lambda arguments: ToolOutput("sunny", details={"by": "station 7"}))
    conversation = new_conversation(
        [call("look"), answer()], look, store=SqliteStore(tmp_path / "s.db")
    )
    result = await conversation.ask()
    assert result.history[0].result.details == {"by": "station 7"}
    assert "station 7" not in str(conversation.seen)
    await conversation.engine.aclose()
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        assert await engine.details("s") == {result.history[0].id: {"by": "station 7"}}


async def test_deps_accept_any_chat_function(new_conversation):
    conversation = new_conversation(chat=chat_of(response(answer(), cost=0.5, usage=Usage(1, 2))))
    assert isinstance(conversation.deps, ToolLoopDeps)
    result = await conversation.ask()
    assert (result.cost, result.usage) == (0.5, Usage(1, 2))


@for_each(
    "question, message",
    [
        (None, "The question is missing"),
        (5, "not 5"),
        (Message.tool("x", "nope"), "not a 'tool' message"),
        ({"role": "assistant", "content": "x"}, "not a 'assistant' message"),
    ],
)
async def test_an_invalid_question_raises_and_leaves_the_session_usable(
    new_conversation, question, message
):
    conversation = new_conversation([answer()], Recorder().tool)
    with pytest.raises(ValueError, match=message):
        await conversation.ask(question)
    assert (await conversation.ask()).reply == "done"


async def test_a_tool_that_uses_its_own_session_gets_an_error_instead_of_blocking(
    new_conversation,
):
    async def ask_again(arguments):
        return (await conversation.ask()).reply

    conversation = new_conversation([call("again"), answer()], Tool("again", "", None, ask_again))
    result = await conversation.ask()
    assert result.reply == "done"
    assert "is running already" in result.history[0].result.output


async def test_a_task_started_by_a_tool_may_use_the_session_after_the_run(new_conversation):
    left, over = [], asyncio.Event()

    async def ask_later():
        await over.wait()
        return (await conversation.ask("two")).reply

    async def leave_a_task(arguments):
        left.append(asyncio.create_task(ask_later()))
        return "left"

    conversation = new_conversation(
        [call("leave"), answer(), answer()], Tool("leave", "", None, leave_a_task)
    )
    assert (await conversation.ask("one")).reply == "done"
    over.set()
    assert await left[0] == "done"


# ---- the window and stored sessions


async def test_the_question_is_sent_in_every_turn_even_outside_the_window(new_conversation):
    window = KeepSystemAndRecent(max_messages=3)
    calls = [call(number=number) for number in range(3)]
    conversation = new_conversation([*calls, answer()], Recorder().tool, window=window)
    await conversation.ask("Find it.")
    asked = [[text for role, text in messages if role == "user"] for messages in conversation.seen]
    result = "[Tool result for f]\nok"
    assert asked == [["Find it."], *([["Find it.", result]] * 3)]


async def test_calls_left_open_by_a_killed_process_are_closed_before_the_next_question(
    new_conversation,
):
    conversation = new_conversation([answer()])
    await conversation.begin()
    for message in (Message.user("Go."), Message.assistant("", [ToolCall("call_1", "f", "{}")])):
        await conversation.engine.add_message("s", message)
    await conversation.ask("Are you there?")
    assert await conversation.problems() == []
    roles = [message.role for message in await conversation.history()]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    assert conversation.seen[0][-2][1].startswith("[Tool result for f]\n[interrupted]")


async def test_a_call_without_a_name_gets_an_error_and_can_be_stored_in_a_file(
    new_conversation, tmp_path
):
    store = SqliteStore(tmp_path / "sessions.db")
    conversation = new_conversation([call(""), answer()], Recorder().tool, store=store)
    result = await conversation.ask("Go.")
    assert (result.status, outputs(result)) == (
        "completed",
        ["Error (not_found): There is no tool named ''. Available tools: f."],
    )
    assert await conversation.problems() == []
    await store.aclose()


# ---- ToolLoopResult


def result_with(status):
    return ToolLoopResult(None, status, None, 0, None, Usage(), None, (), (), LoopStats(0, 0, 0.0))


@for_each("status, reached", [("max_rounds", True), ("limit", False), ("completed", False)])
def test_max_rounds_reached_is_true_for_one_status_only(status, reached):
    assert result_with(status).max_rounds_reached is reached


def test_the_repr_of_a_result_omits_history_and_messages():
    assert "history" not in repr(result_with("completed"))
    assert "messages" not in repr(result_with("completed"))
