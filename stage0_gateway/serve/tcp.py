"""The embedded teaching model behind a real port, on the standard library's threading server.

Knows HTTP and nothing of models: what is answered comes from `offline/endpoint.py`, the same function the
in-process transport uses, so both give the same bytes. Made for one machine: no TLS, no keys, no limit on
the number of clients. Used by `python -m stage0_gateway serve` and by tests, which run it in a thread.
"""

import logging
import socket
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from stage0_gateway.offline.endpoint import answer_http, refuse
from stage0_gateway.offline.faults import FaultPlan
from stage0_gateway.serve.answer import Answer

BODY_LIMIT = 64 * 1024 * 1024
"""The most bytes of a request body that are read; a longer one is refused with 413."""

_log = logging.getLogger("stage0_gateway.serve")


def make_server(
    host: str = "127.0.0.1", port: int = 0, *, faults: str | Iterable[str | None] = ()
) -> ThreadingHTTPServer:
    """Open the port; `serve_forever()` then answers, and `server_address` says which port 0 became.

    Args:
        host: The address to listen on.
        port: The port; 0 picks a free one.
        faults: What is to go wrong, as for `OfflineModel`.

    Raises:
        OSError: The port is in use, or the host is not one of this machine.
        ConfigurationError: There is no such fault.
    """
    return (_Server6 if ":" in host else _Server)(host, port, FaultPlan(faults))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, plan: FaultPlan) -> None:
        self.plan = plan
        super().__init__((host, port), _Exchange)

    def server_bind(self) -> None:
        # The parent also asks the name service for the host's full name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up is no failure of the server.
        if isinstance(sys.exception(), ConnectionError):
            _log.info("%s hung up", client_address[0])
        else:
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Exchange(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "llm-stages"
    timeout = 300
    wbufsize = -1  # head and body leave together; apart they would wait for each other's acknowledgement
    disable_nagle_algorithm = True  # and so would the events of a stream

    def do_GET(self) -> None:
        """Answer a request without a body."""
        self._answer(self._read_body(needs_length=False))

    def do_POST(self) -> None:
        """Answer a request whose body has a stated length."""
        self._answer(self._read_body(needs_length=True))

    def do_PUT(self) -> None:
        """Refused, but after the body is read: the connection stays usable."""
        self.do_POST()

    def do_DELETE(self) -> None:
        """Refused, like anything that is not offered."""
        self.do_GET()

    def _read_body(self, *, needs_length: bool) -> bytes | None:
        """The body, or None after a refusal. A body without a length cannot be told from the next request."""
        stated = self.headers.get("Content-Length")
        if "Transfer-Encoding" in self.headers or (stated is None and needs_length):
            self.send_error(411, "Send the body with a Content-Length header.")
            return None
        if stated is not None and not (stated.isascii() and stated.isdigit()):
            self.send_error(400, "The Content-Length header is not a number.")
            return None
        length = int(stated[:20]) if stated is not None else 0
        if length > BODY_LIMIT:
            self.send_error(413, f"The body is longer than {BODY_LIMIT} bytes.")
            return None
        return self.rfile.read(length)

    def _answer(self, body: bytes | None) -> None:
        if body is not None:
            self._send(answer_http(self.command, self.path, body, self.server.plan))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in the format of the path, and hang up: the unread body would look like a request."""
        self.close_connection = True
        self._send(refuse(getattr(self, "path", ""), code, message or explain or "Refused."))

    # ---- the way back -----------------------------------------------------------------------------------

    def _send(self, answer: Answer) -> None:
        if answer.status is None:
            self.close_connection = True
            return
        in_chunks = answer.is_stream or answer.is_cut
        if answer.is_cut or (in_chunks and self.request_version == "HTTP/1.0"):
            self.close_connection = True
        self._send_head(answer, in_chunks=in_chunks)
        if self.command == "HEAD":
            return
        if in_chunks and self.request_version != "HTTP/1.0":
            self._send_in_chunks(answer)
        else:
            self.wfile.write(answer.body)

    def _send_head(self, answer: Answer, *, in_chunks: bool) -> None:
        self.send_response(answer.status or 0)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if not in_chunks:
            self.send_header("Content-Length", str(len(answer.body)))
        elif self.request_version != "HTTP/1.0":
            self.send_header("Transfer-Encoding", "chunked")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _send_in_chunks(self, answer: Answer) -> None:
        """Each event as it is, with its length before it; the end is missing where the line is to break."""
        for chunk in filter(None, answer.chunks):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        if not answer.is_cut:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """One line per request, for whoever turned the log on."""
        _log.info("%s %s", self.address_string(), format % args)
