"""Replies in Anthropic's format; for requests see test_anthropic.py."""

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ChatRequest,
    ChatResponse,
    Citation,
    MalformedResponse,
    Message,
    ProviderPart,
    ServerFailed,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from stage0_gateway.streaming.events import CitationEvent, SignatureEvent, ToolCallEvent
from stage0_gateway.wire import anthropic
from stage0_gateway.wire.error_body import error_for_body

SIGNED = {"anthropic": {"signature": "s"}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "q"}
TOOL_USE = {
    "type": "tool_use",
    "id": "1",
    "name": "f",
    "input": {"a": 1},
    "caller": {"type": "direct"},
}
USAGE = {
    "input_tokens": 3,
    "output_tokens": 4,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 6,
    "output_tokens_details": {"thinking_tokens": 2},
}
WHOLE = {
    "id": "r",
    "type": "message",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        TOOL_USE,
        SEARCH,
        {"type": "text", "text": "hi", "citations": [FOUND]},
    ],
    "stop_reason": "tool_use",
    "usage": USAGE,
}
READ = ChatResponse(
    Message.assistant(
        (
            ThinkingPart("hm", SIGNED),
            ProviderPart("anthropic", SEARCH),
            TextPart("hi", (Citation("u", "t", "q", {"anthropic": FOUND}),)),
        ),
        [ToolCall("1", "f", '{"a": 1}', {"anthropic": {"caller": {"type": "direct"}, "at": 1}})],
    ),
    "tool_calls",
    "tool_use",
    Usage(3, 4, cached_input_tokens=5, reasoning_tokens=2, cache_write_tokens=6),
    "m",
    request_id="r",
)


def deltas(index, start, *several):
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield from (
        {"type": "content_block_delta", "index": index, "delta": delta} for delta in several
    )
    yield {"type": "content_block_stop", "index": index}


STREAM = [
    {
        "type": "message_start",
        "message": {"id": "r", "model": "m", "usage": {**USAGE, "output_tokens": 1}},
    },
    *deltas(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "s"},
    ),
    *deltas(
        1,
        {**TOOL_USE, "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a"'},
        {"type": "input_json_delta", "partial_json": ": 1}"},
    ),
    *deltas(
        2, {**SEARCH, "input": {}}, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    ),
    *deltas(
        3,
        {"type": "text", "text": "h"},
        {"type": "text_delta", "text": "i"},
        {"type": "citations_delta", "citation": FOUND},
    ),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]


def stream(*events, names=None):
    reader = anthropic.reader(names)
    for each in events:
        reader.read_event(each)
    return reader.end(), reader.builder.events


def test_a_whole_reply_and_a_stream_are_decoded_alike():
    assert anthropic.decode(WHOLE) == READ
    assert stream(*STREAM)[0] == READ


def test_the_end_marker_completes_a_stream_at_any_point():
    reader = anthropic.reader()
    reader.read_event(STREAM[0])
    assert (reader.complete, reader.over) == (False, False)
    reader.read_event({"type": "message_stop"})
    assert (reader.complete, reader.over) == (True, True)


def test_a_call_between_other_blocks_is_sent_back_in_its_position():
    assert (
        anthropic.encode(ChatRequest("m", (READ.message,)))["messages"][0]["content"]
        == WHOLE["content"]
    )


def test_a_stream_produces_its_events_in_order():
    wanted = ("signature", "citation", "tool_call")
    events = [event for event in stream(*STREAM)[1] if event.name in wanted]
    call = ToolCall("1", "f", '{"a": 1}', {"anthropic": {"caller": {"type": "direct"}}})
    citation = READ.message.content[2].citations[0]
    assert events == [SignatureEvent("s", 0), ToolCallEvent(call, 1), CitationEvent(citation, 3)]


@pytest.mark.parametrize(
    ("raw", "with_calls", "expected"),
    [
        ("end_turn", False, "stop"),
        ("end_turn", True, "tool_calls"),
        ("max_tokens", True, "length"),
        ("model_context_window_exceeded", False, "length"),
        ("pause_turn", False, "pause"),
        ("weird", False, "unknown"),
        (None, False, "unknown"),
    ],
)
def test_a_finish_reason_is_translated(raw, with_calls, expected):
    response = anthropic.decode({"content": [TOOL_USE] * with_calls, "stop_reason": raw})
    assert (response.finish_reason, response.raw_finish_reason) == (expected, raw)


def test_a_refusal_keeps_its_explanation():
    body = {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "I will not."}}
    response = anthropic.decode(body)
    assert (response.finish_reason, response.refusal, response.message) == (
        "refusal",
        "I will not.",
        Message.assistant(""),
    )


def test_the_original_tool_name_is_restored_in_a_call():
    response, _ = stream(*STREAM, names={"f": "a.b"})
    assert [call.name for call in response.tool_calls] == ["a.b"]


@pytest.mark.parametrize(
    "body", [{}, {"content": 5}, {"content": ["x"]}, {"content": [{"type": "text", "text": 5}]}]
)
def test_a_body_that_is_not_a_message_is_malformed(body):
    with pytest.raises(MalformedResponse, match="not a reply in the anthropic format"):
        anthropic.decode(body)


def test_errors_are_classified_and_keep_the_servers_message():
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ServerFailed, match="Overloaded") as caught:
        anthropic.decode(overloaded)
    assert (caught.value.status, caught.value.retryable) == (200, True)
    body = {
        "type": "error",
        "error": {"type": "authentication_error", "message": "invalid x-api-key"},
    }
    assert type(error_for_body(401, body)) is AuthenticationFailed
