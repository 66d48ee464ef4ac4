"""Replay a recorded run: the same loop with the recorded replies and the recorded tool results.

    request    rendered from the recorded conversation      compared with the recorded request
    read       the recorded reply is interpreted            compared with the recorded decision
    act        calls are looked up, validated and approved  compared with the recorded results

No tool is run and no model is asked: a call whose tool ran receives its recorded result. The file
also replaces the functions of the program: the window's selection, pushed messages, verdicts of
approvers, and edits by `before_send`. Used by the command and by tests.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stage0_gateway import ChatResponse, Message, Usage
from stage1_context import MemoryStore, MessageRecord, Transcript
from stage3_tools.dialects.native import NativeDialect
from stage3_tools.dialects.prompt import PromptDialect
from stage3_tools.dialects.protocol import Dialect, FinalReply, InvalidReply, RequestParts
from stage3_tools.errors import ToolError
from stage3_tools.events import DecisionMade, FeedbackGiven, LoopEvent
from stage3_tools.execution.approval import (
    Always,
    ApprovalRequest,
    Approve,
    Edit,
    Later,
    Redact,
    Reject,
    Verdict,
)
from stage3_tools.options import RunLimits, ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolResult
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import Ending, StopPolicy, stopped
from stage3_tools.tool import Tool
from stage3_tools.trace.compare import ComparedPart
from stage3_tools.trace.header import DIALECT_SETTINGS
from stage3_tools.trace.rules import changed_since, rules_behind
from stage3_tools.trace.values import (
    Run,
    RunCall,
    RunDecision,
    RunReply,
    RunRequest,
    RunResult,
    RunTool,
    RunTurn,
)
from stage3_tools.turn import EMPTY, act, read, request
from stage3_tools.variables.long_values import json_value

_SETTINGS = ("temperature", "max_tokens", "stop", "reasoning", "provider_options")
_PLAIN = ("max_parse_retries", "max_parallel_tools", "tool_choice", *_SETTINGS)
_FROM_OUTSIDE = {"aborted", "timeout", "error", "cancelled", "unfinished"}
"""Endings that the program caused, not the replies."""

_STOPS = {"refusal", "pause"}
"""Finish reasons of replies without a decision."""


_SHORT = 120
"""The maximum length of two values in one line; longer ones are shown as a diff."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a recorded run and its replay.

    Attributes:
        turn: The number of the turn; 0 for the ending.
        part: "request", "decision", "result" or "end".
        place: What differs, such as "message 3".
        recorded: The recorded value.
        replayed: The value of the replay.
        rules: The rules behind the difference, as sentences. Empty if the file follows the current
            rules; all rules that changed since the file was written if the difference shows none.
    """

    turn: int
    part: str
    place: str
    recorded: Any
    replayed: Any
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"Turn {self.turn}, {self.part}" if self.turn else "The ending"
        text = f"recorded {self.recorded!r}, replayed {self.replayed!r}"
        is_short = len(text) <= _SHORT
        if not is_short:
            values = ComparedPart(self.part, _as_lines(self.recorded), _as_lines(self.replayed))
            text = "\n".join(["- is recorded, + replayed", *values.lines()]).replace("\n", "\n  ")
        text = f"{where}, {self.place}: {text}"
        if not self.rules:
            return text
        rules = "rule" if len(self.rules) == 1 else "rules"
        text += ". " if is_short else "\n  "
        return f"{text}The file follows older rules. Changed {rules}: {' '.join(self.rules)}"


def _as_lines(value: Any) -> str:
    """Return a value as indented JSON; its texts keep their lines."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text.replace("\\n", "\n")


class _NoReply(Exception):
    """The recorded turn has no reply."""


class CannotReplay(ValueError):
    """A part of the run exists only in the program that recorded it; the text names it."""


async def replay(run: Run) -> list[Difference]:
    """Replay a run, and return the differences; an empty list means that it is identical.

    Raises:
        CannotReplay: The run used a dialect of its own.
    """
    return await _Replay(run).run_turns()


class _Replay:
    """Replays one run, turn by turn."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.turns = [turn for turn in run.turns if turn.request is not None]
        self.calls = {call.id: call for call in run.calls}
        self.differences: list[Difference] = []
        self.number = 0
        self.rejected: set[str] = set()  # the ids of calls that the program rejected
        self.state = _ReplayState.of(self)

    @property
    def turn(self) -> RunTurn:
        """The recorded turn that is replayed."""
        return self.turns[self.number]

    async def run_turns(self) -> list[Difference]:
        state, ending = self.state, None
        for turn in self.run.turns:
            if turn.request is None:  # the calls of an earlier run, or the first reply of a chain
                self._count_earlier_calls(turn)
        state.usage = self._earlier_usage()
        policy = StopPolicy(state)
        for turn in self.run.turns:
            if turn.request is None and turn.decision and turn.decision.feedback:
                ending = policy.after(_invalid_turn(turn.decision))
        for number in range(len(self.turns)):
            self.number = number
            if ending is not None:
                if self.run.entry != "runner":
                    self._differs("end", "status", "another turn", ending.status)
                    break
                policy = StopPolicy(state)  # a message was pushed after the last turn
            self._use_recorded_settings()
            try:
                replayed = await request(state, last=policy.last)
            except _NoReply:  # a runner may continue after a failed request
                continue
            await read(state, replayed)
            reply = self.turn.reply
            if self.turn.decision is None and reply and reply.finish_reason not in _STOPS:
                continue  # the program did not let a runner use the reply
            await act(state, replayed, policy.skip_reason)
            ending = policy.after(replayed)
        self._compare_end(ending)
        return self.differences

    def _use_recorded_settings(self) -> None:
        """A runner's settings may change between turns; the header has no `model` of a request."""
        recorded = self.turn.request
        assert recorded is not None
        settings: dict[str, Any] = {"model": recorded.options.get("model")}
        if self.run.entry == "runner":
            settings |= {name: recorded.options.get(name) for name in _SETTINGS}
            settings["stop"] = settings["stop"] or ()
            settings["dialect"] = _dialect(recorded.dialect)
        self.state.change_options(replace(self.state.options, **settings))

    def _count_earlier_calls(self, turn: RunTurn) -> None:
        if any(call.result and call.result.attempts for call in turn.calls):
            self.state.tool_rounds += 1

    def _earlier_usage(self) -> Usage:
        """The tokens of the first reply of a chain, which is not part of the file."""
        end, replies = self.run.end, [turn.reply for turn in self.turns if turn.reply]
        used = sum((reply.usage for reply in replies if reply.usage), Usage())
        if end is None or self.run.entry != "chain":
            return Usage()
        return Usage(
            (end.usage.input_tokens or 0) - (used.input_tokens or 0),
            (end.usage.output_tokens or 0) - (used.output_tokens or 0),
        )

    # ---- comparisons

    def _differs(
        self, part: str, place: str, recorded: Any, replayed: Any, **signs: Iterable[Any]
    ) -> None:
        number = 0 if part == "end" else self.turn.number
        rules = rules_behind(changed_since(self.run.rules), **signs)
        sentences = tuple(rule.sentence for rule in rules)
        self.differences.append(Difference(number, part, place, recorded, replayed, sentences))

    def compare(
        self, part: str, place: str, recorded: Any, replayed: Any, **signs: Iterable[Any]
    ) -> None:
        """Report two values if they differ; `signs` are keywords of `rules_behind`."""
        if recorded != replayed:
            self._differs(part, place, recorded, replayed, **signs)

    async def chat(self, messages: Iterable[Message], **keywords: Any) -> ChatResponse:
        """Compare a request with the recorded one, and return the recorded reply."""
        recorded = self.turn.request
        assert recorded is not None
        sent, expected = list(messages), recorded.messages
        texts = [message.text for message in (*expected, *sent)]
        self.compare("request", "number of messages", len(expected), len(sent), texts=texts)
        for number, (one, other) in enumerate(zip(expected, sent, strict=False), 1):
            place, texts = f"message {number}", [one.text, other.text]
            self.compare("request", place, one.to_dict(), other.to_dict(), texts=texts)
        for name in sorted({*recorded.options, *keywords}):
            before, now = recorded.options.get(name), keywords.get(name)
            self.compare("request", name, _plain(before), _plain(now))
        return _response(self.turn.reply)

    def on_event(self, event: LoopEvent) -> None:
        """Compare a decision with the recorded one."""
        recorded = self.turn.decision
        if not isinstance(event, DecisionMade | FeedbackGiven):
            return
        if recorded is None:
            self._differs("decision", "decision", None, event.name)
            return
        calls = event.calls if isinstance(event, DecisionMade) else ()
        reply = event.reply if isinstance(event, DecisionMade) else None
        feedback = event.feedback if isinstance(event, FeedbackGiven) else None
        issues = event.issues if isinstance(event, FeedbackGiven) else ()
        self.compare("decision", "calls", list(recorded.calls), list(calls), issues=issues)
        self.compare("decision", "reply", recorded.reply, reply, issues=issues)
        self.compare("decision", "feedback", recorded.feedback, feedback, issues=issues)

    def compare_result(self, result: ToolResult, message: Message) -> Message:
        """Compare a result that no tool gave; return the recorded message of a result."""
        call = self.calls.get(result.call_id)
        if call is None or call.result is None:
            return message
        recorded = call.result
        if not _is_given(recorded) and call.id not in self.rejected:
            self.compare("result", call.id, recorded.message.to_dict(), message.to_dict())
        elif recorded.status == "completed" and not recorded.message.text.endswith(result.note):
            self._differs("result", call.id, recorded.message.text, result.note)
        return recorded.message

    def checked(self, tool: RunTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments, or reject them as the tool's own `parse` did then.

        Raises:
            ValueError: The recorded call was rejected although its arguments fit the schema.
        """
        for call in self.turn.calls:
            edits = [each.arguments for each in call.approvals if each.verdict == "edit"]
            is_same = arguments in (json_value(call.arguments), *edits)
            failed = call.result is not None and call.result.error_kind == "validation"
            if call.name == tool.name and is_same and failed:
                self.rejected.add(call.id)
                raise ValueError
        return arguments

    def _compare_end(self, ending: Ending | None) -> None:
        end = self.run.end
        if end is None or end.status in _FROM_OUTSIDE or not self.turns:
            return
        if ending is None and self.run.entry == "runner":
            return  # the program stopped the iteration
        if self.run.options.get("limits", {}).get("seconds") and end.status == "limit":
            return
        if ending is None and end.status == "limit":  # with the tokens of summaries
            self.state.usage, self.state.cost = end.usage, end.cost
            ending = stopped("limit", self.state) if self.state.limit_reached else None
        self.compare("end", "status", end.status, ending.status if ending else "no ending")
        self.compare("end", "reply", end.reply, ending.reply if ending else None)

    # ---- what the program decided

    def approve(self, request: ApprovalRequest) -> Verdict:
        """Return the recorded verdict about a call or its result."""
        about = "call" if request.result is None else "result"
        call = self.calls.get(request.call_id)
        verdicts = [each for each in (call.approvals if call else ()) if each.about == about]
        if not verdicts:
            if call and call.result and call.result.is_error and not _is_given(call.result):
                self.rejected.add(call.id)
                raise ToolError("rejected", "The approver raised an error.")
            return Approve()
        verdict = verdicts[0]
        made: dict[str, Verdict] = {
            "always": Always(),
            "edit": Edit(verdict.arguments or {}),
            "reject": Reject(verdict.reason),
            "later": Later(),
            "pending": Later(),
            "redact": Redact("", verdict.reason),
        }
        return made.get(verdict.verdict, Approve())


@dataclass
class _ReplayState(RunState):
    """The state of a run whose tools, results and selected messages are recorded."""

    source: Any = None

    @classmethod
    def of(cls, source: _Replay) -> "_ReplayState":
        options = _options(source)
        first = source.turns[0].request if source.turns else None
        stored = first.stored if first else ()
        transcript = _ReplayTranscript(stored, source)
        state = cls(ToolLoopDeps(source.chat), transcript, options, source=source)
        state.can_suspend = source.run.entry != "chain"
        return state

    def tools(self) -> ToolRegistry:
        """The tools of the recorded turn; each one returns what it returned then."""
        request = self.source.turn.request
        tools = request.tools if request else ()
        return ToolRegistry(*(_tool(tool, self.source) for tool in tools))

    def find_references(self, messages: Iterable[Message]) -> bool:
        """The recorded tools contain `read_variable` already."""
        return False

    async def result_message(self, result: ToolResult) -> tuple[Message, str | None]:
        """The recorded message of a result."""
        message, variable = await super().result_message(result)
        return self.source.compare_result(result, message), variable

    @property
    def cache_key(self) -> str | None:
        """The cache key of the recorded request: the session had another id."""
        recorded: RunRequest = self.source.turn.request
        return recorded.options.get("cache_key")

    def server_supports_schema(self, parts: RequestParts) -> bool:
        """Whether the server of the run supported structured output: a request has a schema."""
        requests = [turn.request for turn in self.source.turns if turn.request]
        return any("response_schema" in each.options for each in requests)

    async def _expand(self, tool: Tool, arguments: Any) -> str:
        """The arguments with the values that the references had then."""
        for call in self.source.turn.calls:
            if call.name == tool.name and json_value(call.arguments) == arguments:
                if call.result is not None and call.result.error_kind == "validation":
                    self.source.rejected.add(call.id)
                    raise ToolError("validation", "A variable is unknown.")
                used = call.result.arguments if call.result else None
                return str(used or call.arguments)
        return json.dumps(arguments)


class _ReplayTranscript(Transcript):
    """A conversation whose selection for each request is recorded."""

    def __init__(self, messages: Iterable[Message], source: _Replay) -> None:
        super().__init__(MemoryStore({"replay": map(MessageRecord, messages)}), "replay")
        self._source = source

    async def for_request(self, **_: Any) -> list[Message]:
        """Return the messages that the window selected then."""
        request = self._source.turn.request
        await self._reader.read_new()
        return list(request.stored) if request else []

    async def unused_call_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that the calls of the recorded turn have; older calls may not be in the file."""
        wanted, recorded = [*ids], self._source.turn.calls
        is_same = len(recorded) == len(wanted)
        return [call.id for call in recorded] if is_same else await super().unused_call_ids(wanted)


# ---- values


def recorded_options(run: Run) -> ToolLoopOptions:
    """The options of a recorded run, without its functions and its time limit.

    Raises:
        CannotReplay: The run used a dialect of its own.
    """
    values = {name: run.options[name] for name in _PLAIN if name in run.options}
    limits = {**run.options.get("limits", {}), "seconds": None}
    return ToolLoopOptions(
        **values,
        max_tool_rounds=run.options.get("max_tool_rounds"),
        dialect=_dialect(run.dialect),
        output_type=run.options.get("output_type"),
        limits=RunLimits(**limits) if any(limits.values()) else None,
        variables_over=run.options.get("variables_over"),
    )


def _options(source: _Replay) -> ToolLoopOptions:
    options, run = recorded_options(source.run), source.run
    return replace(
        options,
        approve=source.approve if "approve" in run.options else None,
        approve_all=True,  # calls without a recorded verdict are approved
        before_send=_sent_messages(source) if "before_send" in run.options else None,
        on_event=source.on_event,
    )


def _sent_messages(source: _Replay) -> Any:
    """A `before_send` that returns the messages that were sent then."""

    def before_send(messages: Any, info: Any) -> Any:
        request = source.turn.request
        return request.messages if request else None

    return before_send


def _dialect(recorded: Mapping[str, Any]) -> Dialect:
    match recorded.get("name"):
        case "PromptDialect":
            return PromptDialect(
                **{name: recorded[name] for name in DIALECT_SETTINGS if name in recorded}
            )
        case "NativeDialect":
            return NativeDialect()
    raise CannotReplay(
        f"The run used the dialect {recorded.get('name')!r}. Only PromptDialect and "
        "NativeDialect can be replayed."
    )


def _tool(tool: RunTool, source: _Replay) -> Tool:
    def execute(arguments: dict[str, Any]) -> str:
        return ""  # `result_message` returns the recorded one

    def waits(arguments: dict[str, Any]) -> bool:
        return any(_waited(call) for call in source.turn.calls if call.name == tool.name)

    return Tool(
        tool.name,
        tool.description,
        tool.parameters or None,
        execute,
        parse=lambda arguments: source.checked(tool, arguments),
        effect=tool.effect or "write",  # type: ignore[arg-type]  # checked by Tool
        needs_approval=waits if tool.needs_approval == "depends" else tool.needs_approval,
    )


def _waited(call: RunCall) -> bool:
    """Whether a call waited for approval, or was rejected without an approver."""
    is_rejected = call.result is not None and call.result.status == "rejected"
    return any(each.verdict == "pending" for each in call.approvals) or is_rejected


def _is_given(result: RunResult) -> bool:
    """Whether a result came from the tool, or from outside of the run."""
    return bool(result.attempts) or result.cached or result.status in _GIVEN


_GIVEN = {"interrupted", "unknown_effect", "result_rejected"}


def _invalid_turn(decision: RunDecision) -> Turn:
    """The first reply of a chain, if it was invalid."""
    message = Message.assistant(decision.text)
    is_empty = decision.feedback == EMPTY
    found = FinalReply(message) if is_empty else InvalidReply(message, decision.feedback or "")
    return Turn(ToolRegistry(), interpretation=found)


def _response(reply: RunReply | None) -> ChatResponse:
    if reply is None or reply.message is None or reply.error is not None:
        raise _NoReply
    names = ("finish_reason", "raw_finish_reason", "usage", "cost", "model", "refusal")
    values = {name: getattr(reply, name) for name in names}
    return ChatResponse(reply.message, **values)


def _plain(value: Any) -> Any:
    """A keyword of a request in a form that can be compared."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, RunTool):
        return value.spec
    return dict(value) if isinstance(value, Mapping) else value
