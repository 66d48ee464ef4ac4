import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from stage0_gateway.errors import error_for_status
from stage0_gateway.messages import Message
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
from stage0_gateway.server import openai_responses
from stage0_gateway.server.openai_responses import encode_error, encode_reply, encode_stream
from stage0_gateway.wire import openai_responses as wire
from stage0_gateway.wire.error_body import error_for_body

PATH = "/v1/responses"
CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
EVENT = TypeAdapter(ResponseStreamEvent)


def own(**fields):
    return {"openai-responses": fields}


# ---- replies that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True)
COUNT = st.integers(0, 10**6)
REASONS = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "pause_turn": "pause",
    "error": "error",
}
NOTE = st.fixed_dictionaries(
    {"type": st.just("url_citation"), "url": NOT_BLANK, "title": NOT_BLANK},
    optional={"start_index": COUNT},
)


def cited(note):
    return Citation(note["url"], note["title"], None, own(**note))


def reasoning(id, summaries, encrypted):
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    data = {"id": id, "summary": parts, "encrypted_content": encrypted}
    return ThinkingPart("\n\n".join(summaries), own(**data))


THINKING = st.builds(reasoning, NOT_BLANK, st.lists(NOT_BLANK, max_size=3), NOT_BLANK)
ANSWER = st.builds(
    TextPart,
    NOT_BLANK,
    st.lists(NOTE, max_size=2, unique_by=str).map(lambda notes: tuple(map(cited, notes))),
    st.none() | st.just(own(phase="commentary")),
)
OTHER = st.builds(
    ProviderPart,
    st.just("openai-responses"),
    st.fixed_dictionaries({"type": st.just("web_search_call"), "id": NOT_BLANK, "action": TEXT}),
)


@st.composite
def replies(draw):
    """Generate replies: items in any order, and a finish reason."""
    parts = draw(st.lists(THINKING | ANSWER | OTHER, max_size=4))
    places = sorted(draw(st.lists(st.integers(0, len(parts)), max_size=3)))
    calls = []
    for number, at in enumerate(places):
        place = {} if at == len(parts) else own(at=at)
        named = draw(st.none() | st.just(own(namespace="crm")))
        data = {"openai-responses": (named or own())["openai-responses"] | place.get("openai-responses", {})}  # fmt: skip
        calls.append(
            ToolCall(
                f"call-{number}",
                draw(NAME),
                draw(NOT_BLANK),
                data if data["openai-responses"] else None,
            )
        )
    raw, reason = draw(st.sampled_from([*REASONS.items()]))
    refusal = draw(st.none() | NOT_BLANK)
    if refusal:
        raw, reason = "completed", "refusal"
    elif calls and reason == "stop":
        reason = "tool_calls"
    if len(parts) == 1 and type(parts[0]) is TextPart and parts[0] == TextPart(parts[0].text):
        parts = parts[0].text
    counts = st.builds(Usage, COUNT, COUNT, *[st.none() | COUNT] * 3)
    return ChatResponse(
        Message.assistant(parts if isinstance(parts, str) else tuple(parts) or "", calls),
        finish_reason=reason,
        raw_finish_reason=raw,
        usage=draw(st.none() | counts),
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
        ("/openai/v1/responses/?api-version=1", True),
        ("/v1/responses/resp_1", False),
        ("/v1/chat/completions", False),
    ],
)
def test_the_path_ends_with_responses(path, is_one):
    assert openai_responses.is_path(path) is is_one


@given(replies(), st.integers(1, 40))
def test_the_client_reads_the_same_reply_from_a_body_and_from_a_stream(read_back, reply, piece):
    assert wire.decode(json.loads(json.dumps(encode_reply(reply)))) == reply
    assert read_back(wire, encode_stream(reply, piece=piece), piece) == reply


@given(replies(), st.integers(1, 40))
def test_the_events_before_the_last_one_contain_the_whole_reply(read_back, reply, piece):
    *events, last = encode_stream(reply, piece=piece)
    name, _, data = last.partition("\ndata: ")
    last = json.loads(data)
    last["response"]["output"] = []
    events.append(f"{name}\ndata: {json.dumps(last)}\n\n")
    assert read_back(wire, events, 40) == reply


def test_a_whole_reply_with_text_is_a_response():
    reply = ChatResponse(
        Message.assistant("Hello."), usage=Usage(3, 4, 1, 2, 0), model="m", request_id="r-1"
    )
    content = {"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}
    assert encode_reply(reply) == {
        "id": "r-1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "type": "message",
                "id": "item_0",
                "role": "assistant",
                "status": "completed",
                "content": [content],
            }
        ],
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 7,
        },
    }


def test_a_stream_starts_each_item_sends_its_pieces_and_repeats_it():
    message = Message.assistant((ThinkingPart("hm"), TextPart("Hello.")), [CALL])
    events = [
        json.loads(event.partition("data: ")[2])
        for event in encode_stream(ChatResponse(message, refusal="No."), piece=9)
    ]
    assert [(event["type"], event.get("output_index")) for event in events] == [
        ("response.created", None),
        ("response.in_progress", None),
        ("response.output_item.added", 0),
        ("response.reasoning_summary_part.added", 0),
        ("response.reasoning_summary_text.delta", 0),
        ("response.reasoning_summary_text.done", 0),
        ("response.reasoning_summary_part.done", 0),
        ("response.output_item.done", 0),
        ("response.output_item.added", 1),
        ("response.content_part.added", 1),
        ("response.output_text.delta", 1),
        ("response.output_text.done", 1),
        ("response.content_part.done", 1),
        ("response.output_item.done", 1),
        ("response.output_item.added", 2),
        ("response.function_call_arguments.delta", 2),
        ("response.function_call_arguments.delta", 2),
        ("response.function_call_arguments.done", 2),
        ("response.output_item.done", 2),
        ("response.output_item.added", 3),
        ("response.content_part.added", 3),
        ("response.refusal.delta", 3),
        ("response.refusal.done", 3),
        ("response.content_part.done", 3),
        ("response.output_item.done", 3),
        ("response.completed", None),
    ]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert events[-1]["response"] == encode_reply(ChatResponse(message, refusal="No."))


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (ChatResponse(Message.assistant("a")), "completed", None),
        (ChatResponse(Message.assistant("", [CALL])), "completed", None),
        (
            ChatResponse(Message.assistant("", [CALL]), finish_reason="length"),
            "incomplete",
            "max_output_tokens",
        ),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal"),
            "incomplete",
            "content_filter",
        ),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal", refusal="No."),
            "completed",
            None,
        ),
        (
            ChatResponse(
                Message.assistant(
                    (
                        ThinkingPart("hm"),
                        ProviderPart(
                            "openai-responses",
                            {
                                "type": "web_search_call",
                                "id": "w",
                                "status": "completed",
                                "action": {"type": "search", "query": "x", "queries": ["x"]},
                            },
                        ),
                        TextPart("a", (Citation("http://x", "X"),)),
                    ),
                    [CALL],
                ),
                usage=Usage(1, 2),
                model="m",
            ),
            "completed",
            None,
        ),
    ],
)
def test_bodies_and_streams_validate_as_types_of_the_official_client(reply, status, reason):
    response = Response.model_validate(encode_reply(reply), strict=True)
    details = response.incomplete_details
    assert (response.status, details and details.reason) == (status, reason)
    events = [
        EVENT.validate_json(event.partition("data: ")[2], strict=True)
        for event in encode_stream(reply)
    ]
    assert (events[-1].type, events[-1].response) == (f"response.{status}", response)


def test_unknown_counts_are_zeros_for_other_clients_and_unknown_for_ours():
    reply = ChatResponse(Message.assistant("a"), usage=Usage(1, 2))
    usage = Response.model_validate(encode_reply(reply)).usage
    assert (usage.input_tokens_details.cached_tokens, usage.total_tokens) == (0, 3)
    assert wire.decode(encode_reply(reply)).usage == Usage(1, 2)


def test_files_and_parts_of_other_providers_are_omitted_and_json_is_text():
    parts = (ImagePart("QQ=="), ProviderPart("gemini", {"executableCode": {}}), JsonPart({"a": 1}))
    (item,) = encode_reply(ChatResponse(Message.assistant(parts)))["output"]
    assert item["content"][0]["text"] == '{"a": 1}'


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_is_read_by_the_client_with_its_text(status):
    error = error_for_body(status, encode_error(status, "No."))
    expected = error_for_status(status, "No.")
    assert (type(error), str(error)) == (type(expected), str(expected))
