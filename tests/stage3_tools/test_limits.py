import pytest

from stage0_gateway import ToolCall
from stage3_tools import ToolError
from stage3_tools.limits import Repeats


def call(arguments="{}", name="f"):
    return ToolCall("any", name, arguments)


def told(repeats, *calls):
    """What each call is told: a note, or the refusal."""
    answers = []
    for each in calls:
        try:
            answers.append(repeats.note(each))
        except ToolError as error:
            answers.append(error.for_model)
    return answers


def note(count):
    return f"\nNote: this is call {count} in a row with the same arguments."


def block(count):
    return (
        f"Error (rejected): f was called with the same arguments {count} times in a row and is not run again."
        "\nUse the results above, call another tool, or answer."
    )


def test_the_same_call_is_noted_at_the_third_and_refused_from_the_fifth_in_a_row():
    assert told(Repeats(), *[call()] * 6) == ["", "", note(3), note(4), block(5), block(6)]


@pytest.mark.parametrize("other", [call('{"a": 1}'), call(name="g")], ids=["other arguments", "other tool"])
def test_another_call_in_between_begins_the_count_anew(other):
    assert told(Repeats(), call(), call(), other, call(), call(), call()) == ["", "", "", "", "", note(3)]


def test_the_id_of_a_call_does_not_matter():
    assert told(Repeats(), *(ToolCall(f"c{n}", "f", "{}") for n in range(3))) == ["", "", note(3)]


def test_the_same_arguments_written_otherwise_are_the_same():
    assert told(Repeats(), call('{"a":1,"b":2}'), call('{"a": 1, "b": 2}'), call('{"b":2,"a":1}')) == [
        "",
        "",
        note(3),
    ]
