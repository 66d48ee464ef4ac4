"""Replies of aimock, an independent mock model server, in four formats, whole and streamed."""

import asyncio
import json
from dataclasses import replace
from itertools import accumulate

import pytest

from stage0_gateway import Message, ToolCall, ToolSpec, Usage
from stage0_gateway.wire import openai_responses
from tests.real.peers import question

pytestmark = pytest.mark.real
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "The weather in a city.", CITY)
THINKING = {"openai-responses": "openai-responses:gpt-5-mini"}
"""Models that think, where the usual model of a format does not."""
TIME = ToolSpec("get_time", "The time.", {"type": "object", "properties": {}})


def calls(reply):
    """Return the calls with parsed arguments, because servers format JSON differently."""
    return [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def comparable(reply):
    """Return a reply without the fields that differ each time: the request id and the body."""
    even = tuple(replace(call, arguments=json.loads(call.arguments)) for call in reply.tool_calls)
    return replace(
        reply, message=replace(reply.message, tool_calls=even), request_id=None, raw=None
    )


# ---- content of a reply


async def test_a_reply_has_its_text_its_finish_reason_and_its_token_counts(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("Say hello."))
    assert reply.message == Message.assistant("Hello — 你好 🙂, from the mock.")
    assert (reply.finish_reason, reply.usage) == ("stop", Usage(11, 7))


async def test_thinking_is_separate_from_the_answer(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("Think first."), model=THINKING.get(peer.wire))
    assert (reply.thinking, reply.content) == ("Six times seven.", "It is 42.")


async def test_a_call_is_returned_with_the_text_before_it(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("One tool."), tools=[WEATHER])
    assert (reply.content, reply.finish_reason) == ("Let me look.", "tool_calls")
    assert calls(reply) == [("call_1", "get_weather", {"city": 'Oslo "N"', "days": 3})]


async def test_parallel_calls_are_separate(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("Two tools."), tools=[WEATHER, TIME])
    assert (reply.content, reply.finish_reason) == ("", "tool_calls")
    assert calls(reply) == [("call_1", "get_weather", {"city": "Oslo"}), ("call_2", "get_time", {})]


async def test_text_after_a_call_is_kept(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("A tool, then words."), tools=[WEATHER])
    assert (reply.content, calls(reply)) == (
        "I am looking.",
        [("call_1", "get_weather", {"city": "Oslo"})],
    )


async def test_a_reply_at_the_token_limit_has_the_finish_reason_length(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, question("Talk too long."))
    assert (reply.content, reply.finish_reason) == ("This was cut of", "length")


@pytest.mark.parametrize(
    "text",
    [
        "Say hello.",
        "Think first.",
        "One tool.",
        "Two tools.",
        "A tool, then words.",
        "Talk too long.",
    ],
)
async def test_the_final_message_of_a_stream_equals_the_reply_of_chat(peer, text):
    async with peer.gateway() as gateway:
        whole = await gateway.chat(question(text), tools=[WEATHER, TIME])
        streamed = await gateway.stream(question(text), tools=[WEATHER, TIME]).final_message()
    assert comparable(streamed) == comparable(whole)


async def test_a_character_that_is_sent_in_two_halves_is_joined(peer, ask):
    async with (
        peer.gateway() as gateway
    ):  # aimock splits after a number of UTF-16 units, here within an emoji
        reply = await ask(gateway, question("Halve the emoji."))
    assert ascii(reply.content) == ascii("a🙂b")


# ---- events of a stream


async def test_text_arrives_in_pieces(peer):
    async with peer.gateway() as gateway, gateway.stream(question("Say hello.")) as stream:
        reported = [(event.delta, event.snapshot) async for event in stream if event.name == "text"]
    pieces = ["Hello", " — 你好", " 🙂, ", "from ", "the m", "ock."]
    assert reported == list(zip(pieces, accumulate(pieces), strict=True))


async def test_thinking_arrives_before_the_answer(peer):
    model = THINKING.get(peer.wire)
    async with (
        peer.gateway() as gateway,
        gateway.stream(question("Think first."), model=model) as stream,
    ):
        reported = [
            (event.name, event.delta)
            async for event in stream
            if event.name in ("thinking", "text")
        ]
    thoughts = [("thinking", delta) for delta in ("Six t", "imes ", "seven", ".")]
    assert reported == [*thoughts, ("text", "It is"), ("text", " 42.")]


async def test_parallel_calls_stay_separate_and_each_is_reported_once(peer):
    growing, reported = {0: "", 1: ""}, []
    async with (
        peer.gateway() as gateway,
        gateway.stream(question("Two tools."), tools=[WEATHER, TIME]) as stream,
    ):
        async for event in stream:
            if event.name == "input_json":
                growing[event.index] += event.delta
            elif event.name == "tool_call":
                reported.append((event.index, event.tool_call.name, event.tool_call.arguments))
    assert [json.loads(text or "{}") for text in growing.values()] == [{"city": "Oslo"}, {}]
    assert reported == [(0, "get_weather", growing[0]), (1, "get_time", "{}")]


async def test_partial_arguments_are_available_as_snapshots(peer):
    async with (
        peer.gateway() as gateway,
        gateway.stream(question("One tool."), tools=[WEATHER]) as stream,
    ):
        seen = [dict(event.snapshot or {}) async for event in stream if event.name == "input_json"]
    assert seen[-1] == {"city": 'Oslo "N"', "days": 3}
    assert all('Oslo "N"'.startswith(part.get("city", "")) for part in seen)


async def test_the_gateway_is_usable_after_a_stream_that_was_left_early(peer):
    async with peer.gateway() as gateway:
        async with gateway.stream(question("Count slowly.")) as stream:
            await stream.emitted("text")
        reply = await gateway.chat(question("Say hello."))
    assert "one, two, three, four, five, six".startswith(stream.current_message.text)
    assert reply.content == "Hello — 你好 🙂, from the mock."


async def test_concurrent_streams_do_not_mix(peer):
    async with peer.gateway() as gateway:
        texts = ["Count slowly.", "Say hello."] * 5
        replies = await asyncio.gather(
            *(gateway.stream(question(text)).final_message() for text in texts)
        )
    counted, hello = "one, two, three, four, five, six", "Hello — 你好 🙂, from the mock."
    assert [reply.content for reply in replies] == [counted, hello] * 5


# ---- requests


async def test_options_and_the_system_message_are_understood(peer, ask):
    async with peer.gateway() as gateway:
        history = [Message.system("Be brief."), *question("Say hello.")]
        await ask(gateway, history, tools=[WEATHER], temperature=0.5, max_tokens=50)
    (body,) = peer.seen()
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello."},
    ]
    assert (body["temperature"], body["max_tokens"]) == (0.5, 50)
    (tool,) = body["tools"]
    assert (tool["function"]["name"], tool["function"]["description"]) == (
        WEATHER.name,
        WEATHER.description,
    )


async def test_a_result_is_sent_back_and_answered(peer, ask):
    async with peer.gateway() as gateway:
        first = await ask(gateway, question("One tool."), tools=[WEATHER])
        result = Message.tool("7 degrees", first.tool_calls[0].id, name="get_weather")
        reply = await ask(gateway, [*question("One tool."), first.message, result], tools=[WEATHER])
    assert (reply.content, reply.tool_calls) == ("It is 7 degrees.", ())


async def test_the_results_of_parallel_calls_are_matched_to_their_calls(peer, ask):
    async with peer.gateway() as gateway:
        first = await ask(gateway, question("Two tools."), tools=[WEATHER, TIME])
        ids = [call.id for call in first.tool_calls]
        results = [
            Message.tool(text, call) for text, call in zip(("7 degrees", "noon"), ids, strict=True)
        ]
        reply = await ask(
            gateway, [*question("Two tools."), first.message, *results], tools=[WEATHER, TIME]
        )
    assert reply.content == "It is 7 degrees at noon."
    _, *messages = peer.seen()[-1]["messages"]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    results = [message for message in messages if message["role"] == "tool"]
    assert [call["id"] for call in calls] == ids
    in_gemini = ['{"output":"7 degrees"}', '{"output":"noon"}']  # where a result is an object
    assert [result["content"] for result in results] == (
        in_gemini if peer.wire == "gemini" else ["7 degrees", "noon"]
    )
    assert [(result["role"], result["tool_call_id"]) for result in results] == [
        ("tool", call) for call in ids
    ]


async def test_a_history_of_another_provider_is_understood(peer, ask):
    history = [
        *question("One tool."),
        Message.assistant(
            "Let me look.", [ToolCall("toolu_99", "get_weather", '{"city": "Oslo"}')]
        ),
        Message.tool("7 degrees", "toolu_99"),
    ]
    async with peer.gateway() as gateway:
        reply = await ask(gateway, history, tools=[WEATHER])
    assert reply.content == "It is 7 degrees."


@pytest.mark.parametrize("peer", ["openai-responses"], indirect=True)
async def test_encrypted_reasoning_is_requested_kept_and_sent_back(peer, ask):
    async with peer.gateway() as gateway:
        options = {"tools": [WEATHER], "model": THINKING[peer.wire]}
        first = await ask(gateway, question("One tool."), **options)
        (thinking, text) = first.message.parts
        reasoning = thinking.provider_data["openai-responses"]
        assert (text.text, reasoning["summary"]) == ("Let me look.", [])
        assert reasoning["encrypted_content"]
        result = Message.tool("7 degrees", first.tool_calls[0].id, name="get_weather")
        history = [*question("One tool."), first.message, result]
        reply = await ask(gateway, history, **options)
    assert reply.content == "It is 7 degrees."
    sent = openai_responses.encode_messages([first.message])
    assert sent[0] == {"type": "reasoning", **reasoning}
