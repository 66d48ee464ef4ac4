"""`OfflineModel`: the rule-based model as a transport, for programs without a language model.

It selects tools by the words they share with the question, so every stage runs without a key and a
network. It identifies itself as not a language model. The gateway uses it as "offline:teacher", and
`local_server.py` serves it on a port.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import httpx

from stage0_gateway.server.in_process import as_response

if TYPE_CHECKING:
    from socketserver import ThreadingTCPServer

NOTICE = (
    "NOTICE: these answers come from rules, not from a language model. To connect a real one, set "
    "LLM_MODEL (such as openai:gpt-5-mini) with OPENAI_API_KEY, or LLM_MODEL=ollama:llama3.2 for a "
    "local server."
)

_log = logging.getLogger("stage0_gateway")


class OfflineModel(httpx.AsyncBaseTransport):
    """A transport that answers in the format of the request. It logs `NOTICE` with the first one.

    Args:
        faults: The names of faults in `offline/faults.py`, in the order of the requests. None and
            "none" are a correct answer. Requests after the last fault are answered correctly.

    Raises:
        ConfigurationError: A fault is unknown.
    """

    def __init__(self, faults: str | Iterable[str | None] = ()) -> None:
        from stage0_gateway.offline.faults import fault_plan  # many programs never need it

        self._plan = fault_plan(faults)
        self._is_new = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request inside the process."""
        from stage0_gateway.offline.service import answer_http

        if self._is_new:
            self._is_new = False
            _log.warning(NOTICE)
        path = request.url.raw_path.decode("ascii")
        return as_response(answer_http(request.method, path, await request.aread(), self._plan))


def offline_server(
    host: str = "127.0.0.1", port: int = 0, *, faults: str | Iterable[str | None] = ()
) -> "ThreadingTCPServer":
    """Open a port for the rule-based model; `serve_forever()` of the server answers requests.

    Args:
        host: The address to listen on.
        port: The port. 0 selects a free one, shown in `server_address`.
        faults: The faults of the first replies, as for `OfflineModel`.

    Raises:
        OSError: The port is in use, or the host is not an address of this machine.
        ConfigurationError: A fault is unknown.
    """
    from stage0_gateway.offline.local_server import make_server  # few programs need a server

    return make_server(host, port, faults=faults)


def offline_faults() -> dict[str, str]:
    """Return the faults of the rule-based model: their names and what they do."""
    from stage0_gateway.offline.faults import FAULTS

    return {name: fault.description for name, fault in FAULTS.items()}
