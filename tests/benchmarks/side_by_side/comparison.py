"""The comparison of the README: the path and the CPU time of each library, from one run.

    python tests/benchmarks/side_by_side/comparison.py     writes the stored results again

`__main__.py --readme` measures it, and `--store` writes it into the README. A test compares the
README with the stored results. After a change of the text, this file writes it from these results.
"""

import json
from pathlib import Path
from typing import Any

import report
from tables import Side, number, ratio, table
from tasks import DIALECTS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "performance" / "comparison"
README = ROOT / "README.md"
BEGIN = "<!-- `make bench-readme STORE=1` writes the lines from here … -->"
END = "<!-- … to here. -->"
TASKS = ("path", "calls 10", "calls 50", "decisions 10", "messages 10")
"""What is measured; 50 rounds show whether the cost grows."""

_ROWS = (
    ("**llm-stages**, `run_tool_loop`", "ours", "decisions"),
    ("… with the extra `fast`", "ours_fast", "decisions"),
    ("… in the native dialect", "ours", "calls"),
    ("… in the native dialect, with `fast`", "ours_fast", "calls"),
    ("**llm-stages**, `ask`", "ours_ask", "decisions"),
    ("anthropic SDK, `tool_runner`", "anthropic_runner", "messages"),
    ("smolagents", "smolagents_agent", "calls"),
    ("langchain", "langchain_agent", "calls"),
    ("pydantic-ai", "pydantic_ai_agent", "calls"),
    ("openai-agents", "openai_agents", "calls"),
)
_HEAD = ("", "Dialect", "Files", "Functions", "Their lines", "CPU time beside bare httpx")
_VERSIONS = (
    "llm-stages",
    "anthropic",
    "smolagents",
    "langchain",
    "pydantic-ai-slim",
    "openai-agents",
    "openai",
)


def markdown(results: dict[str, Any]) -> str:
    """Return the table of the README, and the sentences about its measurement."""
    machine = results["machine"]
    shown = {(f"{dialect} 10", driver) for _, driver, dialect in _ROWS}
    runs = [
        each.get("runs", 0)
        for each in results["side by side"]
        if (each["task"], each["driver"]) in shown
    ]
    versions: dict[str, str] = {}
    for each in results["drivers"].values():
        versions = each["versions"] | versions
    named = ", ".join(f"{name} {versions[name]}" for name in _VERSIONS if name in versions)
    return (
        f"{table(_HEAD, _rows(results)).replace(':-- | --:', ':-- | :--', 1)}\n\n"
        f"Measured in one run of {number(results['minutes'], 2)} minutes on {results['date']}: "
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, "
        f"Python {machine['python']}; {named}. "
        f"A ratio is the median of {min(runs)} measurements or more."
    )


def _rows(results: dict[str, Any]) -> list[list[str]]:
    side = Side(results)
    paths = {(each["driver"], each["dialect"]): each for each in results["path"]}
    rows = []
    for title, driver, dialect in _ROWS:
        path = paths.get((driver, dialect), {})
        cpu = side.figure(f"{dialect} 10", driver, "cpu", "ratios")
        counts = [path.get(each) for each in ("files", "functions", "lines of functions")]
        rows.append(
            [
                title,
                DIALECTS[dialect],
                *["–" if each is None else f"{each:,}" for each in counts],
                "–" if cpu is None else ratio(cpu),
            ]
        )
    return rows


def store(results: dict[str, Any]) -> None:
    """Write the page of the results, and the comparison into the README."""
    (FOLDER / "results.md").write_text(report.markdown(results), "utf-8")
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{block(results)}{after}", "utf-8")
    print(f"Written to {README}: the comparison.")


def block(results: dict[str, Any]) -> str:
    """Return the lines of the README between the two comments, with these."""
    return f"{BEGIN}\n\n{markdown(results)}\n\n{END}"


if __name__ == "__main__":
    store(json.loads((FOLDER / "results.json").read_text("utf-8")))
