"""A run file is appended to, survives a killed program, and contains no secrets."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from stage0_gateway import AuthenticationFailed, Gateway, Message, ScriptedModel
from stage3_tools import RunFile, Tool, ToolLoopDeps, read_run, read_runs, run_tool_loop

ANSWER = '{"tool": null, "reply": "done"}'
CALL = '{"tool": "f", "arguments": {}}'
KEY = "sk-live-0123456789abcdefghij"


async def ask(gateway, trace, *tools, question="Go.", chat=None):
    deps = ToolLoopDeps(chat or gateway.chat, tool_registry=tools)
    session = await deps.context_engine.create_session()
    return await run_tool_loop(deps, session, question, trace=trace)


def gateway(*replies, **options):
    return Gateway("openai:m", transport=ScriptedModel(replies), max_retries=0, **options)


async def test_runs_are_appended_to_an_existing_file(tmp_path):
    path = tmp_path / "run.jsonl"
    for _ in range(2):
        await ask(gateway(ANSWER), RunFile(path))
    assert [run.status for run in read_runs(path)] == ["completed"] * 2


async def test_the_incomplete_line_of_a_killed_run_is_removed(tmp_path):
    path = tmp_path / "run.jsonl"
    await ask(gateway(ANSWER), RunFile(path))
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    await ask(gateway(ANSWER), RunFile(path))
    assert [run.status for run in read_runs(path)] == ["unfinished", "completed"]


async def test_an_incomplete_line_without_any_newline_is_removed(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * 200_000)
    await ask(gateway(ANSWER), RunFile(path))
    assert read_run(path).status == "completed"


async def test_a_file_that_cannot_be_opened_is_an_error_before_the_run(tmp_path):
    model = ScriptedModel([])
    with pytest.raises(OSError, match="missing"):
        await ask(Gateway("openai:m", transport=model), RunFile(tmp_path / "missing" / "run.jsonl"))
    assert model.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_ends_the_tracing_and_not_the_run():
    file = RunFile("/dev/full")
    with pytest.warns(UserWarning, match="/dev/full is not written any more"):
        result = await ask(gateway(ANSWER), file)
    assert result.reply == "done"
    assert isinstance(file.error, OSError)


async def test_a_closed_file_is_opened_again(run_file):
    await ask(gateway(ANSWER), run_file)
    run_file.close()
    run_file.close()
    await ask(gateway(ANSWER), run_file)
    assert len(read_runs(run_file.path)) == 2
    assert repr(run_file) == f"RunFile({str(run_file.path)!r})"


async def test_messages_are_written_once_for_all_runs_of_a_file(run_file, lines):
    for _ in range(2):
        await ask(gateway(ANSWER), run_file)
    assert [line["type"] for line in lines()].count("message") == 3


async def test_one_conversation_may_be_written_to_two_files(tmp_path, new_conversation):
    conversation = new_conversation([ANSWER] * 3)
    files = [RunFile(tmp_path / "a.jsonl"), RunFile(tmp_path / "b.jsonl", secrets=["question 1"])]
    for number, file in enumerate([*files, files[0]]):
        await conversation.ask(f"question {number}", trace=file)
    first, second, third = [
        *read_runs(files[0].path)[:1],
        *read_runs(files[1].path),
        read_run(files[0].path),
    ]
    assert [len(run.turns[0].request.messages) for run in (first, second, third)] == [2, 4, 6]
    assert "[hidden]" in [each.text for each in second.turns[0].request.messages]
    assert "question 1" in [each.text for each in third.turns[0].request.messages]


# ---- secrets


async def test_the_key_of_the_gateway_is_hidden_everywhere(run_file):
    def leak(arguments):
        return {"key": KEY, KEY: [f"in a url https://x/?key={KEY}&a=1", 'quoted "\\n' + KEY + '"']}

    made = Tool("f", f"Uses {KEY}.", execute=leak, effect="read")
    await ask(gateway(CALL, ANSWER, api_key=KEY), run_file, made, question=f"My key is {KEY}.")
    content = run_file.path.read_text()
    assert KEY[:12] not in content
    assert "[hidden]" in content
    assert read_run(run_file.path).end.reply == "done"


async def test_a_key_in_headers_options_and_errors_is_hidden(run_file):
    async def chat(messages, **settings):
        raise AuthenticationFailed(f"Authorization: Bearer {KEY} was rejected", status=401)

    with pytest.raises(AuthenticationFailed):
        await ask(None, RunFile(run_file.path, secrets=[KEY]), chat=chat)
    one = gateway(401, api_key=KEY, base_url=f"https://user:{KEY}@server/v1?api_key={KEY}")
    options = {"headers": {"x-api-key": KEY}}
    with pytest.raises(AuthenticationFailed):
        await ask(None, run_file, chat=partial(one.chat, provider_options=options))
    content = run_file.path.read_text()
    assert KEY[:12] not in content
    assert [run.status for run in read_runs(run_file.path)] == ["error"] * 2


async def test_a_secret_with_unusual_characters_is_hidden_in_its_escaped_forms(tmp_path):
    secret = 'p"ss\\wörd/+&'
    file = RunFile(tmp_path / "run.jsonl", secrets=secret)
    await ask(gateway(ANSWER), file, question=f"{secret} and p%22ss%5Cw%C3%B6rd%2F%2B%26")
    content = file.path.read_text()
    assert "rd/+" not in content
    assert "ss%5C" not in content
    assert read_run(file.path).turns[0].request.messages[-1].text == "[hidden] and [hidden]"


async def test_words_that_local_servers_use_as_keys_are_not_hidden(run_file):
    await ask(gateway(ANSWER, api_key="ollama"), run_file, question="What is ollama?")
    run = read_run(run_file.path)
    assert run.turns[0].request.messages[-1] == Message.user("What is ollama?")


def test_the_secrets_of_a_gateway_have_a_hidden_repr():
    one = gateway(api_key=KEY)
    assert one.secrets == (KEY,)
    assert KEY not in repr(one.secrets)


async def test_functions_are_written_by_name_only(run_file):
    def my_listener(event):
        """Do nothing."""

    one = gateway(ANSWER)
    deps = ToolLoopDeps(one.chat)
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Go.", trace=run_file, on_event=my_listener)
    options = read_run(run_file.path).options
    assert options["on_event"].endswith("my_listener")
    assert (options["max_tool_rounds"], "trace" in options) == (10, False)


# ---- a killed program

PROGRAM = """
import asyncio, os, signal, sys
from stage0_gateway import Gateway, ScriptedModel
from stage3_tools import RunFile, Tool, ToolLoopDeps, run_tool_loop

def die(arguments):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_async(arguments):
    die(arguments)

async def main(path, execute):
    model = ScriptedModel(['{"tool": "f", "arguments": {}}'])
    deps = ToolLoopDeps(Gateway("openai:m", transport=model).chat, None, None, [Tool("f", execute=execute)])
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Die.", trace=RunFile(path))

asyncio.run(main(sys.argv[1], die if sys.argv[2] == "plain" else die_async))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_killed_program_leaves_a_file_that_shows_the_call(tmp_path, kind):
    path = tmp_path / "run.jsonl"
    ran = subprocess.run([sys.executable, "-c", PROGRAM, path, kind], check=False)
    assert ran.returncode == -9
    run = read_run(path)
    (found,) = run.calls
    assert (run.status, found.name, found.effect, found.result) == (
        "unfinished",
        "f",
        "write",
        None,
    )
