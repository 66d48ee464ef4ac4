"""What a tool call led to: output for the model, details for people.

`output_for_model` turns whatever a tool returned into something a model can read: text as it is, everything
else as JSON, pictures and documents as message parts. It is never a Python repr, because a model would read
that as data. Knows nothing of how a tool is run.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from stage0_gateway import Message, Part
from stage2_output import Repair
from stage3_tools.errors import ToolError

ResultStatus = Literal["completed", "error", "rejected", "result_rejected", "interrupted", "unknown_effect"]
Output = str | tuple[Part, ...]


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
        status: "completed", "error", "rejected", "result_rejected", "interrupted" (it may be repeated), or
            "unknown_effect" (it was cut off and may have happened).
        repairs: What had to be mended in the arguments to read them; a tool is not run on that unnoticed.
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

    def as_message(self) -> Message:
        """The tool message that answers the call."""
        return Message.tool(self.output, self.call_id, is_error=self.is_error, name=self.name)


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
    """

    id: str
    name: str
    arguments: str
    result: ToolResult
    round: int
    started: float
    ended: float


def output_for_model(value: Any) -> Output:
    """Whatever a tool returned, as text or message parts.

    Text stays text. Parts stay parts. Everything else becomes JSON: mappings, lists, dataclasses, pydantic
    models, dates, decimals, paths, enums, bytes as UTF-8 text; NaN and infinity become strings.

    Raises:
        ToolError: JSON cannot hold it ("execution"); the text names the type.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Part):
        return (value,)
    if isinstance(value, tuple | list) and value and all(isinstance(each, Part) for each in value):
        return tuple(value)
    return _json(value)


def _json(value: Any) -> str:
    from pydantic_core import to_json, to_jsonable_python  # they know dates, decimals, dataclasses, models …

    with suppress(ValueError, RecursionError):  # pydantic's own errors are ValueErrors
        return to_json(value, inf_nan_mode="strings").decode()
    try:  # what is written as UTF-8 cannot hold half a surrogate pair; text can
        return json.dumps(
            to_jsonable_python(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    except (ValueError, RecursionError) as error:
        raise ToolError(
            "execution",
            f"The tool returned a value of type {type(value).__name__}, which cannot be written as JSON.",
            details={
                "why": str(error)[:500],
                "for the developer": "Return text, or plain dicts, lists and numbers.",
            },
        ) from error
