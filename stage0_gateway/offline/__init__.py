"""`OfflineModel`: the embedded teaching model, a rule-based stand-in that answers where no model is at hand.

It reads a request as a model would (tools, question, results so far) and decides by counting shared words,
so every stage can be run, seen and tested without a key or a network. It is no language model and says so.
Reading order: outcomes, reading, words, matching, pieces, wanted, numbers, names, strings, schema, filling,
planning, telling, chatting, teacher, endpoint.
Used by the gateway as "offline:teacher", and over a port by `serve/tcp.py`.
"""

import logging

import httpx

__all__ = ["NOTICE", "OfflineModel"]

NOTICE = (
    "NOTICE: these answers come from rules, not from a language model. To connect a real one, set LLM_MODEL "
    "(such as openai:gpt-5-mini) with OPENAI_API_KEY, or LLM_MODEL=ollama:llama3.2 for a local server."
)

_log = logging.getLogger("stage0_gateway")


class OfflineModel(httpx.AsyncBaseTransport):
    """Answers OpenAI's chat completions inside this process; logs `NOTICE` before anything else."""

    def __init__(self) -> None:
        _log.warning(NOTICE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request; nothing leaves the process."""
        # The rules are loaded with the first question: whoever asks a real model never waits for them.
        from stage0_gateway.offline.endpoint import answer_http

        status, body = answer_http(request.method, request.url.path, await request.aread())
        return httpx.Response(status, headers={"Content-Type": "application/json"}, content=body)
