"""Where in a reply the decision is.

The loop uses the value of a decision only. People also want to see which part of the text was used,
and what else in it looks like JSON. Most replies are one JSON value, for which `writer` writes
nothing and `reader` confirms it. The others are searched with stage 2 and written.
"""

import json
from collections.abc import Sequence
from typing import Any

from stage0_gateway import Message
from stage2_output import Extraction, Repair, find_json, without_thinking


def is_json_in_text(text: str, reply: str | None, message: Message | None) -> bool:
    """Whether a decision was read from JSON in the text of a reply.

    It was not if the message contains native calls, or if the text itself is the reply.
    """
    return reply != text and not (message is not None and message.tool_calls)


def interpretation(
    text: str, names: Sequence[str] | None, repairs: Sequence[Repair]
) -> dict[str, Any]:
    """Return the candidates in a reply, and the selected one.

    Args:
        text: The reply.
        names: The tools of the decision; empty for a reply to the user. None if the reply is
            invalid, so that nothing was selected.
        repairs: The repairs that the decision needed.

    Returns:
        `candidates`, each as [start, end, source]; `selection`, the index of the one that was used;
        `unreadable`, each as [start, position, problem].
    """
    if names is not None and not repairs and _is_json(text):
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return {"candidates": [[start, end, "bare"]], "selection": 0}
    found, invalid = find_json(without_thinking(text))
    fields: dict[str, Any] = {"candidates": [[each.start, each.end, each.source] for each in found]}
    if invalid:
        fields["unreadable"] = [[each.start, each.position, each.problem] for each in invalid]
    for index in range(len(found) - 1, -1, -1):
        if names is not None and _is_decision(found[index], names, repairs):
            return fields | {"selection": index}
    return fields


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_decision(found: Extraction, names: Sequence[str], repairs: Sequence[Repair]) -> bool:
    values = found.value if isinstance(found.value, list) else [found.value]
    if tuple(found.repairs) != tuple(repairs) or not all(isinstance(each, dict) for each in values):
        return False
    tools = [each.get("tool") for each in values]
    return tools == ([*names] if names else [None])
