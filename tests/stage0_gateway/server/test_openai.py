import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from stage0_gateway.errors import error_for_status
from stage0_gateway.messages import Message
from stage0_gateway.parts import Citation, JsonPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server import openai
from stage0_gateway.server.openai import encode_error, encode_reply, encode_stream
from stage0_gateway.wire import openai as wire
from stage0_gateway.wire.error_body import error_for_body

PATH = "/v1/chat/completions"
CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')


def own(**fields):
    return {"openai": fields}


# ---- replies that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30)
OBJECT = st.dictionaries(
    NOT_BLANK, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required", "any")
)
URL = NOT_BLANK.map("https://example.com/{}".format)
CALLS = st.lists(
    st.builds(
        ToolCall,
        NOT_BLANK,
        NAME,
        NOT_BLANK,
        st.none() | st.builds(lambda data: own(extra_content={"google": data}), OBJECT),
    ),
    max_size=3,
)


def cited(note):
    fields = note["url_citation"]
    return Citation(fields.get("url"), fields.get("title"), fields.get("content"), {"openai": note})


COUNT = st.integers(0, 10**6)
REASONS = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "error": "error",
    "function_call": "tool_calls",
}
NOTE = st.builds(
    lambda fields: {"type": "url_citation", "url_citation": fields},
    st.fixed_dictionaries(
        {"url": URL}, optional={"title": NOT_BLANK, "content": NOT_BLANK, "start_index": COUNT}
    ),
)


@st.composite
def replies(draw):
    """Generate replies: thinking, then text, then calls, and a finish reason."""
    parts = []
    if thought := draw(TEXT):
        field = draw(st.sampled_from(["reasoning", "reasoning_content"]))
        parts.append(ThinkingPart(thought, own(field=field)))
    notes = draw(st.lists(NOTE, max_size=2))
    if text := draw(TEXT):
        parts.append(TextPart(text, tuple(map(cited, notes))))
    calls = draw(CALLS)
    raw, reason = draw(st.sampled_from([*REASONS.items()]))
    refusal = draw(st.none() | NOT_BLANK)
    if calls and reason in ("stop", "unknown"):
        reason = "tool_calls"
    plain = len(parts) == 1 and parts[0] == TextPart(text)
    return ChatResponse(
        Message.assistant(text if plain else tuple(parts) or "", calls),
        finish_reason="refusal" if refusal else reason,
        raw_finish_reason=raw,
        usage=draw(
            st.none() | st.builds(Usage, COUNT, COUNT, st.none() | COUNT, st.none() | COUNT)
        ),
        model=draw(st.none() | NOT_BLANK),
        request_id=draw(NOT_BLANK),
        refusal=refusal,
    )


# ---- the tests
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (PATH, True),
        ("/openai/deployments/x/chat/completions?api-version=1", True),
        ("/v1/completions", False),
        ("/v1/messages", False),
    ],
)
def test_the_path_ends_with_chat_completions(path, is_one):
    assert openai.is_path(path) is is_one


@given(replies(), st.integers(1, 40))
def test_the_client_reads_the_same_reply_from_a_body_and_from_a_stream(read_back, reply, piece):
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=piece), piece) == reply


def test_a_whole_reply_with_text_is_a_chat_completion():
    reply = ChatResponse(
        Message.assistant("Hello."), usage=Usage(3, 4), model="m", request_id="r-1"
    )
    assert encode_reply(reply) == {
        "id": "r-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello.", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def test_a_stream_sends_the_role_the_deltas_the_finish_reason_the_usage_and_the_end_marker():
    message = Message.assistant((ThinkingPart("hm"), TextPart("Hello.")), [CALL])
    events = list(encode_stream(ChatResponse(message, usage=Usage(3, 4)), piece=9))
    assert events[-1] == "data: [DONE]\n\n"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    assert [choice["delta"] for chunk in chunks for choice in chunk["choices"]] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "hm"},
        {"content": "Hello."},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
        {},
    ]
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]] == [
        None
    ] * 6 + ["tool_calls"]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 7)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatResponse(Message.assistant("a")), "stop"),
        (ChatResponse(Message.assistant("", [CALL])), "tool_calls"),
        (ChatResponse(Message.assistant("", [CALL]), finish_reason="length"), "length"),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal", refusal="No."),
            "content_filter",
        ),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="function_call"), "function_call"),
        (
            ChatResponse(
                Message.assistant((ThinkingPart("hm"), TextPart("a"))), usage=Usage(1, 2, 3, 4)
            ),
            "stop",
        ),
    ],
)
def test_bodies_and_streams_validate_as_types_of_the_official_client(reply, reason):
    completion = ChatCompletion.model_validate(encode_reply(reply), strict=True)
    assert completion.choices[0].finish_reason == reason
    events = [event.removeprefix("data: ") for event in encode_stream(reply)]
    chunks = [ChatCompletionChunk.model_validate_json(event, strict=True) for event in events[:-1]]
    assert reason in [choice.finish_reason for chunk in chunks for choice in chunk.choices]


def test_thinking_and_citations_without_provider_data_use_the_default_field_names():
    parts = (
        ThinkingPart("hm"),
        TextPart("a", (Citation("http://x", "X", "x"),)),
        JsonPart({"b": 1}),
    )
    message = encode_reply(ChatResponse(Message.assistant(parts)))["choices"][0]["message"]
    note = {
        "type": "url_citation",
        "url_citation": {"url": "http://x", "title": "X", "content": "x"},
    }
    assert message["reasoning_content"] == "hm"
    assert (message["content"], message["annotations"]) == ('a{"b": 1}', [note])


def test_half_a_surrogate_pair_is_preserved_in_a_stream(read_back):
    reply = ChatResponse(Message.assistant("a\ud83db"), "stop", "stop", request_id="r")
    assert read_back(wire, encode_stream(reply), 3) == reply


def test_unknown_usage_is_omitted():
    assert "usage" not in encode_reply(ChatResponse(Message.assistant("a"), usage=Usage(3, None)))


def test_an_error_has_openais_shape():
    error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
    assert encode_error(400, "No.") == {"error": error}
    assert encode_error(500, "No.") == {"error": error | {"type": "server_error"}}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 503, 529])
def test_the_client_raises_the_error_that_the_server_encoded(status):
    read = error_for_body(status, encode_error(status, "No."))
    expected = error_for_status(status, "No.")
    assert (type(read), str(read), read.retryable) == (
        type(expected),
        str(expected),
        expected.retryable,
    )
