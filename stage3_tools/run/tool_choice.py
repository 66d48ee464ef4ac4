"""`ToolChoice`: what the first reply of a run must call, in every dialect.

With native tool calls, the server receives the choice. A dialect that describes the tools in the
prompt gets a sentence there instead. Neither binds a model for certain, so the reply is checked: if
it calls something else, the model receives feedback. Used by `turn.py`.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from stage0_gateway import Message
from stage3_tools.dialects.protocol import (
    FinalReply,
    InvalidReply,
    RequestParts,
    ToolCalls,
    with_instructions,
)
from stage3_tools.registry import ToolRegistry

REQUIRED = "required"

Interpretation = TypeVar("Interpretation")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A tool that must be called.

    Attributes:
        name: The name of the tool, or "required" for any tool.
    """

    name: str

    @classmethod
    def of(cls, name: str, tools: ToolRegistry) -> "ToolChoice":
        """Return the choice.

        Raises:
            ValueError: No such tool exists.
        """
        names = [tool.name for tool in tools]
        if not names or name not in (REQUIRED, *names):
            known = f"The tools are {', '.join(names)}." if names else "There are no tools."
            raise ValueError(
                f"tool_choice is {name!r}; use 'auto', 'none', 'required' or the name of a tool. "
                f"{known}"
            )
        return cls(name)

    @property
    def instruction(self) -> str:
        """The sentence for the model."""
        tool = "a tool" if self.name == REQUIRED else f"the tool {self.name}"
        return f"In this reply, call {tool}. Answer the user after its result."

    def add_to(self, parts: RequestParts) -> RequestParts:
        """Return the request with this choice."""
        if parts.tools:
            return replace(parts, tool_choice=self.name)
        messages = with_instructions(parts.messages, self.instruction)
        return replace(parts, messages=tuple(messages))

    def check(self, reply: Interpretation) -> Interpretation | InvalidReply:
        """Return the reply, or feedback if it calls another tool, or none."""
        match reply:
            case ToolCalls(message) if {call.name for call in message.tool_calls} == {self.name}:
                return reply
            case ToolCalls(message) if self.name != REQUIRED:
                pass
            case FinalReply(message):
                pass
            case _:
                return reply
        unused = Message.assistant(message.text, raw_text=message.raw_text)
        return InvalidReply(unused, f"Your reply was not used. {self.instruction}")
