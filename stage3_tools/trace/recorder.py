"""`RunRecorder`: write one run to a run file, line by line.

The recorder is a listener, not a second loop. It wraps the functions that the run calls:

    chat, stream                 the exact request and its keywords, the reply, its duration
    on_event                     decisions, feedback, calls, retries, progress, results, the ending
    approve, approve_result      verdicts

The cost of a line does not depend on the length of the conversation: a request is written as the
difference from the previous one, and each message is encoded once. `reader` rebuilds the run.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from operator import is_
from time import perf_counter
from typing import Any, TypeVar
from uuid import uuid4
from zlib import crc32

from stage0_gateway import ChatResponse, Message, MessageStream, ToolSpec, Usage, response_of
from stage2_output import extract_json
from stage3_tools.abort import RunStopped
from stage3_tools.dialects.native import NativeDialect
from stage3_tools.errors import exception_text
from stage3_tools.events import (
    ApprovalPending,
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    ToolAnswered,
    ToolCalled,
    ToolProgressed,
    ToolRetried,
)
from stage3_tools.execution.approval import ApprovalRequest, Approver, Edit, Redact, Reject, Verdict
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions
from stage3_tools.result import ToolResult, plain_data
from stage3_tools.run.notifier import Listener
from stage3_tools.run.state import RunState
from stage3_tools.tool import Tool
from stage3_tools.trace.difference import difference
from stage3_tools.trace.header import header
from stage3_tools.trace.interpretation import interpretation
from stage3_tools.trace.lines import encoder
from stage3_tools.trace.values import RunParent

T = TypeVar("T")

_HASH = "run file"  # the key of a message's hash among its encodings
_REPLY_FIELDS = (
    "finish_reason",
    "raw_finish_reason",
    "cost",
    "model",
    "request_id",
    "refusal",
    "block_reason",
)


class RunRecorder:
    """Writes one run.

    Args:
        run: The run.
        write: Appends a line to the file.
        hashes: The hashes of the messages and tools that the file contains; new ones are added.
        secrets: Texts to hide, besides the keys of the gateway.
        parent: The run from which this one was forked.
    """

    def __init__(
        self,
        run: RunState,
        write: Callable[[bytes], None],
        hashes: set[str],
        secrets: Iterable[str] = (),
        parent: RunParent | None = None,
    ) -> None:
        self._run, self._write_line, self._hashes, self._parent = run, write, hashes, parent
        self._options = run.options  # before they are wrapped
        self._gateway = getattr(run.deps.stream or run.deps.chat, "__self__", None)
        self._encode = encoder((*secrets, *getattr(self._gateway, "secrets", ())))
        self._id = uuid4().hex[:8]
        self._started = 0.0  # 0 before the first line
        self._check = 0
        self._sent: tuple[Message, ...] = ()
        self._sent_hashes: list[str] | None = []  # None until they are needed
        self._tools: tuple[Tool, ...] = ()
        self._tools_hash: str | None = None
        self._effects: dict[str, str] = {}
        self._text: str | None = None  # of the newest reply
        self._error: dict[str, Any] | None = None

    # ---- what the run calls

    def wrap_deps(self, deps: ToolLoopDeps) -> ToolLoopDeps:
        """The same parts, with functions that record requests and replies."""
        stream = None if deps.stream is None else _Wrapped(deps.stream, self._stream)
        return replace(deps, chat=_Wrapped(deps.chat, self._chat), stream=stream)

    def wrap_options(self, options: ToolLoopOptions) -> ToolLoopOptions:
        """The same options, with functions that record events and verdicts."""
        changes: dict[str, Any] = {"on_event": self._listener(options.on_event)}
        for name in ("approve", "approve_result"):
            if (approver := getattr(options, name)) is not None:
                changes[name] = self._approver(approver)
        return replace(options, **changes)

    def watch(self, body: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The same body of a run; an exception is recorded as its ending."""

        async def watched() -> T:
            try:
                return await body()
            except RunStopped:
                raise
            except BaseException as error:
                if self._run.stop_reason is None:
                    self._error = _error(error)
                    is_error = isinstance(error, Exception)
                    self._write(
                        "end", status="error" if is_error else "cancelled", **self._totals()
                    )
                raise

        return watched

    async def _chat(
        self, send: Callable[..., Any], messages: tuple[Message, ...], keywords: dict[str, Any]
    ) -> ChatResponse:
        self._write_request(messages, keywords)
        began = perf_counter()
        try:
            response = await response_of(send(messages, **keywords))
        except BaseException as error:
            self._write("reply", duration=_since(began), error=_error(error))
            raise
        self._write_reply(response, began)
        return response

    def _stream(
        self, send: Callable[..., Any], messages: tuple[Message, ...], keywords: dict[str, Any]
    ) -> Any:
        self._write_request(messages, keywords)
        began = perf_counter()
        stream = send(messages, **keywords)
        if isinstance(stream, MessageStream):  # the turn rejects other values

            def fail(error: dict[str, Any]) -> None:
                message = self._add_message(stream.current_message)
                self._write("reply", message=message, duration=_since(began), error=error)

            stream.on("final_message", lambda event: self._write_reply(event.response, began))
            stream.on("error", lambda event: fail(_error(event.error)))
            stream.on("abort", lambda event: fail({"type": "abort", "message": event.reason or ""}))
        return stream

    def _listener(self, listener: Listener | None) -> Listener:
        def on_event(event: LoopEvent) -> Any:
            self._record(event)
            return None if listener is None else listener(event)

        return on_event

    def _approver(self, approver: Approver) -> Approver:
        async def approve(request: ApprovalRequest) -> Verdict | bool:
            began = perf_counter()
            answer = approver(request)
            verdict = await answer if isinstance(answer, Awaitable) else answer
            self._write_verdict(request, verdict, _since(began))
            return verdict

        return approve

    # ---- requests and replies

    def _write_request(self, messages: tuple[Message, ...], keywords: Mapping[str, Any]) -> None:
        fields: dict[str, Any] = {"messages": self._difference(messages)}
        if (tools := self._add_tools()) is not None:
            fields["tools"] = tools
        options = {name: value for name, value in keywords.items() if name != "tools"}
        if "tools" in keywords:
            options["tools"] = self._add_specs(keywords["tools"])
        if options:
            fields["options"] = options
        self._write("request", **fields)

    def _difference(self, messages: tuple[Message, ...]) -> list[Any]:
        """The messages as slices of the previous request, and hashes of other messages."""
        count = len(self._sent)
        if count <= len(messages) and all(map(is_, self._sent, messages)):
            new = [self._add_message(each) for each in messages[count:]]
            parts: list[Any] = [[0, count], *new] if count else new
        else:
            before = [self._add_message(each) for each in self._sent]
            parts = difference(before, [self._add_message(each) for each in messages])
        self._sent = messages
        return parts

    def _write_reply(self, response: ChatResponse, began: float) -> None:
        fields: dict[str, Any] = {"message": self._add_message(response.message)}
        for name in _REPLY_FIELDS:
            if (value := getattr(response, name)) is not None:
                fields[name] = value
        if response.usage is not None:
            fields["usage"] = _usage(response.usage)
        if attempts := getattr(response, "attempts", ()):
            fields["attempts"] = plain_data(attempts)
        self._text = response.content
        self._write("reply", duration=_since(began), **fields)

    # ---- events

    def _record(self, event: LoopEvent) -> None:
        match event:
            case DecisionMade():
                self._write_decision(event)
            case FeedbackGiven():
                self._write_feedback(event)
            case ToolCalled(call=call):
                effect = self._effects.get(call.name)
                self._write(
                    "call", id=call.id, name=call.name, arguments=call.arguments, effect=effect
                )
            case ToolAnswered():
                self._write_result(event)
            case ToolProgressed(call=call, value=value):
                self._write("progress", id=call.id, value=plain_data(value))
            case ToolRetried(call=call, error=error, attempt=attempt):
                failure = {"kind": error.kind, "message": error.message}
                self._write("retry", id=call.id, attempt=attempt, error=failure)
            case ApprovalPending(call=call):
                self._write("approval", id=call.id, verdict="pending")
            case LoopEnded():
                self._write_end(event)

    def _write_decision(self, event: DecisionMade) -> None:
        fields: dict[str, Any] = {} if event.text == self._text else {"text": event.text}
        names: list[str | None] = [call.name for call in event.calls] or [None]
        if event.calls:
            fields["calls"] = [[call.id, call.name, call.arguments] for call in event.calls]
        else:
            fields["reply"] = event.reply
        if event.repairs:
            fields["repairs"] = event.repairs
        if self._is_text:
            fields |= interpretation(event.text, names, event.repairs)
        self._write("decision", **fields)

    def _write_feedback(self, event: FeedbackGiven) -> None:
        fields: dict[str, Any] = {} if event.text == self._text else {"text": event.text}
        fields["feedback"] = event.feedback
        if event.issues:
            fields["issues"] = [plain_data(asdict(issue)) for issue in event.issues]
        if self._is_text:
            fields |= interpretation(event.text, None, ())
        self._write("decision", **fields)

    @property
    def _is_text(self) -> bool:
        """Whether decisions are JSON in the text of a reply."""
        return not isinstance(self._run.dialect, NativeDialect)

    def _write_result(self, event: ToolAnswered) -> None:
        result, record = event.result, self._run.records[-1]
        assert record.message is not None
        fields: dict[str, Any] = {
            "name": result.name,
            "status": result.status,
            "message": self._add_message(record.message),
            "attempts": result.attempts,
            "duration": round(result.duration, 6),
        }
        if (arguments := _used_arguments(result)) != record.arguments:
            fields["arguments"] = arguments
        if result.cached:
            fields["cached"] = True
        if result.repairs:
            fields["repairs"] = result.repairs
        if result.error is not None:
            fields["error"] = {"kind": result.error.kind, "message": result.error.message}
        if result.details is not None:
            fields["details"] = plain_data(result.details)
        if record.variable is not None:
            fields |= {"variable": record.variable, "output": _output(result.output)}
        self._write("result", id=result.call_id, **fields)

    def _write_verdict(
        self, request: ApprovalRequest, verdict: Verdict | bool, duration: float
    ) -> None:
        name = type(verdict).__name__.lower()
        if isinstance(verdict, bool):
            name = "approve" if verdict else "reject"
        fields: dict[str, Any] = {"verdict": name, "duration": duration}
        if request.result is not None:
            fields["about"] = "result"
        if isinstance(verdict, Reject | Redact) and verdict.reason:
            fields["reason"] = verdict.reason
        if isinstance(verdict, Edit):
            fields["arguments"] = plain_data(dict(verdict.arguments))
        self._write("approval", id=request.call_id, **fields)

    def _write_end(self, event: LoopEnded) -> None:
        result = event.result
        fields: dict[str, Any] = {"status": event.status}
        if result.reply is not None:
            fields["reply"] = result.reply
        if result.status_reason is not None:
            fields["reason"] = result.status_reason
        if result.pending_approvals:
            fields["waiting"] = [call.id for call in result.pending_approvals]
        self._write("end", **fields, **self._totals())

    def _totals(self) -> dict[str, Any]:
        run = self._run
        totals = {"usage": _usage(run.usage), "tool_rounds": run.tool_rounds}
        optional = {"cost": run.cost, "error": self._error}
        return totals | {name: value for name, value in optional.items() if value is not None}

    # ---- values that are written once

    def _add_message(self, message: Message) -> str:
        """Return the hash of a message; write the message before its first use in the file."""
        known = getattr(message, "encodings", {}).get(_HASH)
        if known is not None and known[0] is self._hashes:
            return str(known[1])
        hash = self._add("message", message.to_dict())
        message.store_encoding(_HASH, (self._hashes, hash))
        return hash

    def _add_tools(self) -> str | None:
        """Return the hash of the run's tools; None without tools."""
        tools = tuple(self._run.tools())
        if tools != self._tools:
            self._tools, self._effects = tools, {tool.name: tool.effect for tool in tools}
            self._tools_hash = (
                self._add("tools", [_tool(tool) for tool in tools]) if tools else None
            )
        return self._tools_hash

    def _add_specs(self, specs: Sequence[ToolSpec]) -> str:
        """Return the hash of the tools that are sent besides the messages."""
        is_same = len(specs) == len(self._tools) and all(
            spec is tool.spec for spec, tool in zip(specs, self._tools, strict=True)
        )
        if is_same and self._tools_hash is not None:
            return self._tools_hash
        return self._add("tools", [_spec(spec) for spec in specs])

    def _add(self, kind: str, value: Any) -> str:
        text = self._encode(value)
        hash = sha256(text).hexdigest()[:16]
        if hash not in self._hashes:
            self._hashes.add(hash)
            self._begin()
            self._append(
                b'{"type":"%b","run":"%b","hash":"%b","%b":%b}'
                % (kind.encode(), self._id.encode(), hash.encode(), kind.encode(), text)
            )
        return hash

    # ---- lines

    def _now(self) -> float:
        return round(perf_counter() - self._started, 6) if self._started else 0.0

    def _begin(self) -> None:
        """Write the header before the first line."""
        if not self._started:
            first = header(self._run, self._options, self._gateway, self._parent)
            self._started = perf_counter()
            self._write("run", **first)

    def _write(self, kind: str, **fields: Any) -> None:
        self._begin()
        record = {"type": kind, "run": self._id, "turn": self._run.turns, "at": self._now()}
        self._append(self._encode({**record, **fields}))

    def _append(self, line: bytes) -> None:
        """Write a line with a checksum of this line and all earlier lines of the run."""
        self._check = crc32(line, self._check)
        self._write_line(b'%b,"check":%d}\n' % (line[:-1], self._check))


class _Wrapped:
    """A function of a gateway that is recorded; its `__self__` is still the gateway."""

    def __init__(self, send: Callable[..., Any], record: Callable[..., Any]) -> None:
        self._send, self._record = send, record
        self.__self__ = getattr(send, "__self__", None)

    def __call__(self, messages: tuple[Message, ...], **keywords: Any) -> Any:
        return self._record(self._send, messages, keywords)


def _since(began: float) -> float:
    return round(perf_counter() - began, 6)


def _error(error: BaseException) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": exception_text(error)}
    status = getattr(error, "status", None)
    return fields if status is None else {**fields, "status": status}


def _usage(usage: Usage) -> dict[str, int]:
    counts = ((name, getattr(usage, name)) for name in Usage.__dataclass_fields__)
    return {name: count for name, count in counts if count is not None}


def _spec(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def _tool(tool: Tool) -> dict[str, Any]:
    approval = "depends" if callable(tool.needs_approval) else tool.needs_approval
    return {**_spec(tool.spec), "effect": tool.effect, "needs_approval": approval}


def _used_arguments(result: ToolResult) -> str | None:
    """The arguments that the tool received, with repaired JSON; None if it did not run."""
    if result.arguments is None or not result.repairs:
        return result.arguments
    return json.dumps(extract_json(result.arguments).value, ensure_ascii=False)


def _output(output: Any) -> Any:
    """The whole output of a result, as the content of a message."""
    return Message.user(output).to_dict()["content"]
