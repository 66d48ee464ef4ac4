"""Data for `alone.py`: the arguments of a call, a JSON text, a conversation in sessions.

`SCHEMA` and `Event` describe the same event of a calendar's tool, each in its own way. Times have a
pattern and no `format`, which JSON Schema does not check. All data is the same in every run.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stage0_gateway import Message
from stage1_context import ContextEngine, KeepSystemAndRecent, MessageRecord

MAX_TOKENS = 4000
"""Size of a window."""

_TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})$"


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object with only these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


def _text(longest: int, shortest: int = 0) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest} | ({"minLength": shortest} if shortest else {})


def _list(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _number(kind: str, least: int, most: int) -> dict[str, Any]:
    return {"type": kind, "minimum": least, "maximum": most}


_COORDINATES = _closed(
    {"latitude": _number("number", -90, 90), "longitude": _number("number", -180, 180)},
    "latitude",
    "longitude",
)
_ATTENDEE = _closed(
    {
        "name": _text(100, 1),
        "email": {**_text(254), "pattern": "^[^@ ]+@[^@ ]+$"},
        "role": {"type": "string", "enum": ["organizer", "required", "optional"]},
    },
    "name",
    "email",
    "role",
)
_REMINDER = _closed(
    {
        "method": {"type": "string", "enum": ["email", "popup", "sms"]},
        "minutes_before": _number("integer", 0, 40320),
    },
    "method",
    "minutes_before",
)
_RECURRENCE = _closed(
    {
        "frequency": {"type": "string", "enum": ["daily", "weekly", "monthly", "yearly"]},
        "interval": {"type": "integer", "minimum": 1},
        "days": _list({"type": "string", "enum": ["mo", "tu", "we", "th", "fr", "sa", "su"]}, 7),
        "count": _number("integer", 1, 730),
    },
    "frequency",
)
SCHEMA = _closed(
    {
        "title": _text(200, 1),
        "description": _text(8000),
        "start": {"type": "string", "pattern": _TIME},
        "end": {"type": "string", "pattern": _TIME},
        "visibility": {"type": "string", "enum": ["default", "public", "private"]},
        "location": _closed(
            {"name": _text(200), "address": _text(400), "coordinates": _COORDINATES}, "name"
        ),
        "attendees": _list(_ATTENDEE, 200),
        "reminders": _list(_REMINDER, 5),
        "tags": _list(_text(50, 1), 20),
        "recurrence": _RECURRENCE,
    },
    "title",
    "start",
    "end",
)
_ROLES = {
    "Ada": "organizer",
    "Grace": "required",
    "Alan": "required",
    "Edsger": "optional",
    "Barbara": "optional",
}
VALUE: dict[str, Any] = {
    "title": "Review of the quarter",
    "description": "What was shipped, what was not, and what comes next. Please read the report before.",
    "start": "2026-03-02T09:00:00+01:00",
    "end": "2026-03-02T10:30:00+01:00",
    "visibility": "private",
    "location": {
        "name": "Room 4",
        "address": "12 St James's Square, London",
        "coordinates": {"latitude": 51.507, "longitude": -0.1347},
    },
    "attendees": [
        {"name": name, "email": f"{name.lower()}@example.com", "role": role}
        for name, role in _ROLES.items()
    ],
    "reminders": [
        {"method": method, "minutes_before": minutes}
        for method, minutes in {"email": 1440, "popup": 10, "sms": 0}.items()
    ],
    "tags": ["review", "quarter", "team", "in person"],
    "recurrence": {"frequency": "monthly", "interval": 3, "days": ["mo", "tu", "we"], "count": 8},
}


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Coordinates(_Closed):
    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, le=180)]


class _Location(_Closed):
    name: Annotated[str, Field(max_length=200)]
    address: Annotated[str, Field(max_length=400)] = ""
    coordinates: _Coordinates | None = None


class _Attendee(_Closed):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    email: Annotated[str, Field(max_length=254, pattern="^[^@ ]+@[^@ ]+$")]
    role: Literal["organizer", "required", "optional"]


class _Reminder(_Closed):
    method: Literal["email", "popup", "sms"]
    minutes_before: Annotated[int, Field(ge=0, le=40320)]


class _Recurrence(_Closed):
    frequency: Literal["daily", "weekly", "monthly", "yearly"]
    interval: Annotated[int, Field(ge=1)] = 1
    days: Annotated[
        list[Literal["mo", "tu", "we", "th", "fr", "sa", "su"]], Field(max_length=7)
    ] = []
    count: Annotated[int, Field(ge=1, le=730)] | None = None


class Event(_Closed):
    """The same as `SCHEMA`, written with pydantic."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    description: Annotated[str, Field(max_length=8000)] = ""
    start: Annotated[str, Field(pattern=_TIME)]
    end: Annotated[str, Field(pattern=_TIME)]
    visibility: Literal["default", "public", "private"] = "default"
    location: _Location | None = None
    attendees: Annotated[list[_Attendee], Field(max_length=200)] = []
    reminders: Annotated[list[_Reminder], Field(max_length=5)] = []
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=50)]], Field(max_length=20)
    ] = []
    recurrence: _Recurrence | None = None


_WORDS = "the quick brown fox jumps over the lazy dog and asks the model to call a tool and to read its result "
_LENGTHS = (320, 60, 280, 140)  # 200 characters on average


def conversation(size: int) -> list[Message]:
    """Return this number of messages: a system message, then alternating questions and answers."""
    made = [Message.system("Be brief.")]
    for number in range(1, size):
        say = Message.user if number % 2 else Message.assistant
        made.append(say(f"{number} {_WORDS * 4}"[: _LENGTHS[number % 4]]))
    return made


class Sessions:
    """Sessions with the same conversation that were opened before, as in the middle of a run.

    Args:
        messages: The messages of each session.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._records = [*map(MessageRecord, messages)]
        self.engine = ContextEngine(window=KeepSystemAndRecent(max_tokens=MAX_TOKENS))
        self.ids: list[str] = []

    async def renew(self, number: int) -> None:
        """Create this number of new sessions, because the previous ones have grown."""
        for session in self.ids:
            await self.engine.delete_session(session)
        self.ids = [await self.engine.create_session() for _ in range(number)]
        for session in self.ids:
            await self.engine.store.append(session, *self._records)
            await self.engine.messages_for_request(session)


def trimming(messages: Sequence[Message]) -> Callable[[], object]:
    """Return the same window by langchain-core, which must be installed, with its counter without
    files."""
    library = import_module("langchain_core.messages")
    kinds = {
        "system": library.SystemMessage,
        "user": library.HumanMessage,
        "assistant": library.AIMessage,
    }
    return partial(
        library.trim_messages,
        [kinds[each.role](each.text) for each in messages],
        max_tokens=MAX_TOKENS,
        token_counter="approximate",
        strategy="last",
        include_system=True,
    )


def orders(size: int) -> str:
    """Return a JSON object of records with about this number of characters."""
    made: list[dict[str, Any]] = []
    while size > 0:
        number = len(made)
        note = f'he said "{number}",\nand left' if number % 5 == 0 else "nothing to say"
        order = {
            "id": number,
            "customer": f"São {number}",
            "note": note,
            "total": number * 1.25,
            "paid": True,
        }
        made.append(
            order | {"tags": ["new", "blue"], "to": {"city": "Oslo", "zip": f"{number:05}"}}
        )
        size -= len(json.dumps(made[-1])) + 2
    return json.dumps({"orders": made})
