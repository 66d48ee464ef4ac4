"""The figures of the README and of the guide to performance are those of their sources."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PERFORMANCE = ROOT / "docs" / "performance"


@pytest.fixture
def benchmark(monkeypatch):
    """`benchmark(name)` imports a module of the benchmark."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "benchmarks" / "side_by_side"))
    return importlib.import_module


def results(folder):
    return json.loads((folder / "results.json").read_text("utf-8"))


def test_the_comparison_of_the_readme_is_that_of_the_stored_results(benchmark):
    stored = results(PERFORMANCE / "comparison")
    block = benchmark("comparison").block(stored)
    assert block in README, "Run: make bench-readme STORE=1"
    assert "–" not in block
    page = (PERFORMANCE / "comparison" / "results.md").read_text("utf-8")
    assert page == benchmark("report").markdown(stored)


def test_the_guide_to_performance_states_the_stored_ratios_and_each_missed_bar(benchmark):
    guide = (ROOT / "docs" / "guides" / "performance.md").read_text("utf-8")
    summary = guide[guide.index("## Summary") : guide.index("## How it is measured")]
    stored = results(PERFORMANCE)
    side, ratio = benchmark("tables").Side(stored), benchmark("tables").ratio
    rows = [
        [ratio(side.figure(f"{dialect} {rounds}", driver, "cpu", "ratios")) for rounds in (10, 50)]
        for driver in ("ours", "ours_fast")
        for dialect in ("calls", "decisions")
    ]
    assert re.findall(r"\| ([\d.]+ ×) \| ([\d.]+ ×) \|", summary) == [tuple(row) for row in rows]
    bars = [*benchmark("bars").judged(stored)]
    missed = [benchmark("report").bar_line(bar) for bar in bars if bar.missed]
    assert f"{len(missed)} of {len(bars)} bars" in summary
    for what, measured, most, _ in missed:
        assert measured in summary, what
        assert most in summary, what


def test_the_promise_about_calls_states_the_size_of_its_corpora():
    folder = ROOT / "tests" / "stage3_tools" / "corpus"
    pairs = [("mentions", "decisions"), ("quoted_writes", "genuine_calls")]
    lines = {
        pair: [
            json.loads(line)
            for name in pair
            for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
        ]
        for pair in pairs
    }
    languages = {line["language"] for every in lines.values() for line in every}
    first, second = (f"{len(every):,}" for every in lines.values())
    assert re.search(rf"\[{first}\]\S+ and \[{second} replies\]\S+ in {len(languages)} ", README)
