"""`Recorder`: a transport that writes the traffic through it to a file, without secrets.

It works between a client and the network, or any other transport, and changes neither requests nor
responses. It knows no models and no events. `format.py` describes the file, and `replayer.py`
replays it.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import httpx

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.http.pool import Pool
from stage0_gateway.http.redaction import Secret, redact
from stage0_gateway.recording.credentials import credentials
from stage0_gateway.recording.format import (
    ABANDONED,
    write_error,
    write_line,
    write_request,
    write_response,
)
from stage0_gateway.recording.private_file import private_opener


class Recorder(httpx.AsyncBaseTransport):
    """Forwards requests and responses, and records each exchange when it ends.

    One line is written per exchange, in the order of their ends. An exchange that is cancelled
    before its response begins is not recorded. A placeholder key ("test") is hidden everywhere in
    the line.

    Args:
        path: The file. It is created before the first request is sent.
        transport: Sends the requests; None is the network.
        secrets: Further texts to hide. Credentials in headers, URL and body are detected.
    """

    def __init__(
        self,
        path: str | Path,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._path = Path(path)
        self._transport = Pool() if transport is None else transport
        self._secrets = named_secrets(secrets)
        self._is_created = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its response.

        Raises:
            ConfigurationError: The file exists, or cannot be created. Nothing was sent.
        """
        self._create_file()
        await request.aread()
        secrets = self._secrets | credentials(request)
        written = write_request(request, secrets)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.RequestError as error:
            self._write({"request": written, "error": redact(write_error(error), secrets)})
            raise

        def write(chunks: list[bytes], cut: str | None) -> None:
            reply = write_response(response, chunks, cut, secrets)
            self._write({"request": written, "response": reply})

        status, headers, extensions = response.status_code, response.headers, response.extensions
        body = _RecordedBody(response, write)
        return httpx.Response(status, headers=headers, stream=body, extensions=extensions)

    def _create_file(self) -> None:
        if self._is_created:
            return
        try:
            open(self._path, "xb", opener=private_opener).close()
        except OSError as error:
            text = f"{self._path} cannot be created ({error.strerror}). Record to another file."
            raise ConfigurationError(text) from error
        self._is_created = True

    def _write(self, exchange: dict[str, object]) -> None:
        with self._path.open("ab") as file:
            file.write(write_line(exchange))

    async def aclose(self) -> None:
        """Close the transport that sends the requests."""
        await self._transport.aclose()


class _RecordedBody(httpx.AsyncByteStream):
    """The body of a response. It stores the chunks that are read, and calls `write` at its end."""

    def __init__(
        self, response: httpx.Response, write: Callable[[list[bytes], str | None], None]
    ) -> None:
        self._response = response
        self._chunks: list[bytes] = []
        self._write = write
        self._is_written = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr]
                self._chunks.append(chunk)
                yield chunk
        except httpx.RequestError as error:
            self._end(write_error(error))
            raise
        self._end(None)

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._end(ABANDONED)

    def _end(self, cut: str | None) -> None:
        if not self._is_written:
            self._is_written = True
            self._write(self._chunks, cut)


def named_secrets(secrets: Iterable[str]) -> set[Secret]:
    """Return the caller's secrets, one text or several, without surrounding white space."""
    named = [secrets] if isinstance(secrets, str) else secrets
    return {Secret(secret.strip()) for secret in named}
