import httpx
import pytest

from stage0_gateway import (
    ChatResponse,
    ConnectionFailed,
    Gateway,
    ImagePart,
    Message,
    ScriptedModel,
    ScriptError,
    ServerFailed,
    TextPart,
    ToolCall,
    ToolSpec,
    Usage,
)
from tests.stage0_gateway.requests import METHODS, MODELS, QUESTION, ask
from tests.tables import for_each

CALL = ToolCall("call_1", "f", '{"a": "b c d e f g"}')


async def test_each_request_gets_the_next_scripted_reply():
    call = Message.assistant("", [ToolCall("1", "f", "{}")])
    model = ScriptedModel(["text", call, 500, httpx.ConnectError("gone")])
    async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
        assert (await gateway.chat(QUESTION)).content == "text"
        assert (await gateway.chat(QUESTION)).message == call
        with pytest.raises(ServerFailed):
            await gateway.chat(QUESTION)
        with pytest.raises(ConnectionFailed):
            await gateway.chat(QUESTION)
    assert len(model.requests) == 4


async def test_bodies_include_provider_options():
    model = ScriptedModel(["text"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(QUESTION, provider_options={"seed": 7})
    (request,), (body,) = model.requests, model.bodies
    assert (request.messages, request.provider_options) == (tuple(QUESTION), None)
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "seed": 7}


async def test_a_request_after_the_last_reply_is_a_script_error():
    gateway = Gateway("openai:m", transport=ScriptedModel(["only"]))
    await gateway.chat(QUESTION)
    with pytest.raises(ScriptError, match="The script ends after reply 1; this is request 2"):
        await gateway.chat(QUESTION)


async def test_closing_with_unused_replies_is_a_script_error():
    with pytest.raises(
        ScriptError, match=r"These scripted replies were never requested: \['b', 'c'\]"
    ):
        async with Gateway("openai:m", transport=ScriptedModel(["a", "b", "c"])) as gateway:
            await gateway.chat(QUESTION)


def test_a_script_can_be_checked_without_closing_the_gateway():
    ScriptedModel([]).assert_finished()
    with pytest.raises(ScriptError):
        ScriptedModel(["a"]).assert_finished()


async def test_unused_replies_do_not_hide_an_exception_in_the_block():
    with pytest.raises(ServerFailed):
        async with Gateway(
            "openai:m", transport=ScriptedModel([500, "b"]), max_retries=0
        ) as gateway:
            await gateway.chat(QUESTION)


async def test_closing_an_unused_script_is_a_script_error():
    with pytest.raises(ScriptError):
        async with Gateway("openai:m", transport=ScriptedModel(["a"])):
            pass


# ---- the format of the request


@for_each("model", MODELS)
@for_each("method", METHODS)
async def test_each_format_gets_whole_replies_and_streams_as_requested(model, method):
    script = ScriptedModel(["A text of some length.", Message.assistant("Look:", [CALL]), 500])
    async with Gateway(model, transport=script, max_retries=0) as gateway:
        first = await ask(gateway, method, temperature=0.5)
        assert (first.content, first.finish_reason, first.usage) == (
            "A text of some length.",
            "stop",
            Usage(10, 5),
        )
        assert (first.model, first.request_id) == ("scripted", "scripted-1")
        second = await ask(gateway, method, tools=[ToolSpec("f", "does")])
        assert (second.content, second.finish_reason) == ("Look:", "tool_calls")
        assert [(c.id, c.name, c.arguments) for c in second.tool_calls] == [
            (CALL.id, "f", CALL.arguments)
        ]
        with pytest.raises(ServerFailed, match="scripted failure 500"):
            await ask(gateway, method)
    assert [request.messages for request in script.requests] == [tuple(QUESTION)] * 3
    assert script.requests[0].temperature == 0.5
    assert script.requests[1].tools[0].name == "f"


@for_each("model", MODELS)
@for_each("method", METHODS)
async def test_a_chat_response_in_a_script_keeps_its_finish_reason_and_usage(model, method):
    cut = ChatResponse(
        Message.assistant("Half a"),
        finish_reason="length",
        usage=Usage(100, 7),
        model="m-1",
        request_id="r",
    )
    async with Gateway(model, transport=ScriptedModel([cut])) as gateway:
        reply = await ask(gateway, method)
    assert (reply.message, reply.finish_reason) == (cut.message, "length")
    assert (reply.usage, reply.model, reply.request_id) == (Usage(100, 7), "m-1", "r")


@for_each("method", METHODS)
async def test_a_scripted_exception_is_raised_before_the_reply(method):
    async with Gateway(
        "openai:m", transport=ScriptedModel([httpx.ConnectError("gone"), "back"])
    ) as gateway:
        assert (await ask(gateway, method)).content == "back"


@for_each("piece, deltas", [(3, ["abc", "def", "g"]), (8, ["abcdefg"])])
async def test_a_stream_has_deltas_of_the_requested_size(piece, deltas):
    async with Gateway("openai:m", transport=ScriptedModel(["abcdefg"], piece=piece)) as gateway:
        seen = [event async for event in gateway.stream(QUESTION).events("text")]
    assert [event.delta for event in seen] == deltas


async def test_a_path_of_no_wire_format_is_a_script_error():
    async with httpx.AsyncClient(transport=ScriptedModel([])) as client:
        with pytest.raises(ScriptError, match="/v1/embeddings is not the path of a wire format"):
            await client.post("http://x/v1/embeddings", json={})


async def test_the_images_of_results_are_recorded_as_openais_format_sends_them():
    image = ImagePart(url="https://example.com/map.png")
    model = ScriptedModel(["I see."])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat([*QUESTION, Message.tool((image,), "call_1", name="get_map")])
    reference = "[Image 1 follows in the next user message.]"
    label = TextPart("Image 1 of the result of get_map (call_1):")
    assert model.requests[0].messages == (
        *QUESTION,
        Message.tool(reference, "call_1"),
        Message.user((label, image)),
    )
