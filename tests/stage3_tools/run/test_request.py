import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine, Transcript
from stage2_output import OutputController
from stage3_tools import NativeDialect, Run, ToolLoopDeps, ToolLoopOptions, ToolRegistry
from stage3_tools.run.request import ask


def a_run(*tools, text="hi", **options):
    """A run, and the list of what its `chat` is called with."""
    given = []

    async def chat(messages, **settings):
        given.append((messages, settings))
        return ChatResponse(Message.assistant("hello"), "stop")

    deps = ToolLoopDeps(chat, ContextEngine(), OutputController(), ToolRegistry(*tools))
    options = {"dialect": NativeDialect(), **options}
    return RunState(deps, Transcript.of([Message.user(text)]), ToolLoopOptions(**options)), given


async def test_only_what_was_set_is_passed_on_to_the_model(recorder):
    run, given = a_run()
    await ask(run, run.deps.tool_registry)
    assert given == [((Message.user("hi"),), {})]
    run, given = a_run(recorder().tool, temperature=0.0, max_tokens=7)
    await ask(run, run.deps.tool_registry)
    [(messages, settings)] = given
    assert (messages, settings["temperature"], settings["max_tokens"]) == (run.shown, 0.0, 7)
    assert [spec.name for spec in settings["tools"]] == ["f"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_whoever_sees_a_request_before_it_is_sent_may_change_it_for_this_once(asynchronous):
    def shorter(messages, info):
        return [{"role": "user", "content": messages[0].text + "!"}]

    async def later(messages, info):
        return shorter(messages, info)

    run, given = a_run(before_send=later if asynchronous else shorter)
    await ask(run, run.deps.tool_registry)
    assert given == [((Message.user("hi!"),), {})]
    assert run.shown == (Message.user("hi!"),)
    assert [*await run.transcript.history()] == [Message.user("hi")]


async def test_a_request_is_sent_as_it_is_where_whoever_sees_it_returns_none():
    seen = []
    run, given = a_run(before_send=lambda messages, info: seen.append(messages))
    await ask(run, run.deps.tool_registry)
    assert (seen, given[0][0]) == ([[Message.user("hi")]], (Message.user("hi"),))


async def test_a_request_without_a_message_or_with_something_else_is_refused():
    for nothing in ([], ["hi"]):
        run, given = a_run(before_send=lambda messages, info, nothing=nothing: nothing)
        with pytest.raises(
            ValueError, match=r"before_send returned no message|A message is a Message"
        ):
            await ask(run, run.deps.tool_registry)
        assert given == []


async def test_a_streamed_reply_is_told_before_anything_is_sent():
    model, events = ScriptedModel(["hello"]), []
    async with Gateway("openai:m", transport=model) as gateway:
        deps = ToolLoopDeps(
            gateway.chat, ContextEngine(), OutputController(), ToolRegistry(), gateway.stream
        )
        run = RunState(
            deps,
            Transcript.of([Message.user("hi")]),
            ToolLoopOptions(on_event=events.append, dialect=NativeDialect()),
        )
        stream, _ = await ask(run, deps.tool_registry)
        assert ([event.name for event in events], model.requests) == (
            ["turn_start", "reply_stream"],
            [],
        )
        assert events[1].stream is stream
        assert (await stream.final_message()).content == "hello"


async def test_a_tool_that_reads_variables_is_there_from_the_first_reference_on(recorder):
    run, given = a_run(recorder().tool, text="Look at $VAR_REF{{var_1}}.")
    _, tools = await ask(run, run.deps.tool_registry)
    assert tools.names == ("f", "read_variable")
    assert [spec.name for spec in given[0][1]["tools"]] == ["f", "read_variable"]
    _, again = await ask(run, run.deps.tool_registry)
    assert again.names == tools.names


@pytest.mark.parametrize("options", [{}, {"variables_over": None}])
async def test_a_model_that_may_call_no_tool_cannot_read_variables_either(options, recorder):
    tools = [recorder().tool] if options else []
    run, _ = a_run(*tools, text="Look at $VAR_REF{{var_1}}.", **options)
    _, offered = await ask(run, run.deps.tool_registry)
    assert "read_variable" not in offered


async def test_two_calls_of_one_id_that_have_one_result_are_mended_and_not_taken_for_a_rivals(
    recorder,
):
    run, given = a_run(recorder().tool)
    twice = Message.assistant("", [ToolCall("a", "f"), ToolCall("a", "f")])
    await run.transcript.append(twice, Message.tool("ok", "a"))
    await ask(run, run.deps.tool_registry)
    assert [each.role for each in given[0][0]] == ["user", "assistant", "tool", "tool"]
    assert (await run.transcript.history()).check_history() == []
