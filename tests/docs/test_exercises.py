"""The exercises are not solved yet, and the solutions pass their tests."""

import asyncio
import importlib.util
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXERCISES = sorted((ROOT / "docs" / "exercises").glob("stage*.py"))


def load(path: Path):
    """Import a module from a file, without a cache."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exercise_tests(module):
    """Return the tests of a module as plain functions."""
    found = [each for name, each in vars(module).items() if name.startswith("test_")]
    return [(lambda t=t: asyncio.run(t())) if inspect.iscoroutinefunction(t) else t for t in found]


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_a_stage_has_three_exercises_without_solutions(path):
    tests = exercise_tests(load(path))
    assert len(tests) == 3
    for test in tests:
        with pytest.raises(NotImplementedError):
            test()


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_the_solutions_pass_the_tests_of_the_exercises(path):
    module = load(path)
    solutions = load(Path(__file__).parent / "solutions" / path.name)
    for name, solution in vars(solutions).items():
        if not name.startswith("_") and inspect.isfunction(solution):
            assert hasattr(module, name), f"{name} is not an exercise"
            setattr(module, name, solution)
    for test in exercise_tests(module):
        test()
