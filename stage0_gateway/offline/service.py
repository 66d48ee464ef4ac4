"""Answer an HTTP request with the reply of the offline model, in the format of the request.

This module knows neither sockets nor an HTTP library. The transport (`model.py`) and the server
(`local_server.py`) call `answer_http`, so both send the same bytes.
"""

import json
import re
from collections.abc import Iterator

from stage0_gateway.messages import Message
from stage0_gateway.offline.faults import Fault
from stage0_gateway.offline.teacher import answer
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server import openai
from stage0_gateway.server.answer import Answer, json_answer, reply_answer
from stage0_gateway.server.format import ServerFormat
from stage0_gateway.server.routing import format_of, wants_stream
from stage0_gateway.server.state import StateRefused, refuse_state

MODEL = "teacher"
_PATHS = (
    "Use POST /v1/chat/completions, /v1/responses, /v1/messages or "
    "/v1beta/models/teacher:generateContent, or GET /v1/models. This server keeps no "
    "conversations, files or caches."
)
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The rule-based model</title>
<style>body { font: 1rem/1.6 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; }</style>
<h1>The rule-based model</h1>
<p>This server answers in both formats of OpenAI, and in those of Anthropic and Gemini. It consists
of rules; it is not a language model. It selects a tool by the words that it shares with the
question.</p>
<ul>
<li><code>POST /v1/chat/completions</code>: OpenAI</li>
<li><code>POST /v1/responses</code>: OpenAI, the newer format</li>
<li><code>POST /v1/messages</code>: Anthropic</li>
<li><code>POST /v1beta/models/teacher:generateContent</code>: Gemini</li>
<li><code>GET <a href="/v1/models">/v1/models</a></code>: the one model, <code>teacher</code></li>
</ul>
<p>To use it from another program, set its base URL to this address and any key. Clients of
Anthropic and Google add the version to the base URL; most other clients need
<code>/v1</code> at its end.</p>
<p>It keeps no state: a request that refers to an earlier reply is refused.</p>
</html>
"""
_REPEATED = re.compile(r"(/(?:chat/completions|responses|messages))/*(?:/v1)?\1$")
NO_FAULTS: Iterator[Fault | None] = iter(())


def answer_http(
    method: str, path: str, body: bytes, plan: Iterator[Fault | None] = NO_FAULTS
) -> Answer:
    """Answer a chat request in any format, or `GET .../models`; others are a 404.

    Args:
        method: The HTTP method, in capitals.
        path: The path, with its query.
        body: The request body.
        plan: The faults, one for each chat request.

    Returns:
        The answer. An invalid request gets an error status; nothing is raised.
    """
    form = format_of(path)
    if method == "POST" and form is not None:
        return _answer_chat(form, path, body, next(plan, None))
    if method == "GET" and path.partition("?")[0].rstrip("/").endswith("/models"):
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llm-stages"}
        return json_answer(200, {"object": "list", "data": [model]})
    if method == "GET" and path.partition("?")[0] in ("", "/"):
        return Answer(200, (_PAGE.encode(),), "text/html; charset=utf-8")
    return refuse(path, 404, f"Unknown {method} {path[:200]}. {_PATHS}")


def wrong_base_url(path: str) -> str | None:
    """Return a sentence about a path that a client made from a wrong base URL, or None.

    The base URL contains the endpoint already, or it has no version. Most servers reject such
    paths, and so does the server on a port, because a client that works with it should work with
    them. In the process, a base URL has no meaning, so any is accepted.
    """
    plain = path.partition("?")[0].rstrip("/")
    if found := _REPEATED.search(plain):
        remedy = f"The client adds {found[1]} to its base URL, so the base URL must end before it."
    elif plain in ("/chat/completions", "/responses"):
        remedy = f"The client adds {plain} to its base URL, so the base URL must end in /v1."
    else:
        return None
    return f"Unknown path {plain[:200]}. {remedy}"


def refuse(path: str, status: int, text: str) -> Answer:
    """Return an error in the format of the path, or in OpenAI's format."""
    return json_answer(status, (format_of(path) or openai).encode_error(status, text))


def estimate_usage(request: ChatRequest, reply: Message) -> Usage:
    """Estimate token counts: four characters are one token."""
    read = sum(_size(message) for message in request.messages)
    return Usage(max(1, read // 4), max(1, _size(reply) // 4))


def _answer_chat(form: ServerFormat, path: str, body: bytes, fault: Fault | None) -> Answer:
    try:
        value = json.loads(body)
        refuse_state(form.NAME, value)
        request = form.decode_request(value, path)
    except StateRefused as error:
        answered = refuse(path, 400, str(error))
    except (ValueError, RecursionError) as error:
        answered = refuse(path, 400, f"This is not a request in the {form.NAME} format: {error}")
    else:
        message = answer(request)
        reply = ChatResponse(message, model=MODEL, usage=estimate_usage(request, message))
        reply = fault.in_reply(reply) if fault and fault.in_reply else reply
        answered = reply_answer(form, reply, stream=wants_stream(path, value))
    return fault.in_answer(form, answered) if fault and fault.in_answer else answered


def _size(message: Message) -> int:
    return len(message.text) + sum(len(call.name + call.arguments) for call in message.tool_calls)
