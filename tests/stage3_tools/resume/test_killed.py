"""A killed process leaves calls that have not started, and a resumed run runs them.

tests/real/test_kill_writes.py kills the same program at other calls.
"""

import sys

import pytest

from tests.stage3_tools.resume import killed_writes


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
async def test_only_the_write_that_ran_before_a_kill_has_an_unknown_effect(tmp_path):
    assert await killed_writes.violations(tmp_path, cap=1, killed=0, kind="plain") == []
    assert killed_writes.written(tmp_path) == [*range(killed_writes.WRITES)]
