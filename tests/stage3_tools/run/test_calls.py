import asyncio
from datetime import date

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    ContextEngine,
    MemoryStore,
    SessionConflict,
    Transcript,
)
from stage2_output import OutputController
from stage3_tools import (
    Abort,
    Later,
    RunLimits,
    RunState,
    Tool,
    ToolContext,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolOutput,
    ToolRegistry,
    execute_tool_call,
    tool,
)
from stage3_tools.run.calls import run_calls
from tests.stage3_tools.conversation import Recorder, unused_chat
from tests.tables import for_each

CALLS = (ToolCall("a", "f"), ToolCall("b", "g"))


class Answering:
    """A run whose model has just requested these calls."""

    def __init__(self, *tools, calls=CALLS, **options):
        self.events, self.calls, self.registry = [], calls, ToolRegistry(*tools)
        given = ToolLoopOptions(**{"on_event": self.events.append, **options})
        deps = ToolLoopDeps(unused_chat, ContextEngine(), OutputController(), self.registry)
        transcript = Transcript.of([Message.user("Go."), Message.assistant("", calls)])
        self.run = RunState(deps, transcript, given)
        self.run.events.turn += 1

    async def __call__(self, **rest):
        return await run_calls(self.run, self.registry, self.calls, since=2, **rest)

    @property
    def event_names(self):
        return [event.name for event in self.events]

    async def results(self):
        history = await self.run.transcript.history()
        return [(each.tool_call_id, each.text) for each in list(history)[2:]]

    async def stored_records(self):
        store, session = self.run.transcript.store, self.run.transcript.session_id
        return [
            record
            for _, record in await store.read(session)
            if record.kind.startswith(("call_", "approval"))
        ]


def tool_named(name, returns="ok", **settings):
    return Tool(name, "", None, lambda arguments: returns, **settings)


async def test_results_are_stored_and_announced_in_call_order_after_all_calls():
    answering = Answering(tool_named("f"), tool_named("g", ToolOutput("short", details="long")))
    await answering()
    assert await answering.results() == [("a", "ok"), ("b", "short")]
    assert answering.event_names == ["tool_call", "tool_call", "tool_result", "tool_result"]
    assert [(each.id, each.result.details, each.round) for each in answering.run.records] == [
        ("a", None, 1),
        ("b", "long", 1),
    ]
    assert all(each.started <= each.ended for each in answering.run.records)


async def test_details_are_stored_with_their_results_but_tracebacks_are_not():
    def fails(arguments):
        raise LookupError("no such city")

    answering = Answering(
        tool_named("f", ToolOutput("short", details={"day": date(2028, 2, 29)})),
        Tool("g", execute=fails, effect="read"),
    )
    await answering()
    stored = answering.run.transcript.store.records("")
    details = {each.message.tool_call_id: each.details for each in stored if each.kind == "message"}
    assert details["a"] == {"day": "2028-02-29"}
    assert details["b"] is None  # the traceback, the schema and the tools are derived
    assert "traceback" in answering.run.records[1].result.details


async def test_details_of_a_call_that_finished_early_are_stored_at_once_and_after_a_stop():
    async def forever(arguments):
        await asyncio.Event().wait()

    async def quick(arguments):
        return ToolOutput("short", details={"log": "x"})

    answering = Answering(Tool("f", execute=forever, effect="read"), Tool("g", execute=quick))
    running = asyncio.create_task(answering())
    for _ in range(50):
        await asyncio.sleep(0)
    assert (await answering.stored_records())[-1] == CallFinishedRecord(
        "b", "completed", Message.tool("short", "b", name="g"), {"log": "x"}
    )
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    stored = answering.run.transcript.store.records("")
    assert [each.details for each in stored if each.kind == "message"] == [None, None, {"log": "x"}]


async def test_the_start_of_a_call_is_stored_before_it_runs():
    answering = Answering(tool_named("f"), calls=(ToolCall("a", "f"), ToolCall("b", "nobody")))
    await answering()
    # An unknown tool is never started.
    assert await answering.stored_records() == [CallStartedRecord("a", "f")]


class Gates:
    """Tools that end when their gate opens, and a log of their starts."""

    def __init__(self, names, **settings):
        self.gates, self.started = {name: asyncio.Event() for name in names}, []
        self.calls = [ToolCall(name, name) for name in names]
        self.tools = [
            Tool(name, execute=self._gated(name), exclusive=name.isupper(), **settings)
            for name in names
        ]

    def _gated(self, name):
        async def wait(arguments):
            self.started.append(name)
            await self.gates[name].wait()

        return wait

    async def open(self, names=""):
        for name in names:
            self.gates[name].set()
        for _ in range(50):
            await asyncio.sleep(0)


def short(records):
    """The progress of calls as text: +a was started, -a has ended, =a has its result."""
    signs = {"call_started": "+", "call_finished": "-"}
    return " ".join(
        signs[each.kind] + each.call_id if each.kind in signs else f"={each.message.tool_call_id}"
        for each in records
        if each.kind in signs or each.message.role == "tool"
    )


class Journal:
    """The records of a run with gated tools, and how its store was asked to append them."""

    def __init__(self, names, **options):
        self.gates = Gates(names)
        self.answering = Answering(*self.gates.tools, calls=self.gates.calls, **options)
        self.running = asyncio.create_task(self.answering())

    async def open(self, names=""):
        """Open gates, and return the records with the tools that run."""
        await self.gates.open(names)
        return self.text

    @property
    def text(self):
        return short(self.answering.run.transcript.store.records(""))


async def test_a_call_that_waits_for_a_slot_is_not_recorded_as_started():
    journal = Journal("abcde", max_parallel_tools=2)
    assert (await journal.open(), journal.gates.started) == ("+a +b", ["a", "b"])
    assert await journal.open("b") == "+a +b -b +c"
    assert await journal.open("c") == "+a +b -b +c -c +d"
    assert await journal.open("ad") == "+a +b -b +c -c +d =a =b =c =d +e"
    assert journal.gates.started == [*"abcde"]
    await journal.open("e")
    assert await journal.running == ()
    assert journal.text == "+a +b -b +c -c +d =a =b =c =d +e =e"


async def test_with_a_single_slot_a_result_is_recorded_before_the_next_call_starts():
    journal = Journal("abc", max_parallel_tools=1)
    await journal.open("abc")
    await journal.running
    assert journal.text == "+a =a +b =b +c =c"


async def test_an_exclusive_call_and_the_calls_behind_it_are_recorded_when_they_start():
    journal = Journal("abXcd")
    assert await journal.open("a") == "+a +b =a"
    assert await journal.open("b") == "+a +b =a =b +X"
    assert await journal.open("X") == "+a +b =a =b +X =X +c +d"
    await journal.open("cd")
    await journal.running
    assert journal.text == "+a +b =a =b +X =X +c +d =c =d"


@for_each("exclusive", [False, True])
@for_each("end", ["cancelled", "aborted", "out of time"])
async def test_a_run_that_was_stopped_records_no_further_start(end, exclusive):
    async def stop(arguments):
        if end == "cancelled":
            running.cancel()
        elif end == "aborted":
            abort.set()
        else:
            answering.run.counts.started -= 100

    abort = Abort()
    gates = Gates("BCD" if exclusive else "bcd")
    calls = [ToolCall("a", "a"), *gates.calls]
    limits = RunLimits(seconds=50)
    options = {"max_parallel_tools": 1, "abort": abort, "limits": limits}
    first = Tool("a", execute=stop, exclusive=exclusive)
    answering = Answering(first, *gates.tools, calls=calls, **options)
    running = asyncio.create_task(answering())
    await asyncio.wait({running})
    assert running.cancelled() == (end == "cancelled")
    text = short(answering.run.transcript.store.records(""))
    assert text.lower() == "+a =a =b =c =d"
    assert gates.started == []
    statuses = [each.result.status for each in answering.run.records]
    assert statuses == ["completed", "interrupted", "interrupted", "interrupted"]


async def test_a_run_that_is_stopped_while_a_start_is_recorded_runs_no_tool():
    class StoppingStore(MemoryStore):
        async def append(self, session_id, *records, expected=None):
            length = await super().append(session_id, *records, expected=expected)
            if any(each.kind == "call_started" for each in records):
                abort.set()
            return length

    abort, recorder = Abort(), Recorder("f")
    answering = Answering(recorder.tool, tool_named("g"), abort=abort)
    records = answering.run.transcript.store.records("")
    answering.run.transcript.store = StoppingStore({"": records})
    await answering()
    assert recorder.seen == []
    assert [(each.result.status, each.result.attempts) for each in answering.run.records] == [
        ("interrupted", 0),
        ("interrupted", 0),
    ]


async def test_a_conflict_at_a_later_start_cancels_the_running_calls_and_starts_no_other():
    class ConcurrentStore(MemoryStore):
        async def append(self, session_id, *records, expected=None):
            length = await super().append(session_id, *records, expected=expected)
            if short(records) == "=a":  # another run starts the next call
                await super().append(session_id, CallStartedRecord("c", "c"))
            return length

    journal = Journal("abcd", max_parallel_tools=2)
    transcript = journal.answering.run.transcript
    transcript.store = ConcurrentStore({"": transcript.store.records("")})
    assert await journal.open("a") == "+a +b =a +c"
    with pytest.raises(SessionConflict):
        await journal.running
    assert (journal.text, journal.gates.started) == ("+a +b =a +c", ["a", "b"])
    assert [each.result.status for each in journal.answering.run.records] == [
        "completed",
        "unknown_effect",
        "interrupted",
        "interrupted",
    ]


async def test_calls_that_end_together_are_recorded_before_others_start_together():
    appends = []

    class CountingStore(MemoryStore):
        async def append(self, session_id, *records, expected=None):
            appends.append(short(records))
            return await super().append(session_id, *records, expected=expected)

    journal = Journal("abcde", max_parallel_tools=3)
    transcript = journal.answering.run.transcript
    transcript.store = CountingStore({"": transcript.store.records("")})
    await journal.open("bc")
    assert appends == ["+a +b +c", "-b", "-c", "+d +e"]
    await journal.open("ade")
    await journal.running


async def test_a_call_that_needs_approval_is_stored_and_announced_and_nothing_runs():
    recorder = Recorder("f")
    answering = Answering(recorder.tool, tool_named("g", needs_approval=True))
    assert await answering() == (CALLS[1],)
    assert (recorder.seen, await answering.results()) == ([], [])
    assert answering.event_names == ["tool_call", "tool_call", "approval_pending"]
    assert await answering.stored_records() == [ApprovalPendingRecord("b", "g", "{}")]


async def test_a_cancelled_run_stores_and_announces_the_results_of_all_calls():
    async def forever(arguments):
        await asyncio.Event().wait()

    async def quick(arguments):
        done.set()
        return "ok"

    done = asyncio.Event()
    answering = Answering(Tool("f", "", None, forever, effect="read"), Tool("g", "", None, quick))
    running = asyncio.create_task(answering())
    await done.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [(_, first), second] = await answering.results()
    assert first.startswith("Error (interrupted)")
    assert second == ("b", "ok")
    assert answering.event_names == ["tool_call", "tool_call", "tool_result", "tool_result"]
    assert [each.id for each in answering.run.records] == ["a", "b"]


async def test_a_long_result_is_truncated_for_the_model_and_complete_in_the_record():
    text = "x" * 100_001
    answering = Answering(tool_named("f", text), calls=CALLS[:1], variables_over=None)
    await answering()
    note = "The first 100000 of 100001 characters. Ask for a part of it, if the tool can give one."
    assert await answering.results() == [("a", f"{text[:-1]}\n[{note}]")]
    assert answering.run.records[0].result.output == text


async def test_progress_of_async_and_plain_tools_is_announced_between_call_and_result():
    @tool(effect="read")
    def f(context: ToolContext):
        context.progress("half")
        return "ok"

    @tool(effect="read")
    async def g(context: ToolContext):
        context.progress({"done": 1})
        return "ok"

    answering = Answering(f, g)
    await answering()
    values = [event.value for event in answering.events if event.name == "tool_progress"]
    assert sorted(map(str, values)) == ["half", "{'done': 1}"]
    assert answering.event_names[:2] == ["tool_call", "tool_call"]
    assert answering.event_names[-1] == "tool_result"


async def test_a_retry_is_announced_with_its_reason():
    fails = [ConnectionError("away")]

    def flaky(arguments):
        if fails:
            raise fails.pop()
        return "ok"

    answering = Answering(Tool("f", "", None, flaky, effect="read"), calls=CALLS[:1])
    await answering()
    assert answering.event_names == ["tool_call", "tool_retry", "tool_result"]
    assert (answering.events[1].error.kind, answering.events[1].attempt) == ("network", 1)


async def test_an_exception_of_a_progress_listener_ends_the_run_after_the_tool_finishes():
    @tool
    async def f(context: ToolContext):
        context.progress("half")
        return "done"

    def listen(event):
        if event.name == "tool_progress":
            raise LookupError("the listener broke")

    answering = Answering(f, calls=CALLS[:1], on_event=listen)
    with pytest.raises(LookupError, match="the listener broke"):
        await answering()
    assert await answering.results() == [("a", "done")]


async def test_known_results_are_stored_without_running_their_calls():
    recorder = Recorder("f")
    known = await execute_tool_call(ToolRegistry(tool_named("f", "known")), CALLS[0])
    answering = Answering(recorder.tool, tool_named("g"))
    await answering(known={"a": known})
    assert (recorder.seen, await answering.results()) == ([], [("a", "known"), ("b", "ok")])


async def test_each_call_is_announced_before_its_approval():
    order = []
    answering = Answering(
        tool_named("f"),
        tool_named("g"),
        approve=lambda request: order.append(request.call_id) or Later(),
        on_event=lambda event: order.append(event.name),
    )
    await answering()
    assert order == [
        *("tool_call", "a", "approval", "tool_call", "b", "approval"),
        *("approval_pending", "approval_pending"),
    ]


async def test_a_result_is_stored_as_soon_as_all_earlier_results_are_stored():
    gates = {name: asyncio.Event() for name in "abc"}

    def gated(name):
        async def wait(arguments):
            await gates[name].wait()

        return Tool(name, "", None, wait, effect="read")

    calls = [ToolCall(name, name) for name in "abc"]
    answering = Answering(*map(gated, "abc"), calls=calls)
    running, seen = asyncio.create_task(answering()), []
    for name in "bac":
        gates[name].set()
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append("".join(call_id for call_id, _ in await answering.results()))
    await running
    assert seen == ["", "ab", "abc"]
