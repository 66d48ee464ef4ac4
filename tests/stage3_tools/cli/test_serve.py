import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

import httpx
import pytest

from stage0_gateway import offline_faults
from stage3_tools.cli.main import main


@contextmanager
def serving(*options: str, sigint: signal.Handlers = signal.SIG_DFL) -> Iterator[Popen[str]]:
    """Run the server as a subprocess, which is killed at the end of the block.

    Args:
        options: Options of the command line.
        sigint: The action of SIGINT. Shells that run the tests in the background ignore it, and
            subprocesses inherit that.
    """
    server = Popen(
        [sys.executable, "-m", "stage3_tools", "serve", "--port", "0", *options],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, sigint),
    )
    with server:
        try:
            yield server
        finally:
            server.kill()


def lines(server: Popen[str]) -> list[str]:
    """The two lines that the server prints when it is ready."""
    assert server.stdout is not None
    return [server.stdout.readline().strip() for _ in range(2)]


def test_serve_prints_its_url_and_replies() -> None:
    with serving() as server:
        first, second = lines(server)
        url = second.removeprefix("LLM_BASE_URL=")
        models = httpx.get(f"{url}/models", trust_env=False).json()["data"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", url)
    assert first == (
        f"Listening on {url} - answers come from rules, not from a language model. Ctrl-C stops it."
    )
    assert models == [{"id": "teacher", "object": "model", "created": 0, "owned_by": "llm-stages"}]


@pytest.mark.parametrize(
    ("sigint", "sent"),
    [
        (signal.SIG_DFL, signal.SIGINT),
        (signal.SIG_DFL, signal.SIGTERM),
        (signal.SIG_IGN, signal.SIGTERM),
    ],
    ids=["Ctrl-C", "kill", "kill of a background program that ignores Ctrl-C"],
)
def test_the_server_stops_cleanly(sigint: signal.Handlers, sent: signal.Signals) -> None:
    with serving(sigint=sigint) as server:
        lines(server)
        server.send_signal(sent)
        printed = server.communicate(timeout=10)
        assert (server.returncode, printed) == (0, ("Stopped.\n", ""))


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line prints when it refuses its arguments."""
    try:
        status: object = main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    return capsys.readouterr().err


def test_a_port_in_use_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused(["serve", "--port", str(port)], capsys)
    assert f"Cannot listen on 127.0.0.1:{port}: " in text
    assert text.endswith("Try another --port, or 0.\n")


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_an_invalid_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "port" in refused(["serve", f"--port={port}"], capsys)


def test_faults_are_served_in_their_order() -> None:
    with serving("--faults", "overloaded,none") as server:
        url = lines(server)[1].removeprefix("LLM_BASE_URL=")
        body = {"messages": [{"role": "user", "content": "hi"}]}
        seen = [
            httpx.post(f"{url}/chat/completions", json=body, trust_env=False).status_code
            for _ in range(2)
        ]
    assert seen == [503, 200]


def test_an_unknown_fault_is_refused_before_the_port_is_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = refused(["serve", "--faults", "fenced,overload"], capsys)
    assert "Unknown fault 'overload'. The faults are none, fenced," in text


def test_the_help_lists_every_fault_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = capsys.readouterr().out
    for name, description in offline_faults().items():
        assert re.search(rf"^  {name} +{re.escape(description)}$", shown, re.MULTILINE)


def test_the_root_of_the_server_explains_it_in_a_browser() -> None:
    with serving() as server:
        url = lines(server)[1].removeprefix("LLM_BASE_URL=").removesuffix("v1")
        page = httpx.get(url, trust_env=False)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "not a language model" in page.text
