import asyncio
import json

import httpx
import pytest

from stage0_gateway import Gateway, Message, ServerFailed, StreamInterrupted, Usage
from tests.stage0_gateway.replies import (
    END_MARK,
    block,
    candidate,
    chunk,
    completion,
    event,
    failure,
    item_event,
)
from tests.stage0_gateway.requests import MODELS, QUESTION
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each

HEAD = {"id": "r", "model": "m-1"}


def events(*data):
    """Return the bytes of each event."""
    return [event(each) for each in data]


def part(*parts, **fields):
    return {"responseId": "r", "modelVersion": "m-1", **candidate(*parts, **fields)}


def call_delta(arguments, **fields):
    call = {"index": 0, **fields, "function": {**fields, "arguments": arguments}}
    return {**HEAD, **chunk(tool_calls=[call])}


FUNCTION = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OPENAI_USAGE = {"prompt_tokens": 3, "completion_tokens": 9}
OPENAI = events(
    {**HEAD, **chunk(reasoning_content="hm")},
    {**HEAD, **chunk(content="Let me ")},
    {**HEAD, **chunk(content="see.")},
    call_delta('{"a":', id="t1", name="f"),
    call_delta(" 1}"),
    {**HEAD, **chunk("tool_calls")},
    {"choices": [], "usage": OPENAI_USAGE},
    END_MARK,
)
OPENAI_WHOLE = {
    **HEAD,
    **completion("Let me see.", "tool_calls", reasoning_content="hm", tool_calls=[FUNCTION]),
    "usage": OPENAI_USAGE,
}
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "f"}
ANTHROPIC_START = {**HEAD, "usage": {"input_tokens": 3, "output_tokens": 1}}
ANTHROPIC = events(
    {"type": "message_start", "message": ANTHROPIC_START},
    *block(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
    ),
    {"type": "ping"},
    *block(
        1,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Let me "},
        {"type": "text_delta", "text": "see."},
    ),
    *block(
        2,
        {**TOOL_USE, "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
    ),
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
GEMINI = events(
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


RESPONSES_WHOLE = {
    "id": "r",
    "model": "m-1",
    "status": "completed",
    "output": RESPONSES_ITEMS,
    "usage": RESPONSES_USAGE,
}
RESPONSES = events(
    {"type": "response.created", "response": {"status": "in_progress"}},
    item_event("output_item.added", 0, item={"type": "reasoning", "id": "r"}),
    item_event("reasoning_summary_text.delta", 0, summary_index=0, delta="hm"),
    item_event("output_item.done", 0, item=RESPONSES_ITEMS[0]),
    item_event("output_item.added", 1, item={"type": "message"}),
    item_event("output_text.delta", 1, content_index=0, delta="Let me "),
    item_event("output_text.delta", 1, content_index=0, delta="see."),
    item_event("output_item.done", 1, item=RESPONSES_ITEMS[1]),
    item_event("output_item.added", 2, item={**RESPONSES_ITEMS[2], "arguments": ""}),
    item_event("function_call_arguments.delta", 2, delta='{"a":'),
    item_event("function_call_arguments.delta", 2, delta=" 1}"),
    item_event("output_item.done", 2, item=RESPONSES_ITEMS[2]),
    {"type": "response.completed", "response": RESPONSES_WHOLE},
)
STREAMS = {
    "openai:m": OPENAI,
    "anthropic:m": ANTHROPIC,
    "gemini:m": GEMINI,
    "openai-responses:m": RESPONSES,
}
WHOLE = {
    "openai:m": OPENAI_WHOLE,
    "anthropic:m": ANTHROPIC_WHOLE,
    "gemini:m": GEMINI_WHOLE,
    "openai-responses:m": RESPONSES_WHOLE,
}
RAW_REASONS = {
    "openai:m": "tool_calls",
    "anthropic:m": "tool_use",
    "gemini:m": "STOP",
    "openai-responses:m": "completed",
}
each_model = for_each("model", MODELS)


def streaming(chunks, model="openai:m"):
    """Return the stream of a reply with these chunks."""
    return Gateway(model, transport=Answers(chunks), max_retries=0).stream(QUESTION)


@each_model
async def test_events_are_delivered_in_order(model):
    events = [
        event async for event in streaming(STREAMS[model], model) if event.name != "stream_event"
    ]
    names = [event.name for event in events if event.name != "signature"]
    start, delta, stop = (f"content_block_{each}" for each in ("start", "delta", "stop"))
    pieces = 1 if model == "gemini:m" else 2
    thinking = [start, delta, "thinking"]
    text = [start, *[delta, "text"] * 2]
    call = [start, *[delta, "input_json"] * pieces]
    assert (names[0], names[-3:]) == ("connect", ["message", "final_message", "end"])
    if model == "openai:m":  # its chunks do not mark the end of a block
        assert names[1:-3] == [*thinking, *text, *call, stop, stop, "tool_call", stop]
    else:
        assert names[1:-3] == [*thinking, stop, *text, stop, *call, "tool_call", stop]


@each_model
async def test_every_event_of_a_block_has_its_index_and_kind(model):
    stream = streaming(STREAMS[model], model)
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


@each_model
async def test_the_final_message_of_a_stream_equals_the_reply_of_chat(model):
    streamed = await streaming(STREAMS[model], model).final_message()
    assert streamed == await Gateway(model, transport=Answers(WHOLE[model])).chat(QUESTION)
    assert (streamed.thinking, streamed.content) == ("hm", "Let me see.")
    assert [(call.id, call.name, call.arguments) for call in streamed.tool_calls] == [
        ("t1", "f", '{"a": 1}')
    ]
    assert (streamed.finish_reason, streamed.raw_finish_reason) == (
        "tool_calls",
        RAW_REASONS[model],
    )
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
    server = Answers(OPENAI)
    async with Gateway("openai:m", transport=server) as gateway:
        async with gateway.stream(QUESTION) as stream:
            stream.on("text", print)
            await asyncio.sleep(0)
        assert server.requests == []
        await gateway.stream(QUESTION).final_message()
        assert len(server.requests) == 1


async def test_a_failure_is_reported_and_then_raised_to_every_consumer():
    error = failure("the model fell over", code=500)
    stream = streaming(events(chunk(content="Let me "), error))
    names = []

    async def read():
        async for each in stream:
            names.append(each.name)

    with pytest.raises(ServerFailed, match="the model fell over"):
        await read()
    assert names[-4:] == ["text", "stream_event", "error", "end"]
    with pytest.raises(ServerFailed, match="the model fell over"):
        await stream.final_message()
    with pytest.raises(ServerFailed, match="the model fell over"):
        await anext(stream)


async def test_the_error_event_has_the_error_that_is_raised():
    stream = streaming([*OPENAI[:3], httpx.ReadError("reset")])
    reported = await stream.emitted("error")
    with pytest.raises(StreamInterrupted, match=r"reset.*The reply was not complete") as caught:
        await stream.final_message()
    assert caught.value is reported.error


async def test_an_unexpected_exception_is_raised_to_every_consumer():
    stream = streaming([*OPENAI[:2], ZeroDivisionError("a transport's own")])
    with pytest.raises(ZeroDivisionError):
        await stream.final_message()
    with pytest.raises(ZeroDivisionError):
        [event async for event in stream]
    assert stream.current_message.text == "Let me "


async def test_an_invalid_request_raises_on_every_read():
    gateway = Gateway("openai:m", transport=Answers(200))
    stream = gateway.stream(QUESTION, temperature=float("nan"))
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
    gateway = Gateway("openai:m", transport=Answers(200))
    with pytest.raises(ValueError, match="not 'hi'"):
        gateway.stream(["hi"])
    with pytest.raises(TypeError, match="topp"):
        gateway.stream(QUESTION, topp=1)
