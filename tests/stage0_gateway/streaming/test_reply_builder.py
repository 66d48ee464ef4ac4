import pytest

from stage0_gateway import (
    ChatResponse,
    Citation,
    Message,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from stage0_gateway.streaming.events import (
    CitationEvent,
    ContentBlockDeltaEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    InputJsonEvent,
    SignatureEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
)
from stage0_gateway.streaming.reply_builder import ReplyBuilder
from tests.tables import for_each


def make(names=None):
    return ReplyBuilder("openai", names)


def events(draft, *names):
    """Return the draft's events with these names."""
    return [event for event in draft.events if event.name in names]


def test_an_empty_builder_gives_an_empty_message():
    assert make().message() == Message.assistant("")


def test_text_deltas_are_reported_between_the_start_and_the_stop_of_their_block():
    draft = make()
    block = draft.start_text()
    for delta in ("a", "", "b"):
        draft.write(block, delta)
    draft.stop(block)
    assert draft.message() == Message.assistant("ab")
    assert draft.events == [
        ContentBlockStartEvent(0, "text"),
        ContentBlockDeltaEvent(0, "text", "a"),
        TextEvent("a", 0, block.text, 1),
        ContentBlockDeltaEvent(0, "text", "b"),
        TextEvent("b", 0, block.text, 2),
        ContentBlockStopEvent(0, "text", TextPart("ab")),
    ]


def test_thinking_is_separate_from_text_and_keeps_its_signature():
    draft = make()
    block = draft.start_text("thinking")
    draft.write(block, "hm")
    draft.sign(block, "signature", "s")
    draft.sign(block, "signature", "")
    draft.write(draft.start_text(), "a")
    assert draft.message().content == (
        ThinkingPart("hm", {"openai": {"signature": ""}}),
        TextPart("a"),
    )
    assert events(draft, "thinking", "signature", "text") == [
        ThinkingEvent("hm", 0, block.text, 2),
        SignatureEvent("s", 0),
        TextEvent("a", 1, draft.blocks[1].text, 1),
    ]


def test_a_complete_call_is_reported_when_it_ends():
    draft = make()
    block = draft.start_call("1", "f")
    draft.write(block, '{"a": ')
    draft.write(block, "1}")
    draft.stop(block)
    call = ToolCall("1", "f", '{"a": 1}')
    assert draft.events == [
        ContentBlockStartEvent(0, "tool_call", "f"),
        ContentBlockDeltaEvent(0, "tool_call", '{"a": '),
        InputJsonEvent('{"a": ', 0, block.text, 6),
        ContentBlockDeltaEvent(0, "tool_call", "1}"),
        InputJsonEvent("1}", 0, block.text, 8),
        ToolCallEvent(call, 0),
        ContentBlockStopEvent(0, "tool_call", call),
    ]


def test_the_end_of_a_block_is_reported_once():
    draft = make()
    draft.stop(draft.start_call("1", "f"))
    draft.start_call("2", "g")
    assert events(draft, "tool_call") == []
    draft.raw_finish_reason = "tool_calls"
    draft.response()
    draft.response()
    calls = [ToolCallEvent(ToolCall("1", "f"), 0), ToolCallEvent(ToolCall("2", "g"), 1)]
    assert events(draft, "tool_call") == calls


@for_each(
    "sent, ids",
    [(["", "x", ""], ["call_0", "x", "call_2"]), (["call_1", ""], ["call_1", "call_2"])],
)
def test_a_missing_id_is_derived_from_the_position_of_the_call_and_is_unused(sent, ids):
    draft = make()
    draft.start_text()
    assert [draft.start_call(call_id, "f").id for call_id in sent] == ids


def test_the_original_tool_name_is_restored():
    draft = make(names={"a_b_1": "a.b"})
    assert [draft.start_call("1", name).name for name in ("a_b_1", "f")] == ["a.b", "f"]
    assert draft.events[0] == ContentBlockStartEvent(0, "tool_call", "a.b")


def test_arguments_are_the_text_received_so_far():
    draft = make()
    block = draft.start_call("1", "f")
    seen = [block.part("openai").arguments]
    for delta in ('{"a"', ": 1}"):
        draft.write(block, delta)
        seen.append(block.part("openai").arguments)
    assert seen == ["", '{"a"', '{"a": 1}']


def test_an_unknown_block_is_stored_as_provider_data():
    draft = make()
    block = draft.start_provider({"type": "search"})
    block.data["query"] = "x"
    draft.stop(block)
    block.data["late"] = 1
    part = ProviderPart("openai", {"type": "search", "query": "x"})
    assert events(draft, "content_block_stop") == [ContentBlockStopEvent(0, "provider", part)]
    assert draft.message().content == (ProviderPart("openai", {**part.data, "late": 1}),)


def test_citations_are_stored_with_their_text():
    draft = make()
    block, citation = draft.start_text(), Citation("u", quote="q")
    draft.write(block, "a")
    draft.cite(block, citation)
    assert events(draft, "citation") == [CitationEvent(citation, 0)]
    assert draft.message().content == (TextPart("a", (citation,)),)


def test_the_position_of_a_call_is_stored_only_if_content_follows_it():
    draft = make()
    draft.start_call("1", "f").data["x"] = 1
    draft.write(draft.start_text(), "a")
    draft.start_call("2", "g")
    first = ToolCall("1", "f", "", provider_data={"openai": {"x": 1, "at": 0}})
    assert draft.message() == Message.assistant("a", [first, ToolCall("2", "g", "")])


@for_each("delta", [None, 5, ["a"], b"a"])
def test_a_delta_that_is_not_text_is_rejected(delta):
    draft = make()
    text, call = draft.start_text(), draft.start_call("1", "f")
    with pytest.raises(ValueError, match="a delta must be text"):
        draft.write(text, delta)
    with pytest.raises(ValueError, match="a delta must be text"):
        draft.write(call, delta)


def test_a_response_has_all_collected_fields_and_ends_open_blocks():
    draft = make()
    draft.usage, draft.model, draft.request_id = Usage(1, 2), "m", "r"
    draft.raw_finish_reason, draft.refusal, draft.block_reason = "odd", "no", "why"
    draft.write(draft.start_text(), "a")
    response = draft.response({"x": 1})
    assert (response, response.raw) == (
        ChatResponse(
            Message.assistant("a"), "refusal", "odd", Usage(1, 2), "m", None, "r", "no", "why"
        ),
        {"x": 1},
    )
    assert events(draft, "content_block_stop") == [ContentBlockStopEvent(0, "text", TextPart("a"))]


def test_a_message_that_was_returned_does_not_change_later():
    draft = make()
    block = draft.start_text()
    draft.write(block, "a")
    block.data["x"] = 1
    early = draft.message()
    draft.write(block, "b")
    block.data["y"] = 2
    assert early.content == (TextPart("a", provider_data={"openai": {"x": 1}}),)


def test_a_character_that_arrives_in_two_halves_is_joined():
    draft = make()
    text, call, thinking = (
        draft.start_text(),
        draft.start_call("1", "f"),
        draft.start_text("thinking"),
    )
    for half in ("🙂\ud83d", "\ude42\ud83d"):
        draft.write(text, half)
        draft.write(thinking, half)
        draft.write(call, half)
    draft.response()
    message = draft.message()
    assert (message.text, message.thinking) == ("🙂🙂\ud83d", "🙂🙂\ud83d")
    assert [each.tool_call.arguments for each in draft.events if each.name == "tool_call"] == [
        "🙂🙂\ud83d"
    ]
