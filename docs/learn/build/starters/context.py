"""Context: keep a conversation, and select the messages that the model sees.

A conversation grows, but a model reads a limited number of tokens. The history keeps every message,
and a window selects the newest ones for a request. Calls and results always stay together, because
servers refuse a call without its result and a result without its call.

Steps:
  1. Messages: one function for each role.
  2. Count: estimate the tokens of a message.
  3. Window: drop the oldest exchanges until the request fits.
  4. Repair: give every open call a result, for example after a crash.
  5. Store: one line of JSON for each message, in a file that survives a crash.

Write the functions whose body is `...`. A function that is not written yet is built in, so you may
start with any step. Other functions and constants are up to you.

The page: docs/learn/build/1-context.md
The check: make grade FILE=my_context.py
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
    ...


def user(text: str) -> Message:
    """Return a question of the user."""
    ...


def feedback(text: str) -> Message:
    """Return a correction of the last reply: a user's message that begins with FEEDBACK."""
    ...


def tool_result(call_id: str, text: str) -> Message:
    """Return the result of a tool call."""
    ...


# ---- Step 2: Count


def count_tokens(message: Message) -> int:
    """Estimate the tokens of a message: 4 ASCII characters, or 1 other character, are a token."""
    ...


# ---- Step 3: Window


class WindowTooSmall(Exception):
    """The newest exchange does not fit into the window."""


def window(messages: Sequence[Message], max_tokens: int) -> list[Message]:
    """Return the system messages and the newest exchanges that fit, in their order.

    Raises:
        WindowTooSmall: The newest exchange does not fit.
    """
    ...


# ---- Step 4: Repair

INTERRUPTED = "Error: the call was interrupted. It is unknown whether it took effect."


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with exactly one result directly behind each call."""
    ...


# ---- Step 5: Store


class History:
    """The messages of a conversation, oldest first.

    Args:
        path: The file that stores them; None stores nothing. Existing messages are loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Load the messages of the file, without an incomplete last line.

        Raises:
            ValueError: Another line is damaged.
        """
        ...

    def add(self, message: Message) -> None:
        """Add a message. It is in the file before it is in the list."""
        ...
