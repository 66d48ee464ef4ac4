"""How a reply in Gemini's format is read; what is asked: test_gemini.py."""

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


def test_a_whole_reply_and_a_stream_of_it_are_read_alike():
    assert gemini.decode(WHOLE) == READ
    assert stream(*STREAM)[0] == READ


def test_every_part_goes_back_as_it_came_in_its_place():
    assert gemini.encode(ChatRequest("m", (READ.message,)))["contents"] == [
        {"role": "model", "parts": PARTS}
    ]


def test_what_happens_is_told_when_it_happens():
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
def test_the_calls_decide_on_the_finish_reason_unless_the_reply_was_cut(raw, with_calls, expected):
    candidate = {"content": {"parts": [SIGNED_CALL] * with_calls}, "finishReason": raw}
    response = gemini.decode({"candidates": [candidate]})
    assert (response.finish_reason, response.raw_finish_reason) == (expected, raw)


def test_a_blocked_prompt_is_a_refusal_that_says_why():
    response = gemini.decode({"promptFeedback": {"blockReason": "OTHER"}})
    assert (response.finish_reason, response.block_reason, response.message) == (
        "refusal",
        "OTHER",
        Message.assistant(""),
    )


def test_sources_are_citations_of_the_last_text_and_told_once_however_often_they_come():
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


def test_only_the_first_of_several_candidates_is_the_reply():
    first, second = (
        {**chunk({"text": text})["candidates"][0], "index": at} for at, text in enumerate("ab")
    )
    assert gemini.decode({"candidates": [second, first]}).content == "a"


def test_a_call_gets_its_tools_own_name_again():
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
def test_what_is_no_reply_is_malformed(body):
    with pytest.raises(MalformedResponse, match="not a reply in the gemini format"):
        gemini.decode(body)


def test_an_error_is_the_one_it_stands_for_with_the_servers_words():
    overloaded = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(ServerFailed, match="Overloaded"):
        gemini.decode(overloaded)
    assert type(error_for_body(403, [{"error": {"message": "no"}}])) is AuthenticationFailed
