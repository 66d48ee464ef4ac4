"""`OfflineModel`: an embedded rule-based model, a stand-in where no language model is available.

It selects tools by the words they share with the question, so that every stage runs without a key
or a network. It is not a language model and says so.
Reading order: conversation, words, arguments, replies, teacher, faults, endpoint.
The gateway uses it as "offline:teacher"; `serve/tcp.py` offers it over a port.
"""

import logging
from collections.abc import Iterable

import httpx

from stage0_gateway.server.in_process import as_response

__all__ = ["NOTICE", "OfflineModel"]

NOTICE = (
    "NOTICE: these answers come from rules, not from a language model. To connect a real one, set LLM_MODEL "
    "(such as openai:gpt-5-mini) with OPENAI_API_KEY, or LLM_MODEL=ollama:llama3.2 for a local server."
)

_log = logging.getLogger("stage0_gateway")


class OfflineModel(httpx.AsyncBaseTransport):
    """A transport that answers in the format of the request, whole or as a stream. It logs `NOTICE`
    first.

    Args:
        faults: What goes wrong, by the names in `offline/faults.py`, in the order of the requests.
            None and "none" stand for a correct answer. Requests after the last fault are answered
            correctly.

    Raises:
        ConfigurationError: A fault is unknown.
    """

    def __init__(self, faults: str | Iterable[str | None] = ()) -> None:
        from stage0_gateway.offline.faults import (
            FaultPlan,
        )  # many programs never use the embedded model

        self._plan = FaultPlan(faults)
        _log.warning(NOTICE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request. Nothing leaves the process."""
        from stage0_gateway.offline.service import answer_http

        path = request.url.raw_path.decode("ascii")
        return as_response(answer_http(request.method, path, await request.aread(), self._plan))
