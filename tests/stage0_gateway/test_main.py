import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from stage0_gateway.__main__ import main
from stage0_gateway.offline.faults import FAULTS


def test_serve_says_where_it_listens_answers_and_stops_cleanly_on_ctrl_c() -> None:
    command = [sys.executable, "-m", "stage0_gateway", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        lines = [server.stdout.readline().strip(), server.stdout.readline().strip()]
        url = lines[1].removeprefix("LLM_BASE_URL=")
        models = httpx.get(f"{url}/models", trust_env=False).json()["data"]
        server.send_signal(signal.SIGINT)
        assert (server.wait(10), server.stdout.read(), server.stderr.read()) == (
            0,
            "Stopped.\n",
            "",
        )
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", url)
    assert lines[0] == (
        f"Listening on {url} - answers come from rules, not from a language model. Ctrl-C stops it."
    )
    assert models == [{"id": "teacher", "object": "model", "created": 0, "owned_by": "llm-stages"}]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line prints when it refuses its arguments."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_port_in_use_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused(["serve", "--port", str(port)], capsys)
    assert f"cannot listen on 127.0.0.1:{port}: " in text
    assert text.endswith("Try another --port, or 0.\n")


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_an_invalid_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "port" in refused(["serve", f"--port={port}"], capsys)


def test_faults_are_served_in_their_order() -> None:
    command = [
        sys.executable,
        "-m",
        "stage0_gateway",
        "serve",
        "--port",
        "0",
        "--faults",
        "overloaded,none",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = [server.stdout.readline().strip() for _ in range(2)][1].removeprefix("LLM_BASE_URL=")
        body = {"messages": [{"role": "user", "content": "hi"}]}
        seen = [
            httpx.post(f"{url}/chat/completions", json=body, trust_env=False).status_code
            for _ in range(2)
        ]
        server.send_signal(signal.SIGINT)
        server.wait(10)
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
    for name, fault in FAULTS.items():
        assert re.search(rf"^  {name} +{re.escape(fault.description)}$", shown, re.MULTILINE)
