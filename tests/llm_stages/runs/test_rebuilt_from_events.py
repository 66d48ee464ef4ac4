"""A listener can rebuild the content of a run file from the events alone.

`FromEvents` knows neither the run file nor the run: it sees events. What it collects is compared with
what the reader finds in the file, for random runs of all entries and dialects, streamed or not, with
aborts, failures, compactions and runs inside of tools.
"""

from functools import partial

import pytest

from llm_stages import Run, read_runs
from llm_stages.runs.interpretation import interpretation, is_json_in_text
from stage0_gateway import ChatResponse, Message, Usage
from stage1_context import CompactionPolicy, KeepSystemAndRecent
from stage2_output import extract_json
from stage3_tools import (
    Edit,
    Redact,
    Reject,
    Tool,
    ToolContext,
    ToolLoopDeps,
    plain_data,
    run_tool_loop,
)
from tests.llm_stages.runs.test_random_runs import TracedRun
from tests.stage3_tools.conversation import answer, call
from tests.stage3_tools.random_use import run_randomly

RUNS = [20, pytest.param(60, marks=pytest.mark.long)]  # of each entry point


def ended(at):
    return round(at, 6)


class FromEvents:
    """Collects the content of each run from its events, by the id of the run."""

    def __init__(self):
        self.runs = {}

    def __call__(self, event):
        if event.name == "run_start":
            self.runs[event.run_id] = {"turns": {}, "end": None, "tools": event.tools}
        run = self.runs[event.run_id]
        empty = {"request": None, "reply": None, "decision": None, "calls": {}, "compactions": []}
        if event.name not in ("run_start", "loop_end", "turn_start", "turn_end", *WORDS):
            run["turns"].setdefault(event.turn, empty)
        if collect := getattr(self, event.name, None):
            collect(run, run["turns"].get(event.turn), event)

    def run_start(self, run, turn, event):
        settings = getattr(event.dialect, "settings", {})
        run["header"] = {
            "time": event.started,
            "entry": event.entry,
            "model": event.model,
            "session_id": event.session_id,
            "dialect": {"name": type(event.dialect).__name__, **settings},
            "options": dict(event.options),
            "parent": (event.parent_run_id, event.parent_call_id),
        }

    def compaction(self, run, turn, event):
        turn["compactions"].append((event.usage, event.cost, event.before, event.after))

    def request(self, run, turn, event):
        run["tools"], run["reply"] = event.tools, None
        keywords = {name: each for name, each in event.keywords.items() if name != "cache_key"}
        turn["request"] = {
            "at": ended(event.at),
            "messages": dictionaries(event.messages),
            "stored": dictionaries(event.conversation),
            "dropped": [(message.to_dict(), reason) for message, reason in event.dropped],
            "keywords": canonical(keywords),
            "tools": [(tool.name, tool.effect) for tool in event.tools],
        }

    def reply(self, run, turn, event):
        response = run["reply"] = event.response
        names = ("finish_reason", "raw_finish_reason", "model", "request_id", "refusal", "cost")
        turn["reply"] = {
            "message": response.message.to_dict(),
            "usage": response.usage,
            **{name: getattr(response, name) for name in names},
            "error": None,
            "sent": True,
        }

    def request_failed(self, run, turn, event):
        turn["reply"] = {
            "message": event.message and event.message.to_dict(),
            "usage": None,
            **dict.fromkeys(
                ("finish_reason", "raw_finish_reason", "model", "request_id", "refusal", "cost")
            ),
            "error": type(event.error).__name__,
            "sent": event.sent,
        }

    def decision(self, run, turn, event):
        self._decide(run, turn, event, event.calls, event.reply, None, (), event.repairs)
        tools = {tool.name: tool for tool in run["tools"]}
        for made in event.calls:
            self._add_call(turn, made, tools.get(made.name))

    def feedback(self, run, turn, event):
        self._decide(run, turn, event, (), None, event.feedback, event.issues, ())

    def _decide(self, run, turn, event, calls, reply, feedback, issues, repairs):
        message = run.get("reply") and run["reply"].message
        found = {}
        if is_json_in_text(event.text, reply, message):
            names = None if feedback else [each.name for each in calls]
            found = interpretation(event.text, names, repairs)
        turn["decision"] = {
            "text": event.text,
            "calls": [(each.id, each.name, each.arguments) for each in calls],
            "reply": reply,
            "feedback": feedback,
            "issues": [issue.message for issue in issues],
            "repairs": repairs,
            "candidates": [list(each) for each in found.get("candidates", ())],
        }

    def tool_call(self, run, turn, event):
        if event.call.id not in turn["calls"]:  # of an earlier run
            self._add_call(turn, event.call, event.tool)

    def _add_call(self, turn, made, tool):
        turn["calls"][made.id] = {
            "name": made.name,
            "arguments": made.arguments,
            "effect": tool and tool.effect,
            "approvals": [],
            "retries": [],
            "progress": [],
            "result": None,
        }

    def approval(self, run, turn, event):
        verdict, request = event.verdict, event.request
        written = {
            "verdict": type(verdict).__name__.lower(),
            "about": event.about,
            "reason": verdict.reason if isinstance(verdict, Reject | Redact) else "",
            "arguments": plain_data(dict(verdict.arguments)) if isinstance(verdict, Edit) else None,
        }
        turn["calls"][request.call_id]["approvals"].append(written)

    def approval_pending(self, run, turn, event):
        written = {"verdict": "pending", "about": "call", "reason": "", "arguments": None}
        turn["calls"][event.call.id]["approvals"].append(written)

    def tool_retry(self, run, turn, event):
        failure = (event.attempt, event.error.kind, event.error.message)
        turn["calls"][event.call.id]["retries"].append(failure)

    def tool_progress(self, run, turn, event):
        turn["calls"][event.call.id]["progress"].append(plain_data(event.value))

    def tool_result(self, run, turn, event):
        result, made = event.result, turn["calls"][event.result.call_id]
        used = result.arguments
        if result.repairs and used is not None:
            used = extract_json(used).value
        made["result"] = {
            "status": result.status,
            "message": event.message.to_dict(),
            "arguments": used,
            "attempts": result.attempts,
            "cached": result.cached,
            "repairs": result.repairs,
            "error": result.error and result.error.kind,
            "details": plain_data(result.details),
            "variable": event.variable,
        }

    def loop_end(self, run, turn, event):
        run["end"] = {
            "status": event.status,
            "reply": event.reply,
            "usage": event.usage,
            "cost": event.cost,
            "tool_rounds": event.tool_rounds,
            "error": event.error and type(event.error).__name__,
            "reason": event.result and event.result.status_reason,
            "waiting": [each.id for each in event.result.pending_approvals] if event.result else [],
        }


WORDS = ("reply_stream", "reply_text")


def dictionaries(messages):
    return [message.to_dict() for message in messages]


def canonical(keywords):
    """Return the keywords of a request as plain data."""
    plain = dict(keywords)
    if "tools" in plain:
        plain["tools"] = [(tool.name, tool.description) for tool in plain["tools"]]
    return {name: list(each) if isinstance(each, tuple) else each for name, each in plain.items()}


def read(run: Run):
    """Return the content of a run of a file in the same form."""
    return {
        "header": {
            "time": run.time,
            "entry": run.entry,
            "model": run.model,
            "session_id": run.session_id,
            "dialect": dict(run.dialect),
            "options": dict(run.options),
            "parent": (run.parent_run, run.parent_call),
        },
        "turns": {turn.number: read_turn(turn) for turn in run.turns},
        "end": run.end
        and {
            "status": run.end.status,
            "reply": run.end.reply,
            "usage": run.end.usage,
            "cost": run.end.cost,
            "tool_rounds": run.end.tool_rounds,
            "error": run.end.error and run.end.error.type,
            "reason": run.end.reason,
            "waiting": list(run.end.waiting),
        },
    }


def read_turn(turn):
    request, reply, decision = turn.request, turn.reply, turn.decision
    names = ("finish_reason", "raw_finish_reason", "model", "request_id", "refusal", "cost")
    return {
        "compactions": [(c.usage, c.cost, c.before, c.after) for c in turn.compactions],
        "request": request
        and {
            "at": request.at,
            "messages": dictionaries(request.messages),
            "stored": dictionaries(request.stored),
            "dropped": [(each.message.to_dict(), each.reason) for each in request.dropped],
            "keywords": canonical(request.keywords),
            "tools": [(tool.name, tool.effect) for tool in request.tools],
        },
        "reply": reply
        and {
            "message": reply.message and reply.message.to_dict(),
            "usage": reply.usage,
            **{name: getattr(reply, name) for name in names},
            "error": reply.error and reply.error.type,
            "sent": reply.sent,
        },
        "decision": decision
        and {
            "text": decision.text,
            "calls": [(each.id, each.name, each.arguments) for each in decision.calls],
            "reply": decision.reply,
            "feedback": decision.feedback,
            "issues": [issue.message for issue in decision.issues],
            "repairs": decision.repairs,
            "candidates": [[each.start, each.end, each.source] for each in decision.candidates],
        },
        "calls": {each.id: read_call(each) for each in turn.calls},
    }


def read_call(made):
    result = made.result
    return {
        "name": made.name,
        "arguments": made.arguments,
        "effect": made.effect,
        "approvals": [
            {
                "verdict": each.verdict,
                "about": each.about,
                "reason": each.reason,
                "arguments": each.arguments,
            }
            for each in made.approvals
        ],
        "retries": [(each.attempt, each.kind, each.message) for each in made.retries],
        "progress": [each.value for each in made.progress],
        "result": result
        and {
            "status": result.status,
            "message": result.message.to_dict(),
            "arguments": extract_json(result.arguments).value
            if result.repairs and result.arguments is not None
            else result.arguments,
            "attempts": result.attempts,
            "cached": result.cached,
            "repairs": result.repairs,
            "error": result.error_kind,
            "details": result.details,
            "variable": result.variable,
        },
    }


class ObservedRun(TracedRun):
    """A random run with a run file and a listener, in which a tool may make a run of its own."""

    def __init__(self, path, entry_point, seed):
        super().__init__(path, entry_point, seed)
        self.rebuilt = FromEvents()
        for number in range(5):  # so that most runs call one of them
            self.tools.registry.register(Tool(f"ask_{number}", "asks", None, self.ask_inside))

    async def ask_inside(self, arguments, context: ToolContext):
        left = [call("f"), "no JSON", answer("inside")]

        async def chat(messages, **settings):
            if self.rng.random() < 0.1:
                raise ConnectionError("away")
            return ChatResponse(Message.assistant(left.pop(0)), "stop", usage=Usage(3, 2))

        inner = Tool("f", execute=lambda arguments: "inner result", effect="read")
        deps = ToolLoopDeps(chat, tool_registry=[inner])
        session = await deps.context_engine.create_session()
        result = await run_tool_loop(deps, session, "Inside?", **context.sub_run)
        return result.reply or result.status

    def options(self):
        return super().options() | {"on_event": [self.rebuilt, self.listen]}

    def listen(self, event):
        if event.parent_run_id is None:
            super().listen(event)

    def approving_options(self):
        return super().approving_options() | {"on_event": self.rebuilt}


def content(run):
    return {name: run[name] for name in ("header", "turns", "end")}


@pytest.mark.parametrize("count", RUNS)
@pytest.mark.parametrize("entry_point", ["prompt", "several", "native", "runner", "chain"])
def test_the_content_of_a_run_file_is_rebuilt_from_the_events_alone(tmp_path, entry_point, count):
    compared = inner = 0
    for seed in range(1000, 1000 + count):
        path = tmp_path / f"{seed}.jsonl"
        run = run_randomly(entry_point, seed, partial(ObservedRun, path))
        if not path.exists():  # a limit of the cost was refused before the run
            continue
        runs = [each for each in read_runs(path) if "on_event" in each.options or each.parent_run]
        for each in runs:
            assert content(run.rebuilt.runs[each.id]) == read(each), (seed, each.id)
            compared, inner = compared + 1, inner + (each.parent_run is not None)
        assert {*run.rebuilt.runs} == {each.id for each in runs}
    assert compared >= count
    assert inner


async def test_a_compaction_is_rebuilt_from_its_event(run_file, new_conversation):
    async def summarize(messages):
        return ChatResponse(Message.assistant("They read notes."), usage=Usage(40, 4), cost=0.5)

    replies = [*(call(n=number) for number in range(12)), answer()]
    conversation = new_conversation(
        replies,
        Tool("f", execute=lambda arguments: "fact " * 60, effect="read"),
        window=KeepSystemAndRecent(max_tokens=700),
        compaction=CompactionPolicy(summarize),
    )
    rebuilt = FromEvents()
    await conversation.ask(trace=run_file, on_event=rebuilt, max_tool_rounds=None)
    (run,) = read_runs(run_file.path)
    assert content(rebuilt.runs[run.id]) == read(run)
    compactions = [each for turn in run.turns for each in turn.compactions]
    assert compactions
    assert all(each.before and each.after.name == "summary" for each in compactions)
    assert run.end.usage.input_tokens >= 40 * len(compactions)
    assert run.end.cost == sum(each.cost for each in compactions)
