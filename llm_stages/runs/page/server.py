"""The page of a growing run file, on the loopback interface.

The page asks for changes once per second. The server is for one person at this machine: it answers
only requests to its own address, so other web pages cannot read the run. Slow clients cannot occupy
it: a connection is closed after some seconds, or earlier if there are many.
"""

import json
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from llm_stages.runs.page.html import NO_RUN, file_data, render_page
from llm_stages.runs.page.view import page_data

_MAX_CONNECTIONS = 32
"""A further connection ends the oldest one."""

_MAX_ENDING = 32


def make_server(run_file: Path, port: int = 0) -> ThreadingHTTPServer:
    """Open the port, and return the server; `serve_forever()` answers requests.

    Args:
        run_file: The file; it may still grow.
        port: The port. 0 selects a free one, shown in `server_address`.

    Raises:
        OSError: The port is in use.
        OverflowError: The port is not a number from 0 to 65535.
    """

    class Handler(_Handler):
        file = run_file

    return _Server(("127.0.0.1", port), Handler)


class _Server(ThreadingHTTPServer):
    """Answers each connection in a thread of its own, within limits.

    Attributes:
        max_seconds: The maximum duration of a connection.
    """

    max_seconds = 20.0
    request_queue_size = 128  # connections that wait for their thread

    def __init__(self, *arguments: Any) -> None:
        self._started: dict[socket, float] = {}  # when each connection was opened, oldest first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a new thread."""
        oldest = list(self._started)[: len(self._started) + 1 - _MAX_CONNECTIONS]
        for connection in oldest:
            _end(connection)
        if len(oldest) > _MAX_ENDING:  # their threads have not ended yet
            self.shutdown_request(request)
            return
        self._started[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections that are too old; called regularly by `serve_forever`."""
        latest = time.monotonic() - self.max_seconds
        for connection, started in list(self._started.items()):
            if started < latest:
                _end(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; its thread calls this at its end."""
        self._started.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away; print other errors.

        The page reports its own problems with files, so an `OSError` concerns the connection.
        """
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _end(connection: socket) -> None:
    """End the reads and writes of a connection, which ends its thread."""
    with suppress(OSError):  # it was closed already
        connection.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    file: Path

    def do_GET(self) -> None:
        """Answer with the page, or with its data if they have changed."""
        path, _, query = self.path.partition("?")
        name = self.headers.get("Host", "").rpartition(":")[0]
        if name not in ("127.0.0.1", "localhost"):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "Use the address 127.0.0.1.")
        elif path == "/data" and query == f"known={self._version()}":
            self._send(HTTPStatus.NO_CONTENT, "application/json", "")
        elif path == "/data":
            self._send(HTTPStatus.OK, "application/json", json.dumps(self._data()))
        elif path == "/":
            page = render_page(self._data(), is_served=True)
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "The page is at /.")

    def _version(self) -> str:
        """The size of the file, which only grows."""
        return str(self.file.stat().st_size) if self.file.exists() else "0"

    def _data(self) -> dict[str, Any]:
        known = self._version()
        try:
            data = file_data(self.file)
        except FileNotFoundError:
            data = page_data([], self.file.name, [NO_RUN])
        except (OSError, ValueError) as error:
            data = page_data([], self.file.name, [str(error)])
        return {**data, "known": known, "follow": True}

    def _send(self, status: HTTPStatus, media_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
