"""The texts of a model cannot change the terminal, and a question for approval shows the whole call."""

import builtins
import json
import sys

import pytest

from llm_stages.cli.live import LiveOutput, approver
from llm_stages.cli.terminal import Terminal
from stage0_gateway import ToolCall
from stage3_tools import ApprovalRequest, Approve, ReplyText, ToolCalled
from tests.tables import for_each

HARMLESS = ["日本語", "مرحبا", "👩‍💻", "a\tb\nc", "e\u0301", "\u00a0"]


@for_each(
    "text, printed",
    [
        *zip(HARMLESS, HARMLESS, strict=True),
        ("a\ud83db", "a?b"),
        ("a\x1b[2Jb\u202ec", "a\\x1b[2Jb\\u202ec"),
    ],
)
def test_a_reply_is_printed_as_it_is_without_control_characters(capsys, text, printed):
    Terminal().reply(text)
    assert capsys.readouterr().out == f"{printed}\n"


def test_a_table_without_rows_has_its_columns(capsys):
    Terminal().table(("session", "question"), [])
    assert capsys.readouterr().out == "session  question\n"


def test_a_link_of_a_model_shows_its_target(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    Terminal().reply("[bank](https://evil.example)")
    shown = capsys.readouterr().out
    assert "\x1b]8" not in shown
    assert "https://evil.example" in shown


@pytest.mark.parametrize(
    ("text", "arguments", "repeats"),
    [
        ('{"path":"a"}', {"path": "a"}, False),
        ('{"path": "$VAR_REF{{1}}"}', {"path": "a"}, True),
        ("{'path': 'a'}", {"path": "a"}, True),
        (json.dumps({"path": "a" * 300}), {"path": "a" * 300}, True),
    ],
    ids=["shown", "changed", "repaired", "shortened"],
)
def test_the_approver_shows_a_call_unless_the_last_line_shows_all_of_it(
    monkeypatch, capsys, text, arguments, repeats
):
    monkeypatch.setattr(builtins, "input", lambda prompt="": "y")
    live = LiveOutput(Terminal())
    approve = approver(Terminal(), live)
    call = ToolCall("c", "cut", text)
    request = ApprovalRequest("c", "cut", arguments, "write", True)
    full = f"cut {json.dumps(arguments, indent=2)}\nRun it?"
    for shown in (not repeats, False):  # the second time, another line follows the call
        if shown or repeats:
            live.on_event(ToolCalled(turn=0, call=call))
            capsys.readouterr()
        assert approve(request) == Approve()
        assert (full in capsys.readouterr().err) is not shown


def test_the_runs_that_tools_make_are_not_shown(capsys):
    live, own = LiveOutput(Terminal()), {"turn": 1, "run_id": "outer"}
    inner = {"turn": 1, "run_id": "inner", "parent_run_id": "outer", "parent_call_id": "c"}
    live.on_event(ToolCalled(**own, call=ToolCall("c", "research", "{}")))
    live.on_event(ReplyText(**inner, text="Cats sleep.", delta="Cats sleep."))
    live.on_event(ToolCalled(**inner, call=ToolCall("d", "look", "{}")))
    live.on_event(ReplyText(**own, text="They", delta="They"))
    live.finish("They sleep.")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("They sleep.\n", "→ research {}\n")
