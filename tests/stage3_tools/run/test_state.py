import pytest

from stage0_gateway import ChatResponse, Message, ToolCall, Usage
from stage1_context import (
    Calibration,
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    Transcript,
)
from stage2_output import OutputController
from stage3_tools import (
    PromptDialect,
    ResultCache,
    RunLimits,
    RunState,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    TurnEnded,
)
from tests.stage3_tools.conversation import unused_chat


def a_run(**options):
    """Return a run without a model."""
    deps = ToolLoopDeps(unused_chat, ContextEngine(), OutputController(), ToolRegistry())
    return RunState(deps, Transcript.of([]), ToolLoopOptions(**options))


def reply(text="hi", **rest):
    return ChatResponse(Message.assistant(text), "stop", **rest)


def test_usage_and_cost_of_all_replies_are_added_up():
    run = a_run()
    for each in (
        reply("a", usage=Usage(10, 5), cost=0.5),
        reply("b"),
        reply("c", usage=Usage(1, None, 3), cost=0.25),
    ):
        run.add_reply(each)
    assert (run.counts.usage, run.counts.cost) == (Usage(11, 5, 3), 0.75)
    assert (run.last_content, run.last_usage) == ("c", Usage(1, None, 3))


def test_the_cost_is_unknown_if_no_reply_has_a_cost():
    run = a_run()
    run.add_reply(reply())
    assert run.counts.cost is None


def test_the_prompt_dialect_is_the_default():
    own = PromptDialect()
    assert a_run(dialect=own).dialect is own
    assert isinstance(a_run().dialect, PromptDialect)


async def test_a_listener_receives_the_events_of_the_current_turn():
    got = []
    run = a_run(on_event=got.append)
    for _ in range(2):
        await run.events.emit(TurnEnded, usage=None)
        run.events.turn += 1
    assert got == [TurnEnded(turn=0, usage=None), TurnEnded(turn=1, usage=None)]
    await a_run().events.emit(TurnEnded, usage=None)  # works without a listener


async def test_the_token_usage_of_a_server_calibrates_the_counter_of_the_session():
    class One:
        def count(self, text):
            return 1

    calibration = Calibration()
    store = MemoryStore({"s": [MessageRecord(Message.user("hi"))]})
    run = a_run()
    run.transcript = Transcript(store, "s", KeepSystemAndRecent(max_tokens=100), One(), calibration)
    await run.transcript.for_request(extra_text="tools")
    run.add_reply(reply(usage=Usage(10, 5)))
    assert calibration.ratio == pytest.approx(10 / (4 + 1 + 1) * 1.03)


async def test_screen_counts_calls_and_raises_when_a_limit_is_reached():
    run = a_run(limits=RunLimits(tokens=10))
    call = ToolCall("c", "f")
    assert [run.screen(call) for _ in range(3)][2].startswith("\nNote: this is call 3 in a row")
    run.add_reply(reply(usage=Usage(10, 0)))
    with pytest.raises(ToolError, match=r"10 were used\. This call was not run\.") as raised:
        run.screen(call)
    assert raised.value.kind == "interrupted"


async def test_the_execution_settings_combine_the_options_and_the_session():
    cache, classify = ResultCache(), lambda exception: None
    run = a_run(cache=cache, classify=classify)
    execution = await run.settings()
    assert await run.settings() is execution
    assert (execution.cache, execution.classify) == (cache, classify)
    info = await run.transcript.info()
    assert execution.session_id == info.id
    assert execution.origin == f"{info.id}\0{info.created.isoformat()}"


async def test_an_exception_of_a_listener_in_a_tool_is_raised_at_the_next_event():
    def listen(event):
        raise LookupError("broken")

    run = a_run(on_event=listen)
    await run.events.emit_safely(TurnEnded, usage=None)
    with pytest.raises(LookupError, match="broken"):
        await run.events.emit(TurnEnded, usage=None)
