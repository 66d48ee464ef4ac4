"""`RunnerParams`: the parameters of a `ToolRunner`; and `Edits`: changes during its run.

An edit never affects the current turn. Pushed messages follow the reply and its results, in the
order in which they were pushed. Used by `runner.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from stage0_gateway import Accepted, ChatModel, Message, as_message, as_messages, check_arguments
from stage1_context import MessageHistory
from stage3_tools.options import ToolLoopOptions, as_registry
from stage3_tools.registry import Registrable, ToolRegistry
from stage3_tools.resume.open_calls import last_question

_ACCEPTED = {
    "session_id": Accepted(str, "a text: the id of a session"),
    "gateway": Accepted(ChatModel, "a Gateway"),
}


@dataclass(frozen=True)
class RunnerParams(ToolLoopOptions):
    """The parameters of a runner: those of `ToolLoopOptions`, and the conversation.

    Attributes:
        messages: The conversation, as `Message`s or mappings; a text is one user message. With a
            session, these messages are added to it.
        session_id: A session of the engine; None keeps the conversation in memory.
        trace: As in `ToolLoopOptions`; that of the first parameters follows the whole run.
        max_tool_rounds: As in `ToolLoopOptions`, but None by default: no limit.
        tools: Other tools than those of the `ToolLoopDeps`: a registry, or a list of tools and
            functions, which becomes a registry. None uses those of the `ToolLoopDeps`.
        gateway: Another model than that of the `ToolLoopDeps`: a `Gateway`. None uses that model.

    Raises:
        ValueError: A number is out of range, or a message is invalid.
        RegistrationError: A tool is invalid.
        TypeError: The tools are neither a registry nor a list.
    """

    max_tool_rounds: int | None = None
    messages: str | Sequence[Message | Mapping[str, Any]] = ()
    session_id: str | None = None
    tools: ToolRegistry | Iterable[Registrable] | None = None
    gateway: ChatModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_arguments(vars(self), _ACCEPTED)
        object.__setattr__(self, "messages", as_messages(self.messages))
        if self.tools is not None:
            object.__setattr__(self, "tools", as_registry(self.tools, "tools"))

    @property
    def conversation(self) -> tuple[Message, ...]:
        """`messages`, with the type that they have after the conversion."""
        return cast("tuple[Message, ...]", self.messages)


class Edits:
    """The parameters of a runner, and their changes since its last turn ended.

    Args:
        params: The initial parameters.
        stored: Returns the messages of a conversation in memory; None if a session stores them.

    Attributes:
        latest: The newest parameters; their messages are not up to date.
        pushed: New messages that were not appended to the conversation yet.
    """

    def __init__(
        self, params: RunnerParams, stored: Callable[[], tuple[Message, ...]] | None
    ) -> None:
        self.latest = params
        self.pushed: list[Message] = [] if stored else [*params.conversation]
        self._stored = stored
        # New messages, and the number of stored messages that they replace.
        self._replaced: tuple[tuple[Message, ...], int] | None = None

    @property
    def params(self) -> RunnerParams:
        """The newest parameters, with all messages."""
        if self._stored is None:
            return self.latest
        return replace(self.latest, messages=(*self._without_pushed(self._stored), *self.pushed))

    @property
    def changed_messages(self) -> bool:
        """Whether messages were pushed or replaced."""
        return bool(self.pushed) or self._replaced is not None

    @property
    def question(self) -> Message | None:
        """The newest question among the pushed messages."""
        return last_question(MessageHistory(self.pushed))

    def _without_pushed(self, stored: Callable[[], tuple[Message, ...]]) -> tuple[Message, ...]:
        messages = stored()
        if self._replaced is None:
            return messages
        replacement, count = self._replaced
        return (*replacement, *messages[count:])

    def push(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add messages at the end of the conversation.

        Raises:
            ValueError: A message is invalid, or holds calls or a result.
        """
        pushed = [_check_pushable(as_message(message)) for message in messages]
        self.pushed += pushed
        if self._stored is None:
            self.latest = replace(self.latest, messages=(*self.latest.messages, *pushed))

    def change(self, params: RunnerParams | Callable[[RunnerParams], RunnerParams]) -> None:
        """Set other parameters, or those that a function returns. An exception changes nothing.

        Raises:
            ValueError: The parameters name another session, or leave out messages of a session.
            TypeError: The parameters are not `RunnerParams`.
        """
        before = self.params
        changed = params(before) if callable(params) else params
        if not isinstance(changed, RunnerParams):
            raise TypeError(
                "set_params accepts RunnerParams, or a function that returns RunnerParams, not "
                f"{changed!r:.100}."
            )
        if changed.session_id != before.session_id:
            raise ValueError("A runner cannot change its session. Create another runner.")
        old, new = before.conversation, changed.conversation
        if new[: len(old)] == old:
            self.push(new[len(old) :])
        elif self._stored is None:
            raise ValueError(
                "The messages of a session cannot be replaced. Push new messages, or use a window."
            )
        else:
            self._replaced, self.pushed = (new, len(self._stored())), []
        self.latest = changed

    def take_replaced(self) -> tuple[Message, ...] | None:
        """All messages without the pushed ones, if messages were replaced; None otherwise."""
        if self._replaced is None or self._stored is None:
            return None
        messages, self._replaced = self._without_pushed(self._stored), None
        return messages

    def remove_pushed(self, count: int) -> None:
        """Remove the first pushed messages, which were appended to the conversation."""
        del self.pushed[:count]


def _check_pushable(message: Message) -> Message:
    if message.tool_calls or message.role == "tool":
        raise ValueError(
            "Calls and results cannot be pushed: the runner itself appends the reply and its "
            "results before pushed messages. Push user messages instead."
        )
    return message
