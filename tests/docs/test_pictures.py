"""The README's pictures of the page show a repair, parallel calls and feedback, and are small."""

import struct
from pathlib import Path

import pytest

from llm_stages import read_run
from tests.stage3_tools.clock import without_waiting

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@without_waiting
async def test_the_run_of_the_pictures_has_a_feedback_a_repair_and_parallel_calls(tmp_path):
    from docs.pictures.run_page import record

    await record(tmp_path / "run.jsonl")
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
