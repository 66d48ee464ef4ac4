"""Replies in OpenAI's Responses format; for requests see test_openai_responses.py."""

import itertools
import random

import pytest

from stage0_gateway import (
    ChatRequest,
    Citation,
    Message,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from stage0_gateway.errors import (
    GatewayError,
    MalformedResponse,
    RateLimited,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.wire import openai_responses
from tests.stage0_gateway.replies import END_MARK, feed, item_event, read_events, split
from tests.tables import for_each

NOTE = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
FILE_NOTE = {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 1}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [
        {"type": "summary_text", "text": "First."},
        {"type": "summary_text", "text": "Second."},
    ],
    "encrypted_content": "gAAA",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": [NOTE], "logprobs": []}],
}


def own(**data):
    return {"openai-responses": data}


def called(number, name="f", arguments='{"x": 1}', **fields):
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    function = {"name": name, "arguments": arguments, "status": "completed"}
    return {"type": "function_call", **ids, **function, **fields}


def whole(*items, status="completed", **fields):
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }
    head = {"id": "resp_1", "object": "response", "model": "m", "error": None}
    return {**head, "status": status, "output": [*items], "usage": usage, **fields}


def pieces(index, item):
    """Return the events of an item, in pieces."""
    match item["type"]:
        case "message":
            (part,) = item["content"]
            yield item_event("output_item.added", index, item={**item, "content": []})
            yield item_event(
                "content_part.added", index, content_index=0, part={**part, "text": ""}
            )
            for piece in ("Hel", "lo."):
                yield item_event("output_text.delta", index, content_index=0, delta=piece)
            for note in part["annotations"]:
                yield item_event(
                    "output_text.annotation.added", index, content_index=0, annotation=note
                )
            yield item_event("output_text.done", index, content_index=0, text=part["text"])
        case "reasoning":
            yield item_event("output_item.added", index, item={**item, "summary": []})
            for number, text in enumerate([("Fir", "st."), ("Second", ".")]):
                for piece in text:
                    yield item_event(
                        "reasoning_summary_text.delta", index, summary_index=number, delta=piece
                    )
        case "function_call":
            yield item_event("output_item.added", index, item={**item, "arguments": ""})
            for piece in split(item["arguments"], 3):
                yield item_event("function_call_arguments.delta", index, delta=piece)
            yield item_event("function_call_arguments.done", index, arguments=item["arguments"])
        case _:
            yield item_event("output_item.added", index, item={**item, "status": "in_progress"})
            yield item_event("web_search_call.searching", index, item_id=item.get("id"))
    yield item_event("output_item.done", index, item=item)


def streamed(*items, **fields):
    """Return the events of a reply; the last one does not repeat the items."""
    body = whole(*items, **fields)
    start = {"type": "response.created", "response": {**body, "output": [], "usage": None}}
    events = [event for index, item in enumerate(items) for event in pieces(index, item)]
    kind = "incomplete" if body["status"] == "incomplete" else "completed"
    return [start, *events, {"type": f"response.{kind}", "response": {**body, "output": []}}]


def with_output(events, *items):
    """Return the same events; the last one repeats the items, as those of OpenAI do."""
    *others, last = events
    return [*others, {**last, "response": {**last["response"], "output": [*items]}}]


def read(*events):
    return read_events(openai_responses, *events)


def decoded(*items, **fields):
    response = openai_responses.decode(whole(*items, **fields))
    assert read(*streamed(*items, **fields)) == response
    return response


# ---- replies


def test_reasoning_text_calls_and_items_of_the_provider_are_decoded_in_order():
    response = decoded(REASONING, called(1), SEARCH, TEXT, called(2, arguments="{}"))
    reasoning = {name: value for name, value in REASONING.items() if name != "type"}
    assert response.message == Message.assistant(
        (
            ThinkingPart("First.\n\nSecond.", own(**reasoning)),
            ProviderPart("openai-responses", SEARCH),
            TextPart("Hello.", (Citation("u", "t", None, own(**NOTE)),)),
        ),
        [
            ToolCall("call_1", "f", '{"x": 1}', own(at=1)),
            ToolCall("call_2", "f", "{}"),
        ],
    )
    assert (response.finish_reason, response.raw_finish_reason) == ("tool_calls", "completed")
    assert response.usage == Usage(10, 5, 4, 3, 2)
    assert (response.model, response.request_id) == ("m", "resp_1")


def test_all_items_are_sent_back_as_they_arrived_except_for_ids_of_texts_and_calls():
    items = (REASONING, called(1, namespace="crm"), SEARCH, {**TEXT, "phase": "final_answer"})
    message = decoded(*items).message
    function = {"call_id": "call_1", "name": "f", "arguments": '{"x": 1}'}
    assert openai_responses.encode(ChatRequest("m", (message,)))["input"] == [
        REASONING,
        {"type": "function_call", **function, "namespace": "crm"},
        SEARCH,
        {"role": "assistant", "content": "Hello.", "phase": "final_answer"},
    ]


@for_each(
    "fields, reason, raw",
    [
        ({}, "stop", "completed"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length", "max_output_tokens"),
        ({"incomplete_details": {"reason": "content_filter"}}, "refusal", "content_filter"),
        ({"incomplete_details": None, "status": "incomplete"}, "length", "incomplete"),
        ({"status": "cancelled"}, "error", "cancelled"),
        ({"status": "queued"}, "unknown", "queued"),
    ],
)
def test_the_status_and_its_reason_are_the_finish_reason(fields, reason, raw):
    response = decoded(TEXT, **fields)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, raw)
    assert response.content == "Hello."


def test_a_refusal_is_separate_from_the_text():
    refused = {**TEXT, "content": [{"type": "refusal", "refusal": "I will not."}]}
    response = openai_responses.decode(whole(refused))
    assert (response.content, response.refusal) == ("", "I will not.")
    assert (response.finish_reason, response.raw_finish_reason) == ("refusal", "completed")
    deltas = [
        item_event("refusal.delta", 0, content_index=0, delta=text) for text in ("I ", "will")
    ]
    events = [
        item_event("output_item.added", 0, item={**TEXT, "content": []}),
        *deltas,
        item_event("output_item.done", 0, item=refused),
    ]
    assert read(*events, streamed()[-1]).refusal == "I will not."
    assert read(*events[:-1], streamed()[-1]).refusal == "I will"


def test_citations_of_files_are_decoded():
    cited = {**TEXT["content"][0], "annotations": [FILE_NOTE]}
    response = decoded({**TEXT, "content": [cited]})
    (part,) = response.message.parts
    assert part.citations == (Citation(None, "a.pdf", None, own(**FILE_NOTE)),)


def test_a_streamed_citation_is_delivered_and_kept_without_the_end_of_its_item():
    *events, done, last = streamed(TEXT)
    assert done["type"] == "response.output_item.done"
    reader = feed(openai_responses.reader(), *events)
    citation = Citation("u", "t", None, own(**NOTE))
    assert [event.citation for event in reader.builder.events if event.name == "citation"] == [
        citation
    ]
    reader.read_event(last)
    assert reader.end().message == Message.assistant((TextPart("Hello.", (citation,)),))


def test_readable_reasoning_is_kept_for_the_server_but_is_not_a_summary():
    item = {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "encrypted_content": None,
    }
    message = openai_responses.decode(whole(item)).message
    assert message.thinking == ""
    assert openai_responses.encode_messages([message]) == [
        {name: value for name, value in item.items() if value is not None}
    ]


def test_a_charge_that_the_server_reports_is_the_cost():
    assert decoded(TEXT, usage={"input_tokens": 1, "cost": 0.25}).cost == 0.25


@for_each("usage", [None, [], {}, {"input_tokens_details": None}])
def test_missing_counts_are_unknown(usage):
    response = decoded(TEXT, usage=usage)
    assert response.usage in (None, Usage())
    assert response.content == "Hello."


def test_the_names_of_tools_are_decoded():
    reply = read_events(openai_responses, *streamed(called(1, "sent")), names={"sent": "own.name"})
    assert [call.name for call in reply.tool_calls] == ["own.name"]


def test_the_names_of_tools_are_decoded_from_the_last_event_too():
    reply = read_events(
        openai_responses,
        *with_output(streamed(called(1, "sent")), called(1, "sent")),
        names={"sent": "own.name"},
    )
    assert [call.name for call in reply.tool_calls] == ["own.name"]


# ---- streams


def names(reader):
    return [event.name for event in reader.builder.events]


def test_pieces_are_delivered_as_they_arrive():
    reader = feed(openai_responses.reader(), *streamed(REASONING, TEXT, called(1)))
    delivered = [
        (event.index, event.delta)
        for event in reader.builder.events
        if event.name in ("thinking", "text", "input_json")
    ]
    assert delivered == [
        (0, "Fir"),
        (0, "st."),
        (0, "\n\n"),
        (0, "Second"),
        (0, "."),
        (1, "Hel"),
        (1, "lo."),
        (2, '{"x'),
        (2, '": '),
        (2, "1}"),
    ]
    for name in ("signature", "citation", "tool_call"):
        assert names(reader).count(name) == 1
    assert names(reader).count("content_block_stop") == 3


def test_calls_that_are_interleaved_stay_separate():
    first, second = (list(pieces(index, called(index))) for index in (0, 1))
    second = [{**event, "delta": event["delta"].replace("1", "2")} if "delta" in event else event
              for event in second[:-2]] + [
        item_event("output_item.done", 1, item=called(1, arguments='{"x": 2}'))
    ]  # fmt: skip
    events = [event for pair in itertools.zip_longest(first, second) for event in pair if event]
    response = read(*events, streamed()[-1])
    assert response.tool_calls == (
        ToolCall("call_0", "f", '{"x": 1}'),
        ToolCall("call_1", "f", '{"x": 2}'),
    )


ITEMS = (REASONING, called(1), SEARCH, TEXT, called(2, "g", '{"long": "arguments of a call"}'))
COMPLETE = openai_responses.decode(whole(*ITEMS))


@for_each(
    "repeated",
    [
        # output repeated
        True,
        # output not repeated
        False,
    ],
)
def test_any_single_lost_event_changes_nothing_that_the_stream_contains_elsewhere(repeated):
    events = streamed(*ITEMS)
    if repeated:
        events = with_output(events, *ITEMS)
    for number, event in enumerate(events[:-1]):
        is_end = event["type"] == "response.output_item.done"
        if is_end and not repeated:
            continue  # nothing else has the complete item
        response = read(*events[:number], *events[number + 1 :])
        assert response == COMPLETE, event


def test_any_order_of_events_gives_the_same_reply_if_the_last_event_repeats_it():
    *events, last = with_output(streamed(*ITEMS), *ITEMS)
    shuffle = random.Random(7).shuffle
    for _ in range(200):
        shuffle(events)
        assert read(*events, last) == COMPLETE


def test_items_in_another_order_are_sorted_by_their_index():
    start, *events, last = streamed(*ITEMS)
    reordered = sorted(events, key=lambda event: -event["output_index"])
    assert read(start, *reordered, last) == COMPLETE


def test_repeated_events_change_nothing():
    *events, last = streamed(*ITEMS)
    starts = [event for event in events if event["type"] == "response.output_item.added"]
    assert (
        read(*(event for each in events for event in [each] * (1 + (each in starts))), last)
        == COMPLETE
    )
    ends = [event for event in events if event["type"].endswith((".added", ".done"))]
    assert read(*events, *ends, last) == COMPLETE


def test_a_repeated_item_is_reported_once():
    reader = openai_responses.reader()
    for event in streamed(REASONING, called(1))[:-1]:
        for _ in range(2 if event["type"] == "response.output_item.done" else 1):
            reader.read_event(event)
    reported = names(reader)
    assert (reported.count("signature"), reported.count("tool_call")) == (1, 1)


def test_an_id_of_the_http_response_precedes_that_of_the_reply():
    reader = openai_responses.reader()
    reader.builder.request_id = "of the header"
    for event in with_output(streamed(TEXT), TEXT):
        reader.read_event(event)
    assert reader.end().request_id == "of the header"


def test_items_alone_without_pieces_are_complete():
    start, *events, last = streamed(*ITEMS)
    ends = [event for event in events if event["type"] == "response.output_item.done"]
    assert read(start, *ends, last) == COMPLETE


def without(events, *fields):
    return [
        {name: value for name, value in event.items() if name not in fields} for event in events
    ]


def with_item_ids(events, items):
    return [
        {"item_id": items[event["output_index"]]["id"], **event} if "output_index" in event else event
        for event in events
    ]  # fmt: skip


def test_a_server_that_sends_ids_instead_of_indexes_is_understood():
    events = without(with_item_ids(streamed(*ITEMS), ITEMS), "output_index", "content_index")
    assert read(*events) == COMPLETE


def test_items_with_the_same_id_stay_separate():
    same = [{**item, "id": "same"} for item in ITEMS]
    assert read(*with_item_ids(streamed(*same), same)) == openai_responses.decode(whole(*same))


def test_items_at_the_same_index_stay_separate():
    items = (called(1), called(2, "g"), TEXT)
    events = [{**event, "output_index": 0} if "output_index" in event else event
              for event in streamed(*items)]  # fmt: skip
    assert read(*events) == openai_responses.decode(whole(*items))


def test_ids_that_change_with_every_event_are_ignored():
    numbers = itertools.count()
    events = [
        {**event, **({"item": {**event["item"], "id": f"id_{next(numbers)}"}} if "item" in event else {})}
        for event in streamed(called(1), TEXT)
    ]  # fmt: skip
    assert read(*events) == openai_responses.decode(whole(called(1), TEXT))


@for_each("arguments", ["", None, {}])
def test_empty_arguments_of_a_complete_reply_mean_no_arguments(arguments):
    item = called(1, arguments=arguments)
    events = [
        item_event("output_item.added", 0, item=item),
        item_event("output_item.done", 0, item=item),
        streamed()[-1],
    ]
    expected = (ToolCall("call_1", "f", "{}"),)
    assert openai_responses.decode(whole(item)).tool_calls == expected
    assert read(*events).tool_calls == expected


@for_each("arguments", ["", '{"x'])
def test_arguments_that_were_cut_off_are_kept_as_they_are(arguments):
    fields = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    response = decoded(called(1, arguments=arguments), **fields)
    assert response.tool_calls == (ToolCall("call_1", "f", arguments),)
    assert response.finish_reason == "length"


def test_a_call_without_a_call_id_uses_the_id_of_its_item_or_a_new_one():
    items = [called(number, call_id=None) for number in (1, 2)]
    items[1]["id"] = None
    assert [call.id for call in openai_responses.decode(whole(*items)).tool_calls] == [
        "fc_1",
        "call_1",
    ]


def test_unknown_events_are_ignored():
    start, *events = streamed(*ITEMS)
    unknown = [
        {"type": "keepalive"},
        {"type": "response.next_year", "output_index": 0, "delta": 5},
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "raw"},
        {"sequence_number": 3},
    ]
    assert read(start, *unknown, *events) == COMPLETE


@for_each("kind", ["image_generation_call", "custom_tool_call", "of_next_year"])
def test_unknown_items_are_stored_and_sent_back_unchanged(kind):
    item = {"type": kind, "id": "x", "status": "completed", "result": ["any", {"value": None}]}
    message = decoded(item, TEXT).message
    assert message.parts[0] == ProviderPart("openai-responses", item)
    assert openai_responses.encode_messages([message])[0] == item


def test_a_content_index_that_differs_from_the_place_in_the_item_repeats_no_text():
    two = {**TEXT, "content": [*TEXT["content"], {"type": "output_text", "text": "Bye."}]}
    deltas = [
        item_event("output_text.delta", 0, content_index=1, delta=text) for text in ("Hel", "lo.")
    ]
    for item, texts in ((TEXT, ["Hello."]), (two, ["Hello.", "Bye."])):
        message = read(
            *deltas, item_event("output_item.done", 0, item=item), streamed()[-1]
        ).message
        assert [part.text for part in message.parts] == texts


def test_pieces_that_arrive_after_their_complete_item_are_ignored():
    late = [
        item_event("output_text.delta", 0, content_index=1, delta="lo."),
        item_event("output_text.annotation.added", 0, content_index=1, annotation=FILE_NOTE),
        item_event("refusal.delta", 0, content_index=0, delta="No."),
        item_event("function_call_arguments.delta", 1, delta="}"),
    ]
    *events, last = streamed(TEXT, called(1))
    assert read(*events, *late, last) == openai_responses.decode(whole(TEXT, called(1)))


def test_a_character_that_is_sent_in_two_halves_is_joined():
    text = {**TEXT, "content": [{"type": "output_text", "text": "a🙂b", "annotations": []}]}
    halves = [item_event("output_text.delta", 0, delta=half) for half in ("a\ud83d", "\ude42b")]
    events = [*halves, item_event("output_item.done", 0, item=text), streamed()[-1]]
    assert read(*events).content == read(*halves, streamed()[-1]).content == "a🙂b"


# ---- the end of a stream, and errors


def test_a_stream_without_its_last_event_is_interrupted():
    for end in range(len(streamed(*ITEMS))):
        with pytest.raises(StreamInterrupted, match="before the reply was complete"):
            read(*streamed(*ITEMS)[:end])


def test_an_end_marker_replaces_the_last_event():
    response = read(*streamed(*ITEMS)[:-1], END_MARK)
    assert (response.message, response.raw_finish_reason) == (COMPLETE.message, None)
    assert (response.finish_reason, response.usage) == ("tool_calls", None)


def test_a_last_event_with_fewer_items_than_the_stream_loses_nothing():
    events = with_output(streamed(*ITEMS), *ITEMS[:2])
    assert read(*events).message == COMPLETE.message


def test_a_last_event_without_a_status_is_complete():
    events = streamed(called(1, arguments=""))
    del events[-1]["response"]["status"]
    assert read(*events).tool_calls == (ToolCall("call_1", "f", "{}"),)


ERRORS = [
    ({"code": "server_error", "message": "boo"}, ServerFailed),
    ({"code": "rate_limit_exceeded", "message": "boo"}, RateLimited),
    ({"code": "invalid_prompt", "message": "boo"}, StreamInterrupted),
]


@for_each("error, kind", ERRORS)
def test_an_error_in_a_stream_is_raised_with_the_servers_message(error, kind):
    started = streamed(TEXT)[:4]
    for event in (
        {"type": "error", "param": None, "sequence_number": 4, **error},
        {"type": "response.failed", "response": whole(TEXT, status="failed", error=error)},
    ):
        with pytest.raises(GatewayError, match="boo") as caught:
            read(*started, event)
        assert type(caught.value) is kind


@for_each("error, kind", ERRORS[:2])
def test_a_failed_reply_is_raised_with_the_servers_message(error, kind):
    with pytest.raises(kind, match="boo"):
        openai_responses.decode(whole(status="failed", error=error))


def test_a_failed_reply_without_an_error_has_the_finish_reason_error():
    events = streamed(TEXT)
    events[-1] = {"type": "response.failed", "response": {"output": []}}
    assert read(*events).finish_reason == "error"


@for_each(
    "event",
    [
        {"type": 5},
        {"type": "response.output_text.delta", "output_index": 0},
        {"type": "response.output_text.delta", "output_index": 0, "delta": 5},
        {"type": "response.output_text.delta", "output_index": [], "delta": "a"},
        {"type": "response.output_item.done", "output_index": 0, "item": "text"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**TEXT, "content": "a"}},
        {"type": "response.completed", "response": None},
        {"type": "response.completed", "response": {"output": {}}},
    ],
)
def test_an_event_in_another_format_is_an_error(event):
    with pytest.raises(MalformedResponse, match="not a reply in the openai-responses format"):
        read(event)
