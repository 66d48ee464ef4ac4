"""Answers that a server or the line gets wrong, whatever the model had to say.

Pure: an `Answer` and its format go in, a spoiled one comes out. Works on the bytes as they would be sent;
knows the formats only by what their rooms offer and by the names of the field that says why a reply ended.
Used by `faults.py`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.serve import ServerFormat
from stage0_gateway.serve.answer import Answer, json_answer

AnswerFault = Callable[[ServerFormat, Answer], Answer]
_END_REASONS = ("finish_reason", "stop_reason", "finishReason")
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"

# ---- instead of the answer ------------------------------------------------------------------------------


def refused(status: int, text: str, **headers: str) -> AnswerFault:
    """A refusal in the format's own shape."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda form, answer: replace(json_answer(status, form.encode_error(status, text)), headers=named)


def html_page(form: ServerFormat, answer: Answer) -> Answer:
    """The page of a proxy that does not reach the server."""
    return Answer(502, (_PAGE.encode(),), "text/html")


def hung_up(form: ServerFormat, answer: Answer) -> Answer:
    """No answer: the line breaks."""
    return Answer(None, is_cut=True)


# ---- in the answer --------------------------------------------------------------------------------------


def cut_off(form: ServerFormat, answer: Answer) -> Answer:
    """The first half of the bytes; then the line breaks."""
    half = len(answer.body) // 2
    return replace(answer, chunks=_first_bytes(answer.chunks, half), is_cut=True)


def malformed(form: ServerFormat, answer: Answer) -> Answer:
    """JSON that breaks off, in an answer that is whole; of a stream, in its first event."""
    first, *rest = answer.chunks
    if answer.is_stream:
        return replace(answer, chunks=(first.rstrip()[:-1] + b"\n\n", *rest))
    return replace(answer, chunks=(first[: len(first) // 2], *rest))


def without_end(form: ServerFormat, answer: Answer) -> Answer:
    """No word of why it ended: a stream stops before it, a whole reply has null there."""
    if not answer.is_stream:
        return json_answer(answer.status or 200, _without_reasons(json.loads(answer.body)))
    ends = (place for place, chunk in enumerate(answer.chunks) if _says_why(_data(chunk)))
    return replace(answer, chunks=answer.chunks[: next(ends, None)])


def error_inside(form: ServerFormat, answer: Answer) -> Answer:
    """An error in the middle of a stream that began well; a whole reply with status 200 that is an error."""
    error = form.encode_error(503, "The server is overloaded (a fault on purpose).")
    if not answer.is_stream:
        return json_answer(200, error)
    name = f"event: {error['type']}\n" if "type" in error else ""
    event = f"{name}data: {json.dumps(error)}\n\n".encode()
    return replace(answer, chunks=(*answer.chunks[: max(1, len(answer.chunks) // 2)], event))


def _first_bytes(chunks: tuple[bytes, ...], most: int) -> tuple[bytes, ...]:
    kept: list[bytes] = []
    for chunk in chunks:
        if most <= 0:
            break
        kept.append(chunk[:most])
        most -= len(chunk)
    return tuple(kept)


def _data(chunk: bytes) -> Any:
    """The JSON of an event, or None where it is none, as an end marker."""
    lines = [line[5:] for line in chunk.splitlines() if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines))
    except ValueError:
        return None


def _says_why(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(value.get(name) for name in _END_REASONS) or any(map(_says_why, value.values()))
    return isinstance(value, list) and any(map(_says_why, value))


def _without_reasons(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {n: None if n in _END_REASONS else _without_reasons(v) for n, v in value.items()}
    return [_without_reasons(each) for each in value] if isinstance(value, list) else value
