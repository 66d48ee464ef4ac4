"""The changes of the mutants, and the list of those that behave like the original."""

import json
import sys
from dataclasses import replace

import pytest

from tests.mutants.__main__ import EQUIVALENTS, PACKAGES, ROOT, rank, report, rooms, sample
from tests.mutants.changes import mutants_of
from tests.mutants.session import apply
from tests.tables import for_each


@pytest.fixture
def mutants(tmp_path):
    """`mutants(source)` returns the mutants of a module."""

    def make(source):
        (tmp_path / "changed.py").write_text(source, encoding="utf-8")
        return mutants_of(tmp_path, "changed.py")

    return make


def test_each_part_of_a_function_is_changed(mutants):
    source = "def f(a, b):\n    if a < 1 and b:\n        return a + len(b)\n    print(a, end='')\n"
    assert [(each.operator, each.before, each.after) for each in mutants(source)] == [
        ("negate", "if a < 1 and b:", "if not (a < 1 and b):"),
        ("and/or", "if a < 1 and b:", "if a < 1 or b:"),
        ("drop operand", "if a < 1 and b:", "if b:"),
        ("drop operand", "if a < 1 and b:", "if a < 1:"),
        ("compare", "if a < 1 and b:", "if a <= 1 and b:"),
        ("constant", "if a < 1 and b:", "if a < 2 and b:"),
        ("return None", "return a + len(b)", "return None"),
        ("operator", "return a + len(b)", "return a - len(b)"),
        ("delete", "print(a, end='')", "pass"),
        ("drop keyword", "print(a, end='')", "print(a)"),
    ]


@for_each(
    "source",
    [
        "VALUE = 1 + 1\n",
        'def f():\n    """Return 1."""\n',
        "def f():\n    raise ValueError(1 + 1)\n",
        "class A:\n    def __repr__(self):\n        return '1' + '2'\n",
    ],
)
def test_values_of_modules_and_texts_for_readers_are_not_changed(mutants, source):
    assert {each.operator for each in mutants(source)} <= {"delete"}


def test_a_change_leaves_the_line_numbers_and_the_other_mutants(mutants, tmp_path):
    found = mutants("def f(a):\n    a += 1\n    return a\n")
    codes = [mutant.compile(tmp_path) for mutant in found]
    assert [mutant.lines for mutant in found] == [(2, 2), (2, 2), (3, 3)]
    functions = [each.co_consts[0] for each in codes]
    assert {each.co_firstlineno for each in functions} == {1}
    assert len({each.co_code + repr(each.co_consts).encode() for each in functions}) == 3


class _Hostile:
    def __getattribute__(self, name):
        raise SystemExit(name)


def test_functions_that_exist_receive_the_changed_code(mutants, tmp_path, monkeypatch):
    foreign = [_Hostile()]  # an object of another test, which nothing may touch
    change, *_ = mutants("def f(a):\n    return [each for each in a if each][0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    import changed

    assert changed.f([5]) == 5
    kept = changed.f
    apply(change.compile(tmp_path))
    del sys.modules["changed"]
    assert kept([5]) is None
    del foreign


def test_a_sample_depends_on_the_content_of_the_mutants_and_not_on_their_lines():
    paths = rooms()["stage3_tools/turn"]
    found = sample(paths, 1, 10**6)
    ranks = [rank(each, 1) for each in found]
    assert [rank(each, 1) for each in sample(paths, 1, 12)] == ranks[:12] == sorted(ranks)[:12]
    assert {rank(each, 2) for each in found}.isdisjoint(ranks)


def test_the_rooms_are_those_of_all_packages_except_the_tests_for_programs():
    found = rooms()
    assert {name.partition("/")[0] for name in found} == {*PACKAGES}
    assert "llm_stages/runs/page/html.py" in found["llm_stages/runs"]
    assert "llm_stages/testing" not in found


def test_the_equivalent_mutants_are_mutants_of_the_files_of_today():
    rows = json.loads(EQUIVALENTS.read_text(encoding="utf-8"))
    found = {
        (mutant.path, mutant.before, mutant.after)
        for path in {row["path"] for row in rows}
        for mutant in mutants_of(ROOT, path)
    }
    stale = [row for row in rows if (row["path"], row["before"], row["after"]) not in found]
    assert stale == [], "The code of these mutants has changed, so judge them again."
    assert all(row["reason"] for row in rows)


@for_each(
    "room, killed, status, share",
    [
        ("stage3_tools/turn", 9, 0, "90%"),
        ("stage3_tools/turn", 8, 1, "80%"),
        ("stage0_gateway/retry", 8, 0, "80%"),
    ],
)
def test_a_core_room_must_kill_nine_of_ten_mutants(mutants, capsys, room, killed, status, share):
    found = mutants("def f(a):\n    return a\n") * 10
    ten = [replace(each) for each in found]
    results = dict(zip(ten, ["killed"] * killed + ["survived"] * 10, strict=False))
    assert report({room: ten}, results) == status
    assert share in capsys.readouterr().out


def test_a_mutant_that_behaves_like_the_original_does_not_count(capsys):
    row = json.loads(EQUIVALENTS.read_text(encoding="utf-8"))[0]
    known = next(
        mutant
        for mutant in mutants_of(ROOT, row["path"])
        if (mutant.before, mutant.after) == (row["before"], row["after"])
    )
    assert report({"stage3_tools/turn": [known]}, {known: "survived"}) == 0
    assert row["reason"] in capsys.readouterr().out
