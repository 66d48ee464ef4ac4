"""Run files that an earlier version wrote still open, become a page, and replay identically."""

from pathlib import Path

import pytest

from llm_stages import read_runs
from llm_stages.runs.page.html import file_data
from llm_stages.runs.replay import replay

FILES = sorted((Path(__file__).parent / "earlier_files").glob("*.jsonl"))
"""Files of all entries, both dialects, windows, compaction, approvals, aborts and failures."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_file_of_an_earlier_version_replays_identically_and_becomes_a_page(path):
    runs = read_runs(path)
    assert [str(each) for run in runs for each in await replay(run)] == []
    assert [each["facts"]["run"] for each in file_data(path)["runs"]] == [run.id for run in runs]


def test_the_files_contain_runs_of_every_entry_and_status():
    runs = [run for path in FILES for run in read_runs(path)]
    assert {run.entry for run in runs} == {"loop", "runner", "chain"}
    assert {run.status for run in runs} >= {
        *("completed", "error", "aborted", "cancelled", "limit", "max_rounds", "parse_failed"),
        *("awaiting_approval", "unfinished"),
    }
    assert any(turn.compactions for run in runs for turn in run.turns)
