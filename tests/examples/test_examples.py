"""Every example runs as a person would run it, with no key and no network, and prints its
transcript."""

import functools
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stage0_gateway.offline.local_server import make_server

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TRANSCRIPTS = Path(__file__).parent / "transcripts"


@functools.cache
def run(name, *arguments, **environment):
    """The finished process of an example; the environment holds nothing but what is given. Runs
    once for all."""
    inherited = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ}
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**inherited, "PYTHONUTF8": "1", "PYTHONWARNINGS": "error", **environment},
        timeout=60,
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_an_example_prints_its_transcript(path, tmp_path):
    if path.stem == "database_agent":  # it needs a question; see its own test
        return
    done = run(path.relative_to(EXAMPLES))
    assert (done.returncode, done.stdout) == (
        0,
        (TRANSCRIPTS / f"{path.stem}.txt").read_text(encoding="utf-8"),
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("stage*.py")), ids=lambda path: path.stem)
def test_an_example_of_a_stage_names_its_key_points(path):
    assert "Key points:\n  1. " in path.read_text()


def test_the_main_job_prints_what_was_promised():
    printed = run("basic_usage.py").stdout
    for line in (
        "Registered tools: ['get_weather', 'get_time']",
        "Direct tool call get_weather(Beijing): {'city': 'Beijing', 'temp': 22, 'unit': 'celsius'}",
        "Direct tool call get_time(): 2026-01-01T12:00:00+00:00",
        "Tool rounds executed: 1",
    ):
        assert line in printed.splitlines()
    assert re.search(r"^Assistant reply: .*Shanghai.*22", printed, re.MULTILINE)


def test_the_embedded_model_says_that_it_is_one():
    assert "rules, not from a language model" in run("basic_usage.py").stderr


@pytest.mark.parametrize(
    ("question", "rounds", "said"),
    [
        ("What is the weather in Beijing and in Paris?", 2, ["Beijing", "Paris"]),
        ("What time is it?", 1, ["2026-01-01T12:00:00"]),
        ("Tell me a joke.", 0, ["get_weather"]),
        ("上海的天气怎么样？", 1, ["上海"]),
    ],
)
def test_another_question_gets_another_answer(question, rounds, said):
    printed = run("basic_usage.py", "--question", question).stdout
    reply = next(line for line in printed.splitlines() if line.startswith("Assistant reply:"))
    assert f"Tool rounds executed: {rounds}" in printed
    assert [word for word in said if word not in reply] == []


def test_show_messages_prints_exactly_what_the_model_sees():
    printed = run("basic_usage.py", "--show-messages").stdout
    assert '{"tool": null, "reply": "<your answer>"}' in printed
    assert printed.count("  [system]\n") == 2  # one in each of the two requests
    assert "  [user]\n    [Tool result for get_weather]\n" in printed


def test_the_embedded_model_over_tcp_gives_the_same_transcript_but_for_the_host():
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
    assert over_tcp.stdout.replace(host, "offline") == run("basic_usage.py").stdout


CANNOT_WORK = {
    "refused connection": (
        {"LLM_BASE_URL": "http://127.0.0.1:9/v1"},
        "Could not connect to 127.0.0.1",
    ),
    "unknown host": (
        {"LLM_BASE_URL": "http://no-such-host.invalid/v1"},
        "Could not connect to no-such-host.invalid",
    ),
    "no key": ({"LLM_MODEL": "openai:gpt-5-mini"}, "set OPENAI_API_KEY"),
    "no provider": ({"LLM_MODEL": "gpt-5-mini"}, "Write provider:name"),
}


@pytest.fixture(scope="module")
def failed():
    """`failed[case]` is the process that will have failed. All run at once: some wait before they
    try again."""
    with ThreadPoolExecutor() as threads:
        yield {
            case: threads.submit(run, "basic_usage.py", **environment)
            for case, (environment, _) in CANNOT_WORK.items()
        }


@pytest.mark.parametrize("case", CANNOT_WORK)
def test_what_cannot_work_ends_with_one_clear_sentence_and_status_1(failed, case):
    done, said = failed[case].result(), CANNOT_WORK[case][1]
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_bad_key_ends_with_one_clear_sentence_and_status_1(serve):
    said = {"message": "Incorrect API key provided: sk-wrong-key", "code": "invalid_api_key"}
    url = serve(lambda path: (401, json.dumps({"error": said}).encode()))
    done = run("basic_usage.py", LLM_BASE_URL=f"{url}/v1", OPENAI_API_KEY="sk-wrong-key")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "The model could not be asked: Incorrect API key provided: [hidden] (HTTP 401) "
        "Check the API key, and that it may use this model."
    )
    assert "sk-wrong-key" not in done.stdout


def test_the_database_agent_answers_from_a_database_and_remembers(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table people (name text)")
    program = EXAMPLES / "programs" / "database_agent.py"
    for _ in range(2):  # the second time, the session exists
        done = subprocess.run(
            [sys.executable, program, "Show the schema"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "LLM_MODEL": "offline:teacher"},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "CREATE TABLE people (name text)" in done.stdout
        assert "-- completed (1 rounds)" in done.stdout


def in_terminal(**environment):
    """The output of basic_usage.py in a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, EXAMPLES / "basic_usage.py"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1", **environment},
    )
    os.close(theirs)
    read = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        read += piece
    os.close(ours)
    assert done.wait(60) == 0
    return read.decode().replace("\r\n", "\n")


def test_colors_are_used_in_a_terminal_that_supports_them():
    assert "\033[32m" in in_terminal(TERM="xterm")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colors_are_omitted_where_they_are_unwanted(environment):
    plain = in_terminal(**{"TERM": "xterm", **environment})
    assert plain == (TRANSCRIPTS / "basic_usage.txt").read_text()
