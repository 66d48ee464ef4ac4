import pytest

from stage2_output import Issue, OutputController, feedback, issue_lines

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["path"],
    "additionalProperties": False,
}


def told(text, **options):
    return feedback(OutputController().parse_and_validate(text, SCHEMA, **options))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The text is empty. Answer with the JSON and nothing else."),
        ("It is sunny.", "No JSON was found. Answer with the JSON and nothing else."),
        (
            'Well {"path": "a"',
            "The JSON that begins at character 5 is never closed. Answer with the JSON and nothing else.",
        ),
        (
            '{"path": "a", "path": "b"}',
            'The JSON that begins at character 0 is not valid: the key "path" stands twice in one object. '
            "Answer with the JSON and nothing else.",
        ),
        (
            '{"file": "hunter2", "days": 0}',
            "Your JSON does not fit:\n"
            "- /days must be at least 1\n"
            "- /path is missing (string); you sent `file`; did you mean `path`?",
        ),
        ("[]", "Your JSON does not fit:\n- the value must be object, not array"),
    ],
    ids=["empty", "prose", "unclosed", "duplicate", "everything at once", "the whole value"],
)
def test_a_model_is_told_everything_that_is_wrong(text, words):
    assert told(text) == words


def test_a_reply_that_was_cut_off_is_said_to_be():
    assert told('{"path": "a"}', truncated=True) == (
        "The reply was cut off. Write a shorter one. Answer with the JSON and nothing else."
    )


def test_a_usable_reply_needs_no_words():
    assert told('{"path": "a"}') == ""


@pytest.mark.parametrize(
    ("number", "last"), [(10, "- /9 is odd"), (11, "- and 1 more"), (25, "- and 15 more")]
)
def test_ten_issues_are_told_and_the_rest_counted(number, last):
    lines = issue_lines(Issue(f"/{index}", "is odd", "odd") for index in range(number)).split("\n")
    assert lines[:10] == [f"- /{index} is odd" for index in range(10)]
    assert lines[-1] == last
    assert len(lines) == min(number, 11)


def test_no_issues_take_no_lines():
    assert issue_lines([]) == ""
