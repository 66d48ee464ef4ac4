"""The subjects of stage 2 with other texts than those of the cases: recorded and generated ones."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.course import FILES, load_course_file
from tests.conformance.program import Program
from tests.conformance.starters import FINISHED
from tests.conformance.subject import Subject, load_module

FOLDER = Path(__file__).parent / "subjects"
SUBJECTS = {
    "finished": lambda: load_course_file(FINISHED / FILES["stage2"], "stage2"),
    "complete": lambda: module("complete/stage2.py"),
    "rewriter": lambda: module("others/stage2_rewriter.py"),
    "program": lambda: Program(f'"{sys.executable}" "{FOLDER}/others/stage2_program.py"'),
}

WRAPPERS = [
    "{}",
    "Sure!\n```json\n{}\n```\nI hope this helps.",
    "The answer is {}, as you asked.",
    '<think>Is it {{"answer": 0}}?\n{{ or }}?</think>\n{}',
]
"""What surrounds the JSON: nothing, a fence, a sentence, and a draft in a thinking block."""

texts = (
    st.sampled_from(["```x```", "<think>x</think>", "</think>", ", ]", "it's 'x'", '"}', "\\"])
    | st.text("ab{}[]'\"`,:\\\n")
    | st.text(st.characters(exclude_categories=["Cs"]))  # no surrogates: messages are UTF-8
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def module(path):
    return Subject(path, load_module(FOLDER / path).OPERATIONS)


@pytest.fixture(scope="module", params=SUBJECTS)
def read(request):
    """A function that reads a text with a subject, and returns the outcome."""
    subject = SUBJECTS[request.param]()
    with asyncio.Runner() as runner:
        yield lambda **arguments: runner.run(subject.perform("read", arguments))
        if stop := getattr(subject, "stop", None):
            runner.run(stop())


def test_no_recorded_text_is_read_wrongly(read, recorded):
    rows, harness = recorded("output.jsonl")
    wrong = []
    for row in rows:
        outcome = read(text=row["raw"])
        verdict = harness.diff_output(row, outcome.get("value"), bool(outcome["issues"]))
        if verdict in ("wrong", "false_positive"):
            wrong.append((row["id"], row["raw"][:200], outcome))
    assert wrong == []


def test_no_recorded_text_that_was_cut_off_has_a_value(read, recorded):
    rows, _ = recorded("output.jsonl")
    cut_off = [row for row in rows if "truncated" in row["kind"]]
    assert cut_off
    assert [row["id"] for row in cut_off if not read(text=row["raw"])["issues"]] == []


@pytest.mark.parametrize("examples", [10, pytest.param(40, marks=pytest.mark.long)])
def test_valid_json_is_read_in_every_wrapper(read, examples):
    @settings(max_examples=examples)
    @given(value=json_values, is_ascii=st.booleans(), indent=st.sampled_from([None, 2]))
    def check(value, is_ascii, indent):
        value = {"answer": value}
        for wrapper in WRAPPERS:
            text = wrapper.format(json.dumps(value, ensure_ascii=is_ascii, indent=indent))
            outcome = read(text=text)
            assert outcome["issues"] == []
            assert json.dumps(outcome["value"]) == json.dumps(value)

    check()
