"""Two runs side by side as one HTML page, without a script."""

from collections.abc import Iterable, Iterator
from html import escape

from llm_stages.runs.compare import ComparedPart, ComparedTurn
from llm_stages.runs.page.html import page_file

_STYLE = """
main { display: block; padding: 1rem 1.5rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem; }
.pair > * { min-width: 0; }
.pair pre { max-height: none; }
.pair ins, .pair del { display: block; text-decoration: none; min-height: 1.5em; }
.pair ins { background: var(--added); }
.pair del { background: var(--dropped); }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; DARK } }
"""


def render_comparison(turns: Iterable[ComparedTurn], first: str, second: str) -> str:
    """Return the page.

    Args:
        turns: The compared turns.
        first: The name of the first file.
        second: The name of the second file.
    """
    style = page_file("page.css")
    dark = style.split('[data-theme="dark"] {', 1)[1].split("}", 1)[0]
    title = f"{escape(first)} and {escape(second)}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy"',
            "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">",
            f'<link rel="icon" href="data:,"><title>{title}</title>',
            f"<style>{style}{_STYLE.replace('DARK', dark)}</style></head><body><main>",
            f"<h1>{title}</h1>",
            *(text for turn in turns for text in _turn(turn, first, second)),
            "</main></body></html>",
        ]
    )


def _turn(turn: ComparedTurn, first: str, second: str) -> Iterator[str]:
    title = f"Turn {turn.number}" if turn.number else "Ending"
    state = "equal" if turn.is_equal else "different"
    opened = "" if turn.is_equal else " open"
    yield f'<details class="part"{opened}><summary>{title}: {state}</summary>'
    for part in turn.parts:
        yield f"<h3>{escape(part.name)}{' (equal)' if part.is_equal else ''}</h3>"
        yield '<div class="pair">'
        for name, lines in zip((first, second), _marked(part), strict=True):
            yield f'<div><p class="note">{escape(name)}</p><pre dir="auto" tabindex="0">'
            yield from lines
            yield "</pre></div>"
        yield "</div>"
    yield "</details>"


def _marked(part: ComparedPart) -> tuple[list[str], list[str]]:
    """The lines of both sides; lines that differ are marked."""
    sides: tuple[list[str], list[str]] = ([], [])
    for chunk in part.chunks():
        if chunk.is_equal:
            lines = [f"{_text(line)}\n" for line in chunk.left]
            sides[0].extend(lines)
            sides[1].extend(lines)
        else:
            sides[0].extend(f"<del>{_text(line)}</del>" for line in chunk.left)
            sides[1].extend(f"<ins>{_text(line)}</ins>" for line in chunk.right)
    return sides


def _text(line: str) -> str:
    return escape(line.encode("utf-8", "replace").decode())
