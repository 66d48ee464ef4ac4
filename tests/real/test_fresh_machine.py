"""On a machine with only Python and make, `make` and `make demo` suffice, and install only once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]


@pytest.fixture
def fresh(tmp_path):
    """A copy of the project without generated files."""
    made = shutil.ignore_patterns(
        ".venv",
        ".bench",
        ".git",
        "__pycache__",
        ".*_cache",
        ".hypothesis",
        "*.egg-info",
        "run.jsonl",
        "run.html",
    )
    return shutil.copytree(ROOT, tmp_path / "project", ignore=made)


def make(target, folder):
    """Run a make target and return its finished process."""
    outer = ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    command = ["make", f"PYTHON={sys.executable}", target]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_demo_installs_everything_once(fresh):
    first = make("demo", fresh)
    if first.returncode and "No matching distribution" in first.stdout + first.stderr:
        pytest.skip("no package index can be reached from here")
    assert first.returncode == 0, first.stderr
    assert "Tool rounds executed: 1" in first.stdout
    assert f"Wrote {fresh / 'run.html'}. Open it in a browser." in first.stdout
    assert "What is the weather in Shanghai?" in (fresh / "run.html").read_text()
    assert "Installing" in first.stdout
    stamp = (fresh / ".venv" / ".demo").stat().st_mtime_ns
    second = make("demo", fresh)
    assert "Installing" not in second.stdout
    assert (fresh / "run.jsonl").read_text().count('"type":"run"') == 1  # not the first one
    assert (fresh / ".venv" / ".demo").stat().st_mtime_ns == stamp


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_without_a_target_lists_the_targets(fresh):
    done = make("help", fresh)
    assert [line.split()[1] for line in done.stdout.splitlines()] == [
        "help",
        "demo",
        "test",
        "test-long",
        "check",
        "grade",
        "course",
        "mutants",
        "format",
        "reference",
        "test-real",
        "grade-peers",
        "try-model",
        "bench",
        "bench-readme",
        "bench-peers",
        "bench-rooms",
        "clean",
    ]
