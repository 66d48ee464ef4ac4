"""`RunRecorder`: write one run to a run file, line by line.

The recorder is a listener, not a second loop. It wraps the functions that the run calls:

    chat, stream               the exact request and its keywords, the reply, its duration
    approve, approve_result    verdicts

The run itself reports its events: decisions, feedback, results, the ending. The cost of a line does
not depend on the length of the conversation: a request is written as the difference from the
previous one, and each message is encoded once. `reader` rebuilds the run.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from operator import is_
from time import perf_counter
from typing import Any, TypeVar
from uuid import uuid4
from zlib import crc32

from stage0_gateway import (
    ChatResponse,
    Message,
    MessageStream,
    ToolCall,
    ToolSpec,
    response_of,
)
from stage2_output import extract_json
from stage3_tools.errors import ToolError, exception_text
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
    TurnEnded,
)
from stage3_tools.execution.approval import ApprovalRequest, Approver, Edit, Redact, Reject, Verdict
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions
from stage3_tools.result import ToolResult, plain_data
from stage3_tools.run.state import RunState
from stage3_tools.tool import Tool
from stage3_tools.trace.difference import difference
from stage3_tools.trace.dropped import DroppedMessages
from stage3_tools.trace.header import described_dialect, header
from stage3_tools.trace.interpretation import interpretation, is_plain, reads_text
from stage3_tools.trace.lines import encoder
from stage3_tools.trace.values import REPLY_FIELDS, RunParent

T = TypeVar("T")

_HASH = "run file"  # the key of a message's hash among its encodings
_EMPTY: dict[str, Any] = {}


class RunRecorder:
    """Writes one run.

    Args:
        run: The run.
        write: Appends lines to the file.
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
        self._run, self._append, self._hashes, self._parent = run, write, hashes, parent
        self._gateway = getattr(run.deps.stream or run.deps.chat, "__self__", None)
        self._encode = encoder((*secrets, *getattr(self._gateway, "secrets", ())))
        self._id = uuid4().hex[:8]
        self._started = 0.0  # 0 before the header
        self._check = 0
        self._content: list[bytes] = []  # lines of messages and tools that the next line needs
        self._dropped = DroppedMessages()
        self._sent: tuple[Message, ...] = ()
        self._stored: tuple[Message, ...] = ()
        self._dialect: object = None  # of the previous request
        self._tools: tuple[Tool, ...] = ()
        self._tools_hash: str | None = None
        self._reply: dict[str, Any] | None = None  # waits for its decision
        self._replied: Message | None = None  # the newest reply
        self._decided: tuple[ToolCall, ...] = ()  # the calls of the newest decision
        self._error: dict[str, Any] | None = None
        self._is_text = True
        self._kinds: dict[type, Callable[[dict[str, Any]], None]] = {
            DecisionMade: self._on_decision,
            FeedbackGiven: self._on_feedback,
            TurnEnded: self._on_turn_end,
            ToolCalled: self._on_call,
            ToolProgressed: self._on_progress,
            ToolRetried: self._on_retry,
            ToolAnswered: self._on_result,
            ApprovalPending: self._on_pending,
            LoopEnded: self._on_end,
        }

    # ---- what the run calls

    def wrap_deps(self, deps: ToolLoopDeps) -> ToolLoopDeps:
        """The same parts, with functions that record requests and replies."""
        stream = None if deps.stream is None else _TracedStream(self, deps.stream)
        return replace(deps, chat=_TracedChat(self, deps.chat), stream=stream)

    def wrap_options(self, options: ToolLoopOptions) -> ToolLoopOptions:
        """The same options, with functions that record verdicts."""
        self._is_text = reads_text(type(options.dialect).__name__)
        approvers = {name: getattr(options, name) for name in ("approve", "approve_result")}
        changes: dict[str, Any] = {
            name: self._approver(one) for name, one in approvers.items() if one is not None
        }
        return replace(options, **changes) if changes else options

    def record(self, event: type[LoopEvent], fields: dict[str, Any]) -> None:
        """Record an event of the run: its class and its fields."""
        if write := self._kinds.get(event):
            write(fields)

    def watch(self, body: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The same body of a run; an exception is recorded as its ending."""

        async def watched() -> T:
            try:
                return await body()
            except BaseException as error:
                status = self._run.stop_reason  # if it was stopped, the event `loop_end` follows
                if status is None:
                    self._error = _error(error)
                self._write("end", {"status": status or _status(error), **self._totals()})
                raise

        return watched

    def _approver(self, approver: Approver) -> Approver:
        async def approve(request: ApprovalRequest) -> Verdict | bool:
            began = perf_counter()
            answer = approver(request)
            verdict = await answer if isinstance(answer, Awaitable) else answer
            if isinstance(verdict, Verdict | bool):  # any other value ends the run with an error
                self._write("approval", _verdict(request, verdict, _since(began)))
            return verdict

        return approve

    # ---- requests and replies

    def on_request(self, messages: tuple[Message, ...], keywords: dict[str, Any]) -> None:
        """Write a request that is sent next."""
        dropped = self._dropped.update(self._run.transcript, self._sent)
        before, self._sent = self._sent, messages
        fields: dict[str, Any] = {"messages": self._difference(before, messages)}
        if (stored := self._conversation(messages)) is not None:
            fields["stored"] = stored
        if self._run.dialect is not self._dialect:
            self._dialect = self._run.dialect
            fields["dialect"] = described_dialect(self._dialect)
        if dropped:
            fields["dropped"] = [[self._add_message(each), reason] for each, reason in dropped]
        if (tools := self._add_tools()) is not None:
            fields["tools"] = tools
        if keywords:
            if "tools" in keywords:
                keywords = {**keywords, "tools": self._add_specs(keywords["tools"])}
            fields["options"] = keywords
        self._write("request", fields)

    def _conversation(self, sent: tuple[Message, ...]) -> list[Any] | None:
        """The messages from which a request was rendered; None if they were sent as they are."""
        selection = self._run.transcript.last_request
        chosen = tuple([each.message for each in selection.chosen]) if selection else ()
        before, self._stored = self._stored, chosen
        if len(chosen) == len(sent) and all(map(is_, chosen, sent)):
            return None
        return self._difference(before, chosen)

    def _difference(self, before: tuple[Message, ...], messages: tuple[Message, ...]) -> list[Any]:
        """The messages as slices of other ones, and hashes of new messages."""
        count = len(before)
        if count and count <= len(messages) and all(map(is_, before, messages)):
            parts: list[Any] = [[0, count]]
            for message in messages[count:]:
                if message.role == "assistant" and message == self._replied:
                    message = self._replied  # an equal object whose hash is known
                parts.append(self._add_message(message))
            return parts
        hashes = [self._add_message(each) for each in messages]
        return difference([self._add_message(each) for each in before], hashes)

    def on_reply(self, response: ChatResponse, began: float) -> None:
        """Keep a reply until its decision is known; both are one line."""
        fields: dict[str, Any] = {"duration": round(perf_counter() - began, 6)}
        for name in REPLY_FIELDS:
            if (value := getattr(response, name)) is not None:
                fields[name] = value
        if response.usage is not None:
            fields["usage"] = response.usage
        if attempts := response.attempts:
            fields["attempts"] = [asdict(attempt) for attempt in attempts]
        self._reply, self._replied = fields, response.message

    def on_failure(self, message: Message | None, error: dict[str, Any], began: float) -> None:
        """Write the error that came instead of a reply, and the part that arrived."""
        fields = {"duration": _since(began), "error": error}
        if message is not None:
            fields["message"] = self._add_message(message)
        self._write("reply", fields)

    def _write_reply(self, decision: dict[str, Any] | None) -> None:
        """Write the newest reply with its decision; the first reply of a chain has no request."""
        fields, self._reply = self._reply or {}, None
        if fields and self._replied is not None:
            fields["message"] = self._add_message(self._replied)
        if decision is not None:
            fields["decision"] = decision
        self._write("reply", fields)

    # ---- events

    def _on_decision(self, event: dict[str, Any]) -> None:
        text, calls, repairs = event["text"], event.get("calls", ()), event.get("repairs", ())
        is_reply = self._replied is not None and self._replied.content == text
        decision: dict[str, Any] = {} if is_reply else {"text": text}
        if calls:
            decision["calls"] = calls
        else:
            decision["reply"] = event["reply"]
        if repairs:
            decision["repairs"] = repairs
        if self._is_text and not is_plain(text, repairs):
            names = [call.name for call in calls]
            decision.update(interpretation(text, names, repairs))
        if calls and not self._run.turns:  # the first reply of a chain
            decision["tools"] = self._add_tools()
        self._decided = calls
        self._write_reply(decision)

    def _on_feedback(self, event: dict[str, Any]) -> None:
        text, issues = event["text"], event.get("issues")
        is_reply = self._replied is not None and self._replied.text == text
        decision: dict[str, Any] = {} if is_reply else {"text": text}
        decision["feedback"] = event["feedback"]
        if issues:
            decision["issues"] = issues
        if self._is_text:
            decision.update(interpretation(text, None, ()))
        self._write_reply(decision)

    def _on_turn_end(self, event: dict[str, Any]) -> None:
        if self._reply is not None:  # the provider ended it, so there is no decision
            self._write_reply(None)

    def _on_call(self, event: dict[str, Any]) -> None:
        call = event["call"]
        if not any(call is each for each in self._decided):  # of an earlier run
            self._add_tools()
            fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
            self._write(
                "call",
                fields if self._tools_hash is None else {**fields, "tools": self._tools_hash},
            )

    def _on_progress(self, event: dict[str, Any]) -> None:
        self._write("progress", {"id": event["call"].id, "value": plain_data(event["value"])})

    def _on_retry(self, event: dict[str, Any]) -> None:
        fields = {"id": event["call"].id, "attempt": event["attempt"]}
        self._write("retry", {**fields, "error": _failure(event["error"])})

    def _on_pending(self, event: dict[str, Any]) -> None:
        self._write("approval", {"id": event["call"].id, "verdict": "pending"})

    def _on_result(self, event: dict[str, Any]) -> None:
        result, record = event["result"], self._run.records[-1]
        assert record.message is not None
        fields: dict[str, Any] = {
            "id": result.call_id,
            "status": result.status,
            "message": (
                record.message.to_dict() if self._is_text else self._add_message(record.message)
            ),
            "attempts": result.attempts,
            "duration": round(result.duration, 6),
        }
        if result.repairs or result.arguments != record.arguments:
            fields["arguments"] = _used_arguments(result)
        if result.cached:
            fields["cached"] = True
        if result.repairs:
            fields["repairs"] = result.repairs
        if result.error is not None:
            fields["error"] = _failure(result.error)
        if result.details is not None:
            fields["details"] = plain_data(result.details)
        if record.variable is not None:
            fields["variable"], fields["output"] = record.variable, _output(result.output)
        self._write("result", fields)

    def _on_end(self, event: dict[str, Any]) -> None:
        result = event["result"]
        fields: dict[str, Any] = {"status": event["status"]}
        if result.reply is not None:
            fields["reply"] = result.reply
        if result.status_reason is not None:
            fields["reason"] = result.status_reason
        if result.pending_approvals:
            fields["waiting"] = [call.id for call in result.pending_approvals]
        self._write("end", {**fields, **self._totals()})

    def _totals(self) -> dict[str, Any]:
        run = self._run
        totals: dict[str, Any] = {"usage": run.usage, "tool_rounds": run.tool_rounds}
        optional = {"cost": run.cost, "error": self._error}
        return totals | {name: value for name, value in optional.items() if value is not None}

    # ---- values that are written once

    def _add_message(self, message: Message) -> str:
        """Return the hash of a message; the message is written before its first use in the file."""
        known = getattr(message, "encodings", _EMPTY).get(_HASH)
        if known not in self._hashes:
            known = self._add(b"message", message.to_dict())
            message.store_encoding(_HASH, known)
        return str(known)

    def _add_tools(self) -> str | None:
        """Return the hash of the run's tools; None without tools."""
        tools = tuple(self._run.tools())
        if tools != self._tools:
            self._tools = tools
            self._tools_hash = self._add(b"tools", [_tool(tool) for tool in tools])
        return self._tools_hash if tools else None

    def _add_specs(self, specs: Sequence[ToolSpec]) -> str:
        """Return the hash of the tools that are sent besides the messages."""
        if len(specs) == len(self._tools) and self._tools_hash is not None:
            specs_of_tools = [tool.spec for tool in self._tools]
            if all(map(is_, specs, specs_of_tools)):
                return self._tools_hash
        return self._add(b"tools", [_spec(spec) for spec in specs])

    def _add(self, kind: bytes, value: Any) -> str:
        text = self._encode(value)
        hash = blake2b(text, digest_size=8).hexdigest()
        if hash not in self._hashes:
            self._hashes.add(hash)
            line = b'{"type":"%b","hash":"%b","%b":%b}\n' % (kind, hash.encode(), kind, text)
            self._content.append(line)
        return hash

    # ---- lines

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a line, with the messages and tools that it needs before it.

        The checksum covers these lines and all earlier lines of the run.
        """
        if not self._started:
            self._write_header()
        if self._reply is not None:
            self._write_reply(None)
        at = round(perf_counter() - self._started, 6)
        head = {"type": kind, "run": self._id, "turn": self._run.turns, "at": at}
        line = self._encode(head | fields)
        if self._content:
            line = b"".join([*self._content, line])
            self._content.clear()
        self._check = crc32(line, self._check)
        self._append(b'%b,"check":%d}\n' % (line[:-1], self._check))

    def _write_header(self) -> None:
        first, content = header(self._run, self._gateway, self._parent), self._content
        self._content, self._started = [], perf_counter()
        self._write("run", first)
        self._content = content


class _Traced:
    """A function of a gateway that is recorded; its `__self__` is still the gateway."""

    def __init__(self, recorder: RunRecorder, send: Callable[..., Any]) -> None:
        self._recorder, self._send = recorder, send
        self.__self__ = getattr(send, "__self__", None)


class _TracedChat(_Traced):
    async def __call__(self, messages: tuple[Message, ...], **keywords: Any) -> ChatResponse:
        recorder = self._recorder
        recorder.on_request(messages, keywords)
        began = perf_counter()
        try:
            response = await response_of(self._send(messages, **keywords))
        except BaseException as error:
            recorder.on_failure(None, _error(error), began)
            raise
        recorder.on_reply(response, began)
        return response


class _TracedStream(_Traced):
    def __call__(self, messages: tuple[Message, ...], **keywords: Any) -> Any:
        recorder = self._recorder
        recorder.on_request(messages, keywords)
        began = perf_counter()
        stream = self._send(messages, **keywords)
        if isinstance(stream, MessageStream):  # the turn rejects other values

            def fail(error: dict[str, Any]) -> None:
                recorder.on_failure(stream.current_message, error, began)

            stream.on("final_message", lambda event: recorder.on_reply(event.response, began))
            stream.on("error", lambda event: fail(_error(event.error)))
            stream.on("abort", lambda event: fail({"type": "abort", "message": event.reason or ""}))
        return stream


def _since(began: float) -> float:
    return round(perf_counter() - began, 6)


def _status(error: BaseException) -> str:
    return "error" if isinstance(error, Exception) else "cancelled"


def _error(error: BaseException) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": exception_text(error)}
    status = getattr(error, "status", None)
    return fields if status is None else {**fields, "status": status}


def _spec(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def _tool(tool: Tool) -> dict[str, Any]:
    approval = "depends" if callable(tool.needs_approval) else tool.needs_approval
    written = {"parameters": tool.parameters or {}}  # as in prompts; a spec has more fields
    return {**_spec(tool.spec), **written, "effect": tool.effect, "needs_approval": approval}


def _failure(error: ToolError) -> dict[str, str]:
    return {"kind": error.kind, "message": error.message}


def _verdict(request: ApprovalRequest, verdict: Verdict | bool, duration: float) -> dict[str, Any]:
    name = type(verdict).__name__.lower()
    if isinstance(verdict, bool):
        name = "approve" if verdict else "reject"
    fields: dict[str, Any] = {"id": request.call_id, "verdict": name, "duration": duration}
    if request.result is not None:
        fields["about"] = "result"
    if isinstance(verdict, Reject | Redact) and verdict.reason:
        fields["reason"] = verdict.reason
    if isinstance(verdict, Edit):
        fields["arguments"] = plain_data(dict(verdict.arguments))
    return fields


def _used_arguments(result: ToolResult) -> str | None:
    """The arguments that the tool received, with repaired JSON; None if it did not run."""
    if result.arguments is None or not result.repairs:
        return result.arguments
    return json.dumps(extract_json(result.arguments).value, ensure_ascii=False)


def _output(output: Any) -> Any:
    """The whole output of a result, as the content of a message."""
    return Message.user(output).to_dict()["content"]
