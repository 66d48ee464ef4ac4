"""Select the format of a request by its path, and whether the reply is a stream."""

from collections.abc import Mapping
from typing import Any

from stage0_gateway.server import anthropic, gemini, openai, openai_responses
from stage0_gateway.server.format import ServerFormat


def format_of(path: str) -> ServerFormat | None:
    """Return the format of requests to a path, or None for an unknown path."""
    formats: tuple[ServerFormat, ...] = (openai, anthropic, gemini, openai_responses)
    return next((form for form in formats if form.is_path(path)), None)


def wants_stream(path: str, body: Mapping[str, Any]) -> bool:
    """Return whether a request is for a stream: by its body or, in Gemini's format, its path."""
    return bool(body.get("stream")) or ":streamGenerateContent" in path
