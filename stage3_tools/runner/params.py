"""`RunnerParams`: what a `ToolRunner` is to do; and `Edits`: what of it is to change when its turn
is over.

An edit never touches the turn that is under way. Its messages come after the reply and the results,
in the order in which they were pushed. Knows no loop; used by `runner`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from stage0_gateway import Message, as_message
from stage3_tools.options import ToolLoopOptions, messages_of


@dataclass(frozen=True)
class RunnerParams(ToolLoopOptions):
    """What a runner is to do: all of `ToolLoopOptions`, and whom it talks to.

    Attributes:
        messages: The conversation, as `Message`s or mappings; with a session, what is added to it.
        session_id: A session of the engine; None keeps the conversation in memory.
        max_tool_rounds: As in `ToolLoopOptions`, but without a limit unless one is given.

    Raises:
        ValueError: A number makes no sense, or something is no message.
    """

    max_tool_rounds: int | None = None
    messages: Sequence[Message | Mapping[str, Any]] = ()
    session_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "messages", messages_of("messages", self.messages))

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages, each a `Message`; the same as `messages`, for programs with types."""
        return cast("tuple[Message, ...]", self.messages)


class Edits:
    """The parameters of a runner, and what was changed in them since its last turn ended.

    Args:
        params: The parameters at first.
        kept: The messages of the conversation so far, where it is kept in memory; None where a
            session keeps it.

    Attributes:
        latest: The parameters as they will be, but for the messages.
        pushed: New messages that are not in the conversation yet.
    """

    def __init__(
        self, params: RunnerParams, kept: Callable[[], tuple[Message, ...]] | None
    ) -> None:
        self.latest = params
        self.pushed: list[Message] = [] if kept else [*params.said]
        self._kept = kept
        self._rewritten: tuple[tuple[Message, ...], int] | None = (
            None  # and how many that stands for
        )

    @property
    def params(self) -> RunnerParams:
        """The parameters as they will be."""
        return replace(self.latest, messages=self._messages())

    @property
    def changed_messages(self) -> bool:
        """Whether there are new messages, or others."""
        return bool(self.pushed) or self._rewritten is not None

    @property
    def question(self) -> Message | None:
        """The newest question among the new messages."""
        return next((each for each in reversed(self.pushed) if each.role == "user"), None)

    def _messages(self) -> tuple[Message, ...]:
        if self._kept is None:
            return self.latest.said
        return (*self._settled(self._kept), *self.pushed)

    def _settled(self, kept: Callable[[], tuple[Message, ...]]) -> tuple[Message, ...]:
        """The messages, but for the new ones."""
        now = kept()
        if self._rewritten is None:
            return now
        instead, count = self._rewritten
        return (*instead, *now[count:])

    def push(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add messages, behind all there will be then.

        Raises:
            ValueError: One is none, or the runner adds its like itself.
        """
        pushed = [_pushable(as_message(each)) for each in messages]
        self.pushed += pushed
        if self._kept is None:
            self.latest = replace(self.latest, messages=(*self.latest.messages, *pushed))

    def change(self, params: RunnerParams | Callable[[RunnerParams], RunnerParams]) -> None:
        """Take other parameters, or those that a function makes of the present ones; nothing
        changes if it raises.

        Raises:
            ValueError: They belong to another session, or leave out messages of one.
            TypeError: They are no parameters.
        """
        before = self.params
        given = params(before) if callable(params) else params
        if not isinstance(given, RunnerParams):
            raise TypeError(
                f"set_params takes RunnerParams, or a function that returns some, not {given!r:.100}."
            )
        if given.session_id != before.session_id:
            raise ValueError(
                "A runner stays with its session. Make another runner for another one."
            )
        old, new = before.said, given.said
        if new[: len(old)] == old:
            self.push(new[len(old) :])
        elif self._kept is None:
            raise ValueError(
                "Messages of a session are only added to. Push new ones, or let the window choose."
            )
        else:
            self._rewritten, self.pushed = (new, len(self._kept())), []
        self.latest = given

    def take_rewritten(self) -> tuple[Message, ...] | None:
        """All messages, if they were rewritten, but for the new ones; they come into force with
        this.
        """
        if self._rewritten is None or self._kept is None:
            return None
        settled, self._rewritten = self._settled(self._kept), None
        return settled

    def taken(self, pushed: int) -> None:
        """So many of the new messages are in the conversation now."""
        del self.pushed[:pushed]


def _pushable(message: Message) -> Message:
    if message.tool_calls or message.role == "tool":
        raise ValueError(
            "Calls and their results are added by the runner itself: the reply and its results are in the "
            "conversation before anything that is pushed. Push what is said besides."
        )
    return message
