"""Undocumented output of real servers is decoded without losing or merging data."""

import json

import pytest

from stage0_gateway import Message, ProviderPart, TextPart, ThinkingPart, ToolCall, Usage
from stage0_gateway.errors import (
    GatewayError,
    InvalidRequest,
    RateLimited,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.streaming.sse import SseReader
from stage0_gateway.wire import anthropic, gemini, openai
from tests.tables import for_each

DONE = "[DONE]"


def read(wire, *events):
    """Return the reply to these events; `[DONE]` is the end marker, as the bytes are parsed elsewhere."""
    reader = wire.reader()
    for event in events:
        if event == DONE:
            reader.complete = reader.over = True
        else:
            reader.read_event(event)
    return reader.end()


def chunk(finish_reason=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


STOP = chunk("stop")
A = ToolCall("a", "f", '{"x": 1}')
CALLED = {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}

# ---- OpenAI and compatible servers (the assignment of call deltas: test_call_deltas)
# -----------

USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
TEXT = chunk(content="hi")


@pytest.mark.parametrize(
    "events",
    [
        [TEXT, STOP, USAGE],
        [{"choices": [], "prompt_filter_results": []}, TEXT, STOP, USAGE],
        [TEXT, {**STOP, "usage": USAGE["usage"]}],
        [{**TEXT, "usage": None}, {**STOP, "usage": None}, USAGE],
        [{**TEXT, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, STOP, USAGE],
        [TEXT, {**STOP, "x_groq": {"usage": USAGE["usage"]}}],
        [TEXT, {**STOP, "x_groq": {"id": "r"}}, USAGE],
        [{**TEXT, "x_groq": None}, USAGE, {**STOP, "usage": {}}],
    ],
    ids=[
        "after",
        "empty first chunk",
        "with the reason",
        "null before",
        "repeated",
        "x_groq",
        "x_groq without",
        "all empty",
    ],
)
def test_usage_is_read_from_any_chunk_and_the_last_value_is_used(events):
    assert read(openai, *events).usage == Usage(3, 4)


def test_usage_that_a_server_does_not_report_is_unknown():
    assert read(openai, TEXT, STOP).usage is None


def test_content_in_or_after_the_chunk_with_the_finish_reason_is_part_of_the_reply():
    response = read(
        openai, chunk("tool_calls", content="h"), chunk(content="i", tool_calls=[CALLED]), DONE
    )
    assert response.message == Message.assistant("hi", [A])


def test_a_call_before_the_text_is_decoded_as_in_a_whole_message():
    message = read(openai, chunk(tool_calls=[CALLED]), TEXT, chunk(reasoning="hm"), STOP).message
    whole = {"reasoning": "hm", "content": "hi", "tool_calls": [CALLED]}
    assert message == openai.decode({"choices": [{"message": whole}]}).message
    assert message.tool_calls[0].provider_data is None


@pytest.mark.parametrize("reason", ["stop", "", "eos", None])
def test_a_reply_with_calls_has_the_finish_reason_tool_calls_for_any_raw_reason(reason):
    response = read(openai, chunk(tool_calls=[CALLED]), chunk(reason), DONE)
    assert (response.tool_calls, response.finish_reason) == ((A,), "tool_calls")


def test_a_repeated_finish_reason_or_a_following_empty_one_is_accepted():
    assert read(openai, TEXT, STOP, STOP, chunk("")).raw_finish_reason == "stop"


@pytest.mark.parametrize(
    "delta", [{"content": None}, {}, {"content": ""}, {"tool_calls": None}, None]
)
def test_an_empty_delta_is_ignored(delta):
    empty = {"choices": [{"index": 0, "delta": delta}]}
    assert read(openai, empty, TEXT, empty, STOP).message == Message.assistant("hi")


@pytest.mark.parametrize(
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
    response = read(openai, chunk(**thought), chunk(**thought), TEXT, STOP)
    assert (response.thinking, response.content) == ("hmhm", "hi")


def test_an_annotation_without_an_index_is_a_citation():
    note = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
    (part,) = read(openai, TEXT, chunk(annotations=[note]), STOP).message.content
    assert (part.text, [(each.url, each.title) for each in part.citations]) == ("hi", [("u", "t")])


@pytest.mark.parametrize(
    ("events", "complete"),
    [([TEXT], False), ([TEXT, STOP], True), ([TEXT, DONE], True), ([], False), ([USAGE], False)],
    ids=[
        "neither",
        "a reason, no end marker",
        "an end marker, no reason",
        "nothing",
        "usage alone",
    ],
)
def test_a_stream_without_a_finish_reason_and_an_end_marker_is_interrupted(events, complete):
    if complete:
        assert read(openai, *events).content == "hi"
    else:
        with pytest.raises(StreamInterrupted, match="before the reply was complete"):
            read(openai, *events)


@pytest.mark.parametrize(
    ("wire", "event", "kind"),
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
        read(wire, event)
    assert (type(caught.value), caught.value.retryable) == (kind, kind.retries)


# ---- the bytes
# ------------------------------------------------------------------------------------------

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
    sse, raw = SseReader(), body.encode()
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    events = [data for each in chunks for data in sse.feed(each)] + sse.close()
    assert (
        read(openai, *(data if data == DONE else json.loads(data) for data in events)).content
        == "ü"
    )


# ---- Anthropic
# ------------------------------------------------------------------------------------------

START = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 8}}}
END = {"type": "message_stop"}


def block(start, *deltas, index=0):
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def ended(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def json_delta(text):
    return {"type": "input_json_delta", "partial_json": text}


TOOL_USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def test_token_counts_replace_earlier_ones_and_are_not_added():
    usage = read(
        anthropic,
        START,
        ended("end_turn", output_tokens=5, input_tokens=7, cache_read_input_tokens=2),
        ended(None, output_tokens=6, cache_read_input_tokens=None),
        END,
    ).usage
    assert usage == Usage(input_tokens=7, output_tokens=6, cached_input_tokens=2)


@pytest.mark.parametrize("pieces", [[], [""], ["", '{"x"', "", ": 1}"], ['{"x": 1}']], ids=repr)
def test_deltas_of_a_tools_input_may_be_empty_or_missing(pieces):
    events = block(TOOL_USE, *map(json_delta, pieces))
    expected = ToolCall("a", "f", "".join(pieces) or "{}")
    assert read(anthropic, START, *events, ended("tool_use"), END).tool_calls == (expected,)


def test_input_that_is_truncated_at_max_tokens_is_not_completed():
    response = read(
        anthropic, START, *block(TOOL_USE, json_delta('{"x": ')), ended("max_tokens"), END
    )
    assert (response.tool_calls[0].arguments, response.finish_reason) == ('{"x": ', "length")


def test_a_server_side_tool_with_truncated_input_does_not_affect_the_reply():
    own = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    text = block({"type": "text", "text": "hi"}, index=0)
    events = [*text, *block(own, json_delta('{"query": "x'), index=1)]
    response = read(anthropic, START, *events, ended("max_tokens"), END)
    assert response.message.content == (TextPart("hi"), ProviderPart("anthropic", own))


def test_thinking_with_only_a_signature_keeps_the_signature():
    events = block(
        {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "s"}
    )
    message = read(anthropic, START, *events, ended("end_turn"), END).message
    assert message.content == (ThinkingPart("", {"anthropic": {"signature": "s"}}),)


def test_pings_and_unknown_event_types_are_ignored():
    unknown = [{"type": "ping"}, {"type": "news", "index": 7}]
    text = block(
        {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}, {"type": "odd_delta"}
    )
    response = read(anthropic, *unknown, START, *text, *unknown, ended("end_turn"), END)
    assert response.message == Message.assistant("hi")


# ---- Gemini
# ---------------------------------------------------------------------------------------------


def candidate(*parts, **more):
    return {"candidates": [{"content": {"parts": list(parts)}, **more}]}


def test_parallel_calls_in_several_chunks_stay_separate_without_ids_and_arguments():
    call = {"functionCall": {"name": "f"}}
    signed = {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"}
    calls = read(
        gemini, candidate(signed), candidate(call, call), candidate(finishReason="STOP")
    ).tool_calls
    assert calls == (
        ToolCall("call_0", "f", '{"x": 1}', {"gemini": {"thoughtSignature": "s"}}),
        ToolCall("call_1", "f"),
        ToolCall("call_2", "f"),
    )


@pytest.mark.parametrize("raw", ["STOP", "UNEXPECTED_TOOL_CALL"])
def test_a_reply_with_calls_has_the_finish_reason_tool_calls_for_any_raw_reason_in_gemini(raw):
    response = read(gemini, candidate({"functionCall": {"name": "f"}}, finishReason=raw))
    assert (len(response.tool_calls), response.finish_reason, response.raw_finish_reason) == (
        1,
        "tool_calls",
        raw,
    )


def test_a_signed_text_stays_a_part_of_its_own_even_if_it_is_empty():
    texts = [{"text": "h"}, {"text": "i"}, {"text": "", "thoughtSignature": "s"}, {"text": "!"}]
    message = read(gemini, *map(candidate, texts), candidate(finishReason="STOP")).message
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
        read(gemini, *empty, candidate({"text": "hi"}, finishReason="STOP"), *empty).content == "hi"
    )
    with pytest.raises(StreamInterrupted):
        read(gemini, *empty, candidate({"text": "hi"}))


def test_a_blocked_prompt_without_candidates_is_a_refusal_with_its_reason():
    response = read(gemini, {"promptFeedback": {"blockReason": "SAFETY"}})
    assert (response.finish_reason, response.block_reason) == ("refusal", "SAFETY")


def test_repeated_token_counts_replace_each_other():
    usages = [{"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": n}} for n in (1, 2)]
    assert read(gemini, *usages, candidate(finishReason="STOP")).usage == Usage(3, 2)
