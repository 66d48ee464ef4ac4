"""Which tool call a piece of a streamed OpenAI reply belongs to.

The documentation says: the call's `index`. Servers leave it out, number every call 0, repeat the id
and the name with every piece or never send them, and send calls whole. The rules here lose and fuse
nothing:

    an id and a name     the call with both at this index; a new one, if it is whole and more comes
    an id alone          the call with this id, else the one at this index
    a name alone         a new call, if the one at this index has another name or is whole already
    neither              the call at this index, else the last one

Used by `openai_reply.py` alone; knows nothing of the rest of a reply.
"""

from dataclasses import dataclass
from typing import Any

from stage0_gateway.fields import a_mapping, a_name, a_text, parse_json
from stage0_gateway.streaming.partial import GrowingText
from stage0_gateway.streaming.reply_builder import CallBlock, Draft
from stage0_gateway.wire.opaque import arguments_text


@dataclass(slots=True)
class _Call:
    block: CallBlock
    sent_name: str


class CallDeltas:
    """Puts the pieces of calls together in a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._at: dict[int, _Call] = {}  # the latest call at each index
        self._ids: dict[
            tuple[int | None, str], _Call
        ] = {}  # the latest with an id: at an index, and at all
        self._last: _Call | None = None

    def take(self, piece: Any, *, whole: bool = False) -> None:
        """One element of `tool_calls`: a part of a call, or a whole one of its own."""
        piece = a_mapping(piece, "tool call")
        function = a_mapping(piece.get("function") or piece.get("custom") or {}, "function")
        call_id, name = a_name(piece.get("id")) or "", a_text(function.get("name"), "name")
        index = piece["index"] if isinstance(piece.get("index"), int) else None
        arguments = function.get("arguments", function.get("input"))
        text = "" if arguments in (None, "", {}) else arguments_text(arguments)
        call = None if whole else self._belongs_to(index, call_id, name, text)
        if call is None:
            call = _Call(self._draft.start_call(call_id, name), name)
            if call_id:
                self._ids[index, call_id] = self._ids[None, call_id] = call
        if index is not None:
            self._at[index] = call
        self._last = call
        if extra := piece.get("extra_content"):
            call.block.data["extra_content"] = extra
        if name and not call.sent_name:
            call.sent_name = name
            self._draft.name(call.block, name)
        if text:
            if call.block.text.length == 2 and str(call.block.text) == "{}":
                call.block.text = (
                    GrowingText()
                )  # some servers send an empty object before the real arguments
            self._draft.fill(call.block, text)

    def _belongs_to(
        self, index: int | None, call_id: str, name: str, arguments: str
    ) -> _Call | None:
        here = self._last if index is None else self._at.get(index)
        if not name:
            known = self._ids.get((index, call_id)) or self._ids.get((None, call_id))
            return (known or here) if call_id else (here or self._last)
        if not call_id:
            other = here and (here.sent_name not in ("", name) or _is_complete(here))
            return None if other else here
        known = self._ids.get((index, call_id))
        if known is None or known.sent_name not in ("", name):
            return None
        return None if arguments.startswith("{") and _is_complete(known) else known


def _is_complete(call: _Call) -> bool:
    """Whether the arguments are a complete JSON object."""
    text = str(call.block.text).rstrip()
    return (
        text.endswith("}") and parse_json(text) is not None
    )  # the first check saves parsing most pieces
