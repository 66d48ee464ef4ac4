"""Tests of `execute_tool_chain`: rounds, context, endings and approval."""

import asyncio
import json
from dataclasses import replace

import pytest

from stage0_gateway import (
    ChatResponse,
    Gateway,
    Message,
    ScriptedModel,
    ServerFailed,
    ToolCall,
    Usage,
)
from stage1_context import ContextEngine, MessageHistory
from stage3_tools import (
    Always,
    Approve,
    Edit,
    Later,
    PromptDialect,
    Reject,
    RunLimits,
    Tool,
    ToolChainOptions,
    ToolRegistry,
    execute_tool_chain,
)
from tests.stage3_tools.clock import without_waiting
from tests.stage3_tools.conversation import Recorder, chat_of, native_calls, unused_chat
from tests.tables import for_each

USED = Usage(10, 5)  # the usage that ScriptedModel reports for each reply


def decision(tool=None, reply=None, **arguments):
    return json.dumps(
        {"tool": tool, "reply": reply} if tool is None else {"tool": tool, "arguments": arguments}
    )


def roles_and_texts(messages):
    return [(each.role, each.text) for each in messages]


def problems(result):
    return MessageHistory(result.messages.complete).check_history()


def statuses(result):
    return [record.result.status for record in result.tool_call_history]


@pytest.fixture
def chain():
    """Run a chain, with the requests of the last run in `chain.requests`. All scripted replies must
    be used."""

    async def run(first, *tools, replies=("done",), chat=None, streamed=False, **options):
        model = ScriptedModel(() if chat else replies)
        run.requests = model.requests
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            given = ToolChainOptions(chat or gateway, stream=streamed, **options)
            return await execute_tool_chain(ToolRegistry(*tools), first, given)

    return run


# ---- successful chains


async def test_a_chain_runs_a_call_and_returns_its_result_and_the_reply(chain):
    recorder = Recorder(returns={"celsius": 22})
    first = native_calls(("f", {"city": "Oslo"}), text="Let me look.")
    result = await chain(ChatResponse(first, "tool_calls", usage=Usage(3, 4)), recorder.tool)
    assert recorder.seen == [{"city": "Oslo"}]
    (request,) = chain.requests
    answer = Message.tool('{"celsius":22}', "a", name="f")
    assert roles_and_texts(request.messages) == roles_and_texts([first, answer])
    assert [tool.name for tool in request.tools] == ["f"]
    assert result.messages.tool_chain == (first, answer, Message.assistant("done"))
    (record,) = result.tool_call_history
    assert (record.id, record.name, record.arguments) == ("a", "f", '{"city": "Oslo"}')
    assert (record.result.output, record.message, record.round) == ('{"celsius":22}', answer, 1)
    assert (record.usage, record.result.error) == (Usage(3, 4), None)
    assert (record.variable, record.arguments_variable) == (None, None)
    assert result == replace(
        result,
        reply="done",
        usage=Usage(13, 9),
        cost=None,
        status="completed",
        status_reason=None,
        error=None,
    )
    assert result.response_content.startswith("Let me look.\n\n**[Tool Execution Log]**: f\n")
    assert result.response_content.endswith("\n\ndone")


async def test_a_chain_runs_as_many_rounds_as_the_model_requests_and_counts_them(chain):
    recorder = Recorder()
    replies = [native_calls(("f", {"x": 2}), ("f", {"x": 3})), "done"]
    result = await chain(native_calls(("f", {"x": 1})), recorder.tool, replies=replies)
    assert recorder.seen == [{"x": 1}, {"x": 2}, {"x": 3}]
    history, stats = result.tool_call_history, result.stats
    assert [(each.round, each.usage) for each in history] == [(1, None), (2, USED), (2, USED)]
    assert (stats.total_rounds, stats.total_calls) == (2, 3)
    assert stats.end_time == stats.start_time + stats.total_time
    times = [stats.start_time, *(time for each in history for time in (each.started, each.ended))]
    assert all(time >= stats.start_time for time in times)


async def test_a_first_reply_without_calls_is_the_final_result(chain):
    hello = Message.assistant("Hello!")
    for first in (hello, ChatResponse(hello, "stop")):
        result = await chain(first, Recorder().tool, replies=())
        assert (result.reply, result.status, result.response_content) == (
            "Hello!",
            "completed",
            "Hello!",
        )
        assert (result.tool_chain_content, result.hint_size, result.as_message()) == ("", 0, hello)
        assert (result.stats.total_rounds, result.stats.total_calls) == (0, 0)


async def test_results_of_several_calls_are_in_call_order_not_in_completion_order(chain):
    second = asyncio.Event()

    async def slow(arguments):
        await second.wait()
        return "slow"

    async def quick(arguments):
        second.set()
        return "quick"

    tools = (
        Tool("slow", "", None, slow, effect="read"),
        Tool("quick", "", None, quick, effect="read"),
    )
    result = await chain(native_calls(("slow", {}), ("quick", {}), ("none", {})), *tools)
    tail = [
        (each.tool_call_id, each.text.split("\n")[0]) for each in chain.requests[0].messages[1:]
    ]
    assert tail == [
        ("a", "slow"),
        ("b", "quick"),
        ("c", "Error (not_found): There is no tool named 'none'. Available tools: slow, quick."),
    ]
    assert (statuses(result), problems(result)) == (["completed", "completed", "error"], [])


async def test_the_first_reply_may_be_a_decision_written_as_text(chain):
    recorder = Recorder()
    first = Message.assistant(decision("f", x=1))
    context = [Message.system("Be brief."), Message.user("Go.")]
    result = await chain(
        first,
        recorder.tool,
        replies=[decision(reply="done")],
        dialect=PromptDialect(),
        context_messages=context,
    )
    assert (result.reply, recorder.seen) == ("done", [{"x": 1}])
    (request,) = chain.requests
    assert request.tools == ()
    assert "To call a tool" in request.messages[0].text
    assert roles_and_texts(request.messages[1:]) == [
        ("user", "Go."),
        ("assistant", decision("f", x=1)),
        ("user", "[Tool result for f]\nok"),
    ]
    assert [each.role for each in result.messages.tool_chain] == ["assistant", "tool", "assistant"]
    assert (problems(result), result.response_content[-6:]) == ([], "\n\ndone")


async def test_usage_and_cost_of_all_replies_are_added_up(chain):
    chat = chat_of(ChatResponse(Message.assistant("done"), "stop", usage=Usage(1, 2), cost=0.25))
    first = ChatResponse(native_calls(("f", {})), "tool_calls", usage=Usage(10, 20), cost=0.5)
    result = await chain(first, Recorder().tool, chat=chat)
    assert (result.usage, result.cost) == (Usage(11, 22), 0.75)
    result = await chain(
        first, Recorder().tool, chat=chat_of(ChatResponse(Message.assistant("done"), "stop"))
    )
    assert (result.usage, result.cost) == (Usage(10, 20), 0.5)


async def test_a_chain_becomes_one_message_of_hint_and_readable_text(chain):
    result = await chain(native_calls(("f", {})), Recorder().tool)
    text = result.as_message().text
    assert (text[: result.hint_size], text[result.hint_size :]) == (
        result.tool_chain_content,
        result.response_content,
    )
    assert result.tool_chain_content.startswith("<SYSTEM-CONTEXT>\n")


# ---- the context


async def test_the_context_is_sent_with_every_request_and_returned_separately(chain):
    context = [{"role": "system", "content": "Be brief."}, Message.user("Go.")]
    result = await chain(native_calls(("f", {})), Recorder().tool, context_messages=context)
    assert roles_and_texts(chain.requests[0].messages)[:2] == [
        ("system", "Be brief."),
        ("user", "Go."),
    ]
    assert result.messages.context == (Message.system("Be brief."), Message.user("Go."))
    assert [each.role for each in result.messages.tool_chain] == ["assistant", "tool", "assistant"]
    assert result.messages.complete == result.messages.context + result.messages.tool_chain
    assert problems(result) == []


async def test_a_first_reply_at_the_end_of_the_context_is_not_duplicated(chain):
    first = native_calls(("f", {}))
    result = await chain(first, Recorder().tool, context_messages=[Message.user("Go."), first])
    assert [each.role for each in chain.requests[0].messages] == ["user", "assistant", "tool"]
    assert (result.messages.context, problems(result)) == ((Message.user("Go."),), [])


@for_each("text", [decision("f"), decision(reply="done")])
async def test_a_textual_decision_at_the_end_of_the_context_is_not_duplicated(chain, text):
    first, calls = Message.assistant(text), '"f"' in text
    given = {"dialect": PromptDialect(), "context_messages": [Message.user("Go."), first]}
    result = await chain(first, Recorder().tool, replies=[decision(reply="done")] * calls, **given)
    assert result.messages.context == (Message.user("Go."),)
    roles = ["assistant", "tool", "assistant"] if calls else ["assistant"]
    assert [each.role for each in result.messages.tool_chain] == roles
    assert (result.reply, problems(result)) == ("done", [])


async def test_a_different_reply_at_the_end_of_the_context_is_kept(chain):
    for other in (native_calls(("f", {"x": 0})), Message.assistant("Let me see.")):
        context = [Message.user("Go."), other]
        result = await chain(native_calls(("f", {})), Recorder().tool, context_messages=context)
        assert (result.messages.context, len(result.messages.tool_chain)) == (tuple(context), 3)


async def test_the_same_call_in_an_earlier_reply_is_a_separate_call(chain):
    recorder = Recorder()
    done = [native_calls(("f", {}), text="before"), Message.tool("before", "a")]
    result = await chain(
        native_calls(("f", {})), recorder.tool, context_messages=[Message.user("Go."), *done]
    )
    ids = [each.tool_calls[0].id for each in result.messages.complete if each.tool_calls]
    assert (ids[0], len(set(ids)), recorder.seen) == ("a", 2, [{}])
    assert (result.tool_call_history[0].id, problems(result)) == (ids[1], [])


async def test_an_invalid_context_is_repaired_for_the_model_and_returned_unchanged(chain):
    context = [Message.user("Go."), native_calls(("f", {}), text="before"), Message.user("Well?")]
    result = await chain(native_calls(("f", {})), Recorder().tool, context_messages=context)
    assert [each.role for each in chain.requests[0].messages] == [
        *["user", "assistant", "tool", "user"],
        *["assistant", "tool"],
    ]
    assert chain.requests[0].messages[2].text.startswith("[interrupted] ")
    assert (result.messages.context, len(result.messages.tool_chain)) == (tuple(context), 3)


async def test_the_system_prompt_is_sent_but_not_returned_with_the_messages(chain):
    result = await chain(native_calls(("f", {})), Recorder().tool, system_prompt="Be brief.")
    assert roles_and_texts(chain.requests[0].messages)[0] == ("system", "Be brief.")
    assert "system" not in [each.role for each in result.messages.complete]


async def test_the_first_reply_may_read_variables_of_the_context(chain):
    engine = ContextEngine()
    await engine.create_session("s")
    id = await engine.variables.put("s", "kept")
    context = [Message.user(f"Look at {engine.variables.reference(id)}.")]
    given = {"variables": engine.transcript("s")}
    first = native_calls(("read_variable", {"id": id}))
    result = await chain(first, Recorder().tool, context_messages=context, **given)
    assert result.tool_call_history[0].result.output == "kept"
    assert [tool.name for tool in chain.requests[0].tools] == ["f", "read_variable"]
    result = await chain(first, Recorder().tool, **given)
    assert result.tool_call_history[0].result.error.kind == "not_found"


async def test_long_results_are_shown_as_previews_unless_variables_are_disabled(chain):
    long = "x" * 5000
    for options, is_shown in (({}, False), ({"variables_over": None}, True)):
        result = await chain(native_calls(("f", {})), Recorder(returns=long).tool, **options)
        assert (chain.requests[0].messages[-1].text == long) == is_shown
        assert result.messages.tool_chain[1].text == chain.requests[0].messages[-1].text
        assert result.tool_call_history[0].result.output == long
        assert long not in result.as_message().text


# ---- endings


@for_each("rounds", [1, 3, None])
async def test_the_request_after_the_last_round_forbids_tool_calls(chain, rounds):
    recorder, most = Recorder(), rounds or 10
    replies = [*(native_calls(("f", {"x": x})) for x in range(1, most)), "so far"]
    given = {} if rounds is None else {"max_rounds": rounds}
    result = await chain(native_calls(("f", {"x": 0})), recorder.tool, replies=replies, **given)
    assert recorder.seen == [{"x": x} for x in range(most)]
    assert [request.tool_choice for request in chain.requests] == [None] * (most - 1) + ["none"]
    assert [len(request.tools) for request in chain.requests] == [1] * most
    assert (result.status, result.reply, result.stats.total_rounds) == ("completed", "so far", most)
    assert result.status_reason == f"The limit of {most} tool rounds was reached."
    assert result.max_rounds_reached
    results = [each.text for each in chain.requests[-1].messages if each.role == "tool"]
    assert (results, problems(result)) == (["ok"] * most, [])


async def test_a_call_in_the_last_reply_is_dropped(chain):
    recorder = Recorder()
    result = await chain(
        native_calls(("f", {})),
        recorder.tool,
        replies=[native_calls(("f", {"x": 2})), "well"],
        max_rounds=1,
    )
    assert (result.reply, recorder.seen, result.stats.total_calls) == ("well", [{}], 1)
    result = await chain(
        native_calls(("f", {})),
        recorder.tool,
        replies=[native_calls(("f", {"x": 2}))] * 2,
        max_rounds=1,
    )
    assert (result.status, result.reply, problems(result)) == ("error", "", [])
    assert result.status_reason == (
        "The limit of 1 tool rounds was reached. The model gave no reply without tools either."
    )


async def test_with_max_rounds_0_not_even_the_first_calls_run(chain):
    recorder = Recorder()
    result = await chain(native_calls(("f", {})), recorder.tool, max_rounds=0)
    assert (result.reply, recorder.seen, statuses(result)) == ("done", [], ["interrupted"])
    assert result.stats.total_rounds == 0
    assert [request.tool_choice for request in chain.requests] == ["none"]
    assert problems(result) == []


@for_each(
    "replies, status, reply, reason",
    [
        (["", "done"], "completed", "done", None),
        (["", ""], "error", "", "The model's reply was empty, twice."),
        (["", native_calls(("f", {})), "done"], "error", "", "The model's reply was empty, twice."),
    ],
)
async def test_an_empty_reply_is_requested_once_more_without_calls(
    chain, replies, status, reply, reason
):
    recorder = Recorder()
    result = await chain(native_calls(("f", {})), recorder.tool, replies=replies[:2])
    assert (result.status, result.reply, result.status_reason) == (status, reply, reason)
    assert not result.max_rounds_reached
    assert [request.tool_choice for request in chain.requests] == [None, "none"]
    assert (recorder.seen, problems(result)) == ([{}], [])


async def test_calls_in_a_truncated_first_reply_do_not_run(chain):
    recorder = Recorder()
    result = await chain(ChatResponse(native_calls(("f", {})), "length"), recorder.tool)
    assert (result.reply, recorder.seen, result.tool_call_history) == ("done", [], ())
    assert "cut off" in chain.requests[0].messages[-1].text


@for_each("kind", ["server", "refusal", "tokens"])
async def test_a_chain_without_a_reply_reports_the_reason(chain, kind):
    refusal = ChatResponse(Message.assistant("I will not."), "refusal")
    chat = None
    if kind == "refusal":

        async def chat(messages, **settings):
            return refusal

    limits = RunLimits(tokens=15) if kind == "tokens" else None
    replies = [500] if kind == "server" else [native_calls(("f", {"x": 2}))]
    result = await chain(
        native_calls(("f", {})), Recorder().tool, replies=replies, chat=chat, limits=limits
    )
    assert (result.status, result.reply, problems(result)) == ("error", "", [])
    assert (
        result.status_reason
        == {
            "server": "scripted failure 500 (HTTP 500) Try again later, or another model.",
            "refusal": "I will not.",
            "tokens": "The limit of 15 tokens for this run was reached: 15 were used.",
        }[kind]
    )
    assert isinstance(result.error, ServerFailed) == (kind == "server")
    assert statuses(result) == ["completed"] + ["interrupted"] * (kind == "tokens")


def stopping(abort):
    """Return a tool that sets the event, if there is one, and then blocks."""

    async def hang(arguments):
        if abort is not None:
            abort.set()
        await asyncio.Event().wait()

    return Tool("hang", "", None, hang)


async def test_a_chain_that_is_aborted_before_it_starts_runs_no_tool(chain):
    recorder, abort = Recorder(), asyncio.Event()
    abort.set()
    result = await chain(native_calls(("f", {}), ("f", {})), recorder.tool, replies=(), abort=abort)
    assert (result.status, result.reply, recorder.seen) == ("aborted", "", [])
    assert (statuses(result), problems(result)) == (["interrupted"] * 2, [])


@for_each("how", ["aborted", "timeout"])
@without_waiting
async def test_a_chain_that_stops_during_a_tool_has_a_result_for_every_call(chain, how):
    abort = asyncio.Event() if how == "aborted" else None
    limits = RunLimits(seconds=20) if how == "timeout" else None
    calls = native_calls(("f", {}), ("hang", {}), ("f", {}))
    tools = (Recorder().tool, stopping(abort))
    result = await chain(calls, *tools, replies=(), abort=abort, limits=limits)
    assert (result.status, result.reply, result.error) == (how, "", None)
    if how == "aborted":  # the last call had not begun
        assert statuses(result) == ["completed", "unknown_effect", "interrupted"]
    assert [each.tool_call_id for each in result.messages.tool_chain[1:]] == ["a", "b", "c"]
    assert (problems(result), result.status_reason is None) == ([], False)


@for_each("how", ["aborted", "timeout"])
@without_waiting
async def test_a_chain_that_stops_during_a_request_keeps_its_results(chain, how):
    abort = asyncio.Event()

    async def chat(messages, **settings):
        if how == "aborted":
            abort.set()
        await asyncio.Event().wait()

    limits = RunLimits(seconds=20) if how == "timeout" else None
    result = await chain(
        native_calls(("f", {})), Recorder().tool, chat=chat, abort=abort, limits=limits
    )
    assert (result.status, statuses(result), problems(result)) == (how, ["completed"], [])
    assert [each.role for each in result.messages.tool_chain] == ["assistant", "tool"]


async def test_a_chain_that_is_aborted_during_an_approval_runs_no_tool(chain):
    recorder, abort = Recorder(), asyncio.Event()

    async def approve(request):
        abort.set()
        await asyncio.Event().wait()

    result = await chain(
        native_calls(("f", {}), ("f", {})),
        recorder.tool,
        replies=(),
        abort=abort,
        approve=approve,
        approve_all=True,
    )
    assert (result.status, recorder.seen, statuses(result)) == ("aborted", [], ["interrupted"] * 2)
    assert problems(result) == []


# ---- approval


@for_each(
    "decision, run, expected",
    [
        (Approve(), [{"x": 1}], "ok"),
        (True, [{"x": 1}], "ok"),
        (Always(), [{"x": 1}], "ok"),
        (
            Edit({"x": 2}),
            [{"x": 2}],
            'ok\nNote: a person changed the arguments of this call to {"x": 2}.',
        ),
        (Reject("Not today."), [], '{"status": "rejected", "message": "Not today."}'),
        (
            Later(),
            [],
            '{"status": "rejected", "message": "f needs approval, and there is no approver."}',
        ),
    ],
)
async def test_the_approver_is_asked_about_each_call(chain, decision, run, expected):
    recorder, asked = Recorder(), []
    result = await chain(
        native_calls(("f", {"x": 1})),
        recorder.tool,
        approve=lambda request: asked.append(request) or decision,
        approve_all=True,
    )
    assert ([(each.tool, each.arguments) for each in asked], recorder.seen) == (
        [("f", {"x": 1})],
        run,
    )
    assert (chain.requests[0].messages[-1].text, result.reply) == (expected, "done")
    rejection = None if run else json.loads(expected)["message"]
    error = result.tool_call_history[0].result.error
    assert (error and error.message) == rejection


async def test_a_call_that_needs_approval_is_rejected_without_an_approver(chain):
    recorder, other = Recorder(), Recorder("g")
    tool = replace(recorder.tool, needs_approval=True)
    result = await chain(native_calls(("f", {}), ("g", {})), tool, other.tool)
    assert (recorder.seen, other.seen, statuses(result)) == ([], [{}], ["rejected", "completed"])
    assert "f needs approval, and there is no approver." in chain.requests[0].messages[1].text


async def test_always_holds_for_the_rest_of_the_chain(chain):
    asked = []
    given = {"replies": [native_calls(("f", {"x": 2})), "done"]}
    for _ in range(2):
        await chain(
            native_calls(("f", {})),
            Recorder().tool,
            approve=lambda request: asked.append(request.arguments) or Always(),
            approve_all=True,
            **given,
        )
    assert asked == [{}, {}]


@for_each("own", [True, False])
async def test_the_approver_can_review_results(chain, own):
    asked = []

    def approve(request):
        asked.append(request.result and request.result.output)
        return Approve() if request.result is None else Reject("Secret.")

    given = {"approve": approve, "approve_all": True, "check_tool_results": True}
    given = {"approve_result": approve} if own else given
    result = await chain(native_calls(("f", {})), Recorder(returns="key").tool, **given)
    assert asked == [*[None] * (not own), "key"]
    expected = '{"status": "result_rejected", "message": "Secret."}'
    assert chain.requests[0].messages[-1].text == expected
    assert (statuses(result), result.tool_call_history[0].result.error.message) == (
        ["result_rejected"],
        "Secret.",
    )
    assert "key" not in result.response_content


async def test_results_are_not_reviewed_by_default(chain):
    asked = []
    await chain(
        native_calls(("f", {})),
        Recorder().tool,
        approve=lambda request: asked.append(request.result) or True,
        approve_all=True,
    )
    assert asked == [None]


# ---- invalid arguments and keys


@for_each("executor", [None, {}, [], lambda call: "ok"])
async def test_an_executor_that_is_not_a_registry_raises_a_type_error(executor):
    with pytest.raises(TypeError, match="executor must be of type ToolRegistry, not "):
        await execute_tool_chain(executor, Message.assistant("hi"), ToolChainOptions(unused_chat))


@for_each("first", [None, "hi", {"role": "assistant"}, Message.user("hi")])
async def test_a_first_reply_of_a_wrong_type_raises_a_type_error(first):
    with pytest.raises(
        TypeError, match="A chain starts with a ChatResponse or an assistant message, not "
    ):
        await execute_tool_chain(ToolRegistry(), first, ToolChainOptions(unused_chat))


async def test_each_chain_has_its_own_idempotency_keys(chain):
    keys = []

    async def note(arguments, context):
        keys.append(context.idempotency_key)

    tool = Tool("f", "", None, note, effect="idempotent")
    for _ in range(2):
        await chain(native_calls(("f", {})), tool)
    engine = ContextEngine()
    await engine.create_session("s")
    for _ in range(2):
        await chain(native_calls(("f", {})), tool, variables=engine.transcript("s"))
    assert len(set(keys)) == 4


@for_each("template", ['{"x": NaN, "t": "%s"}', '{"x": 1e999, "t": "%s"}', "{%s", "[" * 900 + "%s"])
async def test_invalid_json_arguments_are_recorded_as_text(chain, template):
    text = template % ("z" * 300)
    result = await chain(Message.assistant("", [ToolCall("a", "f", text)]), Recorder().tool)
    (record,) = result.tool_call_history
    assert (record.result.error.kind, record.arguments) == ("validation", text)
    assert record.arguments_variable is not None


# ---- regressions


async def test_native_calls_in_the_first_reply_run_in_a_chain_with_the_prompt_dialect(chain):
    recorder = Recorder()
    result = await chain(
        native_calls(("f", {"x": 1}), text="Let me look."),
        recorder.tool,
        replies=[decision("f", x=2), decision(reply="done")],
        dialect=PromptDialect(),
    )
    assert (result.status, result.reply, recorder.seen) == (
        "completed",
        "done",
        [{"x": 1}, {"x": 2}],
    )


async def test_a_variable_of_an_earlier_chain_resolves_only_with_its_variables(chain):
    looks = Recorder("look", returns="A" * 300)
    first = await chain(native_calls(("look", {})), looks.tool)
    old = first.tool_call_history[0].variable
    saves = Recorder("save")
    more = {"context_messages": [first.as_message()], "replies": ["done"]}
    second = await chain(
        native_calls(("save", {"text": f"$VAR_REF{{{{{old}}}}}"})), saves.tool, **more
    )
    assert (saves.seen, statuses(second)) == ([], ["error"])
    third = await chain(
        native_calls(("save", {"text": f"$VAR_REF{{{{{old}}}}}"})),
        saves.tool,
        variables=first.variables,
        **more,
    )
    assert (saves.seen, statuses(third)) == ([{"text": "A" * 300}], ["completed"])


async def test_a_system_prompt_that_is_already_in_the_context_is_sent_once(chain):
    context = [Message.system("Be brief."), Message.user("Go.")]
    await chain(
        native_calls(("f", {})),
        Recorder().tool,
        system_prompt="Be brief.",
        context_messages=context,
    )
    assert [each.role for each in chain.requests[0].messages].count("system") == 1
    await chain(
        native_calls(("f", {})),
        Recorder().tool,
        system_prompt="Be kind.",
        context_messages=context[1:],
    )
    assert chain.requests[0].messages[0] == Message.system("Be kind.")


async def test_with_variables_disabled_no_variable_is_created(chain):
    result = await chain(
        native_calls(("f", {})), Recorder(returns="x" * 300).tool, variables_over=None
    )
    assert [each.variable for each in result.tool_call_history] == [None]
    assert "read_variable" not in result.tool_chain_content


async def test_classify_replaces_the_error_text_in_a_chain(chain):
    def fail(arguments):
        raise ConnectionError("db-7.internal refused")

    tool = Tool("f", "", None, fail)
    result = await chain(native_calls(("f", {})), tool, classify=lambda error: type(error).__name__)
    assert "db-7" not in result.tool_call_history[0].result.output
