"""`Recorder`: a transport that writes the traffic that passes through it to a file, without
secrets.

It stands between a client and the network, or any other transport, and changes neither requests nor
responses. Knows no models and no events. `recording_format` describes the file, and `replay` plays
it.
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


class Recorder(httpx.AsyncBaseTransport):
    """Passes requests and responses on, and records each exchange when it ends.

    One line is written per exchange, in the order in which they end. An exchange that is cancelled
    before its response begins leaves none. A placeholder key ("test") is hidden wherever that word
    stands.

    Args:
        path: The file. It is created before the first request is sent.
        transport: Sends the requests; None is the network.
        secrets: More texts to keep out of the file. Credentials in headers, URL and body are found.
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
            ConfigurationError: The file exists, or cannot be created; nothing was sent.
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
            self._write(
                {"request": written, "response": write_response(response, chunks, cut, secrets)}
            )

        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_RecordedBody(response, write),
            extensions=response.extensions,
        )

    def _create_file(self) -> None:
        if self._is_created:
            return
        try:
            self._path.open("xb").close()
        except FileExistsError:
            raise ConfigurationError(
                f"{self._path} exists. Delete it, or record to another file."
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be written ({error.strerror})."
            ) from error
        self._is_created = True

    def _write(self, exchange: dict[str, object]) -> None:
        with self._path.open("ab") as file:
            file.write(write_line(exchange))

    async def aclose(self) -> None:
        """Close the transport that sends the requests."""
        await self._transport.aclose()


class _RecordedBody(httpx.AsyncByteStream):
    """The body of a response, kept while the caller reads it; `write` is called once, when it
    ends.
    """

    def __init__(
        self, response: httpx.Response, write: Callable[[list[bytes], str | None], None]
    ) -> None:
        self._response = response
        self._chunks: list[bytes] = []
        self._write = write
        self._is_written = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr]  # an async transport's is async
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
    """Return the secrets that the caller named: one text or several, without surrounding white
    space.
    """
    return {
        Secret(secret.strip()) for secret in ([secrets] if isinstance(secrets, str) else secrets)
    }
