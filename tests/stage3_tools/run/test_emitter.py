"""Tests of the emitter: the order of listeners, what is awaited, and listeners that raise."""

import asyncio

import pytest

from stage3_tools import LoopEnded, ReplyText, RunStarted, ToolProgressed, TurnEnded, TurnStarted
from stage3_tools.run.emitter import EventEmitter, call_back
from tests.tables import for_each


def emitter(*listeners, stopped=False):
    """Return an emitter with these listeners."""
    made = EventEmitter(None, lambda: stopped)
    made.use(listeners)
    return made


class Log:
    """What listeners received, in the order in which they were called."""

    def __init__(self):
        self.lines = []

    def plain(self, name, fails=()):
        def listen(event):
            self.lines.append(f"{name} {event.name}")
            if event.name in fails:
                raise LookupError(f"{name} broke")

        return listen

    def slow(self, name, fails=(), gate=None):
        """An async listener that needs several steps of the event loop."""

        async def listen(event):
            self.lines.append(f"{name} begins {event.name}")
            if gate is not None:
                await gate.wait()
            for _ in range(3):
                await asyncio.sleep(0)
            self.lines.append(f"{name} ends {event.name}")
            if event.name in fails:
                raise LookupError(f"{name} broke")

        return listen


def started(**rest):
    given = {"started": 1.0, "entry": "loop", "session_id": "s", "question": None, "options": {}}
    return {**given, "dialect": None, "model": None, "gateway": None, "tools": (), **rest}


ENDED = {"status": "completed", "reply": "done", "result": None}


# ---- order


async def test_listeners_are_called_in_the_order_given_one_after_another():
    log = Log()
    events = emitter(log.plain("a"), log.slow("b"), log.plain("c"))
    await events.emit(TurnStarted)
    assert log.lines == [
        *("a turn_start", "b begins turn_start", "b ends turn_start", "c turn_start")
    ]


async def test_an_event_carries_the_turn_the_run_and_the_seconds_since_the_start():
    received = []
    events = emitter(received.append)
    events.begin()
    await events.emit(RunStarted, **started())
    events.turn = 2
    await events.emit(TurnEnded, usage=None)
    assert received[1] == TurnEnded(turn=2, usage=None)
    assert [each.run_id for each in received] == [events.run_id] * 2
    assert received[0].at == 0.0 < received[1].at < 60


async def test_without_listeners_nothing_is_created():
    events = emitter()
    await events.emit(TurnEnded, unknown_field=1)
    await events.emit_safely(TurnEnded, unknown_field=1)
    events.emit_soon(TurnEnded, unknown_field=1)


async def test_the_listeners_of_the_next_event_may_differ():
    log = Log()
    events = emitter(log.plain("a"))
    await events.emit(TurnStarted)
    events.use([log.plain("b")])
    await events.emit(TurnStarted)
    assert log.lines == ["a turn_start", "b turn_start"]


# ---- what may not wait


async def test_an_event_inside_of_a_tool_does_not_wait_and_is_not_overtaken():
    log, gate = Log(), asyncio.Event()
    events = emitter(log.slow("a", gate=gate), log.plain("b"))
    events.emit_soon(ToolProgressed, call=None, value=1)
    events.emit_soon(ToolProgressed, call=None, value=2)
    assert log.lines == ["b tool_progress"] * 2
    gate.set()
    await events.emit(TurnStarted)
    assert log.lines[2:] == [
        *("a begins tool_progress", "a ends tool_progress"),
        *("a begins tool_progress", "a ends tool_progress"),
        *("a begins turn_start", "a ends turn_start", "b turn_start"),
    ]


async def test_an_abandoned_tool_reports_nothing_after_the_end():
    log = Log()
    events = emitter(log.plain("a"))
    events.is_over = True
    events.emit_soon(ToolProgressed, call=None, value=1)
    assert log.lines == []


async def test_a_cancelled_run_calls_all_listeners_in_order_and_awaits_none():
    log, gate = Log(), asyncio.Event()
    events = emitter(log.slow("a", gate=gate), log.plain("b"), log.slow("c"))

    async def run():
        try:
            await asyncio.Event().wait()
        finally:
            await events.emit_safely(TurnEnded, usage=None)
            await events.emit_safely(LoopEnded, **ENDED)
            log.lines.append("the run has ended")

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert log.lines[:3] == ["b turn_end", "b loop_end", "the run has ended"]
    gate.set()
    while len(log.lines) < 11:  # noqa: ASYNC110 (the listeners end in tasks of their own)
        await asyncio.sleep(0)
    assert log.lines[3:] == [
        *("a begins turn_end", "a ends turn_end", "c begins turn_end", "c ends turn_end"),
        *("a begins loop_end", "a ends loop_end", "c begins loop_end", "c ends loop_end"),
    ]


async def test_a_run_that_was_stopped_awaits_its_listeners_although_its_task_is_cancelled():
    log = Log()
    events = emitter(log.slow("a"), stopped=True)

    async def run():
        try:
            await asyncio.Event().wait()
        finally:
            await events.emit_safely(TurnEnded, usage=None)
            log.lines.append("the run has ended")

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert log.lines == ["a begins turn_end", "a ends turn_end", "the run has ended"]


async def test_a_listener_that_is_cancelled_does_not_hide_the_event_from_the_others():
    log, gate = Log(), asyncio.Event()
    events = emitter(log.slow("a", gate=gate), log.plain("b"))
    task = asyncio.create_task(events.emit(TurnStarted))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert (task.cancelled(), log.lines) == (True, ["a begins turn_start", "b turn_start"])


# ---- listeners that raise


@for_each("is_async", [False, True])
async def test_a_listener_that_raises_receives_nothing_more_and_the_others_everything(is_async):
    log = Log()
    broken = (log.slow if is_async else log.plain)("a", fails=["turn_start"])
    events = emitter(broken, log.plain("b"))
    with pytest.raises(LookupError, match="a broke"):
        await events.emit(TurnStarted)
    log.lines.clear()
    await events.emit(TurnEnded, usage=None)
    await events.emit(LoopEnded, **ENDED)
    assert log.lines == ["b turn_end", "b loop_end"]


async def test_of_several_listeners_that_raise_the_first_exception_is_raised_once():
    log = Log()
    events = emitter(log.plain("a", ["turn_start"]), log.plain("b", ["turn_start"]))
    with pytest.raises(LookupError, match="a broke"):
        await events.emit(TurnStarted)
    await events.emit(TurnStarted)
    assert log.lines == ["a turn_start", "b turn_start"]


@for_each("is_async", [False, True])
async def test_where_nothing_may_fail_the_next_event_raises(is_async):
    log = Log()
    events = emitter((log.slow if is_async else log.plain)("a", ["turn_end"]), log.plain("b"))
    await events.emit_safely(TurnEnded, usage=None)
    await events.emit_safely(TurnStarted)
    with pytest.raises(LookupError, match="a broke"):
        await events.emit(LoopEnded, **ENDED)
    assert [line for line in log.lines if line.startswith("b")] == [
        *("b turn_end", "b turn_start", "b loop_end")
    ]


@for_each("is_async", [False, True])
async def test_an_exception_in_the_progress_of_a_tool_is_raised_by_the_next_event(is_async):
    log = Log()
    events = emitter((log.slow if is_async else log.plain)("a", ["tool_progress"]))
    events.emit_soon(ToolProgressed, call=None, value=1)
    with pytest.raises(LookupError, match="a broke"):
        await events.emit(TurnStarted)


async def test_the_next_event_raises_also_if_its_only_listener_has_raised():
    events = emitter(Log().plain("a", ["turn_end"]))
    await events.emit_safely(TurnEnded, usage=None)
    assert events.receivers(TurnStarted) == ()
    with pytest.raises(LookupError, match="a broke"):
        await events.emit(TurnStarted)


async def test_a_listener_that_has_raised_is_not_used_again_by_other_options():
    log = Log()
    broken = log.plain("a", ["turn_start"])
    events = emitter(broken)
    with pytest.raises(LookupError):
        await events.emit(TurnStarted)
    events.use([broken, log.plain("b")])
    await events.emit(TurnStarted)
    assert log.lines == ["a turn_start", "b turn_start"]


async def test_a_run_that_continues_after_an_exception_uses_all_listeners_again():
    log = Log()
    broken = log.plain("a", ["turn_start"])
    events = emitter(broken)
    await events.emit_safely(TurnStarted)
    events.is_over = True
    events.reopen()
    await events.emit(TurnEnded, usage=None)
    assert log.lines == ["a turn_start", "a turn_end"]


# ---- events that no listener uses


class Ignoring:
    """A listener that does not use some events."""

    def __init__(self, *names):
        self.ignores, self.received = frozenset(names), []

    def __call__(self, event):
        self.received.append(event.name)


FIELDS = {TurnStarted: {}, TurnEnded: {"usage": None}, ReplyText: {"text": "a", "delta": "a"}}


async def test_a_listener_does_not_receive_what_it_ignores():
    words, turns = Ignoring("turn_end"), Ignoring("reply_text")
    events = emitter(words, turns)
    for kind in (TurnStarted, TurnEnded, ReplyText):
        await events.emit(kind, **FIELDS[kind])
    assert words.received == ["turn_start", "reply_text"]
    assert turns.received == ["turn_start", "turn_end"]


async def test_an_event_that_all_listeners_ignore_is_not_created():
    class NotCreated(ReplyText):
        def __new__(cls, *_):
            raise AssertionError("created")

    events = emitter(Ignoring("reply_text"))
    await events.emit(NotCreated)
    await events.emit_safely(NotCreated)
    events.emit_soon(NotCreated)
    assert events.receivers(NotCreated) == ()
    with pytest.raises(AssertionError, match="created"):
        await emitter(Ignoring("reply_text"), print).emit(NotCreated)


# ---- functions of the program


async def test_a_callback_may_be_plain_async_or_missing():
    seen = []

    async def later(*values):
        seen.append(values)

    await call_back(lambda *values: seen.append(values), 1, 2)
    await call_back(later, 3)
    await call_back(None, 4)
    assert seen == [(1, 2), (3,)]
