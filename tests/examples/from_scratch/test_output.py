"""The steps of examples/from_scratch/output.py."""

import pytest

from examples.from_scratch.gateway import Reply
from examples.from_scratch.output import InvalidOutput, describe, parse, read, request, validate

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada", "age": 36}
JSON = '{"name": "Ada", "age": 36}'


def model(*replies):
    """An `ask` with these replies, and the messages that it receives."""
    asked, replies = [], iter(replies)

    async def ask(messages):
        asked.append(list(messages))
        text, reason = next(replies)
        return Reply({"role": "assistant", "content": text}, reason)

    return ask, asked


# ---- Step 1: Find


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"```json\n{JSON}\n```",
        f"Sure!\n```\n{JSON}\n```\nI hope this helps.",
        f"The person is {JSON}, as you asked.",
        f'<think>{{"name": "A", "age": 1}}?</think>{JSON}',
        f"A set is {{1, 2}}. The person is {JSON}.",
    ],
    ids=["whole", "fence", "fence in prose", "prose", "thinking", "other brackets"],
)
def test_the_json_is_found(text):
    assert read(text, PERSON).value == ADA


def test_a_bracket_inside_a_string_does_not_end_the_json():
    assert read('Here: {"name": "A } B", "age": 1}!', PERSON).value == {"name": "A } B", "age": 1}


def test_an_object_in_prose_is_found_with_the_objects_inside_it():
    assert read('Here: {"a": {"b": [1]}}!', {"required": ["a"]}).value == {"a": {"b": [1]}}


def test_json_that_was_not_closed_is_not_used():
    assert read('Here: {"name": "Ada", "age": 3', PERSON).issues == [
        "The reply contains no valid JSON."
    ]


# ---- Step 2: Parse


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": 1}', {"a": 1}, []),
        ('{"a": [1, 2,],}', {"a": [1, 2]}, ["trailing comma removed"] * 2),
        ("{'a': 'x'}", {"a": "x"}, ["single quotes replaced"] * 2),
        (r"""{'a': 'it\'s "x"'}""", {"a": 'it\'s "x"'}, ["single quotes replaced"] * 2),
        ('{"a": "it\'s, }",}', {"a": "it's, }"}, ["trailing comma removed"]),
    ],
)
def test_repairs_are_reported(text, value, repairs):
    assert parse(text) == (value, repairs)


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 'it's'}",
        "[,]",
        "[1,,]",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        "{a: 1}",
        "",
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_has_several_corrections_is_not_repaired(text):
    with pytest.raises(ValueError):  # noqa: PT011 - each text has its own message
        parse(text)


# ---- Step 3: Validate


def test_a_valid_value_has_no_issues():
    assert validate(ADA, PERSON) == []


def test_all_issues_are_reported_with_their_locations():
    assert validate({"age": "36"}, PERSON) == [
        "$.age: '36' is not of type 'integer'",
        "$: 'name' is a required property",
    ]


def test_a_value_that_fits_is_preferred_to_an_earlier_one_that_does_not():
    assert read(f'Instead of {{"name": 1}}: {JSON}', PERSON).value == ADA


# ---- Step 4: Feedback


def test_the_feedback_contains_all_issues():
    assert describe(["one", "two"]) == (
        "Your reply cannot be used:\n- one\n- two\nAnswer with the corrected JSON only."
    )


def test_a_long_issue_is_cut_and_keeps_both_of_its_ends():
    text = describe(["$.age: " + "9" * 10_000 + " is not a number"])
    assert len(text) < 400
    assert "$.age" in text
    assert "is not a number" in text


# ---- Step 5: Ask again


async def test_an_invalid_reply_is_corrected():
    ask, asked = model(('{"name": "Ada"}', "stop"), (JSON, "stop"))
    assert (await request(ask, [], PERSON)).value == ADA
    reply, feedback = asked[1]
    assert reply["content"] == '{"name": "Ada"}'
    assert "'age' is a required property" in feedback["content"]


async def test_a_reply_without_text_is_invalid():
    ask, _ = model((None, "stop"), (JSON, "stop"))
    assert (await request(ask, [], PERSON)).value == ADA


async def test_the_messages_of_the_caller_are_not_changed():
    ask, _ = model(("no", "stop"), (JSON, "stop"))
    messages = [{"role": "user", "content": "Who is Ada?"}]
    await request(ask, messages, PERSON)
    assert len(messages) == 1


async def test_a_reply_that_was_cut_off_is_not_used_although_it_looks_valid():
    ask, asked = model((JSON, "length"), (JSON, "stop"))
    await request(ask, [], PERSON)
    assert "cut off" in asked[1][-1]["content"]


async def test_the_attempts_are_limited():
    ask, asked = model(*[("no", "stop")] * 3)
    with pytest.raises(InvalidOutput, match="3 attempts"):
        await request(ask, [], PERSON)
    assert len(asked) == 3
