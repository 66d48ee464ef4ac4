"""`Replayer`: a transport that answers from a recording, chunk for chunk and without a network.

A test double that accepts anything proves nothing: a request that was not recorded fails, and says how it
differs from what was. Knows no models; used in tests and lessons in place of what `Recorder` once heard.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

import httpx

from stage0_gateway.credentials import credentials, names_a_credential
from stage0_gateway.errors import ConfigurationError
from stage0_gateway.recording import named_secrets
from stage0_gateway.recording_format import ABANDONED, Exchange, read_error, read_line, write_request

_LINES_SHOWN = 15
_WIDTH = 100

_Asked = tuple[str, str]


class ReplayMiss(AssertionError):
    """The conversation and the recording do not fit each other."""


class Replayer(httpx.AsyncBaseTransport):
    """Answers each request with the first exchange left that asked the same.

    The same is: method, path, query and body. Host, headers and credentials are not compared: a replay may
    go to another address, with another key or none. Each exchange is played once. An answer that broke off
    breaks off again, with the same error.

    Args:
        path: The file that a `Recorder` wrote.
        secrets: What the recorder was told to hide, or what stands in its place now.

    Raises:
        ConfigurationError: The file is missing or no recording; the text names the line.
    """

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self._secrets = named_secrets(secrets)
        self._waiting: dict[_Asked, deque[Exchange]] = {}
        for exchange in _read(Path(path)):
            self._waiting.setdefault(_asked(exchange.request), deque()).append(exchange)
        self._recorded = {asked: len(waiting) for asked, waiting in self._waiting.items()}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play the answer to this request.

        Raises:
            ReplayMiss: It was not recorded, or not as often.
        """
        await request.aread()
        exchange = self._take(request)
        if exchange.status is None:
            raise read_error(str(exchange.broken_by), request)
        headers = [(name.encode(), value.encode()) for name, value in exchange.headers.items()]
        return httpx.Response(exchange.status, headers=headers, stream=_Played(exchange, request))

    def _take(self, request: httpx.Request) -> Exchange:
        hidden = write_request(request, self._secrets | credentials(request))
        # A placeholder key may be a word of the body; hiding it there would hide what was recorded openly.
        either = [_asked(write_request(request, self._secrets)), _asked(hidden)]
        for asked in either:
            if self._waiting.get(asked):
                return self._waiting[asked].popleft()
        raise ReplayMiss(self._miss(hidden, max(self._recorded.get(asked, 0) for asked in either)))

    def _miss(self, request: Mapping[str, Any], times: int) -> str:
        left = self._left()
        text = f"{_first_line(request)} does not fit the recording: {sum(self._recorded.values())} recorded, "
        text += f"{len(left)} left."
        if times:
            return f"{text} This very request was recorded {times} time(s), and each of them is played."
        if not left:
            return text
        lines = _lines(request)
        nearest = max(left, key=lambda one: (Counter(_lines(one.request)) & Counter(lines)).total())
        diff = _short_diff(_lines(nearest.request), lines)
        return "\n".join([f"{text} The nearest one left is on line {nearest.line}:", *diff])

    def _left(self) -> list[Exchange]:
        left = (exchange for waiting in self._waiting.values() for exchange in waiting)
        return sorted(left, key=lambda exchange: exchange.line)

    def assert_finished(self) -> None:
        """Fail if exchanges are left over. Closing does not: a test may need a part of a recording only.

        Raises:
            ReplayMiss: Naming the first ones that nobody asked for.
        """
        left = self._left()
        if left:
            named = ", ".join(f"{_first_line(one.request)} (line {one.line})" for one in left[:5])
            raise ReplayMiss(f"Never asked for, of the recorded exchanges: {len(left)}. First: {named}.")


class _Played(httpx.AsyncByteStream):
    def __init__(self, exchange: Exchange, request: httpx.Request) -> None:
        self._exchange = exchange
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._exchange.chunks:
            await asyncio.sleep(0)  # others get their turn between two chunks, as on a real line
            yield chunk
        if self._exchange.broken_by == ABANDONED:
            raise ReplayMiss(
                f"The answer on line {self._exchange.line} of the recording goes no further: "
                "whoever recorded it stopped reading here."
            )
        if self._exchange.broken_by is not None:
            raise read_error(self._exchange.broken_by, self._request)


def _read(path: Path) -> list[Exchange]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}). Record it first, with Recorder."
        ) from error
    exchanges = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                exchanges.append(read_line(line, number))
            except (ValueError, RecursionError) as error:
                raise ConfigurationError(
                    f"{path} is no recording: line {number} holds no exchange ({error})."
                ) from error
    return exchanges


def _asked(request: Mapping[str, Any]) -> _Asked:
    """What two requests must have in common."""
    return _first_line(request), json.dumps(request.get("body"), sort_keys=True)


def _first_line(request: Mapping[str, Any]) -> str:
    """Method, path and query, without host and credentials."""
    path, _, query = request["url"].partition("://")[2].partition("/")[2].partition("?")
    fields = [field for field in query.split("&") if not names_a_credential(field.partition("=")[0])]
    return f"{request['method']} /{path}?{'&'.join(fields)}".rstrip("?")


def _lines(request: Mapping[str, Any]) -> list[str]:
    """A request as lines to compare."""
    body = request.get("body")
    text = body if isinstance(body, str) else json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False)
    return [_first_line(request), *text.split("\n")]


def _short_diff(recorded: list[str], asked: list[str]) -> list[str]:
    diff = list(unified_diff(recorded, asked, "recorded", "asked", lineterm="", n=1))
    shown = diff[:_LINES_SHOWN]
    shortened = [*shown[:2], *(_shortened(line, shown[2:]) for line in shown[2:])]
    return shortened if len(diff) == len(shown) else [*shortened, f"… {len(diff) - len(shown)} lines more"]


def _shortened(line: str, others: list[str]) -> str:
    """A long line, cut to where it begins to differ from its counterpart."""
    sign, text = line[:1], line[1:]
    counterparts = [other[1:] for other in others if {other[:1], sign} == {"-", "+"}]
    differs_at = max((_common(text, other) for other in counterparts), default=0)
    start = max(0, min(differs_at - _WIDTH // 3, len(text) - _WIDTH))
    cut = text[start : start + _WIDTH]
    return sign + ("…" if start else "") + cut + ("…" if start + _WIDTH < len(text) else "")


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
