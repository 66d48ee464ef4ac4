"""Replies in Gemini's format; for requests see test_gemini.py."""

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
from stage0_gateway.streaming.events import ContentBlockStartEvent, SignatureEvent, ToolCallEvent
from stage0_gateway.wire import gemini
from stage0_gateway.wire.error_body import error_for_body

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


def chunk(*parts, **more):
    return {**HEAD, "candidates": [{"content": {"parts": list(parts)}, **more}]}


STREAM = [
    {**chunk({"text": "h", "thought": True}), "usageMetadata": {"promptTokenCount": 3}},
    chunk({"text": "m", "thought": True}, SIGNED_CALL),
    chunk(CODE, {"text": "h"}),
    chunk({"text": ""}, {"text": "i"}),
    chunk(*PARTS[4:]),
    {**chunk(finishReason="STOP"), "usageMetadata": USAGE},
]


def stream(*events, names=None):
    reader = gemini.reader(names)
    for each in events:
        reader.read_event(each)
    return reader.end(), reader.builder.events


def test_a_whole_reply_and_a_stream_are_decoded_alike():
    assert gemini.decode(WHOLE) == READ
    assert stream(*STREAM)[0] == READ


def test_every_part_is_sent_back_unchanged_in_its_position():
    assert gemini.encode(ChatRequest("m", (READ.message,)))["contents"] == [
        {"role": "model", "parts": PARTS}
    ]


def test_a_stream_produces_its_events_in_order():
    call = ToolCall("call_0", "f", '{"a": 1}', {"gemini": {"thoughtSignature": "t"}})
    wanted = ("content_block_start", "tool_call", "signature")
    assert [event for event in stream(*STREAM)[1] if event.name in wanted] == [
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


@pytest.mark.parametrize(
    ("raw", "with_calls", "expected"),
    [
        ("STOP", False, "stop"),
        ("STOP", True, "tool_calls"),
        (None, True, "tool_calls"),
        ("UNEXPECTED_TOOL_CALL", True, "tool_calls"),
        ("UNEXPECTED_TOOL_CALL", False, "error"),
        ("MALFORMED_FUNCTION_CALL", False, "error"),
        ("MAX_TOKENS", True, "length"),
        ("SAFETY", False, "refusal"),
        ("weird", False, "unknown"),
    ],
)
def test_calls_determine_the_finish_reason_unless_the_reply_was_truncated(
    raw, with_calls, expected
):
    candidate = {"content": {"parts": [SIGNED_CALL] * with_calls}, "finishReason": raw}
    response = gemini.decode({"candidates": [candidate]})
    assert (response.finish_reason, response.raw_finish_reason) == (expected, raw)


def test_a_blocked_prompt_is_a_refusal_with_its_reason():
    response = gemini.decode({"promptFeedback": {"blockReason": "OTHER"}})
    assert (response.finish_reason, response.block_reason, response.message) == (
        "refusal",
        "OTHER",
        Message.assistant(""),
    )


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
    assert stream(*events)[0].message.content == (TextPart("ab", citations),)


def test_only_the_first_candidate_is_decoded():
    first, second = (
        {**chunk({"text": text})["candidates"][0], "index": at} for at, text in enumerate("ab")
    )
    assert gemini.decode({"candidates": [second, first]}).content == "a"


def test_the_original_tool_name_is_restored_in_a_call():
    response, _ = stream(*STREAM, names={"f": "a.b"})
    assert [call.name for call in response.tool_calls] == ["a.b", "g"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"candidates": []},
        {"candidates": [5]},
        chunk("x"),
        chunk({"functionCall": {"args": {}}}),
        chunk({"functionCall": 5}),
    ],
)
def test_a_body_that_is_not_a_reply_is_malformed(body):
    with pytest.raises(MalformedResponse, match="not a reply in the gemini format"):
        gemini.decode(body)


def test_errors_are_classified_and_keep_the_servers_message():
    overloaded = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(ServerFailed, match="Overloaded"):
        gemini.decode(overloaded)
    assert type(error_for_body(403, [{"error": {"message": "no"}}])) is AuthenticationFailed
