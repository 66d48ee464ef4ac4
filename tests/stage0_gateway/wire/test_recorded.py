"""Recorded exchanges with real model servers, from the project's external data, are decoded by the
pure readers."""

import json

import pytest

from stage0_gateway.errors import GatewayError
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import error_body
from tests.stage0_gateway.replies import WIRE_BY_NAME, read_stream

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
def data(recorded):
    return recorded("wire.jsonl")


@pytest.fixture(scope="module")
def rows(data):
    return [row for row in data[0] if "json_array_stream" not in row["features"]]


@pytest.fixture(scope="module")
def harness(data):
    return data[1]


def as_json(body):
    try:
        return json.loads(body)
    except ValueError:
        return body


def as_row(answer):
    """Convert a response or an error to the format of the data."""
    if isinstance(answer, GatewayError):
        kind = {404: "not_found", 529: "overloaded"}.get(
            answer.status, KINDS[type(answer).__name__]
        )
        received = {"kind": kind, "status": answer.status, "retryable": answer.retryable}
        return {"error": {**received, "message": str(answer)}}
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
    """Return the rows that differ, with their differences."""
    fields = ("text", "tool_calls", "finish_reason", "usage", "thinking")
    wrong = {}
    for row in rows:
        expected = row["expected"]
        optional = tuple(name for name in ("refusal", "block_reason") if name in expected)
        if different := harness.diff_wire(expected, as_row(answer_to(row)), fields + optional):
            wrong[row["id"]] = different
    return wrong


def test_recorded_whole_replies_are_decoded_as_expected(harness, rows, say):
    whole = [row for row in rows if not row["streaming"] and row["response"]["status"] == 200]
    whole = [row for row in whole if isinstance(as_json(row["response"]["body"]), dict)]

    def answer_to(row):
        return attempt(WIRE_BY_NAME[row["provider"]].decode, as_json(row["response"]["body"]))

    assert compare(harness, whole, answer_to) == {}
    assert len(whole) > 500
    say(f"wire.jsonl: {len(whole)} whole replies checked")


def test_recorded_refusals_give_a_hint_and_keep_the_servers_message(harness, rows, say):
    refused = [row for row in rows if row["response"]["status"] != 200]

    def answer_to(row):
        response = row["response"]
        return error_body.error_for_body(response["status"], as_json(response["body"]))

    assert compare(harness, refused, answer_to) == {}
    assert len(refused) > 20
    say(f"wire.jsonl: {len(refused)} refusals checked")


@pytest.fixture(scope="module")
def streams(rows):
    return [row for row in rows if row["streaming"]]


def test_recorded_streams_are_decoded_as_expected(harness, streams, say):
    def answer_to(row):
        return attempt(
            read_stream, WIRE_BY_NAME[row["provider"]], [row["response"]["body"].encode()]
        )

    assert compare(harness, streams, answer_to) == {}
    assert len(streams) > 100
    say(f"wire.jsonl: {len(streams)} streams checked")


@pytest.mark.parametrize("cut", ["random", "line", pytest.param("byte", marks=pytest.mark.long)])
def test_a_recorded_stream_gives_the_same_reply_however_it_is_split(harness, streams, cut):
    for row in streams:
        wire, body = WIRE_BY_NAME[row["provider"]], row["response"]["body"].encode()
        chunks = harness.chunks(body, cut, row["id"])
        assert outcome(wire, chunks) == outcome(wire, [body]), row["id"]


def outcome(wire, chunks):
    """Return the reply of a stream, or the error as a row of the data."""
    answer = attempt(read_stream, wire, chunks)
    return as_row(answer) if isinstance(answer, GatewayError) else answer


def sent_back(row, body):
    """Return the parts of a reply that must be sent back, and the parts that are sent back."""
    message = WIRE_BY_NAME[row["provider"]].decode(body).message
    encoded = WIRE_BY_NAME[row["provider"]].encode(ChatRequest("m", (message,)))
    if row["provider"] == "anthropic":
        (sent,) = encoded["messages"] or [{"content": []}]
        plain = isinstance(sent["content"], str)
        received_blocks = [
            block for block in body["content"] if block.get("text", "-").strip()
        ]  # Anthropic rejects blank texts
        return received_blocks, [{"type": "text", "text": sent["content"]}] if plain else sent[
            "content"
        ]
    if row["provider"] == "gemini":
        received = [candidate.get("content") or {} for candidate in body.get("candidates") or [{}]]
        (sent,) = encoded["contents"] or [{"parts": []}]
        return received[0].get("parts") or [], sent["parts"]
    received, (sent,) = body["choices"][0]["message"], encoded["messages"]
    return [
        {name: each.get(name) for name in ("reasoning_details", "extra_content")}
        for each in (received, sent)
    ]


def test_blocks_parts_and_signatures_of_a_recorded_reply_are_sent_back_unchanged(rows, say):
    checked = 0
    for row in rows:
        body = as_json(row["response"]["body"])
        if row["streaming"] or "error" in row["expected"] or not isinstance(body, dict):
            continue
        received_blocks, goes = sent_back(row, body)
        assert goes == received_blocks, row["id"]
        checked += 1
    assert checked > 500
    say(f"wire.jsonl: {checked} replies sent back")
