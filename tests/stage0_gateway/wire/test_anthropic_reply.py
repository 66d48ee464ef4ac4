"""Replies in Anthropic's format; for requests see test_anthropic.py."""

import pytest

from stage0_gateway import (
    ChatRequest,
    ChatResponse,
    Citation,
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
from tests.stage0_gateway.replies import block, events_read, read_events

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


STREAM = [
    {
        "type": "message_start",
        "message": {"id": "r", "model": "m", "usage": {**USAGE, "output_tokens": 1}},
    },
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "s"},
    ),
    *block(
        1,
        {**TOOL_USE, "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a"'},
        {"type": "input_json_delta", "partial_json": ": 1}"},
    ),
    *block(
        2, {**SEARCH, "input": {}}, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    ),
    *block(
        3,
        {"type": "text", "text": "h"},
        {"type": "text_delta", "text": "i"},
        {"type": "citations_delta", "citation": FOUND},
    ),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]


def test_a_whole_reply_and_a_stream_are_decoded_alike():
    assert anthropic.decode(WHOLE) == READ
    assert read_events(anthropic, *STREAM) == READ


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
    events = [event for event in events_read(anthropic, *STREAM) if event.name in wanted]
    call = ToolCall("1", "f", '{"a": 1}', {"anthropic": {"caller": {"type": "direct"}}})
    citation = READ.message.content[2].citations[0]
    assert events == [SignatureEvent("s", 0), ToolCallEvent(call, 1), CitationEvent(citation, 3)]


def test_a_refusal_keeps_its_explanation():
    body = {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "I will not."}}
    response = anthropic.decode(body)
    assert (response.finish_reason, response.refusal, response.message) == (
        "refusal",
        "I will not.",
        Message.assistant(""),
    )


def test_the_original_tool_name_is_restored_in_a_call():
    response = read_events(anthropic, *STREAM, names={"f": "a.b"})
    assert [call.name for call in response.tool_calls] == ["a.b"]


def test_an_error_with_status_200_is_classified_by_its_type():
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ServerFailed, match="Overloaded") as caught:
        anthropic.decode(overloaded)
    assert (caught.value.status, caught.value.retryable) == (200, True)
