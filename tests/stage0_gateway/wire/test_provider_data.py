from stage0_gateway import TextPart, ToolCall
from stage0_gateway.wire.provider_data import (
    arguments_object,
    arguments_text,
    call_position,
    deep_merge,
    own_data,
)
from tests.tables import for_each

KEPT = {"openai": {"a": 1}, "gemini": {"b": 2, "at": 3}}


@for_each(
    "part, wire, expected",
    [
        # its own
        (TextPart("x", provider_data=KEPT), "openai", {"a": 1}),
        # another's
        (TextPart("x", provider_data=KEPT), "anthropic", {}),
        # none
        (TextPart("x"), "openai", {}),
        # without the place of a call
        (ToolCall("1", "f", provider_data=KEPT), "gemini", {"b": 2}),
    ],
)
def test_a_format_sends_only_the_data_under_its_name(part, wire, expected):
    assert own_data(part, wire) == expected


def test_own_data_returns_a_copy():
    own_data(TextPart("x", provider_data=KEPT), "openai")["a"] = 5
    assert KEPT["openai"] == {"a": 1}


@for_each(
    "data, expected",
    [
        (None, {"type": "text", "kept": {"x": 1}}),
        ({"new": 1}, {"type": "text", "kept": {"x": 1}, "new": 1}),
        ({"type": "other"}, {"type": "other", "kept": {"x": 1}}),
        ({"kept": {"y": 2}}, {"type": "text", "kept": {"x": 1, "y": 2}}),
        ({"kept": {"x": 2}}, {"type": "text", "kept": {"x": 2}}),
        ({"kept": None}, {"type": "text", "kept": None}),
    ],
)
def test_deep_merge_joins_objects_and_overrides_other_values(data, expected):
    assert deep_merge({"type": "text", "kept": {"x": 1}}, data) == expected


@for_each("at, position", [(0, 0), (2, 2), (None, 2), (3, 2), (-1, 2), ("1", 2), (1.0, 2)])
def test_a_call_keeps_its_stored_position_if_it_exists(at, position):
    assert (
        call_position(ToolCall("1", "f", provider_data={"gemini": {"at": at}}), "gemini", 2)
        == position
    )


def test_a_call_of_another_format_is_placed_at_the_end():
    call = ToolCall("1", "f", provider_data={"gemini": {"at": 0}})
    assert (
        call_position(call, "anthropic", 2),
        call_position(ToolCall("1", "f"), "gemini", 2),
    ) == (2, 2)


@for_each(
    "text, value",
    [
        # an object
        ('{"a": 1}', {"a": 1}),
        # empty
        ("", {}),
        # cut
        ('{"a": ', {"not_a_json_object": '{"a": '}),
        # a list
        ("[1]", {"not_a_json_object": "[1]"}),
        # null
        ("null", {"not_a_json_object": "null"}),
        # too deep
        ("[" * 9999, {"not_a_json_object": "[" * 9999}),
    ],
)
def test_arguments_that_are_not_an_object_are_wrapped_in_an_object(text, value):
    assert arguments_object(ToolCall("1", "f", text)) == value


@for_each(
    "arguments, text",
    [("x", "x"), ("", "{}"), (None, "{}"), ({}, "{}"), ({"a": "ü"}, '{"a": "ü"}'), ([1], "[1]")],
)
def test_arguments_of_any_type_become_text(arguments, text):
    assert arguments_text(arguments) == text
