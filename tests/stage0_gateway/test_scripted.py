import httpx
import pytest

from stage0_gateway import (
    ConnectionFailed,
    Gateway,
    Message,
    ScriptedModel,
    ScriptError,
    ServerFailed,
    ToolCall,
)

ASK = [Message.user("hi")]


async def test_each_request_gets_the_next_reply_of_whatever_kind():
    call = Message.assistant("", [ToolCall("1", "f", "{}")])
    model = ScriptedModel(["text", call, 500, httpx.ConnectError("gone")])
    async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
        assert (await gateway.chat(ASK)).content == "text"
        assert (await gateway.chat(ASK)).message == call
        with pytest.raises(ServerFailed):
            await gateway.chat(ASK)
        with pytest.raises(ConnectionFailed):
            await gateway.chat(ASK)
    assert len(model.requests) == 4


async def test_a_script_that_is_asked_once_too_often_fails():
    gateway = Gateway("openai:m", transport=ScriptedModel(["only"]))
    await gateway.chat(ASK)
    with pytest.raises(ScriptError, match="The script ends after reply 1; this is request 2"):
        await gateway.chat(ASK)


async def test_closing_with_replies_left_over_fails():
    with pytest.raises(ScriptError, match=r"Never asked for, of the scripted replies: \['b', 'c'\]"):
        async with Gateway("openai:m", transport=ScriptedModel(["a", "b", "c"])) as gateway:
            await gateway.chat(ASK)


def test_a_script_can_be_checked_without_closing():
    ScriptedModel([]).assert_finished()
    with pytest.raises(ScriptError):
        ScriptedModel(["a"]).assert_finished()


async def test_an_error_on_its_way_out_is_not_hidden_by_the_replies_it_left_over():
    with pytest.raises(ServerFailed):
        async with Gateway("openai:m", transport=ScriptedModel([500, "b"]), max_retries=0) as gateway:
            await gateway.chat(ASK)


async def test_a_script_that_nobody_asked_fails_when_it_is_closed():
    with pytest.raises(ScriptError):
        async with Gateway("openai:m", transport=ScriptedModel(["a"])):
            pass
