"""The guides describe every option of a run and every command, not only the reference."""

import re
from dataclasses import fields
from pathlib import Path

from stage3_tools import ToolLoopOptions
from tests.llm_stages.cli.command import llm_stages

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


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
