"""The records of a session's journal.

A journal only grows. History, variables and the progress of calls are views of its records. The
module does not know where records are stored.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

from stage0_gateway import Message


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message of the conversation.

    Attributes:
        message: The message.
        details: A JSON value for people, such as the details of a tool's result. It is not part of
            the message, so no model sees it and no window counts it. None is no details.
    """

    message: Message
    details: Any = field(default=None, repr=False, hash=False)

    @property
    def kind(self) -> Literal["message", "call", "system"]:
        """The kind. System messages and calls have their own, so that a store finds them fast."""
        if self.message.role == "system":
            return "system"
        return "call" if self.message.tool_calls else "message"


@dataclass(frozen=True, slots=True)
class CallStartedRecord:
    """A tool runs now. Without a later result, it may have done its work or not."""

    kind: ClassVar[Literal["call_started"]] = "call_started"
    call_id: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallFinishedRecord:
    """A tool has ended before the calls in front of it, so its result is not a message yet.

    Attributes:
        call_id: The call's id.
        status: The status of the tool's result.
        message: The tool message to append later, or None if it is unknown.
        details: The details of the tool message.
    """

    kind: ClassVar[Literal["call_finished"]] = "call_finished"
    call_id: str
    status: str
    message: Message | None = None
    details: Any = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class ApprovalPendingRecord:
    """A call waits for approval. `arguments` is the JSON text to approve."""

    kind: ClassVar[Literal["approval_pending"]] = "approval_pending"
    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """A summary replaces all messages before the record at index `until`.

    An empty text removes the summary: all messages are shown again.
    """

    kind: ClassVar[Literal["summary"]] = "summary"
    text: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """Messages to show or hide, so that each call has one id and one result.

    Attributes:
        inserted: The indices of records, and a message to show behind each.
        hidden: The indices of records that are hidden, with the messages of earlier repairs.
    """

    kind: ClassVar[Literal["repair"]] = "repair"
    inserted: tuple[tuple[int, Message], ...] = ()
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableRecord:
    """A stored JSON value."""

    kind: ClassVar[Literal["variable"]] = "variable"
    value: Any


@dataclass(frozen=True, slots=True)
class VariableDeletedRecord:
    """The variable with this id is deleted; its own record remains."""

    kind: ClassVar[Literal["variable_deleted"]] = "variable_deleted"
    id: str


ProgressRecord = CallStartedRecord | CallFinishedRecord | ApprovalPendingRecord
"""The progress of a call between its message and its result."""

_OtherRecord = (
    ProgressRecord | SummaryRecord | RepairRecord | VariableRecord | VariableDeletedRecord
)
Record = MessageRecord | _OtherRecord

CONTROL_KINDS = ("system", "summary", "repair")
"""The kinds that a reader needs from the whole journal. Their records are few."""

MESSAGE_KINDS = ("message", "call")
"""The kinds of the other messages."""

VIEW_KINDS = (*MESSAGE_KINDS, *CONTROL_KINDS)
"""The kinds that determine which messages are shown. Records of other kinds may be large."""

PROGRESS_KINDS = tuple(each.kind for each in get_args(ProgressRecord))
"""The kinds that record the progress of a call."""

_BY_KIND: dict[str, type[_OtherRecord]] = {each.kind: each for each in get_args(_OtherRecord)}
KINDS = (*MESSAGE_KINDS, "system", *_BY_KIND)
"""All kinds of records."""


def record_to_json(record: Record) -> str:
    """Return a record as JSON text for `record_from_json`. Every database accepts the text.

    Raises:
        ValueError: JSON cannot hold a value of the record.
    """
    try:
        return to_json({"kind": record.kind, **_plain_fields(record)})
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"This {record.kind!r} record cannot be written as JSON: {str(error).rstrip('.')}."
        ) from None


def _plain_fields(record: Record) -> dict[str, Any]:
    match record:
        case MessageRecord(message, details):
            return message.to_dict() | _optional(details)
        case CallFinishedRecord(call_id, status, message, details) if message is not None:
            plain = {"call_id": call_id, "status": status, "message": message.to_dict()}
            return plain | _optional(details)
        case RepairRecord(inserted, hidden):
            return {
                "inserted": [[index, message.to_dict()] for index, message in inserted],
                "hidden": list(hidden),
            }
    return {attribute.name: getattr(record, attribute.name) for attribute in fields(record)}


def _optional(details: Any) -> dict[str, Any]:
    return {} if details is None else {"details": details}


def record_from_json(text: str) -> Record:
    """Return the record that `record_to_json` wrote.

    Raises:
        ValueError: The text is not a record that this version knows.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"A journal record must be JSON text: {error}.") from None
    if not isinstance(plain, dict):
        raise ValueError(f"A journal record is a JSON object, not {type(plain).__name__}.")
    kind = plain.pop("kind", None)
    if kind in (*MESSAGE_KINDS, "system"):
        return MessageRecord(Message.from_dict(plain), plain.get("details"))
    if not isinstance(kind, str) or kind not in _BY_KIND:
        raise ValueError(f"Unknown journal record {kind!r}; this version knows {', '.join(KINDS)}.")
    try:
        if kind == RepairRecord.kind:
            return _repair(**plain)
        if kind == CallFinishedRecord.kind and plain.get("message") is not None:
            plain["message"] = Message.from_dict(plain["message"])
        return _BY_KIND[kind](**plain)
    except TypeError:
        names = [attribute.name for attribute in fields(_BY_KIND[kind])]
        raise ValueError(f"Invalid {kind!r} record; its fields are {names}.") from None


def to_json(plain: Any) -> str:
    """Return a value as JSON text that any file can hold. Letters are not escaped if possible.

    Raises:
        ValueError: JSON cannot hold the value.
    """
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as a cut stream may leave it
        return json.dumps(plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return text


def _repair(inserted: Any = (), hidden: Any = ()) -> RepairRecord:
    messages = tuple((index, Message.from_dict(message)) for index, message in inserted)
    return RepairRecord(messages, tuple(hidden))
