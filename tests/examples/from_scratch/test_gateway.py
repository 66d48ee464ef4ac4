"""The steps of examples/from_scratch/gateway.py."""

import json

import httpx
import pytest

from examples.from_scratch.gateway import Gateway, ModelError, TemporaryError, decode, encode

QUESTION = [{"role": "user", "content": "Hello?"}]


def completion(message, reason="stop"):
    return {"choices": [{"message": message, "finish_reason": reason}]}


def server(*answers):
    """A gateway whose server gives these answers in turn, and the requests that it receives."""
    requests = []
    answers = iter(answers)

    def respond(request):
        requests.append(request)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url="http://any/v1")
    return Gateway(client, "any", wait=0), requests


def ok(text="Hi."):
    return httpx.Response(200, json=completion({"content": text}))


def sse(*chunks, end="data: [DONE]\n\n"):
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
    return httpx.Response(200, content="".join([*lines, end]).encode())


def delta(reason=None, **fields):
    return {"choices": [{"delta": fields, "finish_reason": reason}]}


async def collected(gateway):
    return [piece async for piece in gateway.stream(QUESTION)]


# ---- Step 1: Encode


def test_a_request_contains_the_model_and_the_messages():
    assert encode("m", QUESTION) == {"model": "m", "messages": QUESTION}


def test_tools_are_listed_as_functions():
    tool = {"name": "f", "description": "", "parameters": {}}
    assert encode("m", QUESTION, [tool])["tools"] == [{"type": "function", "function": tool}]


# ---- Step 2: Decode


def test_a_reply_without_content_has_empty_text():
    assert decode(completion({"content": None})).message == {"role": "assistant", "content": ""}


def test_a_call_without_an_id_and_with_an_object_as_arguments_is_completed():
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    assert decode(completion({"tool_calls": [call]})).message["tool_calls"] == [
        {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    ]


def test_the_finish_reasons_of_servers_get_the_usual_words():
    assert decode(completion({"content": "Hel"}, "max_tokens")).finish_reason == "length"


@pytest.mark.parametrize(
    "body", [{"error": {"message": "busy"}}, [], None, {"choices": []}], ids=str
)
def test_an_error_with_status_200_is_an_error(body):
    with pytest.raises(ModelError, match="not a chat completion"):
        decode(body)


# ---- Step 3: Post


async def test_the_request_is_sent_to_the_path_of_chat_completions():
    gateway, requests = server(ok())
    assert (await gateway.chat(QUESTION)).message["content"] == "Hi."
    assert str(requests[0].url) == "http://any/v1/chat/completions"


async def test_an_error_names_the_status_and_the_text_of_the_server():
    gateway, _ = server(httpx.Response(401, text="invalid key"))
    with pytest.raises(ModelError, match="HTTP 401: invalid key"):
        await gateway.chat(QUESTION)


async def test_a_page_instead_of_json_is_a_temporary_error():
    gateway, _ = server(httpx.Response(200, text="<html>"))
    with pytest.raises(TemporaryError):
        await gateway.post({})


# ---- Step 4: Retry


@pytest.mark.parametrize(
    "failure", [httpx.Response(503), httpx.Response(429), httpx.ConnectError("refused")], ids=str
)
async def test_a_failure_that_may_pass_is_tried_again(failure):
    gateway, requests = server(failure, ok())
    assert (await gateway.chat(QUESTION)).message["content"] == "Hi."
    assert len(requests) == 2


async def test_an_invalid_request_is_not_sent_again():
    gateway, requests = server(httpx.Response(400), ok())
    with pytest.raises(ModelError):
        await gateway.chat(QUESTION)
    assert len(requests) == 1


async def test_the_third_failure_is_raised():
    gateway, requests = server(*[httpx.Response(503)] * 3)
    with pytest.raises(TemporaryError, match="503"):
        await gateway.chat(QUESTION)
    assert len(requests) == 3


# ---- Step 5: Stream


async def test_pieces_of_text_are_followed_by_the_whole_reply():
    gateway, _ = server(sse(delta(content="Hel"), delta(content="lo"), delta("stop")))
    *pieces, reply = await collected(gateway)
    assert pieces == ["Hel", "lo"]
    assert reply == ({"role": "assistant", "content": "Hello"}, "stop")


async def test_the_pieces_of_two_calls_are_combined():
    def piece(index, **function):
        return {"index": index, "id": f"id_{index}", "function": function}

    gateway, _ = server(
        sse(
            delta(tool_calls=[piece(0, name="f", arguments='{"a"')]),
            delta(tool_calls=[piece(1, name="g", arguments="{}")]),
            delta(tool_calls=[piece(0, arguments=": 1}")]),
            delta("tool_calls"),
        )
    )
    (reply,) = await collected(gateway)
    calls = [(call["id"], call["function"]) for call in reply.message["tool_calls"]]
    assert calls == [
        ("id_0", {"name": "f", "arguments": '{"a": 1}'}),
        ("id_1", {"name": "g", "arguments": "{}"}),
    ]


async def test_the_index_of_a_call_is_a_name_and_not_a_position():
    first = {"index": 1, "id": "a", "function": {"name": "f", "arguments": "{"}}
    second = {"index": 1, "id": "a", "function": {"name": "f", "arguments": "}"}}
    gateway, _ = server(sse(delta(tool_calls=[first]), delta("stop", tool_calls=[second])))
    (reply,) = await collected(gateway)
    assert [call["function"] for call in reply.message["tool_calls"]] == [
        {"name": "f", "arguments": "{}"}
    ]


async def test_a_line_separator_of_unicode_does_not_end_a_line():
    gateway, _ = server(sse(delta(content="a\u2028b"), delta("stop")))
    assert (await collected(gateway))[0] == "a\u2028b"


@pytest.mark.parametrize(
    "end", ["", "data: [DONE]\n\n", 'data: {"cho\n\n', 'data: {"error": "busy"}\n\n'], ids=str
)
async def test_a_stream_without_its_end_is_broken(end):
    gateway, _ = server(sse(delta(content="Hel"), end=end))
    with pytest.raises(ModelError, match="stream"):
        await collected(gateway)


async def test_a_refused_stream_names_the_status():
    gateway, _ = server(httpx.Response(400, text="no"))
    with pytest.raises(ModelError, match="HTTP 400: no"):
        await collected(gateway)
