"""`Message`: one message of a conversation between a user, a model and tools.

All stages use this frozen value. This module knows no wire format; `wire/` converts messages to a
provider's JSON. `to_dict` writes the format in which sessions are saved. `from_dict` also accepts
the format of OpenAI's documentation, because many users have messages in that format.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar, get_args

from stage0_gateway.json_fields import as_list, as_mapping
from stage0_gateway.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    as_parts,
    call_from_dict,
    call_to_dict,
    part_from_dict,
    part_to_dict,
)

Role = Literal["system", "user", "assistant", "tool"]
_ROLES = get_args(Role)
_OPTIONAL = ("tool_call_id", "is_error", "name", "raw_text")
_KEYS = ("role", "content", "tool_calls", *_OPTIONAL)
_SERVER_KEYS = (
    "refusal",
    "annotations",
    "audio",
    "function_call",
    "reasoning",
    "reasoning_content",
)
"""Keys of the assistant messages of servers; only `content` and `tool_calls` are sent back."""
_EXAMPLE = '{"role": "user", "content": "Hello."}'
_Encoding = TypeVar("_Encoding")


class CachedEncoding:
    """A frozen value that stores its encodings, one for each format.

    Every request contains the whole conversation and all tools. Without this cache, the cost of a
    turn would grow with the history. The cache is not a field, so copies and comparisons ignore it.
    """

    __slots__ = ("encodings",)
    encodings: dict[str, Any]

    def encoded(self, form: str, encode: Callable[[Self], _Encoding]) -> _Encoding:
        """Return `encode(self)`, which must depend on this value alone, computed once per form."""
        try:
            return self.encodings[form]  # type: ignore[no-any-return]
        except (AttributeError, KeyError):
            encoding = encode(self)
            self.store_encoding(form, encoding)
            return encoding

    def store_encoding(self, form: str, encoding: Any) -> None:
        """Store an encoding under the name of its format."""
        if not hasattr(self, "encodings"):
            object.__setattr__(self, "encodings", {})  # the value is frozen; this is not a field
        self.encodings[form] = encoding


@dataclass(frozen=True, slots=True)
class Message(CachedEncoding):
    """One message of a conversation.

    Its encoding is cached, so mappings and lists inside it must not be changed.

    Attributes:
        role: The author of the message.
        content: Text, or a tuple of parts.
        tool_calls: The tool calls of an assistant message.
        tool_call_id: The id of the call that a tool message answers.
        is_error: Whether the call of a tool message failed.
        name: The tool's name in a tool message. In user messages of the framework, "feedback"
            marks a correction of a reply, and "summary" a summary of earlier messages; these names
            are never sent.
        raw_text: The model's text, if `content` is an interpretation of it. The prompt dialect of
            stage 3 interprets decisions in JSON text and sends that text again.

    Raises:
        ValueError: The role is unknown, a tool message has no call id, or content is neither text
            nor parts.
    """

    role: Role
    content: str | tuple[Part, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    name: str | None = None
    raw_text: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ValueError(f"Unknown role {self.role!r}. The roles are {', '.join(_ROLES)}.")
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("A tool message needs the tool_call_id of the call it answers.")
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", as_parts(self.content))
        if type(self.tool_calls) is not tuple:
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @classmethod
    def system(cls, content: str | tuple[Part, ...]) -> "Message":
        """Create a message with instructions for the model."""
        return cls("system", content)

    @classmethod
    def user(cls, content: str | tuple[Part, ...]) -> "Message":
        """Create a message of the user."""
        return cls("user", content)

    @classmethod
    def assistant(
        cls,
        content: str | tuple[Part, ...] = "",
        tool_calls: Iterable[ToolCall] = (),
        *,
        raw_text: str | None = None,
    ) -> "Message":
        """Create a message of the model, with its tool calls."""
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
        """Create a message with the result of the call with this id."""
        return cls("tool", content, tool_call_id=tool_call_id, is_error=is_error, name=name)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; a text is one part."""
        return (TextPart(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return self.content if isinstance(self.content, str) else _joined(self.content, TextPart)

    @property
    def thinking(self) -> str:
        """The thinking parts, joined."""
        return _joined(self.parts, ThinkingPart)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON values, without fields at their default."""
        plain: dict[str, Any] = {"role": self.role, "content": self.content}
        if not isinstance(self.content, str):
            plain["content"] = [part_to_dict(part) for part in self.content]
        if self.tool_calls:
            plain["tool_calls"] = [*map(call_to_dict, self.tool_calls)]
        for name in _OPTIONAL:
            if value := getattr(self, name):
                plain[name] = value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Message":
        """Create a message from the result of `to_dict`, or from OpenAI's format.

        Raises:
            ValueError: The mapping is not a message. The text names the invalid field.
        """
        as_mapping(plain, "A message")
        content = plain.get("content") or ""
        if isinstance(content, list | tuple):
            content = tuple(part_from_dict(part) for part in content)
        calls = tuple(map(call_from_dict, as_list(plain.get("tool_calls"), "tool_calls")))
        rest = {name: plain[name] for name in _OPTIONAL if plain.get(name)}
        return cls(plain.get("role"), content, calls, **rest)  # type: ignore[arg-type]  # checked


Messages = str | Iterable[Message | Mapping[str, Any]]
"""A conversation, as programs pass it; a text is one user message."""


def as_message(value: "Message | Mapping[str, Any]") -> Message:
    """Return a `Message`, converted from a mapping with `role` and `content` if needed.

    Unlike `from_dict`, which reads what a program has saved, it refuses what a person may have
    misspelt: unknown keys, and a missing content. Servers add fields to assistant messages, so
    those may have other keys as well.

    Raises:
        ValueError: The value is not a message. The text names the key, or the invalid field.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(
            f"A message is a Message, or a mapping such as {_EXAMPLE}, not {value!r:.80}."
        )
    _check_keys(value)
    return Message.from_dict(value)


def as_messages(messages: Messages, name: str = "messages") -> tuple[Message, ...]:
    """Return the messages of a conversation."""
    if isinstance(messages, str):
        return (Message.user(messages),)
    if isinstance(messages, Message | Mapping) or not isinstance(messages, Iterable):
        raise ValueError(f"{name} must be a text or a list of messages, not {messages!r:.80}.")
    return tuple([value if isinstance(value, Message) else as_message(value) for value in messages])


def as_content(parts: Iterable[Part]) -> str | tuple[Part, ...]:
    """Return parts as message content; a single plain text becomes a str."""
    content = tuple(parts)
    match content:
        case ():
            return ""
        case (TextPart(text, citations, data),) if not (citations or data):
            return text
    return content


def _check_keys(plain: Mapping[str, Any]) -> None:
    """Refuse a mapping with a misspelt or a missing key."""
    role, is_complete = plain.get("role"), bool(plain.get("content") or plain.get("tool_calls"))
    unknown = [key for key in plain if key not in _KEYS and plain[key] is not None]
    if role == "assistant":
        unknown = [key for key in unknown if key not in _SERVER_KEYS]
        if is_complete:  # a server's own fields; but not `toolcalls`
            unknown = [key for key in unknown if _nearest_key(key)]
    if unknown:
        hints = [_nearest_key(key) for key in unknown]
        if not is_complete and "content" not in hints and "" in hints:
            hints[hints.index("")] = "content"
        meant = [f" (did you mean {hint!r}?)" if hint else "" for hint in hints]
        listed = ", ".join(f"{key!r}{hint}" for key, hint in zip(unknown, meant, strict=True))
        raise ValueError(f"Unknown keys in a message: {listed}. The keys are {', '.join(_KEYS)}.")
    if role is None:
        raise ValueError(f"A message needs a 'role', as in {_EXAMPLE}.")
    if role in ("system", "user") and plain.get("content") is None:
        raise ValueError(f"A {role} message needs a 'content', as in {_EXAMPLE}.")


def _nearest_key(key: str) -> str:
    """Return the key that a misspelt one is most similar to, or an empty text."""
    from difflib import get_close_matches  # slow to import

    return next(iter(get_close_matches(str(key), _KEYS[:-1], n=1)), "")


def _joined(parts: tuple[Part, ...], kind: type[TextPart] | type[ThinkingPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))
