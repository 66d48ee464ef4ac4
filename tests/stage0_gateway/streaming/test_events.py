import dataclasses
import tracemalloc
from typing import get_args

import pytest

from stage0_gateway import GatewayError, TextPart
from stage0_gateway.streaming.events import (
    EVENT_NAMES,
    ConnectEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    EndEvent,
    ErrorEvent,
    RawEvent,
    StreamEvent,
    TextEvent,
    ThinkingEvent,
)
from stage0_gateway.streaming.reply_builder import ReplyBuilder
from tests.tables import for_each


def test_every_event_of_the_contract_has_a_class_with_its_name():
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


@for_each("kind", get_args(StreamEvent))
def test_an_event_is_a_frozen_value_without_a_dict(kind):
    event = kind(*(None for _ in dataclasses.fields(kind)))
    assert event == kind(*(None for _ in dataclasses.fields(kind)))
    assert not hasattr(event, "__dict__")
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, field.name, 1)


@pytest.fixture
def draft():
    return ReplyBuilder("openai")


@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_a_text_snapshot_ends_with_the_delta_of_its_event(draft, kind):
    block = draft.start_text(kind)
    for delta in ("a", "b", "c"):
        draft.write(block, delta)
    assert [event.snapshot for event in draft.events if event.name == kind] == ["a", "ab", "abc"]


def test_a_snapshot_of_arguments_ends_with_the_delta_of_its_event(draft):
    block = draft.start_call("1", "f")
    for delta in ('{"a": [1,', ' 2], "b"', ': "x', 'y"}'):
        draft.write(block, delta)
    expected = [{"a": [1]}, {"a": [1, 2]}, {"a": [1, 2], "b": "x"}, {"a": [1, 2], "b": "xy"}]
    for _ in range(2):
        assert [event.snapshot for event in draft.events if event.name == "input_json"] == expected


def test_changes_to_a_snapshot_do_not_affect_the_reply(draft):
    block = draft.start_call("1", "f")
    draft.write(block, '{"a": [1')
    (event,) = (event for event in draft.events if event.name == "input_json")
    event.snapshot["a"].append("changed")
    draft.write(block, "]}")
    assert event.snapshot == {"a": [1]}
    assert draft.message().tool_calls[0].arguments == '{"a": [1]}'


def test_invalid_json_arguments_have_no_snapshot(draft):
    block = draft.start_call("1", "f")
    for delta in ('{"a": 1', ", x", "}"):
        draft.write(block, delta)
    snapshots = [event.snapshot for event in draft.events if event.name == "input_json"]
    assert snapshots == [{"a": 1}, None, None]


def test_the_memory_of_events_grows_linearly_with_the_text(draft):
    block, piece = draft.start_text(), "0123456789" * 20
    tracemalloc.start()
    for _ in range(2_000):
        draft.write(block, piece)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 10_000_000  # with a copy of the text in each event: 400 MB
    last = [event for event in draft.events if event.name == "text"][-1]
    assert len(last.snapshot) == 400_000


def test_an_event_shows_and_compares_only_its_public_fields(draft):
    one, other = draft.start_text().text, draft.start_text().text
    assert [repr(TextEvent("a", 0, one, 1)), repr(RawEvent([1])), repr(EndEvent())] == [
        "TextEvent(delta='a', index=0)",
        "RawEvent(data=[1])",
        "EndEvent()",
    ]
    assert TextEvent("a", 0, one, 1) == TextEvent("a", 0, other, 2)
    assert TextEvent("a", 0, one, 1) != ThinkingEvent("a", 0, one, 1)


def test_events_have_their_documented_fields():
    error = GatewayError("no")
    assert ConnectEvent("m", "https://x/v1", 1).attempt == 1
    assert ContentBlockStartEvent(0, "text").tool is None
    assert ContentBlockStopEvent(0, "text", TextPart("a")).part == TextPart("a")
    assert ErrorEvent(error).error is error
