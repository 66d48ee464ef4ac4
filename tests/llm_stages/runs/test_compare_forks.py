"""A fork is compared with its parent from the turn of the fork; its edited reply has no request."""

import pytest

from tests.llm_stages.cli.command import llm_stages, write_tools
from tests.stage3_tools.conversation import answer, call


@pytest.fixture
def files(tmp_path, capsys):
    """A folder with a run of three turns, and the tools that it used."""
    question = "What is the weather in Rome and in Oslo?"
    tools = write_tools(tmp_path)
    assert llm_stages("ask", question, "--tools", tools, "--trace", tmp_path / "run.jsonl") == 0
    capsys.readouterr()
    return tmp_path


def fork(files, turn, reply):
    """Fork the run at a turn with an edited reply, and return the new file."""
    edited, target = files / "reply.txt", files / "fork.jsonl"
    edited.write_text(reply)
    options = ("--edit", edited, "--tools", files / "my_tools.py", "-o", target)
    assert llm_stages("replay", files / "run.jsonl", "--from", turn, *options) == 0
    return target


@pytest.fixture
def diff(files, capsys):
    """`diff(path)` compares the run with another one; returns the status and the output."""

    def compare(path):
        capsys.readouterr()
        return llm_stages("diff", files / "run.jsonl", path), capsys.readouterr().out

    return compare


def test_an_edited_reply_is_compared_with_the_reply_of_its_turn(files, diff):
    status, printed = diff(fork(files, 3, answer("Both are warm.")))
    assert status == 1
    assert "turn 3, decision:" in printed
    assert "+reply: Both are warm." in printed
    assert "turn 3, request:" not in printed
    assert printed.endswith("1 of 1 turn differ, and the ending.\n")


def test_the_turns_after_an_edited_reply_keep_their_numbers(files, diff):
    status, printed = diff(fork(files, 2, call("get_weather", city="Paris")))
    assert status == 1
    assert '+call get_weather {"city": "Paris"}' in printed
    assert "turn 1" not in printed
    assert "turn 3, request:" in printed
    assert "3 of 3 turns differ, and the ending." in printed


def test_a_run_that_is_asked_again_has_equal_turns(files, diff):
    target = files / "again.jsonl"
    options = ("--tools", files / "my_tools.py", "-o", target)
    assert llm_stages("replay", files / "run.jsonl", "--from", 2, *options) == 0
    assert diff(target) == (0, "identical.\n")


def test_a_replay_counts_runs_and_turns(files, capsys):
    assert llm_stages("replay", files / "run.jsonl") == 0
    assert capsys.readouterr().out == "1 run, 3 turns: identical.\n"
