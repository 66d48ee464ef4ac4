"""A run that is killed in one of many writes, under different limits of writes at the same time.

Only writes that began may have happened. All others run when the run is resumed.
"""

import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL"),
]
PROGRAM = Path(__file__).parents[1] / "stage3_tools" / "resume" / "killed_writes.py"
_spec = spec_from_file_location("killed_writes", PROGRAM)
killed_writes = module_from_spec(_spec)
_spec.loader.exec_module(killed_writes)


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("cap", "killed"),
    [(1, 7), (1, 19), (2, 0), (2, 13), (3, 10), (8, 0), (8, 9), (8, 19), (30, 4)],
)
async def test_a_run_killed_in_a_write_loses_none_of_the_others(cap, killed, kind, tmp_path):
    assert await killed_writes.violations(tmp_path, cap, killed, kind) == []
