import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import Transcript
from stage1_context.journal import (
    CallStartedRecord,
    MessageRecord,
    RepairRecord,
    SummaryRecord,
    VariableRecord,
)
from stage1_context.view import projection as looking
from stage1_context.view.projection import View, summary_message, view_of

SYSTEM = Message.system("Be brief.")
QUESTION = Message.user("What is the weather?")
CALL = Message.assistant("", [ToolCall("a", "weather"), ToolCall("b", "forecast")])
SHORT = Message.tool("Sunny", "a", name="weather")
LONG = Message.tool("Rain. " * 200, "b", name="forecast")
REPLY = Message.assistant("Sunny.")
TALK = [SYSTEM, QUESTION, CALL, SHORT, LONG, REPLY]  # their records are 0 to 5


def journal(*landmarks, talk=TALK):
    return list(enumerate([*map(MessageRecord, talk), *landmarks]))


def history_of(entries):
    return looking.history_of(entries, view_of(entries))


def messages_of(entries):
    return looking.messages_of(entries, view_of(entries))


def shown(*landmarks, talk=TALK):
    """What a model may be shown of this talk, after these landmarks."""
    return list(history_of(journal(*landmarks, talk=talk)).visible)


def test_all_messages_are_shown_where_no_landmark_is():
    assert shown() == TALK
    assert shown(CallStartedRecord("a", "weather"), VariableRecord(5)) == TALK
    assert View().summary == ""


@pytest.mark.parametrize(
    ("until", "kept"),
    [
        (0, TALK),
        (1, TALK),
        (2, [SYSTEM, *TALK[2:]]),
        (5, [SYSTEM, REPLY]),
        (6, [SYSTEM]),
        (99, [SYSTEM]),
    ],
)
def test_a_summary_stands_for_all_messages_before_but_the_system_messages(until, kept):
    assert shown(SummaryRecord("They said hello.", until)) == kept


async def test_a_summary_of_nothing_hides_nothing():
    transcript = Transcript.of([QUESTION])
    await transcript.set_summary("They met before.", until=-1)
    assert (await transcript.for_request())[1:] == [QUESTION]
    assert (await transcript.history()).visible == (QUESTION,)


def test_a_summary_hides_nothing_from_the_history():
    history = history_of(journal(SummaryRecord("They said hello.", 5)))
    assert history.messages == tuple(TALK)


def test_a_later_system_message_stays_wherever_it_stands():
    later = Message.system("Be long.")
    assert shown(SummaryRecord("…", 3), talk=[QUESTION, later, REPLY, QUESTION]) == [
        later,
        QUESTION,
    ]


def test_the_last_summary_counts():
    assert shown(SummaryRecord("old", 2), SummaryRecord("new", 5)) == [SYSTEM, REPLY]
    assert shown(SummaryRecord("new", 5), SummaryRecord("shorter", 2)) == [SYSTEM, *TALK[2:]]


@pytest.mark.parametrize("until", [0, 5])
def test_an_empty_summary_takes_the_summary_back(until):
    assert shown(SummaryRecord("They said hello.", 5), SummaryRecord("", until)) == TALK


def test_a_summary_is_told_in_a_system_message():
    view = View()
    view.take(SummaryRecord("They said hello.", 5))
    assert summary_message(view.summary) == Message.system(
        "Summary of the conversation before the messages that follow:\nThey said hello."
    )


LATE = Message.tool("late", "a")


def test_a_repair_shows_messages_behind_others_and_hides_some():
    assert shown(RepairRecord(((2, LATE), (2, REPLY), (5, QUESTION)), (1, 3))) == [
        *[SYSTEM, CALL, LATE, REPLY],
        *[LONG, REPLY, QUESTION],
    ]


def test_a_message_is_replaced_by_hiding_it_and_showing_another_in_its_place():
    assert shown(RepairRecord(((3, LATE),), (3,))) == [SYSTEM, QUESTION, CALL, LATE, LONG, REPLY]


def test_a_repair_changes_the_history_and_the_journal_keeps_what_was():
    entries = journal(RepairRecord(((3, LATE),), (3, 5)))
    assert messages_of(entries) == [(0, SYSTEM), (1, QUESTION), (2, CALL), (3, LATE), (4, LONG)]
    assert history_of(entries).messages == (SYSTEM, QUESTION, CALL, LATE, LONG)
    assert entries[3] == (3, MessageRecord(SHORT))


def test_a_later_repair_adds_to_an_earlier_one_and_hides_what_it_showed():
    first = RepairRecord(((2, LATE),), (3,))
    assert shown(first, RepairRecord(((2, REPLY),))) == [
        SYSTEM,
        QUESTION,
        CALL,
        LATE,
        REPLY,
        LONG,
        REPLY,
    ]
    assert shown(first, RepairRecord(((2, CALL),), (2,))) == [SYSTEM, QUESTION, CALL, LONG, REPLY]
    assert shown(first, RepairRecord((), (2,))) == [SYSTEM, QUESTION, LONG, REPLY]


def test_what_a_repair_shows_is_summarized_with_the_record_it_stands_behind():
    repair = RepairRecord(((2, LONG), (5, LONG)), (4,))
    assert shown(repair, SummaryRecord("…", 5)) == [SYSTEM, REPLY, LONG]
    assert shown(SummaryRecord("…", 5), repair) == [SYSTEM, REPLY, LONG]
