"""Arguments under another key than "arguments" are issues, and remarks are not."""

from stage3_tools.reading.keys import misplaced_arguments
from tests.tables import for_each

HINT = "did you mean `arguments`?"


def issues(decision, parameters=("days", "reason"), path=""):
    found = misplaced_arguments({"tool": "f", **decision}, parameters, path)
    return [(issue.path, issue.rule, issue.hint) for issue in found]


@for_each(
    "key",
    [
        "args",
        "Arguments",
        "ARGS",
        "parameters",
        "params",
        "input",
        "tool_input",
        "kwargs",
        "argumments",
        "argument",
        "function_args",
        "tool-arguments",
    ],
)
@for_each("arguments", [{}, {"arguments": None}, {"arguments": {"days": 1}}])
def test_a_synonym_or_a_misspelling_of_arguments_is_an_issue(key, arguments):
    assert issues({**arguments, key: {"days": 3}}) == [(f"/{key}", "arguments_key", HINT)]


@for_each("arguments", [{}, {"arguments": None}, {"arguments": {}}])
def test_a_parameter_of_the_tool_beside_the_arguments_is_an_issue(arguments):
    for key in ("days", "reason", "Days"):
        hint = f'write it into the arguments: {{"arguments": {{"{key}": …}}}}'
        assert issues({**arguments, key: 3}) == [(f"/{key}", "arguments_key", hint)]


def test_without_arguments_every_other_key_is_an_issue_except_remarks():
    assert [path for path, _, _ in issues({"file": "x", "mood": "good"})] == ["/file", "/mood"]
    assert issues({"thought": "x", "Reasoning": "y", "reply": "z", "arguments": None}, ()) == []
    assert issues({}) == []


def test_beside_arguments_other_keys_are_remarks():
    remarks = {"begruendung": "x", "note": ["y"], "confidence": 0.9, "思考": "z", "id": "call_1"}
    assert issues({"arguments": {}, **remarks}) == []
    assert issues({"arguments": {"days": 1}, **remarks}) == []


def test_the_path_names_the_decision_of_a_list():
    assert issues({"args": {}}, path="/1") == [("/1/args", "arguments_key", HINT)]
