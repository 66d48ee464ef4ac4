from stage0_gateway import Gateway, ImagePart, ScriptedModel, TextPart, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import Tool, ToolError, ToolLoopDeps, ToolRegistry, run_tool_loop
from stage3_tools.run.counts import Repeats
from tests.stage3_tools.conversation import DONE
from tests.tables import for_each


def call(arguments="{}", name="f"):
    return ToolCall("any", name, arguments)


def notes_of(repeats, *calls):
    """Return the note or the error text for each call."""
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


def test_a_repeated_call_gets_a_note_from_the_third_time_and_is_rejected_from_the_fifth():
    assert notes_of(Repeats(), *[call()] * 6) == ["", "", note(3), note(4), block(5), block(6)]


@for_each("other", [call('{"a": 1}'), call(name="g")])
def test_a_different_call_resets_the_count(other):
    assert notes_of(Repeats(), call(), call(), other, call(), call(), call()) == [
        "",
        "",
        "",
        "",
        "",
        note(3),
    ]


def test_the_count_ignores_call_ids():
    assert notes_of(Repeats(), *(ToolCall(f"c{n}", "f", "{}") for n in range(3))) == [
        "",
        "",
        note(3),
    ]


def test_the_count_ignores_how_arguments_are_formatted():
    assert notes_of(
        Repeats(), call('{"a":1,"b":2}'), call('{"a": 1, "b": 2}'), call('{"b":2,"a":1}')
    ) == [
        "",
        "",
        note(3),
    ]


async def test_the_note_is_appended_to_a_result_of_parts():
    picture = ImagePart("AAAA")
    look = Tool("look", "", None, lambda arguments: picture, effect="read")
    decision = '{"tool": "look", "arguments": {}}'
    model = ScriptedModel([decision] * 3 + [DONE])
    async with Gateway("openai:m", transport=model) as gateway:
        context = ContextEngine()
        deps = ToolLoopDeps(gateway, context, OutputController(), ToolRegistry(look))
        result = await run_tool_loop(deps, await context.create_session(), "Look three times.")
    note = TextPart("\nNote: this is call 3 in a row with the same arguments.")
    contents = [record.result.as_message().content for record in result.history]
    assert contents == [(picture,), (picture,), (picture, note)]
