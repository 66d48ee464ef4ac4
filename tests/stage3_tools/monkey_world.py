"""What a run of the monkey works with, drawn from a seed: stores, windows, options, listeners; and
what must hold.

A run may be stopped at any step, and everybody who is asked or told may object, or raise. Used by
`test_monkey.py`.
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
    """Another module of this folder."""
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
LONGEST = (
    20  # seconds, and less than a tool has; nothing here waits, so only what hangs takes so long
)
STATUSES = get_args(LoopStatus)


class Bite(Exception):
    """What listeners and approvers raise."""


class Wire(httpx.AsyncBaseTransport):
    """The monkey at the other end of a wire."""

    def __init__(self, monkey):
        self.monkey = monkey

    async def handle_async_request(self, request):
        asked = ScriptedModel([Message.assistant("?")])  # it reads the request
        await asked.handle_async_request(request)
        try:
            reply = self.monkey.reply(asked.requests[0].messages, asked.requests[0].tools)
        except GatewayError:
            reply = self.monkey.rng.choice([500, 400, 429, httpx.ConnectError("away")])
        return await ScriptedModel([reply]).handle_async_request(request)


class World:
    """A run, and all it works with."""

    def __init__(self, face, seed):
        self.rng = rng = Random(f"{face} {seed}")
        self.zoo = ZOO
        self.zoo.begin(seed, self.tick)
        self.dialect = face if face in DIALECTS else rng.choice([*DIALECTS])
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
        self.bites = rng.random() < 0.1  # whether listeners and approvers raise
        self.events, self.task, self.cancels = [], None, rng.random() < 0.2

    def tick(self):
        """One more step of whatever; at one of them the run is stopped."""
        if self.steps is None or self.task is None:
            return
        self.steps -= 1
        if self.steps == 0:
            self.task.cancel() if self.cancels else self.abort.set()

    def bite(self):
        self.tick()
        if self.bites and self.rng.random() < 0.05:
            raise Bite("ouch")

    # ---- options
    # ---------------------------------------------------------------------------------------------

    def options(self):
        """What every face takes."""
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
        """What only the loop and the runner take; there is always a limit."""
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

    def consenting(self):
        """For runs that answer what was left open: nobody objects."""
        return {
            "approve": lambda asked: True,
            "max_tool_rounds": 2,
            "dialect": DIALECTS[self.dialect],
        }

    def listen(self, event):
        self.events.append(event)
        if event.name == "decision" and event.calls and self.monkey.bare:
            self.zoo.wrong.append("calls were taken from a reply to a request without tools")
        self.bite()

    async def approve(self, asked):
        if asked.result is not None:  # `check_tool_results` asks the same one
            return self.review(asked)
        self.bite()
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
        verdicts += [Edit({"text": "$VAR_REF{{var_1}}"}), "yes" if self.bites else True]
        asked.arguments.clear()
        return self.rng.choice(verdicts)

    def review(self, asked):
        self.bite()
        verdicts = [True, True, Always(), Reject("no"), False, Later() if self.bites else True]
        return self.rng.choice(verdicts)

    def classify(self, error):
        if isinstance(error, KeyError):
            return ToolError("network", "so they say", retryable=True)
        return self.rng.choice([None, type(error).__name__])

    def edit(self, messages, info):
        self.bite()
        drawn = self.rng.random()
        if self.bites and drawn < 0.1:
            return []
        return [*messages, {"role": "user", "content": "Be quick."}] if drawn < 0.5 else None

    async def edit_later(self, messages, info):
        await asyncio.sleep(0)
        return self.edit(messages, info)

    # ---- what must hold
    # --------------------------------------------------------------------------------------

    def expected(self, error):
        """Whether a face says that it raises such a thing."""
        asked = isinstance(error, TypeError) and "approver returned" in str(error)
        emptied = isinstance(error, ValueError) and "before_send returned an empty list" in str(
            error
        )
        return isinstance(error, GatewayError | WindowTooSmall | Bite) or (
            self.bites and (asked or emptied)
        )

    async def tried(self, body):
        """What a coroutine returns; None where it was cancelled or raised what it may."""
        self.task = task = asyncio.ensure_future(body)
        try:
            async with asyncio.timeout(LONGEST):
                await asyncio.wait({task})
        finally:
            self.task = None
        if task.cancelled():
            assert self.cancels, "nobody has cancelled it"
            return None
        if (error := task.exception()) is None:
            return task.result()
        if not self.expected(error):
            raise error
        return None

    def check(self, result, history, statuses=STATUSES):
        """What must be true of a run that has ended."""
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
        """Ids of the calls that wait for consent."""
        told = [each for each in self.events if each.name in ("approval_pending", "tool_result")]
        answered = {each.result.call_id for each in told if each.name == "tool_result"}
        return {each.call.id for each in told if each.name == "approval_pending"} - answered

    def check_events(self):
        told = Counter(
            (each.call.id if each.name == "tool_call" else each.result.call_id, each.name)
            for each in self.events
            if each.name in ("tool_call", "tool_result")
        )
        called, answered = (
            {id for id, name in told if name == kind} for kind in ("tool_call", "tool_result")
        )
        assert called == answered
        assert [each.name for each in self.events].count("loop_end") == 1
        assert self.events[-1].name == "loop_end"
