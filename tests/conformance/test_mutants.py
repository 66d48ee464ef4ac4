"""The mutants of the finished files; `make mutants` grades all of them."""

import itertools
import json

import pytest

from tests.conformance.case import STAGES
from tests.conformance.course import FILES
from tests.conformance.known_mistakes import find_mistake
from tests.conformance.mutants import SURVIVORS, Mutant, behavior, changed, reason, result_of
from tests.conformance.starters import FINISHED

ROWS = json.loads(SURVIVORS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("stage", STAGES)
def test_an_explained_mutant_changes_lines_of_the_finished_file(stage):
    lines = {line.strip() for line in (FINISHED / FILES[stage]).read_text("utf-8").splitlines()}
    before = [line for row in ROWS if row["stage"] == stage for line in row["before"].splitlines()]
    assert [line for line in before if line not in lines] == []


def test_every_explanation_is_a_sentence():
    assert [row for row in ROWS if not row["reason"].endswith(".")] == []


def test_a_mutant_is_explained_by_its_lines():
    for row in ROWS[:1]:
        mutant = Mutant(row["stage"], "NumberReplacer", "", row["before"], row["after"])
        assert reason(mutant) == row["reason"]
    assert reason(Mutant("stage0", "NumberReplacer", "", "a = 1", "a = 2")) == ""


def test_the_changed_lines_of_a_mutant_are_shown():
    assert changed("a\nb < c\n", "a\nb > c\n") == ("b < c", "b > c")


def test_a_change_of_a_type_hint_is_not_a_mutant():
    assert behavior("def f(x: int | None) -> int: ...") == behavior("def f(x: int + None): ...")
    assert behavior("x: int = 1") != behavior("x: int = 2")


def test_a_mutant_that_cannot_be_imported_is_caught(tmp_path):
    path = tmp_path / "output.py"
    path.write_text("x = 1 / 0\n", encoding="utf-8")
    assert result_of("stage2", path) == "not importable"


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("stage0", "sends_an_empty_list_of_tools"),
        ("stage1", "counts_four_characters"),
        ("stage2", "accepts_nan"),
        ("stage3", "last_duplicate_wins"),
    ],
)
def test_a_mistake_is_caught_like_a_mutant(stage, name):
    with find_mistake(stage, name).file() as path:
        assert result_of(stage, path) == "caught by its stage"


def test_cosmic_ray_makes_mutants_of_a_finished_file():
    pytest.importorskip("cosmic_ray", reason="it is part of the extra [dev]")
    from tests.conformance.mutants import mutants

    found = list(itertools.islice(mutants("stage1"), 10))
    assert len(found) == 10
    assert len({mutant.text for mutant in found}) == len(found)
