"""Replies of aimock, a mock model server of somebody else's making, in three formats, whole and
streamed."""

import asyncio
import json
from dataclasses import replace
from itertools import accumulate

import pytest

from stage0_gateway import Message, ToolCall, ToolSpec, Usage

pytestmark = pytest.mark.real
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "The weather in a city.", CITY)
TIME = ToolSpec("get_time", "The time.", {"type": "object", "properties": {}})


def said(text):
    return [Message.user(text)]


def calls(reply):
    """The calls with their arguments read: how a server puts spaces into them is its own
    business."""
    return [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def comparable(reply):
    """A reply without what differs each time: the server's name for the exchange, the body it came
    in."""
    even = tuple(replace(call, arguments=json.loads(call.arguments)) for call in reply.tool_calls)
    return replace(
        reply, message=replace(reply.message, tool_calls=even), request_id=None, raw=None
    )


# ---- what a reply holds
# ---------------------------------------------------------------------------------


async def test_a_reply_holds_text_reason_and_token_counts(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("Say hello."))
    assert reply.message == Message.assistant("Hello — 你好 🙂, from the mock.")
    assert (reply.finish_reason, reply.usage) == ("stop", Usage(11, 7))


async def test_thinking_is_kept_apart_from_the_answer(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("Think first."))
    assert (reply.thinking, reply.content) == ("Six times seven.", "It is 42.")


async def test_a_call_comes_with_the_words_before_it(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("One tool."), tools=[WEATHER])
    assert (reply.content, reply.finish_reason) == ("Let me look.", "tool_calls")
    assert calls(reply) == [("call_1", "get_weather", {"city": 'Oslo "N"', "days": 3})]


async def test_parallel_calls_stay_apart(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("Two tools."), tools=[WEATHER, TIME])
    assert (reply.content, reply.finish_reason) == ("", "tool_calls")
    assert calls(reply) == [("call_1", "get_weather", {"city": "Oslo"}), ("call_2", "get_time", {})]


async def test_words_after_a_call_are_not_lost(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("A tool, then words."), tools=[WEATHER])
    assert (reply.content, calls(reply)) == (
        "I am looking.",
        [("call_1", "get_weather", {"city": "Oslo"})],
    )


async def test_a_reply_cut_by_its_token_limit_says_so(peer, ask):
    async with peer.gateway() as gateway:
        reply = await ask(gateway, said("Talk too long."))
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
async def test_a_stream_ends_with_the_reply_that_chat_gives(peer, text):
    async with peer.gateway() as gateway:
        whole = await gateway.chat(said(text), tools=[WEATHER, TIME])
        streamed = await gateway.stream(said(text), tools=[WEATHER, TIME]).final_message()
    assert comparable(streamed) == comparable(whole)


async def test_a_letter_that_is_sent_in_two_halves_is_one_letter(peer, ask):
    async with (
        peer.gateway() as gateway
    ):  # aimock cuts after so many UTF-16 units, so through an emoji
        reply = await ask(gateway, said("Halve the emoji."))
    assert ascii(reply.content) == ascii("a🙂b")


# ---- what a stream tells
# ---------------------------------------------------------------------------------


async def test_text_arrives_piece_by_piece(peer):
    async with peer.gateway() as gateway, gateway.stream(said("Say hello.")) as stream:
        told = [(event.delta, event.snapshot) async for event in stream if event.name == "text"]
    pieces = ["Hello", " — 你好", " 🙂, ", "from ", "the m", "ock."]
    assert told == list(zip(pieces, accumulate(pieces), strict=True))


async def test_thinking_arrives_before_the_answer(peer):
    async with peer.gateway() as gateway, gateway.stream(said("Think first.")) as stream:
        told = [
            (event.name, event.delta)
            async for event in stream
            if event.name in ("thinking", "text")
        ]
    thoughts = [("thinking", delta) for delta in ("Six t", "imes ", "seven", ".")]
    assert told == [*thoughts, ("text", "It is"), ("text", " 42.")]


async def test_parallel_calls_grow_apart_and_each_is_told_once(peer):
    growing, told = {0: "", 1: ""}, []
    async with (
        peer.gateway() as gateway,
        gateway.stream(said("Two tools."), tools=[WEATHER, TIME]) as stream,
    ):
        async for event in stream:
            if event.name == "input_json":
                growing[event.index] += event.delta
            elif event.name == "tool_call":
                told.append((event.index, event.tool_call.name, event.tool_call.arguments))
    assert [json.loads(text or "{}") for text in growing.values()] == [{"city": "Oslo"}, {}]
    assert told == [(0, "get_weather", growing[0]), (1, "get_time", "{}")]


async def test_arguments_can_be_looked_at_while_they_grow(peer):
    async with (
        peer.gateway() as gateway,
        gateway.stream(said("One tool."), tools=[WEATHER]) as stream,
    ):
        seen = [dict(event.snapshot or {}) async for event in stream if event.name == "input_json"]
    assert seen[-1] == {"city": 'Oslo "N"', "days": 3}
    assert all('Oslo "N"'.startswith(part.get("city", "")) for part in seen)


async def test_a_stream_that_is_left_early_leaves_the_gateway_usable(peer):
    async with peer.gateway() as gateway:
        async with gateway.stream(said("Count slowly.")) as stream:
            await stream.emitted("text")
        reply = await gateway.chat(said("Say hello."))
    assert "one, two, three, four, five, six".startswith(stream.current_message.text)
    assert reply.content == "Hello — 你好 🙂, from the mock."


async def test_streams_under_way_at_once_do_not_mix(peer):
    async with peer.gateway() as gateway:
        texts = ["Count slowly.", "Say hello."] * 5
        replies = await asyncio.gather(
            *(gateway.stream(said(text)).final_message() for text in texts)
        )
    counted, hello = "one, two, three, four, five, six", "Hello — 你好 🙂, from the mock."
    assert [reply.content for reply in replies] == [counted, hello] * 5


# ---- what is sent
# ----------------------------------------------------------------------------------------


async def test_settings_and_the_system_message_are_understood(peer, ask):
    async with peer.gateway() as gateway:
        history = [Message.system("Be brief."), *said("Say hello.")]
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


async def test_a_result_goes_back_and_is_answered(peer, ask):
    async with peer.gateway() as gateway:
        first = await ask(gateway, said("One tool."), tools=[WEATHER])
        result = Message.tool("7 degrees", first.tool_calls[0].id, name="get_weather")
        reply = await ask(gateway, [*said("One tool."), first.message, result], tools=[WEATHER])
    assert (reply.content, reply.tool_calls) == ("It is 7 degrees.", ())


async def test_the_results_of_parallel_calls_are_paired_with_them(peer, ask):
    async with peer.gateway() as gateway:
        first = await ask(gateway, said("Two tools."), tools=[WEATHER, TIME])
        ids = [call.id for call in first.tool_calls]
        results = [
            Message.tool(text, call) for text, call in zip(("7 degrees", "noon"), ids, strict=True)
        ]
        reply = await ask(
            gateway, [*said("Two tools."), first.message, *results], tools=[WEATHER, TIME]
        )
    assert reply.content == "It is 7 degrees at noon."
    _, answer, *results = peer.seen()[-1]["messages"]
    assert [call["id"] for call in answer["tool_calls"]] == ids
    in_gemini = ['{"output":"7 degrees"}', '{"output":"noon"}']  # where a result is an object
    assert [result["content"] for result in results] == (
        in_gemini if peer.wire == "gemini" else ["7 degrees", "noon"]
    )
    assert [(result["role"], result["tool_call_id"]) for result in results] == [
        ("tool", call) for call in ids
    ]


async def test_a_history_from_another_provider_is_understood(peer, ask):
    history = [
        *said("One tool."),
        Message.assistant(
            "Let me look.", [ToolCall("toolu_99", "get_weather", '{"city": "Oslo"}')]
        ),
        Message.tool("7 degrees", "toolu_99"),
    ]
    async with peer.gateway() as gateway:
        reply = await ask(gateway, history, tools=[WEATHER])
    assert reply.content == "It is 7 degrees."
