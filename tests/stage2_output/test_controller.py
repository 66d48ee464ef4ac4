import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import pytest

from stage0_gateway import Gateway, Message, ScriptedModel
from stage2_output import Extraction, InvalidSchema, Issue, OutputController, ParseResult, Repair
from stage2_output.controller import MOST_SCHEMAS
from tests.tables import for_each

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MISSING = Issue("/n", "is missing (integer)", "required", {"type": "integer"})
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
                {"type": "integer"},
                "you sent `m`; did you mean `n`?",
            ),
        ),
        text,
        Extraction({"m": 1}, 0, 8, "bare"),
    )


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["no schema", "schema"])
@pytest.mark.parametrize(
    ("text", "reason"),
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


@pytest.mark.parametrize(
    ("text", "data"),
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


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{"a": 1} {"b": 2}', {"b": 2}),
        ('{"a": 1}<think>{"b": 2}</think>', {"a": 1}),
        ('{"a": 1}<think>{"n": 2}</think>', {"a": 1}),
    ],
)
def test_if_no_value_fits_the_issues_are_those_of_the_last_one_outside_thinking(text, reported):
    result = CONTROLLER.parse_and_validate(text, SCHEMA)
    assert (result.success, result.data, result.extraction.value) == (False, None, reported)


@pytest.mark.parametrize(
    ("text", "start"),
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
    assert result.errors[0].message.startswith(where) or result.extraction.start == start


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("text", ["null", "0", "false", '""', "[]", "{}"])
def test_an_empty_value_is_valid_data(text):
    result = CONTROLLER.parse_and_validate(text)
    assert (result.success, result.data) == (True, json.loads(text))


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["no schema", "schema"])
@pytest.mark.parametrize(
    ("text", "found"),
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


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["no schema", "schema"])
@pytest.mark.parametrize(("text", "gap"), GAPS.items())
def test_an_incomplete_value_is_an_error_even_if_it_fits(schema, text, gap):
    result = CONTROLLER.parse_and_validate(text, schema)
    assert (result.success, result.data) == (False, None)
    assert result.errors == (Issue("", NOT_WHOLE + gap, "complete"),)
    assert (result.extraction.value["n"], result.extraction.complete) == (1, False)


@pytest.mark.parametrize("text", ["{'n': 1,}", "{n: 1} // one", '```\n{"n": 1,}\n```'])
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
    schemas = [None, True, {}, {"type": "string"}, {"type": "integer"}, False]
    for _ in range(2):
        successes = [controller.parse_and_validate("1", schema).success for schema in schemas]
        assert successes == [True, True, True, False, True, False]


def test_schemas_that_are_used_in_turn_are_compiled_once():
    controller = OutputController()
    schemas = [SCHEMA, {"type": "string"}, int]
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


@dataclass
class Reply:
    content: str
    finish_reason: str = "stop"


class Chat:
    """Returns its replies in turn and records the messages."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.sent = []

    async def __call__(self, messages):
        self.sent.append(list(messages))
        return self.replies.pop(0)


QUESTION = {"role": "user", "content": "how many?"}
INSTRUCTIONS = {
    "role": "system",
    "content": "Answer with one JSON value that fits this JSON Schema, and nothing else:\n"
    + json.dumps(SCHEMA),
}


async def test_a_reply_that_fits_takes_one_attempt():
    chat = Chat(Reply('{"n": 1}'))
    result = await OutputController().request(chat, [QUESTION], SCHEMA)
    assert result == ParseResult(
        True, {"n": 1}, (), '{"n": 1}', Extraction({"n": 1}, 0, 8, "bare"), attempts=1
    )
    assert chat.sent == [[INSTRUCTIONS, QUESTION]]


async def test_a_reply_that_does_not_fit_is_answered_with_feedback_and_repeated():
    chat = Chat(Reply("three"), Reply("{}"), Reply('{"n": 3}'))
    result = await OutputController().request(chat, [QUESTION], SCHEMA)
    assert (result.data, result.attempts) == ({"n": 3}, 3)
    assert chat.sent[2] == [
        INSTRUCTIONS,
        QUESTION,
        {"role": "assistant", "content": "three"},
        {
            "role": "user",
            "content": "[Feedback]\nNo JSON was found. Answer with the JSON and nothing else.",
        },
        {"role": "assistant", "content": "{}"},
        {
            "role": "user",
            "content": "[Feedback]\nYour JSON does not fit:\n- /n is missing (integer)",
        },
    ]
    assert chat.sent[:2] == [chat.sent[2][:2], chat.sent[2][:4]]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_the_last_failure_is_returned_when_the_attempts_are_used_up(attempts):
    chat = Chat(*[Reply("{}")] * attempts)
    result = await OutputController().request(chat, [QUESTION], SCHEMA, max_attempts=attempts)
    assert result == ParseResult(
        False, None, (MISSING,), "{}", Extraction({}, 0, 2, "bare"), attempts=attempts
    )
    assert len(chat.sent) == attempts


async def test_a_truncated_reply_is_requested_again():
    chat = Chat(Reply('{"n": 1}', "length"), Reply('{"n": 2}'))
    result = await OutputController().request(chat, [QUESTION], SCHEMA)
    assert (result.data, result.attempts) == ({"n": 2}, 2)
    assert chat.sent[1][-1]["content"].startswith("[Feedback]\nThe reply was cut off")


@pytest.mark.parametrize("attempts", [0, -1])
async def test_fewer_than_one_attempt_raises_an_error_before_any_request(attempts):
    chat = Chat()
    with pytest.raises(ValueError, match=f"max_attempts must be at least 1, not {attempts}"):
        await OutputController().request(chat, [QUESTION], SCHEMA, max_attempts=attempts)
    assert chat.sent == []


async def test_an_invalid_schema_raises_an_error_before_any_request():
    chat = Chat()
    with pytest.raises(InvalidSchema):
        await OutputController().request(chat, [QUESTION], {"type": "strin"})
    assert chat.sent == []


async def test_the_messages_of_the_caller_are_not_changed():
    messages = [dict(QUESTION)]
    await OutputController().request(Chat(Reply("{}"), Reply('{"n": 1}')), messages, SCHEMA)
    assert messages == [QUESTION]


async def test_messages_that_are_mappings_are_sent_as_dicts():
    chat = Chat(Reply('{"n": 1}'))
    await OutputController().request(chat, [MappingProxyType(QUESTION)], SCHEMA)
    assert json.loads(json.dumps(chat.sent)) == [[INSTRUCTIONS, QUESTION]]


async def test_the_schema_is_added_to_the_existing_system_message():
    chat = Chat(Reply('{"n": 1}'))
    brief = {"role": "system", "content": "Be brief."}
    await OutputController().request(chat, [brief, QUESTION], SCHEMA)
    extended = {"role": "system", "content": "Be brief.\n\n" + INSTRUCTIONS["content"]}
    assert chat.sent == [[extended, QUESTION]]


async def test_an_exception_of_the_chat_is_raised():
    async def chat(messages):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        await OutputController().request(chat, [QUESTION], SCHEMA)


async def test_the_chat_method_of_a_gateway_can_be_used():
    model = ScriptedModel(["three", '{"n": 3}'])
    async with Gateway("openai:gpt-5-mini", transport=model) as gateway:
        result = await OutputController().request(gateway.chat, [QUESTION], SCHEMA)
    assert (result.data, result.attempts) == ({"n": 3}, 2)
    assert model.requests[0].messages == (
        Message.system(INSTRUCTIONS["content"]),
        Message.user("how many?"),
    )
    assert model.requests[1].messages[2:] == (
        Message.assistant("three"),
        Message.user("[Feedback]\nNo JSON was found. Answer with the JSON and nothing else."),
    )


def test_brackets_in_prose_after_an_answer_are_ignored():
    result = CONTROLLER.parse_and_validate('{"n": 1}\n(pattern [0-9]+, see [1, 2, ...])', SCHEMA)
    assert (result.success, result.data) == (True, {"n": 1})


def test_an_annotated_type_that_is_not_hashable_is_a_schema():
    assert CONTROLLER.parse_and_validate("1", Annotated[int, ["note"]]).data == 1
