"""Exchanges with real model servers, from the project's outside data, through the pure readers
alone."""

import json

import pytest

from stage0_gateway.errors import GatewayError
from stage0_gateway.request import ChatRequest
from stage0_gateway.streaming.sse import SseReader
from stage0_gateway.wire import anthropic, error_body, gemini, openai

WIRES = {wire.NAME: wire for wire in (openai, anthropic, gemini)}
CUTS = ("whole", "byte", "random", "line")
KINDS = {
    "AuthenticationFailed": "auth",
    "RateLimited": "rate_limit",
    "InvalidRequest": "bad_request",
    "ContextOverflow": "bad_request",
    "ServerFailed": "server",
    "MalformedResponse": "invalid_response",
    "StreamInterrupted": "stream",
}


@pytest.fixture(scope="module")
def rows(recorded):
    return [row for row in recorded("wire.jsonl")[0] if "json_array_stream" not in row["features"]]


@pytest.fixture(scope="module")
def harness(recorded):
    return recorded("wire.jsonl")[1]


def read_stream(wire, chunks):
    """The reply in these chunks: only the bytes, the data of the events, and the reader."""
    sse, reader = SseReader(), wire.reader()
    for chunk in chunks:
        take(reader, sse.feed(chunk))
    take(reader, sse.close())
    return reader.end()


def take(reader, events):
    for text in events:
        if text == "[DONE]":
            reader.complete = True
        else:
            reader.read_event(json.loads(text))


def as_json(body):
    try:
        return json.loads(body)
    except ValueError:
        return body


def told(answer):
    """A response or an error in the words of the data."""
    if isinstance(answer, GatewayError):
        kind = {404: "not_found", 529: "overloaded"}.get(
            answer.status, KINDS[type(answer).__name__]
        )
        said = {"kind": kind, "status": answer.status, "retryable": answer.retryable}
        return {"error": {**said, "message": str(answer)}}
    usage = answer.usage
    return {
        "text": answer.content,
        "tool_calls": [
            {"name": call.name, "arguments": runnable(call)} for call in answer.tool_calls
        ],
        "finish_reason": answer.raw_finish_reason,
        "thinking": answer.thinking,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        if usage
        else {},
        "refusal": answer.refusal,
        "block_reason": answer.block_reason,
    }


def runnable(call):
    arguments = as_json(call.arguments)
    return arguments if isinstance(arguments, dict) else None


def attempt(read, *given):
    try:
        return read(*given)
    except GatewayError as error:
        return error


def compare(harness, rows, answer_to):
    """The rows that differ, and in what: empty, if all is well."""
    fields = ("text", "tool_calls", "finish_reason", "usage", "thinking")
    wrong = {}
    for row in rows:
        expected = row["expected"]
        optional = tuple(name for name in ("refusal", "block_reason") if name in expected)
        if different := harness.diff_wire(expected, told(answer_to(row)), fields + optional):
            wrong[row["id"]] = different
    return wrong


def test_every_recorded_whole_reply_is_read_as_it_was_meant(harness, rows, say):
    whole = [row for row in rows if not row["streaming"] and row["response"]["status"] == 200]
    whole = [row for row in whole if isinstance(as_json(row["response"]["body"]), dict)]

    def answer_to(row):
        return attempt(WIRES[row["provider"]].decode, as_json(row["response"]["body"]))

    assert compare(harness, whole, answer_to) == {}
    assert len(whole) > 500
    say(f"wire.jsonl: {len(whole)} whole replies checked")


def test_every_recorded_refusal_says_what_to_do_and_keeps_the_servers_words(harness, rows, say):
    refused = [row for row in rows if row["response"]["status"] != 200]

    def answer_to(row):
        response = row["response"]
        return error_body.error_for_body(response["status"], as_json(response["body"]))

    assert compare(harness, refused, answer_to) == {}
    assert len(refused) > 20
    say(f"wire.jsonl: {len(refused)} refusals checked")


@pytest.mark.parametrize("cut", CUTS)
def test_every_recorded_stream_is_read_as_it_was_meant_however_it_is_cut(harness, rows, say, cut):
    streams = [row for row in rows if row["streaming"]]

    def answer_to(row):
        chunks = harness.chunks(row["response"]["body"].encode(), cut, row["id"])
        return attempt(read_stream, WIRES[row["provider"]], chunks)

    assert compare(harness, streams, answer_to) == {}
    assert len(streams) > 100
    say(f"wire.jsonl: {len(streams)} streams checked, cut: {cut}")


def test_a_recorded_stream_gives_equal_responses_however_it_is_cut(harness, rows):
    for row in (row for row in rows if row["streaming"] and "error" not in row["expected"]):
        body, wire = row["response"]["body"].encode(), WIRES[row["provider"]]
        whole = read_stream(wire, [body])
        assert [read_stream(wire, harness.chunks(body, cut, row["id"])) for cut in CUTS[2:]] == [
            whole
        ] * 2, row["id"]


def sent_back(row, body):
    """What was in the reply of what must go back, and what goes back of it."""
    message = WIRES[row["provider"]].decode(body).message
    encoded = WIRES[row["provider"]].encode(ChatRequest("m", (message,)))
    if row["provider"] == "anthropic":
        (sent,) = encoded["messages"] or [{"content": []}]
        plain = isinstance(sent["content"], str)
        came = [
            block for block in body["content"] if block.get("text", "-").strip()
        ]  # it refuses blanks
        return came, [{"type": "text", "text": sent["content"]}] if plain else sent["content"]
    if row["provider"] == "gemini":
        said = [candidate.get("content") or {} for candidate in body.get("candidates") or [{}]]
        (sent,) = encoded["contents"] or [{"parts": []}]
        return said[0].get("parts") or [], sent["parts"]
    said, (sent,) = body["choices"][0]["message"], encoded["messages"]
    return [
        {name: each.get(name) for name in ("reasoning_details", "extra_content")}
        for each in (said, sent)
    ]


def test_blocks_parts_and_signatures_of_a_recorded_reply_go_back_as_they_came(rows, say):
    checked = 0
    for row in rows:
        body = as_json(row["response"]["body"])
        if row["streaming"] or "error" in row["expected"] or not isinstance(body, dict):
            continue
        came, goes = sent_back(row, body)
        assert goes == came, row["id"]
        checked += 1
    assert checked > 500
    say(f"wire.jsonl: {checked} replies sent back")
