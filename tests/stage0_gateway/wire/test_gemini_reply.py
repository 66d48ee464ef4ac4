"""Replies in Gemini's format; for requests see test_gemini.py."""

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
from stage0_gateway.streaming.events import ContentBlockStartEvent, SignatureEvent, ToolCallEvent
from stage0_gateway.wire import gemini
from tests.stage0_gateway.replies import candidate, events_read, read_events
from tests.tables import for_each

CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
SIGNED_CALL = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "t"}
PARTS = [
    {"text": "hm", "thought": True},
    SIGNED_CALL,
    CODE,
    {"text": "hi"},
    {"text": "!", "thoughtSignature": "s"},
    {"functionCall": {"name": "g", "args": {}, "id": "x"}},
]
USAGE = {
    "promptTokenCount": 3,
    "candidatesTokenCount": 4,
    "cachedContentTokenCount": 1,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 9,
}
HEAD = {"responseId": "r", "modelVersion": "m"}
WHOLE = {
    **HEAD,
    "candidates": [
        {"content": {"parts": PARTS, "role": "model"}, "finishReason": "STOP", "index": 0}
    ],
    "usageMetadata": USAGE,
}
READ = ChatResponse(
    Message.assistant(
        (
            ThinkingPart("hm", {"gemini": {"thought": True}}),
            ProviderPart("gemini", CODE),
            TextPart("hi"),
            TextPart("!", provider_data={"gemini": {"thoughtSignature": "s"}}),
        ),
        [
            ToolCall("call_0", "f", '{"a": 1}', {"gemini": {"thoughtSignature": "t", "at": 1}}),
            ToolCall("x", "g", "{}", {"gemini": {"functionCall": {"id": "x"}}}),
        ],
    ),
    "tool_calls",
    "STOP",
    Usage(3, 4, cached_input_tokens=1, reasoning_tokens=2),
    "m",
    request_id="r",
)


def chunk(*parts, **fields):
    """Return a chunk with the fields that each chunk repeats."""
    return {**HEAD, **candidate(*parts, **fields)}


STREAM = [
    {**chunk({"text": "h", "thought": True}), "usageMetadata": {"promptTokenCount": 3}},
    chunk({"text": "m", "thought": True}, SIGNED_CALL),
    chunk(CODE, {"text": "h"}),
    chunk({"text": ""}, {"text": "i"}),
    chunk(*PARTS[4:]),
    {**chunk(finishReason="STOP"), "usageMetadata": USAGE},
]


def test_a_whole_reply_and_a_stream_are_decoded_alike():
    assert gemini.decode(WHOLE) == READ
    assert read_events(gemini, *STREAM) == READ


def test_every_part_is_sent_back_unchanged_in_its_position():
    assert gemini.encode(ChatRequest("m", (READ.message,)))["contents"] == [
        {"role": "model", "parts": PARTS}
    ]


def test_a_stream_produces_its_events_in_order():
    call = ToolCall("call_0", "f", '{"a": 1}', {"gemini": {"thoughtSignature": "t"}})
    wanted = ("content_block_start", "tool_call", "signature")
    assert [event for event in events_read(gemini, *STREAM) if event.name in wanted] == [
        ContentBlockStartEvent(0, "thinking"),
        ContentBlockStartEvent(1, "tool_call", "f"),
        ToolCallEvent(call, 1),
        ContentBlockStartEvent(2, "provider"),
        ContentBlockStartEvent(3, "text"),
        ContentBlockStartEvent(4, "text"),
        SignatureEvent("s", 4),
        ContentBlockStartEvent(5, "tool_call", "g"),
        ToolCallEvent(READ.tool_calls[1], 5),
    ]


@for_each("calls, expected", [(0, "error"), (1, "tool_calls")])
def test_an_unexpected_tool_call_is_an_error_unless_the_reply_has_calls(calls, expected):
    raw = "UNEXPECTED_TOOL_CALL"
    body = candidate(*[SIGNED_CALL] * calls, finishReason=raw)
    for response in (gemini.decode(body), read_events(gemini, body)):
        assert (response.finish_reason, response.raw_finish_reason) == (expected, raw)


def test_a_blocked_prompt_is_a_refusal_with_its_reason():
    body = {"promptFeedback": {"blockReason": "OTHER"}}
    for response in (gemini.decode(body), read_events(gemini, body)):
        assert (response.finish_reason, response.block_reason) == ("refusal", "OTHER")
        assert response.message == Message.assistant("")


def test_sources_become_citations_of_the_last_text_without_duplicates():
    web = {
        "groundingChunks": [
            {"web": {"uri": "u", "title": "t"}},
            {"retrievedContext": {"text": "q"}},
        ]
    }
    quoted = {"citationSources": [{"uri": "v"}]}
    events = [
        chunk({"text": "a"}, groundingMetadata=web),
        chunk({"text": "b"}, groundingMetadata=web, citationMetadata=quoted, finishReason="STOP"),
    ]
    citations = (Citation("u", "t"), Citation(quote="q"), Citation("v"))
    assert read_events(gemini, *events).message.content == (TextPart("ab", citations),)


def test_only_the_first_candidate_is_decoded():
    first, second = (
        {**chunk({"text": text})["candidates"][0], "index": at} for at, text in enumerate("ab")
    )
    assert gemini.decode({"candidates": [second, first]}).content == "a"


def test_the_original_tool_name_is_restored_in_a_call():
    response = read_events(gemini, *STREAM, names={"f": "a.b"})
    assert [call.name for call in response.tool_calls] == ["a.b", "g"]


def test_an_error_with_status_200_is_classified_by_its_code():
    overloaded = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(ServerFailed, match="Overloaded"):
        gemini.decode(overloaded)
