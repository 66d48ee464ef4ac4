"""What is said between a user, a model and tools: messages, their parts, and tool calls.

These are the words every stage speaks. All of them are frozen values. This file knows no wire format:
how a part looks in OpenAI's or anyone's JSON is told in `wire/`. The mappings of `to_dict` are our own
form, which sessions are saved in; `from_dict` also reads the form OpenAI's documentation shows,
because that is what people have at hand.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from stage0_gateway.fields import a_list, a_mapping, a_text, needed_text

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A JSON value; wire formats without such a part send its text."""

    value: Any


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: `data` holds base64 text with its `media_type`, or `url` says where it is."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A file for the model to read: base64 `data` with its `media_type`."""

    data: str
    media_type: str = "application/pdf"
    name: str = "document"


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """What the model thought before it answered. Shown to people, never counted as its answer."""

    text: str


Part = TextPart | JsonPart | ImagePart | DocumentPart | ThinkingPart
_PART_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "json": JsonPart,
    "image": ImagePart,
    "document": DocumentPart,
    "thinking": ThinkingPart,
}
_PART_NAMES = {kind: name for name, kind in _PART_TYPES.items()}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to run a tool.

    Attributes:
        id: Pairs the call with its result; unique within a session.
        name: The tool's name as the model wrote it; it need not exist.
        arguments: The JSON *text* of the arguments. Nothing has checked it yet: stage 3 does.
    """

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: Text, or a tuple of parts.
        tool_calls: The tools an assistant message asks for.
        tool_call_id: For a tool message, the call it answers.
        is_error: For a tool message, that the call failed.
        name: For a tool message, the name of the tool.
        raw_text: What the model literally wrote, where `content` is only what it meant by it: the
            prompt dialect of stage 3 writes its decisions as JSON text and shows them to the model again.

    Raises:
        ValueError: The role is unknown, a tool message answers no call, or content is neither text nor parts.
    """

    role: Role
    content: str | tuple[Part, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    name: str | None = None
    raw_text: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"Unknown role {self.role!r}. The roles are {', '.join(get_args(Role))}.")
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("A tool message needs the tool_call_id of the call it answers.")
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", _as_parts(self.content))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @classmethod
    def system(cls, content: str | tuple[Part, ...]) -> "Message":
        """What the model is told before the conversation."""
        return cls("system", content)

    @classmethod
    def user(cls, content: str | tuple[Part, ...]) -> "Message":
        """What the person says."""
        return cls("user", content)

    @classmethod
    def assistant(
        cls,
        content: str | tuple[Part, ...] = "",
        tool_calls: Iterable[ToolCall] = (),
        *,
        raw_text: str | None = None,
    ) -> "Message":
        """What the model says, and the tools it asks for."""
        return cls("assistant", content, tuple(tool_calls), raw_text=raw_text)

    @classmethod
    def tool(
        cls,
        content: str | tuple[Part, ...],
        tool_call_id: str,
        *,
        is_error: bool = False,
        name: str | None = None,
    ) -> "Message":
        """What a tool answered to the call with this id."""
        return cls("tool", content, tool_call_id=tool_call_id, is_error=is_error, name=name)

    @property
    def text(self) -> str:
        """The text parts joined; thinking, pictures and documents are not text."""
        return self.content if isinstance(self.content, str) else _joined(self.content, TextPart)

    @property
    def thinking(self) -> str:
        """The thinking parts joined."""
        return "" if isinstance(self.content, str) else _joined(self.content, ThinkingPart)

    def to_dict(self) -> dict[str, Any]:
        """This message as plain JSON values; fields at their default are left out."""
        plain: dict[str, Any] = {"role": self.role, "content": self.content}
        if not isinstance(self.content, str):
            plain["content"] = [{"type": _PART_NAMES[type(part)], **asdict(part)} for part in self.content]
        if self.tool_calls:
            plain["tool_calls"] = [asdict(call) for call in self.tool_calls]
        for name in ("tool_call_id", "is_error", "name", "raw_text"):
            if value := getattr(self, name):
                plain[name] = value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Message":
        """The message that `to_dict` wrote, or one in the form of OpenAI's documentation.

        Raises:
            ValueError: The mapping is not a message; the text says which field is wrong.
        """
        a_mapping(plain, "A message")
        if "role" not in plain:
            raise ValueError(f"A message needs a 'role'; this one has {sorted(plain)}.")
        content = plain.get("content") or ""
        if isinstance(content, list | tuple):
            content = tuple(_part_from(part) for part in content)
        calls = tuple(_call_from(call) for call in a_list(plain.get("tool_calls"), "tool_calls"))
        rest = {
            name: plain[name] for name in ("tool_call_id", "is_error", "name", "raw_text") if plain.get(name)
        }
        return cls(plain["role"], content, calls, **rest)


def as_message(value: "Message | Mapping[str, Any]") -> Message:
    """Accept what callers have: a `Message`, or a mapping with `role` and `content`."""
    if isinstance(value, Message):
        return value
    if isinstance(value, Mapping):
        return Message.from_dict(value)
    raise ValueError(
        f"A message is a Message or a mapping with 'role' and 'content', not {type(value).__name__}."
    )


def _as_parts(content: object) -> tuple[Part, ...]:
    if not isinstance(content, list | tuple):
        raise ValueError(f"Message content is text or parts, not {type(content).__name__}.")
    for part in content:
        if type(part) not in _PART_NAMES:
            names = ", ".join(kind.__name__ for kind in _PART_NAMES)
            raise ValueError(f"A message part is one of {names}, not {type(part).__name__}.")
    return tuple(content)


def _joined(parts: tuple[Part, ...], kind: type[TextPart] | type[ThinkingPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))


def _part_from(plain: Any) -> Part:
    fields = dict(a_mapping(plain, "A message part"))
    name = a_text(fields.pop("type", ""), "type")
    kind = _PART_TYPES.get(name)
    if kind is None:
        raise ValueError(f"Unknown part type {name!r}. The types are {', '.join(_PART_TYPES)}.")
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"This {name} part does not fit: {error}.") from error


def _call_from(plain: Any) -> ToolCall:
    plain = a_mapping(plain, "A tool call")
    function = a_mapping(plain.get("function", plain), "function")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    call_id, name = needed_text(plain, "id", "A tool call"), needed_text(function, "name", "A tool call")
    return ToolCall(call_id, name, a_text(arguments, "arguments") or "{}")
