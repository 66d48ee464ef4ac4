"""Tests of the counts of a run, its limits, and equal calls in a row."""

import asyncio

import pytest

from stage0_gateway import (
    ChatResponse,
    ConfigurationError,
    Gateway,
    ImagePart,
    Message,
    ScriptedModel,
    TextPart,
    ToolCall,
    Usage,
)
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    Abort,
    ParentRun,
    RunLimits,
    RunStopped,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolRegistry,
    run_tool_loop,
)
from stage3_tools.run.counts import Repeats, RunCounts, check_prices
from tests.stage3_tools.conversation import DONE
from tests.tables import for_each

# ---- tokens, costs and limits


def reply(usage=None, cost=None):
    return ChatResponse(Message.assistant("hi"), "stop", usage=usage, cost=cost)


def counts_of(limits=None, abort=None, parent=None):
    """Return the counts of a run with these limits."""
    counts = RunCounts(parent)
    counts.use(limits, abort)
    return counts


def parent_of(counts, abort=None):
    """Return the outer run of a run inside of a tool."""
    return ParentRun(
        "outer", "c", abort or Abort(), lambda event: None, counts.add, counts.limit_reached
    )


def test_tokens_and_costs_of_replies_are_added_up():
    counts = counts_of()
    for each in (reply(Usage(10, 5), 0.5), reply(), reply(Usage(1, None, 3), 0.25)):
        counts.add(each)
    assert (counts.usage, counts.cost) == (Usage(11, 5, 3), 0.75)


def test_the_tokens_of_an_inner_run_are_added_in_both_runs():
    outer = counts_of()
    inner = counts_of(parent=parent_of(outer))
    outer.add(reply(Usage(10, 5), 0.5))
    inner.add(reply(Usage(1, 2), 0.25))
    assert (inner.usage, inner.cost) == (Usage(1, 2), 0.25)
    assert (outer.usage, outer.cost) == (Usage(11, 7), 0.75)


async def test_threads_may_add_replies_at_the_same_time():
    counts = counts_of()

    def add():
        for _ in range(500):
            counts.add(reply(Usage(1, 0), 1.0))

    await asyncio.gather(*(asyncio.to_thread(add) for _ in range(4)))
    assert (counts.usage, counts.cost) == (Usage(2000, 0), 2000.0)


def test_a_limit_of_the_outer_run_is_a_limit_of_the_inner_run():
    outer = counts_of(RunLimits(tokens=10))
    inner = counts_of(RunLimits(tokens=1000), parent=parent_of(outer))
    outer.add(reply(Usage(4, 0)))
    inner.add(reply(Usage(5, 0)))
    assert (inner.limit_reached(), outer.limit_reached()) == (None, None)
    inner.add(reply(Usage(1, 0)))
    reached = "The limit of 10 tokens for this run was reached: 10 were used."
    assert (inner.limit_reached(), outer.limit_reached()) == (reached, reached)
    with pytest.raises(RunStopped) as stop:
        inner.checkpoint()
    assert stop.value.status == "limit"


def test_the_limit_of_an_inner_run_does_not_end_the_outer_run():
    outer = counts_of()
    inner = counts_of(RunLimits(tokens=5), parent=parent_of(outer))
    inner.add(reply(Usage(5, 0)))
    assert inner.limit_reached() == "The limit of 5 tokens for this run was reached: 5 were used."
    outer.checkpoint()


def test_a_reply_of_unknown_cost_reaches_the_limit_of_the_cost_of_both_runs():
    outer = counts_of(RunLimits(cost=1.0))
    inner = counts_of(parent=parent_of(outer))
    inner.add(reply(Usage(1, 1)))
    reason = outer.limit_reached()
    assert reason.startswith(
        "The limit of 1 dollars cannot be applied, because the cost of a reply"
    )
    assert inner.limit_reached() == reason


@for_each("which", ["own", "outer"])
@for_each("kind", [Abort, asyncio.Event])
def test_an_abort_of_the_run_or_of_the_outer_run_stops_it(which, kind):
    own, outer = kind(), Abort()
    counts = counts_of(abort=own, parent=parent_of(counts_of(), outer))
    counts.checkpoint()
    assert (counts.aborts, counts.stop_reason(), counts.is_stopped()) == ([own, outer], None, False)
    (own if which == "own" else outer).set()
    assert (counts.stop_reason(), counts.is_stopped()) == ("aborted", True)
    with pytest.raises(RunStopped) as stop:
        counts.checkpoint()
    assert stop.value.status == "aborted"


def test_a_run_without_limits_has_no_end():
    counts = counts_of()
    assert (counts.aborts, counts.seconds_left(), counts.limit_reached()) == ([], None, None)
    counts.checkpoint()


def test_the_time_limit_counts_from_the_start_of_the_run():
    counts = counts_of(RunLimits(seconds=60))
    assert 59 < counts.seconds_left() <= 60
    counts.started -= 61
    assert counts.seconds_left() < 0
    assert counts.stop_reason() == "timeout"
    counts.use(None, None)
    assert counts.stop_reason() is None


async def test_a_limit_of_the_cost_needs_a_gateway_with_prices_or_an_unknown_model():
    limits = RunLimits(cost=0.5)
    check_prices(limits, None)
    async with Gateway("openai:m", transport=ScriptedModel([])) as gateway:
        check_prices(RunLimits(tokens=5), gateway)
        with pytest.raises(ConfigurationError, match="needs prices, and 'openai:m' has none"):
            check_prices(limits, gateway)


# ---- equal calls in a row


def call(arguments="{}", name="f"):
    return ToolCall("any", name, arguments)


def notes_of(repeats, *calls):
    """Return the note or the error text for each call."""
    answers = []
    for each in calls:
        try:
            answers.append(repeats.note(each))
        except ToolError as error:
            answers.append(error.for_model)
    return answers


def note(count):
    return f"\nNote: this is call {count} in a row with the same arguments."


def block(count):
    return (
        f'{{"status": "rejected", "message": "f was called {count} times in a row with the same '
        r'arguments, so it is not run again.\nUse the results above, call another tool, or answer."}'
    )


def test_a_repeated_call_gets_a_note_from_the_third_time_and_is_rejected_from_the_fifth():
    assert notes_of(Repeats(), *[call()] * 6) == ["", "", note(3), note(4), block(5), block(6)]


@for_each("other", [call('{"a": 1}'), call(name="g")])
def test_a_different_call_resets_the_count(other):
    assert notes_of(Repeats(), call(), call(), other, call(), call(), call()) == [
        "",
        "",
        "",
        "",
        "",
        note(3),
    ]


def test_the_count_ignores_call_ids():
    assert notes_of(Repeats(), *(ToolCall(f"c{n}", "f", "{}") for n in range(3))) == [
        "",
        "",
        note(3),
    ]


def test_the_count_ignores_how_arguments_are_formatted():
    assert notes_of(
        Repeats(), call('{"a":1,"b":2}'), call('{"a": 1, "b": 2}'), call('{"b":2,"a":1}')
    ) == [
        "",
        "",
        note(3),
    ]


async def test_the_note_is_appended_to_a_result_of_parts():
    picture = ImagePart("AAAA")
    look = Tool("look", "", None, lambda arguments: picture, effect="read")
    decision = '{"tool": "look", "arguments": {}}'
    model = ScriptedModel([decision] * 3 + [DONE])
    async with Gateway("openai:m", transport=model) as gateway:
        context = ContextEngine()
        deps = ToolLoopDeps(gateway, context, OutputController(), ToolRegistry(look))
        result = await run_tool_loop(deps, await context.create_session(), "Look three times.")
    note = TextPart("\nNote: this is call 3 in a row with the same arguments.")
    contents = [record.result.as_message().content for record in result.history]
    assert contents == [(picture,), (picture,), (picture, note)]
