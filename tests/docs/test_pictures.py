"""The README's pictures of the page show a repair, parallel calls and feedback, and are small."""

import importlib.util
import struct
from pathlib import Path

import pytest

from stage3_tools import read_run

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.fixture(scope="module")
def program():
    """The program that takes the pictures."""
    spec = importlib.util.spec_from_file_location("run_page", PICTURES / "run_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_run_of_the_pictures_has_a_feedback_a_repair_and_parallel_calls(
    program, tmp_path
):
    await program.record(tmp_path / "run.jsonl", pace=0.02)
    first, second, last = read_run(tmp_path / "run.jsonl").turns
    assert "did you mean `tool`?" in first.decision.feedback
    assert [each.name for each in second.decision.repairs] == ["trailing_comma"]
    starts, ends = [call.at for call in second.calls], [call.result.at for call in second.calls]
    assert len(starts) == 3
    assert max(starts) < min(ends)
    assert last.decision.reply == "It is warmest in Cairo: 31 degrees."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_of_the_page_is_small(theme):
    content = (PICTURES / f"run-{theme}.png").read_bytes()
    assert struct.unpack(">II", content[16:24]) == (1280, 900)
    assert len(content) < 150_000
