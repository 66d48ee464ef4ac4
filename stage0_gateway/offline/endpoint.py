"""From the bytes of an HTTP request to the bytes of the answer, and nothing in between but values.

Pure and synchronous; knows neither sockets nor httpx. Both ways to reach the teaching model, the
in-process transport and the TCP server, call `answer_http` and so give the same bytes.
"""

import json
import math
from typing import Any, NoReturn

from stage0_gateway.messages import Message
from stage0_gateway.offline.teacher import answer
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve.openai import decode_request, encode_error, encode_reply
from stage0_gateway.usage import Usage

MODEL = "teacher"
FINGERPRINT = "rules-not-a-language-model"


def answer_http(method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Answer `POST …/chat/completions` and `GET …/models`; anything else is a 404.

    Args:
        method: The HTTP method, in capitals.
        path: The path, with or without its query.
        body: The request body as it came.

    Returns:
        The HTTP status and the JSON body. Whatever comes in, nothing is raised.
    """
    place = path.partition("?")[0].rstrip("/")
    if method == "POST" and place.endswith("/chat/completions"):
        status, value = _complete(body)
    elif method == "GET" and place.endswith("/models"):
        status, value = 200, _models()
    else:
        text = f"There is no {method} {path[:200]}. There are POST /v1/chat/completions and GET /v1/models."
        status, value = 404, encode_error(404, text)
    # Plain ASCII: half of a surrogate pair in a question must not break the answer.
    return status, json.dumps(value).encode("ascii")


def _complete(body: bytes) -> tuple[int, dict[str, Any]]:
    try:
        plain = json.loads(body, parse_constant=_refuse, parse_float=_finite)
        request = decode_request(plain)
    except (ValueError, RecursionError) as error:
        return 400, encode_error(400, f"This is not a chat completion request: {error}")
    if plain.get("stream"):
        return 400, encode_error(400, "This teaching model does not stream; leave out stream, or send false.")
    message = answer(request)
    reply = ChatResponse(message, model=MODEL, usage=estimate_usage(request, message))
    return 200, encode_reply(reply) | {"system_fingerprint": FINGERPRINT}


def estimate_usage(request: ChatRequest, reply: Message) -> Usage:
    """Token counts guessed from lengths, four characters to a token; this model has no tokens to count."""
    read = sum(_size(message) for message in request.messages)
    return Usage(max(1, read // 4), max(1, _size(reply) // 4))


def _size(message: Message) -> int:
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)


def _models() -> dict[str, Any]:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llm-stages"}
    return {"object": "list", "data": [model]}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("A number is too large.")
    return number
