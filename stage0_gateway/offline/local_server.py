"""The offline model on a port, with the threading server of the standard library.

This module knows HTTP and no models. `service.py` answers, as for the transport in the process, so
both send the same bytes. The server is for one machine: no TLS, no keys, no limit of clients.
The command `llm-stages serve` and tests use it; tests run it in a thread.
"""

import sys
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from stage0_gateway.offline.faults import Fault, fault_plan
from stage0_gateway.offline.service import answer_http, refuse, wrong_base_url
from stage0_gateway.server.answer import Answer

BODY_LIMIT = 64 * 1024 * 1024
"""The maximum size of a request body, in bytes."""


def make_server(
    host: str = "127.0.0.1", port: int = 0, *, faults: str | Iterable[str | None] = ()
) -> ThreadingTCPServer:
    """Open the port, and return the server. This is `offline_server`, which documents it."""
    return _Server(host, port, fault_plan(faults))


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, plan: Iterator[Fault | None]) -> None:
        self.plan = plan
        super().__init__((host, port), _Exchange)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that closes its connection is not a failure of the server.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Exchange(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 300
    # Separate packets would wait for acknowledgements: head and body, and the events of a stream.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request; its body must have a Content-Length."""
        try:
            length = int(self.headers["Content-Length"] or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= BODY_LIMIT or "Transfer-Encoding" in self.headers:
            text = f"Send the body with a Content-Length of at most {BODY_LIMIT} bytes."
            self.send_error(400, text)
        else:
            body = self.rfile.read(length)
            if problem := wrong_base_url(self.path):
                self._send(refuse(self.path, 404, problem))
            else:
                self._send(answer_http(self.command, self.path, body, self.server.plan))

    def do_GET(self) -> None:
        """Answer a request, with or without a body."""
        self.do_POST()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error in the format of the path, and close the connection.

        The server would read the rest of the body as the next request.
        """
        self.close_connection = True
        self._send(refuse(getattr(self, "path", ""), code, message or "Invalid request."))

    def _send(self, answer: Answer) -> None:
        in_chunks = (answer.is_stream or answer.is_cut) and self.request_version != "HTTP/1.0"
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        if answer.is_cut or self.close_connection:
            self.send_header("Connection", "close")
        if in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._send_chunks(answer)
        else:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    def _send_chunks(self, answer: Answer) -> None:
        """Send each event with its length, and the end unless the connection breaks."""
        for chunk in filter(None, answer.chunks):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        if not answer.is_cut:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the path may contain a key."""
