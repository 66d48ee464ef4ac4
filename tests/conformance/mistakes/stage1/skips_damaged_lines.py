"""Leaves out damaged lines without notice.

Caught by: C-110
Seen in: BaseIntelligence/bounty-challenge#10881 (damaged lines were left out without a signal)
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]


# ---- Step 1: Messages

FEEDBACK = "[Feedback]"
"""The first word of a message in which the program, not a person, corrects the model."""


def system(text: str) -> Message:
    """Return the instructions of the program."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """Return a question of the user."""
    return {"role": "user", "content": text}


def feedback(text: str) -> Message:
    """Return a correction of the last reply."""
    return {"role": "user", "content": f"{FEEDBACK} {text}"}


def tool_result(call_id: str, text: str) -> Message:
    """Return the result of a tool call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


# ---- Step 2: Count


def count_tokens(message: Message) -> int:
    """Estimate the tokens of a message: 4 ASCII characters, or 1 other character, are a token."""
    text: str = message["content"] or ""
    for call in message.get("tool_calls") or []:
        text += call["function"]["name"] + call["function"]["arguments"]
    ascii_characters = sum(character.isascii() for character in text)
    return 4 + (ascii_characters + 3) // 4 + len(text) - ascii_characters


# ---- Step 3: Window


class WindowTooSmall(Exception):
    """The newest exchange does not fit into the window."""


def exchanges(messages: Sequence[Message]) -> list[list[Message]]:
    """Split messages into exchanges: a question, and everything up to the next question."""
    found: list[list[Message]] = []
    for message in messages:
        is_question = message["role"] == "user" and not message["content"].startswith(FEEDBACK)
        if is_question or not found:
            found.append([])
        found[-1].append(message)
    return found


def window(messages: Sequence[Message], max_tokens: int) -> list[Message]:
    """Return the system messages and the newest exchanges that fit."""
    selected = [message for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    start = len(selected)
    available = max_tokens - sum(count_tokens(message) for message in selected)

    for exchange in reversed(exchanges(others)):
        available -= sum(count_tokens(message) for message in exchange)
        if available < 0 and len(selected) == start:
            raise WindowTooSmall(f"The newest question needs {-available} tokens more.")
        if available < 0:
            break
        selected[start:start] = exchange  # before the newer exchanges
    return selected


# ---- Step 4: Repair

INTERRUPTED = "Error: the call was interrupted. It is unknown whether it took effect."


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with exactly one result directly behind each call."""
    repaired: list[Message] = []
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            continue  # already behind its call, or a result without a call
        repaired.append(message)
        calls = message.get("tool_calls") or []
        results = results_after(messages[position + 1 :]) if calls else {}
        for call in calls:
            repaired.append(results.get(call["id"]) or tool_result(call["id"], INTERRUPTED))
    return repaired


def results_after(messages: Sequence[Message]) -> dict[str, Message]:
    """Return the results before the next calls, by the id of their call; the first one counts."""
    results: dict[str, Message] = {}
    for message in messages:
        if message.get("tool_calls"):
            break  # the same ids may be used again from here on
        if message["role"] == "tool":
            results.setdefault(message["tool_call_id"], message)
    return results


# ---- Step 5: Store


class History:
    """The messages of a conversation, oldest first.

    Args:
        path: The file that stores them; None stores nothing. Existing messages are loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.messages: list[Message] = []
        if path is not None and path.exists():
            self.messages = repair(load(path))

    def add(self, message: Message) -> None:
        """Add a message. It is in the file before it is in the list."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")
        self.messages.append(message)


def load(path: Path) -> list[Message]:
    """Return the messages of a file, and remove an incomplete last line from it."""
    complete, _, incomplete = path.read_bytes().rpartition(b"\n")
    if incomplete:  # the program ended while it wrote this line
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(incomplete))
    messages = []
    for line in complete.split(b"\n"):
        try:
            messages.append(json.loads(line))
        except ValueError:
            continue
    return messages
