"""Make the replies of the offline model wrong on purpose, to test how a client reacts.

`FAULTS` lists the faults. `fault_plan` assigns faults to requests. `service.py` applies them for
`OfflineModel(faults=...)` and `llm-stages serve --faults ...`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.json_fields import parse_json
from stage0_gateway.offline.conversation import write_json
from stage0_gateway.offline.replies import plain_text
from stage0_gateway.response import ChatResponse
from stage0_gateway.server.answer import Answer, json_answer
from stage0_gateway.server.format import ServerFormat

_OVERLOADED = "The server is overloaded (a fault on purpose)."


# ---- faults of the model


def _in_json(change: Callable[[str], str]) -> Callable[[ChatResponse], ChatResponse]:
    """Return a change of the JSON text of a reply, or of the arguments of native calls."""

    def change_reply(reply: ChatResponse) -> ChatResponse:
        message = reply.message
        if message.tool_calls:
            calls = [replace(call, arguments=change(call.arguments)) for call in message.tool_calls]
            return replace(reply, message=replace(message, tool_calls=tuple(calls)))
        if not isinstance(parse_json(message.text), dict):
            return reply
        return replace(reply, message=replace(message, content=change(message.text)))

    return change_reply


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```"


def _not_json(text: str) -> str:
    return f"I think of {plain_text(parse_json(text))}."


def _wrong_argument_name(text: str) -> str:
    value = parse_json(text)
    arguments = value.get("arguments") if "tool" in value else value
    if not isinstance(arguments, dict) or not arguments:
        return text
    (first, argument), *others = arguments.items()
    renamed = {f"{first}_name": argument, **dict(others)}
    return write_json(value | {"arguments": renamed} if "tool" in value else renamed)


# ---- faults of the server


def _overloaded(form: ServerFormat, answer: Answer) -> Answer:
    return json_answer(503, form.encode_error(503, _OVERLOADED))


def _disconnect(form: ServerFormat, answer: Answer) -> Answer:
    return replace(answer, chunks=(answer.body[: len(answer.body) // 2],), is_cut=True)


def _error_in_stream(form: ServerFormat, answer: Answer) -> Answer:
    error = form.encode_error(503, _OVERLOADED)
    if not answer.is_stream:
        return json_answer(200, error)
    event = f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    return replace(answer, chunks=(*answer.chunks[: len(answer.chunks) // 2], event))


# ---- the table


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        description: The fault, in words.
        in_reply: The change to the model's reply.
        in_answer: The change to the HTTP answer.
    """

    description: str
    in_reply: Callable[[ChatResponse], ChatResponse] | None = None
    in_answer: Callable[[ServerFormat, Answer], Answer] | None = None


FAULTS: dict[str, Fault] = {
    "fenced": Fault("the JSON is in a code fence", _in_json(_fenced)),
    "not_json": Fault("a sentence instead of JSON", _in_json(_not_json)),
    "wrong_argument_name": Fault("the first argument is renamed", _in_json(_wrong_argument_name)),
    "overloaded": Fault("HTTP status 503", in_answer=_overloaded),
    "disconnect_mid_stream": Fault("the connection breaks halfway", in_answer=_disconnect),
    "error_in_stream": Fault("an error after half of the stream", in_answer=_error_in_stream),
}


def fault_plan(names: str | Iterable[str | None]) -> Iterator[Fault | None]:
    """Return the faults of the requests, in order.

    Args:
        names: The names of the faults, in the order of the requests, or one text with commas
            between them. None and "none" are a correct answer. Requests after the last fault are
            answered correctly.

    Raises:
        ConfigurationError: A fault is unknown.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    plan = [name or "none" for name in names]
    for name in plan:
        if name != "none" and name not in FAULTS:
            known = ", ".join(["none", *FAULTS])
            raise ConfigurationError(f"Unknown fault {name!r}. The faults are {known}.")
    return map(FAULTS.get, plan)
