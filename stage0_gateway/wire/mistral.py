"""Mistral's chat completions: OpenAI's format, with call ids of nine letters or digits.

Ids of other providers are mapped as described in `names.py`. Everything else is the same, so the
provider data of messages is stored under OpenAI's name. All functions are pure.
"""

import re
from base64 import b32encode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import openai
from stage0_gateway.wire.openai import MESSAGES as MESSAGES
from stage0_gateway.wire.openai import decode as decode
from stage0_gateway.wire.openai import encode_reasoning as encode_reasoning
from stage0_gateway.wire.openai import encode_tools as encode_tools
from stage0_gateway.wire.openai import headers as headers
from stage0_gateway.wire.openai import path as path
from stage0_gateway.wire.openai import reader as reader

NAME = "mistral"
_ID = re.compile(r"[a-zA-Z0-9]{9}")


def encode(request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
    """Encode a request as the body of a chat completion request."""
    messages = tuple(_with_accepted_ids(request.messages))
    return openai.encode(replace(request, messages=messages), stream=stream)


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encode a conversation."""
    return openai.encode_messages(_with_accepted_ids(messages))


def _with_accepted_ids(messages: Iterable[Message]) -> list[Message]:
    changed = []
    for message in messages:
        if message.tool_calls:
            calls = [replace(call, id=_accepted_id(call.id)) for call in message.tool_calls]
            message = replace(message, tool_calls=tuple(calls))
        if message.tool_call_id:
            message = replace(message, tool_call_id=_accepted_id(message.tool_call_id))
        changed.append(message)
    return changed


def _accepted_id(call_id: str) -> str:
    if _ID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode(errors="surrogatepass")).digest()
    return b32encode(digest).decode()[:9]
