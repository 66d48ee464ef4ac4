"""Results of tool calls (output for the model, details for people), and of runs.

`output_for_model` converts the return value of a tool to something a model can read: text as it
is, message parts as they are, everything else as JSON. The output is never a Python repr, because a
model would read it as data. This module does not know how a tool runs.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from stage0_gateway import JsonPart, Message, Part, TextPart, ToolCall, Usage
from stage2_output import Repair
from stage3_tools.errors import ToolError, exception_text, safely

ResultStatus = Literal[
    "completed", "error", "rejected", "result_rejected", "interrupted", "unknown_effect"
]
LoopStatus = Literal[
    "completed",
    "max_rounds",
    "parse_failed",
    "refused",
    "awaiting_approval",
    "limit",
    "aborted",
    "timeout",
]
Output = str | tuple[Part, ...]

MAY_HAVE_HAPPENED = "It may have happened, in whole or in part. Check before you ask for it again."

MAX_RESULT_CHARS = 100_000
"""The maximum number of characters of one result that the model sees."""

_DERIVED_DETAILS = {"traceback", "expected_schema", "issues", "available_tools"}
"""Details that the framework adds to an error."""

_PART_TYPES = frozenset(get_args(Part))


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A return value with separate data for the model and for people.

    Attributes:
        output: The value for the model.
        details: Data for events and records; the conversation does not contain it.
    """

    output: Any
    details: Any = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call.

    Attributes:
        call_id: The id of the call.
        name: The tool's name as the model wrote it.
        output: The text or the parts for the model.
        details: Data for people: the details of the tool, or those of the error.
        is_error: Whether the call failed.
        error: The failure, or None.
        duration: Seconds from the first attempt to the result.
        attempts: Number of attempts; 0 if the tool did not run.
        cached: Whether the output comes from the result cache.
        status: "completed", "error", "rejected", "result_rejected", "interrupted" (the call may be
            repeated), or "unknown_effect" (the call was interrupted and may have happened).
        repairs: Repairs that the JSON of the arguments needed.
        note: Text for the model behind the output, such as a note about a repeated call.
        is_json: Whether the output is the JSON of the returned value, not a text of the tool.
        value: The value that the tool returned, in this process only: the journal does not store
            it. A redaction does not change it. None if the tool failed.
        arguments: The JSON text of the arguments that the tool received, with the edits of an
            approver and the values of references. None if the tool did not run.
    """

    call_id: str
    name: str
    output: Output
    details: Any = field(default=None, repr=False)
    is_error: bool = False
    error: ToolError | None = None
    duration: float = 0.0
    attempts: int = 0
    cached: bool = False
    status: ResultStatus = "completed"
    repairs: tuple[Repair, ...] = ()
    note: str = ""
    is_json: bool = field(default=False, repr=False, compare=False)
    value: Any = field(default=None, repr=False, compare=False)
    arguments: str | None = field(default=None, repr=False, compare=False)

    def as_message(self, max_chars: int | None = None) -> Message:
        """Create the tool message of the result, with at most `max_chars` characters of text."""
        output = self.output
        if max_chars is not None and is_longer(output, max_chars):
            output = shorten(output, max_chars)
            if self.status == "unknown_effect" and isinstance(output, str):
                output += f"\n{MAY_HAVE_HAPPENED}"  # the end of the output was removed
        if self.note:
            output = (
                output + self.note if isinstance(output, str) else (*output, TextPart(self.note))
            )
        return Message.tool(output, self.call_id, is_error=self.is_error, name=self.name)


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """A call and its result in the history of a run.

    Attributes:
        id: The id of the call.
        name: The tool's name as the model wrote it.
        arguments: The JSON text of the arguments as the model wrote it.
        result: The result.
        round: The tool round of the run, counted from 1.
        started: Start time in seconds since the epoch.
        ended: Time of the result in seconds since the epoch.
        message: The tool message in the history.
        variable: The id of the variable that holds a long result.
        arguments_variable: The id of the variable that holds long arguments; set by a chain when it
            ends.
        usage: The tokens of the reply that contains the call; shared by all calls of the round.
    """

    id: str
    name: str
    arguments: str
    result: ToolResult
    round: int
    started: float
    ended: float
    message: Message | None = field(default=None, repr=False)
    variable: str | None = None
    arguments_variable: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class LoopStats:
    """Counts of a run.

    Attributes:
        turns: The number of model requests.
        tool_calls: The number of tool calls.
        duration: Seconds.
    """

    turns: int
    tool_calls: int
    duration: float


@dataclass(frozen=True, slots=True)
class ToolLoopResult:
    """The result of a run.

    Attributes:
        reply: The final reply, or None. With `output_type`, its JSON text.
        status: Why the run ended.
        status_reason: The reason in a sentence, where the status does not say everything.
        tool_rounds: The number of turns that ran at least one tool.
        last_raw_content: The text of the last reply, as the model wrote it.
        usage: The tokens of all requests of this run.
        cost: US dollars, or None if no price is known.
        history: Every tool call of this run with its result.
        messages: The messages of the last request, as they were sent.
        stats: The number of turns and calls, and the duration.
        pending_approvals: Calls that wait for approval. `resume=True` continues with them.
        output: With `output_type`, the value of the final reply; None without one.
    """

    reply: str | None
    status: LoopStatus
    status_reason: str | None
    tool_rounds: int
    last_raw_content: str | None
    usage: Usage
    cost: float | None
    history: tuple[ToolCallRecord, ...] = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    stats: LoopStats
    pending_approvals: tuple[ToolCall, ...] = ()
    output: Any = None

    @property
    def max_rounds_reached(self) -> bool:
        """Whether the limit of tool rounds ended the use of tools."""
        return self.status == "max_rounds"


def is_longer(output: Output, characters: int) -> bool:
    """Return whether an output has more characters of text and JSON than the given number."""
    if isinstance(output, str):
        return len(output) > characters
    return sum(len(part_text(part)) for part in output) > characters


def part_text(part: Part) -> str:
    """Return the text of a part, or its JSON; pictures and documents have no text."""
    if isinstance(part, JsonPart):
        return json.dumps(part.value, ensure_ascii=False, separators=(",", ":"))
    return part.text if isinstance(part, TextPart) else ""


def output_text(output: Output) -> str:
    """Return the text and the JSON of an output."""
    return output if isinstance(output, str) else "\n".join(filter(None, map(part_text, output)))


def shorten(output: Output, max_chars: int) -> Output:
    """Limit the text of an output and mark each omission with a note.

    Args:
        output: Text, or parts. Pictures and documents are not shortened.
        max_chars: Maximum number of characters of all text and JSON together, without the notes.
    """
    if isinstance(output, str):
        if len(output) <= max_chars:
            return output
        note = f"The first {max_chars} of {len(output)} characters."
        return f"{output[:max_chars]}\n[{note} Ask for a part of it, if the tool can give one.]"
    parts: list[Part] = []
    for part in output:
        text = part_text(part)
        parts.append(part if len(text) <= max_chars else TextPart(str(shorten(text, max_chars))))
        max_chars = max(0, max_chars - len(text))
    return tuple(parts)


def output_for_model(value: Any) -> Output:
    """Convert the return value of a tool to text or message parts.

    Text and parts are unchanged; a list that contains parts becomes parts; all else becomes JSON.

    Raises:
        ToolError: The value has no JSON form ("execution"), such as an iterator or a value nested
            more than about 250 levels deep, or its own code raises. The text names the type.
    """
    try:
        while isinstance(value, ToolOutput):
            value = value.output
        if isinstance(value, str):
            # An exact str: an enum with text values may define another conversion to text.
            return str.__str__(value)
        if isinstance(value, Part):
            return _checked_parts((value,))
        if isinstance(value, tuple | list) and not _PART_TYPES.isdisjoint(map(type, value)):
            return _checked_parts(tuple(map(_as_part, value)))
        return _json_text(value)
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _not_json(value, error) from error


def stored_details(details: Any) -> Any:
    """Return the details of a result for the journal, without those that the framework derives."""
    if isinstance(details, dict):
        details = {key: value for key, value in details.items() if key not in _DERIVED_DETAILS}
        return plain_data(details) if details else None
    return plain_data(details)


def plain_data(value: Any) -> Any:
    """Convert any value to a JSON value; what has no JSON form becomes the name of its type."""
    return safely(lambda: _plain_data(value), type(value).__name__)


def _plain_data(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if _contains_iterator(value):
        raise ValueError("An iterator can be read only once.")
    plain = to_jsonable_python(
        value, bytes_mode="base64", fallback=lambda value: type(value).__name__
    )
    return json.loads(json.dumps(plain), parse_constant=str)  # NaN becomes "NaN"


def _not_json(value: Any, error: BaseException) -> ToolError:
    return ToolError(
        "execution",
        f"The tool ran to its end, but what it returned (type {type(value).__name__}) "
        "cannot be written as JSON.",
        details={
            "why": exception_text(error)[:500],
            "for the developer": "Return text, or plain dicts, lists and numbers.",
        },
    )


def _as_part(value: Any) -> Part:
    if isinstance(value, Part):
        return value
    return TextPart(str.__str__(value) if isinstance(value, str) else _json_text(value))


def _checked_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Verify that a history can store the parts; a late failure would affect the sibling calls."""
    json.dumps(Message.tool(parts, "any").to_dict(), allow_nan=False)
    if not all(isinstance(part.text, str) for part in parts if isinstance(part, TextPart)):
        raise TypeError("The text of a TextPart must be a str.")
    return parts


def _json_text(value: Any) -> str:
    """Write dates, decimals, dataclasses, models and plain values as JSON."""
    from pydantic_core import to_json

    if isinstance(value, Iterator):
        raise ValueError("An iterator can be read only once, and may be endless.")
    with suppress(Exception):  # pydantic's own errors, and those of the value's code
        return to_json(value, inf_nan_mode="strings").decode()
    return _unusual_json_text(value)


def _unusual_json_text(value: Any) -> str:
    """Write values that contain other bytes than UTF-8, or half a surrogate pair."""
    from pydantic_core import to_json, to_jsonable_python

    with suppress(RecursionError):  # pydantic's message is more precise
        if _contains_iterator(value):
            raise ValueError("The value contains an iterator, which can be read only once.")
    with suppress(ValueError):
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64").decode()
    plain = to_jsonable_python(value, bytes_mode="base64")
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _contains_iterator(value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple | set | frozenset):
        return isinstance(value, Iterator)
    return any(map(_contains_iterator, value))
