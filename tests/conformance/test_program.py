"""Programs of any language: JSON lines on stdin and stdout."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.conformance.case import Case
from tests.conformance.grade import grade
from tests.conformance.program import Program
from tests.conformance.subject import Subject, load_module

README = Path(__file__).parent / "README.md"

ANSWERING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print({answer}, flush=True)
"""


@pytest.fixture
def program(tmp_path):
    """`program(text)` is the program with this Python source."""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        return Program(f'"{sys.executable}" "{path}"')

    return write


def case(operation="read", input=None, **check):
    checks = [{"at": "", "present": True}] if not check else [check]
    return Case(
        "O-000", "A rule.", "MUST", "stage2", 1, operation, input or {}, checks, {}, "", "", ""
    )


def reason(subject, **fields):
    """Grade one case; return its status and why it failed."""
    (verdict,) = grade(subject, [case(**fields)])
    return f"{verdict.status} {' '.join(map(str, verdict.failures))}"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("'hello'", "wrote a line that is not JSON: hello"),
        ("'[1]'", "wrote JSON that is not an object"),
        ("json.dumps({'id': 99, 'value': 1})", "another id than 1"),
        ("json.dumps({'id': 1})", "needs one of value, error and call"),
        ("json.dumps({'id': 1, 'value': 1, 'call': 'ask'})", "needs one of value, error and call"),
        ("json.dumps({'id': 1, 'error': 'bad'})", "needs a kind"),
        ("json.dumps({'id': 1, 'error': {'kind': 5}})", "needs a kind"),
        ("json.dumps({'id': 1, 'call': 'dance', 'input': {}})", "Unknown call 'dance'"),
        ("json.dumps({'id': 1, 'call': 'ask', 'input': {}})", "calls of this operation: none"),
    ],
)
def test_a_malformed_message_fails_the_case_with_its_reason(program, answer, expected):
    assert expected in reason(program(ANSWERING.replace("{answer}", answer)))


@pytest.mark.parametrize("input", ["5", "{'text': 1}"])
def test_a_call_with_invalid_input_fails_the_case_with_its_reason(program, input):
    answer = f"json.dumps({{'id': 1, 'call': 'ask', 'input': {input}}})"
    text = reason(program(ANSWERING.replace("{answer}", answer)), input={"replies": ["Hi"]})
    assert "The input of the call 'ask'" in text


def test_a_program_that_ends_fails_the_case_with_its_status(program):
    assert "ended with status 3" in reason(program("import sys; sys.exit(3)"))


def test_a_program_that_does_not_answer_fails_the_case(program):
    subject = program("import sys\nfor line in sys.stdin: pass")
    (verdict,) = grade(subject, [case()], seconds=0.2)
    assert "does not stop" in str(verdict.failures[0])


def test_a_program_that_failed_is_started_again_for_the_next_case(program):
    text = "import sys, json\nid = json.loads(input())['id']\nif id == 1: sys.exit(1)\n"
    text += "print(json.dumps({'id': id, 'value': {}}))"
    statuses = [each.status for each in grade(program(text), [case(), case()])]
    assert statuses == ["failed", "passed"]


def test_the_calls_of_a_program_are_answered(program):
    subject = program("""
import json
id = json.loads(input())["id"]
print(json.dumps({"id": id, "call": "ask", "input": {"messages": [], "tools": []}}), flush=True)
reply = json.loads(input())["value"]
print(json.dumps({"id": id, "value": reply}), flush=True)
""")
    check = {"at": "/message/content", "equals": "Hi"}
    assert reason(subject, input={"replies": ["Hi"]}, **check).startswith("passed")


def test_a_tool_that_fails_answers_its_call_with_an_error(program):
    subject = program("""
import json
id = json.loads(input())["id"]
call = {"name": "f", "arguments": {}}
print(json.dumps({"id": id, "call": "run", "input": call}), flush=True)
print(json.dumps({"id": id, "value": json.loads(input())}), flush=True)
""")
    tools = [{"name": "f", "behavior": {"raises": "no disk"}}]
    check = {"at": "/error/message", "contains": "no disk"}
    assert reason(subject, input={"tools": tools}, **check).startswith("passed")


# ---- README.md


def test_the_adapter_in_the_readme_is_a_subject(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    path = tmp_path / "my_adapter.py"
    path.write_text(block, encoding="utf-8")
    subject = Subject("adapter", load_module(path).OPERATIONS)
    assert reason(subject, input={"text": "[1]"}, at="/value", equals=[1]).startswith("passed")


def test_the_session_in_the_readme_is_a_session(program):
    """A program that writes the lines of the session is a program of the protocol."""
    session = next(
        block
        for block in re.findall(r"```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
        if block.startswith("suite")
    )
    lines = [re.split(r" {2,}", line, maxsplit=1) for line in session.splitlines()]
    replayed = "".join(
        "input()\n" if sender.startswith("suite") else f"print({text!r}, flush=True)\n"
        for sender, text in (line if len(line) == 2 else line[0].split(" ", 1) for line in lines)
    )
    cases = [
        case(json.loads(text)["operation"], json.loads(text)["input"])
        for sender, text in lines
        if "operation" in json.loads(text)
    ]
    cases[1].input["replies"] = ["{}"]
    statuses = [each.status for each in grade(program(replayed), cases)]
    assert statuses == ["passed", "passed", "passed"]
