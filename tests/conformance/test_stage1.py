"""The implementations of stage 1 agree on what matters, for any conversation.

The cases are examples. These tests draw conversations: calls without results, results without calls,
late and double results, and ids that repeat.
"""

import asyncio
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.case import failures_of
from tests.conformance.course import FILES, load_course_file
from tests.conformance.starters import FINISHED
from tests.conformance.subject import Subject, load_module
from tests.conformance.test_subjects import FOLDER

COMPLETE = load_module(FOLDER / "complete" / "stage1.py").OPERATIONS
SUBJECTS = {
    "finished": load_course_file(FINISHED / FILES["stage1"], "stage1").operations,
    "complete": COMPLETE,
    "turns": load_module(FOLDER / "others" / "stage1_turns.py").OPERATIONS,
    "program": load_module(FOLDER / "others" / "stage1_program.py").COMMANDS,
}
number_of_examples = pytest.mark.parametrize(
    "examples", [15, pytest.param(40, marks=pytest.mark.long)]
)


@pytest.fixture(scope="module")
def perform():
    """`perform(subject, operation, **arguments)` is the outcome of an operation."""
    with asyncio.Runner() as runner:
        yield lambda subject, operation, **arguments: runner.run(
            Subject("", subject).perform(operation, json.loads(json.dumps(arguments)))
        )


def passes(check, value):
    return not list(failures_of({"at": "/value", **check}, {"value": value}))


# ---- conversations

texts = st.text("ab天\n", max_size=40)
ids = st.sampled_from(["call_1", "call_2", "call_3"])


def calls(ids):
    return [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids
    ]


questions = st.builds(lambda text: {"role": "user", "content": text}, texts)
replies = st.builds(lambda text: {"role": "assistant", "content": text}, texts)
results = st.builds(
    lambda id, text: {"role": "tool", "tool_call_id": id, "content": text}, ids, texts
)
calling = st.builds(
    lambda text, ids: {"role": "assistant", "content": text, "tool_calls": calls(ids)},
    texts,
    st.lists(ids, min_size=1, unique=True),
)
conversations = st.lists(st.one_of(questions, replies, calling, results, results), max_size=12)


@st.composite
def paired_conversations(draw):
    """A question, and messages whose calls have their results."""
    messages = [draw(questions)]
    for message in draw(st.lists(st.one_of(questions, replies, calling), max_size=8)):
        messages.append(message)
        for call in message.get("tool_calls", []):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": draw(texts)})
    return messages


def others(messages):
    """The texts of the messages that are no results, with their roles."""
    return [(each["role"], each["content"]) for each in messages if each["role"] != "tool"]


@number_of_examples
def test_a_repaired_conversation_is_paired_and_only_results_change(perform, examples):
    @settings(max_examples=examples)
    @given(messages=conversations)
    def check(messages):
        for name, subject in SUBJECTS.items():
            repaired = perform(subject, "repair", messages=messages)["value"]
            assert passes({"paired": True}, repaired), name
            assert others(repaired) == others(messages), name

    check()


@number_of_examples
def test_a_window_is_a_paired_part_of_the_conversation_with_its_newest_question(perform, examples):
    @settings(max_examples=examples)
    @given(messages=paired_conversations(), max_tokens=st.integers(0, 120))
    def check(messages, max_tokens):
        for name, subject in SUBJECTS.items():
            outcome = perform(subject, "window", messages=messages, max_tokens=max_tokens)
            if "error" in outcome:
                assert outcome["error"]["kind"] == "too_small", name
            else:
                check_window(outcome["value"], messages, name)
                counts = [
                    perform(subject, "count", message=each)["value"] for each in outcome["value"]
                ]
                assert sum(counts) <= max_tokens, name

    check()


def check_window(selected, messages, name):
    question = [each for each in messages if each["role"] == "user"][-1]
    assert passes({"paired": True, "contains": [question, messages[-1]]}, selected), name
    kept = Counter(json.dumps(each, sort_keys=True) for each in selected)
    assert kept <= Counter(json.dumps(each, sort_keys=True) for each in messages), name


@number_of_examples
def test_a_conversation_that_fits_exactly_is_selected_as_it_is(perform, examples):
    @settings(max_examples=examples)
    @given(messages=paired_conversations())
    def check(messages):
        for name, subject in SUBJECTS.items():
            outcome = perform(subject, "window", messages=messages, spare=0)
            assert outcome == {"value": messages}, name

    check()


# ---- the complete stage as a subject


def test_a_damaged_line_is_a_damaged_record_of_the_complete_stage(perform, tmp_path):
    path = tmp_path / "conversation.jsonl"
    path.write_text('{"role": "us\n')
    assert perform(COMPLETE, "history", path=str(path))["error"]["kind"] == "damaged"
