import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import MemoryStore, MessageHistory, Transcript
from stage1_context.journal import (
    MessageRecord,
    RepairRecord,
    record_from_json,
    record_to_json,
)
from stage1_context.recovery.repair import repairs
from stage1_context.view.projection import exchanges_of, history_of
from tests.tables import for_each

IDS = ["a", "b", "a-2", "call-2"]  # a repair may generate the last two itself

calls = st.lists(st.sampled_from(["", *IDS]), min_size=1, max_size=3).map(
    lambda ids: Message.assistant(
        "let me see", [ToolCall(id, f"f{number}") for number, id in enumerate(ids)]
    )
)
results = st.sampled_from(IDS).map(lambda id: Message.tool("result", id))
others = st.sampled_from(
    [Message.system("rule"), Message.user("question"), Message.assistant("answer")]
)
drawn = st.lists(calls | results | results | others, max_size=12)


def repairs_of(messages):
    return repairs(exchanges_of(enumerate(messages)))


def shown(messages):
    return list(history_of([*enumerate(map(MessageRecord, messages))]))


def repaired(messages):
    return list(history_of([*enumerate([*map(MessageRecord, messages), *repairs_of(messages)])]))


def numbered(messages):
    """The same messages with unique texts."""
    return [
        replace(each, content=f"{each.content} {number}") for number, each in enumerate(messages)
    ]


broken = drawn.map(numbered)


def without_ids(messages):
    """All messages except results, without the ids of calls, which a repair may change."""
    return [
        replace(each, tool_calls=tuple(replace(call, id="") for call in each.tool_calls))
        for each in messages
        if each.role != "tool"
    ]


def answers(messages):
    """The texts of the results that answer an open call; each call is answered once."""
    waiting, kept = Counter(), []
    for each in messages:
        waiting.update(call.id for call in each.tool_calls)
        if each.role == "tool" and waiting[each.tool_call_id]:
            waiting[each.tool_call_id] -= 1
            kept.append(each.text)
    return kept


@given(broken)
def test_every_history_can_be_repaired(messages):
    assert MessageHistory(repaired(messages)).check_history() == []


@given(broken)
def test_a_valid_history_is_unchanged_and_a_repaired_one_is_valid(messages):
    sound = repaired(messages)
    assert (repaired(sound), repairs_of(sound)) == (sound, [])
    assert (sound == messages) == (MessageHistory(messages).check_history() == [])
    assert (repairs_of(messages) == []) == (sound == shown(messages))


@given(broken)
def test_only_results_are_moved_or_removed(messages):
    assert without_ids(repaired(messages)) == without_ids(messages)


@given(broken)
def test_each_result_of_a_call_is_kept_once_and_other_calls_are_interrupted(messages):
    found = [each.text for each in repaired(messages) if each.role == "tool"]
    kept = [text for text in found if not text.startswith("[interrupted]")]
    assert sorted(kept) == sorted(answers(messages))
    assert len(found) == sum(len(each.tool_calls) for each in messages)


@given(broken)
def test_an_interrupted_result_has_the_name_of_the_called_tool(messages):
    """Its `name` and its call id belong to the same call."""
    names = {}
    for each in repaired(messages):
        names.update({call.id: call.name for call in each.tool_calls})
        if each.text.startswith("[interrupted]"):
            assert (each.name, each.is_error) == (names[each.tool_call_id], True)


@given(st.lists(st.tuples(st.booleans(), drawn), max_size=4))
async def test_a_journal_with_repeated_problems_can_be_repaired_repeatedly(batches):
    """In between, an agent may have repaired only the newest exchange."""
    store = MemoryStore({"s": []})
    watching, appended = Transcript(store, "s"), []
    for only_newest, batch in batches:
        batch = [
            replace(each, content=f"{each.content} {len(appended) + n}")
            for n, each in enumerate(batch)
        ]
        await watching.append(*batch)
        appended += batch
        if only_newest:
            await watching.close_open_calls()
            continue
        problems = (await watching.history()).check_history()
        assert await watching.repair_history() == problems
        history = await watching.history()
        assert history.check_history() == []
        assert without_ids(history) == without_ids(appended)
        seen = [each for each in await watching.for_request() if each.role != "system"]
        assert seen == [each for each in history if each.role != "system"]
        assert await Transcript(store, "s").for_request() == await watching.for_request()
        assert await watching.repair_history() == []


@given(broken)
async def test_a_repair_record_can_be_restored_from_json_and_gives_the_repaired_history(messages):
    transcript = Transcript.of(messages)
    for record in repairs_of(messages):
        assert record_from_json(record_to_json(record)) == record
    await transcript.repair_history()
    history = await transcript.history()
    assert list(history.messages) == repaired(messages)


def calling(*ids):
    return Message.assistant("", [ToolCall(id, "f") for id in ids])


def result(id, text="1"):
    return Message.tool(text, id)


def interrupted(id):
    text = (
        "[interrupted] The program ended before this call had a result. "
        "Its effect may have happened or not; check before you repeat it."
    )
    return Message.tool(text, id, is_error=True, name="f")


USER = Message.user("by the way")


@for_each(
    "messages, expected",
    [
        ([], []),
        ([calling("a"), result("a"), USER], [calling("a"), result("a"), USER]),
        ([calling("a")], [calling("a"), interrupted("a")]),
        ([calling("a"), USER], [calling("a"), interrupted("a"), USER]),
        ([calling("a", "b"), result("b")], [calling("a", "b"), result("b"), interrupted("a")]),
        ([calling("a"), USER, result("a")], [calling("a"), result("a"), USER]),
        (
            [calling("a", "b", "c"), result("c"), USER, result("a")],
            [calling("a", "b", "c"), result("c"), result("a"), interrupted("b"), USER],
        ),
        ([result("a"), calling("a")], [calling("a"), interrupted("a")]),
        ([calling("a"), result("a"), result("a", "2")], [calling("a"), result("a")]),
        ([calling("a"), result("x"), result("a")], [calling("a"), result("a")]),
        (
            [calling("a", "a"), result("a"), result("a", "2")],
            [calling("a", "a-2"), result("a"), result("a-2", "2")],
        ),
        (
            [calling("a"), result("a"), calling("a"), result("a", "2")],
            [calling("a"), result("a"), calling("a-2"), result("a-2", "2")],
        ),
        (
            [calling("a"), calling("a"), result("a", "new"), result("a", "late")],
            [calling("a"), result("a", "late"), calling("a-2"), result("a-2", "new")],
        ),
        (
            [calling("a"), calling("a"), USER, result("a")],
            [calling("a"), interrupted("a"), calling("a-2"), result("a-2"), USER],
        ),
        (
            [calling("", "")],
            [calling("call-2", "call-3"), interrupted("call-2"), interrupted("call-3")],
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


@pytest.mark.parametrize(
    ("messages", "records"),
    [
        ([calling("a"), result("a")], []),
        ([calling("a"), USER], [MessageRecord(interrupted("a"))]),
        ([calling("a"), USER, result("a")], []),
        ([USER, result("a")], [RepairRecord((), (1,))]),
        (
            [calling("a"), result("a"), calling("a"), result("a")],
            [RepairRecord(((2, calling("a-2")), (3, result("a-2"))), (2, 3))],
        ),
    ],
    ids=["valid", "interrupted", "late", "hidden", "changed"],
)
def test_a_repair_appends_results_and_replaces_or_hides_messages(messages, records):
    assert repairs_of(messages) == records


def test_a_repair_may_replace_messages_of_an_earlier_repair():
    """An earlier repair added a result to the second call before its id was found to be a duplicate."""
    entries = [
        (0, calling("a")),
        (1, result("a")),
        (2, calling("a")),
        (2, interrupted("a")),
        (3, USER),
    ]
    assert repairs(exchanges_of(entries)) == [
        RepairRecord(((2, calling("a-2")), (2, interrupted("a-2"))), (2,))
    ]


def test_an_exchange_that_is_skipped_is_not_repaired():
    exchanges = exchanges_of(enumerate([calling("a"), USER, calling("b")]))
    assert repairs(exchanges, skip=2) == [MessageRecord(interrupted("a"))]


def steps(function, *arguments):
    """The number of opcodes that Python executes for a call."""
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
    "sound": lambda n: [each for i in range(n) for each in (calling(str(i)), result(str(i)))],
    "one id for all": lambda n: [calling("a")] * n,
    "no ids": lambda n: [calling(*[""] * n)],
    "one id in one message": lambda n: [calling(*["a"] * n), *[result("a")] * n],
    "all late": lambda n: [*[calling("a")] * n, USER, *[result("a")] * n],
    "all twice": lambda n: [
        each for _ in range(n) for each in (calling("a"), USER, result("a"), result("a"))
    ],
    "orphans": lambda n: [result(str(i)) for i in range(n)],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_repair_takes_linear_time(shape):
    assert steps(repaired, shape(200)) < 2.2 * steps(repaired, shape(100))
