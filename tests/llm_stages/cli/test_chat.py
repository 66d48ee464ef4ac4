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
from tests.llm_stages.cli.command import llm_stages, write_tools
from tests.programs import Program

pty = pytest.importorskip("pty", reason="pseudo-terminals need a POSIX system")

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
COLOR = re.compile(r"\x1b\[3\d")
QUESTION = "What is the weather in Rome?"


class Chat:
    """A chat in a terminal: types lines, and waits for texts that appear."""

    def __init__(self, *options: object, no_color: str = "") -> None:
        self.terminal, self.other_end = pty.openpty()
        name = os.ttyname(self.other_end)
        settings = {"TERM": "xterm", "COLUMNS": "200", "NO_COLOR": no_color}
        self.process = Program(
            ["-m", "llm_stages", "chat", *map(str, options)],
            stdin=name,
            stdout=name,
            stderr=name,
            environment={**os.environ, **settings},
        )
        self.seen = self.raw = ""

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends the signal to its programs."""
        os.killpg(self.process.pid, signal.SIGINT)

    def type_line(self, line: str) -> None:
        os.write(self.terminal, f"{line}\n".encode())

    def ask(self, question: str) -> None:
        """Type a question at the prompt."""
        self.wait_for("> ")
        self.type_line(question)

    def wait_for(self, text: str, seconds: float = 20) -> None:
        """Wait for a text to appear; later waits begin after it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not appear; seen: {self.seen!r}"
            read = os.read(self.terminal, 4096).decode(errors="replace")
            self.raw += read
            self.seen += ESCAPES.sub("", read)
        _, _, self.seen = self.seen.partition(text)

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C until a text appears: a signal just before the loop waits is seen late."""
        for _ in range(20):
            self.interrupt()
            with contextlib.suppress(AssertionError):
                self.wait_for(text, seconds=1)
                return
        raise AssertionError(f"{text!r} did not appear")

    def quit(self) -> None:
        self.ask("/quit")
        assert self.process.wait(timeout=20) == 0


@pytest.fixture
def new_chat():
    """`new_chat(*options)` starts a chat; it is killed after the test."""
    chats = []

    def start(*options: object, no_color: str = "") -> Chat:
        chats.append(Chat(*options, no_color=no_color))
        return chats[-1]

    yield start
    for each in chats:
        each.process.kill()
        os.close(each.terminal)
        os.close(each.other_end)


def test_a_question_shows_the_call_the_result_and_the_reply_in_colors(new_chat, tool_file):
    chat = new_chat("--tools", tool_file)
    chat.ask(QUESTION)
    chat.wait_for('→ get_weather {"city": "Rome"}')
    chat.wait_for('← {"city":"Rome","temp":22}')
    chat.wait_for("get_weather says for Rome: temp 22.")
    chat.quit()
    assert COLOR.search(chat.raw)


def test_no_color_is_respected(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, no_color="1")
    chat.ask(QUESTION)
    chat.wait_for("temp 22.")
    assert not COLOR.search(chat.raw)


def test_unknown_commands_list_the_known_ones(new_chat):
    chat = new_chat()
    chat.ask("/help")
    chat.wait_for("/tools  /undo  /new  /quit")


# ---- sessions


def test_the_last_session_is_listed_printed_and_continued(new_chat, tool_file, capsys):
    first = new_chat("--tools", tool_file)
    first.ask(QUESTION)
    first.wait_for("temp 22.")
    first.quit()
    assert llm_stages("sessions") == 0
    listed = capsys.readouterr().out.splitlines()[1]
    assert listed.endswith(QUESTION)
    assert llm_stages("sessions", listed.split()[0]) == 0
    assert f"user: {QUESTION}" in capsys.readouterr().out
    second = new_chat("-c", "--tools", tool_file)
    second.wait_for("continues (4 messages)")
    second.quit()


def test_an_unknown_session_is_an_error(capsys):
    assert llm_stages("sessions", "no-such-session") == 1
    assert "no-such-session" in capsys.readouterr().err


def test_undo_removes_one_exchange_each_time(new_chat, tool_file):
    chat = new_chat("--tools", tool_file)
    for city in ("Rome", "Oslo"):
        chat.ask(f"What is the weather in {city}?")
        chat.wait_for("temp 22.")
    for city in ("Oslo", "Rome"):
        chat.ask("/undo")
        chat.wait_for(f"Removed: What is the weather in {city}?")
    chat.type_line("/undo")
    chat.wait_for("There is nothing to undo.")


# ---- approval


def test_an_approver_rejects_a_write_with_a_reason(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.ask("Delete the file a.txt")
    chat.wait_for("Run it?")
    chat.type_line("n")
    chat.wait_for("Reason for the model:")
    chat.type_line("Keep it")
    chat.wait_for("Keep it")
    chat.wait_for("> ")


def test_a_call_is_edited_and_a_tool_is_always_approved(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.ask("Delete the file a.txt")
    chat.wait_for("Run it?")
    chat.type_line("e")
    chat.wait_for("Arguments as JSON:")
    chat.type_line('{"path": "b.txt"}')
    chat.wait_for("deleted b.txt")
    chat.ask("Delete the file c.txt")
    chat.wait_for("Run it?")
    chat.type_line("a")
    chat.wait_for("deleted c.txt.")
    chat.ask("Delete the file d.txt")
    chat.wait_for("deleted d.txt.")  # without a question


# ---- Ctrl-C


def test_ctrl_c_at_the_prompt_ends_the_chat(new_chat):
    chat = new_chat()
    chat.wait_for("> ")
    for _ in range(20):  # a signal that arrives before the prompt waits is lost
        chat.interrupt()
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
    await asyncio.Event().wait()


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"22 degrees in {city}"
'''


def test_ctrl_c_stops_a_reply_and_the_session_continues(new_chat, tmp_path, capsys):
    chat = new_chat("--tools", write_tools(tmp_path, SLOW))
    chat.ask("Wait long, 5 seconds")
    chat.wait_for("waiting")
    chat.interrupt_until("Stopped.")
    chat.ask(QUESTION)
    chat.wait_for("22 degrees in Rome.")
    chat.quit()
    assert llm_stages("sessions") == 0
    session = capsys.readouterr().out.splitlines()[1].split()[0]
    assert llm_stages("sessions", session, "--json") == 0
    messages = json.loads(capsys.readouterr().out)
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "tool", "assistant"]
    assert MessageHistory(map(Message.from_dict, messages)).check_history() == []


def test_ctrl_c_at_a_question_for_approval_stops_the_reply(new_chat, tool_file):
    chat = new_chat("--tools", tool_file, "--approve")
    chat.ask("Delete the file a.txt")
    chat.wait_for("Run it?")
    chat.interrupt_until("Stopped.")
    chat.ask(QUESTION)
    chat.wait_for("says for Rome: temp 22.")
