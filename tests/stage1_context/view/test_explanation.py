from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ImagePart, Message, TextPart, ToolCall
from stage1_context import (
    Counted,
    DropOldest,
    Explained,
    Explanation,
    KeepEverything,
    KeepSystemAndRecent,
    TokenBudget,
    Transcript,
    WindowTooSmall,
    newly_dropped,
)
from stage1_context.view.explanation import explain
from stage1_context.view.selection import Selection
from tests.stage1_context.sessions import AlternatingWindow, CharacterCounter, engine_with, user
from tests.tables import for_each

SYSTEM = Message.system("Be brief.")
CONVERSATION = [
    Message.user("Tell me all you know about the weather in Shanghai, from the beginning."),
    Message.assistant("It began a long time ago."),
    Message.user("And today?"),
    Message.assistant("", [ToolCall("a", "get_weather")]),
    Message.tool("Sunny,\n25 degrees", "a"),
]


def selection(window, rest, budget=None, system=(SYSTEM,)):
    """Return the selection of a window from these messages of ten tokens each."""
    fixed = [Counted(each, 10, index) for index, each in enumerate(system)]
    others = [Counted(each, 10, index) for index, each in enumerate(rest, len(fixed))]
    budget = budget or TokenBudget()
    return Selection(window, fixed, others, budget, window.select(fixed, others, budget))


def reasons(explanation):
    return [(each.sent, each.why) for each in explanation.messages]


async def test_an_explanation_is_printed_as_a_table():
    engine = await engine_with(SYSTEM, *CONVERSATION, window=DropOldest(max_tokens=100))
    assert str(await engine.explain("s", reserve_tokens=8)) == (
        """\
DropOldest(max_tokens=100, max_messages=None)
tokens: 13 system messages + 56 messages + 0 tools + 8 reply, 23 left

sent  role       tokens  why                               message
yes   system         13  always sent                       Be brief.
no    user           75  older than what did not fit       Tell me all you know about the weather …
no    assistant      29  does not fit: 29 needed, 23 left  It began a long time ago.
yes   user           14                                    And today?
yes   assistant      21                                    calls get_weather
yes   tool           21                                    Sunny, 25 degrees"""
    )


def test_an_explanation_contains_every_message():
    seen = explain(
        selection(KeepSystemAndRecent(max_messages=1), CONVERSATION[:2], TokenBudget(3, 2))
    )
    assert seen == Explanation(
        "KeepSystemAndRecent(max_tokens=None, max_messages=1)",
        {"system messages": 10, "messages": 10, "tools": 2, "reply": 3},
        1.0,
        (
            Explained(0, "system", "Be brief.", 10, True, "always sent"),
            Explained(
                *(1, "user", "Tell me all you know about the weather …", 10),
                *(False, "too many messages: 1 more, 0 left"),
            ),
            Explained(2, "assistant", "It began a long time ago.", 10, True, ""),
        ),
    )
    assert seen.dropped == seen.messages[1:2]


def test_messages_that_fit_have_no_reason():
    assert str(explain(selection(KeepEverything(), CONVERSATION[2:3]))) == (
        """\
KeepEverything()
tokens: 10 system messages + 10 messages + 0 tools + 0 reply

sent  role       tokens  why          message
yes   system         10  always sent  Be brief.
yes   user           10               And today?"""
    )


def test_an_empty_conversation_is_printed_as_an_empty_table():
    assert str(explain(selection(DropOldest(50), [], system=()))) == (
        """\
DropOldest(max_tokens=50, max_messages=None)
tokens: 0 system messages + 0 messages + 0 tools + 0 reply, 50 left

sent  role       tokens  why  message"""
    )


def test_the_scale_of_the_server_is_printed_if_it_differs_from_one():
    explanation = explain(selection(DropOldest(100), CONVERSATION, TokenBudget(9, 5, 1.3)))
    assert str(explanation).splitlines()[1:3] == [
        "tokens: 10 system messages + 50 messages + 5 tools + 9 reply, 5 left",
        "The server counts 1.30 for each of these, the reply's apart.",
    ]


# ---- reasons


@for_each(
    "window, budget, dropped",
    [
        (DropOldest(60), TokenBudget(), []),
        (DropOldest(59), TokenBudget(), ["does not fit: 10 needed, 9 left"]),
        (DropOldest(70), TokenBudget(5, 6), ["does not fit: 10 needed, 9 left"]),
        (
            DropOldest(39),
            TokenBudget(),
            [
                "older than what did not fit",
                "older than what did not fit",
                "does not fit: 10 needed, 9 left",
            ],
        ),
        (DropOldest(max_messages=5), TokenBudget(), ["too many messages: 1 more, 0 left"]),
        (KeepSystemAndRecent(max_messages=4), TokenBudget(), ["too many messages: 1 more, 0 left"]),
        (DropOldest(59, 5), TokenBudget(), ["does not fit: 10 needed, 9 left"]),
        (DropOldest(60, 5), TokenBudget(), ["too many messages: 1 more, 0 left"]),
    ],
)
def test_the_newest_dropped_exchange_has_the_reason_and_older_ones_are_marked_as_older(
    window, budget, dropped
):
    explanation = explain(selection(window, CONVERSATION, budget))
    expected = [(False, why) for why in dropped] + [(True, "")] * (5 - len(dropped))
    assert reasons(explanation)[1:] == expected


def test_all_messages_of_a_dropped_exchange_have_the_same_reason():
    explanation = explain(selection(DropOldest(35), [*CONVERSATION[2:], CONVERSATION[0]]))
    why = "does not fit: 20 needed, 15 left"
    assert reasons(explanation)[1:] == [
        (False, "older than what did not fit"),
        (False, why),
        (False, why),
        (True, ""),
    ]


async def test_a_summary_and_a_pinned_question_are_marked():
    transcript = Transcript.of([SYSTEM, *CONVERSATION[:3]], KeepSystemAndRecent(max_messages=1))
    await transcript.set_summary("They met.", until=2)
    seen = explain(await transcript.select(pinned=CONVERSATION[0], complete=True))
    assert [(each.index, each.role, each.sent, each.why) for each in seen.messages] == [
        (0, "system", True, "always sent"),
        (-1, "user", True, "the summary"),
        (-1, "user", True, "pinned"),
        (2, "assistant", False, "too many messages: 1 more, 0 left"),
        (3, "user", True, ""),
    ]
    assert seen.messages[1].preview == "They met."


async def test_results_of_a_repair_have_their_own_lines():
    transcript = Transcript.of([Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "g")])])
    await transcript.repair_history()
    seen = explain(await transcript.select())
    assert [(each.index, each.role, each.preview[:13]) for each in seen.messages] == [
        (0, "assistant", "calls f, call"),
        (1, "tool", "[interrupted]"),
        (2, "tool", "[interrupted]"),
    ]


class NewestMessage(DropOldest):
    """A custom window that derives from a built-in one and drops messages which fit."""

    def select(self, system, rest, budget, /):
        return [*system, rest[-1]]


class FirstAndNote(DropOldest):
    """A custom window that adds a message."""

    def select(self, system, rest, budget, /):
        return [*system, rest[0], Counted(Message.user("(and so on)"), 3)]


def test_the_choice_of_a_custom_window_is_explained():
    assert reasons(explain(selection(AlternatingWindow(), CONVERSATION[:3]))) == [
        (True, "always sent"),
        (True, ""),
        (False, "not chosen by the window"),
        (True, ""),
    ]


def test_a_window_that_drops_messages_which_fit_is_explained_by_its_choice():
    assert reasons(explain(selection(NewestMessage(100), CONVERSATION[:3])))[1:] == [
        (False, "not chosen by the window"),
        (False, "not chosen by the window"),
        (True, ""),
    ]


def test_messages_that_a_custom_window_adds_are_shown_last():
    seen = explain(selection(FirstAndNote(100), CONVERSATION[:3]))
    assert reasons(seen)[1:] == [
        (True, ""),
        (False, "not chosen by the window"),
        (False, "not chosen by the window"),
        (True, "written by the window"),
    ]
    assert (seen.messages[-1].preview, seen.budget["messages"], seen.budget["left"]) == (
        "(and so on)",
        13,
        77,
    )


# ---- messages that a request leaves out for the first time

OTHERS = [user(number) for number in range(1, 40)]


def dropped(selection, before=None, **limit):
    """Return the index of each newly dropped message, and the reason."""
    return [(each.index, why) for each, why in newly_dropped(selection, before, **limit)]


def test_a_request_without_dropped_messages_has_none_that_are_newly_dropped():
    before = selection(KeepEverything(), OTHERS[:2])
    now = selection(KeepEverything(), OTHERS[:3])
    assert newly_dropped(before, None) == newly_dropped(now, before) == []


def test_messages_of_the_previous_request_and_newer_ones_are_newly_dropped():
    before = selection(DropOldest(max_messages=3), OTHERS[:4])
    now = selection(DropOldest(max_messages=2), OTHERS[:7])
    assert [each.index for each in before.chosen] == [0, 3, 4]
    assert newly_dropped(now, before) == [
        (Counted(OTHERS[2], 10, 3), "older than what did not fit"),
        (Counted(OTHERS[3], 10, 4), "older than what did not fit"),
        (Counted(OTHERS[4], 10, 5), "older than what did not fit"),
        (Counted(OTHERS[5], 10, 6), "too many messages: 1 more, 0 left"),
    ]


def test_messages_that_the_previous_request_left_out_are_not_newly_dropped():
    before = selection(DropOldest(max_messages=3), OTHERS[:4])
    now = selection(DropOldest(max_messages=3), OTHERS[:5])
    assert dropped(now, before) == [(3, "too many messages: 1 more, 0 left")]
    assert dropped(now, now) == []


def test_the_first_message_of_a_conversation_without_system_messages_is_newly_dropped():
    before = selection(KeepEverything(), OTHERS[:2], system=())
    now = selection(DropOldest(max_messages=1), OTHERS[:2], system=())
    assert dropped(now, before) == [(0, "too many messages: 1 more, 0 left")]


@for_each("length, first", [(15, 0), (25, 0), (26, 1), (39, 14)])
def test_the_newest_dropped_messages_are_the_newly_dropped_ones_of_a_first_request(length, first):
    window = DropOldest(max_messages=5)
    seen = dropped(selection(window, OTHERS[:length], system=()))
    assert [index for index, _ in seen] == [*range(first, length - 5)]
    for system in ((), (SYSTEM, SYSTEM)):
        several = selection(DropOldest(max_messages=5), OTHERS[:length], system=system)
        assert dropped(several, most=3) == dropped(several)[-3:]


def test_a_pinned_message_is_not_newly_dropped():
    pinned = Counted(OTHERS[0], 10, -1)
    before = selection(KeepEverything(), OTHERS[:2])
    now = selection(DropOldest(max_messages=3), OTHERS[:3])
    now = replace(now, system=[*now.system, pinned], chosen=[now.system[0], pinned, now.rest[2]])
    assert dropped(now, before) == [(2, "too many messages: 1 more, 0 left")]
    assert dropped(selection(KeepEverything(), OTHERS[:3]), now) == []


@for_each("window", [AlternatingWindow(), FirstAndNote(100)])
def test_messages_that_a_custom_window_drops_from_the_middle_are_newly_dropped(window):
    before, now = selection(window, OTHERS[:1]), selection(window, OTHERS[:3])
    expected = [(2, "not chosen by the window"), (3, "not chosen by the window")]
    assert dropped(now, before) == [each for each in expected if each[0] in _left_out(now)]


def _left_out(selection):
    """Return the indexes of the messages that a window left out."""
    return {each.index for each in selection.rest} - {each.index for each in selection.chosen}


def test_a_dropped_message_may_be_equal_to_the_first_one_of_the_request():
    now = selection(AlternatingWindow(), [OTHERS[0]] * 2, system=())
    assert dropped(now) == [(1, "not chosen by the window")]


def test_system_messages_are_not_newly_dropped():
    before = selection(KeepEverything(), OTHERS[:1])
    now = replace(before, chosen=before.rest)
    assert dropped(now, before) == []


async def test_messages_that_a_summary_replaces_are_newly_dropped():
    transcript = Transcript.of(
        [SYSTEM, *OTHERS[:3]], DropOldest(max_messages=3), CharacterCounter()
    )
    before = await transcript.select()
    await transcript.set_summary("They met.", until=3)
    assert dropped(await transcript.select(), before) == [(2, "replaced by a summary")]


def test_messages_that_were_dropped_earlier_are_not_counted_again():
    counter = CharacterCounter()
    rest = [Counted(each, counter, index) for index, each in enumerate(OTHERS)]
    window = DropOldest(max_messages=2)
    before, now = (
        Selection(window, [], rest[:end], TokenBudget(), rest[end - 2 : end]) for end in (38, 39)
    )
    assert dropped(now, before) == [(36, "too many messages: 1 more, 0 left")]
    assert counter.counted == {OTHERS[36].text: 1}


# ---- preview of a message


@for_each(
    "message, preview",
    [
        (Message.user("x" * 40), "x" * 40),
        (Message.user("x" * 41), "x" * 39 + "…"),
        (Message.user("  two\n\tlines  "), "two lines"),
        (Message.user(" " * 1000 + "late"), ""),
        (Message.user("上海今天天气怎么样？"), "上海今天天气怎么样？"),
        (Message.user("a\x1b[31mb\0c\ud83d"), "a�[31mb�c�"),
        (Message.user(""), ""),
        (
            Message.user((TextPart("What is "), ImagePart("aGk="), TextPart("this?"))),
            "What is this?",
        ),
        (Message.user((ImagePart("aGk="), ImagePart("aGk="))), ""),
        (Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "g")]), "calls f, calls g"),
        (Message.assistant("Let me see.", [ToolCall("a", "f")]), "Let me see."),
    ],
)
def test_the_preview_of_a_message_is_the_beginning_of_its_text(message, preview):
    explanation = explain(selection(KeepEverything(), [message], system=()))
    assert explanation.messages[0].preview == preview
    assert str(explanation).encode()


# ---- the budget

sizes = st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=8)


@given(
    st.sampled_from([DropOldest, KeepSystemAndRecent]),
    st.integers(0, 400),
    st.none() | st.integers(0, 6),
    sizes,
    st.builds(
        TokenBudget,
        st.integers(0, 60),
        st.integers(0, 60),
        st.sampled_from([0.5, 1.0, 1.3, 2.5]),
    ),
)
def test_the_budget_adds_up_and_agrees_with_the_window(kind, tokens, messages, drawn, budget):
    window = kind(tokens, messages)
    counted = [
        Counted(Message("system" if fixed else "user", "x" * size), size + 4, index)
        for index, (fixed, size) in enumerate(drawn)
    ]
    system = [each for each in counted if each.message.role == "system"]
    rest = [each for each in counted if each.message.role == "user"]
    try:
        chosen = window.select(system, rest, budget)
    except WindowTooSmall:
        return
    seen = explain(Selection(window, system, rest, budget, chosen))
    sent = [each for each in seen.messages if each.sent]
    assert (
        sum(each.tokens for each in sent)
        == seen.budget["system messages"] + seen.budget["messages"]
    )
    taken = sum(seen.budget[name] for name in ("system messages", "messages", "tools"))
    assert seen.budget["left"] >= 0
    assert (taken + seen.budget["left"]) * budget.ratio + seen.budget["reply"] <= tokens
    assert (taken + seen.budget["left"] + 1) * budget.ratio + seen.budget["reply"] > tokens
    assert sorted(each.index for each in seen.messages) == list(range(len(drawn)))
    for each in seen.dropped:
        if each.why.startswith("does not fit"):
            assert each.why == f"does not fit: {each.tokens} needed, {seen.budget['left']} left"
            assert each.tokens > seen.budget["left"]
        elif each.why.startswith("too many"):
            assert (
                replace(window, max_messages=(messages or 0) + 1).select(system, rest, budget)
                != chosen
            )
