"""A run that is killed in one of many writes, with different limits of concurrent writes.

Only writes that began may have happened. All others run when the run is resumed.
"""

import os

import pytest

from tests.stage3_tools.resume.killed_writes import violations

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL"),
]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("cap", "killed"),
    [(1, 7), (1, 19), (2, 0), (2, 13), (3, 10), (8, 0), (8, 9), (8, 19), (30, 4)],
)
async def test_a_run_killed_in_a_write_loses_none_of_the_others(cap, killed, kind, tmp_path):
    assert await violations(tmp_path, cap, killed, kind) == []
