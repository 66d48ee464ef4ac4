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
    NativeDialect,
    PromptDialect,
    ResultCache,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

LONG = "long text. " * 500  # 5,500 characters
DIALECTS = {"native": NativeDialect, "prompt": PromptDialect}


def call(tool="f", dialect="native", **arguments):
    """Return a reply with one call."""
    if dialect == "native":
        return Message.assistant("", [ToolCall("call", tool, json.dumps(arguments))])
    return Message.assistant(json.dumps({"tool": tool, "arguments": arguments}))


def answer(dialect="native", text="done"):
    return text if dialect == "native" else json.dumps({"tool": None, "reply": text})


def reference(number):
    return f"$VAR_REF{{{{var_{number}}}}}"


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return request.param


@pytest.fixture
def run(conversation):
    """Ask once, with one call after the other; return the conversation and the result."""

    async def asked(tools, calls, dialect="native", values=(), **options):
        talk = conversation([*calls, answer(dialect)], *tools)
        await talk.engine.create_session("s")
        talk._session = "s"
        for value in values:
            await talk.engine.variables.put("s", value)
        return talk, await talk.ask(dialect=DIALECTS[dialect](), **options)

    return asked


def shown(talk):
    """Return the result in the newest request, as the model sees it."""
    return talk.model.requests[-1].messages[-1].text.removeprefix("[Tool result for f]\n")


async def kept(talk, id):
    return await talk.engine.variables.get("s", id)


# ---- results


async def test_the_model_sees_a_preview_of_a_long_result_and_the_result_keeps_all(
    run, recorder, dialect
):
    talk, result = await run([recorder(returns=LONG).tool], [call(dialect=dialect)], dialect)
    (record,) = result.history
    assert (
        shown(talk)
        == f"{LONG[:200]}…\n[5500 characters in $VAR_REF{{{{{record.variable}}}}}: read_variable]"
    )
    assert record.message.text == shown(talk)
    assert (record.result.output, await kept(talk, record.variable)) == (LONG, LONG)
    (told,) = [event.result.output for event in talk.events if event.name == "tool_result"]
    assert (told, await talk.problems()) == (LONG, [])


@pytest.mark.parametrize(("length", "is_kept"), [(4000, False), (4001, True)])
async def test_a_result_above_4000_characters_becomes_a_variable(run, recorder, length, is_kept):
    talk, result = await run([recorder(returns="x" * length).tool], [call()])
    assert (result.history[0].variable is not None, len(shown(talk)) == length) == (
        is_kept,
        not is_kept,
    )


async def test_variables_over_sets_or_disables_the_length(run, recorder):
    talk, result = await run([recorder(returns="x" * 201).tool], [call()], variables_over=200)
    assert await kept(talk, result.history[0].variable) == "x" * 201
    talk, result = await run([recorder(returns=LONG).tool], [call(text=LONG)], variables_over=None)
    assert (shown(talk), result.history[0].variable) == (LONG, None)
    assert (await talk.history())[1].tool_calls[0].arguments == json.dumps({"text": LONG})


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [1, 2.5, None, True], "text": LONG},
        [LONG],
        LONG,
        json.dumps([1] * 3000),
        {"number": int("7" * 4299), "more": 1},
    ],
    ids=["object", "list", "text", "text that looks like JSON", "a long number"],
)
async def test_a_stored_value_keeps_its_type(run, recorder, value):
    talk, result = await run([recorder(returns=value).tool], [call()])
    again = await kept(talk, result.history[0].variable)
    assert (again, type(again)) == (value, type(value))


async def test_a_number_with_too_many_digits_for_python_is_stored_as_text(run, recorder):
    talk, result = await run([recorder(returns=[10**4999]).tool], [call()])
    assert len(await kept(talk, result.history[0].variable)) == 5002
    assert await talk.problems() == []


async def test_a_cached_value_keeps_its_type(run, recorder):
    value = {"text": LONG}
    noted = recorder(returns=value)
    talk, result = await run([noted.tool], [call(), call()], cache=ResultCache())
    assert ([each.result.cached for each in result.history], len(noted.seen)) == ([False, True], 1)
    assert [await kept(talk, each.variable) for each in result.history] == [value, value]


async def test_long_texts_among_images_become_variables_and_other_parts_are_unchanged(
    run, recorder
):
    image = ImagePart(data="aGk=", media_type="image/png")
    parts = (TextPart(LONG), image, TextPart("short"), TextPart("x" * 5000))
    talk, result = await run([recorder(returns=parts).tool], [call()])
    message = result.history[0].message
    assert [type(part) for part in message.content] == [TextPart, ImagePart, TextPart, TextPart]
    assert (message.content[1], message.content[2].text) == (image, "short")
    assert [part.text[200:202] for part in message.content[::3]] == ["…\n", "…\n"]
    assert (result.history[0].result.output, await kept(talk, result.history[0].variable)) == (
        parts,
        LONG,
    )


async def test_a_long_error_does_not_become_a_variable(run):
    def fail(arguments):
        raise ToolError("execution", LONG)

    talk, result = await run([Tool("f", "", None, fail)], [call()])
    assert (result.history[0].variable, shown(talk)) == (None, f"Error (execution): {LONG}")


async def test_notes_are_shown_after_the_preview(run, recorder):
    talk, _ = await run(
        [recorder(returns=LONG).tool], [call(x=1)], approve=lambda request: Edit({"x": 2})
    )
    assert shown(talk).endswith(
        ': read_variable]\nNote: a person changed the arguments of this call to {"x": 2}.'
    )


# ---- stored sessions


async def test_stored_results_survive_a_restart(tmp_path, recorder, dialect):
    path, noted = tmp_path / "sessions.db", recorder(returns={"text": LONG})

    async def process(*replies, question="Go.", **options):
        store, model = SqliteStore(path), ScriptedModel(replies)
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            engine = ContextEngine(store=store)
            if question == "Go.":
                await engine.create_session("s")
            deps = ToolLoopDeps(gateway.chat, engine, OutputController(), ToolRegistry(noted.tool))
            given = ToolLoopOptions(dialect=DIALECTS[dialect](), **options)
            result = await run_tool_loop(deps, "s", question, given, resume=question is None)
            problems = (await engine.history("s")).check_history()
        await store.aclose()
        return result, problems

    given = {"text": LONG, "n": 1}
    asked = await process(
        call(dialect=dialect, **given), question="Go.", approve=lambda request: Later()
    )
    assert (asked[0].status, noted.seen) == ("awaiting_approval", [])
    asked = await process(answer(dialect), question=None, approve=lambda request: Approve())
    (record,) = asked[0].history
    assert (noted.seen, asked[1]) == ([given], [])
    read = call("read_variable", dialect, id=record.variable, start=9, length=len(LONG))
    asked = await process(read, answer(dialect), question="And?")
    assert asked[0].history[0].result.output.startswith(f"{LONG}\n[characters 9 to ")
    assert asked[1] == []


# ---- references in arguments

VALUE = {"rows": [1, None], "text": "t"}


@pytest.mark.parametrize(
    ("written", "given"),
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
    ids=[
        *[
            "whole",
            "with a space",
            "in a text",
            "nested",
            "a key",
            "a number",
            "no nested references",
        ],
        *["nested in a text", "spaces inside", "not a reference"],
    ],
)
async def test_a_reference_in_arguments_is_replaced_by_the_value(
    run, recorder, written, given, dialect
):
    noted = recorder()
    values = [VALUE, "plain", 7, f"not {reference(2)} again"]
    _, result = await run([noted.tool], [call(dialect=dialect, x=written)], dialect, values)
    assert noted.seen == [{"x": given}]
    assert json.loads(result.history[0].arguments) == {"x": written}


async def test_arguments_are_validated_with_the_referenced_values(run, recorder):
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array"}},
        "additionalProperties": False,
    }
    noted = recorder(parameters=schema)
    talk, result = await run(
        [noted.tool], [call(x=reference(1)), call(x=reference(2))], values=[[1], "no"]
    )
    assert noted.seen == [{"x": [1]}]
    assert result.history[1].result.error.kind == "validation"
    assert "/x" in shown(talk)


async def test_an_unknown_reference_gets_an_error_that_lists_the_variables(run, recorder):
    noted = recorder()
    talk, result = await run([noted.tool], [call(x=[reference(9)])], values=["one", "two"])
    assert shown(talk) == (
        "Error (validation): Unknown variable 'var_9' in this session. Variables: var_1, var_2."
    )
    assert (noted.seen, result.history[0].result.error.kind) == ([], "validation")


async def test_references_of_users_and_tools_are_not_replaced(run, recorder):
    noted = recorder(returns=f"tool {reference(1)}")
    talk, _ = await run(
        [noted.tool], [call(x=1)], values=["secret"], question=f"user {reference(1)}"
    )
    texts = [each.text for each in talk.model.requests[-1].messages]
    assert (texts[0], texts[-1]) == (f"user {reference(1)}", f"tool {reference(1)}")
    assert "secret" not in "".join(texts)


async def test_references_in_edited_arguments_are_not_replaced(run, recorder):
    noted = recorder()
    edit = Edit({"x": reference(1)})
    await run([noted.tool], [call(x=reference(1))], values=["secret"], approve=lambda request: edit)
    assert noted.seen == [{"x": reference(1)}]


async def test_the_approver_receives_the_referenced_value(run, recorder):
    seen = []
    tool = recorder().tool
    await run(
        [tool],
        [call(x=reference(1))],
        values=[VALUE],
        approve=lambda r: seen.append(r.arguments) or True,
    )
    assert seen == [{"x": VALUE}]


@pytest.mark.parametrize("written", ['{"x": "$VAR_REF{{var_1}}",}', "{x: '$VAR_REF{{var_1}}'}"])
async def test_repairs_of_arguments_with_references_are_reported(run, recorder, written):
    noted, plain = recorder(), written.replace(reference(1), "plain")
    calls = [Message.assistant("", [ToolCall("call", "f", each)]) for each in (written, plain)]
    _, result = await run([noted.tool], calls, values=["value"])
    first, second = [[each.name for each in record.result.repairs] for record in result.history]
    assert (noted.seen, first == second, len(first) > 0) == (
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


async def test_with_variables_disabled_a_reference_is_text(run, recorder):
    noted = recorder()
    talk, _ = await run([noted.tool], [call(x=reference(1))], values=["value"], variables_over=None)
    assert noted.seen == [{"x": reference(1)}]
    assert [[tool.name for tool in request.tools] for request in talk.model.requests] == [
        ["f"],
        ["f"],
    ]


# ---- read_variable

TREE = {"a/b": {"~c": [10, {"d": "deep"}]}, "": 1, "list": [[], 2], "~1": "tilde"}
COMPACT = json.dumps(TREE, separators=(",", ":"))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"id": "var_1"}, "0123456789"),
        ({"id": reference(1)}, "0123456789"),
        ({"id": " $VAR_REF{{ var_1 }} "}, "0123456789"),
        ({"id": "var_1", "start": 3}, "3456789\n[characters 3 to 10 of 10]"),
        ({"id": "var_1", "start": 3, "length": 2}, "34\n[characters 3 to 5 of 10]"),
        ({"id": "var_1", "length": 10}, "0123456789"),
        ({"id": "var_1", "length": 9}, "012345678\n[characters 0 to 9 of 10]"),
        ({"id": "var_1", "start": 99}, "\n[characters 99 to 99 of 10]"),
        ({"id": "var_2"}, COMPACT),
    ],
)
async def test_read_variable_returns_the_whole_value_or_a_part(run, recorder, asked, told):
    talk, _ = await run(
        [recorder().tool],
        [call("read_variable", **asked)],
        values=["0123456789", TREE],
        question=reference(1),
    )
    assert shown(talk) == told


async def test_a_value_from_read_variable_does_not_become_a_variable_again(run, recorder):
    calls = [call(), call("read_variable", id=reference(4))]
    talk, result = await run([recorder(returns=LONG).tool], calls)
    assert (result.history[0].variable, result.history[1].variable) == ("var_4", None)
    assert shown(talk) == LONG


def offered(talk):
    """Return the tools of each request."""
    if talk.model.requests[0].tools:
        return [[tool.name for tool in request.tools] for request in talk.model.requests]
    lines = [request.messages[0].text.split("\n") for request in talk.model.requests]
    return [
        [json.loads(line)["name"] for line in each if line.startswith('{"name"')] for each in lines
    ]


async def test_read_variable_is_offered_from_the_first_reference_on(run, recorder, dialect):
    noted = recorder(returns="short")
    talk, _ = await run([noted.tool], [call(dialect=dialect)], dialect)
    assert offered(talk) == [["f"], ["f"]]
    noted = recorder(returns=LONG)
    talk, _ = await run([noted.tool], [call(dialect=dialect)], dialect)
    assert offered(talk) == [["f"], ["f", "read_variable"]]


async def test_read_variable_cannot_be_called_in_the_last_request(run, recorder):
    talk, result = await run([recorder(returns=LONG).tool], [call()], max_tool_rounds=1)
    assert [request.tool_choice for request in talk.model.requests] == [None, "none"]
    assert result.reply == "done"


async def test_a_tool_named_read_variable_takes_precedence(run, recorder):
    mine = recorder("read_variable", returns="mine")
    calls = [call(), call("read_variable", id="x")]
    talk, _ = await run([recorder(returns=LONG).tool, mine.tool], calls)
    assert (offered(talk), mine.seen) == ([["f", "read_variable"]] * 3, [{"id": "x"}])
    assert shown(talk) == "mine"
