"""Undocumented output of real servers is decoded without losing or merging data."""

import pytest

from stage0_gateway import Message, ProviderPart, TextPart, ThinkingPart, ToolCall, Usage
from stage0_gateway.errors import (
    GatewayError,
    InvalidRequest,
    RateLimited,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.wire import anthropic, gemini, openai
from tests.stage0_gateway.replies import (
    END_MARK,
    block,
    candidate,
    chunk,
    read_events,
    read_stream,
    split,
)
from tests.tables import for_each

STOP = chunk("stop")
A = ToolCall("a", "f", '{"x": 1}')
CALLED = {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}

# ---- OpenAI and compatible servers (the assignment of call deltas: test_call_deltas)
# -----------

USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
TEXT = chunk(content="hi")


@for_each(
    "events",
    [
        # after
        [TEXT, STOP, USAGE],
        # empty first chunk
        [{"choices": [], "prompt_filter_results": []}, TEXT, STOP, USAGE],
        # with the reason
        [TEXT, {**STOP, "usage": USAGE["usage"]}],
        # null before
        [{**TEXT, "usage": None}, {**STOP, "usage": None}, USAGE],
        # repeated
        [{**TEXT, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, STOP, USAGE],
        # x_groq
        [TEXT, {**STOP, "x_groq": {"usage": USAGE["usage"]}}],
        # x_groq without
        [TEXT, {**STOP, "x_groq": {"id": "r"}}, USAGE],
        # all empty
        [{**TEXT, "x_groq": None}, USAGE, {**STOP, "usage": {}}],
    ],
)
def test_usage_is_read_from_any_chunk_and_the_last_value_is_used(events):
    assert read_events(openai, *events).usage == Usage(3, 4)


def test_usage_that_a_server_does_not_report_is_unknown():
    assert read_events(openai, TEXT, STOP).usage is None


def test_content_in_or_after_the_chunk_with_the_finish_reason_is_part_of_the_reply():
    response = read_events(
        openai, chunk("tool_calls", content="h"), chunk(content="i", tool_calls=[CALLED]), END_MARK
    )
    assert response.message == Message.assistant("hi", [A])


def test_a_call_before_the_text_is_decoded_as_in_a_whole_message():
    message = read_events(
        openai, chunk(tool_calls=[CALLED]), TEXT, chunk(reasoning="hm"), STOP
    ).message
    whole = {"reasoning": "hm", "content": "hi", "tool_calls": [CALLED]}
    assert message == openai.decode({"choices": [{"message": whole}]}).message
    assert message.tool_calls[0].provider_data is None


def test_a_repeated_finish_reason_or_a_following_empty_one_is_accepted():
    assert read_events(openai, TEXT, STOP, STOP, chunk("")).raw_finish_reason == "stop"


@for_each("delta", [{"content": None}, {}, {"content": ""}, {"tool_calls": None}, None])
def test_an_empty_delta_is_ignored(delta):
    empty = {"choices": [{"index": 0, "delta": delta}]}
    assert read_events(openai, empty, TEXT, empty, STOP).message == Message.assistant("hi")


@for_each(
    "thought",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_thinking_is_read_from_each_of_its_fields(thought):
    response = read_events(openai, chunk(**thought), chunk(**thought), TEXT, STOP)
    assert (response.thinking, response.content) == ("hmhm", "hi")


def test_an_annotation_without_an_index_is_a_citation():
    note = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
    (part,) = read_events(openai, TEXT, chunk(annotations=[note]), STOP).message.content
    assert (part.text, [(each.url, each.title) for each in part.citations]) == ("hi", [("u", "t")])


@for_each(
    "events, complete",
    [
        # neither
        ([TEXT], False),
        # a reason, no end marker
        ([TEXT, STOP], True),
        # an end marker, no reason
        ([TEXT, END_MARK], True),
        # nothing
        ([], False),
        # usage alone
        ([USAGE], False),
    ],
)
def test_a_stream_without_a_finish_reason_and_an_end_marker_is_interrupted(events, complete):
    if complete:
        assert read_events(openai, *events).content == "hi"
    else:
        with pytest.raises(StreamInterrupted, match="before the reply was complete"):
            read_events(openai, *events)


@for_each(
    "wire, event, kind",
    [
        (openai, {"error": {"message": "boo"}}, StreamInterrupted),
        (openai, {"error": {"message": "boo", "code": 400}, "choices": []}, InvalidRequest),
        (openai, {"error": {"message": "boo", "code": "tool_use_failed"}}, StreamInterrupted),
        (openai, {"error": {"message": "boo", "type": "rate_limit_error"}}, RateLimited),
        (
            anthropic,
            {"type": "error", "error": {"type": "overloaded_error", "message": "boo"}},
            ServerFailed,
        ),
        (gemini, {"error": {"code": 503, "message": "boo", "status": "UNAVAILABLE"}}, ServerFailed),
    ],
)
def test_an_error_in_a_stream_is_raised_with_the_servers_message(wire, event, kind):
    with pytest.raises(GatewayError, match="boo") as caught:
        read_events(wire, event)
    assert (type(caught.value), caught.value.retryable) == (kind, kind.retries)


# ---- the bytes

HI = '{"choices": [{"delta": {"content": "ü"}}]}'
FRAMINGS = {
    "as documented": f"data: {HI}\n\ndata: [DONE]\n\n",
    "CRLF": f"data: {HI}\r\n\r\ndata: [DONE]\r\n\r\n",
    "lone CR": f"data: {HI}\r\rdata: [DONE]\r\r",
    "comments": f": OPENROUTER PROCESSING\n\n: \n\ndata: {HI}\n\n: bye\n\ndata: [DONE]\n\n",
    "no space, other fields": f"event: x\nid: 1\ndata:{HI}\nretry: 5\n\ndata:[DONE]\n\n",
    "several data lines": f"data: {HI[:12]}\ndata: {HI[12:]}\n\ndata: [DONE]\n\n",
    "no empty line at the end": f"data: {HI}\n\ndata: [DONE]",
    "a byte order mark": f"\ufeffdata: {HI}\n\ndata: [DONE]\n\n",
}


@for_each("size", [1, 2, 7, 1000])
@for_each("body", FRAMINGS.values())
def test_every_framing_in_chunks_of_any_size_gives_the_same_reply(body, size):
    assert read_stream(openai, split(body.encode(), size)).content == "ü"


# ---- Anthropic

START = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 8}}}
END = {"type": "message_stop"}


def ended(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def json_delta(text):
    return {"type": "input_json_delta", "partial_json": text}


TOOL_USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def test_token_counts_replace_earlier_ones_and_are_not_added():
    usage = read_events(
        anthropic,
        START,
        ended("end_turn", output_tokens=5, input_tokens=7, cache_read_input_tokens=2),
        ended(None, output_tokens=6, cache_read_input_tokens=None),
        END,
    ).usage
    assert usage == Usage(input_tokens=7, output_tokens=6, cached_input_tokens=2)


@for_each("pieces", [[], [""], ["", '{"x"', "", ": 1}"], ['{"x": 1}']])
def test_deltas_of_a_tools_input_may_be_empty_or_missing(pieces):
    events = block(0, TOOL_USE, *map(json_delta, pieces))
    expected = ToolCall("a", "f", "".join(pieces) or "{}")
    assert read_events(anthropic, START, *events, ended("tool_use"), END).tool_calls == (expected,)


def test_input_that_is_truncated_at_max_tokens_is_not_completed():
    response = read_events(
        anthropic, START, *block(0, TOOL_USE, json_delta('{"x": ')), ended("max_tokens"), END
    )
    assert (response.tool_calls[0].arguments, response.finish_reason) == ('{"x": ', "length")


def test_a_server_side_tool_with_truncated_input_does_not_affect_the_reply():
    own = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    text = block(0, {"type": "text", "text": "hi"})
    events = [*text, *block(1, own, json_delta('{"query": "x'))]
    response = read_events(anthropic, START, *events, ended("max_tokens"), END)
    assert response.message.content == (TextPart("hi"), ProviderPart("anthropic", own))


def test_thinking_with_only_a_signature_keeps_the_signature():
    events = block(
        0, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "s"}
    )
    message = read_events(anthropic, START, *events, ended("end_turn"), END).message
    assert message.content == (ThinkingPart("", {"anthropic": {"signature": "s"}}),)


def test_pings_and_unknown_event_types_are_ignored():
    unknown = [{"type": "ping"}, {"type": "news", "index": 7}]
    text = block(
        0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}, {"type": "odd_delta"}
    )
    response = read_events(anthropic, *unknown, START, *text, *unknown, ended("end_turn"), END)
    assert response.message == Message.assistant("hi")


# ---- Gemini


def test_parallel_calls_in_several_chunks_stay_separate_without_ids_and_arguments():
    call = {"functionCall": {"name": "f"}}
    signed = {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"}
    calls = read_events(
        gemini, candidate(signed), candidate(call, call), candidate(finishReason="STOP")
    ).tool_calls
    assert calls == (
        ToolCall("call_0", "f", '{"x": 1}', {"gemini": {"thoughtSignature": "s"}}),
        ToolCall("call_1", "f"),
        ToolCall("call_2", "f"),
    )


def test_a_signed_text_stays_a_part_of_its_own_even_if_it_is_empty():
    texts = [{"text": "h"}, {"text": "i"}, {"text": "", "thoughtSignature": "s"}, {"text": "!"}]
    message = read_events(gemini, *map(candidate, texts), candidate(finishReason="STOP")).message
    signed = TextPart("", provider_data={"gemini": {"thoughtSignature": "s"}})
    assert message.content == (TextPart("hi"), signed, TextPart("!"))


def test_candidates_without_parts_and_chunks_without_candidates_are_ignored():
    empty = [
        {"candidates": [{}]},
        {"candidates": [{"content": {"role": "model"}}]},
        {"candidates": []},
        {},
    ]
    assert (
        read_events(gemini, *empty, candidate({"text": "hi"}, finishReason="STOP"), *empty).content
        == "hi"
    )
    with pytest.raises(StreamInterrupted):
        read_events(gemini, *empty, candidate({"text": "hi"}))


def test_repeated_token_counts_replace_each_other():
    usages = [{"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": n}} for n in (1, 2)]
    assert read_events(gemini, *usages, candidate(finishReason="STOP")).usage == Usage(3, 2)
