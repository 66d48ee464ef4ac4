"""What the lessons say about the run of `make demo` is true, also after a changed reply."""

import sys
from pathlib import Path

import pytest

from examples import basic_usage
from llm_stages import read_run
from tests.llm_stages.cli.command import llm_stages

LESSONS = Path(__file__).parents[2] / "docs" / "learn"


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """The file that `make demo` writes."""
    path = tmp_path / "run.jsonl"
    monkeypatch.setattr(sys, "argv", ["basic_usage.py", "--trace", str(path)])
    assert basic_usage.main() == 0
    return path


@pytest.fixture
def changed(run_file):
    """`changed(turn, reply)` continues the run with another reply of a turn, as the lessons do."""

    def change(turn: int, reply: str):
        edited, target = run_file.parent / "reply.txt", run_file.parent / "mine.jsonl"
        edited.write_text(reply, encoding="utf-8")
        options = ("--from", turn, "--edit", edited, "-o", target)
        assert llm_stages("replay", run_file, *options) == 0
        return read_run(target)

    return change


def lesson(name: str) -> str:
    return next(LESSONS.glob(f"{name}-*.md")).read_text(encoding="utf-8")


def test_lessons_0_and_2_turn_2_adds_the_call_and_its_result(run_file):
    request = read_run(run_file).turns[1].request
    added = [request.messages[index] for index in request.added]
    assert [each.role for each in added] == ["assistant", "user"]
    assert added[1].text.startswith("[Tool result for get_weather]")
    assert [each.role for each in request.messages] == ["system", "user", "assistant", "user"]


def test_lesson_1_turn_2_has_more_input_tokens_than_turn_1(run_file):
    first, second = (turn.reply.usage.input_tokens for turn in read_run(run_file).turns)
    assert f"{first} and {second} input tokens" in lesson("1")


def test_lesson_3_a_repaired_reply_is_accepted_and_two_readings_are_not(changed):
    reply = '{"tool": null, "reply": "Warm.",}'
    assert reply in lesson("3")
    run = changed(2, f"{reply}\n")
    assert [each.name for each in run.turns[0].decision.repairs] == ["trailing_comma"]
    assert (run.end.reply, len(run.turns)) == ("Warm.", 1)


def test_lesson_4_the_model_reads_that_a_tool_is_unknown_and_calls_the_right_one(changed):
    reply = '{"tool": "get_wether", "arguments": {"city": "Shanghai"}}'
    assert reply in lesson("4")
    run = changed(1, f"{reply}\n")
    unknown, call = run.calls
    assert unknown.result.error_kind == "not_found"
    assert "Did you mean get_weather?" in unknown.result.message.text
    assert (call.name, call.result.status) == ("get_weather", "completed")
