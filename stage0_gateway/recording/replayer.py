"""`Replayer`: a transport that answers from a recording, chunk for chunk and without a network.

A test double that accepts any request proves nothing. Therefore a request that was not recorded
raises an error with a diff. This module knows no models. Tests and lessons use it with the file of
a `Recorder`.
"""

import json
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

import httpx

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.recording.credentials import credentials, names_a_credential
from stage0_gateway.recording.format import (
    ABANDONED,
    RecordedExchange,
    read_error,
    read_line,
    write_request,
)
from stage0_gateway.recording.recorder import named_secrets
from stage0_gateway.server.in_process import ChunkedBody

_MAX_LINES = 15
_MAX_WIDTH = 100


class ReplayMiss(AssertionError):
    """The requests do not match the recording."""


class Replayer(httpx.AsyncBaseTransport):
    """Answers each request with the first unplayed exchange that has the same request.

    Method, path, query and body are compared; host, headers, credentials and cache keys are not, so
    a replay may use another address and another key. Each exchange is played once. An incomplete
    response ends with the same error.

    Args:
        path: The file that a `Recorder` wrote.
        secrets: The secrets of the recorder, or their replacements.

    Raises:
        ConfigurationError: The file is missing or not a recording. The text names the line.
    """

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self._secrets = named_secrets(secrets)
        self._remaining = _read(Path(path))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the recorded response to this request.

        Raises:
            ReplayMiss: The request was not recorded, or all its recorded responses are played.
        """
        await request.aread()
        exchange = self._take(request)
        if exchange.status is None:
            raise read_error(str(exchange.cut), request)
        body = ChunkedBody(exchange.chunks, _error_at_end(exchange, request))
        headers = [(name.encode(), value.encode()) for name, value in exchange.headers.items()]
        return httpx.Response(exchange.status, headers=headers, stream=body)

    def _take(self, request: httpx.Request) -> RecordedExchange:
        hidden = write_request(request, self._secrets | credentials(request))
        # A placeholder key may be a word of the body, which was recorded unchanged.
        keys = [_key(hidden), _key(write_request(request, self._secrets))]
        for exchange in self._remaining:
            if _key(exchange.request) in keys:
                self._remaining.remove(exchange)
                return exchange
        count = len(self._remaining)
        text = f"{_first_line(hidden)} does not match any of {count} remaining exchanges."
        raise ReplayMiss("\n".join([text, *self._difference(hidden)]))

    def _difference(self, request: Mapping[str, Any]) -> list[str]:
        """Return the difference to the next remaining request."""
        if not self._remaining:
            return []
        expected = self._remaining[0]
        pair = _lines(expected.request), _lines(request)
        diff = list(unified_diff(*pair, "recorded", "sent", lineterm="", n=1))
        more = [f"… {len(diff) - _MAX_LINES} more lines"] if len(diff) > _MAX_LINES else []
        return [f"The next one is on line {expected.line}:", *diff[:_MAX_LINES], *more]


def _error_at_end(exchange: RecordedExchange, request: httpx.Request) -> Exception | None:
    """Return the error after the last chunk of an incomplete response."""
    if exchange.cut == ABANDONED:
        return ReplayMiss(
            f"The response on line {exchange.line} of the recording ends here, "
            "because its reader stopped reading."
        )
    return None if exchange.cut is None else read_error(exchange.cut, request)


def _read(path: Path) -> list[RecordedExchange]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        text = f"{path} cannot be read ({error.strerror}). Record it first, with Recorder."
        raise ConfigurationError(text) from error
    exchanges = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                exchanges.append(read_line(line, number))
            except (ValueError, RecursionError) as error:
                text = f"{path} is not a recording: line {number}: {error}."
                raise ConfigurationError(text) from error
    return exchanges


def _key(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the parts that must be equal in two requests.

    The key of the prompt cache may differ, because the loop of stage 3 sends its session.
    """
    body = request.get("body")
    if isinstance(body, Mapping):
        body = {name: value for name, value in body.items() if name != "prompt_cache_key"}
    return _first_line(request), json.dumps(body, sort_keys=True)


def _first_line(request: Mapping[str, Any]) -> str:
    """Return method, path and query, without host and credentials."""
    path, _, query = request["url"].partition("://")[2].partition("/")[2].partition("?")
    fields = (field.partition("=") for field in query.split("&"))
    public = "&".join("".join(field) for field in fields if not names_a_credential(field[0]))
    return f"{request['method']} /{path}?{public}".rstrip("?")


def _lines(request: Mapping[str, Any]) -> list[str]:
    """Return a request as lines to compare; long lines are split."""
    body = json.dumps(request.get("body"), indent=2, sort_keys=True, ensure_ascii=False)
    starts = [(line, at) for line in body.split("\n") for at in range(0, len(line), _MAX_WIDTH)]
    return [_first_line(request), *(line[at : at + _MAX_WIDTH] for line, at in starts)]
