"""The seam between the one loop and the ways to talk with a model about tools.

A dialect describes the tools, renders the stored history for a request, and reads the reply. What
it renders is never stored: the history is the same in every dialect, so a session can change from
one to another, and tools can be added or taken away between two turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stage0_gateway import ChatResponse, Message, ToolSpec
from stage2_output import Repair
from stage3_tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class RequestParts:
    """What of a request a dialect decides.

    Attributes:
        messages: What the model will see.
        tools: Tools for the provider's own tool calls.
        tool_choice: "none" where the tools are listed and none may be called; None leaves it to the
            server.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """The model asks for tools; they are the `tool_calls` of the message. An empty id is given one
    later.

    `repairs` is what had to be mended in its text to read that.
    """

    message: Message
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalReply:
    """The model answers the user with the text of the message, which `repairs` had to be made to
    read.
    """

    message: Message
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reply is neither; `feedback` tells the model why."""

    message: Message
    feedback: str


LAST_REQUEST = "No more tools can be called. Answer the user now, with what the tool results say."
"""The sentence that asks for the final answer, in every dialect."""

Reading = Calls | FinalReply | Unusable


def cut_off(response: ChatResponse, ask_for: str) -> str:
    """What a model is told whose reply was cut, so that nothing in it is used; the same in every
    dialect.

    Args:
        response: The reply.
        ask_for: What it should write, such as "one JSON object".
    """
    written = response.usage and response.usage.output_tokens
    after = f" after {written} tokens" if written else ""
    return f"Your reply was cut off{after}, so nothing in it was used. Answer again, shorter: {ask_for}."


def with_instructions(messages: Sequence[Message], instructions: str) -> list[Message]:
    """The messages with instructions at the end of their one system message, which comes first.

    Some servers reject a second system message, and some a user message behind tool results.
    """
    system = [message.text for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    return [Message.system("\n\n".join([*system, instructions])), *rest]


class Dialect(Protocol):
    """A way to talk with a model about tools."""

    def describe(self, registry: ToolRegistry) -> str:
        """The text that will be sent besides the history, for the window to count. May be called
        every turn.
        """

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """Render the stored history as this model should see it.

        Args:
            transcript: The messages that were selected for the request.
            registry: The tools; if it is empty, the model must answer without.
            last: Whether this is the final request: tools cannot be called, and `LAST_REQUEST` says
                so.
        """

    def read(self, response: ChatResponse) -> Reading:
        """What the model wants. A message's `raw_text` is for the prompt dialect; leave it
        alone.
        """
