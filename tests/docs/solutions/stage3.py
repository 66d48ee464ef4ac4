"""Solutions of the exercises of stage 3 (`docs/exercises/stage3.py`).

Other solutions are possible. The names begin with an underscore, because only the functions without
one replace those of the exercises.
"""

import re as _re

from stage0_gateway import Message as _Message
from stage0_gateway import ToolCall as _ToolCall
from stage3_tools import FeedbackGiven as _FeedbackGiven
from stage3_tools import FinalReply as _FinalReply
from stage3_tools import InvalidReply as _InvalidReply
from stage3_tools import LoopEnded as _LoopEnded
from stage3_tools import RequestParts as _RequestParts
from stage3_tools import ToolAnswered as _ToolAnswered
from stage3_tools import ToolCalls as _Calls
from stage3_tools import ToolError as _ToolError
from stage3_tools import tool as _tool


def make_booking_tool(free):
    @_tool(effect="write")
    def book_seats(show: str, seats: int) -> dict[str, str | int]:
        """Book seats for a show."""
        if show not in free:
            raise _ToolError(
                "not_found", f"There is no show {show!r}.", hint=f"Shows: {', '.join(free)}."
            )
        if not 1 <= seats <= free[show]:
            raise _ToolError(
                "validation", f"{seats} seats cannot be booked.", hint=f"Book 1 to {free[show]}."
            )
        free[show] -= seats
        return {"show": show, "booked": seats, "left": free[show]}

    return book_seats


def storyteller(tell):
    steps = []

    def listen(event):
        match event:
            case _ToolAnswered(result=result):
                how = f"failed ({result.error.kind})" if result.error else "ok"
                steps.append(f"{result.name} {how}")
            case _FeedbackGiven():
                steps.append("not understood")
            case _LoopEnded(status=status, reply=reply):
                # The last event of a run: report it, and start again with an empty list.
                tell(" > ".join([*steps, status if reply is None else f"{status}: {reply}"]))
                steps.clear()

    return listen


def make_line_dialect():
    return _LineDialect()


class _LineDialect:
    def describe(self, registry):
        tools = [f"{each.name}: {each.description}" for each in registry.list()]
        return "\n".join(["Write one line: CALL name {json}, or SAY text.", *tools])

    def render(self, transcript, registry, *, last=False):
        system = [message.text for message in transcript if message.role == "system"]
        prompt = _Message.system("\n\n".join([*system, self.describe(registry)]))
        rest = (_rendered(message) for message in transcript if message.role != "system")
        return _RequestParts((prompt, *rest))

    def read(self, response, registry):
        text = response.content.strip()
        if response.finish_reason != "length":  # a truncated reply contains no valid line
            if call := _re.fullmatch(r"CALL (\S+) (\{.*\})", text):
                # The loop replaces the empty id.
                return _Calls(_Message.assistant("", [_ToolCall("", call[1], call[2])]))
            if text.startswith("SAY "):
                return _FinalReply(_Message.assistant(text.removeprefix("SAY ")))
        return _InvalidReply(
            _Message.assistant(text), "Write one line: CALL name {json}, or SAY text."
        )


def _rendered(message):
    """Convert a stored message to a line of this dialect."""
    if message.role == "tool":
        return _Message.user(f"RESULT {message.name}: {message.text}")
    if message.role == "assistant":
        calls = [f"CALL {call.name} {call.arguments}" for call in message.tool_calls]
        return _Message.assistant("\n".join(calls) or f"SAY {message.text}")
    return message
