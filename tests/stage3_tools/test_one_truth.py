"""Real tool sets (BFCL) give the same run as text and as native calls in four formats.

Only formats differ between the runs: the text of decisions, the messages of requests, ids, times.
Everything else must be equal: the arguments of tools, results, events, the stored history, the
reply.
"""

import json
import re
from dataclasses import dataclass, replace

import httpx
import pytest

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage0_gateway.wire.names import sent_name
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

pytestmark = pytest.mark.long

EVERY_VALID, EVERY_INVALID = 3, 8
ACCEPTED = re.compile("[a-zA-Z_][a-zA-Z0-9_-]{0,63}")  # the names that all providers accept
REPLY = 'Said, "done" – 完了.'


class RowTransport(httpx.AsyncBaseTransport):
    """A transport for all rows; each row has its own script."""

    script = None

    async def handle_async_request(self, request):
        return await self.script.handle_async_request(request)


class Characters:
    """A fast token counter, because the default one takes a tenth of the time here."""

    def count(self, text):
        return len(text)


class ByText:
    """Scripts of the prompt dialect: a decision is text, several calls are a JSON list."""

    def __init__(self):
        self.model, self.dialects = "openai:m", (PromptDialect(), PromptDialect(multiple=True))

    def asks(self, calls):
        decisions = [{"tool": call["name"], "arguments": call["arguments"]} for call in calls]
        return json.dumps(decisions[0] if len(decisions) == 1 else decisions, ensure_ascii=False)

    def replies(self):
        return json.dumps({"tool": None, "reply": REPLY})

    def received(self, request):
        """Return the results that the model received."""
        users = [message.text for message in request.messages if message.role == "user"]
        return [text.partition("\n")[2] for text in users if text.startswith("[Tool result for ")]

    def offered(self, request):
        """Return the tools that the model received."""
        lines = request.messages[0].text.partition("parameters:\n")[2].splitlines()
        return [(tool["name"], tool["description"]) for tool in map(json.loads, lines)]


class ByCall:
    """Scripts of native calls, with the names that were sent to the provider."""

    def __init__(self, wire):
        self.model, self.dialects = f"{wire}:m", (NativeDialect(),) * 2
        self._made = 0

    def asks(self, calls):
        made = []
        for number, call in enumerate(calls):
            self._made += 1  # Gemini has no ids; an id in this form is not sent
            id = f"call_{number}" if self.model == "gemini:m" else f"id-{self._made}"
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            made.append(ToolCall(id, sent_name(call["name"]), arguments))
        return Message.assistant("", made)

    def replies(self):
        return REPLY

    def received(self, request):
        return [message.text for message in request.messages if message.role == "tool"]

    def offered(self, request):
        return [(spec.name, spec.description) for spec in request.tools]


@dataclass
class Outcome:
    """Everything that must be equal in the five runs."""

    reached: list
    received: list
    result: tuple
    records: list
    events: list
    history: list
    problems: list


class DialectRuns:
    """One of the five dialects, for all rows."""

    def __init__(self, script, reached):
        self.script, self._reached = script, reached
        self._line = RowTransport()
        self._gateway = Gateway(script.model, transport=self._line, max_retries=0)
        self._output = OutputController()

    async def run(self, row, registry, turns):
        """Run a row with these calls, turn by turn, and return the outcome."""
        self._reached.clear()
        script = ScriptedModel([*map(self.script.asks, turns), self.script.replies()])
        self._line.script, events = script, []
        engine = ContextEngine(token_counter=Characters())
        await engine.create_session("s")
        deps = ToolLoopDeps(self._gateway, engine, self._output, registry)
        options = ToolLoopOptions(
            dialect=self.script.dialects[any(len(calls) > 1 for calls in turns)],
            on_event=events.append,
        )
        result = await run_tool_loop(deps, "s", row["question"], options)
        script.assert_finished()
        self._check_offer(registry, script.requests[-1])
        history = await engine.history("s")
        return Outcome(
            reached=[*self._reached],
            received=self.script.received(script.requests[-1]),
            result=(
                result.status,
                result.status_reason,
                result.reply,
                result.tool_rounds,
                result.usage,
            ),
            records=[
                (each.name, each.arguments, each.round, bare_result(each.result))
                for each in result.history
            ],
            events=list(map(bare_event, events)),
            history=list(map(bare_message, history)),
            problems=history.check_history(),
        )

    def _check_offer(self, registry, request):
        """Check that a request has the tools of the registry, under names the provider accepts."""
        name_of = sent_name if isinstance(self.script, ByCall) else str
        tools = [(name_of(tool.name), tool.description) for tool in registry.list()]
        assert self.script.offered(request) == tools
        assert name_of is str or all(ACCEPTED.fullmatch(name) for name, _ in tools)


def bare_call(call):
    return replace(call, id="")


def bare_result(result):
    """Return a result without id and duration, with its error as a comparable dict."""
    return replace(result, call_id="", duration=0.0, error=result.error and vars(result.error))


def bare_message(message):
    """Return a stored message without ids and without the raw text."""
    id = message.tool_call_id and "id"
    calls = tuple(map(bare_call, message.tool_calls))
    return replace(message, tool_calls=calls, tool_call_id=id, raw_text=None)


def bare_event(event):
    """Return an event without ids; of what a dialect writes and reads, its name."""
    match event.name:
        case "run_start" | "request" | "reply":
            return event.name
        case "decision":
            return replace(event, text="", calls=tuple(map(bare_call, event.calls)))
        case "tool_call":
            return replace(event, call=bare_call(event.call))
        case "tool_result":
            return replace(event, result=bare_result(event.result))
    return event


class Tools:
    """The tools of all rows, cached because creating them takes longer than using them."""

    def __init__(self):
        self.reached = []
        self._made = {}

    def registry(self, row):
        return ToolRegistry(*map(self._tool, row["tools"]))

    def _tool(self, plain):
        key = json.dumps(plain)
        if key not in self._made:
            self._made[key] = self._noting(plain["name"], plain["description"], plain["parameters"])
        return self._made[key]

    def _noting(self, name, description, parameters):
        async def execute(arguments):
            self.reached.append([name, arguments])
            return {"ran": name, "with": arguments}

        return Tool(name, description, parameters, execute)


@pytest.fixture(scope="module")
def harness(recorded):
    return recorded("tools.jsonl")[1]


@pytest.fixture(scope="module")
def rows(recorded):
    return recorded("tools.jsonl")[0]


@pytest.fixture(scope="module")
def tools():
    return Tools()


@pytest.fixture(scope="module")
def all_runs(tools):
    script = (
        ByText(),
        ByCall("openai"),
        ByCall("anthropic"),
        ByCall("gemini"),
        ByCall("openai-responses"),
    )
    return [DialectRuns(each, tools.reached) for each in script]


async def same_outcome(all_runs, tools, row, turns):
    """Return the outcome of a row, after a check that all five dialects agree."""
    registry = tools.registry(row)
    first, *others = [await runs.run(row, registry, turns) for runs in all_runs]
    for runs, other in zip(all_runs[1:], others, strict=True):
        assert other == first, (row["id"], runs.script.model)
    assert first.problems == [], row["id"]
    return first


def pairs(calls):
    return [[call["name"], call["arguments"]] for call in calls]


def foreign(rows):
    """Return the number of tools whose names providers reject."""
    return sum(sent_name(tool["name"]) != tool["name"] for row in rows for tool in row["tools"])


async def test_one_call_per_turn_gives_the_same_run_in_all_five_dialects(
    all_runs, tools, rows, harness, say
):
    checked, rows = 0, rows[::EVERY_VALID]
    for row in rows:
        calls = row["valid_calls"]
        outcome = await same_outcome(all_runs, tools, row, [[call] for call in calls])
        assert harness.same(outcome.reached, pairs(calls)), row["id"]
        assert outcome.result[:4] == ("completed", None, REPLY, len(calls)), row["id"]
        results = [json.loads(text.partition("\nNote: ")[0]) for text in outcome.received]
        assert harness.same(
            results, [{"ran": name, "with": given} for name, given in outcome.reached]
        ), row["id"]
        checked += len(calls)
    nothing = sum(not row["valid_calls"] for row in rows)
    say(
        f"five runs, one call a turn: {checked} calls of {len(rows)} rows, {nothing} of them without a call, "
        f"with {foreign(rows)} tools whose names are encoded"
    )


async def test_several_calls_in_one_reply_give_the_same_run_in_all_five_dialects(
    all_runs, tools, rows, harness, say
):
    several = [row for row in rows if len(row["valid_calls"]) > 1]
    checked = 0
    for row in several:
        calls = row["valid_calls"]
        outcome = await same_outcome(all_runs, tools, row, [calls])
        assert harness.same(outcome.reached, pairs(calls)), row["id"]
        assert outcome.result[:4] == ("completed", None, REPLY, 1), row["id"]
        checked += len(calls)
    say(f"five runs, all calls in one reply: {checked} calls of {len(several)} rows")


async def test_invalid_calls_get_the_same_errors_in_all_five_dialects(all_runs, tools, rows, say):
    broken = [row for row in rows if row.get("invalid_calls")][::EVERY_INVALID]
    checked = 0
    for row in broken:
        calls = row["invalid_calls"]
        outcome = await same_outcome(all_runs, tools, row, [[call] for call in calls])
        assert (outcome.reached, outcome.result[:4]) == ([], ("completed", None, REPLY, 0)), row[
            "id"
        ]
        assert [result.error["kind"] for *_, result in outcome.records] == ["validation"] * len(
            calls
        ), row["id"]
        assert outcome.received == [result.output for *_, result in outcome.records], row["id"]
        assert all(text.startswith("Error (validation): ") for text in outcome.received), row["id"]
        checked += len(calls)
    say(f"five runs, invalid calls: {checked} calls of {len(broken)} rows refused")
