"""A run file is appended to, survives a killed program, and contains no secrets."""

import gc
import os
import stat
import sys
from functools import partial
from pathlib import Path

import pytest

from llm_stages import RunFile, RunFileError, read_run, read_runs
from llm_stages.runs.writer import RunWriter
from stage0_gateway import AuthenticationFailed, Gateway, Message, ScriptedModel
from stage3_tools import Tool, ToolLoopDeps, run_tool_loop
from tests.llm_stages.runs.run_files import lines_of
from tests.programs import run_program
from tests.stage3_tools.conversation import answer, call
from tests.tables import for_each

KEY = "sk-live-0123456789abcdefghij"
OTHER_KEY = "ak-test-9876543210zyxwvutsrq"


async def ask(gateway, trace, *tools, question="Go.", chat=None, **options):
    deps = ToolLoopDeps(chat or gateway, tool_registry=tools)
    session = await deps.context_engine.create_session()
    return await run_tool_loop(deps, session, question, trace=trace, **options)


def gateway(*replies, **options):
    return Gateway("openai:m", transport=ScriptedModel(replies), max_retries=0, **options)


async def test_runs_are_appended_to_an_existing_file(tmp_path):
    path = tmp_path / "run.jsonl"
    for _ in range(2):
        await ask(gateway(answer()), RunFile(path))
    assert [run.status for run in read_runs(path)] == ["completed"] * 2


async def test_the_incomplete_line_of_a_killed_run_is_removed(tmp_path):
    path = tmp_path / "run.jsonl"
    await ask(gateway(answer()), RunFile(path))
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    await ask(gateway(answer()), RunFile(path))
    assert [run.status for run in read_runs(path)] == ["unfinished", "completed"]


@pytest.mark.parametrize("size", [1, 21, 25, 40, 100])
async def test_a_header_that_was_cut_is_replaced(tmp_path, size):
    path = tmp_path / "run.jsonl"
    await ask(gateway(answer()), RunFile(path))
    path.write_bytes(path.read_bytes()[:size])
    await ask(gateway(answer()), RunFile(path))
    assert [run.status for run in read_runs(path)] == ["completed"]


OTHER_FILES = [
    b'{"important": true}',
    b'{"important": true}\n{"a": 1}\nx',
    b'{"type":"message","hash":"0123456789abcdef","message":{}}\n',
    b'{"type":"run","run":"mine"}\n',  # almost a header
    b'{"type":"run","run":"mine"}',
    b"x" * 200_000,
    b"SQLite format 3\0" + bytes(range(256)) * 40,
    b"\n",
]


@for_each("name", ["settings", "link"])
@for_each("content", OTHER_FILES)
async def test_any_other_file_is_refused_and_stays_as_it_is(other_file, name, content):
    other_file.write_bytes(content)
    model = ScriptedModel([])
    with pytest.raises(RunFileError, match="its first line is not the header of a run"):
        await ask(Gateway("openai:m", transport=model), RunFile(other_file.with_name(name)))
    assert (model.requests, other_file.read_bytes()) == ([], content)


@pytest.fixture
def other_file(tmp_path):
    """A file, to which the symbolic link `link` leads."""
    path = tmp_path / "settings"
    (tmp_path / "link").symlink_to(path)
    return path


async def test_a_link_may_lead_to_a_run_file(tmp_path):
    path, link = tmp_path / "run.jsonl", tmp_path / "link"
    await ask(gateway(answer()), RunFile(path))
    link.symlink_to(path)
    await ask(gateway(answer()), RunFile(link))
    assert (len(read_runs(path)), link.is_symlink()) == (2, True)


async def test_a_link_never_creates_a_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        await ask(gateway(), RunFile(link))
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs the files of Unix")
async def test_pipes_devices_and_folders_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", "/dev/stdout", "/dev/fd/0"):
        with pytest.raises(RunFileError, match="it is not a run file, but"):
            await ask(gateway(), RunFile(path))


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs /dev/null")
async def test_dev_null_accepts_runs():
    assert (await ask(gateway(answer()), RunFile("/dev/null"))).reply == "done"


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="needs the modes of Unix")
@pytest.mark.usefixtures("usual_umask")
async def test_only_the_owner_may_read_a_new_file(tmp_path):
    path = tmp_path / "run.jsonl"
    await ask(gateway(answer()), RunFile(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    await ask(gateway(answer()), RunFile(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_a_file_that_cannot_be_opened_is_an_error_before_the_run(tmp_path):
    model = ScriptedModel([])
    with pytest.raises(OSError, match="missing"):
        await ask(Gateway("openai:m", transport=model), RunFile(tmp_path / "missing" / "run.jsonl"))
    assert model.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_ends_the_tracing_and_not_the_run():
    file = RunFile("/dev/full")
    with pytest.warns(UserWarning, match="/dev/full is not written any more"):
        result = await ask(gateway(answer()), file)
    assert result.reply == "done"
    assert isinstance(file.error, OSError)


async def test_a_closed_file_is_opened_again(run_file):
    await ask(gateway(answer()), run_file)
    run_file.close()
    run_file.close()
    await ask(gateway(answer()), run_file)
    assert len(read_runs(run_file.path)) == 2
    assert repr(run_file) == f"RunFile({str(run_file.path)!r})"


async def test_a_file_keeps_few_of_the_failed_runs_that_a_runner_may_continue(run_file):
    async def fail(messages, **options):
        raise ConnectionError("away")

    for _ in range(70):
        with pytest.raises(ConnectionError):
            await ask(None, run_file, chat=fail)
    writers = [each for each in gc.get_objects() if isinstance(each, RunWriter)]
    assert len([each for each in writers if each.append.__self__ is run_file]) == 64
    assert [run.status for run in read_runs(run_file.path)] == ["error"] * 70


async def test_messages_are_written_once_for_all_runs_of_a_file(run_file):
    for _ in range(2):
        await ask(gateway(answer()), run_file)
    assert [line["type"] for line in lines_of(run_file.path)].count("message") == 3


async def test_one_conversation_may_be_written_to_two_files(tmp_path, new_conversation):
    conversation = new_conversation([answer()] * 3)
    files = [RunFile(tmp_path / "a.jsonl"), RunFile(tmp_path / "b.jsonl", hide=["question 1"])]
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
    await ask(gateway(call(), answer(), api_key=KEY), run_file, made, question=f"My key is {KEY}.")
    content = run_file.path.read_text()
    assert KEY[:12] not in content
    assert "[hidden]" in content
    assert read_run(run_file.path).end.reply == "done"


async def test_a_key_in_headers_options_and_errors_is_hidden(run_file):
    async def chat(messages, **settings):
        raise AuthenticationFailed(f"Authorization: Bearer {KEY} was rejected", status=401)

    with pytest.raises(AuthenticationFailed):
        await ask(None, RunFile(run_file.path, hide=[KEY]), chat=chat)
    one = gateway(401, api_key=KEY, base_url=f"https://user:{KEY}@server/v1?api_key={KEY}")
    options = {"headers": {"x-api-key": KEY}}
    with pytest.raises(AuthenticationFailed):
        await ask(None, run_file, chat=partial(one.chat, provider_options=options))
    content = run_file.path.read_text()
    assert KEY[:12] not in content
    assert [run.status for run in read_runs(run_file.path)] == ["error"] * 2


async def test_a_secret_with_unusual_characters_is_hidden_in_its_escaped_forms(tmp_path):
    secret = 'p"ss\\wörd/+&'
    file = RunFile(tmp_path / "run.jsonl", hide=secret)
    await ask(gateway(answer()), file, question=f"{secret} and p%22ss%5Cw%C3%B6rd%2F%2B%26")
    content = file.path.read_text()
    assert "rd/+" not in content
    assert "ss%5C" not in content
    assert read_run(file.path).turns[0].request.messages[-1].text == "[hidden] and [hidden]"


def wrapped(one):
    """Return functions from messages to replies, behind which a gateway is not visible."""

    async def function(messages, **settings):
        return await one.chat(messages, **settings)

    class Logged:
        async def send(self, messages, **settings):
            return await one.chat(messages, **settings)

        __call__ = send

    return {
        "function": function,
        "partial": partial(one.chat),
        "method": Logged().send,
        "object": Logged(),
    }


@pytest.mark.parametrize("kind", ["function", "partial", "method", "object"])
async def test_keys_are_hidden_behind_any_function(run_file, kind):
    leak = Tool("f", execute=lambda arguments: {"key": KEY}, effect="read")
    one = gateway(call(), answer(), api_key={"openai": KEY, "anthropic": OTHER_KEY})
    await ask(None, run_file, leak, question=f"{OTHER_KEY}!", chat=wrapped(one)[kind])
    content = run_file.path.read_text()
    assert (KEY[:12] in content, OTHER_KEY[:12] in content) == (False, False)
    assert read_run(run_file.path).calls[0].result.message.text == '{"key":"[hidden]"}'


async def test_the_key_of_a_gateway_that_lives_for_one_request_is_hidden(run_file):
    key = "bk-live-5555566666777778888"  # of no other gateway in this process

    async def chat(messages, **settings):
        async with gateway(answer() if len(messages) > 2 else call(), api_key=key) as one:
            return await one.chat(messages, **settings)

    leak = Tool("f", execute=lambda arguments: key, effect="read")
    await ask(None, run_file, leak, chat=chat)
    assert key[:12] not in run_file.path.read_text()
    assert read_run(run_file.path).calls[0].result.message.text == "[hidden]"


async def test_only_the_keys_of_a_known_gateway_are_hidden(run_file):
    other = gateway(api_key=OTHER_KEY)
    await ask(gateway(answer(), api_key=KEY), run_file, question=f"{OTHER_KEY} {KEY}")
    assert read_run(run_file.path).turns[0].request.messages[-1].text == f"{OTHER_KEY} [hidden]"
    assert other.secrets == (OTHER_KEY,)


@pytest.mark.parametrize("hide", ["abc", ["secret", "x"]])
def test_a_text_that_is_too_short_to_hide_is_refused(hide):
    with pytest.raises(ValueError, match="fewer than 4 characters cannot be hidden"):
        RunFile("run.jsonl", hide=hide)
    with pytest.raises(TypeError, match="hide contains texts, not int"):
        RunFile("run.jsonl", hide=[12345678])


async def test_words_that_local_servers_use_as_keys_are_not_hidden(run_file):
    await ask(gateway(answer(), api_key="ollama"), run_file, question="What is ollama?")
    run = read_run(run_file.path)
    assert run.turns[0].request.messages[-1] == Message.user("What is ollama?")


def test_the_secrets_of_a_gateway_have_a_hidden_repr():
    one = gateway(api_key=KEY)
    assert one.secrets == (KEY,)
    assert KEY not in repr(one.secrets)


async def test_functions_are_written_by_name_only(run_file):
    def my_listener(event):
        """Do nothing."""

    await ask(gateway(answer()), run_file, on_event=my_listener)
    options = read_run(run_file.path).options
    assert [name.rpartition(".")[2] for name in options["on_event"]] == ["my_listener"]
    assert (options["max_tool_rounds"], "trace" in options) == (10, False)


# ---- a killed program

PROGRAM = """
import asyncio, os, signal, sys
from stage0_gateway import Gateway, ScriptedModel
from llm_stages import RunFile
from stage3_tools import Tool, ToolLoopDeps, run_tool_loop

def die(arguments):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_async(arguments):
    die(arguments)

async def main(path, execute):
    model = ScriptedModel(['{"tool": "f", "arguments": {}}'])
    gateway = Gateway("openai:m", transport=model)
    deps = ToolLoopDeps(gateway, tool_registry=[Tool("f", execute=execute)])
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Die.", trace=RunFile(path))

asyncio.run(main(sys.argv[1], die if sys.argv[2] == "plain" else die_async))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_killed_program_leaves_a_file_that_shows_the_call(tmp_path, kind):
    program, path = tmp_path / "program.py", tmp_path / "run.jsonl"
    program.write_text(PROGRAM)
    assert run_program([program, path, kind]).returncode == -9
    run = read_run(path)
    (found,) = run.calls
    assert (run.status, found.name, found.effect, found.result) == (
        "unfinished",
        "f",
        "write",
        None,
    )
