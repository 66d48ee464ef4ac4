"""The bars of the benchmark, and whether they hold.

Ratios refer to bare httpx in the same run, or to the named library. Figures in seconds assume a
common machine, and are judged only if there is no ratio.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

Results = dict[str, Any]
SERVER_SIDE = (
    # what, task, driver, of what, figure, at most, unit
    ("CPU of a request, 10 rounds", "calls 10", "ours", "ratios", "cpu", 1.6, "x"),
    ("… in the prompt dialect", "decisions 10", "ours", "ratios", "cpu", 1.6, "x"),
    ("… in Anthropic's format", "messages 10", "ours", "ratios", "cpu", 1.6, "x"),
    ("… with [fast]", "calls 10", "ours_fast", "ratios", "cpu", 1.1, "x"),
    (
        "… with [fast], in the prompt dialect",
        "decisions 10",
        "ours_fast",
        "ratios",
        "cpu",
        1.1,
        "x",
    ),
    ("CPU of a request, 50 rounds", "calls 50", "ours", "ratios", "cpu", 1.6, "x"),
    ("… in the prompt dialect", "decisions 50", "ours", "ratios", "cpu", 1.6, "x"),
    ("… with [fast]", "calls 50", "ours_fast", "ratios", "cpu", 1.1, "x"),
    (
        "… with [fast], in the prompt dialect",
        "decisions 50",
        "ours_fast",
        "ratios",
        "cpu",
        1.1,
        "x",
    ),
    ("rounds 46 to 50 against 2 to 6", "calls 50", "ours", "figures", "growth", 1.1, "x"),
    ("… in the prompt dialect", "decisions 50", "ours", "figures", "growth", 1.1, "x"),
    ("32 loops at once, time", "at once 32", "ours", "ratios", "wall", 1.0, "x"),
    ("256 loops at once, time", "at once 256", "ours", "ratios", "wall", 0.6, "x"),
    ("… with [fast]", "at once 256", "ours_fast", "ratios", "wall", 0.4, "x"),
    ("three coroutines, above bare", "three", "ours", "above", "wall", 0.003, "s"),
    ("… the event loop stuck, above bare", "three", "ours", "above", "stuck", 0.003, "s"),
    ("three plain functions, above bare", "three blocking", "ours", "above", "wall", 0.003, "s"),
    ("… the event loop stuck, above bare", "three blocking", "ours", "above", "stuck", 0.003, "s"),
    ("a stream of 10,000 chunks, time", "stream", "ours", "ratios", "wall", 1.6, "x"),
    ("… with [fast]", "stream", "ours_fast", "ratios", "wall", 1.1, "x"),
    (
        "arguments parsed after each of 500 chunks, per event",
        "snapshots 500",
        "ours",
        "figures",
        "cpu",
        120e-6,
        "s",
    ),
)
STARTING = (
    # as above
    ("import above bare Python", "starting", "ours", "figures", "import", 0.4, "s"),
    ("import beside `import httpx`", "starting", "ours", "ratios", "import", 0.40 / 0.15, "x"),
    ("memory after import", "starting", "ours", "figures", "resident", 45 * 1024**2, "bytes"),
)
ALONE = (
    # what, task, way, the ratio or the figure, at most, unit
    (
        "valid arguments beside jsonschema",
        "arguments with patterns",
        "llm-stages",
        "ratio",
        1.1,
        "x",
    ),
    ("… without patterns", "arguments without", "llm-stages", "ratio", 1.1, "x"),
    (
        "… with [fast], without patterns",
        "arguments without",
        "llm-stages [fast]",
        "figure",
        15.0,
        "us",
    ),
    ("1 MB of JSON in prose beside json.loads", "json in prose", "llm-stages", "ratio", 3.0, "x"),
    (
        "1 MB of JSON in a fence beside json.loads",
        "json in a fence",
        "llm-stages",
        "ratio",
        3.0,
        "x",
    ),
    ("1 MB of {", "hostile {", "llm-stages parse_and_validate", "figure", 250.0, "ms"),
    ("windowing at 10,000 messages", "window 10000", "llm-stages", "figure", 60.0, "us"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        what: The name of the bar.
        figure: The measured figure; infinite after a failure.
        most: The upper bound.
        unit: The unit of both: "x" is a ratio.
    """

    what: str
    figure: float
    most: float
    unit: str

    @property
    def missed(self) -> bool:
        """Whether the bar is missed."""
        return not self.figure <= self.most  # NaN counts as missed


def judged(results: Results) -> Iterator[Bar]:
    """Return each bar; after a partial run, only the bars with measurements.

    A missing measurement counts as infinite, and so as a missed bar.
    """
    side = {(row["task"], row["driver"]): row for row in results["side by side"]}
    starts = {("starting", row["driver"]): row for row in results["starting"]}
    lone = {(row["task"], row["way"]): row for row in results["alone"]}
    for what, *place, kind, name, most, unit in (*SERVER_SIDE, *STARTING):
        row = (side | starts).get(tuple(place))
        if row is not None or not results["only"]:
            yield Bar(what, (row or {}).get(kind, {}).get(name, inf), most, unit)
    for what, task, way, kind, most, unit in ALONE:
        row = lone.get((task, way))
        if row is not None or not results["only"]:
            yield Bar(what, (row or {}).get(kind, inf), most, unit)
