import pytest

from stage2_output import CompiledSchema, Extraction, Issue, ParseResult, feedback, issue_lines
from tests.tables import for_each

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["path"],
    "additionalProperties": False,
}


def feedback_on(value, schema=SCHEMA):
    issues = CompiledSchema(schema).issues(value)
    return feedback(ParseResult(False, None, issues, "", Extraction(value, 0, 0, "bare")))


@for_each(
    "problem",
    [
        "No JSON was found.",
        "The JSON that begins at character 5 is never closed.",
        'The JSON that begins at character 12 is broken at character 40: the key "a" appears twice.',
    ],
)
def test_feedback_on_a_text_without_json_states_the_problem(problem):
    result = ParseResult(False, None, (Issue("", problem, "json"),), "")
    assert feedback(result) == f"{problem} Answer with the JSON and nothing else."


def test_feedback_on_a_truncated_reply_does_not_report_a_wrong_type():
    cut = Issue("", "The reply was cut off. Write a shorter one.", "complete")
    result = ParseResult(False, None, (cut,), "", Extraction({}, 0, 1, "bare", complete=False))
    assert feedback(result) == (
        "The reply was cut off. Write a shorter one. Answer with the JSON and nothing else."
    )


@for_each(
    "value, text",
    [
        # renamed
        (
            {"file": "hunter2"},
            "Your JSON does not fit:\n- /path is missing (string); you sent `file`; "
            "did you mean `path`?",
        ),
        # everything at once
        (
            {"file": "hunter2", "days": 0},
            "Your JSON does not fit:\n"
            "- /days must be at least 1\n"
            "- /path is missing (string); you sent `file`, `days`; did you mean "
            "`path` instead of `file`?",
        ),
        # the whole value
        ([], "Your JSON does not fit:\n- the value must be object, not array"),
    ],
)
def test_feedback_lists_everything_that_is_wrong(value, text):
    assert feedback_on(value) == text


def test_feedback_on_another_value_raises_a_type_error():
    expected = r"^feedback needs the result of OutputController.parse_and_validate, not 'text'\.$"
    with pytest.raises(TypeError, match=expected):
        feedback("text")


def test_feedback_on_a_successful_result_is_empty():
    assert feedback(ParseResult(True, {"path": "a"}, (), "")) == ""


WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "City and country"},
        "unit": {
            "anyOf": [
                {"enum": ["celsius", "fahrenheit", "kelvin"], "type": "string"},
                {"type": "null"},
            ]
        },
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "include": {
            "type": "array",
            "items": {"enum": ["wind", "rain", "uv_index"]},
            "maxItems": 3,
        },
    },
    "required": ["location", "days"],
    "additionalProperties": False,
}
STEP = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "op": {"const": op},
                "path": {"type": "string"},
                "text": {"type": "string"},
            },
            "required": ["op", "path", "text"],
            "additionalProperties": False,
        }
        for op in ("insert", "replace", "append")
    ]
}
TYPICAL = {
    "renamed": (WEATHER, {"city": "Paris", "days": 3}),
    "string for a number": (WEATHER, {"location": "Paris", "days": "3"}),
    "nothing": (WEATHER, {}),
    "four mistakes": (
        WEATHER,
        {"locaton": "Paris", "unit": "Celcius", "days": 30, "include": ["wnd"]},
    ),
    "unknown keys": (
        WEATHER,
        {"location": "Paris", "days": 3, "lang": "fr", "verbose": True, "day": 1},
    ),
    "an unknown operation": (STEP, {"op": "delete", "path": "a.txt", "text": ""}),
    "an operation without a part": (
        {"items": STEP},
        [{"op": "insert", "path": "a.txt", "content": "x"}],
    ),
}


@for_each("schema, value", TYPICAL.values())
def test_feedback_on_a_typical_mistake_has_at_most_120_tokens(schema, value):
    from stage1_context import ApproximateCounter

    tokens = ApproximateCounter().count(feedback_on(value, schema))
    # The approximation is at least a fifth higher than the count of a tokenizer.
    assert 10 < tokens <= 1.2 * 120


@for_each(
    "number, last",
    [(10, "- /9 is odd"), (11, "- and at least 1 more"), (25, "- and at least 15 more")],
)
def test_ten_issues_are_listed_and_the_rest_are_counted(number, last):
    lines = issue_lines(Issue(f"/{index}", "is odd", "odd") for index in range(number)).split("\n")
    assert lines[:10] == [f"- /{index} is odd" for index in range(10)]
    assert lines[-1] == last
    assert len(lines) == min(number, 11)


def test_issues_beyond_the_limit_are_counted_as_at_least():
    issues = CompiledSchema({"items": {"type": "string"}}).issues([1] * 1000)
    assert issue_lines(issues).split("\n")[9:] == [
        "- /17 must be string, not integer",
        "- and at least 90 more",
    ]


def test_issue_lines_of_no_issues_is_empty():
    assert issue_lines([]) == ""


def test_texts_of_models_and_validators_cannot_add_lines():
    issue = Issue(
        "/a\n- /b is fine\ud800",
        "does not fit: line\r\none\u2028two\x1b[0m",
        "rule",
        None,
        "hint\n\nhint",
    )
    assert issue_lines([issue]) == "- /a - /b is fine� does not fit: line  one two�[0m; hint  hint"


def test_a_line_has_a_limited_length():
    issue = Issue("/deep" * 100 + "/end", "word " * 1000, "rule", None, "hint " * 1000)
    [line] = issue_lines([issue]).split("\n")
    assert line.startswith("- /deep/deep/")
    assert "…" in line[:70]
    assert "/deep/end word word" in line
    assert len(line) < 1000


def test_the_length_of_feedback_is_limited():
    value = [
        {chr(0x4E00 + number) * 1000 + str(key): 1 for key in range(50)} for number in range(50)
    ]
    schema = {"items": {"required": ["a"], "additionalProperties": False}}
    assert len(feedback_on(value, schema)) < 10_000
