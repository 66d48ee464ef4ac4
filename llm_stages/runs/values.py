"""`Run` and its parts: what the reader of run files returns.

Frozen values. Times (`at`, `started`, `ended`) are seconds since the start of the run. A part that
a killed run did not write is None or empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stage0_gateway import Message, ToolCall, ToolSpec, Usage
from stage2_output import Issue, Repair
from stage3_tools import json_value

FORMAT_VERSION = 1
"""The version of the format that this package writes and reads."""

REPLY_FIELDS = (
    "finish_reason",
    "raw_finish_reason",
    "model",
    "request_id",
    "refusal",
    "block_reason",
)
"""The texts of a `ChatResponse` that a run file contains under the same name."""


@dataclass(frozen=True, slots=True)
class RunParent:
    """The run from which another run was forked.

    Attributes:
        file: The file of the parent.
        run: The id of the parent.
        turn: The first turn that differs.
    """

    file: str
    run: str
    turn: int


@dataclass(frozen=True, slots=True)
class RunError:
    """An exception: of the gateway, of a listener, or a cancellation.

    Attributes:
        type: The name of its class.
        message: Its text.
        status: The HTTP status of a `GatewayError`, or None.
    """

    type: str
    message: str
    status: int | None = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


@dataclass(frozen=True, slots=True)
class RunTool:
    """A tool that the model could call.

    Attributes:
        name: The name.
        description: The description for the model.
        parameters: The JSON Schema of the arguments.
        effect: "read", "idempotent" or "write"; None if it is unknown.
        needs_approval: Whether calls need approval; "depends" if the arguments decide; None if an
            approver decides, where there is one.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effect: str | None = None
    needs_approval: bool | Literal["depends"] | None = None

    @property
    def function(self) -> dict[str, Any]:
        """The name, the description and the parameters as plain data."""
        parameters = dict(self.parameters)
        return {"name": self.name, "description": self.description, "parameters": parameters}

    @property
    def spec(self) -> ToolSpec:
        """The description as the gateway sends it."""
        parameters = {"type": "object", "properties": {}, **self.parameters}
        return ToolSpec(self.name, self.description, parameters)


@dataclass(frozen=True, slots=True)
class DroppedMessage:
    """A message of the conversation that a request leaves out for the first time.

    Attributes:
        message: The message.
        reason: Why it was left out.
        hash: The content hash of the message.
    """

    message: Message
    reason: str
    hash: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RunCompaction:
    """A model was asked to summarize old messages before a request.

    Attributes:
        at: When it had replied.
        usage: The token counts of its replies.
        cost: US dollars.
        before: The messages that the summary replaces.
        after: The message with the summary; None if none was added.
        reason: The outcome, as a sentence.
        error: The exception of the model, if it failed.
    """

    at: float
    usage: Usage
    cost: float | None = None
    before: tuple[Message, ...] = field(default=(), repr=False)
    after: Message | None = field(default=None, repr=False)
    reason: str = ""
    error: RunError | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request, exactly as the model received it.

    Attributes:
        at: When it was sent.
        messages: The messages.
        hashes: The content hash of each message.
        added: The indexes of the messages that the previous request does not contain.
        removed: The indexes of the messages of the previous request that this one does not contain.
        tools: The tools that the model could call.
        options: The keywords of the request, such as `temperature` and `tool_choice`. `tools` are
            the descriptions that were sent besides the messages, as in native tool calls.
        dialect: The name of the dialect's class, and its settings.
        stored: The messages of the conversation from which the request was rendered.
        dropped: The messages that the window or a summary leaves out for the first time. The first
            request of a run lists the newest ones only.
    """

    at: float
    messages: tuple[Message, ...]
    hashes: tuple[str, ...]
    added: tuple[int, ...]
    removed: tuple[int, ...]
    tools: tuple[RunTool, ...]
    options: Mapping[str, Any]
    dialect: Mapping[str, Any] = field(default_factory=dict)
    stored: tuple[Message, ...] = field(default=(), repr=False)
    dropped: tuple[DroppedMessage, ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of the request as values for `Gateway.chat`."""
        keywords = dict(self.options)
        if "tools" in keywords:
            keywords["tools"] = tuple(tool.spec for tool in keywords["tools"])
        return keywords


@dataclass(frozen=True, slots=True)
class RunReply:
    """One reply, or the error that came instead.

    Attributes:
        at: When it was complete.
        duration: Seconds from the request to the complete reply, with the gateway's retries.
        message: The message as the model wrote it; the part that arrived if there is an error.
        finish_reason: Why the model stopped; None if there is an error.
        raw_finish_reason: The server's value.
        usage: The token counts.
        cost: US dollars.
        model: The model's name as reported by the server.
        request_id: The server's id of the request.
        refusal: The server's text if the model refused.
        block_reason: The reason if a filter blocked the reply.
        attempts: The gateway's attempts, if there were several: retries and other models.
        error: The error, or None.
        sent: Whether the request was sent; it is not if the run was stopped right before.
    """

    at: float
    duration: float
    message: Message | None
    finish_reason: str | None = None
    raw_finish_reason: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    model: str | None = None
    request_id: str | None = None
    refusal: str | None = None
    block_reason: str | None = None
    attempts: tuple[Mapping[str, Any], ...] = ()
    error: RunError | None = None
    sent: bool = True

    @property
    def text(self) -> str:
        """The raw text."""
        return self.message.text if self.message else ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part of a reply that is JSON: `text[start:end]`, and where it was found."""

    start: int
    end: int
    source: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of a reply that begins like JSON but cannot be read.

    Attributes:
        start: The index of its first character.
        position: The index of the error.
        problem: The error, as the predicate of a sentence.
    """

    start: int
    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class RunDecision:
    """The interpretation of a reply: calls, a reply to the user, or feedback.

    Attributes:
        at: When the reply was interpreted.
        text: The raw text of the reply.
        calls: The calls.
        reply: The reply to the user, or None.
        feedback: The feedback for the model, if the reply is invalid.
        issues: The issues behind the feedback.
        repairs: The repairs of the JSON, with their positions in the raw text.
        candidates: Every JSON value in the raw text.
        selection: The candidate that was used, or None.
        unreadable: Parts that begin like JSON but cannot be read.
    """

    at: float
    text: str
    calls: tuple[ToolCall, ...] = ()
    reply: str | None = None
    feedback: str | None = None
    issues: tuple[Issue, ...] = ()
    repairs: tuple[Repair, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    selection: Candidate | None = None
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class RunApproval:
    """A decision about a call or its result.

    Attributes:
        at: When it was made.
        verdict: "approve", "always", "edit", "reject", "later", "redact"; "pending" if the run
            ended to wait for it.
        about: "call" or "result".
        reason: The reason of a rejection or redaction.
        arguments: The new arguments of an edit.
        duration: Seconds that the approver needed.
    """

    at: float
    verdict: str
    about: str = "call"
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class RunRetry:
    """A failed attempt that was retried: when, its number, and the error."""

    at: float
    attempt: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A progress report of a tool: when, and the reported value."""

    at: float
    value: Any


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a call.

    Attributes:
        at: When it was recorded in the history. Results are recorded in call order.
        duration: Seconds from the first attempt to the result.
        status: The status, such as "completed" or "error".
        message: The message for the model.
        arguments: The JSON text of the arguments that the tool received: as written, repaired,
            edited by an approver, or with the values of references. None if the tool did not run.
        repairs: The repairs that the JSON of the arguments needed.
        attempts: The number of attempts.
        cached: Whether the output comes from the cache.
        error_kind: The kind of a failure, such as "validation".
        details: Data for people.
        variable: The id of the variable that stores a long output.
        output: The whole output, if the message shows only its beginning.
    """

    at: float
    duration: float
    status: str
    message: Message
    arguments: str | None = None
    repairs: tuple[Repair, ...] = ()
    attempts: int = 0
    cached: bool = False
    error_kind: str | None = None
    details: Any = None
    variable: str | None = None
    output: Any = None

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.message.is_error

    @property
    def is_given(self) -> bool:
        """Whether it came from the tool, or from outside of the run; not from the loop itself."""
        from_outside = self.status in ("interrupted", "unknown_effect", "result_rejected")
        return self.attempts > 0 or self.cached or from_outside


@dataclass(frozen=True, slots=True)
class RunCall:
    """One call, from its announcement to its result.

    Attributes:
        at: When it was announced.
        id: The id.
        name: The tool's name as the model wrote it.
        arguments: The JSON text of the arguments as the model wrote it.
        effect: The declared effect of the tool; None if the tool is unknown.
        approvals: The decisions about the call and its result.
        retries: The failed attempts that were retried.
        progress: The progress reports.
        result: The result; None if the run ended before.
    """

    at: float
    id: str
    name: str
    arguments: str
    effect: str | None = None
    approvals: tuple[RunApproval, ...] = ()
    retries: tuple[RunRetry, ...] = ()
    progress: tuple[RunProgress, ...] = ()
    result: RunResult | None = None

    def is_same(self, tool: str, arguments: object) -> bool:
        """Whether it calls this tool with these arguments."""
        return self.name == tool and json_value(self.arguments) == arguments

    @property
    def has_waited(self) -> bool:
        """Whether it waited for approval, or was rejected without an approver."""
        is_rejected = self.result is not None and self.result.status == "rejected"
        return is_rejected or any(each.verdict == "pending" for each in self.approvals)

    @property
    def is_invalid(self) -> bool:
        """Whether its arguments were rejected."""
        return self.result is not None and self.result.error_kind == "validation"


@dataclass(frozen=True, slots=True)
class RunTurn:
    """One turn: a request, its reply, the decision and the calls.

    Attributes:
        number: The number, counted from 1. Turn 0 holds calls of an earlier run, or the first reply
            of a chain: it has no request.
        request: The request.
        reply: The reply.
        decision: The interpretation; None if the provider ended the reply, or if there is none.
        calls: The calls, in call order.
        compactions: The compactions before the request.
    """

    number: int
    request: RunRequest | None = None
    reply: RunReply | None = None
    decision: RunDecision | None = None
    calls: tuple[RunCall, ...] = ()
    compactions: tuple[RunCompaction, ...] = ()


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    Attributes:
        at: When it ended.
        status: The status of the result; "error" or "cancelled" if the run raised.
        usage: The tokens of all requests.
        reason: The reason in a sentence.
        reply: The final reply.
        cost: US dollars.
        tool_rounds: The number of turns that ran a tool.
        waiting: The ids of the calls that wait for approval.
        error: The exception that ended the run.
    """

    at: float
    status: str
    usage: Usage
    reason: str | None = None
    reply: str | None = None
    cost: float | None = None
    tool_rounds: int = 0
    waiting: tuple[str, ...] = ()
    error: RunError | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a run file.

    Attributes:
        id: The id of the run.
        version: The version of the format.
        rules: The version of the rules by which replies were read.
        time: The start, in seconds since the epoch.
        entry: "loop", "runner" or "chain".
        model: The "provider:name" of the gateway, or None.
        session_id: The session; "" for a conversation in memory.
        dialect: The name of the dialect's class, and its settings.
        options: The options with a plain value, and the names of functions.
        packages: The versions of Python and of this package.
        parent: The run from which this one was forked, or None.
        parent_run: The id of the run whose tool made this run, or None.
        parent_call: The id of the call of that tool, or None.
        sub_runs: The runs of the file that tools of this run made.
        turns: The turns.
        end: The ending; None if the run was killed or still works.
    """

    id: str
    version: int
    time: float
    entry: str
    model: str | None
    session_id: str
    dialect: Mapping[str, Any]
    options: Mapping[str, Any]
    packages: Mapping[str, str]
    rules: int = 1
    parent: RunParent | None = None
    parent_run: str | None = None
    parent_call: str | None = None
    sub_runs: "tuple[Run, ...]" = field(default=(), repr=False)
    turns: tuple[RunTurn, ...] = field(default=(), repr=False)
    end: RunEnd | None = None

    @property
    def status(self) -> str:
        """The status of the ending; "unfinished" if there is none."""
        return self.end.status if self.end else "unfinished"

    @property
    def calls(self) -> tuple[RunCall, ...]:
        """All calls."""
        return tuple(call for turn in self.turns for call in turn.calls)

    @property
    def requests(self) -> tuple[RunRequest, ...]:
        """The requests of the turns that have one."""
        return tuple(turn.request for turn in self.turns if turn.request)

    @property
    def tools(self) -> tuple[RunTool, ...]:
        """The tools of the last request."""
        return self.requests[-1].tools if self.requests else ()


def newest(runs: Sequence[Run]) -> int:
    """The index of the newest run that no tool of another one made; -1 without runs."""
    ids = {run.id for run in runs}
    outer = (index for index, run in enumerate(runs) if run.parent_run not in ids)
    return max(outer, default=len(runs) - 1)
