"""`ContextEngine(compaction=…)` summarizes old messages when a request fills the window."""

import asyncio
from dataclasses import FrozenInstanceError

import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import (
    CompactionPolicy,
    ContextEngine,
    DropOldest,
    KeepSystemAndRecent,
    SqliteStore,
    SummaryRecord,
)
from tests.stage1_context.sessions import (
    SHORT,
    AlternatingWindow,
    CharacterCounter,
    RecordingStore,
    Summarizer,
    engine_with,
    question,
    questions,
    result,
    summary_message,
    unused_model,
)
from tests.tables import for_each

THOUSAND = KeepSystemAndRecent(max_tokens=1000)


async def compacting(messages, model, *, window=THOUSAND, store=None, **policy):
    """Return an engine that compacts its session "s", and the list of the reported compactions."""
    reported = []
    compaction = CompactionPolicy(model, on_compaction=reported.append, **policy)
    engine = await engine_with(*messages, window=window, store=store, compaction=compaction)
    return engine, reported


# ---- when and what


async def test_below_the_threshold_the_model_is_not_called():
    engine, reported = await compacting(questions(7), unused_model)
    assert await engine.messages_for_request("s") == questions(7)
    assert reported == []


async def test_from_the_threshold_on_the_request_has_a_summary_and_the_newest_messages(store):
    engine, reported = await compacting(questions(8), Summarizer(SHORT), store=store)
    assert await engine.messages_for_request("s") == [summary_message(), *questions(3, 8)]
    assert (await engine.history("s")).messages == tuple(questions(8))
    assert await engine.get_summary("s") == SHORT
    (compaction,) = reported
    assert (compaction.session_id, compaction.done, compaction.fill) == ("s", True, 0.8)
    assert compaction.reason == "3 messages were summarized."


async def test_a_session_that_grows_is_compacted_again_and_again():
    model = Summarizer(ChatResponse(Message.assistant(SHORT), "stop"))
    engine, reported = await compacting([], model)
    for number in range(40):
        await engine.add_message("s", question(number))
        sent = await engine.messages_for_request("s")
        assert sent[-1] == question(number)
        assert sum(4 + len(message.text) for message in sent) < 800
    assert [compaction.done for compaction in reported] == [True] * 9
    assert (await engine.history("s")).messages == tuple(questions(40))


async def test_the_threshold_and_the_target_are_those_of_the_policy():
    engine, reported = await compacting(questions(4), Summarizer(SHORT), threshold=0.4, target=0.25)
    assert await engine.messages_for_request("s") == [summary_message(), *questions(2, 4)]
    assert reported[0].fill == 0.4


async def test_the_reserve_and_the_tools_fill_the_window_too():
    engine, _ = await compacting(questions(5), Summarizer(SHORT))
    assert await engine.messages_for_request("s", reserve_tokens=299) == questions(5)
    sent = await engine.messages_for_request("s", reserve_tokens=300)
    assert sent == [summary_message(), *questions(3, 5)]
    engine, _ = await compacting(questions(5), Summarizer(SHORT))
    sent = await engine.transcript("s").for_request(extra_text="t" * 300)
    assert sent == [summary_message(), *questions(3, 5)]


async def test_a_long_session_without_a_summary_is_compacted_as_a_whole():
    engine, _ = await compacting(questions(100), Summarizer(SHORT))
    assert await engine.messages_for_request("s") == [summary_message(), *questions(95, 100)]


async def test_a_window_of_messages_is_filled_by_messages():
    window = KeepSystemAndRecent(max_messages=10)
    engine, _ = await compacting(
        [Message.system("x" * 5000), *questions(7)], unused_model, window=window
    )
    await engine.messages_for_request("s")
    engine, _ = await compacting(questions(8), Summarizer(SHORT), window=window)
    assert await engine.messages_for_request("s") == [summary_message(), *questions(3, 8)]


@for_each("window", [None, DropOldest(), KeepSystemAndRecent(), AlternatingWindow()])
async def test_a_window_without_a_known_limit_is_never_compacted(window):
    engine, reported = await compacting(questions(100), unused_model, window=window)
    await engine.messages_for_request("s")
    assert reported == []


async def test_explaining_a_request_or_excluding_the_summary_does_not_compact():
    engine, _ = await compacting(questions(20), unused_model)
    await engine.explain("s")
    sent = await engine.messages_for_request("s", include_summary=False)
    assert sent == questions(10, 20)


async def test_a_pinned_message_is_sent_after_the_summary_that_replaced_it():
    engine, _ = await compacting(questions(8), Summarizer(SHORT))
    sent = await engine.transcript("s").for_request(pinned=question(0))
    assert sent == [summary_message(), question(0), *questions(3, 8)]


async def test_a_conversation_outside_a_session_is_compacted_too():
    engine, reported = await compacting([], Summarizer(SHORT))
    transcript = engine.transcript_of(questions(8))
    assert await transcript.for_request() == [summary_message(), *questions(3, 8)]
    assert transcript.messages == tuple(questions(8))
    assert [compaction.session_id for compaction in reported] == [""]


# ---- what it costs


async def test_a_request_below_the_threshold_reads_as_little_after_a_long_history():
    read = []
    for length in (100, 1000):
        store = RecordingStore(*questions(length), SummaryRecord(SHORT, length - 3))
        policy = CompactionPolicy(unused_model)
        engine = ContextEngine(
            store=store, window=THOUSAND, token_counter=CharacterCounter(), compaction=policy
        )
        assert len(await engine.messages_for_request("s")) == 4
        for _ in range(3):
            await engine.add_message("s", question(0))
            await engine.messages_for_request("s")
        read.append(store.records_read)
    assert read[0] == read[1] < 20


async def test_while_compaction_waits_a_request_does_not_read_the_whole_history():
    store = RecordingStore()
    engine, reported = await compacting(
        questions(900), Summarizer(RuntimeError("down")), store=store
    )
    await engine.messages_for_request("s")
    store.pages.clear()
    for _ in range(10):
        await engine.add_message("s", question(0))
        await engine.messages_for_request("s")
    assert store.records_read == 10
    assert len(reported) == 1


# ---- the model fails


@for_each("reply", [RuntimeError("down"), "", None, 5])
async def test_a_failure_changes_nothing_is_reported_and_waits_before_the_next_attempt(reply):
    model = Summarizer(reply)
    engine, reported = await compacting(questions(20), model)
    for number in range(20, 40):
        assert await engine.messages_for_request("s") == questions(number - 10, number)
        await engine.add_message("s", question(number))
    assert len(model.requests) == 1
    (compaction,) = reported
    assert (compaction.done, compaction.summarized) == (False, 0)
    assert isinstance(compaction.error, Exception)
    assert await engine.get_summary("s") is None
    assert (await engine.store.info("s")).records == 40
    model.replies = [SHORT]
    assert (await engine.messages_for_request("s"))[0] == summary_message()
    assert [compaction.done for compaction in reported] == [False, True]


async def test_a_window_that_stays_filled_after_a_summary_waits_before_the_next_attempt():
    model = Summarizer(SHORT)
    system = Message.system("x" * 846)
    engine, reported = await compacting([system], model)
    for number in range(60):
        await engine.add_message("s", Message.user(f"{number:02}"))
        await engine.messages_for_request("s")
    assert [compaction.done for compaction in reported] == [False, True, True]
    assert len(model.requests) == 4  # each summary is written in two pieces


async def test_a_new_session_with_the_id_of_a_failed_one_does_not_wait():
    model = Summarizer(RuntimeError("down"), SHORT)
    engine, reported = await compacting(questions(20), model)
    transcript = engine.transcript("s")
    await engine.messages_for_request("s")
    await engine.delete_session("s")
    await engine.create_session("s")
    await engine.add_messages("s", *questions(8))
    assert engine.transcript("s") is transcript
    assert (await engine.messages_for_request("s"))[0] == summary_message()
    assert [compaction.done for compaction in reported] == [False, True]


async def test_without_a_listener_a_failure_is_silent():
    policy = CompactionPolicy(Summarizer(RuntimeError("down")))
    engine = await engine_with(*questions(8), window=THOUSAND, compaction=policy)
    assert await engine.messages_for_request("s") == questions(8)


async def test_an_exception_of_the_listener_reaches_the_caller():
    def listener(compaction):
        raise KeyError("mine")

    policy = CompactionPolicy(Summarizer(SHORT), on_compaction=listener)
    engine = await engine_with(*questions(8), window=THOUSAND, compaction=policy)
    with pytest.raises(KeyError, match="mine"):
        await engine.messages_for_request("s")
    assert (await engine.messages_for_request("s"))[0] == summary_message()


# ---- calls without results


def exchange(*ids, answered=()):
    calls = [ToolCall(id, "f", "x" * (100 // len(ids))) for id in ids]
    return [Message.assistant("", calls), *(result(id, "x" * 90) for id in answered)]


@for_each("answered", [[], ["b"]])
async def test_an_exchange_with_an_open_call_and_the_messages_after_it_are_not_summarized(
    answered,
):
    opened = exchange("a", "b", answered=answered)
    closed = exchange("c", answered=["c"])
    messages = [*questions(2), *closed, *opened, *questions(20)]
    for automatic in (True, False):
        engine, _ = await compacting(messages, Summarizer(SHORT) if automatic else unused_model)
        if automatic:
            await engine.messages_for_request("s")
        else:
            assert (await engine.compact("s", Summarizer(SHORT))).summarized == 4
        summary = (await engine.store.read("s", kinds=["summary"]))[0][1]
        assert summary == SummaryRecord(SHORT, 4)


async def test_while_the_oldest_exchange_has_an_open_call_nothing_is_summarized():
    engine, reported = await compacting([*exchange("a"), *questions(20)], unused_model)
    assert await engine.messages_for_request("s") == questions(10, 20)
    assert [compaction.reason for compaction in reported] == [
        "All messages belong to the newest part."
    ]


# ---- several requests at once


async def test_one_of_several_concurrent_requests_compacts_and_all_send_the_summary(store):
    model = Summarizer(SHORT)
    engine, reported = await compacting(questions(8), model, store=store)
    requests = (engine.messages_for_request("s") for _ in range(5))
    assert await asyncio.gather(*requests) == [[summary_message(), *questions(3, 8)]] * 5
    assert (len(model.requests), len(reported)) == (1, 1)


async def test_one_of_several_concurrent_requests_reports_the_failure():
    model = Summarizer(RuntimeError("down"))
    engine, reported = await compacting(questions(8), model)
    requests = (engine.messages_for_request("s") for _ in range(5))
    assert await asyncio.gather(*requests) == [questions(8)] * 5
    assert (len(model.requests), len(reported)) == (1, 1)


async def test_a_cancelled_compaction_changes_nothing_and_the_next_request_compacts():
    started = asyncio.Event()
    replies = [asyncio.Event().wait]

    async def model(messages):
        started.set()
        if replies:
            await replies.pop()()
        return SHORT

    engine, reported = await compacting(questions(8), model)
    task = asyncio.create_task(engine.messages_for_request("s"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await engine.store.info("s")).records == 8
    assert (await engine.messages_for_request("s"))[0] == summary_message()
    assert len(reported) == 1


async def test_two_processes_agree_on_one_summary(tmp_path):
    engines = [
        (await compacting([], Summarizer(SHORT), store=SqliteStore(tmp_path / "one.db")))[0],
        ContextEngine(
            store=SqliteStore(tmp_path / "one.db"),
            window=THOUSAND,
            token_counter=CharacterCounter(),
            compaction=CompactionPolicy(Summarizer("They parted.")),
        ),
    ]
    await engines[0].add_messages("s", *questions(8))
    first, second = await asyncio.gather(*(each.messages_for_request("s") for each in engines))
    assert first == second
    assert len(await engines[0].store.read("s", kinds=["summary"])) == 1
    for engine in engines:
        await engine.aclose()


# ---- the policy


async def test_the_model_of_a_policy_may_be_a_gateway():
    async with Gateway("openai:m", transport=ScriptedModel([SHORT])) as gateway:
        engine, reported = await compacting(questions(8), gateway)
        assert (await engine.messages_for_request("s"))[0] == summary_message()
    assert [compaction.done for compaction in reported] == [True]


def test_a_policy_is_a_frozen_value():
    policy = CompactionPolicy(unused_model)
    assert (policy.threshold, policy.target, policy.on_compaction) == (0.8, 0.5, None)
    with pytest.raises(FrozenInstanceError):
        policy.threshold = 1  # type: ignore[misc]


@for_each("wrong", [{"threshold": 80}, {"threshold": -1}, {"target": 50}])
def test_a_percentage_is_not_a_part_of_a_window(wrong):
    with pytest.raises(ValueError, match=r"both are parts of the window: 0\.8 is four fifths"):
        CompactionPolicy(unused_model, **wrong)


async def test_a_chat_that_is_neither_a_gateway_nor_a_function_is_rejected():
    text = r"^chat must be a Gateway, or an async function that returns .*, not 'openai:m'\.$"
    with pytest.raises(TypeError, match=text):
        CompactionPolicy("openai:m")
    with pytest.raises(TypeError, match=text):
        await ContextEngine().compact("s", "openai:m")
