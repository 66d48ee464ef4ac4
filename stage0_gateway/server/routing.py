"""Select the format of a request by its path."""

from stage0_gateway.server import anthropic, gemini, openai
from stage0_gateway.server.format import ServerFormat


def format_of(path: str) -> ServerFormat | None:
    """Return the format of requests to a path, or None for an unknown path."""
    formats: tuple[ServerFormat, ...] = (openai, anthropic, gemini)
    return next((form for form in formats if form.is_path(path)), None)
