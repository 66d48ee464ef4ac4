"""Replay a recorded run: the same loop with the recorded replies and the recorded tool results.

    request    rendered from the recorded conversation      compared with the recorded request
    read       the recorded reply is interpreted            compared with the recorded decision
    act        calls are looked up, validated and approved  compared with the recorded results

No tool is run and no model is asked. The file also replaces the functions of the program: the
window's selection, which contains the recorded results; pushed messages; verdicts of approvers; and
edits by `before_send`. Used by the command and by tests.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import stage3_tools as stage3
from llm_stages.runs.compare import ComparedPart
from llm_stages.runs.rules import changed_since, rules_behind
from llm_stages.runs.values import Run, RunCall, RunDecision, RunTool, RunTurn
from stage0_gateway import (
    ChatResponse,
    Message,
    Messages,
    MessageStream,
    ToolCall,
    Usage,
    as_messages,
)
from stage1_context import ApproximateCounter, ContextEngine, Counted, TokenBudget
from stage2_output import Issue

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
    """The recorded turn has no reply that was used."""


class _EndOfRecording(Exception):
    """There is no further recorded turn."""


class CannotReplay(ValueError):
    """A part of the run exists only in the program that recorded it; the text names it."""


async def replay(run: Run, dialect: stage3.Dialect | None = None) -> list[Difference]:
    """Replay a run, and return the differences; an empty list means that it is identical.

    Args:
        run: The recorded run.
        dialect: The dialect of the run, if it is one of the program; None uses the recorded one.

    Raises:
        CannotReplay: The run used a dialect of the program, and none was given.
    """
    replayed = _Replay(run, dialect)
    await replayed.run_to_end()
    return replayed.differences


class _Replay:
    """Replays one run.

    The loop is that of every run. Its parts are recorded: this object is its model, its approver,
    its listener and its source of values, and the window and the tools return what they returned
    then.
    """

    accepts_cache_key, has_prices = False, True
    secrets: tuple[str, ...] = ()

    def __init__(self, run: Run, dialect: stage3.Dialect | None) -> None:
        self.run, self.dialect = run, dialect
        self.turns = [turn for turn in run.turns if turn.request is not None]
        self.differences: list[Difference] = []
        self.number = -1  # of the turn that is replayed; -1 before the first one
        self.calls: dict[str, RunCall] = {}  # the recorded calls, by their ids in the replay
        self.rejected: set[str] = set()  # the ids of calls that the program rejected
        has_schema = any("response_schema" in request.options for request in run.requests)
        self.supports_schema = self.supports_schema_with_tools = has_schema
        self.model = run.model or "recorded"
        stored = run.requests[0].stored if run.requests else ()
        engine = ContextEngine(window=_RecordedWindow(self))
        options = replace(
            recorded_options(run, dialect),
            approve=self.approve if "approve" in run.options else None,
            approve_all=True,  # calls without a recorded verdict are approved
            before_send=self.edit if "before_send" in run.options else None,
            on_event=self.on_event,
        )
        self.state = stage3.RunState(
            stage3.ToolLoopDeps(self, engine),
            engine.transcript_of(stored),
            options,
            entry="loop",
            can_suspend=run.entry != "chain",
            values=self,
        )

    @property
    def turn(self) -> RunTurn:
        """The recorded turn that is replayed."""
        return self.turns[self.number]

    async def run_to_end(self) -> None:
        """Run the loop to its end; where a runner continued, run it again."""
        first, ending = self._begin(), None
        policy = stage3.StopPolicy(self.state)
        while self.number + 1 < len(self.turns):
            if ending is not None and self.run.entry != "runner":
                self.number += 1
                self._compare("end", "status", "another turn", ending.status)
                break
            if ending is not None:  # a message was pushed after the last turn
                policy = stage3.StopPolicy(self.state)
            try:
                ending = await stage3.run_turns(self.state, first, policy)
            except _NoReply:  # a runner may continue after a failed request
                pass
            except _EndOfRecording:
                break
            first = None
        self._compare_end(ending)

    def _begin(self) -> stage3.Turn | None:
        """Count what happened before the first request; return a chain's invalid first reply."""
        counts, first = self.state.counts, None
        for turn in self.run.turns:
            if turn.request is not None:
                continue
            if any(call.result and call.result.attempts for call in turn.calls):
                counts.tool_rounds += 1
            if turn.decision and turn.decision.feedback:
                first = _invalid_turn(turn.decision)
        if self.run.entry == "chain" and self.run.end is not None:
            used = [turn.reply.usage for turn in self.turns if turn.reply and turn.reply.usage]
            used += [each.usage for turn in self.run.turns for each in turn.compactions]
            used += [each.end.usage for each in self.run.sub_runs if each.end]
            total, later = self.run.end.usage, sum(used, Usage())
            counts.usage = Usage(
                (total.input_tokens or 0) - (later.input_tokens or 0),
                (total.output_tokens or 0) - (later.output_tokens or 0),
            )
        return first

    # ---- the recorded parts

    def on_event(self, event: stage3.LoopEvent) -> None:
        """Move on to the next recorded turn, and compare decisions and results."""
        match event:
            case stage3.TurnStarted():
                self._next_turn()
            case stage3.DecisionMade(calls=calls, reply=reply):
                self._compare_decision(event.name, calls=calls, reply=reply)
            case stage3.FeedbackGiven(feedback=feedback, issues=issues):
                self._compare_decision(event.name, feedback=feedback, issues=issues)
            case stage3.ToolAnswered(result=result, message=Message() as message):
                self._compare_result(result, message)

    def _next_turn(self) -> None:
        """Use the tools and the settings of the next recorded turn."""
        if self.number + 1 == len(self.turns):
            raise _EndOfRecording
        self.number += 1
        recorded, state = self.turn.request, self.state
        assert recorded is not None
        tools = [_tool(tool, self) for tool in recorded.tools if tool.name != stage3.READ_VARIABLE]
        state.deps = replace(state.deps, tool_registry=stage3.ToolRegistry(*tools))
        state.variables.has_references = len(tools) < len(recorded.tools)
        for compaction in self.turn.compactions:
            self._count(compaction.usage, compaction.cost)
        # A runner's settings may change between turns; the header has no `model` of a request.
        settings: dict[str, Any] = {"model": recorded.options.get("model")}
        if self.run.entry == "runner":
            settings |= {name: recorded.options.get(name) for name in _SETTINGS}
            settings["stop"] = settings["stop"] or ()
            settings["dialect"] = self.dialect or _dialect(recorded.dialect)
        state.change_options(replace(state.options, **settings))
        state.variables.over = None  # the recorded tools show whether the model knows a reference

    async def chat(self, messages: Messages, **keywords: Any) -> ChatResponse:
        """Compare a request with the recorded one, and return the recorded reply."""
        recorded, reply = self.turn.request, self.turn.reply
        assert recorded is not None
        sent, expected = as_messages(messages), recorded.messages
        texts = [message.text for message in (*expected, *sent)]
        self._compare("request", "number of messages", len(expected), len(sent), texts=texts)
        for number, (one, other) in enumerate(zip(expected, sent, strict=False), 1):
            place, texts = f"message {number}", [one.text, other.text]
            self._compare("request", place, one.to_dict(), other.to_dict(), texts=texts)
        for name in sorted({*recorded.options, *keywords} - {"cache_key"}):
            before, now = recorded.options.get(name), keywords.get(name)
            self._compare("request", name, _plain(before), _plain(now))
        was_used = self.turn.decision or (reply and reply.finish_reason in _STOPS)
        if reply is None or reply.message is None or reply.error is not None or not was_used:
            raise _NoReply
        names = ("finish_reason", "raw_finish_reason", "usage", "cost", "model", "refusal")
        return ChatResponse(reply.message, **{name: getattr(reply, name) for name in names})

    def stream(self, messages: Messages, **keywords: Any) -> MessageStream:
        """Never called: a replay does not stream."""
        raise NotImplementedError

    def edit(self, messages: Any, info: Any) -> Any:
        """The messages that `before_send` returned then."""
        return self.turn.request.messages if self.turn.request else None

    def approve(self, request: stage3.ApprovalRequest) -> stage3.Verdict:
        """Return the recorded verdict about a call."""
        call = self.calls.get(request.call_id)
        verdicts = [each for each in (call.approvals if call else ()) if each.about == "call"]
        if not verdicts:
            if call and call.result and call.result.is_error and not call.result.is_given:
                self.rejected.add(call.id)
                raise stage3.ToolError("rejected", "The approver raised an error.")
            return stage3.Approve()
        verdict = verdicts[0]
        made: dict[str, stage3.Verdict] = {
            "always": stage3.Always(),
            "edit": stage3.Edit(verdict.arguments or {}),
            "reject": stage3.Reject(verdict.reason),
            "later": stage3.Later(),
            "pending": stage3.Later(),
        }
        return made.get(verdict.verdict, stage3.Approve())

    @property
    def reader(self) -> stage3.Tool:
        """The tool `read_variable`, as it was described then."""
        tools = (tool for request in self.run.requests for tool in request.tools)
        found = (tool for tool in tools if tool.name == stage3.READ_VARIABLE)
        return _tool(next(found, RunTool(stage3.READ_VARIABLE, "", {})), self)

    async def preview(
        self, result: stage3.ToolResult, longer_than: int
    ) -> tuple[stage3.ToolResult, str | None]:
        """The result, and the id of the variable that stored it then."""
        call = self.calls.get(result.call_id)
        return result, call.result.variable if call and call.result else None

    async def expand(self, tool: stage3.Tool, arguments: Any) -> str:
        """The arguments with the values that the references had then."""
        for call in self.turn.calls:
            if call.is_same(tool.name, arguments):
                if call.is_invalid:
                    self.rejected.add(call.id)
                    raise stage3.ToolError("validation", "A variable is unknown.")
                used = call.result.arguments if call.result else None
                return str(used or call.arguments)
        return json.dumps(arguments)

    def checked(self, tool: RunTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments, or reject them as the tool's own `parse` did then.

        Raises:
            ValueError: The recorded call was rejected although its arguments fit the schema.
        """
        for call in self.turn.calls:
            edits = [each.arguments for each in call.approvals if each.verdict == "edit"]
            is_edited = call.name == tool.name and arguments in edits
            if call.is_invalid and (is_edited or call.is_same(tool.name, arguments)):
                self.rejected.add(call.id)
                raise ValueError
        return arguments

    def count_sub_runs(self, call_id: str) -> None:
        """Count the tokens of the runs that a call made then."""
        for run in self.run.sub_runs:
            if run.parent_call == call_id and run.end is not None:
                self._count(run.end.usage, run.end.cost)

    def _count(self, usage: Usage, cost: float | None) -> None:
        """Count tokens and cost besides those of the turns."""
        message = Message.assistant("")
        self.state.counts.add(ChatResponse(message, "stop", usage=usage, cost=cost))

    # ---- comparisons

    def _compare(
        self, part: str, place: str, recorded: Any, replayed: Any, **signs: Iterable[Any]
    ) -> None:
        """Report two values if they differ; `signs` are keywords of `rules_behind`."""
        if recorded != replayed:
            number = 0 if part == "end" else self.turn.number
            rules = rules_behind(changed_since(self.run.rules), **signs)
            sentences = tuple(rule.sentence for rule in rules)
            self.differences.append(Difference(number, part, place, recorded, replayed, sentences))

    def _compare_decision(
        self,
        name: str,
        calls: tuple[ToolCall, ...] = (),
        reply: str | None = None,
        feedback: str | None = None,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        recorded = self.turn.decision
        if recorded is None:
            self._compare("decision", "decision", None, name)
            return
        self.calls = {call.id: then for call, then in zip(calls, self.turn.calls, strict=False)}
        if len(calls) == len(recorded.calls):  # ids depend on calls that are not in the file
            pairs = zip(calls, recorded.calls, strict=True)
            calls = tuple([replace(call, id=then.id) for call, then in pairs])
        self._compare("decision", "calls", list(recorded.calls), list(calls), issues=issues)
        self._compare("decision", "reply", recorded.reply, reply, issues=issues)
        self._compare("decision", "feedback", recorded.feedback, feedback, issues=issues)

    def _compare_result(self, result: stage3.ToolResult, message: Message) -> None:
        """Compare a result that no tool gave, or the note of one that a tool gave."""
        call = self.calls.get(result.call_id)
        if call is None or call.result is None:
            return
        recorded, message = call.result, replace(message, tool_call_id=call.id)
        if not recorded.is_given and call.id not in self.rejected:
            self._compare("result", call.id, recorded.message.to_dict(), message.to_dict())
        elif recorded.status == "completed" and not recorded.message.text.endswith(result.note):
            self._compare("result", call.id, recorded.message.text, result.note)

    def _compare_end(self, ending: stage3.Ending | None) -> None:
        end = self.run.end
        if end is None or end.status in _FROM_OUTSIDE or not self.turns:
            return
        if ending is None and self.run.entry == "runner":
            return  # the program stopped the iteration
        if end.status == "limit" and (
            self.run.parent_run or self.run.options.get("limits", {}).get("seconds")
        ):
            return  # a limit of the outer run, or the clock
        if ending is None and end.status == "limit":
            self.state.counts.usage, self.state.counts.cost = end.usage, end.cost
            ending = stage3.Ending("limit") if self.state.counts.limit_reached() else None
        self._compare("end", "status", end.status, ending.status if ending else "no ending")
        self._compare("end", "reply", end.reply, ending.reply if ending else None)


class _RecordedWindow:
    """A window that selects what was selected then."""

    def __init__(self, source: _Replay) -> None:
        self._source = source
        self._counter = ApproximateCounter()

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget
    ) -> list[Counted]:
        """Return the messages of the recorded request."""
        recorded = self._source.turn.request
        messages = recorded.stored if recorded else ()
        return [Counted(message, self._counter) for message in messages]


# ---- values


def recorded_options(run: Run, dialect: stage3.Dialect | None = None) -> stage3.ToolLoopOptions:
    """The options of a recorded run, without its functions and its time limit.

    Raises:
        CannotReplay: The run used a dialect of the program, and none was given.
    """
    values = {name: run.options[name] for name in _PLAIN if name in run.options}
    limits = {**run.options.get("limits", {}), "seconds": None}
    return stage3.ToolLoopOptions(
        **values,
        max_tool_rounds=run.options.get("max_tool_rounds"),
        dialect=dialect or _dialect(run.dialect),
        output_type=run.options.get("output_type"),
        limits=stage3.RunLimits(**limits) if any(limits.values()) else None,
        variables_over=run.options.get("variables_over"),
    )


def _dialect(recorded: Mapping[str, Any]) -> stage3.Dialect:
    name, settings = recorded["name"], {**recorded}
    del settings["name"]
    if (found := stage3.dialect_of(name, settings)) is not None:
        return found
    raise CannotReplay(
        f"The run used the dialect {name!r} of its program, so only Python code with this class "
        f"can replay it: replay(run, {name}()). The command knows the dialects of stage 3 only."
    )


def _tool(tool: RunTool, source: _Replay) -> stage3.Tool:
    def execute(arguments: dict[str, Any], context: stage3.ToolContext) -> str:
        if (call := source.calls.get(context.call_id)) is not None:
            source.count_sub_runs(call.id)
        return ""  # the next request contains the recorded result

    def waits(arguments: dict[str, Any]) -> bool:
        return any(call.has_waited for call in source.turn.calls if call.name == tool.name)

    return stage3.Tool(
        tool.name,
        tool.description,
        tool.parameters or None,
        execute,
        parse=lambda arguments: source.checked(tool, arguments),
        effect=tool.effect or "write",  # type: ignore[arg-type]  # checked by Tool
        needs_approval=waits if tool.needs_approval == "depends" else tool.needs_approval,
    )


def _invalid_turn(decision: RunDecision) -> stage3.Turn:
    """The first reply of a chain, which was invalid and has been answered."""
    message, feedback = Message.assistant(decision.text), decision.feedback or ""
    is_empty = feedback == stage3.EMPTY_REPLY_FEEDBACK
    found = stage3.FinalReply(message) if is_empty else stage3.InvalidReply(message, feedback)
    response, tools = ChatResponse(message, "stop"), stage3.ToolRegistry()
    return stage3.Turn(tools, response=response, interpretation=found, was_read=True, acted=True)


def _plain(value: Any) -> Any:
    """A keyword of a request in a form that can be compared."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, RunTool):
        return value.spec
    return dict(value) if isinstance(value, Mapping) else value
