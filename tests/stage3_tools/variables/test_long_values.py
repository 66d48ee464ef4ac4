"""Tests of long values: stored as variables, passed by reference, and read back."""

import json

import pytest

from stage0_gateway import Gateway, ImagePart, Message, ScriptedModel, TextPart, ToolCall
from stage1_context import ContextEngine, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    Approve,
    Edit,
    Later,
    ResultCache,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)
from tests.stage3_tools.conversation import DIALECTS, Recorder, answer_in, call_in
from tests.tables import for_each

LONG = "long text. " * 500  # 5,500 characters


def call(name="f", dialect="native", **arguments):
    return call_in(dialect, name, **arguments)


def reference(number):
    return f"$VAR_REF{{{{var_{number}}}}}"


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return request.param


@pytest.fixture
def run(new_conversation):
    """Ask once, with one call after the other; return the conversation and the result."""

    async def asked(tools, calls, dialect="native", values=(), **options):
        conversation = new_conversation([*calls, answer_in(dialect)], *tools)
        await conversation.begin()
        for value in values:
            await conversation.engine.variables.put("s", value)
        return conversation, await conversation.ask(dialect=DIALECTS[dialect](), **options)

    return asked


def shown(conversation):
    """Return the result in the newest request, as the model sees it."""
    return conversation.model.requests[-1].messages[-1].text.removeprefix("[Tool result for f]\n")


async def stored_value(conversation, id):
    return await conversation.engine.variables.get("s", id)


# ---- results


async def test_the_model_sees_a_preview_of_a_long_result_and_the_result_keeps_all(run, dialect):
    conversation, result = await run(
        [Recorder(returns=LONG).tool], [call(dialect=dialect)], dialect
    )
    (record,) = result.history
    assert (
        shown(conversation)
        == f"{LONG[:200]}…\n[5500 characters in $VAR_REF{{{{{record.variable}}}}}: read_variable]"
    )
    assert record.message.text == shown(conversation)
    assert (record.result.output, await stored_value(conversation, record.variable)) == (LONG, LONG)
    (output,) = [
        event.result.output for event in conversation.events if event.name == "tool_result"
    ]
    assert (output, await conversation.problems()) == (LONG, [])


@for_each("length, is_stored", [(4000, False), (4001, True)])
async def test_a_result_above_4000_characters_becomes_a_variable(run, length, is_stored):
    conversation, result = await run([Recorder(returns="x" * length).tool], [call()])
    assert (result.history[0].variable is not None, len(shown(conversation)) == length) == (
        is_stored,
        not is_stored,
    )


async def test_variables_over_sets_or_disables_the_length(run):
    conversation, result = await run(
        [Recorder(returns="x" * 201).tool], [call()], variables_over=200
    )
    assert await stored_value(conversation, result.history[0].variable) == "x" * 201
    conversation, result = await run(
        [Recorder(returns=LONG).tool], [call(text=LONG)], variables_over=None
    )
    assert (shown(conversation), result.history[0].variable) == (LONG, None)
    assert (await conversation.history())[1].tool_calls[0].arguments == json.dumps({"text": LONG})


@for_each(
    "value",
    [
        {"rows": [1, 2.5, None, True], "text": LONG},
        [LONG],
        LONG,
        json.dumps([1] * 3000),
        {"number": int("7" * 4299), "more": 1},
    ],
)
async def test_a_stored_value_keeps_its_type(run, value):
    conversation, result = await run([Recorder(returns=value).tool], [call()])
    again = await stored_value(conversation, result.history[0].variable)
    assert (again, type(again)) == (value, type(value))


async def test_a_number_with_too_many_digits_for_python_is_stored_as_text(run):
    conversation, result = await run([Recorder(returns=[10**4999]).tool], [call()])
    assert len(await stored_value(conversation, result.history[0].variable)) == 5002
    assert await conversation.problems() == []


async def test_a_cached_value_keeps_its_type(run):
    value = {"text": LONG}
    recorder = Recorder(returns=value)
    conversation, result = await run([recorder.tool], [call(), call()], cache=ResultCache())
    assert ([each.result.cached for each in result.history], len(recorder.seen)) == (
        [False, True],
        1,
    )
    assert [await stored_value(conversation, each.variable) for each in result.history] == [
        value,
        value,
    ]


async def test_long_texts_among_images_become_variables_and_other_parts_are_unchanged(run):
    image = ImagePart(data="aGk=", media_type="image/png")
    parts = (TextPart(LONG), image, TextPart("short"), TextPart("x" * 5000))
    conversation, result = await run([Recorder(returns=parts).tool], [call()])
    message = result.history[0].message
    assert [type(part) for part in message.content] == [TextPart, ImagePart, TextPart, TextPart]
    assert (message.content[1], message.content[2].text) == (image, "short")
    assert [part.text[200:202] for part in message.content[::3]] == ["…\n", "…\n"]
    assert (
        result.history[0].result.output,
        await stored_value(conversation, result.history[0].variable),
    ) == (
        parts,
        LONG,
    )


async def test_a_long_error_does_not_become_a_variable(run):
    def fail(arguments):
        raise ToolError("execution", LONG)

    conversation, result = await run([Tool("f", "", None, fail)], [call()])
    assert (result.history[0].variable, shown(conversation)) == (None, f"Error (execution): {LONG}")


async def test_notes_are_shown_after_the_preview(run):
    conversation, _ = await run(
        [Recorder(returns=LONG).tool],
        [call(x=1)],
        approve=lambda request: Edit({"x": 2}),
        approve_all=True,
    )
    assert shown(conversation).endswith(
        ': read_variable]\nNote: a person changed the arguments of this call to {"x": 2}.'
    )


# ---- stored sessions


async def test_stored_results_survive_a_restart(tmp_path, dialect):
    path, recorder = tmp_path / "sessions.db", Recorder(returns={"text": LONG})

    async def process(*replies, question="Go.", **options):
        store, model = SqliteStore(path), ScriptedModel(replies)
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            engine = ContextEngine(store=store)
            if question == "Go.":
                await engine.create_session("s")
            deps = ToolLoopDeps(gateway, engine, OutputController(), ToolRegistry(recorder.tool))
            given = ToolLoopOptions(dialect=DIALECTS[dialect](), **options)
            result = await run_tool_loop(deps, "s", question, given, resume=question is None)
            problems = (await engine.history("s")).check_history()
        await store.aclose()
        return result, problems

    given = {"text": LONG, "n": 1}
    asked = await process(
        call(dialect=dialect, **given),
        question="Go.",
        approve=lambda request: Later(),
        approve_all=True,
    )
    assert (asked[0].status, recorder.seen) == ("awaiting_approval", [])
    asked = await process(
        answer_in(dialect), question=None, approve=lambda request: Approve(), approve_all=True
    )
    (record,) = asked[0].history
    assert (recorder.seen, asked[1]) == ([given], [])
    read = call("read_variable", dialect, id=record.variable, start=9, length=len(LONG))
    asked = await process(read, answer_in(dialect), question="And?")
    assert asked[0].history[0].result.output.startswith(f"{LONG}\n[characters 9 to ")
    assert asked[1] == []


# ---- references in arguments

VALUE = {"rows": [1, None], "text": "t"}


@for_each(
    "written, given",
    [
        (reference(1), VALUE),
        (" " + reference(1), " " + json.dumps(VALUE)),
        (f"It says: {reference(1)}, {reference(2)}!", f"It says: {json.dumps(VALUE)}, plain!"),
        ([reference(2), {"deep": [reference(1)]}], ["plain", {"deep": [VALUE]}]),
        ({reference(2): reference(2)}, {reference(2): "plain"}),
        (reference(3), 7),
        (reference(4), f"not {reference(2)} again"),
        (f"({reference(4)})", f"(not {reference(2)} again)"),
        ("$VAR_REF{{ var_2 }}", "plain"),
        ("$VAR_REF{var_2}", "$VAR_REF{var_2}"),
    ],
)
async def test_a_reference_in_arguments_is_replaced_by_the_value(run, written, given, dialect):
    recorder = Recorder()
    values = [VALUE, "plain", 7, f"not {reference(2)} again"]
    _, result = await run([recorder.tool], [call(dialect=dialect, x=written)], dialect, values)
    assert recorder.seen == [{"x": given}]
    assert json.loads(result.history[0].arguments) == {"x": written}


async def test_arguments_are_validated_with_the_referenced_values(run):
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array"}},
        "additionalProperties": False,
    }
    recorder = Recorder(parameters=schema)
    conversation, result = await run(
        [recorder.tool], [call(x=reference(1)), call(x=reference(2))], values=[[1], "no"]
    )
    assert recorder.seen == [{"x": [1]}]
    assert result.history[1].result.error.kind == "validation"
    assert "/x" in shown(conversation)


async def test_an_unknown_reference_gets_an_error_that_lists_the_variables(run):
    recorder = Recorder()
    conversation, result = await run(
        [recorder.tool], [call(x=[reference(9)])], values=["one", "two"]
    )
    assert shown(conversation) == (
        "Error (validation): Unknown variable 'var_9' in this session. Variables: var_1, var_2."
    )
    assert (recorder.seen, result.history[0].result.error.kind) == ([], "validation")


async def test_references_of_users_and_tools_are_not_replaced(run):
    recorder = Recorder(returns=f"tool {reference(1)}")
    conversation, _ = await run(
        [recorder.tool], [call(x=1)], values=["secret"], question=f"user {reference(1)}"
    )
    texts = [each.text for each in conversation.model.requests[-1].messages]
    assert (texts[0], texts[-1]) == (f"user {reference(1)}", f"tool {reference(1)}")
    assert "secret" not in "".join(texts)


async def test_references_in_edited_arguments_are_not_replaced(run):
    recorder = Recorder()
    edit = Edit({"x": reference(1)})
    await run(
        [recorder.tool],
        [call(x=reference(1))],
        values=["secret"],
        approve=lambda request: edit,
        approve_all=True,
    )
    assert recorder.seen == [{"x": reference(1)}]


async def test_the_approver_receives_the_referenced_value(run):
    seen = []
    tool = Recorder().tool
    await run(
        [tool],
        [call(x=reference(1))],
        values=[VALUE],
        approve=lambda r: seen.append(r.arguments) or True,
        approve_all=True,
    )
    assert seen == [{"x": VALUE}]


@for_each("written", ['{"x": "$VAR_REF{{var_1}}",}', "{x: '$VAR_REF{{var_1}}'}"])
async def test_repairs_of_arguments_with_references_are_reported(run, written):
    recorder, plain = Recorder(), written.replace(reference(1), "plain")
    calls = [Message.assistant("", [ToolCall("call", "f", each)]) for each in (written, plain)]
    _, result = await run([recorder.tool], calls, values=["value"])
    first, second = [[each.name for each in record.result.repairs] for record in result.history]
    assert (recorder.seen, first == second, len(first) > 0) == (
        [{"x": "value"}, {"x": "plain"}],
        True,
        True,
    )


async def test_the_cache_and_the_idempotency_key_depend_on_the_value(run):
    keys = []

    async def look(arguments, context):
        keys.append(context.idempotency_key)
        return "ok"

    calls = [call(x=reference(1)), call(x="value"), call(x=reference(2)), call(x=reference(3))]
    tool = Tool("f", "", None, look, effect="read")
    _, result = await run([tool], calls, values=["value", "value", "other"], cache=ResultCache())
    assert [record.result.cached for record in result.history] == [False, True, True, False]
    assert len(set(keys)) == 2


async def test_with_variables_disabled_a_reference_is_text(run):
    recorder = Recorder()
    conversation, _ = await run(
        [recorder.tool], [call(x=reference(1))], values=["value"], variables_over=None
    )
    assert recorder.seen == [{"x": reference(1)}]
    assert [[tool.name for tool in request.tools] for request in conversation.model.requests] == [
        ["f"],
        ["f"],
    ]


# ---- read_variable

TREE = {"a/b": {"~c": [10, {"d": "deep"}]}, "": 1, "list": [[], 2], "~1": "tilde"}
COMPACT = json.dumps(TREE, separators=(",", ":"))


@for_each(
    "asked, text",
    [
        ({"id": "var_1"}, "0123456789"),
        ({"id": reference(1)}, "0123456789"),
        ({"id": " $VAR_REF{{ var_1 }} "}, "0123456789"),
        (
            {"id": "var_9"},
            "Error (not_found): Unknown variable 'var_9' in this session. Variables: var_1, var_2.",
        ),
        ({"id": "var_1", "start": 3}, "3456789\n[characters 3 to 10 of 10]"),
        ({"id": "var_1", "start": 3, "length": 2}, "34\n[characters 3 to 5 of 10]"),
        ({"id": "var_1", "length": 10}, "0123456789"),
        ({"id": "var_1", "length": 9}, "012345678\n[characters 0 to 9 of 10]"),
        ({"id": "var_1", "start": 99}, "\n[characters 99 to 99 of 10]"),
        ({"id": "var_2"}, COMPACT),
        ({"id": "var_2", "pointer": ""}, COMPACT),
        ({"id": "var_2", "pointer": "/a~1b/~0c/1"}, '{"d":"deep"}'),
        ({"id": "var_2", "pointer": "/a~1b/~0c/1/d", "length": 2}, "de\n[characters 0 to 2 of 4]"),
        ({"id": "var_2", "pointer": "/"}, "1"),
        ({"id": "var_2", "pointer": "/~01"}, "tilde"),
        ({"id": "var_2", "pointer": "list/1"}, "2"),
    ],
)
async def test_read_variable_returns_the_whole_value_or_a_part(run, asked, text):
    conversation, _ = await run(
        [Recorder().tool],
        [call("read_variable", **asked)],
        values=["0123456789", TREE],
        question=reference(1),
    )
    assert shown(conversation) == text


@for_each(
    "pointer, text",
    [
        ("/x", "There is no /x: the keys of the value are 'a/b', '', 'list', '~1'."),
        ("/list/2", "There is no /list/2: /list is a list of 2 items, numbered from 0."),
        ("/list/-1", "There is no /list/-1: /list is a list of 2 items, numbered from 0."),
        (
            "/list/1/a",
            "There is no /list/1/a: /list/1 is not an object or a list. Use start and length.",
        ),
        (
            "/list/" + "1" * 5000,
            f"There is no /list/{'1' * 5000}: /list is a list of 2 items, numbered from 0.",
        ),
    ],
)
async def test_a_pointer_to_nothing_is_explained(run, pointer, text):
    asked = [call("read_variable", id="var_1", pointer=pointer)]
    _, result = await run([Recorder().tool], asked, values=[TREE], question=reference(1))
    error = result.history[0].result.error
    assert (error.kind, error.message) == ("not_found", text)


async def test_a_value_from_read_variable_does_not_become_a_variable_again(run):
    calls = [call(), call("read_variable", id=reference(4))]
    conversation, result = await run([Recorder(returns=LONG).tool], calls)
    assert (result.history[0].variable, result.history[1].variable) == ("var_4", None)
    assert shown(conversation) == LONG


def offered(conversation):
    """Return the tools of each request."""
    if conversation.model.requests[0].tools:
        return [[tool.name for tool in request.tools] for request in conversation.model.requests]
    lines = [request.messages[0].text.split("\n") for request in conversation.model.requests]
    return [
        [json.loads(line)["name"] for line in each if line.startswith('{"name"')] for each in lines
    ]


async def test_read_variable_is_offered_from_the_first_reference_on(run, dialect):
    recorder = Recorder(returns="short")
    conversation, _ = await run([recorder.tool], [call(dialect=dialect)], dialect)
    assert offered(conversation) == [["f"], ["f"]]
    recorder = Recorder(returns=LONG)
    conversation, _ = await run([recorder.tool], [call(dialect=dialect)], dialect)
    assert offered(conversation) == [["f"], ["f", "read_variable"]]


async def test_read_variable_cannot_be_called_in_the_last_request(run):
    conversation, result = await run([Recorder(returns=LONG).tool], [call()], max_tool_rounds=1)
    assert [request.tool_choice for request in conversation.model.requests] == [None, "none"]
    assert result.reply == "done"


async def test_a_tool_named_read_variable_takes_precedence(run):
    mine = Recorder("read_variable", returns="mine")
    calls = [call(), call("read_variable", id="x")]
    conversation, _ = await run([Recorder(returns=LONG).tool, mine.tool], calls)
    assert (offered(conversation), mine.seen) == ([["f", "read_variable"]] * 3, [{"id": "x"}])
    assert shown(conversation) == "mine"
