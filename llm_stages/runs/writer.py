"""`RunWriter`: write the events of one run to a run file, line by line.

The cost of a line does not depend on the length of the conversation: a request is written as the
difference from the previous one, and each message is encoded once. A reply and its decision are one
line. `reader` rebuilds the run.
"""

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as fields_of
from functools import cache
from hashlib import blake2b
from math import isfinite
from operator import attrgetter, is_
from typing import Any, get_args
from zlib import crc32

import stage3_tools as stage3
from llm_stages.runs.difference import difference
from llm_stages.runs.interpretation import interpretation, is_json_in_text
from llm_stages.runs.lines import Encoder
from llm_stages.runs.rules import RULES_VERSION
from llm_stages.runs.values import FORMAT_VERSION, REPLY_FIELDS, RunParent
from stage0_gateway import KnownSecrets, Message, ToolCall, ToolSpec, Usage
from stage2_output import extract_json

_COUNTS = [count.name for count in fields_of(Usage)]
_HASH = "run file"  # the key of a message's hash among its encodings
_EMPTY: dict[str, Any] = {}


@dataclass(eq=False)
class RunWriter:
    """Writes one run: a method `_on_<name>` writes the events with this name, if there is one.

    Attributes:
        append: Appends lines to the file.
        hashes: The hashes of the messages and tools that the file contains; new ones are added.
        hide: Texts to hide, besides the keys of the gateway.
        parent: The run from which this one was forked.
    """

    append: Callable[[bytes], None]
    hashes: set[str]
    hide: Iterable[str] = ()
    parent: RunParent | None = None
    _check: int = 0
    _content: list[bytes] = field(default_factory=list)  # messages that the next line needs
    _sent: tuple[Message, ...] = ()  # the previous request
    _stored: tuple[Message, ...] = ()
    _dialect: object = None
    _keywords: Mapping[str, Any] = field(default_factory=dict)
    _tools: tuple[stage3.Tool, ...] = ()
    _tools_hash: str | None = None
    _start_tools: tuple[stage3.Tool, ...] = ()
    _reply: tuple[stage3.LoopEvent, dict[str, Any]] | None = None  # waits for its decision
    _replied: Message | None = None  # the newest reply
    _decided: set[str] = field(default_factory=set)  # the ids of the calls of the newest decision
    _arguments: dict[str, str] = field(default_factory=dict)  # of all calls, by id

    def write(self, event: stage3.LoopEvent) -> None:
        """Write an event of the run. The first one is `run_start`."""
        if write := getattr(self, f"_on_{event.name}", None):
            write(event)

    # ---- requests and replies

    def _on_run_start(self, event: stage3.RunStarted) -> None:
        gateway = event.gateway
        self._secrets = KnownSecrets(None if gateway is None else [gateway])
        self._encode = Encoder(self.hide, self._secrets)
        self._start_tools = event.tools
        fields: dict[str, Any] = {
            "version": FORMAT_VERSION,
            "rules": RULES_VERSION,
            "time": event.started,
            "entry": event.entry,
            "model": event.model,
            "session_id": event.session_id,
            "dialect": self._describe(event.dialect),
            "options": event.options,
            "packages": _packages(),
        }
        if self.parent is not None:
            fields["parent"] = asdict(self.parent)
        if event.parent_run_id is not None:
            fields["parent_run"], fields["parent_call"] = event.parent_run_id, event.parent_call_id
        self._write(event, "run", fields)

    def _describe(self, dialect: object) -> Mapping[str, Any]:
        """The name of a dialect's class, and its settings."""
        self._dialect = dialect
        return {"name": type(dialect).__name__, **getattr(dialect, "settings", {})}

    def _on_compaction(self, event: stage3.Compacted) -> None:
        fields = _costs(event.usage, event.cost) | {"reason": event.reason}
        fields["before"] = [*map(self._add_message, event.before)]
        if event.after is not None:
            fields["after"] = self._add_message(event.after)
        if event.error is not None:
            fields["error"] = _error(event.error)
        self._write(event, "compaction", fields)

    def _on_request(self, event: stage3.RequestSent) -> None:
        """Write a request; what is as in the previous request is left out."""
        if event.gateway is not None:
            self._secrets.add(event.gateway)  # a runner may change its model
        messages, stored = event.messages, event.conversation
        fields: dict[str, Any] = {"messages": self._difference(self._sent, messages)}
        if not _are_same(stored, messages):
            fields["stored"] = self._difference(self._stored, stored)
        self._sent, self._stored = messages, stored
        if event.dialect is not self._dialect:
            fields["dialect"] = self._describe(event.dialect)
        if dropped := event.dropped:
            fields["dropped"] = [(self._add_message(each), reason) for each, reason in dropped]
        if event.tools != self._tools:
            self._tools = event.tools
            fields["tools"] = self._tools_hash = self._add(b"tools", [*map(_tool, self._tools)])
        if event.keywords != self._keywords:
            self._keywords, options = event.keywords, {**event.keywords}
            options.pop("cache_key", None)  # it is the session of the header
            if "tools" in options:
                options["tools"] = self._add_specs(options["tools"])
            fields["options"] = options
        self._write(event, "request", fields)

    def _difference(self, before: tuple[Message, ...], messages: tuple[Message, ...]) -> list[Any]:
        """The messages as slices of other ones, and hashes of new messages."""
        count = len(before)
        if count and _are_same(before, messages[:count]):
            return [[0, count], *map(self._add_message, messages[count:])]
        hashes = [*map(self._add_message, messages)]
        return difference([*map(self._add_message, before)], hashes) if before else hashes

    def _on_reply(self, event: stage3.ReplyReceived) -> None:
        """Keep a reply until its decision is known; both are one line."""
        response, fields = event.response, dict[str, Any](duration=round(event.seconds, 6))
        for name in REPLY_FIELDS:  # a function of the program may return values of other types
            if (value := getattr(response, name)) is not None:
                fields[name] = str(value)
        fields |= _costs(response.usage, response.cost)
        if response.attempts:
            fields["attempts"] = [asdict(attempt) for attempt in response.attempts]
        self._reply, self._replied = (event, fields), response.message

    def _on_request_failed(self, event: stage3.RequestFailed) -> None:
        """Write the error that came instead of a reply, and the part that arrived."""
        fields = {"duration": round(event.seconds, 6), "error": _error(event.error)}
        if event.message is not None:
            fields["message"] = self._add_message(event.message)
        if not event.sent:
            fields["sent"] = False
        self._write(event, "reply", fields)

    def _write_reply(self, event: stage3.LoopEvent, decision: dict[str, Any] | None) -> None:
        """Write the newest reply with its decision; the first reply of a chain has no request."""
        fields: dict[str, Any] = {}
        if self._reply is not None and self._replied is not None:
            event, fields = self._reply
            fields["message"] = self._add_message(self._replied)
        self._reply = None
        if decision is not None:
            fields["decision"] = decision
        self._write(event, "reply", fields)

    # ---- decisions

    def _on_decision(self, event: stage3.DecisionMade) -> None:
        text, calls, repairs, replied = event.text, event.calls, event.repairs, self._replied
        decision: dict[str, Any] = {}
        if replied is None or replied.content != text:
            decision["text"] = text
        if not calls:
            decision["reply"] = event.reply
        elif replied is None or calls != replied.tool_calls:
            decision["calls"] = [*map(_call, calls)]
        if repairs:
            decision["repairs"] = repairs
        # The reader finds a decision that is the whole text in the same way later.
        is_plain = not repairs and text[:1] == "{" and text[-1:] == "}"
        if not is_plain and is_json_in_text(text, event.reply, replied):
            names = [*map(attrgetter("name"), calls)]
            decision |= interpretation(text, names, repairs)
        if calls and event.turn == 0:  # the first reply of a chain
            self._tools = self._start_tools
            decision["tools"] = self._tools_hash = self._add(b"tools", [*map(_tool, self._tools)])
        self._decided = {*map(attrgetter("id"), calls)}
        self._write_reply(event, decision)

    def _on_feedback(self, event: stage3.FeedbackGiven) -> None:
        text, replied = event.text, self._replied
        decision: dict[str, Any] = {}
        if replied is None or replied.text != text:
            decision["text"] = text
        decision["feedback"] = event.feedback
        if event.issues:
            decision["issues"] = event.issues
        if is_json_in_text(text, None, replied):
            decision |= interpretation(text, None, ())
        self._write_reply(event, decision)

    # ---- calls

    def _on_tool_call(self, event: stage3.ToolCalled) -> None:
        call = event.call
        self._arguments[call.id] = call.arguments
        if call.id in self._decided:
            return
        fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
        if event.tool is not None:
            fields["effect"] = event.tool.effect
        self._write(event, "call", fields)  # of an earlier run

    def _on_approval(self, event: stage3.ApprovalDecided) -> None:
        request, verdict = event.request, event.verdict
        fields: dict[str, Any] = {"id": request.call_id, "verdict": type(verdict).__name__.lower()}
        fields["duration"] = round(event.seconds, 6)
        if event.about == "result":
            fields["about"] = "result"
        if isinstance(verdict, stage3.Reject | stage3.Redact) and verdict.reason:
            fields["reason"] = str(verdict.reason)
        if isinstance(verdict, stage3.Edit):
            fields["arguments"] = stage3.plain_data(dict(verdict.arguments))
        self._write(event, "approval", fields)

    def _on_approval_pending(self, event: stage3.ApprovalPending) -> None:
        self._write(event, "approval", {"id": event.call.id, "verdict": "pending"})

    def _on_tool_progress(self, event: stage3.ToolProgressed) -> None:
        fields = {"id": event.call.id, "value": stage3.plain_data(event.value)}
        self._write(event, "progress", fields)

    def _on_tool_retry(self, event: stage3.ToolRetried) -> None:
        fields = {"id": event.call.id, "attempt": event.attempt, "error": _failure(event.error)}
        self._write(event, "retry", fields)

    def _on_loop_end(self, event: stage3.LoopEnded) -> None:
        fields: dict[str, Any] = {"status": event.status, "tool_rounds": event.tool_rounds}
        fields |= _costs(event.usage, event.cost)
        if event.reply is not None:
            fields["reply"] = event.reply
        if (result := event.result) is not None:
            if result.status_reason is not None:
                fields["reason"] = result.status_reason
            if result.pending_approvals:
                fields["waiting"] = [*map(attrgetter("id"), result.pending_approvals)]
        if event.error is not None:
            fields["error"] = _error(event.error)
        self._write(event, "end", fields)

    def _on_tool_result(self, event: stage3.ToolAnswered) -> None:
        result = event.result
        assert event.message is not None
        fields: dict[str, Any] = {"id": result.call_id, "status": result.status}
        fields["message"] = self._add_message(event.message)
        fields["attempts"], fields["duration"] = result.attempts, round(result.duration, 6)
        if result.repairs and result.arguments is not None:
            repaired = extract_json(result.arguments).value
            fields["arguments"] = json.dumps(repaired, ensure_ascii=False)
        elif result.arguments != self._arguments[result.call_id]:
            fields["arguments"] = result.arguments  # None if the tool did not run
        if result.cached:
            fields["cached"] = True
        if result.repairs:
            fields["repairs"] = result.repairs
        if result.error is not None:
            fields["error"] = _failure(result.error)
        if result.details is not None:
            fields["details"] = stage3.plain_data(result.details)
        if event.variable is not None:
            fields["variable"] = event.variable
            fields["output"] = Message.user(result.output).to_dict()["content"]
        self._write(event, "result", fields)

    # ---- values that are written once

    def _add_message(self, message: Message) -> str:
        """Return the hash of a message; the message is written before its first use in the file."""
        known = getattr(message, "encodings", _EMPTY).get(_HASH)
        if known not in self.hashes:
            known = self._add(b"message", message.to_dict())
            message.store_encoding(_HASH, known)
        return str(known)

    def _add_specs(self, specs: Sequence[ToolSpec]) -> str:
        """Return the hash of the tools that are sent besides the messages."""
        if self._tools_hash and _are_same(specs, [*map(attrgetter("spec"), self._tools)]):
            return self._tools_hash
        return self._add(b"tools", [*map(_spec, specs)])

    def _add(self, kind: bytes, value: Any) -> str:
        text = self._encode(value)
        hash = blake2b(text, digest_size=8).hexdigest()
        if hash not in self.hashes:
            self.hashes.add(hash)
            line = b'{"type":"%b","hash":"%b","%b":%b}\n' % (kind, hash.encode(), kind, text)
            self._content.append(line)
        return hash

    def _write(self, event: stage3.LoopEvent, kind: str, fields: dict[str, Any]) -> None:
        """Write a line, with the messages and tools that it needs before it.

        A reply without a decision is written before it. The checksum covers these lines and all
        earlier lines of the run.
        """
        if self._reply is not None:
            self._write_reply(event, None)
        at = round(event.at, 6)
        line = {"type": kind, "run": event.run_id, "turn": event.turn, "at": at, **fields}
        text = self._encode(line)
        if self._content:
            text = b"".join([*self._content, text])
            self._content.clear()
        self._check = crc32(text, self._check)
        self.append(b'%b,"check":%d}\n' % (text[:-1], self._check))


UNUSED_EVENTS = frozenset(
    event.name
    for event in get_args(stage3.LoopEvent)
    if not hasattr(RunWriter, f"_on_{event.name}")
)
"""The names of the events that are not written."""


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two sequences contain the same objects. Equal ones may differ, as 1 and True do."""
    return len(some) == len(others) and all(map(is_, some, others))


@cache
def _packages() -> Mapping[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    packages = {"python": platform.python_version()}
    try:
        return {"llm-stages": version("llm-stages"), **packages}
    except PackageNotFoundError:  # a copy of the source
        return packages


def _error(error: BaseException) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": stage3.exception_text(error)}
    status = getattr(error, "status", None)
    return {**fields, "status": status} if isinstance(status, int) else fields


def _costs(usage: Usage | None, dollars: object) -> dict[str, Any]:
    """The tokens and the cost, where they are known. A program may return values of other types."""
    fields: dict[str, Any] = {}
    if isinstance(dollars, float | int) and isfinite(dollars) and dollars >= 0:
        fields["cost"] = dollars
    if usage is not None:
        fields["usage"] = counts = {}
        for name in _COUNTS:
            if isinstance(count := getattr(usage, name), int):
                counts[name] = count
    return fields


def _call(call: ToolCall) -> dict[str, Any]:
    fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return fields if call.provider_data is None else {**fields, "provider_data": call.provider_data}


def _spec(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def _tool(tool: stage3.Tool) -> dict[str, Any]:
    approval: Any = "depends" if callable(tool.needs_approval) else tool.needs_approval
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {},  # as in prompts; a spec has more fields
        "effect": tool.effect,
        "needs_approval": False if approval is None and tool.effect != "write" else approval,
    }


def _failure(error: stage3.ToolError) -> dict[str, str]:
    return {"kind": error.kind, "message": error.message}
