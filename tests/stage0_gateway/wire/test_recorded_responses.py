"""Recorded replies in OpenAI's Responses format, whole and streamed, are decoded without loss."""

import json

import pytest

from stage0_gateway.errors import GatewayError
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import openai_responses
from tests.stage0_gateway import replies

STATUS_200 = 200


@pytest.fixture(scope="module")
def rows(recorded):
    rows = recorded("responses.jsonl")[0]
    return [row for row in rows if row["response"]["status"] == STATUS_200]


def events_of(row):
    texts = replies.events_of([row["response"]["body"].encode()])
    return [json.loads(text) for text in texts if text != replies.END_MARK]


def read(events):
    return replies.read_events(openai_responses, *events)


def facts(response):
    """Return the fields of a response that the data contains."""
    return {
        "text": response.content,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": json.loads(call.arguments)}
            for call in response.tool_calls
        ],
        "thinking": "".join(response.thinking.split()),
        "refusal": response.refusal,
    }


def expected(row):
    given = row["expected"]
    return {
        "text": given["text"],
        "tool_calls": given["tool_calls"],
        "thinking": "".join(given["thinking"].split()),
        "refusal": given["refusal"],
    }


def test_recorded_replies_are_decoded_as_expected(rows, say):
    checked = 0
    for row in rows:
        if "error" in row["expected"]:
            with pytest.raises(GatewayError):
                openai_responses.decode(json.loads(row["response"]["body"]))
            continue
        if row["streaming"]:
            response = read(events_of(row))
        else:
            response = openai_responses.decode(json.loads(row["response"]["body"]))
        assert facts(response) == expected(row), row["id"]
        checked += 1
    assert checked > 200
    say(f"responses.jsonl: {checked} replies checked")


def test_the_events_of_a_recorded_stream_contain_everything_that_its_last_event_repeats(rows, say):
    checked = 0
    for row in rows:
        if not row["streaming"]:
            continue
        *events, last = events_of(row)
        short = {**last, "response": {**last["response"], "output": []}}
        # The last event has other encryptions, and results of the server that the others lack.
        assert facts(read([*events, short])) == facts(read([*events, last])), row["id"]
        ends = [event for event in events if event["type"] == "response.output_item.done"]
        assert read([*ends, last]) == read([*events, last]), row["id"]
        assert facts(read([*ends, short])) == facts(read([*events, last])), row["id"]
        checked += 1
    assert checked > 20
    say(f"responses.jsonl: {checked} streams checked with and without their last items")


def test_items_of_recorded_replies_are_sent_back(rows, say):
    """Messages lose their ids, calls their ids and status, and reasoning its empty fields."""
    checked = 0
    for row in rows:
        if row["streaming"] or "error" in row["expected"]:
            continue
        body = json.loads(row["response"]["body"])
        message = openai_responses.decode(body).message
        sent = openai_responses.encode(ChatRequest("m", (message,)))["input"]
        assert sent == [each for item in body["output"] for each in sent_back(item)], row["id"]
        checked += len(sent)
    assert checked > 200
    say(f"responses.jsonl: {checked} items sent back")


def sent_back(item):
    match item["type"]:
        case "message":
            phase = {"phase": item["phase"]} if item.get("phase") else {}
            for part in item["content"]:
                yield {"role": "assistant", "content": part["text"], **phase}
        case "function_call":
            yield {name: value for name, value in item.items() if name not in ("id", "status")}
        case "reasoning":
            if item.get("encrypted_content") or item.get("content"):
                yield {name: value for name, value in item.items() if value is not None}
        case _:
            yield item
