"""The bars: what has to hold, and whether it does.

Ratios are to bare httpx in the same run, or to the library that is named. Figures in seconds stand for scale on a
common machine, and are judged only where there is no ratio.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]
SERVER_SIDE = (
    # what, task, driver, of what, figure, at most
    ("CPU of a request, 10 rounds", "calls 10", "ours", "ratios", "cpu", 1.0),
    ("… in the prompt dialect", "decisions 10", "ours", "ratios", "cpu", 1.1),
    ("… in Anthropic's format", "messages 10", "ours", "ratios", "cpu", 1.0),
    ("CPU of a request, 50 rounds", "calls 50", "ours", "ratios", "cpu", 0.9),
    ("… in the prompt dialect", "decisions 50", "ours", "ratios", "cpu", 0.9),
    ("rounds 46 to 50 against 2 to 6", "calls 50", "ours", "figures", "growth", 1.05),
    ("… in the prompt dialect", "decisions 50", "ours", "figures", "growth", 1.05),
    ("32 loops at once, time", "at once 32", "ours", "ratios", "wall", 1.0),
    ("256 loops at once, time", "at once 256", "ours", "ratios", "wall", 1.0),
    ("32 loops at once with [fast], s per request", "at once 32", "ours_fast", "figures", "wall", 0.001),
    ("256 loops at once with [fast], s per request", "at once 256", "ours_fast", "figures", "wall", 0.001),
    ("three coroutines, s above bare", "three", "ours", "above", "wall", 0.003),
    ("… the event loop stuck, s above bare", "three", "ours", "above", "stuck", 0.003),
    ("three plain functions, s above bare", "three blocking", "ours", "above", "wall", 0.003),
    ("… the event loop stuck, s above bare", "three blocking", "ours", "above", "stuck", 0.003),
    ("a stream of 10,000 pieces, time", "stream", "ours", "ratios", "wall", 1 / 0.75),
    ("arguments parsed on, 500 pieces, s per event", "snapshots 500", "ours", "figures", "cpu", 40e-6),
    ("… 10,000 pieces", "snapshots 10000", "ours", "figures", "cpu", 40e-6),
)
STARTING = (
    ("import above bare Python, s", "figures", "import", 0.4),
    ("import beside `import httpx`", "ratios", "import", 0.40 / 0.15),
    ("memory after import, bytes", "figures", "resident", 45 * 1024**2),
)
ALONE = (
    # what, task, way, the ratio or the figure, at most
    ("valid arguments, us", "arguments", "llm-stages", "figure", 15.0),
    ("1 MB of JSON in prose beside json.loads", "json in prose", "llm-stages", "ratio", 3.0),
    ("1 MB of JSON in a fence beside json.loads", "json in a fence", "llm-stages", "ratio", 3.0),
    ("1 MB of {, ms", "hostile {", "llm-stages parse_and_validate", "figure", 250.0),
    ("windowing at 10,000 messages, us", "window 10000", "llm-stages", "figure", 30.0),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        what: What is judged.
        figure: What was measured.
        most: How much it may be.
    """

    what: str
    figure: float
    most: float

    @property
    def missed(self) -> bool:
        """Whether it does not hold."""
        return self.figure > self.most


def judged(results: Results) -> Iterator[Bar]:
    """Each bar of which something was measured."""
    side = {(row["task"], row["driver"]): row for row in results["side by side"]}
    for what, task, driver, kind, name, most in SERVER_SIDE:
        if name in side.get((task, driver), {}).get(kind, {}):
            yield Bar(what, side[task, driver][kind][name], most)
    for row in results["starting"]:
        for what, kind, name, most in STARTING:
            if row["driver"] == "ours" and name in row.get(kind, {}):
                yield Bar(what, row[kind][name], most)
    lone = {(row["task"], row["way"]): row for row in results["alone"]}
    for what, task, way, kind, most in ALONE:
        if (task, way) in lone:
            yield Bar(what, lone[task, way][kind], most)
