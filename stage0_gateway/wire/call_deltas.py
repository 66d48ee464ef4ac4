"""`CallDeltas`: assigns the pieces of a streamed OpenAI reply to tool calls.

According to the documentation, `index` identifies the call. Servers omit it, number every call 0,
repeat the id and the name in every piece or never send them, and send whole calls. These rules lose
and merge no call:

    an id and a name     the call with both at this index; a new call if that one is complete
    an id alone          the call with this id, else the one at this index
    a name alone         a new call if the one at this index has another name or is complete
    neither              the call at this index, else the last one

`openai_reply.py` uses this module. It knows no other part of a reply.
"""

from collections.abc import Mapping
from typing import Any

from stage0_gateway.json_fields import as_name, as_text, parse_json
from stage0_gateway.streaming.partial import GrowingText
from stage0_gateway.streaming.reply_builder import CallBlock, ReplyBuilder
from stage0_gateway.wire.provider_data import arguments_text


class CallDeltas:
    """Collects the pieces of tool calls in a `ReplyBuilder`."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self._builder = builder
        self._by_index: dict[int, CallBlock] = {}  # the latest call at each index
        self._by_id: dict[tuple[int | None, str], CallBlock] = {}  # with and without the index
        self._last: CallBlock | None = None

    def feed(self, piece: Mapping[str, Any], *, whole: bool = False) -> None:
        """Add an element of `tool_calls`: a piece of a call, or a whole call."""
        function: Mapping[str, Any] = piece.get("function") or piece.get("custom") or {}
        call_id = as_name(piece.get("id")) or ""
        name = as_text(function.get("name"), "name")
        index = piece["index"] if isinstance(piece.get("index"), int) else None
        arguments = function.get("arguments", function.get("input"))
        text = "" if arguments in (None, "", {}) else arguments
        if not isinstance(text, str):
            text = arguments_text(text)
        call = None if whole else self._find(index, call_id, name, text)
        if call is None:
            call = self._builder.start_call(call_id, name)
            if call_id:
                self._by_id[index, call_id] = self._by_id[None, call_id] = call
        if index is not None:
            self._by_index[index] = call
        self._last = call
        if extra := piece.get("extra_content"):
            call.data["extra_content"] = extra
        if name and not call.sent_name:
            call.sent_name = name
            call.name = self._builder.names.get(name, name)
        if text:
            if call.text.length == 2 and str(call.text) == "{}":
                call.text = GrowingText()  # some servers send {} before the real arguments
            self._builder.write(call, text)

    def _find(self, index: int | None, call_id: str, name: str, arguments: str) -> CallBlock | None:
        """Return the call that a piece belongs to, or None for a new call."""
        current = self._last if index is None else self._by_index.get(index)
        if not name:
            known = self._by_id.get((index, call_id)) or self._by_id.get((None, call_id))
            return (known or current) if call_id else (current or self._last)
        if not call_id:
            other = current and (current.sent_name not in ("", name) or _is_complete(current))
            return None if other else current
        known = self._by_id.get((index, call_id))
        if known is None or known.sent_name not in ("", name):
            return None
        return None if arguments.startswith("{") and _is_complete(known) else known


def _is_complete(call: CallBlock) -> bool:
    """Return whether the arguments are a complete JSON object."""
    text = str(call.text).rstrip()
    # The first check avoids parsing most pieces.
    return text.endswith("}") and parse_json(text) is not None
