"""The cases of stage 3, the surroundings that they need, and the subjects that they grade."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.conformance.case import failures_of, load_cases
from tests.conformance.grade import grade
from tests.conformance.program import Program
from tests.conformance.subject import Subject, load_module
from tests.conformance.surroundings import Tools, prepared

CASES = load_cases("stage3")
FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "subjects" / "others" / "stage3_program.py"


def of_step(step, operation=None):
    return [each for each in CASES if each.step == step and operation in (None, each.operation)]


# ---- the cases


@pytest.mark.parametrize(("step", "operation"), [(3, "decide"), (5, "answer")])
def test_both_dialects_have_must_cases(step, operation):
    must = [each for each in of_step(step, operation) if each.level == "MUST"]
    assert {each.input["dialect"] for each in must} == {"native", "prompt"}


def test_another_library_can_answer_most_cases_of_the_loop():
    """An adapter gets a question, tools and replies in the native dialect, and nothing else."""
    plain = {"question", "dialect", "tools", "replies", "repeat"}
    loop = [each for each in of_step(5, "answer") if each.input["dialect"] == "native"]
    assert len([each for each in loop if set(each.input) <= plain]) >= 35
    assert all(set(each.input) <= plain | {"history"} for each in loop)


def test_a_case_of_the_course_needs_no_argument_beyond_the_protocol():
    known = {"question", "dialect", "tools", "replies", "repeat", "history"}
    known |= {"reply", "call", "messages"}
    assert {name for each in CASES if each.step != "complete" for name in each.input} <= known


def test_a_thread_of_a_case_has_a_repository_and_a_number():
    threads = [
        each.origin["source"].split(";")[0] for each in CASES if "#" in each.origin["source"]
    ]
    assert len(threads) > 60
    assert [each for each in threads if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", each)] == []


# ---- the surroundings


async def test_an_async_tool_returns_an_awaitable_and_counts_when_it_runs():
    tools = Tools([{"name": "f", "async": True, "behavior": {"returns": 1, "seconds": 0.01}}])
    first, second, unused = (tools.run("f", {}) for _ in range(3))
    assert tools.ran == []
    assert await asyncio.gather(first, second) == [1, 1]
    assert (len(tools.ran), tools.together) == (2, 2)
    del unused  # without a warning


async def test_an_async_tool_may_raise():
    tools = Tools([{"name": "f", "async": True, "behavior": {"raises": "no"}}])
    with pytest.raises(RuntimeError, match="no"):
        await tools.run("f", {})


async def test_a_long_text_is_described_by_its_parts():
    long = {"$text": [["ab", 2], ["c", 1]]}
    fields = {"text": long, "tools": [{"name": "f", "behavior": {"returns": long}}]}
    async with prepared(fields) as (arguments, _):
        assert arguments["text"] == arguments["run"]("f", {}) == "ababc"
        assert arguments["tools"] == [{"name": "f"}]


def call_of(id):
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("ids", "results", "is_paired"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["b", "a"], True),
        ([], [], True),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "a"], False),
        (["a"], ["b"], False),
        (["a", "a"], ["a", "a"], False),
    ],
)
def test_pairs_are_one_result_behind_each_call(ids, results, is_paired):
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call_of(id) for id in ids]},
        *({"role": "tool", "tool_call_id": id, "content": ""} for id in results),
        {"role": "user", "content": "?"},
    ]
    failures = [*failures_of({"at": "/messages", "paired": True}, {"messages": messages})]
    assert (failures == []) is is_paired


# ---- the subjects


def test_the_program_reports_an_operation_that_it_does_not_have():
    async def outcome():
        program = Program(f"python {PROGRAM}")
        try:
            return await program.perform("dance", {})
        finally:
            await program.stop()

    assert asyncio.run(outcome())["error"]["kind"] == "unsupported"


def test_a_failure_of_the_model_keeps_the_results_of_the_complete_stage():
    (case,) = [each for each in CASES if each.rule.startswith("After a failed request")]
    complete = load_module(FOLDER / "subjects" / "complete" / "stage3.py")
    (verdict,) = grade(Subject("complete", complete.OPERATIONS), [case])
    assert verdict.status == "passed"
    assert json.loads(verdict.outcome["messages"][2]["content"]) == {"temp": 22}
