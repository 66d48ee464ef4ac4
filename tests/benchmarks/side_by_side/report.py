"""The results as a Markdown page.

Of the machine it shows only the processor, because the page is part of the documentation. Sections
without measurements are omitted.
"""

import re
from typing import Any

import bars
from tables import (
    Column,
    Side,
    beside,
    grid,
    headed,
    joined,
    megabytes,
    microseconds,
    milliseconds,
    number,
    per_second,
    ratio,
    table,
    tenths,
    without_machine,
)
from tasks import DIALECTS, TASKS

Results = dict[str, Any]
_TITLES = {task.name: task.title for task in TASKS}
_UNITS = {
    "s": (1.0, "s"),
    "ms": (1.0, "ms"),
    "us": (1.0, "µs"),
    "bytes": (1 / 1024**2, "MB"),
    "x": (1.0, "×"),
}
_ALONE = {
    "arguments": "The arguments of a call, checked against a schema that was compiled before.",
    "json": "JSON found in what a model says; 1 MB where nothing else is said.",
    "hostile": "1 MB of one bracket, refused.",
    "window": "The messages to send of a session that has so many, none of them new.",
    "turn": "The same after a turn: two messages were added.",
}


def markdown(results: Results) -> str:
    """Return the page.

    Args:
        results: The results of `__main__.py`.
    """
    side = Side(results)
    sections = [
        ("", beginning(results)),
        ("The bars", bars_judged(results)),
        ("The path of one question", path(results, side)),
        ("One loop", one_loop(side)),
        ("Growth", growth(side)),
        ("Loops at once", loops_at_once(side)),
        ("Three tools at once", three_tools(side)),
        ("Streams", streams(results, side)),
        ("Starting", starting(results)),
        ("Without a server", alone(results)),
        ("Versions", versions(results)),
        ("Skipped or failed", missing(results, side)),
    ]
    parts = [f"## {title}\n\n{text}" if title else text for title, text in sections if text]
    return "\n\n".join(parts) + "\n"


def beginning(results: Results) -> str:
    """Describe the measurement: place, date and method."""
    machine = results["machine"]
    cores = "had a core each" if machine["a core each"] else "shared all cores"
    return (
        f"What a request costs with llm-stages and with others: measured on {results['date']} on "
        f"{machine['processor']} with {machine['cores']} cores ({machine['system']}, Python {machine['python']}, "
        f"load {machine['load']} when it began), in {number(results['minutes'], 2)} minutes. The model server and "
        f"the clients {cores}. Each figure is a median. A ratio is the median of the ratios to bare httpx, which "
        "was measured right before each time: below 1 is less than bare httpx. A ratio may differ from the "
        "quotient of two rows, which were measured minutes apart."
    )


# ---- the bars
# --------------------------------------------------------------------------------------


def bars_judged(results: Results) -> str:
    """List each measured bar, and whether it holds."""
    judged = list(bars.judged(results))
    if not judged:
        return ""
    missed = sum(bar.missed for bar in judged)
    sentence = f"{len(judged) - missed} of {len(judged)} that were measured hold. Less is better."
    return f"{sentence}\n\n{table(['what', 'measured', 'at most', ''], map(bar_line, judged))}"


def bar_line(bar: bars.Bar) -> list[str]:
    """Return a bar in readable units, with more digits if both figures would look equal."""
    factor, sign = _UNITS[bar.unit]
    if bar.unit == "s" and bar.most < 1:
        factor, sign = (1e3, "ms") if bar.most >= 1e-3 else (1e6, "µs")
    figure, most = bar.figure * factor, bar.most * factor
    digits = (
        next((n for n in range(3, 8) if f"{figure:.{n}g}" != f"{most:.{n}g}"), 3)
        if bar.missed
        else 3
    )
    measured = ratio(figure) if sign == "×" and digits == 3 else f"{number(figure, digits)} {sign}"
    return [
        bar.what,
        measured,
        f"{most:.{digits}g} {sign}",
        "**missed**" if bar.missed else "holds",
    ]


# ---- with a server
# ---------------------------------------------------------------------------------------


def path(results: Results, side: Side) -> str:
    """Show what runs between a question with one tool call and its answer."""
    kinds = ("files", "lines", "functions", "lines of functions")
    rows = [
        [
            side.titles[row["driver"]],
            DIALECTS[row["dialect"]],
            *[f"{row[kind]:,}" for kind in kinds],
        ]
        for row in results.get("path", ())
        if "error" not in row
    ]
    sentence = (
        "What runs between a question with one tool call and its answer, in a new process: the files of the "
        "library and of the SDK that it uses, all their lines, and the functions that run. A function counts "
        "once. HTTP libraries, pydantic and the like do not count. The agent, its tools and its client exist "
        "before the question, except in `ask`, which creates them."
    )
    return headed(
        sentence, table(["", "dialect", *kinds], rows).replace(":-- | --:", ":-- | :--", 1)
    )


def one_loop(side: Side) -> str:
    """Show the CPU and wall time of a request, in sequential conversations."""
    loops = [task for task in TASKS if task.way == "loop"]
    parts = [
        side.table(
            [Column(task.title, task.name, name, microseconds, compared=True) for task in loops],
            title,
        )
        for name, title in (("cpu", "CPU per request"), ("wall", "wall time per request"))
    ]
    return joined(*parts)


def growth(side: Side) -> str:
    """Show the CPU time of a round early and late in a long conversation."""
    shown = (
        ("early", "rounds 2–6", microseconds),
        ("late", "46–50", microseconds),
        ("growth", "growth", ratio),
    )
    columns = [
        Column(f"{dialect}, {title}", task, name, text)
        for task, dialect in (("calls 50", "tool calls"), ("decisions 50", "prompt dialect"))
        for name, title, text in shown
    ]
    sentence = "CPU time from one call of the tool to the next, in a conversation of 50 rounds."
    return headed(sentence, side.table(columns))


def loops_at_once(side: Side) -> str:
    """Show the requests per second on one core."""
    tasks = [task for task in TASKS if task.way == "at_once"]
    columns = []
    for task in tasks:
        loops = f"{task.given['loops']} loops"
        columns += [
            Column(f"{loops}, requests", task.name, "wall", per_second),
            Column(f"{loops}, time beside bare httpx", task.name, "wall", ratio, "ratios"),
            Column(f"{loops}, CPU per request", task.name, "cpu", microseconds),
        ]
    rounds = ", ".join(
        f"{task.given['loops']} of {task.given['rounds']} rounds each" for task in tasks
    )
    return headed(f"So many conversations at the same time: {rounds}.", side.table(columns))


def three_tools(side: Side) -> str:
    """Show three tools that wait 100, 200 and 150 ms."""
    columns = []
    for task, tools in (("three", "coroutines"), ("three blocking", "plain functions")):
        columns += [
            Column(f"{tools}, time", task, "wall", tenths),
            Column(f"{tools}, above bare httpx", task, "wall", tenths, "above"),
            Column(f"{tools}, stuck", task, "stuck", tenths),
        ]
    sentence = (
        "Tools that wait 100, 200 and 150 ms: 200 ms if they run at once, 450 ms one after the other. Stuck is "
        "the longest that the event loop could do nothing else."
    )
    return headed(sentence, side.table(columns))


def streams(results: Results, side: Side) -> str:
    """Show reading a long stream, with and without parsing partial arguments."""
    read = side.table(
        [
            Column("events", "stream", "wall", per_second),
            Column("time beside bare httpx", "stream", "wall", ratio, "ratios"),
        ]
    )
    parsed = side.table(
        Column(f"{task.given['pieces']:,} pieces", task.name, "cpu", microseconds)
        for task in TASKS
        if task.way == "snapshots"
    )
    return joined(
        headed(
            "A stream of 10,000 events, half of them text and half arguments of one call.", read
        ),
        headed(
            "CPU per event of such a stream, with the arguments parsed after each of so many pieces.",
            parsed,
        ),
        other_formats(results) if read or parsed else "",
    )


def other_formats(results: Results) -> str:
    """Name the drivers whose streams have another format than the base."""
    titles = [
        about["title"]
        for about in results["drivers"].values()
        if "messages" in about["can"] and "calls" not in about["can"]
    ]
    return (
        f"Measured in Anthropic's format, bare httpx beside it in OpenAI's: {', '.join(titles)}."
        if titles
        else ""
    )


def starting(results: Results) -> str:
    """Show the cost of starting."""
    rows = [{"task": "starting", **row} for row in results["starting"]]
    side = Side({"drivers": results["drivers"], "side by side": rows})
    columns = [
        Column("import, above bare Python", "starting", "import", milliseconds),
        Column("import beside bare httpx", "starting", "import", ratio, "ratios"),
        Column("to the first answer", "starting", "first answer", milliseconds),
        Column("memory", "starting", "resident", megabytes),
        Column("modules", "starting", "modules", "{:,.0f}".format),
    ]
    sentence = (
        "In a new process each time, with compiled files kept. The time to the first answer includes the start of "
        "Python. Memory and modules are those after the import; a MB is 1024² bytes."
    )
    return headed(sentence, side.table(columns))


def alone(results: Results) -> str:
    """Show the tasks without a server: a table per kind, which is the first word of the name."""
    kinds = dict.fromkeys(row["task"].split()[0] for row in results["alone"])
    parts = [
        alone_of([row for row in results["alone"] if row["task"].split()[0] == kind], kind)
        for kind in kinds
    ]
    return "\n\n".join(["CPU time of doing it once, in one process.", *parts]) if parts else ""


def alone_of(rows: list[dict[str, Any]], kind: str) -> str:
    """Return the table of one kind: variants by tasks."""
    by = {(row["way"], row["task"]): row for row in rows}
    compared = {row["task"] for row in rows if row["ratio"] is not None}
    base = dict.fromkeys(
        row["way"] for row in rows if row["ratio"] is None and row["task"] in compared
    )
    ways = {
        row["way"]: f"**{row['way']}**" if row["way"].startswith("llm-stages") else row["way"]
        for row in rows
    }
    tasks = {
        row["task"]: re.sub(r"\d+", lambda found: f"{int(found[0]):,}", row["task"]) for row in rows
    }

    def cell(way: str, task: str) -> str | None:
        row = by.get((way, task))
        unit = {"us": "µs"}
        return (
            beside(f"{number(row['figure'])} {unit.get(row['unit'], row['unit'])}", row["ratio"])
            if row
            else None
        )

    sentence = _ALONE.get(kind, kind) + (f" Ratios are to {', '.join(base)}." if base else "")
    return headed(sentence, grid("", ways, tasks, cell))


def versions(results: Results) -> str:
    """List the exact versions."""
    rows = [
        [
            about["title"],
            ", ".join(f"{name} {version}" for name, version in about["versions"].items()),
        ]
        for about in results["drivers"].values()
    ]
    return table(["driver", "versions"], rows).replace("--:", ":--")


def missing(results: Results, side: Side) -> str:
    """List skipped drivers and failures, each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    starts = [{"task": "starting", **row} for row in results["starting"]]
    paths = [
        {"task": f"the path, {DIALECTS[row['dialect']]}", **row} for row in results.get("path", ())
    ]
    for row in [*results["side by side"], *starts, *paths]:
        if "error" in row:
            driver, task = side.titles.get(row["driver"], row["driver"]), row["task"]
            reasons.setdefault((driver, without_machine(row["error"])), []).append(
                _TITLES.get(task, task)
            )
    lines = [
        f"- {name} was skipped: `{without_machine(why)}`"
        for name, why in results["skipped"].items()
    ]
    lines += [
        f"- {driver} failed at {'; '.join(at)}: `{why}`" for (driver, why), at in reasons.items()
    ]
    return "\n".join(lines)
