from dataclasses import replace

from stage0_gateway import Message, ToolCall
from stage1_context import (
    CallStartedRecord,
    MessageRecord,
    RepairRecord,
    SummaryRecord,
    Transcript,
    VariableRecord,
)
from stage1_context.view.journal_reader import JournalReader
from stage1_context.view.projection import (
    Projection,
    details_of,
    history_of,
    is_summary,
    summary_message,
)
from tests.stage1_context.sessions import CharacterCounter, records, store_of
from tests.stage1_context.sessions import summary_message as expected_summary
from tests.tables import for_each

SYSTEM = Message.system("Be brief.")
QUESTION = Message.user("What is the weather?")
CALL = Message.assistant("", [ToolCall("a", "weather"), ToolCall("b", "forecast")])
SHORT = Message.tool("Sunny", "a", name="weather")
LONG = Message.tool("Rain. " * 200, "b", name="forecast")
REPLY = Message.assistant("Sunny.")
CONVERSATION = [SYSTEM, QUESTION, CALL, SHORT, LONG, REPLY]  # their records are 0 to 5


def entries_of(*control, conversation=CONVERSATION):
    """Return a conversation and records after it, with their indices."""
    return [*enumerate(records([*conversation, *control]))]


async def shown(*control, conversation=CONVERSATION):
    """Return the messages for the model, without the summary."""
    reader = JournalReader(store_of(*conversation, *control), "s", CharacterCounter())
    await reader.read_new()
    return [counted.message for counted in (*reader.system, *reader.messages)]


async def test_all_messages_are_shown_without_a_summary_or_a_repair():
    assert await shown() == CONVERSATION
    assert await shown(CallStartedRecord("a", "weather"), VariableRecord(5)) == CONVERSATION
    assert Projection().summary == ""


@for_each(
    "until, kept",
    [
        (0, CONVERSATION),
        (1, CONVERSATION),
        (2, [SYSTEM, *CONVERSATION[2:]]),
        (5, [SYSTEM, REPLY]),
        (6, [SYSTEM]),
        (99, [SYSTEM]),
    ],
)
async def test_a_summary_replaces_all_messages_before_it_except_system_messages(until, kept):
    assert await shown(SummaryRecord("They said hello.", until)) == kept


async def test_a_summary_that_replaces_no_messages_hides_none():
    transcript = Transcript.of([QUESTION])
    await transcript.set_summary("They met before.", until=-1)
    assert (await transcript.for_request())[1:] == [QUESTION]


def test_a_summary_does_not_change_the_history():
    history = history_of(entries_of(SummaryRecord("They said hello.", 5)))
    assert history.messages == tuple(CONVERSATION)


async def test_a_later_system_message_is_not_hidden_by_a_summary():
    later = Message.system("Be long.")
    assert await shown(SummaryRecord("…", 3), conversation=[QUESTION, later, REPLY, QUESTION]) == [
        later,
        QUESTION,
    ]


async def test_only_the_last_summary_applies():
    assert await shown(SummaryRecord("old", 2), SummaryRecord("new", 5)) == [SYSTEM, REPLY]
    assert await shown(SummaryRecord("new", 5), SummaryRecord("shorter", 2)) == [
        SYSTEM,
        *CONVERSATION[2:],
    ]


@for_each("until", [0, 5])
async def test_an_empty_summary_removes_the_summary(until):
    assert (
        await shown(SummaryRecord("They said hello.", 5), SummaryRecord("", until)) == CONVERSATION
    )


def test_details_have_the_call_id_that_a_repair_assigned():
    results = [MessageRecord(SHORT, "first"), MessageRecord(SHORT, "second")]
    renamed = Message.tool("Sunny", "a-2", name="weather")
    repair = RepairRecord(((2, renamed),), (2,))
    entries = [*enumerate([MessageRecord(CALL), *results, repair, SummaryRecord("all", 4)])]
    assert details_of(entries[:2]) == {"a": "first"}
    assert details_of(entries) == {"a": "first", "a-2": "second"}
    assert details_of([*entries, (5, RepairRecord((), (1,)))]) == {"a-2": "second"}


def test_a_summary_is_sent_as_data_in_a_user_message():
    projection = Projection()
    projection.apply(SummaryRecord("They said hello.", 5))
    assert summary_message(projection.summary) == expected_summary("They said hello.")


def test_a_summary_is_recognized_by_its_name_and_its_header():
    summary = summary_message("They said hello.")
    assert is_summary(summary)
    assert is_summary(Message.from_dict(summary.to_dict()))
    assert not is_summary(Message.user(summary.text))
    assert not is_summary(replace(summary, content="They said hello."))
    assert not is_summary(replace(summary, role="system"))


LATE = Message.tool("late", "a")


async def test_a_repair_inserts_and_hides_messages():
    assert await shown(RepairRecord(((2, LATE), (2, REPLY), (5, QUESTION)), (1, 3))) == [
        *[SYSTEM, CALL, LATE, LONG],
        *[REPLY, REPLY, QUESTION],
    ]


async def test_a_repair_replaces_a_message_by_hiding_it_and_inserting_another():
    assert await shown(RepairRecord(((3, LATE),), (3,))) == [
        SYSTEM,
        QUESTION,
        CALL,
        LATE,
        LONG,
        REPLY,
    ]


def test_a_repair_changes_the_history_but_not_the_journal():
    entries = entries_of(RepairRecord(((3, LATE),), (3, 5)))
    assert history_of(entries).messages == (SYSTEM, QUESTION, CALL, LATE, LONG)
    assert entries[3] == (3, MessageRecord(SHORT))


async def test_a_later_repair_extends_an_earlier_one_and_may_hide_its_messages():
    first = RepairRecord(((2, LATE),), (3,))
    assert await shown(first, RepairRecord(((2, REPLY),))) == [
        SYSTEM,
        QUESTION,
        CALL,
        LATE,
        LONG,
        REPLY,
        REPLY,
    ]
    assert await shown(first, RepairRecord(((2, CALL),), (2,))) == [
        SYSTEM,
        QUESTION,
        CALL,
        LONG,
        REPLY,
    ]
    assert await shown(first, RepairRecord((), (2,))) == [SYSTEM, QUESTION, REPLY]


async def test_messages_of_a_repair_are_summarized_with_the_record_before_them():
    repair = RepairRecord(((2, QUESTION), (5, QUESTION)), (4,))
    assert await shown(repair, SummaryRecord("…", 5)) == [SYSTEM, REPLY, QUESTION]
    assert await shown(SummaryRecord("…", 5), repair) == [SYSTEM, REPLY, QUESTION]


# ---- results


async def test_a_late_result_is_shown_after_its_call():
    more = Message.user("Hurry.")
    late = [QUESTION, CALL, SHORT, more, LONG, REPLY]
    assert await shown(conversation=late) == [QUESTION, CALL, SHORT, LONG, more, REPLY]
    assert list(history_of(entries_of(conversation=late))) == [
        QUESTION,
        CALL,
        SHORT,
        LONG,
        more,
        REPLY,
    ]


async def test_duplicate_results_and_results_without_a_call_are_history_but_not_shown():
    conversation = [LATE, QUESTION, CALL, SHORT, LONG, LATE, REPLY]
    assert await shown(conversation=conversation) == [QUESTION, CALL, SHORT, LONG, REPLY]
    assert list(history_of(entries_of(conversation=conversation))) == conversation


async def test_a_result_whose_call_was_summarized_is_not_shown():
    late = [QUESTION, CALL, SHORT, QUESTION, LONG, REPLY]
    assert await shown(SummaryRecord("They met.", 3), conversation=late) == [QUESTION, REPLY]


async def test_a_result_answers_the_newer_of_two_calls_with_the_same_id_first():
    second = Message.tool("second", "a")
    conversation = [CALL, CALL, SHORT, REPLY, second]
    assert await shown(conversation=conversation) == [CALL, second, CALL, SHORT, REPLY]
