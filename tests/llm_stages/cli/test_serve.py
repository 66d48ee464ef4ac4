"""`llm-stages serve` serves the rule-based model until a signal stops it."""

import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

from stage0_gateway import offline_faults
from tests.llm_stages.cli.command import llm_stages
from tests.programs import Program

COMMAND = ["-m", "llm_stages"]
IN_THE_BACKGROUND = """
import signal, sys
from llm_stages.cli.main import main

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells start programs in the background
sys.exit(main(sys.argv[1:]))
"""


class Server:
    """A running server.

    Attributes:
        greeting: The first line that it has printed.
        url: The URL of its second line.
        stdout: The rest of its output.
        stderr: The path of its errors.
    """

    def __init__(self, folder: Path, command: list[str | Path], *options: str) -> None:
        pipe, self.stderr = folder / "stdout", folder / "stderr"
        os.mkfifo(pipe)
        self.program = Program(
            [*command, "serve", "--port", "0", *options], stdout=pipe, stderr=self.stderr
        )
        self.stdout = pipe.open(encoding="utf-8")
        self.greeting = self.stdout.readline().strip()
        self.url = self.stdout.readline().strip().removeprefix("LLM_BASE_URL=")


@pytest.fixture
def serving(tmp_path):
    """`serving(command, *options)` starts a server, which is killed after the test."""
    running = []

    def start(command=COMMAND, *options):
        running.append(Server(tmp_path, command, *options))
        return running[-1]

    yield start
    for server in running:
        server.program.kill()
        server.stdout.close()


def test_serve_prints_its_url_and_replies(serving):
    server = serving()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", server.url)
    assert server.greeting == (
        f"Listening on {server.url} - answers come from rules, not from a language model. "
        "Ctrl-C stops it."
    )
    models = httpx.get(f"{server.url}/models", trust_env=False).json()["data"]
    assert models == [{"id": "teacher", "object": "model", "created": 0, "owned_by": "llm-stages"}]


def test_the_root_of_the_server_explains_it_in_a_browser(serving):
    page = httpx.get(serving().url.removesuffix("v1"), trust_env=False)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "not a language model" in page.text


def test_faults_are_served_in_their_order(serving):
    url = serving(COMMAND, "--faults", "overloaded,none").url
    body = {"messages": [{"role": "user", "content": "hi"}]}
    replies = [httpx.post(f"{url}/chat/completions", json=body, trust_env=False) for _ in range(2)]
    assert [each.status_code for each in replies] == [503, 200]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_cleanly(serving, sent):
    assert stopped(serving(), sent) == (0, "Stopped.\n", "")


def test_a_server_in_the_background_ignores_ctrl_c(serving, tmp_path):
    program = tmp_path / "background.py"
    program.write_text(IN_THE_BACKGROUND)
    server = serving([program])
    os.kill(server.program.pid, signal.SIGINT)
    assert httpx.get(f"{server.url}/models", trust_env=False).status_code == 200
    assert stopped(server, signal.SIGTERM) == (0, "Stopped.\n", "")


def stopped(server, sent):
    """Send a signal; return the exit status, the output and the errors."""
    os.kill(server.program.pid, sent)
    return server.program.wait(), server.stdout.read(), server.stderr.read_text()


def refused(capsys, *options):
    """Return the reason why the command refuses its options."""
    assert llm_stages("serve", *options) == 2
    return capsys.readouterr().err


def test_a_port_in_use_is_refused_with_advice(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused(capsys, "--port", port)
    assert f"Cannot listen on 127.0.0.1:{port}: " in text
    assert text.endswith("Try another --port, or 0.\n")


def test_an_unknown_fault_is_refused_before_the_port_is_opened(capsys):
    text = refused(capsys, "--faults", "fenced,overload")
    assert "Unknown fault 'overload'. The faults are none, fenced," in text


def test_the_help_lists_every_fault_with_what_it_does(capsys):
    assert llm_stages("serve", "--help") == 0
    shown = capsys.readouterr().out
    for name, description in offline_faults().items():
        assert re.search(rf"^  {name} +{re.escape(description)}$", shown, re.MULTILINE)
