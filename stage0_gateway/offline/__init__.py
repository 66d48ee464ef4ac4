"""`OfflineModel`: the embedded teaching model, a rule-based stand-in that answers where no model is at hand.

It reads a request as a model would (tools, question, results so far) and decides by counting shared words,
so every stage can be run, seen and tested without a key or a network. It is no language model and says so.
Reading order: outcomes, reading, words, matching, pieces, wanted, numbers, names, strings, schema, filling,
planning, telling, chatting, teacher, endpoint; and for faults on purpose broken_text, broken_reply,
broken_answer, faults.
Used by the gateway as "offline:teacher", and over a port by `serve/tcp.py`.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from stage0_gateway.offline.faults import FaultPlan

__all__ = ["NOTICE", "OfflineModel"]

NOTICE = (
    "NOTICE: these answers come from rules, not from a language model. To connect a real one, set LLM_MODEL "
    "(such as openai:gpt-5-mini) with OPENAI_API_KEY, or LLM_MODEL=ollama:llama3.2 for a local server."
)

_log = logging.getLogger("stage0_gateway")


class OfflineModel(httpx.AsyncBaseTransport):
    """Answers in the format it is asked in, whole or as a stream; logs `NOTICE` before anything else.

    Args:
        faults: What is to go wrong, by the names in `offline/faults.py`: the n-th request gets the n-th
            fault, None or "none" is a healthy reply, and after the last one all is well.

    Raises:
        ConfigurationError: There is no such fault.
    """

    def __init__(self, faults: str | Iterable[str | None] = ()) -> None:
        self._plan = _plan(faults) if faults else None
        _log.warning(NOTICE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request; nothing leaves the process."""
        # The rules are loaded with the first question: whoever asks a real model never waits for them.
        from stage0_gateway.offline.endpoint import answer_http
        from stage0_gateway.serve.in_process import as_response

        path = request.url.raw_path.decode("ascii")
        return as_response(answer_http(request.method, path, await request.aread(), self._plan))


def _plan(faults: str | Iterable[str | None]) -> "FaultPlan":
    from stage0_gateway.offline.faults import FaultPlan

    return FaultPlan(faults)
