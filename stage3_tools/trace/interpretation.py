"""Where in a reply the decision is.

The loop uses the value of a decision only. People also want to see which part of the text was used,
and what else in it looks like JSON. Most replies are one JSON value, for which `recorder` writes
nothing and `reader` confirms it. The others are searched with stage 2 and written.
"""

import json
from collections.abc import Sequence
from typing import Any

from stage2_output import Extraction, Repair, find_json, without_thinking
from stage3_tools.dialects.native import NativeDialect


def reads_text(dialect: str) -> bool:
    """Whether the decisions of the dialect with this name are JSON in the text of a reply."""
    return dialect != NativeDialect.__name__


def is_plain(text: str, repairs: Sequence[Repair]) -> bool:
    """Whether a decision needs no search: the reader finds it in the same way later."""
    return not repairs and text[:1] == "{" and text[-1:] == "}"


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
