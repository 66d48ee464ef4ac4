import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.errors import error_for_status
from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    Citation,
    ImagePart,
    JsonPart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server import anthropic
from stage0_gateway.server.anthropic import encode_error, encode_reply, encode_stream
from stage0_gateway.wire import anthropic as wire
from stage0_gateway.wire.error_body import error_for_body

PATH = "/v1/messages"


def own(**fields):
    return {"anthropic": fields}


# ---- replies that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30).filter(str.strip)  # a blank text is rejected
COUNT = st.integers(0, 10**6)
OBJECT = st.dictionaries(
    NOT_BLANK, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required")
)
NOTE = st.fixed_dictionaries(
    {"type": st.just("char_location"), "cited_text": NOT_BLANK, "start_char_index": COUNT},
    optional={"document_title": NOT_BLANK, "url": NOT_BLANK},
)


def cited(note):
    return Citation(
        note.get("url"), note.get("document_title"), note["cited_text"], {"anthropic": note}
    )


CITATIONS = st.lists(NOTE.map(cited), max_size=2).map(tuple)
RUN_BY_THE_SERVER = st.builds(
    lambda call_id, given: {
        "type": "server_tool_use",
        "id": call_id,
        "name": "web_search",
        "input": given,
    },
    NOT_BLANK,
    OBJECT,
)
ITEM = st.one_of(
    st.builds(TextPart, NOT_BLANK, CITATIONS),
    st.builds(ThinkingPart, TEXT, NOT_BLANK.map(lambda text: own(signature=text))),
    st.builds(
        ProviderPart,
        st.just("anthropic"),
        RUN_BY_THE_SERVER | st.just({"type": "redacted_thinking", "data": "x"}),
    ),
    st.builds(
        ToolCall,
        NOT_BLANK,
        NAME,
        OBJECT.map(lambda given: json.dumps(given, ensure_ascii=False)),
        st.none() | st.just(own(caller={"type": "direct"})),
    ),
)


def message_of(items):
    """Return an assistant message: parts in any order, then the calls."""
    parts = [item for item in items if not isinstance(item, ToolCall)]
    return Message.assistant(
        as_content(parts), [item for item in items if isinstance(item, ToolCall)]
    )


@st.composite
def replies(draw):
    """Generate replies: blocks in any order, also unsigned thinking and empty texts."""
    block = ITEM | st.builds(ThinkingPart, TEXT) | st.builds(TextPart, TEXT)
    items = draw(st.lists(block, max_size=5))
    if [item for item in items if not isinstance(item, ToolCall)] == [TextPart("")]:
        items.remove(TextPart(""))
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
    message = message_of(items)
    if message.tool_calls and reason in ("stop", "unknown"):
        reason = "tool_calls"
    refusal = draw(st.none() | NOT_BLANK)
    usage = st.builds(Usage, *[st.none() | COUNT] * 5)
    return ChatResponse(
        message,
        finish_reason="refusal" if refusal else reason,
        raw_finish_reason=raw,
        usage=draw(st.none() | usage),
        model=draw(st.none() | NOT_BLANK),
        request_id=draw(NOT_BLANK),
        refusal=refusal,
    )


REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
    "something_new": "unknown",
}


# ---- the tests
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (PATH, True),
        ("/v1/messages?beta=true", True),
        ("/v1/messages/count_tokens", False),
        ("/v1/models", False),
    ],
)
def test_the_path_ends_with_messages(path, is_one):
    assert anthropic.is_path(path) is is_one


@given(replies(), st.integers(1, 40))
def test_the_client_reads_the_same_reply_from_a_body_and_from_a_stream(read_back, reply, piece):
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=piece), piece) == reply


def test_a_whole_reply_is_a_message():
    parts = (
        ThinkingPart("hm", own(signature="s")),
        TextPart("Hello.", (Citation("http://x", "X", "x"),)),
    )
    message = Message.assistant(parts, [ToolCall("1", "f", '{"a": 1}')])
    reply = ChatResponse(message, usage=Usage(3, 4, 5, 2, 6), model="m", request_id="r-1")
    note = {
        "type": "web_search_result_location",
        "url": "http://x",
        "title": "X",
        "cited_text": "x",
    }
    assert encode_reply(reply) == {
        "id": "r-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hello.", "citations": [note]},
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 6,
            "cache_read_input_tokens": 5,
            "output_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }


def test_a_stream_starts_fills_and_stops_each_block():
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}
    parts = (
        ThinkingPart("hm", own(signature="s")),
        TextPart("Hello."),
        ProviderPart("anthropic", search),
    )
    message = Message.assistant(parts, [ToolCall("1", "f", '{"a": 1}')])
    events = list(
        encode_stream(ChatResponse(message, usage=Usage(3, 4), model="m", request_id="r"), piece=5)
    )
    pairs = [
        event.removeprefix("event: ").removesuffix("\n\n").split("\ndata: ") for event in events
    ]
    data = [json.loads(text) for _, text in pairs]
    assert [name for name, _ in pairs] == [each["type"] for each in data]
    assert data[0] == {
        "type": "message_start",
        "message": {
            **{"id": "r", "type": "message", "role": "assistant", "model": "m", "content": []},
            **{
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 3, "output_tokens": 4},
            },
        },
    }
    assert [
        each.get("delta") or each.get("content_block") or each["type"] for each in data[1:]
    ] == [
        "ping",
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
        "content_block_stop",
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Hello"},
        {"type": "text_delta", "text": "."},
        "content_block_stop",
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"q":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
        "content_block_stop",
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
        "content_block_stop",
        {"stop_reason": "tool_use", "stop_sequence": None},
        "message_stop",
    ]
    assert data[-2]["usage"] == {"input_tokens": 3, "output_tokens": 4}


@pytest.mark.parametrize(
    "arguments", ['{"a": 1', '{"a": NaN}', "[1]", '"x"', "nonsense", "[" * 100_000]
)
def test_arguments_that_are_not_an_object_arrive_as_text(read_back, arguments):
    message = Message.assistant("", [ToolCall("1", "f", arguments)])
    reply = ChatResponse(message, "tool_calls", "tool_use", request_id="r")
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=1000), 1000) == reply


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatResponse(Message.assistant("a")), "end_turn"),
        (ChatResponse(Message.assistant("", [ToolCall("1", "f")])), "tool_use"),
        (
            ChatResponse(Message.assistant("", [ToolCall("1", "f")]), finish_reason="length"),
            "max_tokens",
        ),
        (ChatResponse(Message.assistant("a"), finish_reason="pause"), "pause_turn"),
        (ChatResponse(Message.assistant("a"), finish_reason="refusal"), "refusal"),
        (ChatResponse(Message.assistant("a"), refusal="No."), "refusal"),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="something_new"), "something_new"),
    ],
)
def test_the_finish_reason_is_translated_to_anthropics_stop_reason(reply, reason):
    assert encode_reply(reply)["stop_reason"] == reason


def test_unsupported_parts_are_omitted_and_json_parts_become_text():
    parts = (ImagePart("QQ=="), ProviderPart("gemini", {"executableCode": {}}), JsonPart({"a": 1}))
    reply = ChatResponse(Message.assistant(parts))
    assert encode_reply(reply)["content"] == [{"type": "text", "text": '{"a": 1}'}]


def test_an_error_has_anthropics_shape():
    error = {"type": "invalid_request_error", "message": "No."}
    assert encode_error(400, "No.") == {"type": "error", "error": error}
    assert encode_error(529, "No.") == {
        "type": "error",
        "error": error | {"type": "overloaded_error"},
    }
    assert encode_error(500, "No.") == {"type": "error", "error": error | {"type": "api_error"}}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
def test_the_client_raises_the_error_that_the_server_encoded(status):
    read = error_for_body(status, encode_error(status, "No."))
    expected = error_for_status(status, "No.")
    assert (type(read), str(read), read.retryable) == (
        type(expected),
        str(expected),
        expected.retryable,
    )
