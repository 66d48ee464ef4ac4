"""Random replies and random tools in 500 runs: each run ends with a valid history.

The runs are the same each time. RANDOM_RUNS=5000 increases the number of runs of each entry point,
RANDOM_SEED=17 repeats only the run with this seed.
"""

import os

import pytest

from tests.stage3_tools.random_use import run_randomly

pytestmark = pytest.mark.long

RUNS = {"prompt": 100, "several": 100, "native": 120, "runner": 120, "chain": 60}


@pytest.mark.parametrize("entry_point", RUNS)
def test_random_replies_and_tools_always_leave_a_finished_run_and_a_valid_history(entry_point):
    count, only = os.environ.get("RANDOM_RUNS"), os.environ.get("RANDOM_SEED")
    for seed in [int(only)] if only else range(int(count or RUNS[entry_point])):
        try:
            run_randomly(entry_point, seed)
        except BaseException as error:
            raise AssertionError(
                f"RANDOM_SEED={seed} pytest -k 'random_runs and {entry_point}': {error!r:.500}"
            ) from error
