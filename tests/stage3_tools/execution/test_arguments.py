import pytest
from pydantic import BaseModel

from stage2_output import Issue, OutputError, Repair, extract_json
from stage3_tools import Tool, ToolError
from stage3_tools.execution.arguments import Arguments, parse_arguments, validate_arguments
from tests.tables import for_each

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = Tool("read", "", PARAMETERS, lambda arguments: None)
ANYTHING = Tool("anything", "", None, lambda arguments: None)
ONLY_JSON = "The arguments must be one JSON object and nothing else."


def refusal(tool, text):
    with pytest.raises(ToolError) as caught:
        parse_arguments(tool, text)
    assert caught.value.kind == "validation"
    return caught.value


def test_valid_arguments_are_returned_with_their_text():
    given = parse_arguments(READ, ' {"path": "ä.txt", "lines": 3}\n')
    assert given == Arguments({"path": "ä.txt", "lines": 3}, ' {"path": "ä.txt", "lines": 3}\n')


def test_repairs_are_returned_with_the_arguments():
    given = parse_arguments(READ, "{'path': \"a\",}")
    repairs = (Repair("single_quotes", 1), Repair("trailing_comma", 12))
    assert given == Arguments({"path": "a"}, "{'path': \"a\",}", repairs)


@for_each("text", ['{"path": "a"', '{"path": "a', "{"])
def test_incomplete_arguments_raise_an_error(text):
    message = "The arguments are not complete: a bracket or a quote is not closed."
    assert refusal(READ, text).message == message


@for_each(
    "text, message",
    [
        ("[]", "The arguments must be a JSON object, not an array."),
        ('"path"', "The arguments must be a JSON object, not a string."),
        ("null", "The arguments must be a JSON object, not null."),
        ("true", "The arguments must be a JSON object, not a boolean."),
        ("7", "The arguments must be a JSON object, not a number."),
        ('{"a": 1} {"a": 2}', ONLY_JSON),
        ('```json\n{"a": 1}\n```', ONLY_JSON),
        ('Here: {"a": 1}', ONLY_JSON),
    ],
)
def test_text_that_is_not_one_json_object_raises_even_without_a_schema(text, message):
    assert refusal(ANYTHING, text).message == message


@for_each(
    "text",
    [
        "",
        "path=a.txt",
        "NaN",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
    ],
)
def test_invalid_json_raises_with_the_reason_and_never_becomes_empty_arguments(text):
    with pytest.raises(OutputError) as reason:
        extract_json(text)
    assert refusal(ANYTHING, text).message == f"The arguments are not valid JSON. {reason.value}"


@for_each(
    "text, lines",
    [
        ("{}", ["- /path is missing (string)"]),
        ('{"path": 5}', ["- /path must be string, not integer"]),
        ('{"path": "a", "lines": "5"}', ["- /lines must be integer, not string"]),
        (
            '{"file": "a"}',
            [
                "- /path is missing (string); you sent `file`; did you mean `path`?",
            ],
        ),
        (
            '{"path": null, "lines": 1.5, "x": 0}',
            [
                "- /lines must be integer, not number",
                "- /path must be string, not null",
                "- /x is not a known property; you sent `path`, `lines`, `x`",
            ],
        ),
    ],
)
def test_the_error_lists_all_invalid_arguments(text, lines):
    assert refusal(READ, text).message == "\n".join(["The arguments of read do not fit:", *lines])


def test_the_details_of_the_error_contain_the_schema_and_the_issues():
    assert refusal(READ, '{"path": 5}').details == {
        "expected_schema": PARAMETERS,
        "issues": (Issue("/path", "must be string, not integer", "type", "string"),),
    }


def test_the_error_text_does_not_repeat_values():
    assert "s3cret" not in refusal(READ, '{"path": ["s3cret"], "lines": "s3cret"}').for_model


@for_each("arguments", [["path"], "path", None, 5])
def test_validate_arguments_accepts_only_mappings(arguments):
    with pytest.raises(ToolError, match="The arguments must be a JSON object, not "):
        validate_arguments(READ, arguments)


def test_validate_arguments_copies_the_mapping():
    given = {"path": "a"}
    assert validate_arguments(READ, given) == given
    assert validate_arguments(READ, given) is not given


def test_a_parser_of_the_tool_converts_validated_arguments():
    tool = Tool("f", "", {"type": "object"}, print, parse=lambda arguments: sorted(arguments))
    assert parse_arguments(tool, '{"b": 1, "a": 2}') == Arguments(["a", "b"], '{"b": 1, "a": 2}')


def test_a_value_error_of_the_parser_becomes_a_validation_error():
    def parse(arguments):
        raise ValueError("start must be before end")

    tool = Tool("f", "", {"type": "object"}, print, parse=parse)
    with pytest.raises(ToolError) as caught:
        parse_arguments(tool, "{}")
    assert (
        caught.value.for_model
        == "Error (validation): The arguments of f do not fit: start must be before end"
    )


def test_the_error_of_a_pydantic_parser_does_not_repeat_values():
    class Booking(BaseModel):
        seats: int

    tool = Tool("f", "", {"type": "object"}, print, parse=Booking.model_validate)
    with pytest.raises(ToolError) as caught:
        parse_arguments(tool, '{"seats": "SECRET"}')
    assert caught.value.message == (
        "The arguments of f do not fit:\n"
        "- /seats Input should be a valid integer, unable to parse string as an integer"
    )


@for_each("text", [None, {"a": 1}, 5])
def test_arguments_that_are_not_text_raise_an_error(text):
    with pytest.raises(ToolError, match="The arguments of a call must be JSON text"):
        parse_arguments(Tool("f", "", None, print), text)
