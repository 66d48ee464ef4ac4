"""The journal: what happened in a session, one frozen record after the other.

Records are only ever added. Everything else (the history, what of it is shown, variables, what a
run was doing when it stopped) is a view on them, so nothing can be lost by looking at it
differently. Knows nothing of where records are kept.
"""

import json
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from stage0_gateway import Message


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message was added to the conversation."""

    message: Message

    @property
    def kind(self) -> Literal["message", "call", "system"]:
        """System messages and calls are kinds of their own, so that a store finds them without
        reading the talk.
        """
        if self.message.role == "system":
            return "system"
        return "call" if self.message.tool_calls else "message"


@dataclass(frozen=True, slots=True)
class CallStartedRecord:
    """A tool is about to run. If no result follows, it was interrupted, and may have done its
    work.
    """

    kind: ClassVar[Literal["call_started"]] = "call_started"
    call_id: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallFinishedRecord:
    """A tool has ended, and the message that answers it waits for those of the calls before it.

    Attributes:
        call_id: The call.
        status: How it ended.
        message: The answer, which is shown when its turn comes; None where it is not known.
    """

    kind: ClassVar[Literal["call_finished"]] = "call_finished"
    call_id: str
    status: str
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class ApprovalPendingRecord:
    """A call waits for somebody's consent; `arguments` is the JSON text that was asked about."""

    kind: ClassVar[Literal["approval_pending"]] = "approval_pending"
    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """From here on a summary stands for all messages before the record at index `until`.

    An empty text takes the summary back: every message is shown again.
    """

    kind: ClassVar[Literal["summary"]] = "summary"
    text: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """From here on, messages are shown behind others, or not shown, so that calls and results
    match.

    Attributes:
        inserted: The index of a record, and what to show behind it.
        hidden: The indices of records that are not shown, nor what an earlier repair showed behind
            them.
    """

    kind: ClassVar[Literal["repair"]] = "repair"
    inserted: tuple[tuple[int, Message], ...] = ()
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableRecord:
    """A value was put aside; it is JSON."""

    kind: ClassVar[Literal["variable"]] = "variable"
    value: Any


ProgressRecord = CallStartedRecord | CallFinishedRecord | ApprovalPendingRecord
"""What happens to a call between the message that asks for it and its result."""

Record = MessageRecord | ProgressRecord | SummaryRecord | RepairRecord | VariableRecord

CONTROL_KINDS = ("system", "summary", "repair")
"""The kinds that a reader needs from the whole journal. Their records are few."""

MESSAGE_KINDS = ("message", "call")
"""The kinds of the other messages."""

VIEW_KINDS = (*MESSAGE_KINDS, *CONTROL_KINDS)
"""The kinds that determine which messages are shown. Records of other kinds may be large."""

PROGRESS_KINDS = tuple(each.kind for each in get_args(ProgressRecord))
"""The kinds that record the progress of a call."""

_WithFields = ProgressRecord | SummaryRecord | RepairRecord | VariableRecord
_BY_KIND: dict[str, type[_WithFields]] = {each.kind: each for each in get_args(_WithFields)}
KINDS = (*MESSAGE_KINDS, "system", *_BY_KIND)
"""Every kind of record there is."""
_NAMES: dict[Any, str] = {str: "text", int: "a whole number"}


def record_to_json(record: Record) -> str:
    """Return a record as JSON text that every database accepts, for `record_from_json`.

    Raises:
        ValueError: A value in the record has no form in JSON.
    """
    try:
        return to_json({"kind": record.kind, **_plain_fields(record)})
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"This {record.kind!r} record cannot be written as JSON: {str(error).rstrip('.')}."
        ) from None


def _plain_fields(record: Record) -> dict[str, Any]:
    match record:
        case MessageRecord(message):
            return message.to_dict()
        case CallFinishedRecord(call_id, status, message) if message is not None:
            return {"call_id": call_id, "status": status, "message": message.to_dict()}
        case RepairRecord(inserted, hidden):
            return {
                "inserted": [[index, message.to_dict()] for index, message in inserted],
                "hidden": list(hidden),
            }
    return {each.name: getattr(record, each.name) for each in fields(record)}


def record_from_json(text: str) -> Record:
    """Return the record that `record_to_json` wrote.

    Raises:
        ValueError: The text is not a record that this version knows.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"A journal record is JSON text, and this is not: {error}.") from None
    if not isinstance(plain, dict):
        raise ValueError(f"A journal record is a JSON object, not {type(plain).__name__}.")
    kind = plain.get("kind")
    if kind in (*MESSAGE_KINDS, "system"):
        return MessageRecord(Message.from_dict(plain))
    if not isinstance(kind, str) or kind not in _BY_KIND:
        raise ValueError(f"Unknown journal record {kind!r}; this version knows {', '.join(KINDS)}.")
    given = {name: value for name, value in plain.items() if name != "kind"}
    _check_fields(_BY_KIND[kind], given)
    if kind == RepairRecord.kind:
        return _repair(**given)
    if kind == CallFinishedRecord.kind and given.get("message") is not None:
        given["message"] = Message.from_dict(given["message"])
    return _BY_KIND[kind](**given)


def to_json(plain: Any) -> str:
    """A value as JSON text, in the letters it has, that can be written to any file.

    Raises:
        ValueError: It has no form in JSON.
    """
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half of a character pair, as a cut stream may leave it
        return json.dumps(plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return text


def _check_fields(kind: type[_WithFields], given: dict[str, Any]) -> None:
    """Check that each field is present and of its type; a journal may come from any file."""
    known = {each.name: each for each in fields(kind)}
    needed = {name for name, each in known.items() if each.default is MISSING}
    if not needed <= given.keys() <= known.keys():
        raise ValueError(f"A {kind.kind!r} record has the fields {[*known]}, not {[*given]}.")
    for name, value in given.items():
        expected = known[name].type
        if expected in (str, int) and type(value) is not expected:
            raise ValueError(
                f"{name!r} of a {kind.kind!r} record is {_NAMES[expected]}, not {type(value).__name__}."
            )


def _repair(inserted: Any = (), hidden: Any = ()) -> RepairRecord:
    whole = isinstance(inserted, list | tuple) and isinstance(hidden, list | tuple)
    pairs = whole and all(isinstance(each, list | tuple) and len(each) == 2 for each in inserted)
    if not pairs or not all(
        type(index) is int for index in (*hidden, *(each[0] for each in inserted))
    ):
        raise ValueError(
            "A 'repair' record holds [index, message] pairs, and the indices it hides."
        )
    return RepairRecord(
        tuple((index, Message.from_dict(message)) for index, message in inserted), tuple(hidden)
    )
