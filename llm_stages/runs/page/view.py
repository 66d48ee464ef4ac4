"""The runs of a file as plain data for the page.

Messages and lists of tools appear once and are referred to by their index. A request is stored as
the difference from the previous one, so the page of a long run stays small.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from llm_stages.runs.difference import difference
from llm_stages.runs.values import (
    Run,
    RunCall,
    RunDecision,
    RunEnd,
    RunReply,
    RunRequest,
    RunTool,
    RunTurn,
    newest,
)
from stage0_gateway import ImagePart, JsonPart, Message, TextPart, ThinkingPart, Usage
from stage1_context import ApproximateCounter, MessageHistory
from stage3_tools import last_question, plain_data

_PARTS = {"system": "system", "tool": "results"}
"""The part of a request to which the messages of a role belong; others are the history."""


def page_data(runs: Sequence[Run], file: str, problems: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        runs: The runs of the file.
        file: The name of the file.
        problems: The missing parts of the file, as sentences.
    """
    view, heads, turns = _View(), [], list[dict[str, Any]]()
    for number, run in enumerate(runs):
        offset = run.time - runs[0].time
        view.before = []  # the first request of a run is shown as a whole
        turns += [view.turn(turn, number, offset) for turn in run.turns]
        heads.append(_head(run, offset))
    return {
        "file": file,
        "problems": list(problems),
        "runs": heads,
        "newest": newest(runs),
        "turns": turns,
        "messages": view.messages,
        "tools": view.tools,
    }


class _View:
    """Collects the messages and tools, each of them once.

    Attributes:
        messages: The messages.
        tools: The lists of tools.
        before: The indexes of the messages of the previous request.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: list[list[dict[str, Any]]] = []
        self.before: list[int] = []
        self._indexes: dict[str, int] = {}  # of messages by their hash, and of tools by their repr
        self._counter = ApproximateCounter()
        self._tokens: dict[str, int] = {}

    def turn(self, turn: RunTurn, run: int, offset: float) -> dict[str, Any]:
        """Return a turn, with its messages and tools as indexes."""
        reply, request = turn.reply, turn.request
        start = request.at if request else min((call.at for call in turn.calls), default=0.0)
        error = reply.error if reply else None
        return {
            "run": run,
            "number": turn.number,
            "start": offset + start,
            "seconds": reply.duration if reply and request else None,
            "request": self._request(request),
            "parts": self._parts(request, reply),
            "reply": _reply(reply) if reply and error is None else None,
            "failed": str(error) if error else None,
            "decision": _decision(turn.decision, reply),
            "calls": [_call(call, offset) for call in turn.calls],
        }

    # ---- requests

    def _request(self, request: RunRequest | None) -> dict[str, Any]:
        if request is None:
            return {"messages": [], "tools": self._tool_list(()), "dropped": [], "settings": {}}
        before, self.before = self.before, [*map(self._message, request.hashes, request.messages)]
        settings = {name: value for name, value in request.options.items() if name != "tools"}
        dropped = [
            {"message": self._message(each.hash, each.message), "reason": each.reason}
            for each in request.dropped
        ]
        return {
            "messages": difference(before, self.before),
            "tools": self._tool_list(request.tools),
            "settings": plain_data(settings),
            "dropped": dropped,
        }

    def _message(self, hash: str, message: Message) -> int:
        if hash not in self._indexes:
            self._indexes[hash] = len(self.messages)
            self.messages.append(_message(message))
        return self._indexes[hash]

    def _tool_list(self, tools: tuple[RunTool, ...]) -> int:
        if (key := repr(tools)) not in self._indexes:
            self._indexes[key] = len(self.tools)
            self.tools.append([plain_data(asdict(tool)) for tool in tools])
        return self._indexes[key]

    # ---- tokens

    def _parts(self, request: RunRequest | None, reply: RunReply | None) -> dict[str, int]:
        """Estimate the tokens of each part of a request, and of its reply."""
        if request is None:
            return {}
        parts = {"system": 0, "tools": 0, "history": 0, "results": 0, "reply": 0}
        for tool in request.tools:
            text = f"{tool.name} {tool.description} {plain_data(dict(tool.parameters))}"
            parts["tools"] += self._count(text)
        for message, role in zip(request.messages, _stored_roles(request), strict=True):
            parts[_PARTS.get(role, "history")] += self._count(_text(message))
        if "tools" not in request.options:  # they are described in the system prompt
            parts["system"] = max(0, parts["system"] - parts["tools"])
        if reply is not None and reply.message is not None:
            parts["reply"] = self._count(_text(reply.message))
        return parts

    def _count(self, text: str) -> int:
        if text not in self._tokens:
            self._tokens[text] = self._counter.count(text)
        return self._tokens[text]


# ---- values


def _head(run: Run, offset: float) -> dict[str, Any]:
    end = run.end or _totals_so_far(run)
    return {
        "offset": offset,
        "model": run.model,
        "question": _question(run),
        "dialect": run.dialect["name"],
        "facts": _facts(run),
        "status": end.status,
        "reason": str(end.error) if end.error else end.reason,
        "reply": end.reply,
        "usage": asdict(end.usage),
        "cost": end.cost,
        "seconds": end.at,
    }


def _question(run: Run) -> str:
    """The newest question of the first request."""
    questions = (last_question(MessageHistory(request.stored)) for request in run.requests)
    return next((question.text for question in questions if question), "")


def _facts(run: Run) -> dict[str, Any]:
    facts: dict[str, Any] = {"run": run.id}
    if run.parent:
        facts["forked from"] = f"{run.parent.file}, turn {run.parent.turn}"
    if run.session_id:
        facts["session"] = run.session_id
    options = {name.replace("_", " "): plain_data(value) for name, value in run.options.items()}
    return facts | options | dict(run.packages)


def _totals_so_far(run: Run) -> RunEnd:
    """The totals of a run without an ending."""
    replies = [turn.reply for turn in run.turns if turn.reply]
    usage = sum((reply.usage for reply in replies if reply.usage), Usage())
    costs = [reply.cost for reply in replies if reply.cost is not None]
    return RunEnd(at=_last_time(run), status="", usage=usage, cost=sum(costs) if costs else None)


def _last_time(run: Run) -> float:
    times = [0.0]
    for turn in run.turns:
        times += [part.at for part in (turn.request, turn.reply, turn.decision) if part]
        times += [call.result.at if call.result else call.at for call in turn.calls]
    return max(times)


def _stored_roles(request: RunRequest) -> list[str]:
    """The roles of the messages as they are stored; a dialect may have rendered results as text."""
    stored = [message.role for message in request.stored if message.role != "system"]
    roles = [message.role for message in request.messages]
    if len(stored) != len(roles) - roles.count("system"):  # `before_send` has changed the number
        return list(roles)
    others = iter(stored)
    return [role if role == "system" else next(others) for role in roles]


def _text(message: Message) -> str:
    calls = "".join(call.name + call.arguments for call in message.tool_calls)
    return message.text + calls


def _message(message: Message) -> dict[str, Any]:
    parts = [] if isinstance(message.content, str) else list(_other_parts(message.content))
    return {
        "role": message.role,
        "text": message.text,
        "name": message.name,
        "call_id": message.tool_call_id,
        "is_error": message.is_error,
        "calls": _calls(message),
        "parts": parts,
    }


def _other_parts(parts: Iterable[Any]) -> Iterable[dict[str, Any]]:
    for part in parts:
        match part:
            case TextPart():
                continue
            case ThinkingPart(text=text):
                pass
            case JsonPart(value=value):
                text = str(plain_data(value))
            case ImagePart():
                text = "(not shown)"
            case _:
                text = str(plain_data(part))[:2000]
        yield {"kind": type(part).__name__.removesuffix("Part").lower(), "text": text}


def _calls(message: Message) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]


def _reply(reply: RunReply) -> dict[str, Any]:
    message = reply.message
    return {
        "text": reply.text,
        "calls": _calls(message) if message else [],
        "thinking": message.thinking if message else "",
        "finish_reason": reply.finish_reason,
        "refusal": reply.refusal or reply.block_reason,
        "usage": asdict(reply.usage) if reply.usage else None,
        "cost": reply.cost,
        "model": reply.model,
        "request_id": reply.request_id,
        "attempts": plain_data(list(reply.attempts)),
    }


def _decision(decision: RunDecision | None, reply: RunReply | None) -> dict[str, Any] | None:
    if decision is None:
        stopped = reply is not None and reply.finish_reason in ("refusal", "pause")
        return {"kind": "stopped"} if stopped else None
    text, selected = decision.text, decision.selection
    kind = "feedback" if decision.feedback else "calls" if decision.calls else "reply"
    return {
        "kind": kind,
        **(_part(text, selected.start, selected.end) if selected else {"start": None, "end": None}),
        "candidates": len(decision.candidates),
        "unreadable": [each.problem for each in decision.unreadable],
        "repairs": [
            {"name": each.name.replace("_", " "), **_part(text, each.position, each.position + 1)}
            for each in decision.repairs
        ],
        "issues": [" ".join(filter(None, (each.path, each.message))) for each in decision.issues],
        "feedback": decision.feedback,
        "reply": decision.reply,
    }


def _part(text: str, start: int, end: int) -> dict[str, int]:
    """A part of a text, as the page finds it."""
    return {"start": utf16_index(text, start), "end": utf16_index(text, end)}


def utf16_index(text: str, index: int) -> int:
    """Convert an index of Python to an index of JavaScript, which counts UTF-16 code units."""
    return len(text[:index].encode("utf-16-le", "surrogatepass")) // 2


def _call(call: RunCall, offset: float) -> dict[str, Any]:
    result = call.result
    fields: dict[str, Any] = {
        "id": call.id,
        "name": call.name,
        "effect": call.effect,
        "arguments": call.arguments,
        "start": offset + call.at,
        "approval": "; ".join(
            " ".join(filter(None, (each.about, each.verdict, each.reason)))
            for each in call.approvals
        ),
        "retries": [
            f"attempt {each.attempt}: {each.kind}: {each.message}" for each in call.retries
        ],
        "progress": [plain_data(each.value) for each in call.progress],
        "is_error": False,
    }
    if result is not None:
        used = result.arguments if result.arguments != call.arguments else None
        fields |= {
            "status": result.status,
            "seconds": result.duration,
            "used": used,
            "repairs": [each.name.replace("_", " ") for each in result.repairs],
            "attempts": result.attempts,
            "cached": result.cached,
            "output": result.message.text,
            "is_error": result.is_error,
            "error": result.error_kind,
            "details": plain_data(result.details),
            "variable": result.variable,
        }
    return fields
