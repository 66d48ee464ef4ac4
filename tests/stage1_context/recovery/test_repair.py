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

IDS = ["a", "b", "a-2", "call-2"]  # the last two are what a repair itself might make up

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
    """The same messages, no two of them with the same text."""
    return [
        replace(each, content=f"{each.content} {number}") for number, each in enumerate(messages)
    ]


broken = drawn.map(numbered)


def without_ids(messages):
    """All messages but results; the ids of calls, which a repair may change, left out."""
    return [
        replace(each, tool_calls=tuple(replace(call, id="") for call in each.tool_calls))
        for each in messages
        if each.role != "tool"
    ]


def answers(messages):
    """The texts of the results that answer a call which waits for them; each call is answered
    once."""
    waiting, kept = Counter(), []
    for each in messages:
        waiting.update(call.id for call in each.tool_calls)
        if each.role == "tool" and waiting[each.tool_call_id]:
            waiting[each.tool_call_id] -= 1
            kept.append(each.text)
    return kept


@given(broken)
def test_every_history_can_be_made_sound(messages):
    assert MessageHistory(repaired(messages)).check_history() == []


@given(broken)
def test_a_sound_history_is_left_alone_and_a_repaired_one_is_sound(messages):
    sound = repaired(messages)
    assert (repaired(sound), repairs_of(sound)) == (sound, [])
    assert (sound == messages) == (MessageHistory(messages).check_history() == [])
    assert (repairs_of(messages) == []) == (sound == shown(messages))


@given(broken)
def test_only_results_are_moved_or_left_out(messages):
    assert without_ids(repaired(messages)) == without_ids(messages)


@given(broken)
def test_each_result_that_answers_a_call_is_kept_once_and_other_calls_are_interrupted(messages):
    found = [each.text for each in repaired(messages) if each.role == "tool"]
    kept = [text for text in found if not text.startswith("[interrupted]")]
    assert sorted(kept) == sorted(answers(messages))
    assert len(found) == sum(len(each.tool_calls) for each in messages)


@given(broken)
def test_a_result_answers_the_tool_that_was_called(messages):
    """What it says of whom it answers changes only where the call's id was changed."""
    names = {}
    for each in repaired(messages):
        names.update({call.id: call.name for call in each.tool_calls})
        if each.text.startswith("[interrupted]"):
            assert (each.name, each.is_error) == (names[each.tool_call_id], True)


@given(st.lists(st.tuples(st.booleans(), drawn), max_size=4))
async def test_a_journal_that_goes_on_badly_is_repaired_again_and_again(batches):
    """In between, a loop may have mended only the newest exchange."""
    store = MemoryStore({"s": []})
    watching, said = Transcript(store, "s"), []
    for only_newest, batch in batches:
        batch = [
            replace(each, content=f"{each.content} {len(said) + n}") for n, each in enumerate(batch)
        ]
        await watching.append(*batch)
        said += batch
        if only_newest:
            await watching.close_open_calls()
            continue
        problems = (await watching.history()).check_history()
        assert await watching.repair_history() == problems
        history = await watching.history()
        assert history.check_history() == []
        assert without_ids(history) == without_ids(said)
        seen = [each for each in await watching.for_request() if each.role != "system"]
        assert seen == [each for each in history if each.role != "system"]
        assert await Transcript(store, "s").for_request() == await watching.for_request()
        assert await watching.repair_history() == []


@given(broken)
async def test_the_journal_keeps_what_was_and_its_repair_survives_json(messages):
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


@pytest.mark.parametrize(
    ("messages", "expected"),
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
    ids=[
        "nothing",
        "sound",
        "killed",
        "killed, then asked again",
        "killed between two results",
        "late",
        "one in time, one late, one never",
        "too early",
        "twice",
        "orphan",
        "one id for two calls",
        "an id used again",
        "an id used again while it waits",
        "the newer of two that wait",
        "no ids",
    ],
)
def test_each_call_has_one_result_right_behind_it(messages, expected):
    assert repaired(messages) == expected


def test_a_call_keeps_all_but_its_id():
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
    ids=["sound", "interrupted", "late", "left out", "changed"],
)
def test_a_repair_appends_results_and_replaces_or_hides_messages(messages, records):
    assert repairs_of(messages) == records


def test_a_repair_may_change_what_an_earlier_one_showed():
    """Here a result was made up behind the second call before anybody saw that its id was there
    already."""
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
    """How many steps Python takes for a call."""
    taken = 0

    def trace(frame, event, argument):
        nonlocal taken
        frame.f_trace_opcodes = True
        taken += event == "opcode"
        return trace

    before = sys.gettrace()
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
def test_twice_as_many_messages_take_twice_as_many_steps(shape):
    assert steps(repaired, shape(200)) < 2.2 * steps(repaired, shape(100))
