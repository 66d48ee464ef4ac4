"""A fork is compared with its parent from the turn of the fork; its edited reply has no request."""

import json
from pathlib import Path

import pytest

from stage3_tools.cli.main import main

TOOLS = '''
from stage3_tools import tool


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The city.
    """
    return f"22 degrees in {city}"
'''
QUESTION = "What is the weather in Rome and in Oslo?"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a run of three turns, and the tools that it used."""
    for name in ("LLM_MODEL", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "my_tools.py").write_text(TOOLS)
    run("ask", QUESTION, "--tools", tmp_path / "my_tools.py", "--trace", tmp_path / "run.jsonl")
    return tmp_path


def run(*arguments: object) -> int:
    return main([str(each) for each in arguments])


def fork(files: Path, reply: object, turn: int) -> Path:
    (files / "reply.txt").write_text(json.dumps(reply))
    target = files / "fork.jsonl"
    edit = ("--edit", files / "reply.txt", "--tools", files / "my_tools.py", "-o", target)
    run("replay", files / "run.jsonl", "--from", turn, *edit)
    return target


def test_an_edited_reply_is_compared_with_the_reply_of_its_turn(files, capsys):
    target = fork(files, {"tool": None, "reply": "Both are warm."}, 3)
    capsys.readouterr()
    assert run("diff", files / "run.jsonl", target) == 1
    printed = capsys.readouterr().out
    assert "turn 3, decision:" in printed
    assert "+reply: Both are warm." in printed
    assert "turn 3, request:" not in printed
    assert printed.endswith("1 of 1 turn differ, and the ending.\n")


def test_the_turns_after_an_edited_reply_keep_their_numbers(files, capsys):
    call = {"tool": "get_weather", "arguments": {"city": "Paris"}}
    target = fork(files, call, 2)
    capsys.readouterr()
    run("diff", files / "run.jsonl", target)
    printed = capsys.readouterr().out
    assert '+call get_weather {"city": "Paris"}' in printed
    assert "turn 1" not in printed
    assert "turn 3, request:" in printed
    assert "3 of 3 turns differ, and the ending." in printed


def test_a_run_that_is_asked_again_has_equal_turns(files, capsys):
    target = files / "again.jsonl"
    tools = ("--tools", files / "my_tools.py")
    run("replay", files / "run.jsonl", "--from", 2, *tools, "-o", target)
    capsys.readouterr()
    assert run("diff", files / "run.jsonl", target) == 0
    assert capsys.readouterr().out == "identical.\n"


def test_a_replay_counts_runs_and_turns(files, capsys):
    capsys.readouterr()
    assert run("replay", files / "run.jsonl") == 0
    assert capsys.readouterr().out == "1 run, 3 turns: identical.\n"
