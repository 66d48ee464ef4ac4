import asyncio
import json
from dataclasses import dataclass, replace
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

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
QUESTION = {"role": "user", "content": "how many?"}
TOLD = "Answer with one JSON value that fits this JSON Schema, and nothing else:\n" + json.dumps(
    SCHEMA
)
ORDER = {"role": "system", "content": TOLD}
NO = Issue("", "The model refused to answer.", "refusal")
FITS = Extraction({"n": 1}, 0, 8, "bare")


@dataclass
class Reply:
    content: str | None
    finish_reason: str = "stop"
    usage: object = None


class Refused(Exception):
    def __init__(self, status):
        super().__init__(f"no: {status}")
        self.status = status


class Server:
    """Gives its replies in turn, or raises them, and remembers what it was sent."""

    def __init__(self, *replies, supports_schema=True):
        self.replies = list(replies)
        self.supports_schema = supports_schema
        self.talks = []
        self.options = []

    async def chat(self, messages, **options):
        self.talks.append(messages)
        self.options.append(options)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply)


def correction(text, **options):
    """The message that tells a model what is wrong with its text."""
    result = OutputController().parse_and_validate(text, SCHEMA, **options)
    return {"role": "user", "content": f"[Feedback]\n{feedback(result)}"}


async def asked(chat, schema=SCHEMA, messages=(QUESTION,), **options):
    """The result of a request by a new controller."""
    return await OutputController().request(chat, messages, schema, **options)


# ---- ask, read, tell, ask again
# -------------------------------------------------------------------------


async def test_a_plain_function_is_sent_messages_and_nothing_else():
    talks = []

    async def chat(messages):
        talks.append(messages)
        return Reply('{"n": 1}')

    assert await asked(chat) == ParseResult(True, {"n": 1}, (), '{"n": 1}', FITS, attempts=1)
    assert talks == [[ORDER, QUESTION]]


async def test_each_reply_is_followed_by_what_is_wrong_with_it():
    server = Server("three", "{}", '{"n": 1}')
    result = await asked(server.chat)
    assert (result.data, result.attempts, result.raw) == ({"n": 1}, 3, '{"n": 1}')
    first, second, third = server.talks
    assert first == [ORDER, QUESTION]
    assert [second[:2], third[:4]] == [first, second]
    assert second[2:] == [
        {"role": "assistant", "content": "three"},
        correction("three"),
    ]
    assert third[4:] == [
        {"role": "assistant", "content": "{}"},
        correction("{}"),
    ]


async def test_when_the_attempts_are_used_up_the_last_failure_comes_back():
    server = Server("three", "{}", '{"n": 1}')
    result = await asked(server.chat, max_attempts=2)
    assert result == replace(OutputController().parse_and_validate("{}", SCHEMA), attempts=2)
    assert len(server.talks) == 2


@pytest.mark.parametrize("attempts", [0, -1])
async def test_fewer_than_one_attempt_is_refused_before_anything_is_sent(attempts):
    server = Server()
    with pytest.raises(ValueError, match=f"max_attempts must be at least 1, not {attempts}"):
        await asked(server.chat, max_attempts=attempts)
    assert server.talks == []


async def test_a_reply_that_was_cut_is_never_used_and_the_model_is_told():
    server = Server(Reply('{"n": 1}', "length"), '{"n": 1}')
    assert (await asked(server.chat)).attempts == 2
    assert server.talks[1][2:] == [
        {"role": "assistant", "content": '{"n": 1}'},
        correction('{"n": 1}', truncated=True),
    ]
    assert "cut off" in server.talks[1][-1]["content"]


@pytest.mark.parametrize("nothing", [None, "", " \n"])
async def test_a_reply_that_says_nothing_is_told_of_but_not_sent_back(nothing):
    server = Server(Reply(nothing), '{"n": 1}')
    assert (await asked(server.chat)).attempts == 2
    assert server.talks[1] == [ORDER, QUESTION, correction("")]


@pytest.mark.parametrize("text", ["I must not say this.", '{"n": 1}', None])
async def test_a_refusal_ends_the_attempts_and_its_words_are_for_people(text):
    server = Server("three", Reply(text, "refusal"), '{"n": 1}')
    assert await asked(server.chat) == ParseResult(False, None, (NO,), text or "", attempts=2)
    assert len(server.talks) == 2


async def test_a_refusal_that_stands_beside_the_text_is_kept_too():
    no = ChatResponse(Message.assistant(""), finish_reason="refusal", refusal="I will not.")
    async with Gateway("openai:m", transport=ScriptedModel([no])) as gateway:
        assert (await asked(gateway.chat)).raw == "I will not."


# ---- any async function
# ---------------------------------------------------------------------------------------


async def test_a_chat_may_return_a_text():
    replies = ["three", '{"n": 1}']

    async def chat(messages):
        return replies.pop(0)

    result = await asked(chat)
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, None)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {"content": '{"n": 1}', "finish_reason": "stop"},
        SimpleNamespace(finish_reason="stop"),
        SimpleNamespace(content='{"n": 1}'),
        SimpleNamespace(content=['{"n": 1}'], finish_reason="stop"),
    ],
)
async def test_any_other_value_of_a_chat_is_the_callers_error(reply):
    async def chat(messages):
        return reply

    expected = (
        "chat must return a text, or a reply with a text as `content` and a `finish_reason`, such "
        f"as ChatResponse, not {type(reply).__name__}."
    )
    with pytest.raises(TypeError) as caught:
        await asked(chat)
    assert str(caught.value) == expected


async def test_a_chat_that_is_not_async_is_the_callers_error():
    with pytest.raises(TypeError, match=r"^chat must be an async function: "):
        await asked(lambda messages: '{"n": 1}')


# ---- the messages
# ---------------------------------------------------------------------------------------


async def test_messages_of_any_mapping_from_any_iterable_are_sent_as_dicts_and_left_as_they_were():
    mine = {"role": "user", "content": "how many?"}
    server = Server("{}", '{"n": 1}')
    await asked(server.chat, messages=(each for each in [MappingProxyType(mine)]))
    assert [type(each) for talk in server.talks for each in talk] == [dict] * 6
    assert server.talks[0] == [ORDER, QUESTION]
    assert mine == QUESTION


async def test_what_was_sent_once_is_not_changed_afterwards():
    server = Server("{}", "{}", '{"n": 1}')
    await asked(server.chat)
    assert [len(talk) for talk in server.talks] == [2, 4, 6]


async def test_message_objects_are_sent_as_their_mappings_beside_mappings():
    server = Server('{"n": 1}')
    messages = [Message.system("Be brief."), Message.user("how many?"), QUESTION]
    await asked(server.chat, messages=messages)
    told = {"role": "system", "content": f"Be brief.\n\n{TOLD}"}
    assert server.talks == [[told, QUESTION, QUESTION]]
    assert messages[0] == Message.system("Be brief.")


@pytest.mark.parametrize("messages", ["how many?", [None], [("user", "how many?")]])
async def test_what_is_no_message_is_the_callers_error(messages):
    server = Server()
    with pytest.raises(
        TypeError,
        match=r'^A message must be a Message, or a mapping such as \{"role": "user", "content": '
        r'"…"\}, not (str|NoneType|tuple)\.$',
    ):
        await asked(server.chat, messages=messages)
    assert server.talks == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Be brief.", f"Be brief.\n\n{TOLD}"),
        (
            [{"type": "text", "text": "Be brief."}],
            [{"type": "text", "text": "Be brief."}, {"type": "text", "text": TOLD}],
        ),
        (None, [{"type": "text", "text": TOLD}]),
    ],
)
async def test_the_schema_is_told_in_the_one_system_message(said, told):
    server = Server('{"n": 1}')
    await asked(
        server.chat, messages=[{"role": "system", "content": said, "name": "host"}, QUESTION]
    )
    assert server.talks == [[{"role": "system", "content": told, "name": "host"}, QUESTION]]


async def test_a_schema_is_told_in_the_letters_it_was_written_in():
    schema = {"type": "object", "properties": {"城市": {"type": "string"}}}
    server = Server("{}")
    await asked(server.chat, schema)
    assert server.talks[0][0]["content"].endswith('{"城市": {"type": "string"}}}')


@pytest.mark.parametrize("schema", [True, {}])
async def test_a_schema_that_allows_anything_is_not_told(schema):
    server = Server("1")
    assert (await asked(server.chat, schema)).data == 1
    assert server.talks[0][0]["content"] == "Answer with one JSON value, and nothing else."


# ---- what it cost, and what goes wrong
# ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "total"),
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
    result = await asked(server.chat)
    assert (result.attempts, result.usage) == (2, total)


async def test_a_reply_need_not_know_what_it_used():
    class Bare:
        content = '{"n": 1}'
        finish_reason = "stop"

    async def chat(messages):
        return Bare()

    assert (await asked(chat)).usage is None


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), Refused(401), Refused(429), Refused(500)]
)
async def test_what_the_chat_raises_is_raised_as_it_is(error):
    server = Server("three", error, '{"n": 1}')
    with pytest.raises(type(error)) as caught:
        await asked(server.chat)
    assert caught.value is error
    assert len(server.talks) == 2


async def test_cancelling_stops_the_chat():
    begun, stopped = asyncio.Event(), []

    async def chat(messages):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    task = asyncio.create_task(asked(chat))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped == [True]


@pytest.mark.parametrize("part", [{1, 2}, float("nan"), object()])
async def test_a_schema_that_cannot_be_written_is_refused_before_anything_is_sent(part):
    server = Server()
    with pytest.raises(InvalidSchema, match="The JSON Schema cannot be written as JSON: "):
        await asked(server.chat, {"enum": [part]})
    assert server.talks == []


# ---- structured output
# ----------------------------------------------------------------------------------

SENT = [{"response_schema": SCHEMA}]


async def test_where_the_server_takes_a_schema_it_is_sent_with_every_attempt_and_told_too():
    server = Server("three", '{"n": 1}')
    await asked(server.chat)
    assert server.options == SENT * 2
    assert server.talks[0] == [ORDER, QUESTION]


@pytest.mark.parametrize("supports", [False, None, "yes", 1])
async def test_where_the_server_does_not_say_that_it_takes_a_schema_none_is_sent(supports):
    server = Server('{"n": 1}', supports_schema=supports)
    await asked(server.chat)
    assert server.options == [{}]


@pytest.mark.parametrize(
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
async def test_only_the_schema_of_an_object_is_sent(schema):
    server = Server("{}", "[]")
    await asked(server.chat, schema)
    assert {*map(str, server.options)} == {"{}"}


async def test_a_function_of_the_callers_own_is_sent_no_schema():
    server = Server('{"n": 1}', '{"n": 1}')
    await asked(partial(server.chat, temperature=0))
    await asked(lambda messages: server.chat(messages))
    assert server.options == [{"temperature": 0}, {}]


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_schema_that_the_server_refuses_is_not_sent_again(status):
    server = Server(Refused(status), "three", '{"n": 1}')
    result = await asked(server.chat, max_attempts=2)
    assert (result.data, result.attempts) == ({"n": 1}, 2)
    assert server.options == [*SENT, {}, {}]
    assert server.talks[:2] == [[ORDER, QUESTION]] * 2


async def test_what_is_refused_without_the_schema_too_is_raised_and_hides_nothing():
    again = Refused(400)
    server = Server(Refused(400), again)
    with pytest.raises(Refused) as caught:
        await asked(server.chat)
    assert (caught.value, caught.value.__context__) == (again, None)


async def test_the_next_request_tries_the_schema_again():
    server = Server(Refused(400), '{"n": 1}', '{"n": 1}')
    await asked(server.chat)
    await asked(server.chat)
    assert server.options == [*SENT, {}, *SENT]


# ---- with a gateway
# -------------------------------------------------------------------------------------

WIRES = ["openai:m", "anthropic:m", "gemini:m"]


@pytest.mark.parametrize("wire", WIRES)
async def test_the_schema_arrives_in_every_wire_format(wire):
    model = ScriptedModel(["three", '{"n": 1}'])
    async with Gateway(wire, transport=model) as gateway:
        result = await asked(gateway.chat)
    assert [request.response_schema for request in model.requests] == [SCHEMA] * 2
    assert model.requests[0].messages == (Message.system(TOLD), Message.user("how many?"))
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, Usage(20, 10))


async def test_a_server_that_takes_no_schema_is_sent_none():
    model = ScriptedModel(['{"n": 1}'])
    async with Gateway("deepseek:m", transport=model) as gateway:
        assert (await asked(gateway.chat)).success
    assert [request.response_schema for request in model.requests] == [None]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_400_for_the_schema_is_answered_by_asking_without_it(wire):
    model = ScriptedModel([400, "three", '{"n": 1}'])
    async with Gateway(wire, transport=model) as gateway:
        result = await asked(gateway.chat)
    assert [request.response_schema for request in model.requests] == [SCHEMA, None, None]
    assert (result.data, result.attempts, result.usage) == ({"n": 1}, 2, Usage(20, 10))


async def test_a_request_that_cannot_work_fails_with_the_servers_own_error():
    for replies, kind in (([400, 400], InvalidRequest), ([401], AuthenticationFailed)):
        model = ScriptedModel(replies)
        async with Gateway("openai:m", transport=model) as gateway:
            with pytest.raises(kind):
                await asked(gateway.chat)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_refuses_is_not_asked_again(wire):
    no = ChatResponse(Message.assistant("I will not."), finish_reason="refusal", usage=Usage(3, 4))
    async with Gateway(wire, transport=ScriptedModel([no])) as gateway:
        result = await asked(gateway.chat)
    assert result == ParseResult(False, None, (NO,), "I will not.", attempts=1, usage=Usage(3, 4))


async def test_the_embedded_model_is_corrected_in_its_second_attempt():
    model = OfflineModel(["not_json"])
    async with Gateway("offline:teacher", transport=model) as gateway:
        result = await asked(
            gateway.chat, messages=[{"role": "user", "content": "We have 7 apples."}]
        )
    assert (result.data, result.attempts) == ({"n": 7}, 2)


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS", "max_output_tokens", "Incomplete"])
async def test_nothing_is_used_of_a_reply_that_ended_with_a_servers_word_for_truncation(reason):
    server = Server(Reply('{"n": 1}', reason), Reply('{"n": 2}', "STOP"))
    result = await OutputController().request(server.chat, [QUESTION], SCHEMA)
    assert (result.data, result.attempts) == ({"n": 2}, 2)
