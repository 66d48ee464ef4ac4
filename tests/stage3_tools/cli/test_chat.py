"""`llm-stages chat` in a pseudo-terminal."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time

import pytest

from stage0_gateway import Message
from stage1_context import MessageHistory
from stage3_tools.cli.live import reply_in
from stage3_tools.cli.main import main
from tests.programs import Program

pty = pytest.importorskip("pty", reason="pseudo-terminals need a POSIX system")

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class Chat:
    """A chat in a terminal: types lines, and waits for texts that appear."""

    def __init__(self, *options: str, **environment: str) -> None:
        self.terminal, self.other_end = pty.openpty()
        name = os.ttyname(self.other_end)
        self.process = Program(
            ["-m", "stage3_tools", "chat", *options],
            stdin=name,
            stdout=name,
            stderr=name,
            environment={**os.environ, "TERM": "xterm", "COLUMNS": "200", **environment},
        )
        self.seen = self.raw = ""

    def interrupts(self) -> None:
        """Press Ctrl-C: the terminal sends the signal to its programs."""
        os.killpg(self.process.pid, signal.SIGINT)

    def types(self, line: str) -> None:
        os.write(self.terminal, f"{line}\n".encode())

    def waits_for(self, text: str, seconds: float = 20) -> str:
        """Return what appeared until the text; later waits begin after it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not appear; seen: {self.seen!r}"
            read = os.read(self.terminal, 4096).decode(errors="replace")
            self.raw += read
            self.seen += ESCAPES.sub("", read)
        found, _, self.seen = self.seen.partition(text)
        return found + text

    def interrupts_until(self, text: str) -> None:
        """Press Ctrl-C until a text appears: a signal just before the loop waits is seen late."""
        for _ in range(20):
            self.interrupts()
            with contextlib.suppress(AssertionError):
                self.waits_for(text, seconds=1)
                return
        raise AssertionError(f"{text!r} did not appear")

    def leaves(self) -> int:
        return self.process.wait(timeout=20)


@pytest.fixture
def new_chat():
    """`new_chat(*options)` starts a chat; it is killed after the test."""
    chats = []

    def start(*options: str, **environment: str) -> Chat:
        chats.append(Chat(*options, **environment))
        return chats[-1]

    yield start
    for each in chats:
        each.process.kill()
        os.close(each.terminal)
        os.close(each.other_end)


def test_a_question_shows_the_call_the_result_and_the_reply(new_chat, tool_file):
    chat = new_chat("--tools", tool_file)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for('→ get_weather {"city": "Rome"}')
    chat.waits_for('← {"city":"Rome","temp":22}')
    chat.waits_for("get_weather says for Rome: temp 22.")
    chat.waits_for("> ")
    chat.types("/quit")
    assert chat.leaves() == 0


def test_the_last_session_continues(new_chat, tool_file):
    first = new_chat("--tools", tool_file)
    first.waits_for("> ")
    first.types("What is the weather in Rome?")
    first.waits_for("temp 22.")
    first.waits_for("> ")
    first.types("/quit")
    assert first.leaves() == 0
    second = new_chat("-c", "--tools", tool_file)
    second.waits_for("continues (4 messages)")
    second.waits_for("> ")
    second.types("/quit")
    assert second.leaves() == 0


def test_undo_removes_the_last_exchange(new_chat, tool_file):
    chat = new_chat("--tools", tool_file)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("temp 22.")
    chat.waits_for("> ")
    chat.types("/undo")
    chat.waits_for("Removed: What is the weather in Rome?")
    chat.types("/undo")
    chat.waits_for("There is nothing to undo.")


def test_an_approver_rejects_a_write_with_a_reason(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.waits_for("> ")
    chat.types("Delete the file a.txt")
    chat.waits_for("Run it?")
    chat.types("n")
    chat.waits_for("Reason for the model:")
    chat.types("Keep it")
    chat.waits_for("Keep it")
    chat.waits_for("> ")


def test_ctrl_c_at_the_prompt_ends_the_chat(new_chat):
    chat = new_chat()
    chat.waits_for("> ")
    for _ in range(20):  # a signal that arrives before the prompt waits is lost
        chat.interrupts()
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert chat.process.wait(timeout=1) == 0
            return
    pytest.fail("the chat did not end")


SLOW = '''
import asyncio
from stage3_tools import tool


@tool(effect="read")
async def wait_long(seconds: int) -> str:
    """Wait a long time."""
    print("waiting", flush=True)
    await asyncio.sleep(600)
    return "done"


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"22 degrees in {city}"
'''


def test_ctrl_c_stops_a_reply_and_the_session_continues(new_chat, tmp_path, capsys):
    path = tmp_path / "slow_tools.py"
    path.write_text(SLOW, encoding="utf-8")
    chat = new_chat("--tools", str(path))
    chat.waits_for("> ")
    chat.types("Wait long, 5 seconds")
    chat.waits_for("waiting")
    chat.interrupts_until("Stopped.")
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("22 degrees in Rome.")
    chat.waits_for("> ")
    chat.types("/quit")
    assert chat.leaves() == 0
    assert main(["sessions"]) == 0
    session = capsys.readouterr().out.splitlines()[1].split()[0]
    assert main(["sessions", session, "--json"]) == 0
    messages = json.loads(capsys.readouterr().out)
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "tool", "assistant"]
    assert MessageHistory(map(Message.from_dict, messages)).check_history() == []


def test_ctrl_c_at_a_question_for_approval_stops_the_reply(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.waits_for("> ")
    chat.types("Delete the file a.txt")
    chat.waits_for("Run it?")
    chat.interrupts_until("Stopped.")
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("says for Rome: temp 22.")


def test_undo_twice_removes_two_exchanges(new_chat, tool_file):
    chat = new_chat("--tools", tool_file)
    for city in ("Rome", "Oslo"):
        chat.waits_for("> ")
        chat.types(f"What is the weather in {city}?")
        chat.waits_for("temp 22.")
    for city in ("Oslo", "Rome"):
        chat.waits_for("> ")
        chat.types("/undo")
        chat.waits_for(f"Removed: What is the weather in {city}?")
    chat.types("/undo")
    chat.waits_for("There is nothing to undo.")


def test_a_call_is_edited_and_a_tool_is_always_approved(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.waits_for("> ")
    chat.types("Delete the file a.txt")
    chat.waits_for("Run it?")
    chat.types("e")
    chat.waits_for("Arguments as JSON:")
    chat.types('{"path": "b.txt"}')
    chat.waits_for("deleted b.txt")
    chat.waits_for("> ")
    chat.types("Delete the file c.txt")
    chat.waits_for("Run it?")
    chat.types("a")
    chat.waits_for("deleted c.txt.")
    chat.waits_for("> ")
    chat.types("Delete the file d.txt")
    chat.waits_for("deleted d.txt.")
    assert "Run it?" not in chat.seen


@pytest.mark.parametrize(("value", "is_colored"), [("", True), ("1", False)])
def test_no_color_is_respected(new_chat, tool_file, value, is_colored):
    chat = new_chat("--tools", tool_file, NO_COLOR=value)
    chat.waits_for("> ")
    chat.types("What is the weather in Rome?")
    chat.waits_for("temp 22.")
    assert bool(re.search(r"\x1b\[3\d", chat.raw)) == is_colored


def test_unknown_commands_list_the_known_ones(new_chat):
    chat = new_chat()
    chat.waits_for("> ")
    chat.types("/help")
    chat.waits_for("/tools  /undo  /new  /quit")


def test_sessions_lists_and_prints_conversations(new_chat, tool_file, capsys):
    chat = new_chat("--tools", tool_file)
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
