import json

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message
from stage0_gateway.parts import ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.request import ToolSpec
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.openai_responses import decode_request, encode_reply, encode_stream
from tests.stage0_gateway.server.formats import OPENAI_RESPONSES, read_back
from tests.stage0_gateway.server.strategies.openai_responses import REPLIES, own
from tests.tables import for_each

CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')


# ---- replies


@given(REPLIES, st.integers(1, 40))
def test_the_events_before_the_last_one_contain_the_whole_reply(reply, piece):
    *events, last = encode_stream(reply, piece=piece)
    name, _, data = last.partition("\ndata: ")
    last = json.loads(data)
    last["response"]["output"] = []
    events.append(f"{name}\ndata: {json.dumps(last)}\n\n")
    assert read_back(OPENAI_RESPONSES.wire, events) == reply


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


def test_unknown_counts_are_zeros_for_other_clients_and_unknown_for_ours():
    reply = ChatResponse(Message.assistant("a"), usage=Usage(1, 2))
    assert encode_reply(reply)["usage"] == {
        "input_tokens": 1,
        "input_tokens_details": {
            "cached_tokens": 0,
            "cache_write_tokens": 0,
            "not_counted": ["cached_tokens", "cache_write_tokens"],
        },
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0, "not_counted": ["reasoning_tokens"]},
        "total_tokens": 3,
    }
    assert OPENAI_RESPONSES.read_body(reply).usage == Usage(1, 2)


# ---- requests


@for_each(
    "body, messages",
    [
        ({"input": "hi"}, (Message.user("hi"),)),
        (
            {"input": "hi", "instructions": "be brief"},
            (Message.system("be brief"), Message.user("hi")),
        ),
        (
            {"input": [{"type": "message", "role": "developer", "content": "a"}]},
            (Message.system("a"),),
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
            (Message.user("a"),),
        ),
    ],
)
def test_short_forms_are_decoded(body, messages):
    assert decode_request(body).messages == messages


def test_items_copied_from_a_reply_are_one_message():
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "output_text", "text": "b", "annotations": []},
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "f",
            "arguments": "",
            "status": "completed",
        },
    ]
    result = {"type": "function_call_output", "call_id": "c1", "output": "22"}
    request = decode_request({"input": [{"role": "user", "content": "hi"}, *output, result]})
    reasoning = own(id="rs_1", summary=[], encrypted_content="x")
    assert request.messages == (
        Message.user("hi"),
        Message.assistant(
            (ThinkingPart("", reasoning), TextPart("a"), TextPart("b")), [ToolCall("c1", "f", "{}")]
        ),
        Message.tool("22", "c1"),
    )


def test_a_part_of_an_unknown_type_is_kept():
    part = {"type": "of_next_year"}
    request = decode_request({"input": [{"role": "user", "content": [part]}]})
    assert request.messages == (Message.user((ProviderPart("openai-responses", part),)),)


def test_a_function_may_have_no_parameters():
    tools = [{"type": "function", "name": "f", "parameters": None}]
    assert decode_request({"input": "hi", "tools": tools}).tools == (ToolSpec("f", ""),)
