"""The `Dialect` protocol between the loop and the ways to call tools.

A dialect renders the stored history for a request and interprets the reply. Rendered messages are
never stored: the history is the same in every dialect. A session can therefore switch dialects, and
tools can change between turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from stage0_gateway import ChatResponse, Message, ToolSpec
from stage2_output import Issue, Repair
from stage3_tools.decision import WHOLE_REPLY
from stage3_tools.registry import ToolRegistry

LAST_REQUEST = "No more tools can be called. Answer the user now, with what the tool results say."
"""The sentence that requests the final reply, in every dialect."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """The parts of a request that a dialect determines.

    Attributes:
        messages: The messages of the request.
        tools: The tools for the provider's tool calls.
        tool_choice: "none" if the tools are listed but must not be called. None selects the
            server's default.
        response_schema: A JSON Schema of the reply, for servers that support it with tools.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None
    response_schema: Any = None


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The reply contains tool calls: the `tool_calls` of the message.

    An empty call id is replaced later. `repairs` lists the repairs that the JSON needed.
    """

    message: Message
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalReply:
    """The text of the message is the reply to the user.

    `repairs` lists the repairs that the JSON needed. A reply with an output type also has its
    validated value, `output`, and the JSON text of that value.
    """

    message: Message
    repairs: tuple[Repair, ...] = ()
    output: Any = None
    output_text: str | None = None

    @property
    def text(self) -> str:
        """The reply for the user."""
        return self.message.text if self.output_text is None else self.output_text


@dataclass(frozen=True, slots=True)
class InvalidReply:
    """The reply is invalid; `feedback` explains this to the model, `issues` to programs."""

    message: Message
    feedback: str
    issues: tuple[Issue, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_call_beside_text(self) -> bool:
        """Whether the reply is a call that must be the whole reply, but has text beside it."""
        return any(issue.rule == WHOLE_REPLY for issue in self.issues)


ReplyInterpretation = ToolCalls | FinalReply | InvalidReply


class Dialect(Protocol):
    """A way to describe tools to a model and to interpret its replies.

    A run file contains the name of the class, and the attribute `settings`: a mapping of plain
    data, if there is one.
    """

    def describe(self, registry: ToolRegistry) -> str:
        """Return the text that a request contains besides the history.

        The window counts its tokens. Called in every turn.
        """

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """Render the stored history for a request.

        Args:
            transcript: The messages that the window selected.
            registry: The tools. Without tools, the model must reply.
            last: Whether this is the final request: tools cannot be called, and `LAST_REQUEST`
                states this.
        """

    def read(self, response: ChatResponse, registry: ToolRegistry) -> ReplyInterpretation:
        """Interpret a reply. The `raw_text` of a message is reserved for the prompt dialect.

        Args:
            response: The reply.
            registry: The tools that the model may call; empty in the final request.
        """

    def visible_text(self, partial_reply: str) -> str:
        """Return the part of an unfinished reply that is meant for people; by default all of it.

        Args:
            partial_reply: The text of the reply so far. The result grows with it.
        """
        return partial_reply


def visible_text(dialect: Dialect, partial_reply: str) -> str:
    """Return the words for people; the whole text if a dialect has no `visible_text`."""
    method = getattr(dialect, "visible_text", None)
    return partial_reply if method is None else str(method(partial_reply))


@runtime_checkable
class OutputDialect(Protocol):
    """A dialect that can request final replies of a type, for `output_type`."""

    def for_output(self, schema: Any) -> Dialect:
        """Return a dialect whose final replies are JSON for a JSON Schema.

        The text of its `FinalReply` messages is that JSON; the loop validates it.
        """


def truncation_feedback(response: ChatResponse, expected: str) -> str:
    """Return the feedback for a truncated reply; the same in every dialect.

    Args:
        response: The reply.
        expected: A description of a valid reply, such as "one JSON object".
    """
    tokens = response.usage and response.usage.output_tokens
    after = f" after {tokens} tokens" if tokens else ""
    return (
        f"Your reply was cut off{after}, so nothing in it was used. "
        f"Answer again, shorter: {expected}."
    )


def with_instructions(messages: Sequence[Message], *instructions: str) -> list[Message]:
    """Append instructions to the system messages, merged into one message at the beginning.

    Some servers reject a second system message, and some a user message behind tool results.
    """
    system = [message.text for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    return [Message.system("\n\n".join([*system, *instructions])), *others]
