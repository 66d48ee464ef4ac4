import asyncio
import json

import httpx
import pytest

from stage0_gateway import Gateway, Message, ServerFailed, StreamInterrupted, Usage

ASK = [Message.user("hi")]


def sse(*events):
    return [
        f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n".encode()
        for each in events
    ]


def piece(finish_reason=None, **delta):
    return {
        "id": "r",
        "model": "m-1",
        "choices": [{"delta": delta, "finish_reason": finish_reason}],
    }


def part(*parts, **rest):
    return {
        "responseId": "r",
        "modelVersion": "m-1",
        "candidates": [{"content": {"parts": parts}, **rest}],
    }


def block(kind, index, **rest):
    return {"type": f"content_block_{kind}", "index": index, **rest}


def call(arguments, **rest):
    return {"tool_calls": [{"index": 0, **rest, "function": {**rest, "arguments": arguments}}]}


FUNCTION = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OPENAI = sse(
    piece(reasoning_content="hm"),
    piece(content="Let me "),
    piece(content="see."),
    piece(**call('{"a":', id="t1", name="f")),
    piece(**call(" 1}")),
    piece("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}},
    "[DONE]",
)
OPENAI_WHOLE = {
    "id": "r",
    "model": "m-1",
    "choices": [
        {
            "message": {
                "reasoning_content": "hm",
                "content": "Let me see.",
                "tool_calls": [FUNCTION],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 9},
}
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "f"}
ANTHROPIC_START = {"id": "r", "model": "m-1", "usage": {"input_tokens": 3, "output_tokens": 1}}
ANTHROPIC = sse(
    {"type": "message_start", "message": ANTHROPIC_START},
    block("start", 0, content_block={"type": "thinking", "thinking": ""}),
    block("delta", 0, delta={"type": "thinking_delta", "thinking": "hm"}),
    block("delta", 0, delta={"type": "signature_delta", "signature": "s"}),
    block("stop", 0),
    {"type": "ping"},
    block("start", 1, content_block={"type": "text", "text": ""}),
    block("delta", 1, delta={"type": "text_delta", "text": "Let me "}),
    block("delta", 1, delta={"type": "text_delta", "text": "see."}),
    block("stop", 1),
    block("start", 2, content_block={**TOOL_USE, "input": {}}),
    block("delta", 2, delta={"type": "input_json_delta", "partial_json": '{"a":'}),
    block("delta", 2, delta={"type": "input_json_delta", "partial_json": " 1}"}),
    block("stop", 2),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)
ANTHROPIC_WHOLE = {
    **ANTHROPIC_START,
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Let me see."},
        {**TOOL_USE, "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 9},
}
GEMINI_CALL = {"functionCall": {"id": "t1", "name": "f", "args": {"a": 1}}}
GEMINI_USAGE = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 9}}
GEMINI = sse(
    part({"text": "hm", "thought": True}),
    part({"text": "Let me "}),
    part({"text": "see."}),
    part(GEMINI_CALL, finishReason="STOP") | GEMINI_USAGE,
)
GEMINI_WHOLE = (
    part({"text": "hm", "thought": True}, {"text": "Let me see."}, GEMINI_CALL, finishReason="STOP")
    | GEMINI_USAGE
)
RESPONSES_ITEMS = [
    {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "s",
    },
    {
        "type": "message",
        "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
    },
    {"type": "function_call", "call_id": "t1", "name": "f", "arguments": '{"a": 1}'},
]
RESPONSES_USAGE = {"input_tokens": 3, "output_tokens": 9}


def of_item(kind, index, **fields):
    return {"type": f"response.{kind}", "output_index": index, **fields}


RESPONSES_WHOLE = {
    "id": "r",
    "model": "m-1",
    "status": "completed",
    "output": RESPONSES_ITEMS,
    "usage": RESPONSES_USAGE,
}
RESPONSES = sse(
    {"type": "response.created", "response": {"status": "in_progress"}},
    of_item("output_item.added", 0, item={"type": "reasoning", "id": "r"}),
    of_item("reasoning_summary_text.delta", 0, summary_index=0, delta="hm"),
    of_item("output_item.done", 0, item=RESPONSES_ITEMS[0]),
    of_item("output_item.added", 1, item={"type": "message"}),
    of_item("output_text.delta", 1, content_index=0, delta="Let me "),
    of_item("output_text.delta", 1, content_index=0, delta="see."),
    of_item("output_item.done", 1, item=RESPONSES_ITEMS[1]),
    of_item("output_item.added", 2, item={**RESPONSES_ITEMS[2], "arguments": ""}),
    of_item("function_call_arguments.delta", 2, delta='{"a":'),
    of_item("function_call_arguments.delta", 2, delta=" 1}"),
    of_item("output_item.done", 2, item=RESPONSES_ITEMS[2]),
    {"type": "response.completed", "response": RESPONSES_WHOLE},
)
FORMATS = pytest.mark.parametrize(
    ("model", "chunks", "whole", "raw_reason"),
    [
        ("openai:m", OPENAI, OPENAI_WHOLE, "tool_calls"),
        ("anthropic:m", ANTHROPIC, ANTHROPIC_WHOLE, "tool_use"),
        ("gemini:m", GEMINI, GEMINI_WHOLE, "STOP"),
        ("openai-responses:m", RESPONSES, RESPONSES_WHOLE, "completed"),
    ],
    ids=["openai", "anthropic", "gemini", "openai-responses"],
)


class Body(httpx.AsyncByteStream):
    """Sends its chunks one by one; an exception among them is raised, and None waits forever."""

    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            await asyncio.sleep(0)
            if isinstance(chunk, Exception):
                raise chunk
            if chunk is None:
                await asyncio.Event().wait()
            yield chunk


def streaming(chunks, model="openai:m"):
    def answer(request):
        return httpx.Response(200, stream=Body(chunks))

    return Gateway(model, transport=httpx.MockTransport(answer), max_retries=0).stream(ASK)


@FORMATS
async def test_events_are_delivered_in_order(model, chunks, whole, raw_reason):
    events = [event async for event in streaming(chunks, model) if event.name != "stream_event"]
    names = [event.name for event in events if event.name != "signature"]
    call_pieces = 1 if model == "gemini:m" else 2
    grows = ["content_block_delta", "text"] * 2, ["content_block_delta", "input_json"] * call_pieces
    assert (names[0], names[-3:]) == ("connect", ["message", "final_message", "end"])
    begun = [
        ["content_block_start", "content_block_delta", "thinking"],
        ["content_block_start", *grows[0]],
    ]
    begun.append(["content_block_start", *grows[1]])
    stop = ["content_block_stop"]
    if model == "openai:m":  # its chunks do not mark the end of a block
        assert names[1:-3] == [*begun[0], *begun[1], *begun[2], *stop, *stop, "tool_call", *stop]
    else:
        assert names[1:-3] == [*begun[0], *stop, *begun[1], *stop, *begun[2], "tool_call", *stop]


@FORMATS
async def test_every_event_of_a_block_has_its_index_and_kind(model, chunks, whole, raw_reason):
    stream = streaming(chunks, model)
    events = [event async for event in stream]
    message = (await stream.final_message()).message
    starts = [(e.index, e.kind, e.tool) for e in events if e.name == "content_block_start"]
    assert starts == [(0, "thinking", None), (1, "text", None), (2, "tool_call", "f")]
    stops = [(e.index, e.part) for e in events if e.name == "content_block_stop"]
    assert stops == list(enumerate([*message.content, *message.tool_calls]))
    assert [(e.index, e.tool_call) for e in events if e.name == "tool_call"] == [
        (2, message.tool_calls[0])
    ]
    assert [(e.index, e.delta) for e in events if e.name == "text"] == [(1, "Let me "), (1, "see.")]
    assert "".join(e.delta for e in events if e.name == "input_json") == '{"a": 1}'


@FORMATS
async def test_the_final_message_of_a_stream_equals_the_reply_of_chat(
    model, chunks, whole, raw_reason
):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=whole))
    chatted = await Gateway(model, transport=transport).chat(ASK)
    streamed = await streaming(chunks, model).final_message()
    assert streamed == chatted
    assert (streamed.thinking, streamed.content) == ("hm", "Let me see.")
    assert [(call.id, call.name, call.arguments) for call in streamed.tool_calls] == [
        ("t1", "f", '{"a": 1}')
    ]
    assert (streamed.finish_reason, streamed.raw_finish_reason) == ("tool_calls", raw_reason)
    assert (streamed.usage, streamed.model, streamed.request_id) == (Usage(3, 9), "m-1", "r")


async def test_the_current_message_is_available_at_any_time():
    stream = streaming(ANTHROPIC, "anthropic:m")
    assert stream.current_message == Message.assistant("")
    seen = []
    async for _ in stream.events("thinking", "text", "input_json"):
        so_far = stream.current_message
        seen.append((so_far.text, [call.arguments for call in so_far.tool_calls]))
    assert seen == [
        ("", []),
        ("Let me ", []),
        ("Let me see.", []),
        ("Let me see.", ['{"a":']),
        ("Let me see.", ['{"a": 1}']),
    ]
    assert stream.current_message == (await stream.final_message()).message


async def test_a_snapshot_has_the_text_of_its_block_so_far():
    seen = [
        (event.name, event.snapshot) async for event in streaming(OPENAI).events("text", "thinking")
    ]
    assert seen == [("thinking", "hm"), ("text", "Let me "), ("text", "Let me see.")]
    arguments = [dict(event.snapshot) async for event in streaming(OPENAI).events("input_json")]
    assert arguments == [{}, {"a": 1}]


async def test_a_raw_event_has_the_data_that_the_server_sent():
    seen = [event.data async for event in streaming(OPENAI).events("stream_event")]
    assert seen == [json.loads(chunk[6:]) for chunk in OPENAI[:-1]]


async def test_the_request_is_sent_when_the_stream_is_first_read():
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(200, stream=Body(OPENAI))

    async with Gateway("openai:m", transport=httpx.MockTransport(answer)) as gateway:
        async with gateway.stream(ASK) as stream:
            stream.on("text", print)
            await asyncio.sleep(0)
        assert sent == []
        await gateway.stream(ASK).final_message()
        assert len(sent) == 1


async def test_a_failure_is_reported_and_then_raised_to_every_consumer():
    error = {"error": {"message": "the model fell over", "code": 500}}
    stream = streaming(sse(piece(content="Let me "), error))
    names = []

    async def watch():
        async for event in stream:
            names.append(event.name)

    with pytest.raises(ServerFailed, match="the model fell over"):
        await watch()
    assert names[-4:] == ["text", "stream_event", "error", "end"]
    with pytest.raises(ServerFailed, match="the model fell over"):
        await stream.final_message()
    with pytest.raises(ServerFailed, match="the model fell over"):
        await anext(stream)


async def test_the_error_event_has_the_error_that_is_raised():
    stream = streaming([*OPENAI[:3], httpx.ReadError("reset")])
    events = await stream.emitted("error")
    with pytest.raises(StreamInterrupted, match=r"reset.*The reply was not complete") as caught:
        await stream.final_message()
    assert caught.value is events.error


async def test_an_unexpected_exception_is_raised_to_every_consumer():
    stream = streaming([*OPENAI[:2], ZeroDivisionError("a transport's own")])
    with pytest.raises(ZeroDivisionError):
        await stream.final_message()
    with pytest.raises(ZeroDivisionError):
        [event async for event in stream]
    assert stream.current_message.text == "Let me "


async def test_an_invalid_request_raises_on_every_read():
    gateway = Gateway("openai:m", transport=httpx.MockTransport(lambda request: None))
    stream = gateway.stream(ASK, temperature=float("nan"))
    for _ in range(2):
        with pytest.raises(ValueError, match="JSON"):
            await stream.final_message()


async def test_a_finished_stream_has_no_more_events_and_keeps_its_reply():
    stream = streaming(OPENAI)
    reply = await stream.final_message()
    assert [event async for event in stream] == []
    assert await stream.final_message() == reply
    await stream.aclose()
    assert await stream.final_message() == reply


async def test_a_stream_can_be_advanced_with_anext():
    stream = streaming(OPENAI)
    assert [(await anext(stream)).name, (await anext(stream)).name] == ["connect", "stream_event"]
    await stream.aclose()


async def test_invalid_arguments_are_rejected_when_the_stream_is_created():
    gateway = Gateway("openai:m", transport=httpx.MockTransport(lambda request: None))
    with pytest.raises(ValueError, match="not 'hi'"):
        gateway.stream(["hi"])
    with pytest.raises(TypeError, match="topp"):
        gateway.stream(ASK, topp=1)
