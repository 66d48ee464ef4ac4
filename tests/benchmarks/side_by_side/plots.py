"""Three plots of the results as SVG: cost of a request, its growth, and requests per second.

Text stays text, names are next to their lines, and equal results give equal files. A driver without
figures is not in a plot; with fewer than two drivers there is no plot. Needs matplotlib, which the
project does not.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables import BASE, OURS, Side, number, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _MUTED, _GRID, _CARD = "#1f2328", "#656d76", "#d8dee4", "#ffffff"
_COLORS = {
    "ours": "#0969da",
    "ours_fast": "#54aeff",
    "ours_ask": "#80ccff",
    BASE: _INK,
    "bare_aiohttp": "#6e7781",
}
_PEER = "#afb8c1"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "side by side",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GRID,
    "axes.titlesize": 8.5,
    "axes.titlecolor": _MUTED,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "text.color": _INK,
    "figure.facecolor": _CARD,
    "savefig.facecolor": _CARD,
}
_WIDE = 8  # ratio of maximum to minimum that requires a logarithmic axis
_CALLS = {"calls 10": "10 rounds", "calls 50": "50 rounds"}
_LOOPS = {"calls 10": "1", "at once 32": "32", "at once 256": "256"}


def draw(results: dict[str, Any], folder: Path) -> None:
    """Write the plots that have figures; print a hint if matplotlib is missing.

    Args:
        results: The results of `__main__.py`.
        folder: The destination of `requests.svg`, `growth.svg` and `at_once.svg`.
    """
    try:
        from matplotlib import style
    except ImportError:
        print(
            "No plots are drawn: matplotlib is missing. Get it with: pip install 'matplotlib>=3.10'"
        )
        return
    for old in folder.glob("*.svg"):
        old.unlink()
    with style.context(["default", _STYLE]):
        for name, figure in drawn(results).items():
            # Neither the day nor the version: the same results give the same file.
            figure.savefig(folder / name, format="svg", metadata={"Date": None, "Creator": None})


def drawn(results: dict[str, Any]) -> dict[str, "Figure"]:
    """Return the plots by file name."""
    side = Side(results)
    plots = {
        "requests.svg": requests(side),
        "growth.svg": growth(side),
        "at_once.svg": at_once(side),
    }
    return {name: figure for name, figure in plots.items() if figure is not None}


# ---- the plots
# -------------------------------------------------------------------------------------------


def requests(side: Side) -> "Figure | None":
    """Draw the CPU time of a request relative to the base, as bars."""
    found = {
        driver: {
            task: times for task in _CALLS if (times := beside_base(side, task, driver)) is not None
        }
        for driver in side.titles
    }
    found = {driver: times for driver, times in found.items() if times}
    if len(found) < 2:
        return None
    order = sorted(found, key=lambda driver: next(iter(found[driver].values())))
    every = [value for times in found.values() for value in times.values()]
    wide = max(every) / min(every) > _WIDE
    scale = ", logarithmic" if wide else ""
    figure = card(
        0.95 + 0.25 * len(order),
        "CPU time of a request, beside bare httpx",
        f"times bare httpx, measured right before{scale}; less is better; one loop of 10 or 50 tool rounds",
    )
    for index, (task, title) in enumerate(_CALLS.items()):
        axes = figure.add_subplot(1, 2, index + 1)
        axes.set_title(title, loc="left")
        bars(
            axes,
            [(driver, found[driver].get(task)) for driver in order],
            wide,
            max(every),
            min(every),
        )
        axes.set_yticks(
            range(len(order)), [side.titles[driver] for driver in order] if not index else []
        )
        for label, driver in zip(axes.get_yticklabels(), order, strict=False):
            label.set(color=_COLORS["ours"] if driver in OURS else _INK, weight=weight(driver))
    return figure


def beside_base(side: Side, task: str, driver: str) -> float | None:
    """Return the CPU time as a multiple of the base; 1 for the base itself."""
    if driver == BASE and side.row(task, driver):
        return 1.0
    return side.figure(task, driver, "cpu", "ratios")


def bars(
    axes: "Axes", values: Sequence[tuple[str, float | None]], wide: bool, most: float, least: float
) -> None:
    """Draw one panel, the least value on top. On a logarithmic axis, bars begin at the base."""
    axes.axvline(1, color=_MUTED, linewidth=0.8, zorder=3)
    for place, (driver, value) in enumerate(values):
        if value is None:
            continue
        start = 1.0 if wide else 0.0
        axes.barh(
            place,
            value - start,
            left=start,
            height=0.66,
            color=_COLORS.get(driver, _PEER),
            zorder=2,
        )
        below = wide and value < 1
        axes.annotate(
            ratio(value),
            (value if wide else max(value, 1), place),
            xytext=(-4 if below else 4, 0),
            textcoords="offset points",
            ha="right" if below else "left",
            va="center_baseline",
            weight=weight(driver),
        )
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(min(least, 1) / 3.2, most * 2.6)
    else:
        axes.set_xlim(0, max(most, 1) * 1.25)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks([], minor=True)
    axes.set_xticks([1], ["bare httpx"])


def growth(side: Side) -> "Figure | None":
    """Draw the CPU time of a request early and late in a conversation, as slopes."""
    lines = {}
    for driver in side.titles:
        ends = [side.figure("calls 50", driver, name) for name in ("early", "late", "growth")]
        if all(ends):
            lines[driver] = [value * 1e6 for value in ends[:2] if value]
    if len(lines) < 2:
        return None
    figure = card(
        4.3,
        "CPU time of a request as a conversation grows",
        "µs; low and flat is better; a conversation of 50 tool rounds",
    )
    axes = figure.add_subplot()
    grown = {driver: side.figure("calls 50", driver, "growth") for driver in lines}
    titles = {
        driver: f"{side.titles[driver]}  {ratio(times)}" for driver, times in grown.items() if times
    }
    along(axes, {driver: [*enumerate(ends)] for driver, ends in lines.items()}, titles)
    axes.set_xticks([0, 1], ["rounds 2–6", "rounds 46–50"])
    return figure


def at_once(side: Side) -> "Figure | None":
    """Draw the requests per second by the number of concurrent loops."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for driver in side.titles:
        for place, task in enumerate(_LOOPS):
            seconds = side.figure(task, driver, "wall")
            if seconds:
                lines.setdefault(driver, []).append((place, 1 / seconds))
    lines = {
        driver: points for driver, points in lines.items() if any(place for place, _ in points)
    }
    if len(lines) < 2:
        return None
    figure = card(4.3, "Requests per second, by loops at once", "on one core; more is better")
    axes = figure.add_subplot()
    titles = {
        driver: f"{side.titles[driver]}  {last_of(points)}" for driver, points in lines.items()
    }
    along(axes, lines, titles)
    axes.set_xticks(range(len(_LOOPS)), [*_LOOPS.values()])
    axes.set_xlabel("loops at once", color=_MUTED)
    return figure


def last_of(points: Sequence[tuple[int, float]]) -> str:
    """Return the last figure of a line, with its number of loops unless it is the maximum."""
    place, value = points[-1]
    loops = [*_LOOPS.values()]
    return number(value) if place == len(loops) - 1 else f"{number(value)} at {loops[place]}"


# ---- shared parts
# -------------------------------------------------------------------------------------


def card(height: float, title: str, subtitle: str) -> "Figure":
    """Return an empty plot with a title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0.012, 0.02, 0.976, 1 - 0.62 / height))  # type: ignore[union-attr]
    figure.text(0.018, 1 - 0.14 / height, title, size=11, weight="bold", va="top")
    figure.text(0.018, 1 - 0.38 / height, subtitle, size=8.5, color=_MUTED, va="top")
    return figure


def along(
    axes: "Axes", lines: Mapping[str, list[tuple[int, float]]], titles: Mapping[str, str]
) -> None:
    """Draw lines from left to right, each with its name at its end."""
    values = [value for points in lines.values() for _, value in points]
    wide = max(values) / min(values) > _WIDE
    low, high = (min(values) / 1.25, max(values) * 1.25) if wide else (0.0, max(values) * 1.08)
    if wide:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticks_of_a_decade())
        axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    for driver, points in lines.items():
        style = {"color": _COLORS.get(driver, _PEER), "linewidth": 2.4 if driver in OURS else 1.4}
        axes.plot(
            *zip(*points, strict=True),
            marker="o",
            markersize=4,
            zorder=3 if driver in OURS else 2,
            **style,
        )
    ends = {driver: height_of(points[-1][1], low, high, wide) for driver, points in lines.items()}
    last = max(place for points in lines.values() for place, _ in points)
    for driver, height in spread(ends, 0.052).items():
        name_line(
            axes, driver, titles[driver], (lines[driver][-1][0], ends[driver]), (last, height)
        )
    axes.set_xlim(-0.06 * last, last * 1.06)  # the names are to the right of the grid


def ticks_of_a_decade() -> Any:
    """Return the labeled ticks of a logarithmic axis."""
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(1, 2, 5))


def height_of(value: float, low: float, high: float, wide: bool) -> float:
    """Return the relative height of a value between the bottom, 0, and the top, 1."""
    if wide:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def spread(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return the heights, moved apart if they are closer than the gap."""
    order = sorted(heights, key=lambda name: heights[name])
    places = [heights[name] for name in order]
    for _ in range(500):
        for index in range(1, len(places)):
            push = max(0.0, gap - (places[index] - places[index - 1])) / 2
            places[index - 1] -= push
            places[index] += push
    return dict(zip(order, places, strict=True))


def name_line(
    axes: "Axes", driver: str, title: str, end: tuple[float, float], place: tuple[float, float]
) -> None:
    """Draw the name to the right of the last point, with a thin line to it."""
    right = place[0] * 1.085
    color = _COLORS.get(driver, _PEER)
    axes.plot(
        [end[0] + 0.025 * place[0], right - 0.012 * place[0]],
        [end[1], place[1]],
        transform=axes.get_xaxis_transform(),
        color=color,
        linewidth=0.7,
        linestyle="-" if end[0] == place[0] else ":",
        clip_on=False,
    )
    axes.text(
        right,
        place[1],
        title,
        transform=axes.get_xaxis_transform(),
        va="center_baseline",
        color=_COLORS["ours"] if driver in OURS else _INK,
        weight=weight(driver),
    )


def weight(driver: str) -> str:
    """Return the font weight; ours is bold."""
    return "bold" if driver in OURS else "normal"
