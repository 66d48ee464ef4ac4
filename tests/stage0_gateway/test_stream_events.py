import dataclasses
from typing import get_args

import pytest

from stage0_gateway import GatewayError, Message, TextPart, ToolCall
from stage0_gateway.draft import Draft
from stage0_gateway.stream_events import (
    EVENT_NAMES,
    ConnectEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    EndEvent,
    ErrorEvent,
    InputJsonEvent,
    RawEvent,
    StreamEvent,
    TextEvent,
    ThinkingEvent,
)


def test_every_event_of_the_contract_has_one_class_of_its_name():
    names = [kind.name for kind in get_args(StreamEvent)]
    assert sorted(names) == sorted(
        [
            *(
                "connect",
                "stream_event",
                "text",
                "thinking",
                "signature",
                "citation",
                "input_json",
                "tool_call",
            ),
            *("content_block_start", "content_block_delta", "content_block_stop"),
            *("message", "final_message", "error", "abort", "end"),
        ]
    )
    assert frozenset(names) == EVENT_NAMES


@pytest.mark.parametrize("kind", get_args(StreamEvent), ids=lambda kind: kind.name)
def test_an_event_is_a_frozen_value_without_a_dict(kind):
    event = kind(*(None for _ in dataclasses.fields(kind)))
    assert event == kind(*(None for _ in dataclasses.fields(kind)))
    assert not hasattr(event, "__dict__")
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, field.name, 1)


@pytest.fixture
def draft():
    return Draft("openai")


@pytest.mark.parametrize(("kind", "event"), [("text", TextEvent), ("thinking", ThinkingEvent)])
def test_a_snapshot_of_text_is_all_of_its_block_so_far(draft, kind, event):
    block = draft.start_text(kind)
    told = event("b", 0, block)
    snapshots = []
    for delta in ("a", "b", "c"):
        draft.write(block, delta)
        snapshots.append(told.snapshot)
    assert snapshots == ["a", "ab", "abc"]


def test_a_snapshot_of_arguments_is_what_can_be_read_of_them(draft):
    block = draft.start_call("1", "f")
    told = InputJsonEvent("", 0, block)
    snapshots = [told.snapshot]
    for delta in ('{"a": [1', ', 2], "b"', ': "x', 'y"}'):
        draft.fill(block, delta)
        snapshots.append(dict(told.snapshot, a=list(told.snapshot["a"])))
    assert snapshots == [None, {"a": [1]}, {"a": [1, 2]}, {"a": [1, 2], "b": "x"}, {"a": [1, 2], "b": "xy"}]


def test_a_raw_event_shows_the_message_so_far(draft):
    told = RawEvent({"x": 1}, draft)
    draft.write(draft.start_text(), "hi")
    draft.start_call("1", "f")
    assert told.message == Message.assistant("hi", [ToolCall("1", "f", "")])


def test_what_is_shown_of_an_event_is_what_happened_and_not_what_it_looks_at(draft):
    block = draft.start_text()
    assert [repr(TextEvent("a", 0, block)), repr(RawEvent([1], draft)), repr(EndEvent())] == [
        "TextEvent(delta='a', index=0)",
        "RawEvent(data=[1])",
        "EndEvent()",
    ]
    assert TextEvent("a", 0, block) == TextEvent("a", 0, draft.start_text())
    assert TextEvent("a", 0, block) != ThinkingEvent("a", 0, block)


def test_events_say_what_they_are_about():
    error = GatewayError("no")
    assert ConnectEvent("m", "https://x/v1", 1).attempt == 1
    assert ContentBlockStartEvent(0, "text").tool is None
    assert ContentBlockStopEvent(0, "text", TextPart("a")).part == TextPart("a")
    assert ErrorEvent(error).error is error
