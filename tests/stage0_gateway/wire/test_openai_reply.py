"""Replies in OpenAI's format; for requests see test_openai.py."""

import pytest

from stage0_gateway import (
    ChatResponse,
    Citation,
    GatewayError,
    MalformedResponse,
    Message,
    ServerFailed,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from stage0_gateway.streaming.events import (
    ContentBlockDeltaEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    InputJsonEvent,
    TextEvent,
    ToolCallEvent,
)
from stage0_gateway.wire import openai
from tests.stage0_gateway.replies import END_MARK, chunk, completion, feed, read_events
from tests.tables import for_each


def reply(message, **more):
    return {"choices": [{"message": message, "finish_reason": "stop"}], "model": "m", **more}


def test_a_whole_reply_is_decoded():
    body = reply({"content": "yes"}, id="r1", usage={"prompt_tokens": 3, "completion_tokens": 4})
    assert openai.decode(body) == ChatResponse(
        Message.assistant("yes"), "stop", "stop", Usage(3, 4), "m", request_id="r1"
    )


@for_each(
    "message, expected",
    [
        ({"content": None}, Message.assistant("")),
        ({}, Message.assistant("")),
        ({"content": "a", "tool_calls": None}, Message.assistant("a")),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            Message.assistant("ab"),
        ),
        ({"content": ["a", {"type": "text", "text": "b"}, "c"]}, Message.assistant("abc")),
        (
            {"content": "a", "reasoning_content": "hm"},
            Message.assistant(
                (ThinkingPart("hm", {"openai": {"field": "reasoning_content"}}), TextPart("a"))
            ),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": None}}]},
            Message.assistant("", [ToolCall("1", "f", "{}")]),
        ),
        (
            {"tool_calls": [{"id": "", "function": {"name": "f", "arguments": ""}}] * 2},
            Message.assistant("", [ToolCall("call_0", "f", "{}"), ToolCall("call_1", "f", "{}")]),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}]},
            Message.assistant("", [ToolCall("1", "f", '{"a": 1}')]),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": '}}]},
            Message.assistant("", [ToolCall("1", "f", '{"a": ')]),
        ),
    ],
)
def test_variants_of_a_message_are_decoded(message, expected):
    assert openai.decode(reply(message)).message == expected


def test_a_refusal_is_distinguished_from_content():
    response = openai.decode(reply({"content": None, "refusal": "I will not."}))
    assert (response.finish_reason, response.refusal) == ("refusal", "I will not.")


def test_cached_tokens_and_the_cost_that_a_server_reports_are_stored():
    details = {"cached_tokens": 5, "cache_write_tokens": 6}
    response = openai.decode(
        reply(
            {"content": "a"},
            usage={"prompt_tokens": 9, "prompt_tokens_details": details, "cost": 0.5},
        )
    )
    assert (response.usage, response.cost) == (Usage(9, None, 5, cache_write_tokens=6), 0.5)
    deepseek = openai.decode(reply({"content": "a"}, usage={"prompt_cache_hit_tokens": 5}))
    assert (deepseek.usage, deepseek.cost) == (Usage(None, None, 5), None)


def test_invalid_token_counts_are_unknown():
    usage = {"prompt_tokens": "5", "completion_tokens": None, "prompt_tokens_details": [1]}
    assert openai.decode(reply({"content": "a"}, usage=usage)).usage == Usage()


def test_citations_and_provider_data_are_stored_with_the_text():
    note = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "content": "q"}}
    message = {"content": "a", "annotations": [note, {"type": "file"}], "extra_content": {"g": 1}}
    citation = Citation("u", "t", "q", {"openai": note})
    text = TextPart("a", (citation,), {"openai": {"extra_content": {"g": 1}}})
    assert openai.decode(reply(message)).message.content == (text,)


@for_each(
    "pieces, joined",
    [
        # of one kind
        (
            [
                {"type": "reasoning.text", "text": "h"},
                {"type": "reasoning.text", "text": "m", "signature": "s"},
            ],
            [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
        ),
        # of two
        (
            [
                {"type": "reasoning.text", "index": 0, "text": "h"},
                {"type": "x", "index": 0, "data": "d"},
            ],
            [
                {"type": "reasoning.text", "index": 0, "text": "h"},
                {"type": "x", "index": 0, "data": "d"},
            ],
        ),
        # of two indexes
        ([{"type": "x", "index": at, "data": "d"} for at in (0, 1)],) * 2,
    ],
)
def test_reasoning_details_are_merged_by_type_and_index(pieces, joined):
    chunks = [chunk(reasoning_details=[each]) for each in pieces]
    (thinking,) = read_events(openai, *chunks, chunk("stop")).message.content
    assert thinking.provider_data["openai"]["reasoning_details"] == joined


def test_encrypted_reasoning_is_stored_as_thinking_without_text():
    details = [{"type": "reasoning.encrypted", "index": 0, "data": "d"}]
    data = {"openai": {"field": "reasoning", "reasoning_details": details}}
    message = openai.decode(reply({"content": "a", "reasoning_details": details})).message
    assert message == Message.assistant((ThinkingPart("", data), TextPart("a")))


def test_a_stream_is_decoded_like_the_whole_reply():
    call = {"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    whole = reply({"content": "hi", "reasoning": "hm", "tool_calls": [call]}, id="r", usage=usage)
    deltas = [
        {"content": ""},
        {"reasoning": "h"},
        {"content": "h"},
        {"reasoning": "m"},
        {"content": "i"},
    ]
    pieces = [
        {"index": 0, "id": "1", "function": {"name": "f"}},
        {"function": {"arguments": '{"a": 1}'}},
    ]
    chunks = [{**chunk(**each), "model": "m", "id": "r"} for each in deltas]
    chunks += [chunk(tool_calls=[each]) for each in pieces]
    end = [chunk("stop"), {"choices": [], "usage": usage}]
    assert read_events(openai, *chunks, *end) == openai.decode(whole)
    assert openai.decode(whole).usage == Usage(3, 4, cached_input_tokens=1, reasoning_tokens=2)


def test_an_empty_text_is_omitted_in_a_body_and_in_a_stream():
    chunks = [chunk(content=""), chunk(reasoning="hm"), chunk("stop")]
    whole = openai.decode(completion("", reasoning="hm"))
    assert read_events(openai, *chunks) == whole
    assert [type(part) for part in whole.message.content] == [ThinkingPart]


def test_only_the_first_choice_is_decoded():
    choices = [
        {"index": at, "delta": {"content": text}, "finish_reason": "stop"}
        for at, text in ((1, "b"), (0, "a"))
    ]
    assert read_events(openai, {"choices": choices}).content == "a"


def test_the_original_tool_name_is_restored_in_a_call():
    call = {"id": "1", "function": {"name": "a_b_1", "arguments": "{}"}}
    end = chunk("tool_calls", tool_calls=[call])
    reply = read_events(openai, end, names={"a_b_1": "a.b"})
    assert reply.tool_calls == (ToolCall("1", "a.b"),)


@for_each(
    "error, kind",
    [({"message": "boo", "code": 503}, ServerFailed), ({"message": "boo"}, MalformedResponse)],
)
def test_an_error_in_a_whole_reply_is_classified_by_its_code(error, kind):
    with pytest.raises(GatewayError, match="boo") as caught:
        openai.decode({"error": error})
    assert type(caught.value) is kind


def test_a_stream_produces_its_events_in_order():
    call = ToolCall("1", "f", '{"a": 1}')
    delta = {"id": "1", "function": {"name": "f", "arguments": call.arguments}}
    reader = feed(openai.reader(), chunk(content="hi"), chunk(tool_calls=[delta]), END_MARK)
    reader.end()
    text, arguments = (block.text for block in reader.builder.blocks)
    assert reader.builder.events == [
        ContentBlockStartEvent(0, "text"),
        ContentBlockDeltaEvent(0, "text", "hi"),
        TextEvent("hi", 0, text, 2),
        ContentBlockStartEvent(1, "tool_call", "f"),
        ContentBlockDeltaEvent(1, "tool_call", call.arguments),
        InputJsonEvent(call.arguments, 1, arguments, 8),
        ContentBlockStopEvent(0, "text", TextPart("hi")),
        ToolCallEvent(call, 1),
        ContentBlockStopEvent(1, "tool_call", call),
    ]
