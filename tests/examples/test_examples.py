"""Every example runs in a process of its own, without a key and a network, and prints its transcript."""

import json
import os
import pty
import select
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stage0_gateway.offline.local_server import make_server
from stage0_gateway.offline.model import NOTICE
from tests.llm_stages.cli.command import llm_stages
from tests.programs import Program, run_program
from tests.tables import for_each

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "examples"
TRANSCRIPTS = FOLDER / "transcripts"
PROGRAMS = [
    path
    for path in sorted(EXAMPLES.rglob("*.py"))
    if (path.parent.name != "from_scratch" or path.stem == "demo")  # the others are modules
    and path.stem != "database_agent"  # needs a question; has a test of its own
]
SELF_STARTING = [EXAMPLES / "stage1_long_talk.py", EXAMPLES / "stage3_resume.py"]
"""Examples that start themselves again."""

SCRIPTED = {
    "folder_agent",
    *(f"stage3_{each}" for each in ["chain", "native", "resume", "runner", "tools"]),
}
"""Examples whose model is scripted, so no notice of the offline model appears."""


def run(name, *arguments, **environment):
    """Run an example, and return its finished process.

    Args:
        name: The path of the example, in the folder of the examples.
        arguments: The arguments of the command line.
        environment: The environment variables; no others are set.
    """
    environment = {"PATH": os.environ["PATH"], **environment}
    return run_program([EXAMPLES / name, *arguments], environment=environment, warnings="error")


def transcript_of(path):
    return (TRANSCRIPTS / f"{path.stem}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_its_transcript(path):
    done = run(FOLDER / "forked.py", path) if path in SELF_STARTING else run(path)
    assert (done.returncode, done.stdout) == (0, transcript_of(path))
    assert {*done.stderr.splitlines()} == ({NOTICE} if path.stem not in SCRIPTED else set())


@pytest.mark.long
@pytest.mark.parametrize("path", SELF_STARTING, ids=lambda path: path.stem)
def test_an_example_that_starts_itself_prints_its_transcript(path):
    done = run(path)
    assert (done.returncode, done.stdout) == (0, transcript_of(path))


@for_each("path", sorted(EXAMPLES.glob("stage*.py")))
def test_the_docstring_of_a_stage_example_lists_key_points(path):
    assert "Key points:\n  1. " in path.read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "rounds", "words"),
    [
        ("What is the weather in Beijing and in Paris?", 2, ["Beijing", "Paris"]),
        ("What time is it?", 1, ["2026-01-01T12:00:00"]),
        ("Tell me a joke.", 0, ["get_weather"]),
        ("上海的天气怎么样？", 1, ["上海"]),
    ],
)
def test_another_question_has_another_answer(question, rounds, words):
    printed = run("basic_usage.py", "--question", question).stdout
    reply = next(line for line in printed.splitlines() if line.startswith("Assistant reply:"))
    assert f"Tool rounds executed: {rounds}" in printed
    assert [word for word in words if word not in reply] == []


def test_show_messages_prints_the_messages_of_each_request():
    printed = run("basic_usage.py", "--show-messages").stdout
    assert '{"tool": null, "reply": "<your answer>"}' in printed
    assert printed.count("  [system]\n") == 2  # one in each of the two requests
    assert "  [user]\n    [Tool result for get_weather]\n" in printed


def test_the_run_file_of_the_main_example_can_be_replayed_and_shown(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    done = run("basic_usage.py", "--trace", str(path))
    assert done.stdout == transcript_of(EXAMPLES / "basic_usage.py")
    assert llm_stages("replay", path) == 0
    assert llm_stages("inspect", path) == 0
    replayed, page = capsys.readouterr().out.splitlines()
    assert replayed.endswith(": identical.")
    assert page == f"Wrote {tmp_path / 'run.html'}. Open it in a browser."
    assert "What is the weather in Shanghai?" in (tmp_path / "run.html").read_text()


def test_the_offline_model_over_tcp_prints_the_same_transcript_except_for_the_host():
    server = make_server("127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        host = f"127.0.0.1:{server.server_address[1]}"
        over_tcp = run("basic_usage.py", LLM_BASE_URL=f"http://{host}/v1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert over_tcp.stdout.replace(host, "offline") == transcript_of(EXAMPLES / "basic_usage.py")


@pytest.mark.long  # requests are retried after some time
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"LLM_BASE_URL": "http://127.0.0.1:9/v1"}, "Could not connect to 127.0.0.1:9 ("),
        (
            {"LLM_BASE_URL": "http://no-such-host.invalid/v1"},
            "Could not connect to no-such-host.invalid:80 (",
        ),
        ({"LLM_MODEL": "openai:gpt-5-mini"}, "set OPENAI_API_KEY"),
        ({"LLM_MODEL": "gpt-5-mini"}, "Write provider:name"),
    ],
    ids=["refused connection", "unknown host", "no key", "no provider"],
)
def test_invalid_settings_end_with_one_line_and_status_1(settings, text):
    done = run("basic_usage.py", **settings)
    assert done.returncode == 1
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_invalid_key_ends_with_one_line_and_status_1(serve):
    error = {"message": "Incorrect API key provided: sk-wrong-key", "code": "invalid_api_key"}
    url = serve(lambda path: (401, json.dumps({"error": error}).encode()))
    done = run("basic_usage.py", LLM_BASE_URL=f"{url}/v1", OPENAI_API_KEY="sk-wrong-key")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "The model could not be asked: Incorrect API key provided: [hidden] (HTTP 401) "
        "Check the API key, and that it may use this model."
    )
    assert "sk-wrong-key" not in done.stdout


def test_the_database_agent_answers_from_a_database_and_continues_its_session(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("create table people (name text)")
    program = EXAMPLES / "programs" / "database_agent.py"
    for _ in range(2):  # the second time, the session exists
        done = run_program(
            [program, "Show the schema"],
            environment={"PATH": os.environ["PATH"], "LLM_MODEL": "offline:teacher"},
            cwd=tmp_path,
            warnings="error",
        )
        assert (done.returncode, "ResourceWarning" in done.stderr) == (0, False), done.stderr
        assert "CREATE TABLE people (name text)" in done.stdout
        assert "-- completed (1 rounds)" in done.stdout


def in_terminal(**environment):
    """Return the output of basic_usage.py in a terminal."""
    ours, theirs = pty.openpty()
    program = Program(
        [EXAMPLES / "basic_usage.py"],
        stdout=os.ttyname(theirs),
        environment={"PATH": os.environ["PATH"], **environment},
    )
    printed = b""
    while program.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.02)[0]:
            printed += os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)
    assert program.wait() == 0
    return printed.decode().replace("\r\n", "\n")


def test_colors_are_used_in_a_terminal_that_supports_them():
    assert "\033[32m" in in_terminal(TERM="xterm")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colors_are_omitted_where_they_are_unwanted(environment):
    plain = in_terminal(**{"TERM": "xterm", **environment})
    assert plain == transcript_of(EXAMPLES / "basic_usage.py")


TRACED = ["folder_agent.py", *sorted(p.name for p in EXAMPLES.glob("stage3*.py"))]
TRACED.remove("stage3_resume.py")  # its runs are in processes of their own, which it kills
TRACED += [f"programs/{name}.py" for name in ("question", "step_by_step", "typed_answer")]


@pytest.mark.long
@pytest.mark.parametrize("name", TRACED)
def test_the_replay_of_a_run_of_an_example_is_identical(name, tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    done = run_program([FOLDER / "traced.py", path, EXAMPLES / name])
    assert done.returncode == 0, done.stderr
    assert path.exists()
    status = llm_stages("replay", path)
    assert (status, capsys.readouterr().out.endswith(": identical.\n")) == (0, True)
