"""Detect a server that truncated the prompt without an error.

Some servers (Ollama with a small `num_ctx`) drop the beginning of a long prompt and answer the
rest. Their token count reveals it, because every word is at least one token. This module knows no
tokenizer: a cheap lower bound is sufficient. The gateway calls it after each reply.
"""

from stage0_gateway.request import ChatRequest
from stage0_gateway.response import Usage

_USUAL_BYTES = 6  # of JSON per token; a prompt with fewer was read completely


def unread_tokens(request: ChatRequest, body: bytes, usage: Usage | None) -> int | None:
    """Return the minimum number of tokens of a request's body that the server did not read."""
    # A server that reports cached tokens does not truncate.
    read = usage.input_tokens if usage and usage.cached_input_tokens is None else None
    if not read or len(body) < _USUAL_BYTES * read:
        return None
    if request.tools and request.tool_choice == "none":
        return None  # some servers omit the tools then
    # A word is at least one token. Scripts without spaces need at least one for six bytes.
    without_spaces = (len(body) - len(body.decode(errors="replace"))) // 6
    minimum = max(len(body.split()), without_spaces)
    return minimum - read if read < 0.9 * minimum else None
