import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall, Usage
from stage1_context import (
    CallFinishedRecord,
    ContextEngine,
    DropOldest,
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    SessionNotFound,
    SqliteStore,
    VariableRecord,
    WindowTooSmall,
)
from tests.stage1_context.sessions import (
    SHORT,
    SYSTEM,
    AlternatingWindow,
    CharacterCounter,
    Summarizer,
    calls,
    engine_with,
    lines_of,
    question,
    questions,
    result,
    summary_message,
    unused_model,
)
from tests.tables import for_each

THOUSAND = KeepSystemAndRecent(max_tokens=1000)


def response(text, finish_reason="stop"):
    return ChatResponse(Message.assistant(text), finish_reason)


def numbers(*requests):
    return [int(line["content"][:3]) for each in requests for line in lines_of(each)[1]]


def texts(messages):
    return [each.text[:3] for each in messages]


# ---- threshold


async def test_below_the_threshold_the_model_is_not_called():
    engine = await engine_with(*questions(9), window=THOUSAND)
    compaction = await engine.compact("s", unused_model)
    assert (compaction.done, compaction.fill) == (False, 0.9)
    assert compaction.reason == "The window is 90% full; it is compacted at 100%."
    assert not (await engine.compact("s", unused_model, threshold=0.91)).done
    assert (await engine.store.info("s")).records == 9


@for_each("messages, threshold", [(9, 0.9), (10, 1.0), (15, 1.5), (1, 0)])
async def test_from_the_threshold_on_messages_are_summarized(messages, threshold):
    engine = await engine_with(*questions(messages), window=THOUSAND)
    compaction = await engine.compact("s", Summarizer(SHORT), threshold=threshold, target=0)
    assert compaction.fill == messages / 10
    assert compaction.done == (messages > 1)


@for_each("target, kept", [(1, 10), (0.8, 8), (0.5, 5), (0.19, 1), (0, 1)])
async def test_the_newest_messages_stay_if_they_fit_into_the_target_part_of_the_window(
    target, kept
):
    engine = await engine_with(*questions(20), window=THOUSAND)
    model = Summarizer(SHORT)
    compaction = await engine.compact("s", model, target=target)
    assert (compaction.done, compaction.summarized) == (True, 20 - kept)
    assert numbers(*model.requests) == list(range(20 - kept))


async def test_the_reserve_counts_towards_the_fill():
    engine = await engine_with(*questions(6), window=THOUSAND)
    assert not (await engine.compact("s", unused_model, reserve_tokens=399)).done
    compaction = await engine.compact("s", Summarizer(SHORT), reserve_tokens=400)
    assert (compaction.fill, compaction.summarized) == (1.0, 5)


async def test_reported_usage_scales_the_fill():
    engine = await engine_with(*questions(6), window=THOUSAND)
    await engine.messages_for_request("s")
    engine.report_usage("s", Usage(input_tokens=1200))
    compaction = await engine.compact("s", Summarizer(SHORT))
    assert compaction.fill == pytest.approx(1.2 * 1.03)
    assert compaction.summarized == 4


@for_each("wrong", [{"threshold": -0.1}, {"target": -0.1}, {"target": 1.1}])
async def test_a_threshold_or_target_outside_its_range_is_rejected(wrong):
    engine = await engine_with()
    with pytest.raises(ValueError, match=r"both are parts of the window: 0\.8 is four fifths"):
        await engine.compact("s", unused_model, **wrong)


async def test_compacting_an_unknown_session_raises_an_error():
    with pytest.raises(SessionNotFound):
        await ContextEngine().compact("s", unused_model)


async def test_a_newest_exchange_that_does_not_fit_into_the_window_is_an_error():
    engine = await engine_with(*questions(2), window=KeepSystemAndRecent(max_tokens=99))
    with pytest.raises(WindowTooSmall):
        await engine.compact("s", unused_model)


@for_each("messages", [[], [SYSTEM], [question(1)], [SYSTEM, question(1)]])
async def test_without_old_messages_compaction_does_nothing(messages):
    for window in (None, KeepSystemAndRecent(max_tokens=120), KeepSystemAndRecent(max_messages=1)):
        engine = await engine_with(*messages, window=window)
        compaction = await engine.compact("s", unused_model, threshold=0)
        assert (compaction.done, compaction.reason) == (
            False,
            "All messages belong to the newest part.",
        )


# ---- selection of messages


async def test_compaction_keeps_the_history_and_sends_the_summary_with_the_newest_messages():
    messages = [SYSTEM, *questions(20)]
    engine = await engine_with(*messages, window=THOUSAND)
    compaction = await engine.compact("s", Summarizer(SHORT))
    assert compaction.reason == "16 messages were summarized."
    assert (compaction.summarized, compaction.error) == (16, None)
    history = await engine.history("s")
    assert history.messages == tuple(messages)
    assert await engine.messages_for_request("s") == [
        SYSTEM,
        summary_message(SHORT),
        *messages[17:],
    ]
    assert await engine.get_summary("s") == SHORT
    assert not (await engine.compact("s", unused_model)).done


async def test_system_messages_are_never_summarized():
    kind = Message.system("be kind")
    engine = await engine_with(SYSTEM, *questions(5), kind, *questions(5, 20), window=THOUSAND)
    model = Summarizer(SHORT)
    await engine.compact("s", model)
    assert numbers(*model.requests) == list(range(16))
    assert (await engine.messages_for_request("s"))[:3] == [SYSTEM, kind, summary_message(SHORT)]


async def test_calls_stay_with_their_results_and_replies_with_their_questions():
    two = Message.assistant("", [ToolCall("a", "f", "x" * 40), ToolCall("b", "f", "x" * 40)])
    results = [result("a", "x" * 90), result("b", "x" * 90)]
    messages = [*questions(8), two, *results, Message.assistant("x" * 90), question(8)]
    for target, left in ((0.4, messages[-1:]), (0.499, messages[8:]), (0.61, messages[7:])):
        engine = await engine_with(*messages, window=THOUSAND)
        await engine.compact("s", Summarizer(SHORT), target=target)
        assert (await engine.messages_for_request("s"))[1:] == left


async def test_a_first_reply_without_a_question_is_not_summarized_if_everything_fits():
    engine = await engine_with(Message.assistant("x" * 96), *questions(3), window=THOUSAND)
    assert not (await engine.compact("s", unused_model, threshold=0.1, target=0.9)).done


async def test_the_model_that_summarizes_may_be_a_gateway():
    engine = await engine_with(*questions(10), window=THOUSAND)
    model = ScriptedModel(["They", SHORT])  # a request has at most half a window
    async with Gateway("openai:m", transport=model) as gateway:
        compaction = await engine.compact("s", gateway)
    assert (compaction.done, await engine.get_summary("s")) == (True, SHORT)
    assert [reply.content for reply in compaction.replies] == ["They", SHORT]
    assert numbers(*[request.messages for request in model.requests]) == list(range(5))


async def test_a_compaction_contains_the_messages_that_the_summary_replaces_and_the_summary():
    engine = await engine_with(*questions(10), window=THOUSAND)
    first = await engine.compact("s", Summarizer("one"))
    assert (first.before, first.after) == (tuple(questions(5)), summary_message("one"))
    await engine.add_messages("s", *questions(10, 15))
    second = await engine.compact("s", Summarizer("two"))
    assert second.before[0] == first.after
    assert second.before[1:] == tuple(questions(5, 5 + second.summarized))
    assert second.after == summary_message("two") == (await engine.messages_for_request("s"))[0]


async def test_without_a_summary_a_compaction_contains_no_messages():
    engine = await engine_with(*questions(10), window=THOUSAND)
    compaction = await engine.compact("s", Summarizer("x" * 999))
    assert (compaction.done, compaction.before, compaction.after) == (False, (), None)
    assert {reply.content for reply in compaction.replies} == {"x" * 999}


# ---- repeated compaction


async def test_the_second_summary_is_based_on_the_first_and_the_messages_after_it():
    engine = await engine_with(*questions(20), window=THOUSAND)
    await engine.compact("s", Summarizer("They met."))
    for number in range(20, 30):
        await engine.add_message("s", question(number))
    model = Summarizer("They met and parted.")
    compaction = await engine.compact("s", model)
    before, record = lines_of(model.requests[0])
    assert before == "Your summary so far:\nThey met.\n\n"
    assert record[0]["content"] == question(15).text
    assert numbers(*model.requests) == list(range(15, 27))
    assert compaction.summarized == 27 - 15
    kept = questions(27, 30)
    assert await engine.messages_for_request("s") == [
        summary_message("They met and parted."),
        *kept,
    ]
    assert len(await engine.history("s")) == 30


async def test_old_messages_are_summarized_in_pieces_of_at_most_half_a_window():
    engine = await engine_with(*questions(30), window=THOUSAND)
    replies = [f"summary {number}" for number in range(20)]
    model = Summarizer(*replies)
    assert (await engine.compact("s", model, target=0)).done
    pieces = [lines_of(request) for request in model.requests]
    assert [int(each["content"][:3]) for _, piece in pieces for each in piece] == list(range(29))
    sizes = [len(request[1].text.partition("The messages:\n")[2]) for request in model.requests]
    assert all(500 / 2 < size <= 500 for size in sizes[:-1])
    assert pieces[0][0] == ""
    assert [before for before, _ in pieces[1:]] == [
        f"Your summary so far:\n{each}\n\n" for each in replies[: len(pieces) - 1]
    ]
    assert await engine.get_summary("s") == replies[len(pieces) - 1]


async def test_pieces_are_smaller_if_the_server_counts_more_tokens():
    engine = await engine_with(*questions(8), window=THOUSAND)
    await engine.messages_for_request("s")
    engine.report_usage("s", Usage(input_tokens=1600))
    model = Summarizer("ok")
    await engine.compact("s", model)
    assert {len(piece) for piece in map(numbers, model.requests)} == {1}


# ---- the model fails


@for_each(
    "reply, reason",
    [
        (RuntimeError("no network"), "The model failed: no network"),
        ("", "The model failed: The model's summary was empty."),
        (" \n", "The model failed: The model's summary was empty."),
        (response("They", "length"), "The model failed: The model's summary ended with 'length'."),
        (
            response("I can't", "refusal"),
            "The model failed: The model's summary ended with 'refusal'.",
        ),
        (
            response("They", "tool_calls"),
            "The model failed: The model's summary ended with 'tool_calls'.",
        ),
        (response("They", "pause"), "The model failed: The model's summary ended with 'pause'."),
        (response("They", "error"), "The model failed: The model's summary ended with 'error'."),
        (
            SimpleNamespace(),
            "The model failed: A chat function must be async and return a ChatResponse",
        ),
        (
            SimpleNamespace(finish_reason="stop", content=None),
            "The model failed: A chat function must be async",
        ),
        (None, "The model failed: A chat function must be async"),
    ],
)
@for_each("after", [0, 2])
async def test_a_model_failure_changes_nothing_and_is_returned_as_the_reason(reply, reason, after):
    engine = await engine_with(*questions(20), window=THOUSAND)
    await engine.set_summary("s", "before")
    sent, length = await engine.messages_for_request("s"), (await engine.store.info("s")).records
    model = Summarizer(*["ok"] * after, reply)
    compaction = await engine.compact("s", model)
    assert len(model.requests) == after + 1
    assert compaction.reason.startswith(reason)
    assert (compaction.done, compaction.summarized) == (False, 0)
    assert isinstance(compaction.error, Exception)
    assert await engine.messages_for_request("s") == sent
    assert (await engine.store.info("s")).records == length


async def test_a_summary_with_an_unknown_finish_reason_is_accepted():
    engine = await engine_with(*questions(20), window=THOUSAND)
    assert (await engine.compact("s", Summarizer(response(" They met.\n", "unknown")))).done
    assert await engine.get_summary("s") == "They met."


async def test_a_cancelled_compaction_changes_nothing():
    engine = await engine_with(*questions(20), window=THOUSAND)
    started = asyncio.Event()

    async def slow(messages):
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(engine.compact("s", slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await engine.store.info("s")).records == 20
    assert (await engine.compact("s", Summarizer(SHORT))).done


# ---- summaries that are rejected


async def test_a_summary_that_is_longer_than_the_replaced_messages_is_rejected():
    engine = await engine_with(*questions(6), window=KeepSystemAndRecent(max_tokens=600))
    # Three questions, minus the overhead of a message.
    budget = 300 - 4 - len(summary_message("").text)
    compaction = await engine.compact("s", Summarizer("x" * budget))
    assert (compaction.done, compaction.error) == (False, None)
    assert compaction.reason == "The summary is longer than the messages that it would replace."
    assert (await engine.store.info("s")).records == 6
    assert (await engine.compact("s", Summarizer("x" * (budget - 1)))).done


async def test_the_previous_summary_counts_as_replaced_text():
    engine = await engine_with(*questions(6), window=KeepSystemAndRecent(max_tokens=600))
    await engine.set_summary("s", "x" * 100)
    # As long as three questions, and shorter than these and the previous summary.
    new = "y" * (300 - 4 - len(summary_message("").text))
    compaction = await engine.compact("s", Summarizer(new), target=1.0)
    assert (compaction.done, compaction.summarized) == (True, 3)


async def test_a_summary_that_leaves_no_room_for_the_newest_exchange_is_rejected():
    engine = await engine_with(*questions(20), window=KeepSystemAndRecent(max_tokens=400))
    compaction = await engine.compact("s", Summarizer("x" * 300))
    assert (compaction.done, compaction.error) == (False, None)
    assert compaction.reason == "The newest exchange would not fit beside the summary."
    assert texts(await engine.messages_for_request("s")) == ["016", "017", "018", "019"]


async def test_a_window_that_counts_messages_accepts_a_summary_longer_than_the_messages():
    engine = await engine_with(
        *[Message.user("hi")] * 6, window=KeepSystemAndRecent(max_messages=4)
    )
    assert (await engine.compact("s", Summarizer("They said hi " * 10))).summarized == 4


async def test_a_summary_that_uses_the_only_message_of_the_window_is_rejected():
    engine = await engine_with(SYSTEM, *questions(6), window=DropOldest(max_messages=2))
    compaction = await engine.compact("s", Summarizer(SHORT))
    assert compaction.reason == "The newest exchange would not fit beside the summary."
    assert await engine.messages_for_request("s") == [SYSTEM, question(5)]


# ---- concurrent changes


@for_each(
    "record", [MessageRecord(question(99)), VariableRecord(1), CallFinishedRecord("a", "completed")]
)
async def test_records_that_are_appended_while_the_model_runs_are_kept(record):
    engine = await engine_with(*questions(20), window=THOUSAND)

    async def meanwhile():
        await engine.store.append("s", record)

    assert (await engine.compact("s", Summarizer(SHORT, meanwhile=meanwhile))).done
    new = [record.message] if isinstance(record, MessageRecord) else []
    kept = questions(15, 20)
    assert await engine.messages_for_request("s") == [summary_message(SHORT), *kept, *new]


async def test_messages_that_are_appended_just_before_the_summary_is_written_are_kept():
    class Busy(MemoryStore):
        conflicts = 3

        async def append(self, session_id, *records, expected=None):
            if expected is not None and self.conflicts:
                self.conflicts -= 1
                await super().append(session_id, MessageRecord(question(99)))
            return await super().append(session_id, *records, expected=expected)

    engine = await engine_with(*questions(12), window=THOUSAND, store=Busy())
    assert (await engine.compact("s", Summarizer("ok"), target=0.2)).done
    assert (await engine.messages_for_request("s"))[1:] == [
        question(10),
        question(11),
        *[question(99)] * 3,
    ]


async def test_a_session_that_is_recreated_while_the_model_runs_gets_no_summary():
    engine = await engine_with(*questions(20), window=THOUSAND)

    async def recreate():
        await engine.delete_session("s")
        await engine.create_session("s")
        await engine.add_message("s", Message.user("hello"))

    compaction = await engine.compact("s", Summarizer("The secret is 1234.", meanwhile=recreate))
    assert (compaction.done, compaction.reason) == (
        False,
        "The session was deleted and created anew meanwhile.",
    )
    assert await engine.messages_for_request("s") == [Message.user("hello")]


async def test_a_variable_at_the_end_of_the_journal_does_not_prevent_a_compaction():
    engine = await engine_with(*questions(20), window=THOUSAND)
    await engine.variables.put("s", "x")
    assert (await engine.compact("s", Summarizer("ok"))).done


@for_each("first", ["", "they greeted"])
async def test_of_two_concurrent_compactions_the_first_to_finish_counts(first):
    engine = await engine_with(*questions(12), window=THOUSAND)
    await engine.set_summary("s", first)

    async def meanwhile():
        assert (await other.compact("s", Summarizer("other"))).done

    other = ContextEngine(store=engine.store, window=THOUSAND, token_counter=CharacterCounter())
    compaction = await engine.compact("s", Summarizer("mine", meanwhile=meanwhile), target=0.8)
    assert (compaction.done, compaction.error) == (False, None)
    assert compaction.reason == "Another writer added a summary meanwhile."
    assert await engine.get_summary("s") == "other"


# ---- other windows


async def test_a_window_with_max_messages_is_filled_by_messages():
    engine = await engine_with(SYSTEM, *questions(9), window=KeepSystemAndRecent(max_messages=10))
    assert not (await engine.compact("s", unused_model)).done
    await engine.add_message("s", question(9))
    compaction = await engine.compact("s", Summarizer(SHORT))
    assert (compaction.done, compaction.fill, compaction.summarized) == (True, 1.0, 5)


@for_each("window", [None, DropOldest(), AlternatingWindow()])
@for_each("input_tokens", [None, 1001])
async def test_without_a_limit_the_conversation_counts_as_a_full_window(window, input_tokens):
    engine = await engine_with(*questions(11), window=window)
    await engine.messages_for_request("s")
    engine.report_usage("s", Usage(input_tokens=input_tokens))
    compaction = await engine.compact("s", Summarizer(SHORT))
    assert (compaction.done, compaction.fill, compaction.summarized) == (True, 1.0, 6)


async def test_a_compaction_of_a_session_in_a_file_is_persistent(tmp_path):
    engine = await engine_with(
        *questions(20), window=THOUSAND, store=SqliteStore(tmp_path / "s.db")
    )
    assert (await engine.compact("s", Summarizer(SHORT))).done
    sent = await engine.messages_for_request("s")
    await engine.aclose()
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db"), window=THOUSAND) as engine:
        assert (
            await engine.messages_for_request("s")
            == sent
            == [summary_message(SHORT), *questions(15, 20)]
        )
        assert len(await engine.history("s")) == 20


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "calls"]), st.integers(0, 200)), max_size=40
    ),
    st.integers(150, 1500),
    st.none() | st.integers(1, 20),
    st.floats(0, 1),
    st.integers(0, 100),
)
async def test_after_a_compaction_the_next_request_fits_and_contains_the_summary(
    drawn, max_tokens, max_messages, target, length
):
    messages = []
    for number, (kind, size) in enumerate(drawn):
        if kind == "calls":
            messages += [calls(str(number)), result(str(number), "x" * size)]
        else:
            messages.append(Message(kind, "x" * size))
    window = KeepSystemAndRecent(max_tokens=max_tokens, max_messages=max_messages)
    engine = await engine_with(*messages, window=window)
    try:
        before = await engine.messages_for_request("s")
    except WindowTooSmall:
        return
    compaction = await engine.compact("s", Summarizer("y" * length or "y"), target=target)
    sent = await engine.messages_for_request("s")
    if not compaction.done:
        assert sent == before
        return
    assert sent[0] == summary_message("y" * length or "y")
    tokens = sum(4 + len(each.text) + 7 * len(each.tool_calls) for each in sent)
    assert tokens <= max_tokens
    kept = sent[1:]
    assert kept
    assert kept == messages[len(messages) - len(kept) :]
    assert not kept[0].tool_call_id
    assert (await engine.history("s")).messages == tuple(messages)
