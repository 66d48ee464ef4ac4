import asyncio
import json
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ChatResponse,
    Gateway,
    InvalidRequest,
    Message,
    OfflineModel,
    ScriptedModel,
    Usage,
)
from stage2_output import Extraction, InvalidSchema, Issue, OutputController, ParseResult, feedback
from tests.stage2_output.schemas import INTEGER, SCHEMA, STRING
from tests.tables import for_each

QUESTION = {"role": "user", "content": "how many?"}
INSTRUCTION_TEXT = (
    "Answer with one JSON value that fits this JSON Schema, and nothing else:\n"
    + json.dumps(SCHEMA)
)
INSTRUCTIONS = {"role": "system", "content": INSTRUCTION_TEXT}
REFUSAL = Issue("", "The model refused to answer.", "refusal")
FITS = Extraction({"n": 1}, 0, 8, "bare")


@dataclass
class Reply:
    content: str | None
    finish_reason: str = "stop"
    usage: object = None


class StatusError(Exception):
    """An error of the server with an HTTP status."""

    def __init__(self, status):
        super().__init__(f"no: {status}")
        self.status = status


class Server:
    """Returns or raises its replies in turn, and records the requests."""

    def __init__(self, *replies, supports_schema=True):
        self.replies = list(replies)
        self.supports_schema = supports_schema
        self.requests = []
        self.options = []

    async def chat(self, messages, **options):
        self.requests.append(messages)
        self.options.append(options)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply)


def correction(text, **options):
    """The feedback message for a text."""
    result = OutputController().parse_and_validate(text, SCHEMA, **options)
    return {"role": "user", "content": f"[Feedback]\n{feedback(result)}"}


async def request_data(chat, schema=SCHEMA, messages=(QUESTION,), **options):
    """The result of a request by a new controller."""
    return await OutputController().request(chat, messages, schema, **options)


# ---- request, read, feedback, next attempt


async def test_a_plain_function_receives_the_messages_as_its_only_argument():
    requests = []

    async def chat(messages):
        requests.append(messages)
        return Reply('{"n": 1}')

    assert await request_data(chat) == ParseResult(True, {"n": 1}, (), '{"n": 1}', FITS, attempts=1)
    assert requests == [[INSTRUCTIONS, QUESTION]]


NO_JSON = "[Feedback]\nNo JSON was found. Answer with the JSON and nothing else."
MISSING = "[Feedback]\nYour JSON does not fit:\n- /n is missing (integer)"


async def test_each_invalid_reply_is_followed_by_its_feedback():
    server = Server("three", "{}", '{"n": 1}')
    result = await request_data(server.chat)
    assert (result.data, result.attempts, result.raw) == ({"n": 1}, 3, '{"n": 1}')
    messages = [
        INSTRUCTIONS,
        QUESTION,
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": NO_JSON},
        {"role": "assistant", "content": "{}"},
        {"role": "user", "content": MISSING},
    ]
    assert server.requests == [messages[:2], messages[:4], messages]


@for_each("attempts", [1, 2])
async def test_the_last_failure_is_returned_when_the_attempts_are_used_up(attempts):
    server = Server(*["{}"] * attempts, '{"n": 1}')
    missing = Issue("/n", "is missing (integer)", "required", INTEGER)
    empty = Extraction({}, 0, 2, "bare")
    result = await request_data(server.chat, max_attempts=attempts)
    assert result == ParseResult(False, None, (missing,), "{}", empty, attempts=attempts)
    assert len(server.requests) == attempts


@for_each("attempts", [0, -1])
async def test_fewer_than_one_attempt_raises_an_error_before_any_request(attempts):
    server = Server()
    with pytest.raises(ValueError, match=f"max_attempts must be at least 1, not {attempts}"):
        await request_data(server.chat, max_attempts=attempts)
    assert server.requests == []


async def test_a_truncated_reply_is_never_used_and_gets_feedback():
    server = Server(Reply('{"n": 1}', "length"), '{"n": 1}')
    assert (await request_data(server.chat)).attempts == 2
    assert server.requests[1][2:] == [
        {"role": "assistant", "content": '{"n": 1}'},
        correction('{"n": 1}', truncated=True),
    ]
    assert "cut off" in server.requests[1][-1]["content"]


@for_each("reason", ["length", "MAX_TOKENS", "max_output_tokens", "Incomplete"])
async def test_a_reply_with_any_known_finish_reason_for_truncation_is_not_used(reason):
    server = Server(Reply('{"n": 1}', reason), Reply('{"n": 2}', "STOP"))
    result = await request_data(server.chat)
    assert (result.data, result.attempts) == ({"n": 2}, 2)


@for_each("nothing", [None, "", " \n"])
async def test_an_empty_reply_gets_feedback_but_is_not_sent_back(nothing):
    server = Server(Reply(nothing), '{"n": 1}')
    assert (await request_data(server.chat)).attempts == 2
    assert server.requests[1] == [INSTRUCTIONS, QUESTION, correction("")]


@for_each("text", ["I must not say this.", '{"n": 1}', None])
async def test_a_refusal_ends_the_attempts_and_its_text_is_returned(text):
    server = Server("three", Reply(text, "refusal"), '{"n": 1}')
    assert await request_data(server.chat) == ParseResult(
        False, None, (REFUSAL,), text or "", attempts=2
    )
    assert len(server.requests) == 2


async def test_a_refusal_in_a_separate_field_is_returned():
    no = ChatResponse(Message.assistant(""), finish_reason="refusal", refusal="I will not.")
    async with Gateway("openai:m", transport=ScriptedModel([no])) as gateway:
        assert (await request_data(gateway)).raw == "I will not."


# ---- any async function


async def test_a_chat_may_return_a_text():
    replies = ["three", '{"n": 1}']

    async def chat(messages):
        return replies.pop(0)

    result = await request_data(chat)
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, None)


@for_each(
    "reply",
    [
        None,
        {"content": '{"n": 1}', "finish_reason": "stop"},
        SimpleNamespace(finish_reason="stop"),
        SimpleNamespace(content='{"n": 1}'),
        SimpleNamespace(content=['{"n": 1}'], finish_reason="stop"),
    ],
)
async def test_an_invalid_reply_of_a_chat_raises_a_type_error(reply):
    async def chat(messages):
        return reply

    expected = (
        "chat must return a text, or a reply with a text as `content` and a `finish_reason`, such "
        f"as ChatResponse, not {type(reply).__name__}."
    )
    with pytest.raises(TypeError) as caught:
        await request_data(chat)
    assert str(caught.value) == expected


async def test_a_chat_that_is_not_async_raises_a_type_error():
    with pytest.raises(TypeError, match=r"^chat must be an async function: "):
        await request_data(lambda messages: '{"n": 1}')


# ---- the messages


async def test_an_iterable_of_mappings_is_sent_as_dicts_and_not_changed():
    mine = {"role": "user", "content": "how many?"}
    server = Server("{}", '{"n": 1}')
    await request_data(server.chat, messages=(message for message in [MappingProxyType(mine)]))
    assert [type(message) for request in server.requests for message in request] == [dict] * 6
    assert server.requests[0] == [INSTRUCTIONS, QUESTION]
    assert mine == QUESTION


async def test_a_list_of_messages_is_not_changed_after_it_was_sent():
    server = Server("{}", "{}", '{"n": 1}')
    await request_data(server.chat)
    assert [len(request) for request in server.requests] == [2, 4, 6]


async def test_message_objects_and_mappings_can_be_mixed():
    server = Server('{"n": 1}')
    messages = [Message.system("Be brief."), Message.user("how many?"), QUESTION]
    given = [*messages]
    await request_data(server.chat, messages=given)
    extended = {"role": "system", "content": f"Be brief.\n\n{INSTRUCTION_TEXT}"}
    assert server.requests == [[extended, QUESTION, QUESTION]]
    assert given == messages


@for_each("messages", [["how many?"], [None], [("user", "how many?")]])
async def test_an_invalid_message_raises_a_type_error(messages):
    server = Server()
    with pytest.raises(
        TypeError,
        match=r'^A message must be a Message, or a mapping such as \{"role": "user", "content": '
        r'"…"\}, not (str|NoneType|tuple)\.$',
    ):
        await request_data(server.chat, messages=messages)
    assert server.requests == []


@for_each(
    "content, extended",
    [
        ("Be brief.", f"Be brief.\n\n{INSTRUCTION_TEXT}"),
        (
            [{"type": "text", "text": "Be brief."}],
            [{"type": "text", "text": "Be brief."}, {"type": "text", "text": INSTRUCTION_TEXT}],
        ),
        (None, [{"type": "text", "text": INSTRUCTION_TEXT}]),
    ],
)
async def test_the_schema_is_added_to_the_existing_system_message(content, extended):
    server = Server('{"n": 1}')
    await request_data(
        server.chat, messages=[{"role": "system", "content": content, "name": "host"}, QUESTION]
    )
    assert server.requests == [[{"role": "system", "content": extended, "name": "host"}, QUESTION]]


async def test_a_schema_is_sent_without_ascii_escapes():
    schema = {"type": "object", "properties": {"城市": STRING}}
    server = Server("{}")
    await request_data(server.chat, schema)
    assert server.requests[0][0]["content"].endswith('{"城市": {"type": "string"}}}')


@for_each("schema", [None, True, {}])
async def test_a_schema_that_accepts_any_value_is_not_added_to_the_messages(schema):
    server = Server("1")
    assert (await request_data(server.chat, schema)).data == 1
    assert server.requests[0][0]["content"] == "Answer with one JSON value, and nothing else."


# ---- usage and errors


@for_each(
    "reported, total",
    [
        ([Usage(10, 5), Usage(20, 6)], Usage(30, 11)),
        ([None, Usage(20, 6)], Usage(20, 6)),
        ([Usage(10, 5), None], Usage(10, 5)),
        ([{"tokens": 1}, {"tokens": 2}], None),
        ([None, None], None),
    ],
)
async def test_usage_is_added_up_over_the_attempts(reported, total):
    first, second = reported
    server = Server(Reply("three", usage=first), Reply('{"n": 1}', usage=second))
    result = await request_data(server.chat)
    assert (result.attempts, result.usage) == (2, total)


async def test_a_reply_may_have_no_usage():
    class Bare:
        content = '{"n": 1}'
        finish_reason = "stop"

    async def chat(messages):
        return Bare()

    assert (await request_data(chat)).usage is None


@for_each("error", [ConnectionError("gone"), StatusError(401), StatusError(429), StatusError(500)])
async def test_an_exception_of_the_chat_is_raised_unchanged(error):
    server = Server("three", error, '{"n": 1}')
    with pytest.raises(type(error)) as caught:
        await request_data(server.chat)
    assert caught.value is error
    assert len(server.requests) == 2


async def test_cancelling_stops_the_chat():
    begun, stopped = asyncio.Event(), []

    async def chat(messages):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    task = asyncio.create_task(request_data(chat))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped == [True]


NOT_JSON = "The JSON Schema cannot be written as JSON: "


@for_each(
    "schema, reason",
    [
        ({"type": "strin"}, "is invalid at"),
        ({"enum": [{1, 2}]}, NOT_JSON),
        ({"enum": [float("nan")]}, NOT_JSON),
        ({"enum": [object()]}, NOT_JSON),
    ],
)
async def test_an_invalid_schema_raises_an_error_before_any_request(schema, reason):
    server = Server()
    with pytest.raises(InvalidSchema, match=reason):
        await request_data(server.chat, schema)
    assert server.requests == []


# ---- structured output

SENT = [{"response_schema": SCHEMA}]


async def test_a_server_that_supports_schemas_receives_the_schema_with_every_attempt():
    server = Server("three", '{"n": 1}')
    await request_data(server)
    assert server.options == SENT * 2
    assert server.requests[0] == [INSTRUCTIONS, QUESTION]


@for_each("supports", [False, None])
async def test_a_server_that_does_not_support_schemas_receives_none(supports):
    server = Server('{"n": 1}', supports_schema=supports)
    await request_data(server)
    assert server.options == [{}]


@for_each(
    "schema",
    [
        True,
        {},
        {"type": "array", "items": {"type": "object"}},
        {"type": ["object", "null"]},
        {"anyOf": [{"type": "object"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    ],
)
async def test_only_schemas_of_objects_are_sent_to_the_server(schema):
    server = Server("{}", "[]")
    await request_data(server, schema)
    assert {*map(str, server.options)} == {"{}"}


async def test_a_chat_function_receives_no_schema():
    server = Server(*['{"n": 1}'] * 3)
    await request_data(server.chat)
    await request_data(partial(server.chat, temperature=0))
    await request_data(lambda messages: server.chat(messages))
    assert server.options == [{}, {"temperature": 0}, {}]


@for_each("status", [400, 404, 422])
async def test_a_schema_that_the_server_rejects_is_not_sent_again(status):
    server = Server(StatusError(status), "three", '{"n": 1}')
    result = await request_data(server, max_attempts=2)
    assert (result.data, result.attempts) == ({"n": 1}, 2)
    assert server.options == [*SENT, {}, {}]
    assert server.requests[:2] == [[INSTRUCTIONS, QUESTION]] * 2


async def test_an_error_that_also_occurs_without_the_schema_is_raised_without_context():
    again = StatusError(400)
    server = Server(StatusError(400), again)
    with pytest.raises(StatusError) as caught:
        await request_data(server)
    assert (caught.value, caught.value.__context__) == (again, None)


async def test_the_next_request_tries_the_schema_again():
    server = Server(StatusError(400), '{"n": 1}', '{"n": 1}')
    await request_data(server)
    await request_data(server)
    assert server.options == [*SENT, {}, *SENT]


# ---- with a gateway

WIRES = ["openai:m", "anthropic:m", "gemini:m", "openai-responses:m"]


@for_each("wire", WIRES)
async def test_the_schema_is_sent_in_every_wire_format(wire):
    model = ScriptedModel(["three", '{"n": 1}'])
    async with Gateway(wire, transport=model) as gateway:
        result = await request_data(gateway)
    assert [request.response_schema for request in model.requests] == [SCHEMA] * 2
    question = (Message.system(INSTRUCTION_TEXT), Message.user("how many?"))
    answer = (Message.assistant("three"), Message.user(NO_JSON))
    assert [request.messages for request in model.requests] == [question, question + answer]
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, Usage(20, 10))


async def test_a_gateway_for_a_server_without_schema_support_sends_none():
    model = ScriptedModel(['{"n": 1}'])
    async with Gateway("deepseek:m", transport=model) as gateway:
        assert (await request_data(gateway)).success
    assert [request.response_schema for request in model.requests] == [None]


@for_each("wire", WIRES)
async def test_a_400_error_for_the_schema_is_followed_by_a_request_without_it(wire):
    model = ScriptedModel([400, "three", '{"n": 1}'])
    async with Gateway(wire, transport=model) as gateway:
        result = await request_data(gateway)
    assert [request.response_schema for request in model.requests] == [SCHEMA, None, None]
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, Usage(20, 10))


async def test_a_request_that_fails_without_the_schema_too_raises_the_error_of_the_server():
    for replies, kind in (([400, 400], InvalidRequest), ([401], AuthenticationFailed)):
        model = ScriptedModel(replies)
        async with Gateway("openai:m", transport=model) as gateway:
            with pytest.raises(kind):
                await request_data(gateway)


@for_each("wire", WIRES)
async def test_a_model_that_refuses_is_not_called_again(wire):
    no = ChatResponse(Message.assistant("I will not."), finish_reason="refusal", usage=Usage(3, 4))
    async with Gateway(wire, transport=ScriptedModel([no])) as gateway:
        result = await request_data(gateway)
    assert result == ParseResult(
        False, None, (REFUSAL,), "I will not.", attempts=1, usage=Usage(3, 4)
    )


async def test_the_offline_model_is_corrected_in_its_second_attempt():
    model = OfflineModel(["not_json"])
    async with Gateway("offline:teacher", transport=model) as gateway:
        result = await request_data(
            gateway, messages=[{"role": "user", "content": "We have 7 apples."}]
        )
    assert (result.data, result.attempts) == ({"n": 7}, 2)
