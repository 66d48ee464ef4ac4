"""A fork continues a recorded run from a turn, with a change, and writes a new run file."""

import asyncio
import json

import pytest

from llm_stages import RunParent, read_run
from llm_stages.runs.fork import Fork, fork_run
from llm_stages.runs.replay import replay
from stage3_tools import NativeDialect, Tool
from tests.llm_stages.cli.command import llm_stages, write_tools
from tests.stage3_tools.conversation import answer, call, calls
from tests.tables import for_each

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


@pytest.fixture
def tool_file(tmp_path):
    return write_tools(tmp_path, TOOLS)


@pytest.fixture
def parent(tmp_path, tool_file):
    """The file of a run of two turns: a call, and its answer."""
    path = tmp_path / "run.jsonl"
    question = "What is the weather in Rome?"
    assert llm_stages("ask", question, "--tools", tool_file, "--trace", path) == 0
    return path


@pytest.fixture
def edited(tmp_path):
    """`edited(text)` writes an edited reply, and returns the path of its file."""

    def write(text):
        path = tmp_path / "reply.txt"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def fork(parent, capsys):
    """`fork(*arguments)` forks the run; returns the printed text and the new run, which can be
    replayed and inspected."""

    def run(*arguments):
        target = parent.with_name("new.jsonl")
        capsys.readouterr()
        assert llm_stages("replay", parent, *arguments, "-o", target) == 0
        printed = capsys.readouterr().out
        new = read_run(target)
        assert asyncio.run(replay(new)) == []
        assert llm_stages("inspect", target) == 0
        return printed, new

    return run


def test_an_edited_reply_is_continued_with_the_recorded_results(fork, parent, edited):
    reply = edited(call("get_weather", city="Rome") + "\n")
    printed, run = fork("--from", 1, "--edit", reply)
    assert "ran" not in printed
    assert run.parent == RunParent("run.jsonl", read_run(parent).id, 1)
    assert [each.result.message.text for each in run.calls][:1] == ["9 degrees in Rome"]


def test_without_tools_a_new_call_gets_an_error_that_states_the_fix(fork, edited):
    printed, run = fork("--from", 1, "--edit", edited(call("get_weather", city="Oslo")))
    assert "ran" not in printed
    assert "Pass --tools to run tools." in run.calls[0].result.message.text


def test_with_tools_a_new_call_runs(fork, edited, tool_file):
    reply = edited(call("get_weather", city="Oslo"))
    printed, run = fork("--from", 1, "--edit", reply, "--tools", tool_file)
    assert "ran Oslo" in printed
    assert run.calls[0].result.message.text == "9 degrees in Oslo"


def test_an_edited_reply_may_be_invalid(fork, edited):
    _, run = fork("--from", 2, "--edit", edited('{"tool": 3}'))
    assert run.turns[0].decision.feedback


def test_another_question_is_asked(fork, tool_file):
    question = "What is the weather in Oslo?"
    printed, run = fork("--from", 1, "--message", question, "--tools", tool_file)
    assert "ran Oslo" in printed
    assert run.turns[0].request.messages[-1].text == question


@pytest.mark.parametrize(
    ("lines", "is_run", "status"),
    [(["y"], True, "completed"), (["n", "Keep it."], False, "rejected"), ([], False, "rejected")],
)
def test_a_write_asks_first(fork, tool_file, monkeypatch, lines, is_run, status):
    def read_line(prompt=""):
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", read_line)
    arguments = ("--from", 1, "--message", "Delete the file a.txt", "--tools", tool_file)
    printed, run = fork(*arguments)
    assert ("deleted a.txt" in printed.splitlines()) == is_run
    assert run.calls[0].result.status == status
    assert "Run it?" not in printed


def test_another_model_answers(fork):
    _, run = fork("--from", 2, "--model", "offline:teacher")
    assert (run.model, len(run.turns)) == ("offline:teacher", 1)


def test_json_is_printed_for_scripts(parent, tmp_path, capsys):
    capsys.readouterr()
    target = tmp_path / "json.jsonl"
    assert llm_stages("replay", parent, "--from", 2, "--json", "-o", target) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "completed"


@for_each(
    "arguments, status, expected",
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
def test_wrong_usage_states_the_fix(parent, capsys, arguments, status, expected):
    capsys.readouterr()
    assert llm_stages("replay", parent, *arguments) == status
    assert expected in capsys.readouterr().err
    assert sorted(each.name for each in parent.parent.glob("*.jsonl")) == ["run.jsonl"]


def test_an_existing_file_is_not_overwritten(parent, tmp_path, capsys):
    target = tmp_path / "run-from-1.jsonl"
    target.write_text("mine")
    assert llm_stages("replay", parent, "--from", 1) == 2
    assert target.read_text() == "mine"
    assert "exists already. Select another file with -o." in capsys.readouterr().err


# ---- the function


async def test_the_options_of_the_run_are_kept(run_file, tmp_path, new_conversation):
    options = {"reasoning": "low", "temperature": 0.5, "max_tokens": 90, "max_tool_rounds": 3}
    conversation = new_conversation([answer(), answer()])
    await conversation.ask(trace=run_file, **options)
    target = tmp_path / "new.jsonl"
    run = read_run(run_file.path)
    await fork_run(run, conversation.gateway, Fork(turn=1), run_file.path, target)
    new = read_run(target)
    assert {**new.options, **options} == new.options
    assert new.turns[0].request.messages == run.turns[0].request.messages
    assert new.model == "openai:m"


async def test_a_system_prompt_and_native_results_are_kept(run_file, tmp_path, new_conversation):
    def fail(arguments):
        raise ValueError("away")

    replies = [calls("f"), "done", calls("f"), "changed"]
    tool = Tool("f", execute=fail, effect="read")
    conversation = new_conversation(replies, tool, system_prompt="Be kind.")
    await conversation.ask(trace=run_file, dialect=NativeDialect())
    target = tmp_path / "new.jsonl"
    run = read_run(run_file.path)
    result = await fork_run(run, conversation.gateway, Fork(turn=2), run_file.path, target)
    assert result.reply == "changed"
    before, after = read_run(target).turns
    roles = [each.role for each in before.request.messages]
    assert roles == ["system", "user", "assistant", "tool"]
    recorded = run.calls[0].result.message.text.partition(": ")[2]
    assert before.calls[0].result.message.text.partition(": ")[2] == recorded
    assert after.request.messages[-1].is_error


async def test_a_turn_without_a_request_cannot_be_forked(run_file, tmp_path, new_conversation):
    tool = Tool("f", execute=lambda arguments: "ok", needs_approval=True)
    conversation = new_conversation([call(), answer()], tool)
    await conversation.ask(trace=run_file)
    await conversation.ask(None, resume=True, trace=run_file, approve=lambda request: True)
    run, gateway = read_run(run_file.path), conversation.gateway
    assert [turn.number for turn in run.turns] == [0, 1]
    with pytest.raises(ValueError, match=r"no turn 0\. Its turns with a request: 1\."):
        await fork_run(run, gateway, Fork(turn=0), run_file.path, tmp_path / "new.jsonl")
