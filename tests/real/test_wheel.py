"""The command works from a wheel that is installed outside of the repository."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
PACKAGES = ("stage0_gateway", "stage1_context", "stage2_output", "stage3_tools", "llm_stages")
DATA = (
    "llm_stages/runs/run.schema.json",
    "llm_stages/runs/page/page.html",
    "llm_stages/runs/page/page.css",
    "llm_stages/runs/page/page.js",
)

JUNK = (".env", ".env.local", ".DS_Store", "run.jsonl", "notes.txt", "sessions.db", "keys.json")
"""Files that a user of the repository may leave in a package."""


def run(*command, cwd):
    outer = ("VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    if "No matching distribution" in done.stderr or "ConnectionError" in done.stderr:
        pytest.skip("no package index can be reached from here")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the project."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "project"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
        for file in JUNK:
            (source / name / file).write_text("OPENAI_API_KEY=secret", encoding="utf-8")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of the programs of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "-q", wheel, cwd=folder)
    return programs


def test_the_wheel_contains_the_files_of_the_page_and_the_schema(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in DATA if name not in names] == []
    assert not [name for name in names if name.startswith(("tests", "examples", "docs"))]


def test_the_wheel_contains_no_other_files(wheel):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    tracked = ["git", "ls-files", *PACKAGES]
    assert sorted(names) == sorted(run(*tracked, cwd=ROOT).split())


def test_ask_inspect_and_replay_work_in_another_folder(installed, tmp_path):
    command = installed / "llm-stages"
    tools = tmp_path / "tools.py"
    tools.write_text(
        "from stage3_tools import tool\n\n\n"
        '@tool(effect="read")\n'
        "def get_weather(city: str) -> str:\n"
        '    """Get the weather in a city."""\n'
        '    return f"22 degrees in {city}"\n'
    )
    question = ("ask", "What is the weather in Rome?", "--tools", tools)
    assert run(command, *question, "--trace", "run.jsonl", cwd=tmp_path).endswith(
        "22 degrees in Rome.\n"
    )
    as_json = json.loads(run(command, *question, "--json", cwd=tmp_path))
    assert as_json["status"] == "completed"
    run(command, "inspect", "run.jsonl", cwd=tmp_path)
    assert "<script" in (tmp_path / "run.html").read_text(encoding="utf-8")
    assert run(command, "replay", "run.jsonl", cwd=tmp_path) == "1 run, 2 turns: identical.\n"
    listed = run(installed / "python", "-m", "llm_stages", "tools", tools, cwd=tmp_path)
    assert "Get the weather in a city." in listed


def test_the_extra_cli_is_not_required(installed, tmp_path):
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('rich') is not None)"
    run(installed / "python", "-c", code, cwd=tmp_path)
    assert "extra [cli]" in run(installed / "llm-stages", "doctor", cwd=tmp_path)
