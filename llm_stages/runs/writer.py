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
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from operator import attrgetter, is_
from typing import Any, get_args
from zlib import crc32

from llm_stages.runs.difference import difference
from llm_stages.runs.interpretation import interpretation, is_json_in_text
from llm_stages.runs.lines import Encoder
from llm_stages.runs.rules import RULES_VERSION
from llm_stages.runs.values import FORMAT_VERSION, REPLY_FIELDS, RunParent
from stage0_gateway import (
    KnownSecrets,
    Message,
    ToolCall,
    ToolSpec,
    Usage,
)
from stage2_output import (
    extract_json,
)
from stage3_tools import (
    ApprovalDecided,
    ApprovalPending,
    Compacted,
    DecisionMade,
    Edit,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    Redact,
    Reject,
    ReplyReceived,
    RequestFailed,
    RequestSent,
    RunStarted,
    Tool,
    ToolAnswered,
    ToolCalled,
    ToolError,
    ToolProgressed,
    ToolResult,
    ToolRetried,
    exception_text,
    plain_data,
)

_COUNTS = [count.name for count in fields_of(Usage)]
_HASH = "run file"  # the key of a message's hash among its encodings
_EMPTY: dict[str, Any] = {}


@dataclass(eq=False)
class RunWriter:
    """Writes one run.

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
    _tools: tuple[Tool, ...] = ()
    _tools_hash: str | None = None
    _start_tools: tuple[Tool, ...] = ()
    _reply: tuple[LoopEvent, dict[str, Any]] | None = None  # waits for its decision
    _replied: Message | None = None  # the newest reply
    _decided: set[str] = field(default_factory=set)  # the ids of the calls of the newest decision
    _arguments: dict[str, str] = field(default_factory=dict)  # of all calls, by id

    def __call__(self, event: LoopEvent) -> None:
        """Write an event of the run. The first one is `run_start`."""
        _EVENTS[type(event)](self, event)

    # ---- requests and replies

    def _write_header(self, event: RunStarted) -> None:
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

    def _write_compaction(self, event: Compacted) -> None:
        fields = _costs(event.usage, event.cost) | {"reason": event.reason}
        fields["before"] = [self._add_message(message) for message in event.before]
        if event.after is not None:
            fields["after"] = self._add_message(event.after)
        if event.error is not None:
            fields["error"] = _error(event.error)
        self._write(event, "compaction", fields)

    def _write_request(self, event: RequestSent) -> None:
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
        if event.dropped:
            fields["dropped"] = [
                [self._add_message(message), reason] for message, reason in event.dropped
            ]
        if self._find_new_tools(event.tools):
            fields["tools"] = self._tools_hash
        if event.keywords != self._keywords:
            self._keywords = event.keywords
            fields["options"] = self._options(event.keywords)
        self._write(event, "request", fields)

    def _difference(self, before: tuple[Message, ...], messages: tuple[Message, ...]) -> list[Any]:
        """The messages as slices of other ones, and hashes of new messages."""
        count = len(before)
        if count and _are_same(before, messages[:count]):
            return [[0, count], *map(self._add_message, messages[count:])]
        hashes = [*map(self._add_message, messages)]
        return difference([*map(self._add_message, before)], hashes) if before else hashes

    def _options(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords of a request; the key of the cache is the session of the header."""
        options = {**keywords}
        options.pop("cache_key", None)
        if "tools" in options:
            options["tools"] = self._add_specs(options["tools"])
        return options

    def _keep_reply(self, event: ReplyReceived) -> None:
        """Keep a reply until its decision is known; both are one line."""
        response, fields = event.response, dict[str, Any](duration=round(event.seconds, 6))
        for name in REPLY_FIELDS:  # a function of the program may return values of other types
            if (value := getattr(response, name)) is not None:
                fields[name] = str(value)
        fields |= _costs(response.usage, response.cost)
        if response.attempts:
            fields["attempts"] = [asdict(attempt) for attempt in response.attempts]
        self._reply, self._replied = (event, fields), response.message

    def _write_failure(self, event: RequestFailed) -> None:
        """Write the error that came instead of a reply, and the part that arrived."""
        fields = {"duration": round(event.seconds, 6), "error": _error(event.error)}
        if event.message is not None:
            fields["message"] = self._add_message(event.message)
        if not event.sent:
            fields["sent"] = False
        self._write(event, "reply", fields)

    def _write_reply(self, event: LoopEvent, decision: dict[str, Any] | None) -> None:
        """Write the newest reply with its decision; the first reply of a chain has no request."""
        if self._reply is not None and self._replied is not None:
            event, fields = self._reply
            fields["message"] = self._add_message(self._replied)
        else:
            fields = {}
        self._reply = None
        if decision is not None:
            fields["decision"] = decision
        self._write(event, "reply", fields)

    # ---- decisions

    def _write_decision(self, event: DecisionMade) -> None:
        text, calls, repairs, replied = event.text, event.calls, event.repairs, self._replied
        decision: dict[str, Any] = {}
        if replied is None or replied.content != text:
            decision["text"] = text
        if not calls:
            decision["reply"] = event.reply
        elif replied is None or calls != replied.tool_calls:
            decision["calls"] = [_call(call) for call in calls]
        if repairs:
            decision["repairs"] = repairs
        # The reader finds a decision that is the whole text in the same way later.
        is_plain = not repairs and text[:1] == "{" and text[-1:] == "}"
        if not is_plain and is_json_in_text(text, event.reply, replied):
            names = [call.name for call in calls]
            decision.update(interpretation(text, names, repairs))
        if calls and event.turn == 0:  # the first reply of a chain
            self._find_new_tools(self._start_tools)
            decision["tools"] = self._tools_hash
        self._decided = {*map(attrgetter("id"), calls)}
        self._write_reply(event, decision)

    def _write_feedback(self, event: FeedbackGiven) -> None:
        text, replied = event.text, self._replied
        decision: dict[str, Any] = {}
        if replied is None or replied.text != text:
            decision["text"] = text
        decision["feedback"] = event.feedback
        if event.issues:
            decision["issues"] = event.issues
        if is_json_in_text(text, None, replied):
            decision.update(interpretation(text, None, ()))
        self._write_reply(event, decision)

    # ---- calls

    def _write_call(self, event: ToolCalled) -> None:
        call = event.call
        self._arguments[call.id] = call.arguments
        if call.id in self._decided:
            return
        fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
        if event.tool is not None:
            fields["effect"] = event.tool.effect
        self._write(event, "call", fields)  # of an earlier run

    def _write_verdict(self, event: ApprovalDecided) -> None:
        self._write(event, "approval", _verdict(event))

    def _write_pending(self, event: ApprovalPending) -> None:
        self._write(event, "approval", {"id": event.call.id, "verdict": "pending"})

    def _write_progress(self, event: ToolProgressed) -> None:
        fields = {"id": event.call.id, "value": plain_data(event.value)}
        self._write(event, "progress", fields)

    def _write_retry(self, event: ToolRetried) -> None:
        fields = {"id": event.call.id, "attempt": event.attempt, "error": _failure(event.error)}
        self._write(event, "retry", fields)

    def _write_end(self, event: LoopEnded) -> None:
        fields: dict[str, Any] = {"status": event.status, "tool_rounds": event.tool_rounds}
        fields |= _costs(event.usage, event.cost)
        if event.reply is not None:
            fields["reply"] = event.reply
        if event.result is not None and event.result.status_reason is not None:
            fields["reason"] = event.result.status_reason
        if event.result is not None and event.result.pending_approvals:
            fields["waiting"] = [call.id for call in event.result.pending_approvals]
        if event.error is not None:
            fields["error"] = _error(event.error)
        self._write(event, "end", fields)

    def _write_result(self, event: ToolAnswered) -> None:
        result = event.result
        assert event.message is not None
        fields: dict[str, Any] = {"id": result.call_id, "status": result.status}
        fields["message"] = self._add_message(event.message)
        fields["attempts"], fields["duration"] = result.attempts, round(result.duration, 6)
        if result.repairs or result.arguments != self._arguments[result.call_id]:
            fields["arguments"] = _used_arguments(result)
        if result.cached:
            fields["cached"] = True
        if result.repairs:
            fields["repairs"] = result.repairs
        if result.error is not None:
            fields["error"] = _failure(result.error)
        if result.details is not None:
            fields["details"] = plain_data(result.details)
        if event.variable is not None:
            fields["variable"], fields["output"] = event.variable, _content(result.output)
        self._write(event, "result", fields)

    # ---- values that are written once

    def _add_message(self, message: Message) -> str:
        """Return the hash of a message; the message is written before its first use in the file."""
        known = getattr(message, "encodings", _EMPTY).get(_HASH)
        if known not in self.hashes:
            known = self._add(b"message", message.to_dict())
            message.store_encoding(_HASH, known)
        return str(known)

    def _find_new_tools(self, tools: tuple[Tool, ...]) -> bool:
        """Whether the tools have changed; `_tools_hash` is their new hash."""
        if tools == self._tools:
            return False
        self._tools = tools
        self._tools_hash = self._add(b"tools", [*map(_tool, tools)])
        return True

    def _add_specs(self, specs: Sequence[ToolSpec]) -> str:
        """Return the hash of the tools that are sent besides the messages."""
        if self._tools_hash is not None and _are_same(
            specs, [*map(attrgetter("spec"), self._tools)]
        ):
            return self._tools_hash
        return self._add(b"tools", [_spec(spec) for spec in specs])

    def _add(self, kind: bytes, value: Any) -> str:
        text = self._encode(value)
        hash = blake2b(text, digest_size=8).hexdigest()
        if hash not in self.hashes:
            self.hashes.add(hash)
            line = b'{"type":"%b","hash":"%b","%b":%b}\n' % (kind, hash.encode(), kind, text)
            self._content.append(line)
        return hash

    def _write(self, event: LoopEvent, kind: str, fields: dict[str, Any]) -> None:
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


_EVENTS: dict[type[LoopEvent], Callable[[RunWriter, Any], None]] = {
    RunStarted: RunWriter._write_header,
    Compacted: RunWriter._write_compaction,
    RequestSent: RunWriter._write_request,
    ReplyReceived: RunWriter._keep_reply,
    RequestFailed: RunWriter._write_failure,
    DecisionMade: RunWriter._write_decision,
    FeedbackGiven: RunWriter._write_feedback,
    ToolCalled: RunWriter._write_call,
    ApprovalDecided: RunWriter._write_verdict,
    ApprovalPending: RunWriter._write_pending,
    ToolProgressed: RunWriter._write_progress,
    ToolRetried: RunWriter._write_retry,
    ToolAnswered: RunWriter._write_result,
    LoopEnded: RunWriter._write_end,
}

UNUSED_EVENTS = frozenset(each.name for each in get_args(LoopEvent) if each not in _EVENTS)
"""The names of the events that are not written."""


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two sequences contain the same objects. Equal ones may differ, as 1 and True do."""
    return len(some) == len(others) and all(map(is_, some, others))


@cache
def _packages() -> Mapping[str, str]:
    packages = {"python": platform.python_version()}
    try:
        return {"llm-stages": version("llm-stages"), **packages}
    except PackageNotFoundError:  # a copy of the source
        return packages


def _error(error: BaseException) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": exception_text(error)}
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


def _tool(tool: Tool) -> dict[str, Any]:
    approval: Any = "depends" if callable(tool.needs_approval) else tool.needs_approval
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {},  # as in prompts; a spec has more fields
        "effect": tool.effect,
        "needs_approval": False if approval is None and tool.effect != "write" else approval,
    }


def _failure(error: ToolError) -> dict[str, str]:
    return {"kind": error.kind, "message": error.message}


def _verdict(event: ApprovalDecided) -> dict[str, Any]:
    request, verdict = event.request, event.verdict
    fields: dict[str, Any] = {"id": request.call_id, "verdict": type(verdict).__name__.lower()}
    fields["duration"] = round(event.seconds, 6)
    if event.about == "result":
        fields["about"] = "result"
    if isinstance(verdict, Reject | Redact) and verdict.reason:
        fields["reason"] = str(verdict.reason)
    if isinstance(verdict, Edit):
        fields["arguments"] = plain_data(dict(verdict.arguments))
    return fields


def _used_arguments(result: ToolResult) -> str | None:
    """The arguments that the tool received, with repaired JSON; None if it did not run."""
    if result.arguments is None or not result.repairs:
        return result.arguments
    return json.dumps(extract_json(result.arguments).value, ensure_ascii=False)


def _content(output: Any) -> Any:
    """An output as the content of a message."""
    return Message.user(output).to_dict()["content"]
