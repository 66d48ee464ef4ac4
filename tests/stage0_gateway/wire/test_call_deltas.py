"""Call deltas are assigned to the right call, however a server numbers, names and splits them."""

import pytest

from stage0_gateway import ToolCall
from stage0_gateway.streaming.reply_builder import ReplyBuilder
from stage0_gateway.wire.call_deltas import CallDeltas
from tests.tables import for_each


def calls(*pieces, whole=False):
    """Return the calls of a complete reply with these elements of `tool_calls`."""
    draft = ReplyBuilder("openai")
    deltas = CallDeltas(draft)
    for each in pieces:
        deltas.feed(each, whole=whole)
    draft.raw_finish_reason = "tool_calls"
    return draft.response().tool_calls


def piece(index=None, call_id=None, name=None, arguments=None):
    """Return a delta of a call; None values are omitted."""
    function = {"name": name, "arguments": arguments}
    call = {
        "index": index,
        "id": call_id,
        "function": {k: v for k, v in function.items() if v is not None},
    }
    return {k: v for k, v in call.items() if v is not None}


A, B = ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", '{"y": 2}')

HOSTILE = {
    "as documented": [
        piece(0, "a", "f", ""),
        piece(0, arguments='{"x"'),
        piece(0, arguments=": 1}"),
        piece(1, "b", "g", ""),
        piece(1, arguments='{"y": 2}'),
    ],
    "deltas of both calls alternate": [
        piece(0, "a", "f", '{"x"'),
        piece(1, "b", "g", '{"y"'),
        piece(0, arguments=": 1}"),
        piece(1, arguments=": 2}"),
    ],
    "the index starts at 1": [
        piece(1, "a", "f", '{"x": 1}'),
        piece(2, "b", "g", '{"y"'),
        piece(2, arguments=": 2}"),
    ],
    "no index": [
        piece(None, "a", "f", '{"x"'),
        piece(None, arguments=": 1}"),
        piece(None, "b", "g", '{"y"'),
        piece(None, arguments=": 2}"),
    ],
    "no index at first": [
        piece(None, "a", "f", '{"x"'),
        piece(0, arguments=": 1}"),
        piece(None, "b", "g", '{"y": 2}'),
    ],
    "both at index 0": [
        piece(0, "a", "f", '{"x"'),
        piece(0, arguments=": 1}"),
        piece(0, "b", "g", '{"y"'),
        piece(0, arguments=": 2}"),
    ],
    "both at index 0, id and name repeated": [
        piece(0, "a", "f", '{"x"'),
        piece(0, "a", "f", ": 1}"),
        piece(0, "b", "g", '{"y"'),
        piece(0, "b", "g", ": 2}"),
    ],
    "both at index 0, alternating": [
        piece(0, "a", "f", '{"x"'),
        piece(0, "b", "g", '{"y"'),
        piece(0, "a", "f", ": 1}"),
        piece(0, "b", "g", ": 2}"),
    ],
    "only the id repeated": [
        piece(0, "a", "f", '{"x"'),
        piece(0, "b", "g", '{"y"'),
        piece(0, "a", arguments=": 1}"),
        piece(0, "b", "", ": 2}"),
    ],
    "another id in every delta": [
        piece(0, "a", "f", '{"x"'),
        piece(0, "z1", arguments=": 1}"),
        piece(1, "b", "g", '{"y"'),
        piece(1, "z2", arguments=": 2}"),
    ],
    "whole calls": [piece(0, "a", "f", '{"x": 1}'), piece(1, "b", "g", '{"y": 2}')],
    "arguments as objects": [piece(0, "a", "f", {"x": 1}), piece(1, "b", "g", {"y": 2})],
    "a delta for an unknown index": [
        piece(0, "a", "f", '{"x"'),
        piece(7, arguments=": 1}"),
        piece(1, "b", "g", '{"y": 2}'),
    ],
    "empty deltas": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": None}},
        {"index": 0, "id": None, "function": {"name": None, "arguments": ""}},
        {"index": 0, "id": "", "function": {"name": "", "arguments": '{"x": 1}'}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"y": 2}'}},
        {"index": 1, "function": None},
    ],
}


@for_each("pieces", HOSTILE.values())
def test_two_calls_stay_separate(pieces):
    assert calls(*pieces) == (A, B)


@for_each(
    "pieces",
    [
        # ids empty
        [piece(0, "", "f", '{"x": 1}'), piece(0, "", "g", '{"y": 2}')],
        # neither id nor index
        [piece(None, None, "f", '{"x": 1}'), piece(None, None, "g", '{"y": 2}')],
        # the name repeated
        [piece(0, None, "f", '{"x"'), piece(0, None, "f", ": 1}"), piece(0, None, "g", '{"y": 2}')],
    ],
)
def test_each_call_without_an_id_gets_its_own_id(pieces):
    assert calls(*pieces) == (
        ToolCall("call_0", "f", '{"x": 1}'),
        ToolCall("call_1", "g", '{"y": 2}'),
    )


TWICE = ('{"x": {"y": 1}}', '{"x": 2}')


@for_each(
    "call_id",
    [
        # no id
        None,
        # the same id
        "a",
    ],
)
@for_each("index", [None, 0])
def test_two_whole_calls_of_the_same_tool_stay_separate(index, call_id):
    made = calls(*(piece(index, call_id, "f", arguments) for arguments in TWICE))
    assert tuple(call.arguments for call in made) == TWICE


@for_each("index", [None, 0])
def test_an_object_within_the_arguments_does_not_start_a_second_call(index):
    pieces = [piece(index, "a", "f", each) for each in ('{"x": ', '{"y": 1}', "}", "")]
    assert calls(*pieces) == (ToolCall("a", "f", TWICE[0]),)


def test_the_same_id_at_two_indexes_is_two_calls():
    pieces = [piece(at, "a", "f", arguments) for arguments in ('{"x"', ": 1}") for at in (0, 1)]
    assert [call.arguments for call in calls(*pieces)] == ['{"x": 1}', '{"x": 1}']


@for_each(
    "call_id",
    [
        # no id
        None,
        # the same id
        "a",
    ],
)
@for_each("index", [None, 0])
def test_another_name_starts_another_call_even_without_arguments(index, call_id):
    made = calls(
        piece(index, call_id, "f"), piece(index, call_id, "g"), piece(index, arguments="{}")
    )
    assert [call.name for call in made] == ["f", "g"]


@for_each("arguments", [[None], [""], ["", ""], ["{}"], ["{", "}"], [{}]])
def test_missing_arguments_in_any_form_become_an_empty_object(arguments):
    first, *rest = arguments
    pieces = [piece(0, "a", "f", first), *(piece(0, arguments=each) for each in rest)]
    assert calls(*pieces) == (ToolCall("a", "f", "{}"),)


@for_each("call_id", [None, "", "a"])
@for_each("index", [None, 0])
@for_each("arguments", [None, "", '{"x', "{}"])
def test_each_element_of_a_whole_message_is_a_call_even_with_equal_fields(
    index, call_id, arguments
):
    made = calls(
        piece(index, call_id, "f", arguments), piece(index, call_id, "f", arguments), whole=True
    )
    assert [call.arguments for call in made] == [arguments or "{}"] * 2


def test_the_input_of_a_custom_tool_becomes_its_arguments():
    made = calls(
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}},
        {"index": 0, "custom": {"input": "y"}},
    )
    assert made == (ToolCall("a", "f", "xy"),)


def test_provider_data_that_must_be_sent_back_is_kept_with_its_call():
    (call,) = calls(
        {**piece(0, "a", "f", "{}"), "extra_content": {"google": {"thought_signature": "s"}}}
    )
    assert call.provider_data == {
        "openai": {"extra_content": {"google": {"thought_signature": "s"}}}
    }


@for_each(
    "piece, expected",
    [
        ({"function": {"name": 5}}, "name must be text, not int"),
    ],
)
def test_an_invalid_call_delta_is_rejected_with_the_reason(piece, expected):
    with pytest.raises(ValueError, match=expected):
        calls(piece)


def test_a_name_may_arrive_late_and_a_call_without_a_name_is_kept():
    late, nameless = calls(
        piece(0, "a", None, "{"), piece(0, "a", "f", "}"), piece(1, "b", None, "{}")
    )
    assert (late.name, late.arguments, nameless.name) == ("f", "{}", "unnamed")


def test_an_empty_object_before_other_arguments_is_discarded():
    (call,) = calls(piece(0, "a", "f", "{}"), piece(0, arguments='{"a": 1}'))
    assert call.arguments == '{"a": 1}'


def test_a_numeric_id_is_converted_to_text():
    (call,) = calls({"id": 5, "function": {"name": "f"}})
    assert call.id == "5"
