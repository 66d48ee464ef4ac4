"""One run with random stores, windows, options, callbacks and tools, and the checks of its result.

All are drawn from a seed. A run may be stopped at any step, and every approver and listener may reject
or raise.
"""

import asyncio
from collections import Counter
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
from tests.stage3_tools.random_model import RandomModel
from tests.stage3_tools.random_tools import RandomTools

TOOLS, READER = RandomTools(), OutputController()
DIALECTS = {
    "prompt": PromptDialect(READER),
    "several": PromptDialect(READER, multiple=True),
    "native": NativeDialect(),
}
LONGEST = 20  # seconds; below the limit of every tool, so only a blocked run takes this long
STATUSES = get_args(LoopStatus)


class ListenerFailed(Exception):
    """The exception that listeners and approvers raise."""


class RandomServer(httpx.AsyncBaseTransport):
    """A transport that answers HTTP requests with replies of a random model."""

    def __init__(self, model):
        self.model = model

    async def handle_async_request(self, request):
        parser = ScriptedModel([Message.assistant("?")])
        await parser.handle_async_request(request)
        [parsed] = parser.requests
        try:
            reply = self.model.reply(parsed.messages, parsed.tools)
        except GatewayError:
            reply = self.model.rng.choice([500, 400, 429, httpx.ConnectError("away")])
        return await ScriptedModel([reply]).handle_async_request(request)


class RandomRun:
    """The random options, tools, callbacks and checks of one run."""

    def __init__(self, entry_point, seed):
        self.rng = rng = Random(f"{entry_point} {seed}")
        self.tools = TOOLS
        self.tools.begin(seed, self.count_step)
        self.dialect = entry_point if entry_point in DIALECTS else rng.choice([*DIALECTS])
        over_http, endless = rng.random() < 0.2, rng.random() < 0.5
        self.model = RandomModel(seed, self.tools.registry, endless=endless, simple=over_http)
        self.tools.model = self.model
        self.gateway, self.chat, self.stream = None, self.model.chat, None
        if over_http:
            transport = RandomServer(self.model)
            self.gateway = Gateway("openai:m", transport=transport, max_retries=0)
            self.chat = self.gateway.chat
            self.stream = self.gateway.stream if rng.random() < 0.5 else None
        window = KeepSystemAndRecent(rng.choice([None, 3000, 9000]), rng.choice([None, 2, 6, 20]))
        store = SqliteStore(":memory:") if rng.random() < 0.05 else None
        self.engine = ContextEngine(store=store, window=rng.choice([None, window]))
        self.deps = ToolLoopDeps(
            self.chat, self.engine, READER, self.tools.registry, self.stream, gateway=self.gateway
        )
        self.abort, self.steps = asyncio.Event(), rng.choice([None, None, None, rng.randint(0, 60)])
        self.raises = rng.random() < 0.1  # whether listeners and approvers raise
        self.events, self.task, self.cancels = [], None, rng.random() < 0.2

    def count_step(self):
        """Count one step. The run is stopped at a random step."""
        if self.steps is None or self.task is None:
            return
        self.steps -= 1
        if self.steps == 0:
            self.task.cancel() if self.cancels else self.abort.set()

    def maybe_raise(self):
        self.count_step()
        if self.raises and self.rng.random() < 0.05:
            raise ListenerFailed("a listener failed")

    # ---- options

    def options(self):
        """Return random options that every entry point accepts."""
        rng = self.rng
        limits = [
            *[None] * 4,
            RunLimits(tokens=rng.randint(20, 900)),
            RunLimits(seconds=50),
            RunLimits(cost=0.01) if self.gateway is None else None,  # without prices it is refused
            RunLimits(seconds=rng.random() / 100),
        ]
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
        has_limit = options["limits"] and options["limits"].tokens
        return {
            **options,
            "max_parse_retries": rng.randint(0, 6),
            "cache": rng.choice([None, None, ResultCache(max_entries=3)]),
            "classify": rng.choice([None, None, self.classify]),
            "max_tool_rounds": None if has_limit else rng.choice([0, 1, 3, 6, 12]),
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
        if event.name == "decision" and event.calls and self.model.bare:
            self.tools.wrong.append("calls were read from a reply to a request without tools")
        self.maybe_raise()

    async def approve(self, asked):
        # With `check_tool_results`, one approver handles calls and results.
        if asked.result is not None:
            return self.review(asked)
        self.maybe_raise()
        if self.rng.random() < 0.3:
            await asyncio.sleep(0)
        decisions = [
            *[True, True, False, Approve(), Always(), Reject("no"), Later()],
            *[Edit({"n": 1}), Edit({2: object()}), Edit({"text": "$VAR_REF{{var_1}}"})],
            "yes" if self.raises else True,
        ]
        asked.arguments.clear()
        return self.rng.choice(decisions)

    def review(self, asked):
        self.maybe_raise()
        decisions = [True, True, Always(), Reject("no"), False, Later() if self.raises else True]
        return self.rng.choice(decisions)

    def classify(self, error):
        if isinstance(error, KeyError):
            return ToolError("network", "the network is down", retryable=True)
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
        if isinstance(error, GatewayError | WindowTooSmall | ListenerFailed):
            return True
        invalid_decision = isinstance(error, TypeError) and "approver returned" in str(error)
        no_messages = isinstance(error, ValueError) and "returned an empty list" in str(error)
        return self.raises and (invalid_decision or no_messages)

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
        assert self.tools.wrong == []
        assert result.status in statuses
        assert MessageHistory(history).check_history() == []
        answers = {each.tool_call_id: each for each in history if each.role == "tool"}
        records = getattr(result, "tool_call_history", None) or getattr(result, "history", ())
        assert [*answers][len(answers) - len(records) :] == [record.id for record in records]
        for record in records:
            assert answers[record.id].is_error == record.result.is_error
            if record.result.status in ("completed", "error") and record.id in self.tools.attempts:
                assert len(self.tools.attempts[record.id]) == record.result.attempts

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
