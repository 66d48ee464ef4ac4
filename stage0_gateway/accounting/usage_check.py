"""Notice a server that cut the prompt and did not say so.

Some servers (Ollama, where `num_ctx` is small) drop the beginning of a prompt that is too long and
answer what is left. Their own token count gives them away: no model reads fewer tokens than there
are words. Knows no tokenizer; a bound that is sure and cheap is all it needs. Used by the gateway
after each reply.
"""

from stage0_gateway.request import ChatRequest
from stage0_gateway.usage import Usage

_USUAL_BYTES = 6  # of JSON for a token; with fewer, nothing is missing and nothing needs counting


def unread_tokens(request: ChatRequest, body_size: int, usage: Usage | None) -> int | None:
    """How many tokens at least the server cannot have read, or None where all is well.

    Args:
        request: What was asked.
        body_size: Bytes of the request's body.
        usage: What the server says it read; a server that reports cached tokens does not cut.
    """
    read = usage.input_tokens if usage and usage.cached_input_tokens is None else None
    if not read or body_size < _USUAL_BYTES * read:
        return None
    least = sum(_least_tokens(message.text) for message in request.messages)
    return least - read if read < 0.9 * least else None


def _least_tokens(text: str) -> int:
    """A word is a token at least; scripts without spaces take one for six bytes at the very
    least.
    """
    return max(len(text.split()), (len(text.encode(errors="replace")) - len(text)) // 6)
