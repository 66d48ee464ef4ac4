"""The exercises are not solved yet, and the solutions pass their tests."""

import asyncio
import inspect
from importlib import import_module
from pathlib import Path

import pytest

EXERCISES = Path(__file__).parents[2] / "docs" / "exercises"
STAGES = sorted(path.stem for path in EXERCISES.glob("stage*.py"))


def exercise_tests(module):
    """Return the tests of a module as plain functions."""
    found = [each for name, each in vars(module).items() if name.startswith("test_")]
    return [(lambda t=t: asyncio.run(t())) if inspect.iscoroutinefunction(t) else t for t in found]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_three_exercises_without_solutions(stage):
    tests = exercise_tests(import_module(f"docs.exercises.{stage}"))
    assert len(tests) == 3
    for test in tests:
        with pytest.raises(NotImplementedError):
            test()


@pytest.mark.parametrize("stage", STAGES)
def test_the_solutions_pass_the_tests_of_the_exercises(stage, monkeypatch):
    module = import_module(f"docs.exercises.{stage}")
    solutions = import_module(f"tests.docs.solutions.{stage}")
    for name, solution in vars(solutions).items():
        if not name.startswith("_") and inspect.isfunction(solution):
            assert hasattr(module, name), f"{name} is not an exercise"
            monkeypatch.setattr(module, name, solution)
    for test in exercise_tests(module):
        test()
