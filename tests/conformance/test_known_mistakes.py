"""The known mistakes: their files, and the failures of each in patterns.json."""

import itertools
import json

import pytest

from tests.conformance.case import STAGES, load_course_cases
from tests.conformance.diagnosis import PATTERNS, row_of
from tests.conformance.known_mistakes import (
    MISTAKES,
    Change,
    KnownMistake,
    find_mistake,
    known_mistakes,
    read_mistake,
)
from tests.conformance.subject import SubjectError
from tests.tables import for_each

MOST_LINES = 15
"""The lines of a finished file that a mistake changes."""

CASES = {stage: load_course_cases(stage) for stage in STAGES}
KNOWN = {stage: known_mistakes(stage) for stage in STAGES}
ROWS = json.loads(PATTERNS.read_text(encoding="utf-8"))
EACH = [(stage, each.name) for stage in STAGES for each in KNOWN[stage]]
each_mistake = for_each("stage, name", EACH)


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
def test_the_failures_of_a_mistake_are_known(stage):
    current = {each.name: row_of(each, CASES[stage]) for each in KNOWN[stage]}
    outdated = [name for name in current if current[name] != ROWS[stage].get(name)]
    assert outdated == [], "patterns.json is out of date. Run: make course"


@pytest.mark.parametrize("stage", STAGES)
def test_the_known_failures_are_those_of_existing_mistakes(stage):
    about = {each.name: [each.does, each.caught_by, each.seen_in] for each in KNOWN[stage]}
    rows = ROWS[stage].items()
    assert about == {name: [row["does"], row["caught_by"], row["seen_in"]] for name, row in rows}


@pytest.mark.parametrize("stage", STAGES)
def test_no_two_mistakes_of_a_stage_have_the_same_failures(stage):
    failed = {name: row["failed"] for name, row in ROWS[stage].items()}
    pairs = itertools.combinations(failed, 2)
    assert [pair for pair in pairs if failed[pair[0]] == failed[pair[1]]] == []


@each_mistake
def test_a_mistake_is_caught_by_a_must_case_about_it(stage, name):
    about = find_mistake(stage, name).caught_by
    assert [case.level for case in CASES[stage] if case.id == about] == ["MUST"]
    assert about in ROWS[stage][name]["failed"]


@each_mistake
def test_a_mistake_changes_few_lines_of_the_finished_file(stage, name):
    mistake = find_mistake(stage, name)
    compile(mistake.text, name, "exec")
    old, new = ("".join(parts).count("\n") for parts in zip(*mistake.changes, strict=True))
    assert max(old, new) <= MOST_LINES


@each_mistake
def test_the_sentence_of_a_mistake_continues_a_file_that(stage, name):
    does = find_mistake(stage, name).does
    assert does.split()[0].endswith("s") or does.startswith("Cannot "), does
    assert does.endswith(".")
    assert does[0].isupper()


def test_the_folder_of_the_mistakes_contains_nothing_else():
    files = {path for path in MISTAKES.rglob("*") if path.is_file()}
    assert files == {MISTAKES / stage / f"{name}.diff" for stage, name in EACH}


# ---- reading

MISTAKE = """Forgets
 the end.

Caught by: G-001
Seen in: a/b#1 (texts
without an end)

@@
     def f():

-        return 1
+        return 2
@@
+        begin()
         end()
"""


@pytest.fixture
def mistake(tmp_path):
    """`mistake(text)` is the known mistake in a file with this text."""

    def read(text):
        path = tmp_path / "stage2" / "forgets.diff"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return read_mistake(path)

    return read


def test_a_mistake_is_read_with_its_changes(mistake):
    assert mistake(MISTAKE) == KnownMistake(
        "stage2",
        "forgets",
        "Forgets the end.",
        "G-001",
        "a/b#1 (texts without an end)",
        (
            Change(
                "    def f():\n\n        return 1\n",
                "    def f():\n\n        return 2\n",
            ),
            Change("        end()\n", "        begin()\n        end()\n"),
        ),
    )


@for_each(
    "old, new, expected",
    [
        ("Caught by: G-001\n", "", "stage2/forgets.diff needs a sentence, 'Caught by:'"),
        (MISTAKE[MISTAKE.index("@@") :], "", "and a hunk"),
        ("+        begin()\n", "", "stage2/forgets.diff, hunk 2 changes nothing"),
        ("+        begin()\n", "begin()\n", "forgets.diff, hunk 2: a line needs ' ', '-' or '+'"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_reason(mistake, old, new, expected):
    assert old in MISTAKE
    with pytest.raises(SubjectError) as raised:
        mistake(MISTAKE.replace(old, new))
    assert expected in str(raised.value)


def test_the_changes_of_a_mistake_are_applied_to_a_text(mistake):
    text = "# A file\n    def f():\n\n        return 1\n\n        end()\n# its end\n"
    assert mistake(MISTAKE).applied(text) == text.replace("1", "2").replace(
        "        end()", "        begin()\n        end()"
    )


@for_each(
    "text, expected",
    [
        ("        end()\n", "hunk 1: its old lines occur 0 times in the finished file. Copy them"),
        (
            "    def f():\n\n        return 1\n        end()\n        end()\n",
            "hunk 2: its old lines occur 2 times in the finished file. Add a line of context",
        ),
    ],
)
def test_lines_that_do_not_occur_exactly_once_are_an_error_that_names_the_fix(
    mistake, text, expected
):
    with pytest.raises(SubjectError, match=f"^stage2/forgets.diff, {expected}"):
        mistake(MISTAKE).applied(text)


def test_a_mistake_is_a_file_with_the_name_of_a_learners_file():
    mistake = find_mistake("stage2", "accepts_nan")
    with mistake.file() as path:
        assert path.name == "my_output.py"
        assert path.read_text(encoding="utf-8") == mistake.text
    assert not path.exists()


@for_each(
    "name, expected",
    [
        ("accept_nan", "with this name. Similar names: accepts_nan."),
        ("my_output", "/mistakes/stage2 contains the known mistakes."),
    ],
)
def test_an_unknown_mistake_is_an_error_with_similar_names(name, expected):
    with pytest.raises(SubjectError) as raised:
        find_mistake("stage2", name)
    assert f"There is no file {name}, and no known mistake of stage2" in str(raised.value)
    assert expected in str(raised.value)
