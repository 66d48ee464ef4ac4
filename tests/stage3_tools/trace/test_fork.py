"""A fork continues a recorded run from a turn, with a change, and writes a new run file."""

import asyncio
import json

import pytest

from stage0_gateway import Message, ToolCall
from stage3_tools import NativeDialect, Tool, read_run
from stage3_tools.cli.main import main
from stage3_tools.trace.fork import Fork, fork_run
from stage3_tools.trace.replay import replay

TOOLS = '''
from stage3_tools import tool


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The name of the city.
    """
    print("ran", city)
    return f"9 degrees in {city}"


@tool
def delete_file(path: str) -> str:
    """Delete a file.

    Args:
        path: The path of the file.
    """
    print("deleted", path)
    return f"deleted {path}"
'''
ASKED = '{"tool": "get_weather", "arguments": {"city": "Rome"}}'
ANSWER = '{"tool": null, "reply": "done"}'


@pytest.fixture
def tool_file(tmp_path):
    path = tmp_path / "fork_tools.py"
    path.write_text(TOOLS)
    return path


@pytest.fixture
def llm_stages(capsys):
    """`llm_stages(…)` runs the command; returns its status, its output and its errors."""

    def run(*arguments):
        status = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def parent(tmp_path, llm_stages, tool_file):
    """The file of a run of two turns: a call, and its answer."""
    path = tmp_path / "run.jsonl"
    question = "What is the weather in Rome?"
    status, _, _ = llm_stages("ask", question, "--tools", tool_file, "--trace", path)
    assert status == 0
    return path


def forked(llm_stages, parent, *arguments):
    """Fork a run; return the printed text and the new run, which can be replayed and inspected."""
    target = parent.with_name("new.jsonl")
    status, out, err = llm_stages("replay", parent, *arguments, "-o", target)
    assert status == 0, err
    run = read_run(target)
    assert asyncio.run(replay(run)) == []
    assert (llm_stages("inspect", target))[0] == 0
    return out, run


def test_an_edited_reply_is_continued_with_the_recorded_results(llm_stages, parent, tmp_path):
    edited = tmp_path / "reply.txt"
    edited.write_text(ASKED + "\n")
    out, run = forked(llm_stages, parent, "--from", 1, "--edit", edited)
    assert "ran" not in out
    assert (run.parent.file, run.parent.run, run.parent.turn) == (
        "run.jsonl",
        read_run(parent).id,
        1,
    )
    assert [call.result.message.text for call in run.calls][:1] == ["9 degrees in Rome"]


def test_without_tools_a_new_call_gets_an_error_that_states_the_fix(llm_stages, parent, tmp_path):
    edited = tmp_path / "reply.txt"
    edited.write_text(ASKED.replace("Rome", "Oslo"))
    out, run = forked(llm_stages, parent, "--from", 1, "--edit", edited)
    assert "ran" not in out
    assert "Pass --tools to run tools." in run.calls[0].result.message.text


def test_with_tools_a_new_call_runs(llm_stages, parent, tmp_path, tool_file):
    edited = tmp_path / "reply.txt"
    edited.write_text(ASKED.replace("Rome", "Oslo"))
    arguments = ("--from", 1, "--edit", edited, "--tools", tool_file)
    out, run = forked(llm_stages, parent, *arguments)
    assert "ran Oslo" in out
    assert run.calls[0].result.message.text == "9 degrees in Oslo"


def test_an_edited_reply_may_be_invalid(llm_stages, parent, tmp_path):
    edited = tmp_path / "reply.txt"
    edited.write_text('{"tool": 3}')
    _, run = forked(llm_stages, parent, "--from", 2, "--edit", edited)
    assert run.turns[0].decision.feedback


def test_another_question_is_asked(llm_stages, parent, tool_file):
    arguments = ("--from", 1, "--message", "What is the weather in Oslo?", "--tools", tool_file)
    out, run = forked(llm_stages, parent, *arguments)
    assert "ran Oslo" in out
    assert run.turns[0].request.messages[-1].text == "What is the weather in Oslo?"


@pytest.mark.parametrize(
    ("answers", "is_run", "status"),
    [(["y"], True, "completed"), (["n", "Keep it."], False, "rejected"), ([], False, "rejected")],
)
def test_a_write_asks_first(llm_stages, parent, tool_file, monkeypatch, answers, is_run, status):
    left = iter(answers)

    def read_line(prompt=""):
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read_line)
    arguments = ("--from", 1, "--message", "Delete the file a.txt", "--tools", tool_file)
    out, run = forked(llm_stages, parent, *arguments)
    assert ("deleted a.txt\n" in out.splitlines(keepends=True)) == is_run
    assert run.calls[0].result.status == status
    assert "Run it?" not in out


def test_another_model_answers(llm_stages, parent):
    _, run = forked(llm_stages, parent, "--from", 2, "--model", "offline:teacher")
    assert run.model == "offline:teacher"
    assert len(run.turns) == 1


def test_json_is_printed_for_scripts(llm_stages, parent, tmp_path):
    target = tmp_path / "json.jsonl"
    status, out, _ = llm_stages("replay", parent, "--from", 2, "--json", "-o", target)
    assert (status, json.loads(out)["status"]) == (0, "completed")


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (("--from", 9), 1, "The run has no turn 9. Its turns with a request: 1, 2."),
        (("--from", 0), 1, "The run has no turn 0."),
        (("--from", 1, "--edit", "missing.txt"), 1, "missing.txt: No such file or directory."),
        (("--from", 1, "--tools", "missing.py"), 2, "There is no file missing.py."),
        (("--from", 1, "--model", "nowhere:m"), 2, "nowhere"),
        (("--edit", "reply.txt"), 2, "--edit changes a run; name the turn as well: --from 1."),
        (("--message", "Hi"), 2, "--message changes a run"),
    ],
)
def test_wrong_usage_states_the_fix(llm_stages, parent, arguments, status, expected):
    found, _, err = llm_stages("replay", parent, *arguments)
    assert found == status
    assert expected in err
    assert sorted(each.name for each in parent.parent.glob("*.jsonl")) == ["run.jsonl"]


def test_an_existing_file_is_not_overwritten(llm_stages, parent, tmp_path):
    target = tmp_path / "run-from-1.jsonl"
    target.write_text("mine")
    status, _, err = llm_stages("replay", parent, "--from", 1)
    assert (status, target.read_text()) == (2, "mine")
    assert "exists already. Select another file with -o." in err


def test_a_missing_file_is_an_error(llm_stages, tmp_path):
    status, _, err = llm_stages("replay", tmp_path / "no.jsonl", "--from", 1)
    assert status == 1
    assert "no.jsonl: No such file or directory." in err


# ---- the function


async def test_the_options_of_the_run_are_kept(run_file, tmp_path, new_conversation):
    options = {"reasoning": "low", "temperature": 0.5, "max_tokens": 90, "max_tool_rounds": 3}
    conversation = new_conversation([ANSWER, ANSWER])
    await conversation.ask(trace=run_file, **options)
    target = tmp_path / "new.jsonl"
    run = read_run(run_file.path)
    await fork_run(run, conversation.gateway.chat, Fork(turn=1), run_file.path, target)
    forked_run = read_run(target)
    assert {**forked_run.options, **options} == forked_run.options
    assert [each.to_dict() for each in forked_run.turns[0].request.messages] == [
        each.to_dict() for each in run.turns[0].request.messages
    ]


async def test_a_system_prompt_and_native_results_are_kept(run_file, tmp_path, new_conversation):
    def fail(arguments):
        raise ValueError("away")

    asked = Message.assistant("", [ToolCall("call_1", "f", "{}")])
    again = Message.assistant("", [ToolCall("call_2", "f", "{}")])
    tool = Tool("f", execute=fail, effect="read")
    conversation = new_conversation(
        [asked, "done", again, "changed"], tool, system_prompt="Be kind."
    )
    await conversation.ask(trace=run_file, dialect=NativeDialect())
    target = tmp_path / "new.jsonl"
    run = read_run(run_file.path)
    result = await fork_run(run, conversation.gateway.chat, Fork(turn=2), run_file.path, target)
    assert result.reply == "changed"
    before, after = read_run(target).turns
    assert [each.role for each in before.request.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    recorded = run.calls[0].result.message.text.partition(": ")[2]
    assert before.calls[0].result.message.text.partition(": ")[2] == recorded
    assert after.request.messages[-1].is_error
