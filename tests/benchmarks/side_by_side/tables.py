"""Shared parts of the report and the plots: rows by name, figures as text, Markdown tables."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

BASE, OURS = "bare_httpx", ("ours", "ours_fast", "ours_ask")
_NONE = "–"
_LONGEST = 200  # characters of a reason
_MACHINE = (
    re.compile(r"\w+://[^\s'\"`)>]+"),  # URLs
    re.compile(r"(?<=host=)'[^']*'"),
    re.compile(r"\b[\w-]+(?:\.[\w-]+)+:\d+"),  # a host or an address, and its port
    re.compile(r"\b[\w-]+:\d{2,5}\b"),
    re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
    re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    re.compile(r"\b[A-Za-z]:\\[^\s'\"`]+"),
    re.compile(r"(?<!\w)~?(?:/[\w.@+~-]+)+/?"),  # paths
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with a figure of each driver.

    Attributes:
        title: Its heading.
        task: The name of the task.
        name: The name of the figure.
        shown: The function that formats it.
        kind: The figure itself, or its relation to the base.
        compared: Whether the ratio follows it.
    """

    title: str
    task: str
    name: str
    shown: Callable[[float], str]
    kind: Literal["figures", "ratios", "above"] = "figures"
    compared: bool = False


class Side:
    """The rows that were measured with a model server, by task and driver.

    Args:
        results: The complete results.
    """

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.titles = {name: about["title"] for name, about in results["drivers"].items()}
        self._rows = {(row["task"], row["driver"]): row for row in results["side by side"]}

    def row(self, task: str, driver: str) -> dict[str, Any]:
        """Return one row, or an empty one."""
        row: dict[str, Any] = self._rows.get((task, driver), {})
        return row

    def figure(self, task: str, driver: str, name: str, kind: str = "figures") -> float | None:
        """Return one figure, if it was measured."""
        value: float | None = self.row(task, driver).get(kind, {}).get(name)
        return value

    def table(self, columns: Iterable[Column], corner: str = "") -> str:
        """Return a table of the drivers and their figures; ours are in bold."""
        drivers = {
            name: f"**{title}**" if name in OURS else title for name, title in self.titles.items()
        }
        by = dict(enumerate(columns))
        heads = {str(index): column.title for index, column in by.items()}
        return grid(
            corner, drivers, heads, lambda driver, index: self._cell(driver, by[int(index)])
        )

    def _cell(self, driver: str, column: Column) -> str | None:
        value = self.figure(column.task, driver, column.name, column.kind)
        if value is None:
            return "failed" if "error" in self.row(column.task, driver) else None
        times = self.figure(column.task, driver, column.name, "ratios") if column.compared else None
        return beside(column.shown(value), times)


# ---- figures as text
# -------------------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits, and commas between thousands."""
    if not value or not math.isfinite(value):
        return f"{value:.0f}"
    after = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, after)
    if abs(rounded) >= 10 ** (digits - after):  # 999.7 is 1,000
        after -= 1
    return f"{rounded:,.{max(after, 0)}f}"


def ratio(value: float) -> str:
    """Format a ratio."""
    return f"{value:.2f} ×" if 0.1 <= abs(value) < 10 else f"{number(value)} ×"


def microseconds(seconds: float) -> str:
    """Format seconds as µs."""
    return f"{number(seconds * 1e6)} µs"


def milliseconds(seconds: float) -> str:
    """Format seconds as ms."""
    return f"{number(seconds * 1e3)} ms"


def tenths(seconds: float) -> str:
    """Format seconds as ms with one decimal; more would be noise."""
    return f"{seconds * 1e3:,.1f} ms"


def megabytes(amount: float) -> str:
    """Format bytes as MB."""
    return f"{number(amount / 1024**2)} MB"


def per_second(seconds: float) -> str:
    """Format seconds per item as items per second."""
    return f"{number(1 / seconds)}/s"


def beside(text: str, times: float | None) -> str:
    """Format a figure with its ratio, if there is one."""
    return text if times is None else f"{text} ({ratio(times)})"


def joined(*parts: str) -> str:
    """Join the nonempty parts with empty lines."""
    return "\n\n".join(part for part in parts if part)


def headed(sentence: str, found: str) -> str:
    """Return a table under a sentence, or nothing without a table."""
    return f"{sentence}\n\n{found}" if found else ""


def without_machine(reason: str) -> str:
    """Return a short, single-line reason of a failure without paths, hosts and URLs of the machine."""
    for what in _MACHINE:
        reason = what.sub("…", reason)
    reason = " ".join(reason.replace("`", "'").split()) or "no reason was given"
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"


# ---- Markdown
# --------------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, its first column left-aligned and the others right-aligned; empty without
    rows."""
    lines = [_line(row) for row in rows]
    first, *others = head
    return (
        "\n".join([_line([first, *others]), _line([":--", *["--:" for _ in others]]), *lines])
        if lines
        else ""
    )


def grid(
    corner: str,
    rows: Mapping[str, str],
    columns: Mapping[str, str],
    cell: Callable[[str, str], str | None],
) -> str:
    """Return a table of the values of `cell`, with titles for rows and columns.

    Rows and columns without values are omitted.
    """
    cells = {(row, column): cell(row, column) for row in rows for column in columns}
    shown = [row for row in rows if any(cells[row, column] for column in columns)]
    across = [column for column in columns if any(cells[row, column] for row in rows)]
    return table(
        [corner, *[columns[column] for column in across]],
        [[rows[row], *[cells[row, column] or _NONE for column in across]] for row in shown],
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
