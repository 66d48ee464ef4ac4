"""Marks for the prompt cache of Anthropic's server.

The setting `cache_prompt` marks the ends of the tools, the system prompt and the conversation. A
later request finds the longest marked beginning that is unchanged. Only blocks can be marked, so
each content of such a request is a list of blocks. This module knows encoded messages only. It is
used by `anthropic.py`, and by `http/encode.py`, which caches the messages before the marks.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

FORMAT = "anthropic"
"""The name of the format that has marks."""

_MARK = "cache_control"
_MAX_MARKS = 4


def add_marks(body: dict[str, Any]) -> None:
    """Mark the ends of the conversation, the system prompt and the tools of a body.

    Marks of the caller, in the provider data of parts, count toward the server's limit.
    """
    if isinstance(system := body.get("system"), str):
        body["system"] = _as_blocks(system)
    body["messages"] = _in_blocks(body["messages"])
    contents = [message["content"] for message in body["messages"]]
    questions = [message["content"] for message in body["messages"] if message["role"] == "user"]
    ends = [*questions[-1:], body.get("system"), body.get("tools")]
    marks = _count_marks(chain(body.get("tools", ()), body.get("system", ()), *contents))
    for blocks in filter(None, ends):
        if _MARK not in blocks[-1] and marks < _MAX_MARKS:
            blocks[-1][_MARK] = {"type": "ephemeral"}
            marks += 1


def before_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return messages as a body contains them before its marks.

    None if the rest of the body depends on them: they contain marks of the caller, or a system
    message that is not part of the system prompt.
    """
    messages = _in_blocks(messages)
    marks = _count_marks(chain.from_iterable(message["content"] for message in messages))
    has_system = any(message["role"] == "system" for message in messages)
    return None if marks or has_system else messages


def has_question(messages: Iterable[dict[str, Any]]) -> bool:
    """Return whether messages contain one of the user, or results; the last of these is marked."""
    return any(message["role"] == "user" for message in messages)


def _in_blocks(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with a list of blocks as each content."""
    return [{**message, "content": _as_blocks(message["content"])} for message in messages]


def _as_blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _count_marks(blocks: Iterable[dict[str, Any]]) -> int:
    """Count the marks of blocks, and of the blocks inside tool results."""
    outer = list(blocks)
    inner = [block["content"] for block in outer if isinstance(block.get("content"), list)]
    return sum(_MARK in block for block in chain(outer, *inner))
