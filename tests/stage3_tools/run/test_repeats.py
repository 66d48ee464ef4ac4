import pytest

from stage0_gateway import Gateway, ImagePart, ScriptedModel, TextPart, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import Tool, ToolError, ToolLoopDeps, ToolRegistry, run_tool_loop
from stage3_tools.run.repeats import Repeats


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
        f'{{"status": "rejected", "message": "f was called {count} times in a row with the same '
        r'arguments, so it is not run again.\nUse the results above, call another tool, or answer."}'
    )


def test_the_same_call_is_noted_at_the_third_and_refused_from_the_fifth_in_a_row():
    assert told(Repeats(), *[call()] * 6) == ["", "", note(3), note(4), block(5), block(6)]


@pytest.mark.parametrize(
    "other", [call('{"a": 1}'), call(name="g")], ids=["other arguments", "other tool"]
)
def test_another_call_in_between_begins_the_count_anew(other):
    assert told(Repeats(), call(), call(), other, call(), call(), call()) == [
        "",
        "",
        "",
        "",
        "",
        note(3),
    ]


def test_the_id_of_a_call_does_not_matter():
    assert told(Repeats(), *(ToolCall(f"c{n}", "f", "{}") for n in range(3))) == ["", "", note(3)]


def test_the_same_arguments_written_otherwise_are_the_same():
    assert told(
        Repeats(), call('{"a":1,"b":2}'), call('{"a": 1, "b": 2}'), call('{"b":2,"a":1}')
    ) == [
        "",
        "",
        note(3),
    ]


async def test_the_note_stands_behind_a_result_of_parts_too():
    picture = ImagePart("AAAA")
    look = Tool("look", "", None, lambda arguments: picture, effect="read")
    decision = '{"tool": "look", "arguments": {}}'
    model = ScriptedModel([decision] * 3 + ['{"tool": null, "reply": "done"}'])
    async with Gateway("openai:m", transport=model) as gateway:
        context = ContextEngine()
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), ToolRegistry(look))
        result = await run_tool_loop(deps, await context.create_session(), "Look three times.")
    note = TextPart("\nNote: this is call 3 in a row with the same arguments.")
    told = [record.result.as_message().content for record in result.history]
    assert told == [(picture,), (picture,), (picture, note)]
