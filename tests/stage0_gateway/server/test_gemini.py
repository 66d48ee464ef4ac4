import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.errors import error_for_status
from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    ImagePart,
    JsonPart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server import gemini
from stage0_gateway.server.gemini import encode_error, encode_reply, encode_stream
from stage0_gateway.wire import gemini as wire
from stage0_gateway.wire.error_body import error_for_body

PATH = "/v1beta/models/gemini-x:generateContent"


def own(**fields):
    return {"gemini": fields} if fields else None


# ---- replies that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_EMPTY = st.text(min_size=1, max_size=30)
COUNT = st.integers(0, 10**6)
OBJECT = st.dictionaries(
    NOT_EMPTY, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required")
)
SIGNED = NOT_EMPTY.map(lambda text: own(thoughtSignature=text))
PLAIN_TEXT = st.builds(TextPart, NOT_EMPTY)
SIGNED_TEXT = st.builds(TextPart, TEXT, provider_data=SIGNED)
THOUGHT = st.builds(ThinkingPart, TEXT, st.just(own(thought=True)))
SIGNED_THOUGHT = st.builds(
    ThinkingPart, TEXT, NOT_EMPTY.map(lambda text: own(thought=True, thoughtSignature=text))
)
OTHER = st.builds(
    ProviderPart, st.just("gemini"), OBJECT.map(lambda data: {"executableCode": data})
)


def assistant(items):
    """Return an assistant message as a session stores it: parts, then calls; calls without an id
    are numbered."""
    parts = [item for item in items if not isinstance(item, ToolCall)]
    calls = []
    for number, call in enumerate(item for item in items if isinstance(item, ToolCall)):
        data = dict((call.provider_data or {}).get("gemini", {}))
        data |= {"functionCall": {"id": call.id}} if call.id else {}
        calls.append(replace(call, id=call.id or f"call_{number}", provider_data=own(**data)))
    return Message.assistant(as_content(parts), calls)


CALL = st.builds(
    ToolCall,
    st.just("") | st.uuids().map(str),
    NAME,
    OBJECT.map(lambda given: json.dumps(given, ensure_ascii=False)),
    st.none() | SIGNED,
)
ITEM = st.one_of(PLAIN_TEXT, SIGNED_TEXT, THOUGHT, SIGNED_THOUGHT, OTHER, CALL)
REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refusal",
    "MALFORMED_FUNCTION_CALL": "error",
    "OTHER": "unknown",
    "SOMETHING_NEW": "unknown",
}


@st.composite
def replies(draw):
    """Generate replies: parts in any order, no two unsigned texts of a kind in a row; then calls."""
    items = []
    for item in sorted(
        draw(st.lists(ITEM, max_size=6)), key=lambda item: isinstance(item, ToolCall)
    ):
        if not (items and is_open(item) and is_open(items[-1]) and type(item) is type(items[-1])):
            items.append(item)
    raw, reason = draw(st.sampled_from([*REASONS.items()]))
    if reason not in (
        "stop",
        "tool_calls",
        "pause",
    ):  # an empty object may then be a truncated one
        items = [
            replace(item, arguments="")
            if isinstance(item, ToolCall) and item.arguments == "{}"
            else item
            for item in items
        ]
    message = assistant(items)
    return ChatResponse(
        message,
        finish_reason="tool_calls"
        if message.tool_calls and reason in ("stop", "unknown")
        else reason,
        raw_finish_reason=raw,
        usage=draw(st.none() | st.builds(Usage, *[st.none() | COUNT] * 4)),
        model=draw(st.none() | NOT_EMPTY),
        request_id=draw(st.none() | NOT_EMPTY),
    )


def is_open(item):
    """Return whether a following text of the same kind would be merged into this part."""
    return isinstance(item, TextPart | ThinkingPart) and "thoughtSignature" not in (
        item.provider_data or {}
    ).get("gemini", {})


# ---- the tests
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (PATH, "gemini-x"),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent?alt=sse",
            "g",
        ),
        ("/v1beta/models/a%2Fb%3Ac:generateContent", "a/b:c"),
    ],
)
def test_the_model_is_read_from_the_path(path, model):
    assert gemini.is_path(path)
    assert gemini.decode_request({"contents": []}, path).model == model


@pytest.mark.parametrize("path", ["/v1beta/models", "/v1beta/models/x:countTokens", "/v1/messages"])
def test_other_paths_do_not_belong_to_this_format(path):
    assert not gemini.is_path(path)


@given(replies(), st.integers(1, 40))
def test_the_client_reads_the_same_reply_from_a_body_and_from_a_stream(read_back, reply, piece):
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=piece), piece) == reply


def test_a_reply_to_a_blocked_prompt_has_no_candidates_in_a_body_and_in_a_stream(read_back):
    reply = ChatResponse(Message.assistant(""), "refusal", block_reason="SAFETY", usage=Usage(3))
    assert encode_reply(reply) == {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
    }
    assert wire.decode(encode_reply(reply)) == reply
    assert read_back(wire, encode_stream(reply), 8) == reply


def test_each_event_has_one_part_and_the_last_event_has_the_usage_and_the_finish_reason():
    call = ToolCall("1", "f", '{"a": 1}', own(thoughtSignature="s"))
    message = Message.assistant((ThinkingPart("hm"), TextPart("Hello.")), [call])
    reply = ChatResponse(message, usage=Usage(3, 8, 1, 2), model="m", request_id="r")
    chunks = [json.loads(event.removeprefix("data: ")) for event in encode_stream(reply, piece=5)]
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [
        [{"text": "hm", "thought": True}],
        [{"text": "Hello"}],
        [{"text": "."}],
        [{"functionCall": {"name": "f", "args": {"a": 1}, "id": "1"}, "thoughtSignature": "s"}],
    ]
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 3,
        "candidatesTokenCount": 8,
        "cachedContentTokenCount": 1,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 13,
    }
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert {chunk["modelVersion"] + chunk["responseId"] for chunk in chunks} == {"mr"}


def test_a_signed_text_is_not_split():
    reply = ChatResponse(Message.assistant((TextPart("Hello.", (), own(thoughtSignature="s")),)))
    (event,) = encode_stream(reply, piece=2)
    parts = json.loads(event.removeprefix("data: "))["candidates"][0]["content"]["parts"]
    assert parts == [{"text": "Hello.", "thoughtSignature": "s"}]


@pytest.mark.parametrize(
    "arguments", ['{"a": 1', '{"a": NaN}', "[1]", '"x"', "nonsense", "[" * 100_000]
)
def test_arguments_that_are_not_an_object_arrive_as_text(read_back, arguments):
    message = Message.assistant("", [ToolCall("call_0", "f", arguments)])
    reply = ChatResponse(message, "tool_calls", "STOP")
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=1000), 1000) == reply


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatResponse(Message.assistant("a")), "STOP"),
        (ChatResponse(Message.assistant("", [ToolCall("1", "f")])), "STOP"),
        (ChatResponse(Message.assistant("a"), finish_reason="length"), "MAX_TOKENS"),
        (ChatResponse(Message.assistant("a"), finish_reason="refusal"), "SAFETY"),
        (ChatResponse(Message.assistant("a"), finish_reason="error"), "MALFORMED_FUNCTION_CALL"),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="SOMETHING_NEW"), "SOMETHING_NEW"),
    ],
)
def test_the_finish_reason_is_translated_to_geminis_finish_reason(reply, reason):
    assert encode_reply(reply)["candidates"][0]["finishReason"] == reason


def test_unsupported_parts_are_omitted_and_json_parts_become_text():
    parts = (
        ImagePart("QQ=="),
        ImagePart(url="gs://x"),
        ProviderPart("anthropic", {}),
        JsonPart({"a": 1}),
    )
    reply = ChatResponse(Message.assistant(parts))
    assert encode_reply(reply)["candidates"][0]["content"]["parts"] == [
        {"text": '{"a": 1}'},
    ]


def test_an_error_has_googles_shape():
    error = {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}
    assert encode_error(400, "No.") == {"error": error}
    assert encode_error(503, "No.") == {"error": error | {"code": 503, "status": "UNAVAILABLE"}}
    assert encode_error(529, "No.") == {"error": error | {"code": 529, "status": "INTERNAL"}}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
def test_the_client_raises_the_error_that_the_server_encoded(status):
    read = error_for_body(status, encode_error(status, "No."))
    expected = error_for_status(status, "No.")
    assert (type(read), str(read), read.retryable) == (
        type(expected),
        str(expected),
        expected.retryable,
    )
