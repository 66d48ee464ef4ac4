"""Finish reasons of many servers, and their effect on calls whose arguments are missing."""

import json

from stage0_gateway import ChatResponse, Gateway, Message, ToolCall
from stage0_gateway.wire import anthropic, openai
from tests.stage0_gateway.replies import (
    END_MARK,
    WIRES,
    block,
    chunk,
    completion,
    event,
    item_event,
    read_events,
)
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each

REASONS = {
    "stop": "stop STOP eos eos_token end_turn stop_sequence COMPLETE FINISH_REASON_STOP",
    "tool_calls": "tool_calls tool_use function_call TOOL_CALL tool-calls",
    "length": """
        length max_tokens MAX_TOKENS maxTokens max_output_tokens model_length incomplete
        model_context_window_exceeded context_length_exceeded token_limit ERROR_LIMIT limit""",
    "refusal": """
        content_filter content-filter CONTENT_FILTERED sensitive refusal SAFETY RECITATION
        guardrail_intervened ERROR_TOXIC IMAGE_SAFETY""",
    "pause": "pause_turn compaction",
    "error": """
        error ERROR abort cancelled network_error insufficient_system_resource timeout
        MALFORMED_FUNCTION_CALL malformed_tool_use TOO_MANY_TOOL_CALLS""",
    "unknown": "OTHER a-reason-of-next-year",
}
each_wire = for_each("wire", WIRES)
each_reason = for_each(
    "raw, expected", [(raw, expected) for expected, raws in REASONS.items() for raw in raws.split()]
)


def whole(wire, reason, *, called, arguments=None):
    """Return a whole reply; a call in it may lack its arguments."""
    match wire.NAME:
        case "openai":
            call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
            return completion("hi", reason, tool_calls=[call] * called)
        case "anthropic":
            call = {"type": "tool_use", "id": "c", "name": "f", "input": arguments or {}}
            text = {"type": "text", "text": "hi"}
            return {"content": [text, *[call] * called], "stop_reason": reason}
        case "openai-responses":
            call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
            text = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
            return {"output": [text, *[call] * called], "incomplete_details": {"reason": reason}}
    call = {"functionCall": {"id": "c", "name": "f", **({"args": arguments} if arguments else {})}}
    parts = [{"text": "hi"}, *[call] * called]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}


def streamed(wire, body):
    """Return the same reply as the events of a stream, with an end marker if the format has one."""
    match wire.NAME:
        case "openai":
            (choice,) = body["choices"]
            calls = choice["message"]["tool_calls"]
            deltas = [chunk(content="hi"), *(chunk(tool_calls=[each]) for each in calls)]
            return [*deltas, chunk(choice["finish_reason"]), END_MARK]
        case "anthropic":
            blocks = (block(index, start) for index, start in enumerate(body["content"]))
            return [
                {"type": "message_start", "message": {}},
                *(each for events in blocks for each in events),
                {"type": "message_delta", "delta": {"stop_reason": body["stop_reason"]}},
                {"type": "message_stop"},
            ]
        case "openai-responses":
            items = enumerate(body["output"])
            return [
                *(item_event("output_item.done", index, item=item) for index, item in items),
                {"type": "response.incomplete", "response": {**body, "output": []}},
            ]
    return [body]


def reply(wire, reason, *, stream, **options):
    """Return the reply that is decoded from a whole body or a stream."""
    body = whole(wire, reason, **options)
    return read_events(wire, *streamed(wire, body)) if stream else wire.decode(body)


@each_wire
@each_reason
def test_finish_reasons_of_all_servers_are_known_in_each_format(wire, raw, expected):
    response = reply(wire, raw, stream=False, called=False)
    assert (response.finish_reason, response.raw_finish_reason) == (expected, raw)
    assert response.content == "hi"


@each_wire
def test_a_reply_without_a_finish_reason_has_an_unknown_one(wire):
    response = reply(wire, None, stream=False, called=False)
    assert (response.finish_reason, response.raw_finish_reason) == ("unknown", None)


@each_wire
@each_reason
@for_each("stream", [False, True])
def test_missing_arguments_become_an_empty_object_only_in_a_complete_reply(
    wire, raw, expected, stream
):
    response = reply(wire, raw, stream=stream, called=True)
    is_complete = expected in ("stop", "tool_calls", "pause")
    assert [call.arguments for call in response.tool_calls] == ["{}" if is_complete else ""]
    assert response.finish_reason == ("tool_calls" if expected in ("stop", "unknown") else expected)


@each_wire
@for_each("stream", [False, True])
@for_each("raw", ["a-reason-of-next-year", "stop"])
def test_arguments_that_were_sent_are_kept_with_any_finish_reason(wire, stream, raw):
    arguments = '{"x": 1}' if wire.NAME.startswith("openai") else {"x": 1}
    response = reply(wire, raw, stream=stream, called=True, arguments=arguments)
    assert response.tool_calls[0].arguments == '{"x": 1}'


@for_each("raw", [None, ""])
@for_each("stream, arguments", [(False, "{}"), (True, "")])
def test_without_a_finish_reason_a_body_is_complete_and_a_stream_may_be_truncated(
    raw, stream, arguments
):
    response = reply(openai, raw, stream=stream, called=True)
    assert response.tool_calls == (ToolCall("c", "f", arguments),)
    assert (response.finish_reason, response.raw_finish_reason) == ("tool_calls", None)


async def test_a_call_without_arguments_is_reported_at_the_end_of_the_reply():
    body = whole(anthropic, "max_tokens", called=True)
    gateway = Gateway("anthropic:m", transport=Answers([*map(event, streamed(anthropic, body))]))
    events = [event async for event in gateway.stream(QUESTION)]
    names = [event.name for event in events if event.name != "stream_event"]
    assert names[-5:] == ["tool_call", "content_block_stop", "message", "final_message", "end"]
    (reported,) = (event.tool_call for event in events if event.name == "tool_call")
    assert reported == events[-2].response.tool_calls[0] == ToolCall("c", "f", "")


def test_a_stored_call_without_arguments_is_loaded_unchanged():
    message = Message.assistant("", [ToolCall("c", "f", "")])
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message


@for_each(
    "raw, calls, reason",
    [
        ("MAX_TOKENS", 0, "length"),
        ("end_turn", 0, "stop"),
        ("Tool_Use", 1, "tool_calls"),
        ("odd", 0, "unknown"),
        ("unexpected by all", 0, "unknown"),
        (None, 1, "tool_calls"),
    ],
)
def test_a_chat_function_may_return_the_finish_reason_of_its_server(raw, calls, reason):
    message = Message.assistant("hi", [ToolCall("a", "f")] * calls)
    response = ChatResponse(message, raw)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, raw)
    for given in (raw, reason):
        kept = ChatResponse(message, given, "kept")
        assert (kept.finish_reason, kept.raw_finish_reason) == (reason, "kept")
