"""`llm-stages chat` in a pseudo-terminal, as a person uses it."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from stage3_tools.cli.live import reply_in
from stage3_tools.cli.main import main

pty = pytest.importorskip("pty", reason="pseudo-terminals need a POSIX system")

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class Person:
    """A person at a terminal: types lines, and waits for what appears."""

    def __init__(self, *options: str) -> None:
        self.terminal, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stage3_tools", "chat", *options],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        )
        os.close(other)
        self.seen = ""

    def types(self, line: str) -> None:
        os.write(self.terminal, f"{line}\n".encode())

    def waits_for(self, text: str, seconds: float = 20) -> str:
        """Return what appeared until the text; later waits begin after it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not appear; seen: {self.seen!r}"
            self.seen += ESCAPES.sub("", os.read(self.terminal, 4096).decode(errors="replace"))
        found, _, self.seen = self.seen.partition(text)
        return found + text

    def leaves(self) -> int:
        return self.process.wait(timeout=20)


@pytest.fixture
def person():
    """`person(*options)` starts a chat; it is killed after the test."""
    people = []

    def start(*options: str) -> Person:
        people.append(Person(*options))
        return people[-1]

    yield start
    for each in people:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        with contextlib.suppress(OSError):
            os.close(each.terminal)


def test_a_question_shows_the_call_the_result_and_the_reply(person, tool_file):
    chat = person("--tools", tool_file)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for('→ get_weather {"city": "Rome"}')
    chat.waits_for('← {"city":"Rome","temp":22}')
    chat.waits_for("get_weather says for Rome: temp 22.")
    chat.waits_for("> ")
    chat.types("/quit")
    assert chat.leaves() == 0


def test_the_last_session_continues(person, tool_file):
    first = person("--tools", tool_file)
    first.waits_for("> ")
    first.types("What is the weather in Rome?")
    first.waits_for("temp 22.")
    first.waits_for("> ")
    first.types("/quit")
    assert first.leaves() == 0
    second = person("-c", "--tools", tool_file)
    second.waits_for("continues (4 messages)")
    second.waits_for("> ")
    second.types("/quit")
    assert second.leaves() == 0


def test_undo_removes_the_last_exchange(person, tool_file):
    chat = person("--tools", tool_file)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("temp 22.")
    chat.waits_for("> ")
    chat.types("/undo")
    chat.waits_for("Removed: What is the weather in Rome?")
    chat.types("/undo")
    chat.waits_for("There is nothing to undo.")


def test_an_approver_rejects_a_write_with_a_reason(person, tool_file):
    chat = person("--tools", tool_file, "--approve")
    chat.waits_for("> ")
    chat.types("Delete the file a.txt")
    chat.waits_for("Run it?")
    chat.types("n")
    chat.waits_for("Reason for the model:")
    chat.types("Keep it")
    chat.waits_for("Keep it")
    chat.waits_for("> ")


def test_ctrl_c_at_the_prompt_ends_the_chat(person):
    chat = person()
    chat.waits_for("> ")
    while chat.process.poll() is None:  # a signal that arrives before the prompt waits is lost
        os.killpg(chat.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            chat.process.wait(timeout=1)
    assert chat.leaves() == 0


def test_unknown_commands_list_the_known_ones(person):
    chat = person()
    chat.waits_for("> ")
    chat.types("/help")
    chat.waits_for("/tools  /undo  /new  /quit")


def test_sessions_lists_and_prints_conversations(person, tool_file, capsys):
    chat = person("--tools", tool_file)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("temp 22.")
    chat.waits_for("> ")
    chat.types("/quit")
    assert chat.leaves() == 0
    assert main(["sessions"]) == 0
    listed = capsys.readouterr().out.splitlines()[1]
    assert listed.endswith("What is the weather in Rome?")
    assert main(["sessions", listed.split()[0]]) == 0
    assert "user: What is the weather in Rome?" in capsys.readouterr().out


def test_an_unknown_session_is_an_error(capsys):
    assert main(["sessions", "no-such-session"]) == 1
    assert "no-such-session" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ('{"tool": null, "reply": "It is su', "It is su"),
        ('{"tool": null, "reply": "a \\"b', 'a "b'),
        ('{"tool": "get_weather", "arguments": {"reply": "x"', ""),
        ('{"tool": "get', ""),
        ("", ""),
    ],
)
def test_the_reply_is_read_from_incomplete_json(text, reply):
    assert reply_in(text) == reply
