import sys
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import (
    MessageHistory,
    MessageRecord,
    RepairRecord,
    Transcript,
    record_from_json,
    record_to_json,
)
from stage1_context.recovery.repair import repairs
from stage1_context.view.projection import exchanges_of, history_of
from tests.stage1_context.sessions import calls, records, result, store_of
from tests.tables import for_each

IDS = ["a", "b", "a-2", "call-2"]  # a repair may generate the last two itself

USER = Message.user("by the way")

replies = st.lists(st.sampled_from(["", *IDS]), min_size=1, max_size=3).map(
    lambda ids: Message.assistant(
        "let me see", [ToolCall(id, f"f{number}") for number, id in enumerate(ids)]
    )
)
results = st.sampled_from(IDS).map(result)
others = st.sampled_from(
    [Message.system("rule"), Message.user("question"), Message.assistant("answer")]
)
drawn = st.lists(replies | results | results | others, max_size=12)


def numbered(messages, first=0):
    """Return the same messages with unique texts."""
    return [
        replace(message, content=f"{message.content} {number}")
        for number, message in enumerate(messages, first)
    ]


histories = drawn.map(numbered)


def repairs_of(messages):
    return repairs(exchanges_of(enumerate(messages)))


def shown(messages, repairs=()):
    """Return the history of messages after these repairs."""
    return list(history_of([*enumerate([*records(messages), *repairs])]))


def repaired(messages):
    return shown(messages, repairs_of(messages))


def interrupted(id):
    """Return the result that a repair adds to a call."""
    text = (
        "[interrupted] The program ended before this call had a result. "
        "Its effect may have happened or not; check before you repeat it."
    )
    return Message.tool(text, id, is_error=True, name="f")


def without_results(messages):
    """Return all messages except results, without the ids of calls, which a repair may change."""
    return [
        replace(message, tool_calls=tuple(replace(call, id="") for call in message.tool_calls))
        for message in messages
        if message.role != "tool"
    ]


def answers(messages):
    """Return the texts of the results that answer an open call; each call is answered once."""
    waiting, kept = Counter(), []
    for message in messages:
        waiting.update(call.id for call in message.tool_calls)
        if message.role == "tool" and waiting[message.tool_call_id]:
            waiting[message.tool_call_id] -= 1
            kept.append(message.text)
    return kept


@given(histories)
def test_every_history_can_be_repaired(messages):
    assert MessageHistory(repaired(messages)).check_history() == []


@given(histories)
def test_a_valid_history_is_unchanged_and_a_repaired_one_is_valid(messages):
    sound = repaired(messages)
    assert (repaired(sound), repairs_of(sound)) == (sound, [])
    assert (sound == messages) == (MessageHistory(messages).check_history() == [])
    assert (repairs_of(messages) == []) == (sound == shown(messages))


@given(histories)
def test_only_results_are_moved_or_removed(messages):
    assert without_results(repaired(messages)) == without_results(messages)


@given(histories)
def test_each_result_of_a_call_is_kept_once_and_other_calls_are_interrupted(messages):
    found = [message.text for message in repaired(messages) if message.role == "tool"]
    kept = [text for text in found if not text.startswith("[interrupted]")]
    assert sorted(kept) == sorted(answers(messages))
    assert len(found) == sum(len(message.tool_calls) for message in messages)


@given(histories)
def test_an_interrupted_result_has_the_name_of_the_called_tool(messages):
    """Its `name` and its call id belong to the same call."""
    names = {}
    for message in repaired(messages):
        names.update({call.id: call.name for call in message.tool_calls})
        if message.text.startswith("[interrupted]"):
            assert (message.name, message.is_error) == (names[message.tool_call_id], True)


@given(st.lists(st.tuples(st.booleans(), drawn), max_size=4))
async def test_a_journal_with_repeated_problems_can_be_repaired_repeatedly(batches):
    """In between, an agent may have repaired only the newest exchange."""
    store, appended = store_of(), []
    transcript = Transcript(store, "s")
    for only_newest, batch in batches:
        batch = numbered(batch, len(appended))
        await transcript.append(*batch)
        appended += batch
        if only_newest:
            await transcript.close_open_calls()
            continue
        problems = (await transcript.history()).check_history()
        assert await transcript.repair_history() == problems
        history = await transcript.history()
        assert history.check_history() == []
        assert without_results(history) == without_results(appended)
        seen = [message for message in await transcript.for_request() if message.role != "system"]
        assert seen == [message for message in history if message.role != "system"]
        assert await Transcript(store, "s").for_request() == await transcript.for_request()
        assert await transcript.repair_history() == []


@given(histories)
async def test_a_repair_record_can_be_restored_from_json_and_gives_the_repaired_history(messages):
    transcript = Transcript.of(messages)
    for record in repairs_of(messages):
        assert record_from_json(record_to_json(record)) == record
    await transcript.repair_history()
    history = await transcript.history()
    assert list(history.messages) == repaired(messages)


@for_each(
    "messages, expected",
    [
        ([], []),
        ([calls("a"), result("a"), USER], [calls("a"), result("a"), USER]),
        ([calls("a")], [calls("a"), interrupted("a")]),
        ([calls("a"), USER], [calls("a"), interrupted("a"), USER]),
        ([calls("a", "b"), result("b")], [calls("a", "b"), result("b"), interrupted("a")]),
        ([calls("a"), USER, result("a")], [calls("a"), result("a"), USER]),
        (
            [calls("a", "b", "c"), result("c"), USER, result("a")],
            [calls("a", "b", "c"), result("c"), result("a"), interrupted("b"), USER],
        ),
        ([result("a"), calls("a")], [calls("a"), interrupted("a")]),
        ([calls("a"), result("a"), result("a", "2")], [calls("a"), result("a")]),
        ([calls("a"), result("x"), result("a")], [calls("a"), result("a")]),
        (
            [calls("a", "a"), result("a"), result("a", "2")],
            [calls("a", "a-2"), result("a"), result("a-2", "2")],
        ),
        (
            [calls("a"), result("a"), calls("a"), result("a", "2")],
            [calls("a"), result("a"), calls("a-2"), result("a-2", "2")],
        ),
        (
            [calls("a"), calls("a"), result("a", "new"), result("a", "late")],
            [calls("a"), result("a", "late"), calls("a-2"), result("a-2", "new")],
        ),
        (
            [calls("a"), calls("a"), USER, result("a")],
            [calls("a"), interrupted("a"), calls("a-2"), result("a-2"), USER],
        ),
        (
            [calls("", "")],
            [calls("call-2", "call-3"), interrupted("call-2"), interrupted("call-3")],
        ),
    ],
)
def test_a_repaired_history_has_one_result_directly_after_each_call(messages, expected):
    assert repaired(messages) == expected


def test_a_repaired_call_changes_only_its_id():
    call = ToolCall("a", "f", '{"x": 1}', {"gemini": {"signature": "s"}})
    first, second = (Message.assistant("hm", [call], raw_text="raw") for _ in range(2))
    again = repaired(
        [first, result("a"), second, Message.tool("no", "a", is_error=True, name="f")]
    )[2:]
    assert again == [
        replace(second, tool_calls=(replace(call, id="a-2"),)),
        Message.tool("no", "a-2", is_error=True, name="f"),
    ]


@for_each(
    "messages, expected",
    [
        ([calls("a"), result("a")], []),
        ([calls("a"), USER], [MessageRecord(interrupted("a"))]),
        ([calls("a"), USER, result("a")], []),
        ([USER, result("a")], [RepairRecord((), (1,))]),
        (
            [calls("a"), result("a"), calls("a"), result("a")],
            [RepairRecord(((2, calls("a-2")), (3, result("a-2"))), (2, 3))],
        ),
    ],
)
def test_a_repair_appends_results_and_replaces_or_hides_messages(messages, expected):
    assert repairs_of(messages) == expected


def test_a_repair_may_replace_messages_of_an_earlier_repair():
    """An earlier repair added a result to the second call before its id was found to be a duplicate."""
    entries = [
        (0, calls("a")),
        (1, result("a")),
        (2, calls("a")),
        (2, interrupted("a")),
        (3, USER),
    ]
    assert repairs(exchanges_of(entries)) == [
        RepairRecord(((2, calls("a-2")), (2, interrupted("a-2"))), (2,))
    ]


def test_an_exchange_that_is_skipped_is_not_repaired():
    exchanges = exchanges_of(enumerate([calls("a"), USER, calls("b")]))
    assert repairs(exchanges, skip=2) == [MessageRecord(interrupted("a"))]


def steps(function, *arguments):
    """Return the number of opcodes that Python executes for a call."""
    taken = 0

    def trace(frame, event, argument):
        nonlocal taken
        frame.f_trace_opcodes = True
        taken += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reads this once, in settrace
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return taken


SHAPES = {
    "sound": lambda n: [message for i in range(n) for message in (calls(str(i)), result(str(i)))],
    "one id for all": lambda n: [calls("a")] * n,
    "no ids": lambda n: [calls(*[""] * n)],
    "one id in one message": lambda n: [calls(*["a"] * n), *[result("a")] * n],
    "all late": lambda n: [*[calls("a")] * n, USER, *[result("a")] * n],
    "all twice": lambda n: [
        message for _ in range(n) for message in (calls("a"), USER, result("a"), result("a"))
    ],
    "orphans": lambda n: [result(str(i)) for i in range(n)],
}


@for_each("name", SHAPES)
def test_a_repair_takes_linear_time(name):
    shape = SHAPES[name]
    assert steps(repaired, shape(80)) < 2.1 * steps(repaired, shape(40))
