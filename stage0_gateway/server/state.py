"""Find the parts of a request that refer to state of the server: earlier replies, caches, files.

The offline model keeps no state. Without the conversation that such a field stands for, its reply
would be wrong, so `offline/service.py` refuses the request with the sentence of this module. Fields
that only ask a server to keep something (`store`, `metadata`) are ignored. This module is pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_IN_CONTENTS = "send the whole conversation in 'contents'"
_IN_INPUT = "send the whole conversation in 'input'"
_FIELDS: dict[str, dict[str, str]] = {
    "openai-responses": {
        "previous_response_id": _IN_INPUT,
        "conversation": _IN_INPUT,
        "prompt": "send the text of the prompt in 'instructions' or 'input'",
    },
    "anthropic": {
        "thread": "send the whole conversation in 'messages'; the tool runner of Anthropic's SDK "
        "does so with thread=False",
        "container": "omit it, because no tool runs on this server",
    },
    "gemini": {
        "cachedContent": _IN_CONTENTS,
        "cached_content": _IN_CONTENTS,
        "continuationToken": _IN_CONTENTS,
        "continuation_token": _IN_CONTENTS,
    },
}


class StateRefused(ValueError):
    """A request refers to state. The text names the field and the remedy."""


def refuse_state(name: str, body: Any) -> None:
    """Check that a request does not refer to state of the server.

    Args:
        name: The name of the format.
        body: The JSON value of a request, which may be invalid.

    Raises:
        StateRefused: The request refers to state.
    """
    for field, remedy in _references(name, body) if isinstance(body, Mapping) else ():
        raise StateRefused(f"This server keeps no state, so it refuses {field!r}: {remedy}.")


def _references(name: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that refers to state, with the remedy."""
    for field, remedy in _FIELDS.get(name, {}).items():
        if body.get(field) is not None:
            yield field, remedy
    if name == "openai-responses" and any(map(_is_reference, _objects(body.get("input")))):
        yield "item_reference", "send the item itself; many clients do so with store=false"
    if name == "openai" and any(map(_is_heard, _objects(body.get("messages")))):
        yield "audio", "send the text of that reply in 'content'"


def _objects(values: Any) -> Iterable[Mapping[str, Any]]:
    items = values if isinstance(values, list) else ()
    return (item for item in items if isinstance(item, Mapping))


def _is_reference(item: Mapping[str, Any]) -> bool:
    """Return whether an item only names another one; its type may be omitted."""
    return item.get("type") == "item_reference" or item.keys() == {"id"}


def _is_heard(message: Mapping[str, Any]) -> bool:
    """Return whether a message names an earlier reply in audio."""
    return message.get("role") == "assistant" and message.get("audio") is not None
