"""`Recorder`: a transport that writes down what passes through it, without secrets.

It stands between a client and the network (or any other transport) and changes nothing but one request
header. Knows no models and no events; the file is described in `recording_format`, played by `replay`.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import httpx

from stage0_gateway.connection import Pool, QuietRequest
from stage0_gateway.credentials import credentials
from stage0_gateway.errors import ConfigurationError
from stage0_gateway.recording_format import ABANDONED, write_answer, write_error, write_line, write_request
from stage0_gateway.redact import Secret


class Recorder(httpx.AsyncBaseTransport):
    """Passes requests on and answers back as they come, and writes each exchange down when it is over.

    The server is asked not to compress, so that the chunks in the file are the chunks it wrote. One line
    is written per exchange, in the order they end; an exchange that is cancelled before its answer begins
    leaves none. What a placeholder key says ("test") is hidden wherever that word stands.

    Args:
        path: The file. It is made just before the first request goes out.
        transport: What carries the requests; None is the network.
        secrets: More texts to keep out of the file. Credentials in headers, URL and body are found.
        overwrite: Whether a file that holds something may be lost.
    """

    def __init__(
        self,
        path: str | Path,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        secrets: Iterable[str] = (),
        overwrite: bool = False,
    ) -> None:
        self._path = Path(path)
        self._given = transport
        self._opened: httpx.AsyncBaseTransport | None = None
        self._secrets = named_secrets(secrets)
        self._overwrite = overwrite
        self._begun = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on, and its answer back.

        Raises:
            ConfigurationError: The file is there already, or cannot be made; nothing was sent.
        """
        self._begin()
        await request.aread()
        secrets = self._secrets | credentials(request)
        try:
            response = await self._transport().handle_async_request(_uncompressed(request))
        except httpx.RequestError as error:
            self._write({"request": write_request(request, secrets), "error": write_error(error, secrets)})
            raise

        def write(chunks: list[bytes], error: httpx.RequestError | None, whole: bool) -> None:
            broken_by = write_error(error, secrets) if error else None if whole else ABANDONED
            answer = write_answer(response, chunks, broken_by, secrets)
            self._write({"request": write_request(request, secrets), "response": answer})

        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Overheard(response, write),
            extensions=response.extensions,
        )

    def _transport(self) -> httpx.AsyncBaseTransport:
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = Pool()
        return self._opened

    def _begin(self) -> None:
        if self._begun:
            return
        try:
            if not self._overwrite and self._path.exists() and self._path.stat().st_size:
                raise ConfigurationError(
                    f"{self._path} is there already. Move it, or record over it with overwrite=True."
                )
            self._path.write_bytes(b"")
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written ({error.strerror}).") from error
        self._begun = True

    def _write(self, exchange: dict[str, object]) -> None:
        with self._path.open("ab") as file:
            file.write(write_line(exchange))

    async def aclose(self) -> None:
        """Close the transport that carries the requests."""
        opened, self._opened = self._opened, None
        for transport in (self._given, opened):
            if transport is not None:
                await transport.aclose()


class _Overheard(httpx.AsyncByteStream):
    """The body of an answer, remembered while the caller reads it; `write` is called once, when it is over."""

    def __init__(
        self,
        response: httpx.Response,
        write: Callable[[list[bytes], httpx.RequestError | None, bool], None],
    ) -> None:
        self._response = response
        self._chunks: list[bytes] = []
        self._write = write
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr]  # an async transport's is async
                self._chunks.append(chunk)
                yield chunk
        except httpx.RequestError as error:
            self._end(error)
            raise
        self._end(None, whole=True)

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._end(None)

    def _end(self, error: httpx.RequestError | None, *, whole: bool = False) -> None:
        if not self._is_over:
            self._is_over = True
            self._write(self._chunks, error, whole)


def named_secrets(secrets: Iterable[str]) -> set[Secret]:
    """What the caller named as secret: one text or several, without the line break of the file they lay in."""
    return {Secret(secret.strip()) for secret in ([secrets] if isinstance(secrets, str) else secrets)}


def _uncompressed(request: httpx.Request) -> httpx.Request:
    """The same request, but for one header; the caller's own is left as it is."""
    headers = httpx.Headers(request.headers)
    headers["accept-encoding"] = "identity"
    return QuietRequest(
        request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
    )
