"""The guides describe every option, event and command, not only the reference."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from stage3_tools import LoopEvent, ToolLoopOptions
from tests.llm_stages.cli.command import llm_stages
from tests.tables import for_each

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
OF_ALL_EVENTS = {"turn", "run_id", "parent_run_id", "parent_call_id", "at"}


def test_a_guide_describes_every_option_of_a_run():
    text = "".join(page.read_text(encoding="utf-8") for page in GUIDES.glob("*.md"))
    names = [field.name for field in fields(ToolLoopOptions)]
    assert [name for name in names if not re.search(rf"`{name}\b|\b{name}=", text)] == []


def test_the_guide_to_the_command_line_describes_every_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no wrapped lines
    assert llm_stages("--help") == 0
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    guide = (GUIDES / "command-line.md").read_text(encoding="utf-8")
    assert "ask" in commands
    assert [name for name in commands if f"llm-stages {name}" not in guide] == []


@for_each("event", get_args(LoopEvent))
def test_the_guide_to_events_lists_the_fields_of_every_event_and_those_for_browsers(event):
    guide = (GUIDES / "events.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{event.name}` \| `{event.__name__}` \|(.*)\|$", guide, re.MULTILINE)
    assert row, f"{event.__name__} has no row"
    _, own, public = (re.findall(r"`(\w+)`", cell) for cell in row[1].split("|"))
    names = [field.name for field in fields(event) if field.name not in OF_ALL_EVENTS]
    assert own[: len(names)] == names
    assert all(hasattr(event, computed) for computed in own[len(names) :])
    assert public == [*event.public]
