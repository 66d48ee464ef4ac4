import json
from typing import Annotated

import pytest

from stage2_output import Extraction, InvalidSchema, Issue, OutputController, ParseResult, Repair
from stage2_output.controller import MOST_SCHEMAS
from tests.stage2_output.schemas import INTEGER, SCHEMA, STRING
from tests.tables import for_each

CUT = Issue("", "The reply was cut off. Write a shorter one.", "complete")
CONTROLLER = OutputController()


def test_a_text_that_fits_returns_its_data_and_position():
    text = 'Sure: {"n": 1}'
    assert CONTROLLER.parse_and_validate(text, SCHEMA) == ParseResult(
        True, {"n": 1}, (), text, Extraction({"n": 1}, 6, 14, "prose")
    )


def test_a_text_that_does_not_fit_returns_every_issue_and_no_data():
    text = '{"m": 1}'
    result = CONTROLLER.parse_and_validate(text, {**SCHEMA, "maxProperties": 0})
    assert result == ParseResult(
        False,
        None,
        (
            Issue("", "must have 0 or fewer properties", "maxProperties", 0),
            Issue(
                "/n",
                "is missing (integer)",
                "required",
                INTEGER,
                "you sent `m`; did you mean `n`?",
            ),
        ),
        text,
        Extraction({"m": 1}, 0, 8, "bare"),
    )


@for_each("schema", [None, SCHEMA])
@for_each(
    "text, reason",
    [
        ("", "The text is empty."),
        ("no", "No JSON was found."),
        (
            'a {"n": 1, "n": 2}',
            'The JSON that begins at character 2 has the key "n" twice in one '
            "object (at character 11).",
        ),
    ],
)
def test_a_text_without_json_returns_an_issue_and_raises_no_exception(schema, text, reason):
    assert CONTROLLER.parse_and_validate(text, schema) == ParseResult(
        False, None, (Issue("", reason, "json"),), text
    )


@for_each(
    "text, data",
    [
        ('{"n": 1} or {"n": 2}', {"n": 2}),
        ('{"n": 1} or {"m": 2}', {"n": 1}),
        ('{"n": 1} as in [1]', {"n": 1}),
        ('```json\n{"n": 1}\n```\nbut {"n": 2}', {"n": 2}),
        ('<think>{"n": 1}</think>{"n": 2}', {"n": 2}),
        ('{"n": 1}<think>{"n": 2}</think>', {"n": 1}),
        ('<think>{"n": 1} {"n": 2}', {"n": 2}),
        ('{"n": oops} no, {"n": 2}', {"n": 2}),
    ],
)
def test_the_last_value_that_fits_is_used_and_values_in_thinking_only_without_another(text, data):
    result = CONTROLLER.parse_and_validate(text, SCHEMA)
    assert (result.success, result.data) == (True, data)
    assert json.loads(text[result.extraction.start : result.extraction.end]) == data


@for_each(
    "tags",
    [
        "<think>@</think>",
        "<thinking>@</thinking>",
        "<reflection>@</reflection>",
        "<scratchpad>@</scratchpad>",
        "<seed:think>@</seed:think>",
        "[THINK]@[/THINK]",
        "◁think▷@◁/think▷",
        "<|START_THINKING|>@<|END_THINKING|>",
        "<|begin_of_thought|>@<|end_of_thought|>",
        "<|channel|>analysis<|message|>@<|end|>",
        "<|channel>thought\n@<channel|>",
    ],
)
def test_a_draft_in_thinking_never_replaces_json_outside_of_it(tags):
    draft = tags.replace("@", 'Perhaps {"n": 1}?')
    for answer in ('{"m": 2}', '{"n": "two"}', '{"n": oops}'):
        for text in (f"{draft}\n{answer}", f"{answer}\n{draft}"):
            assert not CONTROLLER.parse_and_validate(text, SCHEMA).success
    for answer in ("5", '"no"', "null", "[1]"):
        assert not CONTROLLER.parse_and_validate(f"{draft}{answer}", SCHEMA).success
    unclosed = tags.partition("@")[0] + '{"n": 1}'
    for text in (f'{{"m": 2}}\n{unclosed}', f'{{"m": 2}}\n\n{unclosed}'):
        assert not CONTROLLER.parse_and_validate(text, SCHEMA).success
    assert CONTROLLER.parse_and_validate(f'{draft}\n{{"n": 2}}', SCHEMA).data == {"n": 2}
    assert CONTROLLER.parse_and_validate(draft, SCHEMA).data == {"n": 1}


@for_each(
    "text, reported",
    [
        ('{"a": 1} {"b": 2}', {"b": 2}),
        ('{"a": 1}<think>{"b": 2}</think>', {"a": 1}),
        ('{"a": 1}<think>{"n": 2}</think>', {"a": 1}),
    ],
)
def test_if_no_value_fits_the_issues_are_those_of_the_last_one_outside_thinking(text, reported):
    result = CONTROLLER.parse_and_validate(text, SCHEMA)
    assert (result.success, result.data, result.extraction.value) == (False, None, reported)


@for_each(
    "text, start",
    [
        ('{"n": 1} Answer: {"n": 2, "n": 3}', 17),
        ('{"n": 1}\n{"n": }', 9),
        ('["n"]\n```json\n["n": ]\n```', 14),
        ('<think>{"n": 1}</think>{"n": 2', 23),
        ('{"m": 1} or {"n": }', 12),
    ],
)
def test_a_broken_answer_is_not_replaced_by_a_valid_draft_before_it(text, start):
    result = CONTROLLER.parse_and_validate(text, SCHEMA)
    assert (result.success, result.data) == (False, None)
    where = f"The JSON that begins at character {start} "
    assert result.errors[0].message.startswith(where)


@for_each(
    "mention",
    [
        ' as in `{"n": <number>}`.',
        ' and not {"n": ...}.',
        " for the set {n : n > 0}",
        "\n\nThe format is {n: number}.",
        "\n```js\nlet x = { n: 2 };\n```",
        " [1], [2].",
    ],
)
def test_a_mention_of_json_after_the_answer_does_not_hide_the_answer(mention):
    result = CONTROLLER.parse_and_validate('{"n": 1}' + mention, SCHEMA)
    assert (result.success, result.data) == (True, {"n": 1})


def test_without_a_schema_the_value_of_extract_json_is_used():
    result = CONTROLLER.parse_and_validate('{"n": 1} or {"n": 2}')
    assert result.data == {"n": 1}


@for_each("text", ["null", "0", "false", '""', "[]", "{}"])
def test_an_empty_value_is_valid_data(text):
    result = CONTROLLER.parse_and_validate(text)
    assert (result.success, result.data) == (True, json.loads(text))


@for_each("schema", [None, SCHEMA])
@for_each(
    "text, found",
    [
        ('{"n": 1}', Extraction({"n": 1}, 0, 8, "bare", (), False)),
        ('{"n": 1', Extraction({"n": 1}, 0, 7, "bare", (Repair("missing_closer", 7),), False)),
        ("", None),
    ],
)
def test_a_truncated_reply_is_an_error_even_if_it_fits(schema, text, found):
    result = CONTROLLER.parse_and_validate(text, schema, truncated=True)
    assert result == ParseResult(False, None, (CUT,), text, found)


NOT_WHOLE = "The JSON that begins at character 0 is not complete: "
GAPS = {
    '{"n": 1': "a closing bracket is missing at character 7.",
    '{"s": "a, "n": 1}': "a closing quote is missing at character 8.",
    '{"n": 1, ...}': "a part was left out at character 9.",
}


@for_each("schema", [None, SCHEMA])
@for_each("text, gap", GAPS.items())
def test_an_incomplete_value_is_an_error_even_if_it_fits(schema, text, gap):
    result = CONTROLLER.parse_and_validate(text, schema)
    assert (result.success, result.data) == (False, None)
    assert result.errors == (Issue("", NOT_WHOLE + gap, "complete"),)
    assert (result.extraction.value["n"], result.extraction.complete) == (1, False)


@for_each("text", ["{'n': 1,}", "{n: 1} // one", '```\n{"n": 1,}\n```'])
def test_a_repaired_value_is_data_with_repairs(text):
    result = CONTROLLER.parse_and_validate(text, SCHEMA)
    assert (result.success, result.data) == (True, {"n": 1})
    assert result.extraction.repairs


def test_an_invalid_schema_raises_an_error_for_any_text():
    for options in ({}, {"truncated": True}):
        with pytest.raises(InvalidSchema, match=r"\$\.type"):
            CONTROLLER.parse_and_validate("", {"type": "strin"}, **options)


def test_different_schemas_are_not_confused_with_each_other():
    controller = OutputController()
    schemas = [None, True, {}, STRING, INTEGER, False]
    for _ in range(2):
        successes = [controller.parse_and_validate("1", schema).success for schema in schemas]
        assert successes == [True, True, True, False, True, False]


def test_schemas_that_are_used_in_turn_are_compiled_once():
    controller = OutputController()
    schemas = [SCHEMA, STRING, int]
    compiled = [controller.compile(schema) for schema in schemas]
    assert all(
        controller.compile(schema) is known for schema, known in zip(schemas, compiled, strict=True)
    )


def test_the_cache_of_schemas_is_cleared_when_it_is_full():
    controller = OutputController()
    first = controller.compile({"const": 0})
    for number in range(1, MOST_SCHEMAS):
        controller.compile({"const": number})
    assert controller.compile({"const": 0}) is first
    last = controller.compile({"const": MOST_SCHEMAS})
    assert controller.compile({"const": 0}) is not first
    assert controller.compile({"const": MOST_SCHEMAS}) is last


def test_a_list_is_not_a_schema():
    with pytest.raises(InvalidSchema, match="has no valid JSON Schema"):
        CONTROLLER.compile([int])


def test_a_schema_that_json_cannot_hold_is_invalid():
    circular = {"type": "object"}
    circular["properties"] = {"a": circular}
    for schema in ({"type": "object", 1: "one"}, circular):
        with pytest.raises(InvalidSchema, match="The JSON Schema cannot be written as JSON: "):
            CONTROLLER.compile(schema)


def test_brackets_in_prose_after_an_answer_are_ignored():
    result = CONTROLLER.parse_and_validate('{"n": 1}\n(pattern [0-9]+, see [1, 2, ...])', SCHEMA)
    assert (result.success, result.data) == (True, {"n": 1})


def test_an_annotated_type_that_is_not_hashable_is_a_schema():
    assert CONTROLLER.parse_and_validate("1", Annotated[int, ["note"]]).data == 1
