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
from math import isfinite
from operator import is_
from time import perf_counter
from typing import Any, TypeVar
from uuid import uuid4
from zlib import crc32

from stage0_gateway import (
    ChatResponse,
    KnownSecrets,
    Message,
    MessageStream,
    ToolCall,
    ToolSpec,
    Usage,
    response_of,
)
from stage2_output import extract_json
from stage3_tools.abort import RunStopped
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
from stage3_tools.trace.lines import Encoder
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
        hide: Texts to hide, besides the keys of the gateway.
        parent: The run from which this one was forked.
    """

    def __init__(
        self,
        run: RunState,
        write: Callable[[bytes], None],
        hashes: set[str],
        hide: Iterable[str] = (),
        parent: RunParent | None = None,
    ) -> None:
        self._run, self._append, self._hashes, self._parent = run, write, hashes, parent
        self._gateway = run.deps.gateway
        gateway = run.deps.gateway
        self._encode = Encoder(hide, KnownSecrets([gateway] if gateway else None))
        self._id = uuid4().hex[:8]
        self._started = 0.0  # 0 before the header
        self._check = 0
        self._content: list[bytes] = []  # lines of messages and tools that the next line needs
        self._dropped = DroppedMessages()
        self._sent: tuple[Message, ...] = ()  # the previous request
        self._stored: tuple[Message, ...] = ()
        self._summaries = 0  # the number of summaries that requests contain
        self._dialect: object = None
        self._keywords: dict[str, Any] = {}
        self._tools: tuple[Tool, ...] = ()
        self._tools_hash: str | None = None
        self._reply: dict[str, Any] | None = None  # waits for its decision
        self._replied: Message | None = None  # the newest reply
        self._decided: dict[str, ToolCall] = {}  # the calls of the newest decision, by id
        self._error: dict[str, Any] | None = None
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
                # If the run was stopped, the event `loop_end` follows.
                status = error.status if isinstance(error, RunStopped) else self._run.stop_reason
                if status is None:
                    self._error = _error(error)
                ending = {"status": status or _status(error), **self._totals()}
                self._write(self._line("end") | ending)
                raise

        return watched

    def _approver(self, approver: Approver) -> Approver:
        async def approve(request: ApprovalRequest) -> Verdict | bool:
            began = perf_counter()
            answer = approver(request)
            verdict = await answer if isinstance(answer, Awaitable) else answer
            if isinstance(verdict, Verdict | bool):  # any other value ends the run with an error
                fields = _verdict(request, verdict, _since(began))
                self._write(self._line("approval") | fields)
            return verdict

        return approve

    # ---- requests and replies

    def on_request(self, messages: tuple[Message, ...], keywords: dict[str, Any]) -> None:
        """Write a request that is sent next; what is as in the previous request is left out."""
        line = self._line("request")
        dropped = self._dropped.update(self._run.transcript, self._sent)
        stored = self._conversation()
        line["messages"] = self._difference(self._sent, messages)
        if not _are_same(stored, messages):
            line["stored"] = self._difference(self._stored, stored)
        self._sent, self._stored = messages, stored
        if self._run.dialect is not self._dialect:
            self._dialect = self._run.dialect
            line["dialect"] = described_dialect(self._dialect)
        if summaries := self._run.summaries[self._summaries :]:
            self._summaries = len(self._run.summaries)
            line["summaries"] = [_reply_costs(each) for each in summaries]
        if dropped:
            line["dropped"] = [[self._add_message(each), reason] for each, reason in dropped]
        if self._find_new_tools():
            line["tools"] = self._tools_hash
        if keywords != self._keywords:
            self._keywords = keywords
            line["options"] = self._options(keywords)
        self._write(line)

    def _conversation(self) -> tuple[Message, ...]:
        """The messages from which the next request was rendered."""
        selection = self._run.transcript.last_request
        return tuple([each.message for each in selection.chosen]) if selection else ()

    def _difference(self, before: tuple[Message, ...], messages: tuple[Message, ...]) -> list[Any]:
        """The messages as slices of other ones, and hashes of new messages."""
        count = len(before)
        if count and _are_same(before, messages[:count]):
            return [[0, count], *map(self._add_message, messages[count:])]
        hashes = [self._add_message(each) for each in messages]
        return difference([self._add_message(each) for each in before], hashes)

    def _options(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords of a request; the key of the cache is the session of the header."""
        options = {name: value for name, value in keywords.items() if name != "cache_key"}
        if "tools" in options:
            options["tools"] = self._add_specs(options["tools"])
        return options

    def on_reply(self, response: ChatResponse, began: float) -> None:
        """Keep a reply until its decision is known; both are one line."""
        self._reply = line = self._line("reply")
        line["duration"] = _since(began)
        for name in REPLY_FIELDS:  # a function of the program may return values of other types
            if (value := getattr(response, name)) is not None:
                line[name] = str(value)
        line |= _reply_costs(response)
        if attempts := response.attempts:
            line["attempts"] = [asdict(attempt) for attempt in attempts]
        self._replied = response.message

    def on_failure(self, message: Message | None, error: dict[str, Any], began: float) -> None:
        """Write the error that came instead of a reply, and the part that arrived."""
        line = self._line("reply") | {"duration": _since(began), "error": error}
        if message is not None:
            line["message"] = self._add_message(message)
        self._write(line)

    def _write_reply(self, decision: dict[str, Any] | None) -> None:
        """Write the newest reply with its decision; the first reply of a chain has no request."""
        line, self._reply = self._reply, None
        if line is None:
            line = self._line("reply")
        elif self._replied is not None:
            line["message"] = self._add_message(self._replied)
        if decision is not None:
            line["decision"] = decision
        self._write(line)

    # ---- events

    def _on_decision(self, event: dict[str, Any]) -> None:
        text, calls, repairs = event["text"], event.get("calls", ()), event.get("repairs", ())
        is_reply = self._replied is not None and self._replied.content == text
        decision: dict[str, Any] = {} if is_reply else {"text": text}
        if calls:
            if self._replied is None or calls != self._replied.tool_calls:
                decision["calls"] = [_call(call) for call in calls]
        else:
            decision["reply"] = event["reply"]
        if repairs:
            decision["repairs"] = repairs
        if self._reads_text() and not is_plain(text, repairs):
            names = [call.name for call in calls]
            decision.update(interpretation(text, names, repairs))
        if calls and not self._run.turns:  # the first reply of a chain
            self._find_new_tools()
            decision["tools"] = self._tools_hash
        self._decided = {call.id: call for call in calls}
        self._write_reply(decision)

    def _on_feedback(self, event: dict[str, Any]) -> None:
        text, issues = event["text"], event.get("issues")
        is_reply = self._replied is not None and self._replied.text == text
        decision: dict[str, Any] = {} if is_reply else {"text": text}
        decision["feedback"] = event["feedback"]
        if issues:
            decision["issues"] = issues
        if self._reads_text():
            decision.update(interpretation(text, None, ()))
        self._write_reply(decision)

    def _reads_text(self) -> bool:
        return reads_text(type(self._run.options.dialect).__name__)

    def _on_turn_end(self, event: dict[str, Any]) -> None:
        if self._reply is not None:  # the provider ended it, so there is no decision
            self._write_reply(None)

    def _on_call(self, event: dict[str, Any]) -> None:
        call = event["call"]
        if self._decided.get(call.id) == call:
            return
        line = self._line("call")  # of an earlier run
        line |= {"id": call.id, "name": call.name, "arguments": call.arguments}
        if self._find_new_tools():
            line["tools"] = self._tools_hash
        self._write(line)

    def _on_progress(self, event: dict[str, Any]) -> None:
        fields = {"id": event["call"].id, "value": plain_data(event["value"])}
        self._write(self._line("progress") | fields)

    def _on_retry(self, event: dict[str, Any]) -> None:
        fields = {"id": event["call"].id, "attempt": event["attempt"]}
        self._write(self._line("retry") | fields | {"error": _failure(event["error"])})

    def _on_pending(self, event: dict[str, Any]) -> None:
        self._write(self._line("approval") | {"id": event["call"].id, "verdict": "pending"})

    def _on_result(self, event: dict[str, Any]) -> None:
        result, record = event["result"], self._run.records[-1]
        assert record.message is not None
        line = self._line("result")
        line["id"], line["status"] = result.call_id, result.status
        line["message"] = self._add_message(record.message)
        line["attempts"], line["duration"] = result.attempts, round(result.duration, 6)
        if result.repairs or result.arguments != record.arguments:
            line["arguments"] = _used_arguments(result)
        if result.cached:
            line["cached"] = True
        if result.repairs:
            line["repairs"] = result.repairs
        if result.error is not None:
            line["error"] = _failure(result.error)
        if result.details is not None:
            line["details"] = plain_data(result.details)
        if record.variable is not None:
            line["variable"], line["output"] = record.variable, _output(result.output)
        self._write(line)

    def _on_end(self, event: dict[str, Any]) -> None:
        result = event["result"]
        line = self._line("end")
        line["status"] = event["status"]
        if result.reply is not None:
            line["reply"] = result.reply
        if result.status_reason is not None:
            line["reason"] = result.status_reason
        if result.pending_approvals:
            line["waiting"] = [call.id for call in result.pending_approvals]
        self._write(line | self._totals())

    def _totals(self) -> dict[str, Any]:
        run = self._run
        totals: dict[str, Any] = {"usage": _counts(run.usage), "tool_rounds": run.tool_rounds}
        error = {} if self._error is None else {"error": self._error}
        return totals | _cost(run.cost) | error

    # ---- values that are written once

    def _add_message(self, message: Message) -> str:
        """Return the hash of a message; the message is written before its first use in the file."""
        known = getattr(message, "encodings", _EMPTY).get(_HASH)
        if known not in self._hashes:
            known = self._add(b"message", message.to_dict())
            message.store_encoding(_HASH, known)
        return str(known)

    def _find_new_tools(self) -> bool:
        """Whether the run's tools have changed; `_tools_hash` is their new hash."""
        tools = tuple(self._run.tools())
        if tools == self._tools:
            return False
        self._tools = tools
        self._tools_hash = self._add(b"tools", [_tool(tool) for tool in tools])
        return True

    def _add_specs(self, specs: Sequence[ToolSpec]) -> str:
        """Return the hash of the tools that are sent besides the messages."""
        if self._tools_hash is not None and _are_same(specs, [tool.spec for tool in self._tools]):
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

    def _line(self, kind: str) -> dict[str, Any]:
        """Return the first fields of a line. A reply without a decision is written before it."""
        if not self._started:
            self._started = perf_counter()
            self._write(self._line("run") | header(self._run, self._gateway, self._parent))
        if self._reply is not None:
            self._write_reply(None)
        at = round(perf_counter() - self._started, 6)
        return {"type": kind, "run": self._id, "turn": self._run.turns, "at": at}

    def _write(self, line: dict[str, Any]) -> None:
        """Write a line, with the messages and tools that it needs before it.

        The checksum covers these lines and all earlier lines of the run.
        """
        text = self._encode(line)
        if self._content:
            text = b"".join([*self._content, text])
            self._content.clear()
        self._check = crc32(text, self._check)
        self._append(b'%b,"check":%d}\n' % (text[:-1], self._check))


class _Traced:
    """A function of a gateway that is recorded."""

    def __init__(self, recorder: RunRecorder, send: Callable[..., Any]) -> None:
        self._recorder, self._send = recorder, send


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


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two sequences contain the same objects. Equal ones may differ, as 1 and True do."""
    return len(some) == len(others) and all(map(is_, some, others))


def _since(began: float) -> float:
    return round(perf_counter() - began, 6)


def _status(error: BaseException) -> str:
    return "error" if isinstance(error, Exception) else "cancelled"


def _error(error: BaseException) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": exception_text(error)}
    status = getattr(error, "status", None)
    return {**fields, "status": status} if isinstance(status, int) else fields


def _counts(usage: Usage) -> dict[str, int | None]:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _reply_costs(response: ChatResponse) -> dict[str, Any]:
    """The cost and the tokens of a reply, where they are known."""
    usage = {} if response.usage is None else {"usage": _counts(response.usage)}
    return _cost(response.cost) | usage


def _cost(dollars: object) -> dict[str, float]:
    is_known = isinstance(dollars, float | int) and isfinite(dollars) and dollars >= 0
    return {"cost": dollars} if is_known else {}  # type: ignore[dict-item]  # a number


def _call(call: ToolCall) -> dict[str, Any]:
    fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return fields if call.provider_data is None else {**fields, "provider_data": call.provider_data}


def _spec(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def _tool(tool: Tool) -> dict[str, Any]:
    approval: Any = "depends" if callable(tool.needs_approval) else tool.needs_approval
    if approval is None and tool.effect != "write":
        approval = False
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
        fields["reason"] = str(verdict.reason)
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
