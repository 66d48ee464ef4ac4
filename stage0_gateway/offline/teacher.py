"""The teacher: from one request to one reply, by rules.

Pure and deterministic: the same request gives the same reply. It makes the first call the question needs
and that has not been made; when none is left, it tells what came of them. It always ends: no call is made
twice for one question, and at most `MOST_CALLS` are made. Knows nothing of HTTP. Used by `endpoint.py`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.offline.chatting import IDENTITY, ask_for, asks_who, chat
from stage0_gateway.offline.filling import fill_reply
from stage0_gateway.offline.outcomes import Outcome
from stage0_gateway.offline.planning import Need, needs
from stage0_gateway.offline.reading import Reading, read
from stage0_gateway.offline.telling import tell
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ChatRequest

MOST_CALLS = 8
"""Calls for one question; then it answers with what it has."""


def answer(request: ChatRequest) -> Message:
    """Reply to a request as a model would: with a tool call, a decision, JSON by a schema, or words."""
    reading = read(request)
    if asks_who(reading.question) and not reading.outcomes and reading.schema is None:
        return _say(reading, IDENTITY)
    wanted = needs(reading) if reading.tools and reading.choice != "none" else []
    open_needs = [need for need in wanted if not _was_made(need, reading.outcomes)]
    callable_needs = [need for need in open_needs if not need.missing]
    if callable_needs and len(reading.outcomes) < MOST_CALLS:
        return call(reading, callable_needs[0].tool.name, callable_needs[0].arguments)
    if reading.schema is not None:
        return Message.assistant(_by_schema(reading))
    return _say(reading, _words(reading, open_needs))


def _was_made(need: Need, outcomes: Sequence[Outcome]) -> bool:
    return any(one.tool == need.tool.name and one.arguments == need.arguments for one in outcomes)


def _words(reading: Reading, open_needs: Sequence[Need]) -> str:
    asking = [ask_for(need.tool.name, need.missing) for need in open_needs if need.missing][:1]
    if reading.outcomes:
        return " ".join([tell(reading.outcomes, reading.feedback), *asking])
    return asking[0] if asking else chat(reading)


def _by_schema(reading: Reading) -> str:
    told = [reading.question, *(one.text for one in reading.outcomes if one.text)]
    return _json(fill_reply(reading.schema, "\n".join(told)))


def call(reading: Reading, tool: str, arguments: Mapping[str, Any]) -> Message:
    """A call, written down in the way the request asks for."""
    if reading.way == "native":
        return Message.assistant("", [ToolCall(f"call_{reading.next_id}", tool, _json(arguments))])
    return Message.assistant(_json({"tool": tool, "arguments": arguments}))


def _say(reading: Reading, text: str) -> Message:
    if reading.way == "decision":
        return Message.assistant(_json({"tool": None, "reply": text}))
    return Message.assistant(text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
