"""What is said between a user, a model and tools: one message, a frozen value.

A word that every stage speaks. This file knows no wire format: how a message looks in OpenAI's or
anyone's JSON is told in `wire/`. The mappings of `to_dict` are our own form, which sessions are
saved in; `from_dict` also reads the form OpenAI's documentation shows, because that is what people
have at hand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from stage0_gateway.encoding import KeepsEncoding
from stage0_gateway.fields import a_list, a_mapping
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


@dataclass(frozen=True, slots=True)
class Message(KeepsEncoding):
    """One message of a conversation.

    Its encoding is kept (see `encoding`), so the values inside it must not be changed either.

    Attributes:
        role: Who speaks.
        content: Text, or a tuple of parts.
        tool_calls: The tools an assistant message asks for.
        tool_call_id: For a tool message, the call it answers.
        is_error: For a tool message, that the call failed.
        name: For a tool message, the name of the tool. "feedback" for a user message in which stage
            3 gives the model feedback on its reply; that name is never sent.
        raw_text: What the model literally wrote, where `content` is only what it meant by it: the
            prompt dialect of stage 3 writes its decisions as JSON text and shows them to the model
            again.

    Raises:
        ValueError: The role is unknown, a tool message answers no call, or content is neither text
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
            plain["content"] = [part_to_dict(part) for part in self.content]
        if self.tool_calls:
            plain["tool_calls"] = [call_to_dict(call) for call in self.tool_calls]
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
            content = tuple(part_from_dict(part) for part in content)
        calls = tuple(
            call_from_dict(call) for call in a_list(plain.get("tool_calls"), "tool_calls")
        )
        rest = {
            name: plain[name]
            for name in ("tool_call_id", "is_error", "name", "raw_text")
            if plain.get(name)
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


def _joined(parts: tuple[Part, ...], kind: type[TextPart] | type[ThinkingPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))
