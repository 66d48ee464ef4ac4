"""`Terminal`: output for people, or JSON for scripts.

With the extra `[cli]` and a terminal, `rich` shows colors, tables and Markdown. Otherwise the
output is plain text. Replies and tables go to stdout. Notes, calls and errors go to stderr, so a
reply can be piped.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any


class Terminal:
    """Prints to stdout and stderr.

    Args:
        as_json: Whether stdout receives JSON only; notes are then omitted.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def reply(self, text: str) -> None:
        """Print a reply of the model; rich shows its Markdown."""
        if self._console is None:
            print(printable(text))
        else:
            from rich.markdown import Markdown

            self._console.print(Markdown(printable(text), hyperlinks=False))

    def piece(self, text: str) -> None:
        """Print a piece of a reply, without a line break."""
        print(printable(text), end="", flush=True)

    def text(self, text: str = "", style: str = "") -> None:
        """Print a line."""
        if self._console is None:
            print(printable(text))
        else:
            self._console.print(printable(text), style=style, markup=False, highlight=False)

    def note(self, text: str, style: str = "dim") -> None:
        """Print a line to stderr."""
        if self.as_json:
            return
        if self._errors is None:
            print(printable(text), file=sys.stderr)
        else:
            self._errors.print(printable(text), style=style, markup=False, highlight=False)

    def error(self, text: str) -> None:
        """Print an error to stderr."""
        if self._errors is None:
            print(f"Error: {printable(text)}", file=sys.stderr)
        else:
            self._errors.print(f"Error: {printable(text)}", style="red", markup=False)

    def ask(self, question: str) -> str:
        """Return the answer to a question; stdout contains the question only if it is a terminal.

        Raises:
            EOFError: There is no answer.
        """
        if sys.stdout.isatty():
            return input(printable(question))
        print(printable(question), file=sys.stderr, flush=True)
        return input()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table."""
        texts = [[printable(str(cell)) for cell in row] for row in rows]
        if self._console is None:
            widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
            for row in [columns, *texts]:
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                print("  ".join(cells).rstrip())
        else:
            from rich.table import Table
            from rich.text import Text

            table = Table(*columns, box=None, header_style="bold", pad_edge=False)
            for row in texts:
                table.add_row(*map(Text, row))
            self._console.print(table)

    def json(self, value: Any) -> None:
        """Print a value as JSON."""
        print(json.dumps(value, indent=2))

    @cached_property
    def _console(self) -> Any:
        return None if self.as_json or not sys.stdout.isatty() else _console(stderr=False)

    @cached_property
    def _errors(self) -> Any:
        return _console(stderr=True) if sys.stderr.isatty() else None


def _console(stderr: bool) -> Any:
    """A console of rich, or None."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=stderr)


def printable(text: str) -> str:
    """Replace control characters, with which a model or a tool could change the terminal."""
    text = text.encode("utf-8", "replace").decode()
    return "".join(
        each if each in "\n\t" or each.isprintable() else _visible(each) for each in text
    )


def _visible(character: str) -> str:
    """Spaces of all scripts and joined emoji stay; control characters are shown as escapes."""
    if character.isspace() and character not in "\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return character
    if character == "\u200d":
        return character
    return character.encode("unicode_escape").decode()


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 run", "2 runs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
