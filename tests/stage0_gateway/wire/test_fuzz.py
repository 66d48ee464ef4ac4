"""Any input from a server gives a response or a `GatewayError`, independent of how it is split."""

import copy
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_gateway import ChatRequest, ChatResponse, GatewayError, Message
from stage0_gateway.wire.error_body import error_for_body
from tests.stage0_gateway.replies import (
    WIRES,
    block,
    candidate,
    chunk,
    events_of,
    item_event,
    read_events,
)

pytestmark = pytest.mark.long

many = settings(max_examples=150)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.NAME)


DETAIL = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}
CITED = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
NOTE = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
ITEMS = [
    {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "s",
    },
    {
        "type": "message",
        "id": "m",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "Grüße 🙂", "annotations": [NOTE]},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
    {"type": "function_call", "id": "f", "call_id": "a", "name": "f", "arguments": '{"a": 1}'},
]
COUNTED = {
    "input_tokens": 3,
    "output_tokens": 4,
    "input_tokens_details": {"cached_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 1},
}
QUOTED = {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "q"}
STREAMS = {
    "openai": [
        {"id": "r", "model": "m", **chunk(role="assistant", reasoning="hm")},
        chunk(reasoning_details=[DETAIL]),
        chunk(content="Grüße 你好 "),
        chunk(content=[{"type": "text", "text": "🙂"}], annotations=[CITED], refusal=None),
        chunk(
            tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a":'}}]
        ),
        chunk(
            tool_calls=[{"index": 0, "function": {"arguments": " 1}"}, "extra_content": {"g": 1}}]
        ),
        chunk("tool_calls", tool_calls=[{"id": "b", "function": {"name": "g", "arguments": "{}"}}]),
        {
            "choices": [],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {}},
        },
    ],
    "anthropic": [
        {
            "type": "message_start",
            "message": {"id": "r", "model": "m", "usage": {"input_tokens": 3}},
        },
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "s"},
        ),
        *block(
            1,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Grüße 🙂"},
            {"type": "citations_delta", "citation": QUOTED},
        ),
        *block(2, SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        *block(
            3,
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"a": 1}'},
        ),
        *block(4, {"type": "compaction"}, {"type": "compaction_delta", "content": "short"}),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ],
    "gemini": [
        {"responseId": "r", "modelVersion": "m", **candidate({"text": "hm", "thought": True})},
        candidate(
            {"text": "Grüße "}, groundingMetadata={"groundingChunks": [{"web": {"uri": "u"}}]}
        ),
        candidate({"text": "🙂", "thoughtSignature": "s"}, {"executableCode": {"code": "1"}}),
        candidate({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "t"}),
        candidate({"functionCall": {"name": "g", "id": "b"}}, finishReason="STOP"),
        {
            "usageMetadata": {
                "promptTokenCount": 3,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 1,
            }
        },
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        item_event("output_item.added", 0, item={**ITEMS[0], "summary": []}),
        item_event("reasoning_summary_text.delta", 0, summary_index=0, delta="hm"),
        item_event("output_item.done", 0, item=ITEMS[0]),
        item_event("output_item.added", 1, item={**ITEMS[1], "content": []}),
        item_event("output_text.delta", 1, content_index=0, delta="Grüße "),
        item_event("output_text.delta", 1, content_index=0, delta="🙂"),
        item_event("output_text.annotation.added", 1, content_index=0, annotation=NOTE),
        item_event("refusal.delta", 1, content_index=1, delta="no"),
        item_event("output_item.done", 1, item=ITEMS[1]),
        item_event("output_item.added", 2, item=ITEMS[2]),
        item_event("output_item.done", 2, item=ITEMS[2]),
        item_event("output_item.added", 3, item={**ITEMS[3], "arguments": ""}),
        item_event("function_call_arguments.delta", 3, delta='{"a": 1}'),
        item_event("output_item.done", 3, item=ITEMS[3]),
        {"type": "response.completed", "response": {"status": "completed", "usage": COUNTED}},
    ],
}
MESSAGE = {
    "reasoning_content": "hm",
    "content": "hi",
    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
    "annotations": [CITED],
}
BODIES = {
    "openai": {
        "choices": [{"message": MESSAGE, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1},
    },
    "anthropic": {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hi", "citations": [QUOTED]},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}},
    },
    "gemini": {
        **STREAMS["gemini"][3],
        "promptFeedback": {},
        "usageMetadata": {"promptTokenCount": 1},
    },
    "openai-responses": {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": ITEMS,
        "usage": COUNTED,
    },
}

texts = st.text(st.characters(exclude_categories=()), max_size=8)  # with halves of surrogate pairs
unusual = st.sampled_from(
    [None, "", [], {}, 0, True, [None], [[]], [{}], {"": None}, {"type": "text", "text": 5}]
)
json_values = st.recursive(
    unusual.map(copy.deepcopy) | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def containers(value):
    """Return every list and object of a JSON value, with each of its keys."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, dict | list):
            yield from containers(inner)


@st.composite
def mutated(draw, value):
    """Generate a value with up to three elements replaced, repeated, exchanged or removed."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        found = list(containers(value)) or [([None], 0)]
        inside, key = draw(st.sampled_from(found))
        match draw(
            st.sampled_from(["replace", "replace", "replace", "leave out", "take from elsewhere"])
        ):
            case "replace":
                inside[key] = draw(json_values)
            case "leave out":
                del inside[key]
            case _:
                other, where = draw(st.sampled_from(found))
                inside[key] = copy.deepcopy(other[where])
    return value


def assert_sound(response):
    """Check that the result is an error with a message, or a consistent response that can be stored."""
    if isinstance(response, GatewayError):
        assert str(response)
        return
    assert type(response) is ChatResponse
    assert [
        type(each) for call in response.tool_calls for each in (call.id, call.name, call.arguments)
    ] == [str] * (3 * len(response.tool_calls))
    named = (response.model, response.request_id, response.raw_finish_reason, response.refusal)
    assert {type(each) for each in named} <= {str, type(None)}
    assert {type(response.content), type(response.thinking)} == {str}
    assert Message.from_dict(json.loads(json.dumps(response.message.to_dict()))) is not None
    for wire in WIRES:
        json.dumps(wire.encode(ChatRequest("m", (response.message,))))


def answer_to(wire, events, *, whole=False):
    """Return the response to these events or this whole body, or the `GatewayError`."""
    try:
        return wire.decode(events) if whole else read_events(wire, *events)
    except GatewayError as error:
        return error


@each_wire
@given(json_values)
def test_any_json_is_a_response_or_a_gateway_error(wire, value):
    assert_sound(answer_to(wire, [value]))
    assert_sound(answer_to(wire, value, whole=True))


@many
@each_wire
@given(data=st.data())
def test_a_mutated_stream_is_a_response_or_a_gateway_error(wire, data):
    assert_sound(answer_to(wire, data.draw(mutated(STREAMS[wire.NAME]))))


@many
@each_wire
@given(data=st.data())
def test_a_mutated_whole_reply_is_a_response_or_a_gateway_error(wire, data):
    assert_sound(answer_to(wire, data.draw(mutated(BODIES[wire.NAME])), whole=True))


@given(st.integers(100, 599), json_values, st.none() | st.floats(0, 99))
def test_any_error_body_is_a_gateway_error(status, body, wait):
    error = error_for_body(status, body, wait)
    assert (isinstance(error, GatewayError), error.status) == (True, status)
    assert wait is None or error.retry_after == wait


def cut(body, places):
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


pieces = st.sampled_from(
    [
        b"data:",
        b"data: ",
        b"data",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"data: a\n\n",
        b":",
        b"x",
        "🙂".encode(),
    ]
)
near_sse = st.lists(pieces).map(b"".join)


@many
@given(st.binary(max_size=60) | near_sse, st.lists(st.integers(0, 999), max_size=9))
def test_bytes_give_the_same_events_however_they_are_split(body, places):
    by_event = re.split(rb"(?<=\n\n)|(?<=\r\r)", body)  # as servers split them
    assert events_of(cut(body, places)) == events_of(by_event) == events_of([body])


@each_wire
@given(
    places=st.lists(st.integers(0, 9999), max_size=40),
    end=st.sampled_from(["\n", "\r", "\r\n"]),
)
def test_a_stream_gives_the_same_response_however_its_bytes_are_split(wire, places, end):
    body = "".join(
        f"data: {json.dumps(event, ensure_ascii=False)}{end}{end}" for event in STREAMS[wire.NAME]
    ).encode()
    events = [json.loads(data) for data in events_of(cut(body, places))]
    assert events == STREAMS[wire.NAME]
    response = answer_to(wire, events)
    assert (type(response), response) == (ChatResponse, answer_to(wire, STREAMS[wire.NAME]))
