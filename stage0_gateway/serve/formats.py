"""Which format a request is in, by the path it came to.

Knows the rooms of `serve/` and no HTTP. Used by whoever answers requests in all formats.
"""

from stage0_gateway.serve import ServerFormat, anthropic, gemini, openai


def format_of(path: str) -> ServerFormat | None:
    """The format that is spoken at a path, its query included or not; None where none is."""
    rooms: tuple[ServerFormat, ...] = (openai, anthropic, gemini)
    return next((room for room in rooms if room.is_path(path)), None)
