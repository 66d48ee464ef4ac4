"""What a tool call led to: output for the model, details for people.

`output_for_model` turns whatever a tool returned into something a model can read: text as it is,
everything else as JSON, pictures and documents as message parts. It is never a Python repr, because
a model would read that as data. Knows nothing of how a tool is run.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from stage0_gateway import JsonPart, Message, Part, TextPart, Usage
from stage2_output import Repair
from stage3_tools.errors import ToolError
from stage3_tools.execution.error_kinds import words_of

ResultStatus = Literal[
    "completed", "error", "rejected", "result_rejected", "interrupted", "unknown_effect"
]
Output = str | tuple[Part, ...]

MAY_HAVE_HAPPENED = "It may have happened, in whole or in part. Check before you ask for it again."

_PARTS = frozenset(get_args(Part))


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool may return when people should see more than the model.

    Attributes:
        output: For the model.
        details: For people: it goes into events and records, not into the conversation.
    """

    output: Any
    details: Any = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call.

    Attributes:
        call_id: The call it answers.
        name: The tool's name as the model wrote it.
        output: What the model is told.
        details: What people may look at: the tool's own details, or those of the error.
        is_error: Whether the call failed.
        error: The failure, or None.
        duration: Seconds the call took.
        attempts: How often the tool was run; 0 if it was refused before.
        cached: Whether the output comes from an earlier call.
        status: "completed", "error", "rejected", "result_rejected", "interrupted" (it may be
            repeated), or "unknown_effect" (it was cut off and may have happened).
        repairs: What had to be mended in the arguments to read them; a tool is not run on that
            unnoticed.
        note: What the model is told besides the output, such as that it repeats itself.
        is_json: Whether the output is the JSON of a value that the tool returned, and not a text of
            its own.
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

    def as_message(self, max_chars: int | None = None) -> Message:
        """The tool message that answers the call.

        Args:
            max_chars: The most characters of text that the model is shown; None shows all.
        """
        output = self.output if max_chars is None else shortened(self.output, max_chars)
        if (
            output is not self.output
            and self.status == "unknown_effect"
            and isinstance(output, str)
        ):
            output += f"\n{MAY_HAVE_HAPPENED}"  # it stood at the end, which was cut off
        if self.note:
            output = (
                output + self.note if isinstance(output, str) else (*output, TextPart(self.note))
            )
        return Message.tool(output, self.call_id, is_error=self.is_error, name=self.name)


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One line in the story of a run.

    Attributes:
        id: The call's id.
        name: The tool's name as the model wrote it.
        arguments: The JSON text of the arguments as the model wrote it.
        result: What came of it.
        round: In which tool round of the run it was called, from 1.
        started: When, in seconds since the epoch.
        ended: When it had its result.
        message: The message of the history that answers the call.
        variable: The id of the variable that holds the result, where it was too long to be shown
            whole.
        arguments_variable: The same for its arguments; only a chain keeps them, when it is over.
        usage: The tokens of the reply that asked for it, and for the other calls of its round.
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

    @property
    def rejection(self) -> str | None:
        """Why somebody rejected the call, or its result; None where nobody did."""
        error = self.result.error
        return (
            error.message if error is not None and self.result.status.endswith("rejected") else None
        )


def is_longer(output: Output, characters: int) -> bool:
    """Whether an output has more characters of text and JSON than this."""
    if isinstance(output, str):
        return len(output) > characters
    return sum(len(part_text(part)) for part in output) > characters


def part_text(part: Part) -> str:
    """The text of a part, or its JSON as text; pictures and documents have none."""
    if isinstance(part, JsonPart):
        return json.dumps(part.value, ensure_ascii=False, separators=(",", ":"))
    return part.text if isinstance(part, TextPart) else ""


def shortened(output: Output, max_chars: int) -> Output:
    """An output with no more text than this, and a note where something is left out.

    Args:
        output: Text, or parts; pictures and documents stay whole.
        max_chars: The most characters of all text and JSON together; the notes come on top.
    """
    if isinstance(output, str):
        if len(output) <= max_chars:
            return output
        left_out = f"The first {max_chars} of {len(output)} characters. Ask for a part of it, if the tool can give one."
        return f"{output[:max_chars]}\n[{left_out}]"
    parts: list[Part] = []
    for part in output:
        text = part_text(part)
        parts.append(part if len(text) <= max_chars else TextPart(str(shortened(text, max_chars))))
        max_chars = max(0, max_chars - len(text))
    return tuple(parts)


def output_for_model(value: Any) -> Output:
    """Whatever a tool returned, as text or message parts.

    Text stays text, a part stays a part, and a list with parts in it becomes parts. Everything else
    becomes JSON: mappings, lists, sets, dataclasses, pydantic models, dates, decimals, paths,
    enums; keys as text; bytes as the text they are in UTF-8, or else all of them in URL-safe
    base64; NaN and infinity as strings; None as null. Of a `ToolOutput` it is the output.

    Raises:
        ToolError: JSON cannot hold it, such as an iterator, which can be read only once, or what is
            nested more than about 250 deep, or code of its own raises while it is read
            ("execution"); the text names the type.
    """
    try:
        return _output(value)
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ToolError(
            "execution",
            f"The tool ran to its end, but what it returned (type {type(value).__name__}) cannot be written as JSON.",
            details={
                "why": words_of(error)[:500],
                "for the developer": "Return text, or plain dicts, lists and numbers.",
            },
        ) from error


def _output(value: Any) -> Output:
    while isinstance(value, ToolOutput):
        value = value.output
    if isinstance(value, str):
        return str.__str__(
            value
        )  # plain text also of an enum, whose own way to print itself may be a repr
    if isinstance(value, Part):
        return _checked((value,))
    if isinstance(value, tuple | list) and not _PARTS.isdisjoint(map(type, value)):
        return _checked(
            tuple(each if isinstance(each, Part) else TextPart(_text(each)) for each in value)
        )
    return _json(value)


def _text(value: Any) -> str:
    return str.__str__(value) if isinstance(value, str) else _json(value)


def _checked(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts that a history can keep: what it cannot would cost the other calls their results."""
    json.dumps(Message.tool(parts, "any").to_dict(), allow_nan=False)
    if not all(isinstance(each.text, str) for each in parts if isinstance(each, TextPart)):
        raise TypeError("The text of a TextPart is text.")
    return parts


def _json(value: Any) -> str:
    from pydantic_core import (
        to_json,
        to_jsonable_python,
    )  # they know dates, decimals, dataclasses, models …

    if isinstance(value, Iterator):
        raise ValueError("It can be read only once, and may never end.")
    with suppress(Exception):  # besides pydantic's own errors all that a value's own code raises
        return to_json(value, inf_nan_mode="strings").decode()
    with suppress(RecursionError):  # which pydantic can say better
        if _holds_iterator(value):
            raise ValueError("An iterator in it can be read only once.")
    with suppress(ValueError):
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64").decode()
    # What is written as UTF-8 cannot hold half a surrogate pair; text can.
    plain = to_jsonable_python(value, bytes_mode="base64")
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _holds_iterator(value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple | set | frozenset):
        return isinstance(value, Iterator)
    return any(map(_holds_iterator, value))
