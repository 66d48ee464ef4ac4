"""Tests of single steps of a run: the state between two steps, and how a run continues."""

import asyncio

import pytest

from stage0_gateway import Gateway, Message, ScriptedModel, ServerFailed, ToolCall
from stage1_context import (
    ContextEngine,
    MemoryStore,
    MessageHistory,
    SessionNotFound,
    StoreFailed,
)
from stage2_output import OutputController
from stage3_tools import NativeDialect, RunLimits, RunnerParams, Tool, ToolLoopDeps, ToolRegistry
from stage3_tools.run.stop_policy import Ending
from stage3_tools.runner.stepper import TurnStepper

GO = Message.user("Go.")


def calls(*ids):
    return Message.assistant("", [ToolCall(id, "f", "{}") for id in ids])


class StepperCase:
    """A stepper with a scripted model and one tool, and a record of what happened."""

    def __init__(self, *replies, messages=(GO,), most=None, fail=(), **params):
        self.ran, self.replies, self.events, self.fail = [], [], [], dict(fail)
        self.model = ScriptedModel(replies)
        self.gateway = Gateway("openai:m", transport=self.model, max_retries=0)
        tool = Tool("f", "", None, self.run)
        deps = ToolLoopDeps(
            self.gateway,
            ContextEngine(),
            OutputController(),
            ToolRegistry(tool),
        )
        params = RunnerParams(
            messages=messages, dialect=NativeDialect(), on_event=self.listen, **params
        )
        self.steps = TurnStepper(deps, params, most, (), self.replied)

    async def run(self, arguments, context):
        self.ran.append(context.call_id)
        return "r"

    def replied(self, response):
        self.replies.append(response.content or len(response.tool_calls))
        self.raise_at("replied")

    def listen(self, event):
        self.events.append(event.name)
        self.raise_at(event.name)

    def raise_at(self, name):
        if name in self.fail:
            raise self.fail.pop(name)

    @property
    def history(self):
        messages = self.steps.edits.params.messages
        assert MessageHistory(messages).check_history() == []
        return [each.text or len(each.tool_calls) for each in messages]


@pytest.fixture
async def new_case():
    made = []

    def make(*replies, **rest):
        made.append(StepperCase(*replies, **rest))
        return made[-1]

    yield make
    for each in made:
        await each.gateway.aclose()


async def test_a_step_returns_a_reply_before_its_calls_run(new_case):
    case = new_case(calls("a"), "done")
    item = await case.steps.next()
    assert ([call.id for call in item.tool_calls], case.ran, case.history) == (
        ["a"],
        [],
        ["Go."],
    )
    item = await case.steps.next()
    assert (item.content, case.ran, case.history) == (
        "done",
        ["a"],
        ["Go.", 1, "r", "done"],
    )
    assert case.replies == [1, "done"]
    assert await case.steps.next() == Ending("completed", "done")
    assert await case.steps.next() == Ending("completed", "done")  # the run stays finished


async def test_the_conversation_is_not_locked_between_two_steps(new_case):
    case = new_case(calls("a"), "done")
    transcript = case.steps._run.transcript
    for _ in range(2):
        await case.steps.next()
        assert not transcript.lock.locked()
    async with transcript.lock:
        waiting = asyncio.create_task(case.steps.next())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


@pytest.mark.parametrize(
    "name",
    [
        *("run_start", "turn_start", "request", "reply", "replied", "decision"),
        *("tool_call", "tool_result", "turn_end"),
    ],
)
async def test_after_a_listener_raises_the_next_step_continues_after_its_event(new_case, name):
    # if its request was not sent, it is sent by the next step
    case = new_case(calls("a", "b"), "done", fail={name: LookupError(name)})
    items = []
    for _ in range(4):
        try:
            items.append(await case.steps.next())
        except LookupError:
            assert case.history in (["Go."], case.history[:2] + case.history[2:4])
    assert [len(each.tool_calls) for each in items[:2]] == [2, 0]
    assert items[2] == Ending("completed", "done")
    assert (case.replies, case.steps.count, len(case.history)) == ([2, "done"], 2, 5)
    assert len(set(case.ran)) == len(case.ran)


async def test_after_a_failed_request_the_next_step_repeats_it(new_case):
    case = new_case(500, calls("a"), 500, "done")
    seen = []
    for _ in range(5):
        try:
            seen.append(type(await case.steps.next()).__name__)
        except ServerFailed:
            seen.append(case.steps.count)
    assert seen == [0, "ChatResponse", 1, "ChatResponse", "Ending"]
    assert (case.ran, case.steps.count, case.history) == (
        ["a"],
        2,
        ["Go.", 1, "r", "done"],
    )


async def test_edits_apply_before_the_first_request_and_after_each_turn(new_case):
    case = new_case(calls("a"), "done")
    case.steps.edits.push([Message.user("1")])
    await case.steps.next()
    case.steps.edits.push([Message.user("2")])
    await case.steps.next()
    assert case.history == ["Go.", "1", 1, "r", "2", "done"]


async def test_an_unknown_session_raises_at_every_step(new_case):
    case = new_case(session_id="nowhere")
    for _ in range(2):
        with pytest.raises(SessionNotFound):
            await case.steps.next()


async def test_invalid_initial_messages_are_repaired(new_case):
    case = new_case(
        "done",
        messages=[Message.user("Go."), calls("a"), Message.user("?"), Message.tool("r", "x")],
    )
    await case.steps.next()
    assert [type(each) for each in case.history] == [str, int, str, str, str]


async def test_calls_run_once_and_only_for_the_newest_reply(new_case):
    case = new_case(calls("a", "b"), calls("c"), "done")
    assert await case.steps.run_calls() == ()
    for ids in ("ab", "c", ""):
        await case.steps.next()
        messages = await case.steps.run_calls()
        assert "".join(each.tool_call_id for each in messages) == ids
        assert await case.steps.run_calls() == messages
    assert case.ran == ["a", "b", "c"]


async def test_nothing_runs_after_the_end(new_case):
    case = new_case(calls("a"), abort=asyncio.Event())
    await case.steps.next()
    case.steps._run.options.abort.set()
    ending = await case.steps.next()
    for _ in range(2):
        await case.steps.end(ending)
    refused = "Error (interrupted): The run was stopped before this call was run."
    assert (ending.status, await case.steps.run_calls(), case.ran) == ("aborted", (), [])
    assert case.history == ["Go.", 1, refused]
    assert case.events.count("loop_end") == 1


async def test_calls_of_the_last_allowed_request_do_not_run(new_case):
    case = new_case(calls("a"), most=1)
    await case.steps.next()
    ending = await case.steps.next()
    assert (ending.status, case.ran, len(case.history)) == ("limit", [], 3)


async def test_the_time_limit_includes_the_time_between_two_steps(new_case):
    limits = RunLimits(seconds=1e-9)
    case = new_case(limits=limits)
    assert (await case.steps.next()).status == "timeout"
    assert case.history == ["Go."]


async def test_the_result_has_status_reply_and_records(new_case):
    case = new_case(calls("a"), "done")
    for _ in range(2):
        await case.steps.next()
    result = case.steps.result_of(await case.steps.next())
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "done", 1)
    assert [record.id for record in result.history] == ["a"]
    assert result.stats.duration > 0


async def test_a_finished_run_stays_finished_if_the_store_fails_at_an_edit():
    class Failing(MemoryStore):
        fails = False

        async def append(self, session_id, *records, expected=None):
            if self.fails:
                self.fails = False
                raise StoreFailed("The disk is full.")
            return await super().append(session_id, *records, expected=expected)

    store = Failing()
    engine = ContextEngine(store=store)
    session = await engine.create_session()
    async with Gateway("openai:m", transport=ScriptedModel(["done"])) as gateway:
        deps = ToolLoopDeps(gateway, engine, OutputController(), ToolRegistry())
        params = RunnerParams(messages=[GO], session_id=session, dialect=NativeDialect())
        stepper = TurnStepper(deps, params, 1, (), lambda reply: None)
        await stepper.next()
        stepper.edits.push([Message.user("Sure?")])
        store.fails = True
        with pytest.raises(StoreFailed):
            await stepper.next()
        assert await stepper.next() == Ending("completed", "done")
    texts = [message.text for message in await engine.history(session)]
    assert texts == ["Go.", "done", "Sure?"]
