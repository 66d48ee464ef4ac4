"""Compare two runs turn by turn: what the models saw, wrote and called.

A fork is compared with its parent from the turn of the fork. Times, ids of requests and token
counts are not compared. Pure; the command and the page use it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from llm_stages.runs.matching import Chunk, chunks
from llm_stages.runs.values import Run, RunTurn
from stage0_gateway import Message, ToolCall
from stage3_tools import plain_data


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """One part of a turn in both runs.

    Attributes:
        name: "request", "reply", "decision" or "calls"; or "end" of the run.
        first: The part of the first run as text; "" if it is missing.
        second: The part of the second run.
    """

    name: str
    first: str
    second: str

    @property
    def is_equal(self) -> bool:
        """Whether both runs have the same part."""
        return self.first == self.second

    def lines(self) -> Iterator[str]:
        """The differences, and a line before and after each, with " ", "-" or "+" in front."""
        for number, chunk in enumerate(found := list(self.chunks())):
            if not chunk.is_equal:
                yield from (f"-{line}" for line in chunk.left)
                yield from (f"+{line}" for line in chunk.right)
                continue
            if number > 0:
                yield f" {chunk.left[0]}"
            if number + 1 < len(found) and (number == 0 or len(chunk.left) > 1):
                yield f" {chunk.left[-1]}"

    def chunks(self) -> Iterator[Chunk]:
        """All lines of both texts, as equal and different chunks."""
        return chunks(self.first.splitlines(), self.second.splitlines())


@dataclass(frozen=True, slots=True)
class ComparedTurn:
    """A turn in both runs; number 0 is the ending."""

    number: int
    parts: tuple[ComparedPart, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all parts are equal."""
        return all(part.is_equal for part in self.parts)


def compare_runs(first: Run, second: Run) -> list[ComparedTurn]:
    """Return every turn of two runs, and the ending."""
    compared = []
    turns = _turns_from_fork(first, second)
    start = (turns or second.turns)[0].number if turns or second.turns else 0
    for number, (left, right) in enumerate(zip_longest(turns, second.turns), start):
        given = any(turn is not None and turn.request is None for turn in (left, right))
        parts = [
            ComparedPart(name, text(left) if left else "", text(right) if right else "")
            for name, text in _PARTS.items()
            if not given or name in ("decision", "calls")  # a reply that was given has no request
        ]
        compared.append(
            ComparedTurn(number, tuple(each for each in parts if each.first or each.second))
        )
    end = ComparedPart("end", _end(first), _end(second))
    return [*compared, ComparedTurn(0, (end,))]


def _turns_from_fork(first: Run, second: Run) -> Sequence[RunTurn]:
    """The turns of a run; without those before the fork if the second run is its fork."""
    parent = second.parent
    if parent is None or parent.run != first.id:
        return first.turns
    return [turn for turn in first.turns if turn.number >= parent.turn]


def _request(turn: RunTurn) -> str:
    if turn.request is None:
        return ""
    tools = ", ".join(tool.name for tool in turn.request.tools)
    return "\n".join([f"tools: {tools}", *map(_message, turn.request.messages)])


def _message(message: Message) -> str:
    return "\n".join([f"{message.role}: {message.text}", *_made(message.tool_calls)])


def _made(calls: Iterable[ToolCall]) -> list[str]:
    return [f"call {call.name} {call.arguments}" for call in calls]


def _reply(turn: RunTurn) -> str:
    reply = turn.reply
    if reply is None:
        return ""
    if reply.error is not None:
        return f"error {reply.error}"
    text = _message(reply.message) if reply.message else ""
    return f"{text}\nfinish reason: {reply.finish_reason}"


def _decision(turn: RunTurn) -> str:
    decision = turn.decision
    if decision is None:
        return ""
    lines = _made(decision.calls)
    lines += [f"repair: {repair.name}" for repair in decision.repairs]
    lines += [f"reply: {decision.reply}"] if decision.reply is not None else []
    lines += [f"feedback: {decision.feedback}"] if decision.feedback else []
    return "\n".join(lines)


def _calls(turn: RunTurn) -> str:
    lines = []
    for call in turn.calls:
        result = call.result
        lines.append(f"{call.name} {call.arguments}")
        lines.append(f"  {result.status}: {result.message.text}" if result else "  no result")
        if result and result.details is not None:
            details = json.dumps(plain_data(result.details), sort_keys=True)
            lines.append(f"  details: {details}")
    return "\n".join(lines)


_PARTS = {"request": _request, "reply": _reply, "decision": _decision, "calls": _calls}
"""The parts of a turn, as texts that can be compared."""


def _end(run: Run) -> str:
    reply = run.end.reply if run.end else None
    return f"status: {run.status}" + (f"\nreply: {reply}" if reply is not None else "")
