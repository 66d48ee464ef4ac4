"""The cases, the known mistakes and the subjects of stage 0."""

import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.conformance.case import failures_of, load_cases
from tests.conformance.command import load_subject
from tests.conformance.grade import grade
from tests.conformance.program import Program
from tests.conformance.surroundings import Server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = load_cases("stage0")
COURSE = [case for case in CASES if case.step != "complete"]
MISTAKES = sorted((HERE / "mistakes" / "stage0").glob("*.py"))


def failed(path, cases=COURSE):
    """The ids of the cases that a file does not pass."""
    verdicts = grade(load_subject("stage0", path), cases)
    return [each.case.id for each in verdicts if each.status != "passed"]


# ---- subjects


def test_the_complete_gateway_passes_every_case():
    assert failed(HERE / "subjects" / "complete" / "stage0.py", CASES) == []


def test_the_gateway_of_a_hundred_lines_passes_the_cases_of_its_steps_only():
    beyond = [case.id for case in CASES if case.step == "complete"]
    assert failed(ROOT / "examples" / "from_scratch" / "gateway.py", CASES) == beyond


def test_a_gateway_with_another_http_client_passes():
    assert failed(HERE / "subjects" / "others" / "stage0_asyncio.py") == []


def test_a_program_without_this_project_passes():
    program = Program(f"{sys.executable} {HERE / 'subjects' / 'others' / 'stage0_program.py'}")
    assert [each.case.id for each in grade(program, COURSE) if each.status != "passed"] == []


# ---- mistakes


def test_each_mistake_fails_a_must_case_about_it_and_has_its_own_pattern():
    must = {case.id for case in COURSE if case.level == "MUST"}
    patterns = {}
    for path in MISTAKES:
        caught = re.search(r"^Caught by: (G-\d{3})$", path.read_text(), re.MULTILINE)[1]
        pattern = tuple(failed(path))
        assert caught in must.intersection(pattern), path.stem
        assert pattern not in patterns, f"{path.stem} looks like {patterns[pattern]}"
        patterns[pattern] = path.stem
    assert len(patterns) >= 15


# ---- the server and the checks that these cases need


async def body_of(answer):
    """The parts of the body that a client receives."""
    async with (
        Server([answer]).running() as url,
        httpx.AsyncClient() as client,
        client.stream("POST", url, json={}) as response,
    ):
        return [part async for part in response.aiter_raw()]


async def test_events_are_sent_as_lines_of_data():
    parts = await body_of({"events": [{"a": "ü"}, "[DONE]"]})
    assert b"".join(parts).decode() == 'data: {"a": "ü"}\n\ndata: [DONE]\n\n'


async def test_chunks_arrive_separately():
    assert await body_of({"chunks": [[195], [188], "\n"]}) == [b"\xc3", b"\xbc", b"\n"]


async def test_a_dropped_answer_breaks_the_connection():
    with pytest.raises(httpx.RemoteProtocolError):
        await body_of({"events": [{}], "drop": True})


@pytest.mark.parametrize(
    ("calls", "differ"),
    [
        ([{"id": "a"}, {"id": "b"}], True),
        ([{"id": "a"}, {"id": "a"}], False),
        ([{"id": "a"}, {}], False),
        (None, False),
    ],
)
def test_ids_may_be_free_but_different(calls, differ):
    assert (not list(failures_of({"at": "/calls", "distinct": "/id"}, {"calls": calls}))) is differ
