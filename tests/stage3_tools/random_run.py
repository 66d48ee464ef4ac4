"""The random environment of a run of the monkey, and the checks of its result.

Stores, windows, options and listeners are drawn from a seed. A run may be stopped at any step, and
every approver and listener may reject or raise. Used by `test_monkey.py`.
"""

import asyncio
import importlib.util
from collections import Counter
from pathlib import Path
from random import Random
from typing import get_args

import httpx

from stage0_gateway import Gateway, GatewayError, Message, ScriptedModel
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MessageHistory,
    SqliteStore,
    WindowTooSmall,
)
from stage2_output import OutputController
from stage3_tools import (
    Always,
    Approve,
    Edit,
    Later,
    LoopStatus,
    NativeDialect,
    PromptDialect,
    Reject,
    ResultCache,
    RunLimits,
    ToolError,
    ToolLoopDeps,
)


def loaded(name):
    """Load another module of this folder."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


monkey = loaded("monkey")
ZOO, READER = loaded("monkey_zoo").Zoo(), OutputController()
DIALECTS = {
    "prompt": PromptDialect(READER),
    "several": PromptDialect(READER, multiple=True),
    "native": NativeDialect(),
}
LONGEST = 20  # seconds; below the limit of every tool, so only a blocked run takes this long
STATUSES = get_args(LoopStatus)


class ListenerFailed(Exception):
    """The exception that listeners and approvers raise."""


class Wire(httpx.AsyncBaseTransport):
    """A transport that answers HTTP requests with replies of the monkey."""

    def __init__(self, monkey):
        self.monkey = monkey

    async def handle_async_request(self, request):
        asked = ScriptedModel([Message.assistant("?")])  # parses the request
        await asked.handle_async_request(request)
        try:
            reply = self.monkey.reply(asked.requests[0].messages, asked.requests[0].tools)
        except GatewayError:
            reply = self.monkey.rng.choice([500, 400, 429, httpx.ConnectError("away")])
        return await ScriptedModel([reply]).handle_async_request(request)


class World:
    """The random options, tools, callbacks and checks of one run."""

    def __init__(self, entry_point, seed):
        self.rng = rng = Random(f"{entry_point} {seed}")
        self.zoo = ZOO
        self.zoo.begin(seed, self.tick)
        self.dialect = entry_point if entry_point in DIALECTS else rng.choice([*DIALECTS])
        over_wire = rng.random() < 0.2
        self.monkey = self.zoo.monkey = monkey.Monkey(
            seed, self.zoo.registry, endless=rng.random() < 0.5, tame=over_wire
        )
        self.gateway = (
            Gateway("openai:m", transport=Wire(self.monkey), max_retries=0) if over_wire else None
        )
        self.chat = self.gateway.chat if over_wire else self.monkey.chat
        self.stream = self.gateway.stream if over_wire and rng.random() < 0.5 else None
        window = KeepSystemAndRecent(rng.choice([None, 3000, 9000]), rng.choice([None, 2, 6, 20]))
        store = SqliteStore(":memory:") if rng.random() < 0.05 else None
        self.engine = ContextEngine(store=store, window=rng.choice([None, window]))
        self.deps = ToolLoopDeps(self.chat, self.engine, READER, self.zoo.registry, self.stream)
        self.abort, self.steps = asyncio.Event(), rng.choice([None, None, None, rng.randint(0, 60)])
        self.raises = rng.random() < 0.1  # whether listeners and approvers raise
        self.events, self.task, self.cancels = [], None, rng.random() < 0.2

    def tick(self):
        """Count one step. The run is stopped at a random step."""
        if self.steps is None or self.task is None:
            return
        self.steps -= 1
        if self.steps == 0:
            self.task.cancel() if self.cancels else self.abort.set()

    def maybe_raise(self):
        self.tick()
        if self.raises and self.rng.random() < 0.05:
            raise ListenerFailed("ouch")

    # ---- options

    def options(self):
        """Return random options that every entry point accepts."""
        rng = self.rng
        limits = [
            None,
            None,
            None,
            None,
            RunLimits(tokens=rng.randint(20, 900)),
            RunLimits(seconds=50),
        ]
        limits += [RunLimits(cost=0.01), RunLimits(seconds=rng.random() / 100)]
        return {
            "dialect": DIALECTS[self.dialect],
            "temperature": rng.choice([None, 1.0]),
            "max_tokens": rng.choice([None, None, 50]),
            "max_parallel_tools": rng.choice([1, 2, 8]),
            "approve": rng.choice([None, self.approve]),
            "approve_result": rng.choice([None, None, self.review]),
            "abort": rng.choice([None, self.abort]) if self.cancels else self.abort,
            "limits": rng.choice(limits),
            "variables_over": rng.choice([None, 200, 200, 4000]),
            "before_send": rng.choice([None, None, self.edit, self.edit_later]),
            "on_event": self.listen,
        }

    def loop_options(self):
        """Return random options of the loop and the runner, with at least one limit."""
        rng, options = self.rng, self.options()
        some = (
            {}
            if options["limits"] and options["limits"].tokens
            else {"max_tool_rounds": rng.choice([0, 1, 3, 6, 12])}
        )
        return {
            **options,
            "max_parse_retries": rng.randint(0, 6),
            "cache": rng.choice([None, None, ResultCache(max_entries=3)]),
            "classify": rng.choice([None, None, self.classify]),
            "max_tool_rounds": None,
            **some,
        }

    def approving_options(self):
        """Return options for resumed runs, which approve every call."""
        return {
            "approve": lambda asked: True,
            "max_tool_rounds": 2,
            "dialect": DIALECTS[self.dialect],
        }

    def listen(self, event):
        self.events.append(event)
        if event.name == "decision" and event.calls and self.monkey.bare:
            self.zoo.wrong.append("calls were read from a reply to a request without tools")
        self.maybe_raise()

    async def approve(self, asked):
        # With `check_tool_results`, one approver handles calls and results.
        if asked.result is not None:
            return self.review(asked)
        self.maybe_raise()
        if self.rng.random() < 0.3:
            await asyncio.sleep(0)
        verdicts = [
            True,
            True,
            Approve(),
            Always(),
            Reject("no"),
            False,
            Later(),
            Edit({"n": 1}),
            Edit({2: object()}),
        ]
        verdicts += [Edit({"text": "$VAR_REF{{var_1}}"}), "yes" if self.raises else True]
        asked.arguments.clear()
        return self.rng.choice(verdicts)

    def review(self, asked):
        self.maybe_raise()
        verdicts = [True, True, Always(), Reject("no"), False, Later() if self.raises else True]
        return self.rng.choice(verdicts)

    def classify(self, error):
        if isinstance(error, KeyError):
            return ToolError("network", "so they say", retryable=True)
        return self.rng.choice([None, type(error).__name__])

    def edit(self, messages, info):
        self.maybe_raise()
        drawn = self.rng.random()
        if self.raises and drawn < 0.1:
            return []
        return [*messages, {"role": "user", "content": "Be quick."}] if drawn < 0.5 else None

    async def edit_later(self, messages, info):
        await asyncio.sleep(0)
        return self.edit(messages, info)

    # ---- checks

    def expected(self, error):
        """Return whether the entry point may raise this error."""
        asked = isinstance(error, TypeError) and "approver returned" in str(error)
        emptied = isinstance(error, ValueError) and "before_send returned an empty list" in str(
            error
        )
        return isinstance(error, GatewayError | WindowTooSmall | ListenerFailed) or (
            self.raises and (asked or emptied)
        )

    async def outcome_of(self, body):
        """Return the value of the coroutine, or None if it was cancelled or raised an expected
        error."""
        self.task = task = asyncio.ensure_future(body)
        try:
            async with asyncio.timeout(LONGEST):
                await asyncio.wait({task})
        finally:
            self.task = None
        if task.cancelled():
            assert self.cancels, "the run was not cancelled by the test"
            return None
        if (error := task.exception()) is None:
            return task.result()
        if not self.expected(error):
            raise error
        return None

    def check(self, result, history, statuses=STATUSES):
        """Check the result and the history of a finished run."""
        assert self.zoo.wrong == []
        assert result.status in statuses
        assert MessageHistory(history).check_history() == []
        answers = {each.tool_call_id: each for each in history if each.role == "tool"}
        records = getattr(result, "tool_call_history", None) or getattr(result, "history", ())
        assert [*answers][len(answers) - len(records) :] == [record.id for record in records]
        for record in records:
            assert answers[record.id].is_error == record.result.is_error
            if record.result.status in ("completed", "error") and record.id in self.zoo.tries:
                assert len(self.zoo.tries[record.id]) == record.result.attempts

    @property
    def waiting(self):
        """Return the ids of the calls that wait for approval."""
        events = [each for each in self.events if each.name in ("approval_pending", "tool_result")]
        answered = {each.result.call_id for each in events if each.name == "tool_result"}
        return {each.call.id for each in events if each.name == "approval_pending"} - answered

    def check_events(self):
        counts = Counter(
            (each.call.id if each.name == "tool_call" else each.result.call_id, each.name)
            for each in self.events
            if each.name in ("tool_call", "tool_result")
        )
        called, answered = (
            {id for id, name in counts if name == kind} for kind in ("tool_call", "tool_result")
        )
        assert called == answered
        assert [each.name for each in self.events].count("loop_end") == 1
        assert self.events[-1].name == "loop_end"
