"""Fixtures for other programs: model servers on loopback, and stores that processes share.

aimock is an independent mock model server; see test_aimock.py. It implements four formats as its
authors understand them, so it is a second opinion on ours. Its questions and answers are in
`aimock/fixtures.json`. It is installed once, into `.venv`. `base_url` is the project's own server,
for other clients.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.real import locations
from tests.real.peers import FORMATS, Peer

ROOT = Path(__file__).parents[2]
SETTINGS = Path(__file__).parent / "aimock"
INSTALLED = ROOT / ".venv" / "aimock"
QUIET = ("--no-audit", "--no-fund", "--no-package-lock")
NPM = ("npm", "install", *QUIET, "--ignore-scripts", "--engine-strict", "--fetch-retries=1")
NO_NETWORK = "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT"


postgres = locations.postgres  # the fixture that starts the server, or skips


@pytest.fixture(scope="session")
def base_url():
    """The URL of the embedded model's server, started from the command line; it ends in /v1."""
    command = [sys.executable, "-m", "llm_stages", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            server.stdout.readline()
            yield re.fullmatch(r"LLM_BASE_URL=(\S+)\n", server.stdout.readline())[1]
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def aimock():
    """The URL of the running server."""
    if missing := [name for name in ("node", "npm") if not shutil.which(name)]:
        pytest.skip(f"{' and '.join(missing)} not installed; aimock needs Node 20.15 or later")
    install()
    command = [
        INSTALLED / "node_modules" / ".bin" / "aimock",
        "--config",
        "aimock.json",
        "--port",
        "0",
    ]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("AIMOCK_")}
    with subprocess.Popen(
        command, cwd=SETTINGS, env=outer, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            line = server.stdout.readline()
            ready = re.fullmatch(r"aimock server listening on (\S+)\n", line)
            assert ready, f"aimock printed {line!r} instead of its URL; see its stderr"
            yield ready[1]
        finally:
            server.terminate()


@pytest.fixture(params=FORMATS)
def peer(request, aimock):
    return Peer(aimock, request.param)


@pytest.fixture(params=["whole", "streamed"])
def ask(request):
    """`await ask(gateway, messages, …)` returns the reply of `chat`, or the final message of a
    stream."""

    async def whole(gateway, messages, **options):
        return await gateway.chat(messages, **options)

    async def streamed(gateway, messages, **options):
        async with gateway.stream(messages, **options) as stream:
            return await stream.final_message()

    return {"whole": whole, "streamed": streamed}[request.param]


def install():
    """Install aimock with npm, unless this version of package.json is installed."""
    wanted, stamp = (SETTINGS / "package.json").read_text(), INSTALLED / ".installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    INSTALLED.mkdir(parents=True, exist_ok=True)
    (INSTALLED / "package.json").write_text(wanted)
    done = subprocess.run(NPM, cwd=INSTALLED, capture_output=True, text=True, timeout=300)
    if done.returncode and re.search(rf"npm (?:error|ERR!) code (?:{NO_NETWORK})", done.stderr):
        pytest.skip("aimock is not installed, and no npm registry can be reached from here")
    if done.returncode and "EBADENGINE" in done.stderr:
        pytest.skip("aimock needs Node 20.15 or later")
    assert done.returncode == 0, done.stderr
    stamp.write_text(wanted)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request):
    """The kind of a store that other processes can open."""
    return request.param


@pytest.fixture
def fresh(kind, tmp_path, request):
    """`await fresh()` returns a new, empty location of sessions."""
    if kind == "postgres":
        return partial(locations.fresh_schema, request.getfixturevalue("postgres"))
    numbers = count()

    async def fresh_file():
        return str(tmp_path / f"{next(numbers)}.sqlite")

    return fresh_file
