"""Finish reasons of many servers, and their effect on calls whose arguments are missing."""

import json

import httpx
import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ToolCall
from tests.tables import for_each

MODELS = ("openai:m", "anthropic:m", "gemini:m", "openai-responses:m")
EACH = pytest.mark.parametrize("model", MODELS)
BOTH = pytest.mark.parametrize("ask", ["chat", "stream"])
REASONS = {
    "stop": [
        "stop",
        "STOP",
        "eos",
        "eos_token",
        "end_turn",
        "stop_sequence",
        "COMPLETE",
        "FINISH_REASON_STOP",
    ],
    "tool_calls": ["tool_calls", "tool_use", "function_call", "TOOL_CALL", "tool-calls"],
    "length": [
        *(
            "length",
            "max_tokens",
            "MAX_TOKENS",
            "maxTokens",
            "max_output_tokens",
            "model_length",
            "incomplete",
        ),
        *(
            "model_context_window_exceeded",
            "context_length_exceeded",
            "token_limit",
            "ERROR_LIMIT",
            "limit",
        ),
    ],
    "refusal": [
        *(
            "content_filter",
            "content-filter",
            "CONTENT_FILTERED",
            "sensitive",
            "refusal",
            "SAFETY",
            "RECITATION",
        ),
        *("guardrail_intervened", "ERROR_TOXIC", "IMAGE_SAFETY"),
    ],
    "pause": ["pause_turn", "compaction"],
    "error": [
        *(
            "error",
            "ERROR",
            "abort",
            "cancelled",
            "network_error",
            "insufficient_system_resource",
            "timeout",
        ),
        *("MALFORMED_FUNCTION_CALL", "malformed_tool_use", "TOO_MANY_TOOL_CALLS"),
    ],
    "unknown": ["OTHER", "a reason of next year"],
}
ALL = pytest.mark.parametrize(
    ("raw", "expected"), [(raw, expected) for expected, raws in REASONS.items() for raw in raws]
)


def whole(model, reason, *, called, arguments=None):
    """Return a whole reply; a call in it may lack its arguments."""
    match model:
        case "openai:m":
            call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
            message = {"content": "hi", "tool_calls": [call] * called}
            return {"choices": [{"message": message, "finish_reason": reason}]}
        case "anthropic:m":
            call = {"type": "tool_use", "id": "c", "name": "f", "input": arguments or {}}
            return {
                "content": [{"type": "text", "text": "hi"}, *[call] * called],
                "stop_reason": reason,
            }
        case "openai-responses:m":
            call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
            text = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
            return {"output": [text, *[call] * called], "incomplete_details": {"reason": reason}}
    call = {"functionCall": {"id": "c", "name": "f", **({"args": arguments} if arguments else {})}}
    parts = [{"text": "hi"}, *[call] * called]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}


def streamed(model, reason, *, called, arguments=None):
    """Return the same reply as a stream, with an end marker if the format has one."""
    body = whole(model, reason, called=called, arguments=arguments)
    match model:
        case "openai:m":
            (choice,) = body["choices"]
            deltas = [
                {"content": "hi"},
                *({"tool_calls": [each]} for each in choice["message"]["tool_calls"]),
            ]
            events = [{"choices": [{"delta": delta}]} for delta in deltas]
            events += [{"choices": [{"delta": {}, "finish_reason": reason}]}, "[DONE]"]
        case "anthropic:m":
            events = [{"type": "message_start", "message": {}}]
            for index, block in enumerate(body["content"]):
                events += [{"type": "content_block_start", "index": index, "content_block": block}]
                events += [{"type": "content_block_stop", "index": index}]
            events += [
                {"type": "message_delta", "delta": {"stop_reason": reason}},
                {"type": "message_stop"},
            ]
        case "openai-responses:m":
            events = [
                {"type": "response.output_item.done", "output_index": index, "item": item}
                for index, item in enumerate(body["output"])
            ]
            events += [{"type": "response.incomplete", "response": {**body, "output": []}}]
        case _:
            events = [body]
    lines = (each if isinstance(each, str) else json.dumps(each) for each in events)
    return "".join(f"data: {line}\n\n" for line in lines)


async def reply(model, ask, reason, **reply):
    if ask == "chat":
        answer = httpx.Response(200, json=whole(model, reason, **reply))
    else:
        answer = httpx.Response(200, text=streamed(model, reason, **reply))
    gateway = Gateway(model, api_key="sk-1", transport=httpx.MockTransport(lambda request: answer))
    messages = [Message.user("hi")]
    return await (
        gateway.chat(messages) if ask == "chat" else gateway.stream(messages).final_message()
    )


@EACH
@ALL
async def test_finish_reasons_of_all_servers_are_known_in_each_format(model, raw, expected):
    response = await reply(model, "chat", raw, called=False)
    assert (response.finish_reason, response.raw_finish_reason, response.content) == (
        expected,
        raw,
        "hi",
    )


@EACH
@ALL
@BOTH
async def test_missing_arguments_become_an_empty_object_only_in_a_complete_reply(
    model, ask, raw, expected
):
    response = await reply(model, ask, raw, called=True)
    complete = expected in ("stop", "tool_calls", "pause")
    assert [call.arguments for call in response.tool_calls] == ["{}" if complete else ""]
    assert response.finish_reason == ("tool_calls" if expected in ("stop", "unknown") else expected)


@EACH
@BOTH
@for_each("raw", ["a reason of next year", "stop"])
async def test_arguments_that_were_sent_are_kept_with_any_finish_reason(model, ask, raw):
    arguments = '{"x": 1}' if model.startswith("openai") else {"x": 1}
    response = await reply(model, ask, raw, called=True, arguments=arguments)
    assert response.tool_calls[0].arguments == '{"x": 1}'


@pytest.mark.parametrize("raw", [None, ""])
@pytest.mark.parametrize(("ask", "arguments"), [("chat", "{}"), ("stream", "")])
async def test_without_a_finish_reason_a_body_is_complete_and_a_stream_may_be_truncated(
    raw, ask, arguments
):
    response = await reply("openai:m", ask, raw, called=True)
    assert response.tool_calls == (ToolCall("c", "f", arguments),)
    assert (response.finish_reason, response.raw_finish_reason) == ("tool_calls", None)


async def test_a_call_without_arguments_is_reported_at_the_end_of_the_reply():
    answer = httpx.Response(200, text=streamed("anthropic:m", "max_tokens", called=True))
    gateway = Gateway(
        "anthropic:m", api_key="sk-1", transport=httpx.MockTransport(lambda request: answer)
    )
    events = [event async for event in gateway.stream([Message.user("hi")])]
    names = [event.name for event in events if event.name != "stream_event"]
    assert names[-5:] == ["tool_call", "content_block_stop", "message", "final_message", "end"]
    (reported,) = (event.tool_call for event in events if event.name == "tool_call")
    assert reported == events[-2].response.tool_calls[0] == ToolCall("c", "f", "")


def test_a_stored_call_without_arguments_is_loaded_unchanged():
    message = Message.assistant("", [ToolCall("c", "f", "")])
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message


@pytest.mark.parametrize(
    ("raw", "calls", "reason"),
    [
        ("MAX_TOKENS", 0, "length"),
        ("end_turn", 0, "stop"),
        ("Tool_Use", 1, "tool_calls"),
        ("odd", 0, "unknown"),
        (None, 1, "tool_calls"),
    ],
)
def test_a_chat_function_may_return_the_finish_reason_of_its_server(raw, calls, reason):
    message = Message.assistant("hi", [ToolCall("a", "f")] * calls)
    response = ChatResponse(message, raw)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, raw)
    kept = ChatResponse(message, reason, "kept")
    assert (kept.finish_reason, kept.raw_finish_reason) == (reason, "kept")
