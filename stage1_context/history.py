"""`MessageHistory`: query the messages of a session.

A history is an immutable view. `check_history` verifies that each tool call has exactly one result
directly behind it, as model servers require.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from stage0_gateway import Message, Role
from stage1_context.journal import to_json


class MessageHistory:
    """The messages of a session, oldest first.

    Args:
        messages: The messages.

    Attributes:
        messages: The messages as a tuple.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = tuple(messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def by_role(self, role: Role) -> list[Message]:
        """Return all messages of one role."""
        return [message for message in self.messages if message.role == role]

    def recent(self, n: int) -> list[Message]:
        """Return the last n messages, oldest first."""
        return list(self.messages[-n:]) if n > 0 else []

    def recent_by_role(self, role: Role, n: int) -> list[Message]:
        """Return the last n messages of one role, oldest first."""
        return self.by_role(role)[-n:] if n > 0 else []

    def range(self, start: int, end: int) -> list[Message]:
        """Return the messages from index `start` to the one before `end`."""
        return list(self.messages[start:end])

    def role_range(self, role: Role, start: int, end: int) -> list[Message]:
        """Return a range of the messages of one role."""
        return self.by_role(role)[start:end]

    def count_by_role(self, role: Role) -> int:
        """Return the number of messages of one role."""
        return len(self.by_role(role))

    def to_json(self) -> str:
        """Return the history as JSON text for `from_json`.

        Raises:
            ValueError: JSON cannot hold a part of a message.
        """
        return to_json([message.to_dict() for message in self.messages])

    @classmethod
    def from_json(cls, text: str) -> "MessageHistory":
        """Return the history that `to_json` wrote.

        Raises:
            ValueError: The text is not a JSON list of messages.
        """
        try:
            plain = json.loads(text)
        except RecursionError:
            raise ValueError("The JSON text of a history is nested too deeply.") from None
        if not isinstance(plain, list):
            raise ValueError(f"A history is a JSON list of messages, not {type(plain).__name__}.")
        return cls(Message.from_dict(message) for message in plain)

    def check_history(self) -> list[str]:
        """Return a sentence for each unpaired call or result; empty for a sound history."""
        problems: list[str] = []
        waiting: set[str] = set()
        called: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        for message in self.messages:
            if waiting and message.role != "tool":
                first = min(waiting)
                problems.append(f"{message.role} message between a call and its result: {first}")
                waiting.clear()
            called.update(call.id for call in message.tool_calls)
            waiting.update(call.id for call in message.tool_calls)
            if message.role == "tool" and message.tool_call_id:
                waiting.discard(message.tool_call_id)
                if called[message.tool_call_id]:
                    answered[message.tool_call_id] += 1
                else:
                    problems.append(f"result without a call before it: {message.tool_call_id}")
        problems += [f"duplicate call id: {id}" for id, count in called.items() if count > 1]
        problems += [f"call without a result: {id}" for id in called if not answered[id]]
        problems += [
            f"{count} results for one call: {id}" for id, count in answered.items() if count > 1
        ]
        return problems
