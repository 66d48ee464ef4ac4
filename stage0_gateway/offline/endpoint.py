"""From the bytes of an HTTP request to the answer, and nothing in between but values.

Synchronous; knows neither sockets nor httpx. Both ways to reach the teaching model, the in-process transport
and the TCP server, call `answer_http` and so give the same bytes. The format of a request decides the
format of its answer, that of a refusal too.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from stage0_gateway.messages import Message
from stage0_gateway.offline.teacher import answer
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve import ServerFormat, openai
from stage0_gateway.serve.answer import Answer, json_answer, reply_answer
from stage0_gateway.serve.formats import format_of
from stage0_gateway.usage import Usage

if TYPE_CHECKING:
    from stage0_gateway.offline.faults import Fault, FaultPlan

MODEL = "teacher"
FINGERPRINT = "rules-not-a-language-model"


def answer_http(method: str, path: str, body: bytes, plan: "FaultPlan | None" = None) -> Answer:
    """Answer a request in any of the formats, and `GET …/models`; anything else is a 404.

    Args:
        method: The HTTP method, in capitals.
        path: The path, with its query.
        body: The request body as it came.
        plan: What is to go wrong; each request for a reply takes the next fault from it.

    Returns:
        The answer. Whatever comes in, nothing is raised.
    """
    form = format_of(path)
    if method == "POST" and form is not None:
        return _complete(form, path, body, plan.next() if plan else ())
    if method == "GET" and path.partition("?")[0].rstrip("/").endswith("/models"):
        return json_answer(200, _models())
    offered = "POST /v1/chat/completions, /v1/messages and /v1beta/models/teacher:generateContent, and GET /v1/models"
    return refuse(path, 404, f"There is no {method} {path[:200]}. There are {offered}.")


def refuse(path: str, status: int, text: str) -> Answer:
    """A refusal in the format of the path; in OpenAI's, which most clients know, where it has none."""
    return json_answer(status, (format_of(path) or openai).encode_error(status, text))


def _complete(form: ServerFormat, path: str, body: bytes, faults: "Sequence[Fault]") -> Answer:
    try:
        plain = json.loads(body, parse_constant=_refuse, parse_float=_finite)
        request = form.decode_request(plain, path)
    except (ValueError, RecursionError) as error:
        answered = refuse(path, 400, f"This is not a request in the {form.NAME} format: {error}")
    else:
        message = answer(request)
        reply = ChatResponse(message, model=MODEL, usage=estimate_usage(request, message))
        for fault in faults:
            reply = fault.in_reply(request, reply) if fault.in_reply else reply
        answered = _marked(form, reply_answer(form, reply, stream=form.wants_stream(path, plain)))
    for fault in faults:
        answered = fault.in_answer(form, answered) if fault.in_answer else answered
    return answered


def _marked(form: ServerFormat, answered: Answer) -> Answer:
    """With the fingerprint in each object, where the format has a field for it."""
    if form.NAME != openai.NAME:
        return answered
    mark = f'{{"system_fingerprint":"{FINGERPRINT}",'.encode()
    return replace(answered, chunks=tuple(chunk.replace(b"{", mark, 1) for chunk in answered.chunks))


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
