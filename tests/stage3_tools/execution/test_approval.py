import asyncio
import json
from dataclasses import fields, is_dataclass

import pytest

from llm_stages import RunFile
from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage3_tools import (
    Abort,
    Always,
    ApprovalRequest,
    Approve,
    Edit,
    ExecutionSettings,
    Later,
    NativeDialect,
    Redact,
    Reject,
    ResultCache,
    Retry,
    RunnerParams,
    Tool,
    ToolChainOptions,
    ToolError,
    ToolLoopDeps,
    ToolOutput,
    ToolRegistry,
    ToolRunner,
    ask,
    execute_tool_call,
    execute_tool_calls,
    execute_tool_chain,
    run_tool_loop,
    tool,
)
from tests.stage3_tools.conversation import DONE, call
from tests.tables import for_each

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "to": {"type": "array"}},
    "required": ["path"],
    "additionalProperties": False,
}
CALL = ToolCall("c1", "delete", '{"path": "a.txt"}')
DELETE = call("delete", path="a.txt")


class Files:
    """A tool that records the paths it deletes."""

    def __init__(self, **settings):
        self.deleted = []
        self.tool = Tool("delete", "", PARAMETERS, self.delete, **settings)

    def delete(self, arguments):
        self.deleted.append(arguments["path"])
        return "gone"


def answering(*answers):
    """Create an approver that returns these answers in order and records its requests."""

    async def approve(request):
        approve.asked.append(request)
        return left.pop(0)

    left, approve.asked = list(answers), []
    return approve


async def result_of(files, approve=None, call=CALL, **rest):
    return await execute_tool_call(
        ToolRegistry(files.tool), call, ExecutionSettings("s", approve=approve, **rest)
    )


async def test_a_request_contains_the_call_its_validated_arguments_and_the_settings_of_the_tool():
    approve = answering(Approve())
    await result_of(Files(effect="idempotent", needs_approval=True), approve)
    assert approve.asked == [
        ApprovalRequest("c1", "delete", {"path": "a.txt"}, "idempotent", True, "s")
    ]


def yes(arguments):
    return True


def no(arguments):
    return False


def broken(arguments):
    raise LookupError("no such key")


@for_each(
    "effect, needs_approval, is_asked, waits",
    [
        ("write", None, True, False),
        ("write", True, True, True),
        ("write", False, False, False),
        ("write", yes, True, True),
        ("write", no, False, False),
        ("write", broken, True, True),
        ("idempotent", None, False, False),
        ("idempotent", True, True, True),
        ("read", None, False, False),
        ("read", True, True, True),
        ("read", False, False, False),
        ("read", yes, True, True),
        ("read", no, False, False),
    ],
)
async def test_the_effect_and_needs_approval_select_the_calls_for_the_approver(
    effect, needs_approval, is_asked, waits
):
    files, approve = Files(effect=effect, needs_approval=needs_approval), answering(False)
    result = await result_of(files, approve)
    assert [each.needs_approval for each in approve.asked] == [True] * is_asked
    assert result.status == ("rejected" if is_asked else "completed")
    everything = answering(False)
    result = await result_of(files, everything, approve_all=True)
    assert [each.needs_approval for each in everything.asked] == [is_asked]
    assert result.status == "rejected"
    unattended = await result_of(files, None, approve_all=True)
    assert unattended.status == ("rejected" if waits else "completed")


@for_each("effect", ["read", "write"])
async def test_an_exempted_tool_is_asked_about_with_approve_all_in_every_entry(effect):
    @tool(effect=effect, needs_approval=False)
    def f() -> str:
        return "ran"

    @tool(effect="write")
    def undeclared() -> str:
        return "ran"

    def asked_names(options):
        asked = []
        return asked, {**options, "approve": lambda request: asked.append(request.tool) or True}

    calls = [ToolCall("1", "f", "{}"), ToolCall("2", "undeclared", "{}")]
    for given, expected in [({}, ["undeclared"]), ({"approve_all": True}, ["f", "undeclared"])]:
        found = []
        for entry in ("loop", "ask", "runner", "chain"):
            asked, options = asked_names(given)
            model = ScriptedModel([Message.assistant("", calls), "done"][entry == "chain" :])
            async with Gateway("openai:m", api_key="k", transport=model) as gateway:
                await ENTRIES[entry](gateway, [f, undeclared], calls, options)
            found.append(asked)
        assert found == [expected] * 4


async def _loop(gateway, tools, calls, options):
    deps = ToolLoopDeps(gateway, tool_registry=tools)
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Go.", dialect=NativeDialect(), **options)


async def _ask(gateway, tools, calls, options):
    await ask("Go.", tools=tools, model=gateway, dialect=NativeDialect(), **options)


async def _runner(gateway, tools, calls, options):
    params = RunnerParams(messages=[Message.user("Go.")], dialect=NativeDialect(), **options)
    await ToolRunner(ToolLoopDeps(gateway, tool_registry=tools), params)


async def _chain(gateway, tools, calls, options):
    given = ToolChainOptions(gateway, **options)
    await execute_tool_chain(ToolRegistry(*tools), Message.assistant("", calls), given)


ENTRIES = {"loop": _loop, "ask": _ask, "runner": _runner, "chain": _chain}


@for_each("answer", [Approve(), True, Always()])
async def test_an_approved_call_runs(answer):
    files = Files()
    assert (await result_of(files, answering(answer))).output == "gone"
    assert files.deleted == ["a.txt"]


async def test_an_approver_may_be_a_plain_function():
    files = Files()
    assert (await result_of(files, lambda request: request.tool == "delete")).status == "completed"


@for_each(
    "answer, message",
    [
        (Reject('Not "that" one – use trash.'), 'Not "that" one – use trash.'),
        (Reject(), "A person rejected this call."),
        (False, "A person rejected this call."),
    ],
)
async def test_a_rejected_call_does_not_run_and_its_result_contains_the_exact_reason(
    answer, message
):
    files = Files()
    result = await result_of(files, answering(answer))
    assert (files.deleted, result.status, result.attempts, result.is_error) == (
        [],
        "rejected",
        0,
        True,
    )
    assert json.loads(result.output) == {"status": "rejected", "message": message}
    assert result.error.kind == "rejected"


async def test_an_edited_call_runs_with_the_new_arguments_and_a_note_for_the_model():
    files = Files()
    result = await result_of(files, answering(Edit({"path": "b.txt"})))
    assert files.deleted == ["b.txt"]
    assert result.output == "gone"
    assert (
        result.note == '\nNote: a person changed the arguments of this call to {"path": "b.txt"}.'
    )
    assert result.as_message(2).text.endswith(result.note)  # truncation does not remove the note


@for_each("edit", [{"path": 5}, {}, {"path": "b", "more": 1}, "b.txt"])
async def test_an_edit_with_invalid_arguments_does_not_run(edit):
    files = Files()
    result = await result_of(files, answering(Edit(edit)))
    assert (files.deleted, result.status, result.error.kind) == ([], "error", "validation")
    assert result.error.message.startswith("A person changed the arguments, and they do not fit. ")


async def test_changing_the_arguments_of_a_request_does_not_change_the_call():
    seen = []

    async def approve(request):
        request.arguments["path"] = "b.txt"
        request.arguments["to"].append(1)
        return True

    tool = Tool("delete", "", PARAMETERS, lambda arguments: seen.append(arguments))
    call = ToolCall("c1", "delete", '{"path": "a.txt", "to": []}')
    await execute_tool_call(ToolRegistry(tool), call, ExecutionSettings(approve=approve))
    assert seen == [{"path": "a.txt", "to": []}]


async def test_the_approver_is_not_asked_about_invalid_calls():
    approve = answering()
    assert (
        await result_of(Files(), approve, ToolCall("c1", "delete", "{}"))
    ).error.kind == "validation"
    assert (
        await result_of(Files(), approve, ToolCall("c1", "delte", "{}"))
    ).error.kind == "not_found"


async def test_always_applies_to_one_tool_only():
    files, other = Files(), Tool("other", "", None, lambda arguments: "ok")
    approve = answering(Always(), False)
    execution, registry = ExecutionSettings(approve=approve), ToolRegistry(files.tool, other)
    calls = [CALL, CALL, ToolCall("c2", "other", "{}")]
    results = [await execute_tool_call(registry, each, execution) for each in calls]
    assert [each.status for each in results] == ["completed", "completed", "rejected"]
    assert [each.tool for each in approve.asked] == ["delete", "other"]


@for_each("answer", [None, "yes", 1, Approve, Redact("x")])
async def test_an_invalid_answer_for_a_call_raises_a_type_error(answer):
    files = Files()
    with pytest.raises(TypeError) as caught:
        await result_of(files, answering(answer))
    assert str(caught.value) == (
        f"An approver returned {type(answer).__name__} for a call; it may return Approve(), "
        "Always(), Edit(arguments), Later(), Reject(reason), True or False."
    )
    assert files.deleted == []


async def test_the_approver_is_asked_about_all_calls_in_order_before_any_runs():
    files, order = Files(), []

    async def approve(request):
        order.append((request.call_id, list(files.deleted)))
        await asyncio.sleep(0)
        return True

    calls = [ToolCall(f"c{n}", "delete", f'{{"path": "{n}"}}') for n in range(3)]
    await execute_tool_calls(ToolRegistry(files.tool), calls, ExecutionSettings(approve=approve))
    assert order == [("c0", []), ("c1", []), ("c2", [])]
    assert sorted(files.deleted) == ["0", "1", "2"]


# ---- needs_approval


@for_each(
    "needs, path, run",
    [
        (True, "a.txt", False),
        (False, "a.txt", True),
        (lambda arguments: arguments["path"].startswith("/"), "/etc", False),
        (lambda arguments: arguments["path"].startswith("/"), "a.txt", True),
        (lambda arguments: arguments["missing"], "a.txt", False),
    ],
)
async def test_a_tool_with_needs_approval_is_rejected_without_an_approver(needs, path, run):
    files = Files(needs_approval=needs)
    result = await result_of(files, None, ToolCall("c1", "delete", json.dumps({"path": path})))
    if run:
        assert (files.deleted, result.status) == ([path], "completed")
        return
    assert (files.deleted, result.status, result.attempts) == ([], "rejected", 0)
    assert json.loads(result.output) == {
        "status": "rejected",
        "message": "delete needs approval, and there is no approver.",
    }


# ---- results


async def test_a_result_may_be_rejected_after_the_tool_has_run():
    files, approve = Files(), answering(Reject("It names a customer."))
    result = await result_of(files, approve_result=approve)
    assert (files.deleted, result.status, result.attempts) == (["a.txt"], "result_rejected", 1)
    assert json.loads(result.output) == {
        "status": "result_rejected",
        "message": "It names a customer.",
    }
    assert approve.asked[0].result.output == "gone"


async def test_an_approved_result_is_unchanged():
    assert (await result_of(Files(), approve_result=answering(True))).output == "gone"


NEVER_RUN = {
    "an unknown tool": (ToolCall("c1", "nothing", "{}"), {}, "error"),
    "invalid arguments": (ToolCall("c1", "delete", "[]"), {}, "error"),
    "a rejection": (CALL, {"approve": lambda request: False}, "rejected"),
    "no approver": (CALL, {"needs_approval": True}, "rejected"),
    "a stop": (CALL, {"stopped": lambda: True}, "interrupted"),
}


@for_each("why", NEVER_RUN)
async def test_results_of_calls_that_were_not_run_are_not_reviewed(why):
    call, settings, status = NEVER_RUN[why]
    files = Files(needs_approval=settings.pop("needs_approval", None))
    result = await result_of(files, call=call, approve_result=answering(), **settings)
    assert (result.status, result.attempts, files.deleted) == (status, 0, [])


SECRET_TEXT = "postgres://u:secret@h"
MAY = "It may have happened, in whole or in part. Check before you ask for it again."


def secret_failure():
    try:
        raise OSError(SECRET_TEXT)
    except OSError as cause:
        hint, details = f"Not {SECRET_TEXT}.", {"dsn": SECRET_TEXT}
        error = ToolError("network", SECRET_TEXT, hint=hint, details=details, retryable=True)
        error.__cause__ = cause
        return error


FAILURES = {
    "an exception": lambda: ValueError(SECRET_TEXT),
    "a ToolError": secret_failure,
    "an exit": lambda: SystemExit(SECRET_TEXT),
    "a rejection": lambda: ToolError("rejected", SECRET_TEXT),
}


def failing_tool(how, effect):
    def fail(arguments):
        raise FAILURES[how]()

    return Tool(
        "delete",
        execute=fail,
        effect=effect,
        retry=Retry(1, 0.0) if how == "a ToolError" and effect == "read" else None,
    )


def everything_in(value, seen=None):
    """Return the texts of a value, its attributes and its exceptions, also those that repr omits."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return ""
    seen[id(value)] = value
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, list | tuple | set):
        parts = [*value]
    elif isinstance(value, BaseException):
        parts = [*value.args, vars(value), value.__cause__, value.__context__]
        parts += [value.__traceback__ and "a traceback"]
    elif is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
    else:
        parts = []
    return "\n".join([str(value), *(everything_in(each, seen) for each in parts)])


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("how", FAILURES)
async def test_a_redacted_failure_is_in_no_field_event_or_record(
    how, effect, new_conversation, tmp_path
):
    asked = []

    def redact(request):
        asked.append((request.result.is_error, SECRET_TEXT in request.result.output))
        return Redact("[gone]", "It was private.")

    conversation = new_conversation([DELETE, DONE], failing_tool(how, effect))
    path = tmp_path / "run.jsonl"
    ended = await conversation.ask(approve_result=redact, trace=RunFile(path))
    result = ended.history[0].result
    assert asked == [(True, True)]
    is_unknown = effect == "write" and how != "a rejection"
    assert (result.output, result.is_error) == ("[gone]", True)
    assert (MAY in result.note, result.status == "unknown_effect") == (is_unknown, is_unknown)
    assert (result.details, result.value, str(result.error)) == (None, None, "[gone]")
    assert result.error.details == {}
    assert (result.error.__cause__, result.error.__context__, result.error.__traceback__) == (
        None,
        None,
        None,
    )
    records = [each async for each in _records(conversation)]
    texts = [everything_in(each) for each in (ended, conversation.events, records)]
    texts += [json.dumps([each.to_json() for each in conversation.events], default=str)]
    texts += [path.read_text(), *map(str, conversation.seen)]
    assert [text for text in texts if SECRET_TEXT in text] == []
    assert ["[gone]" in text for text in texts[:5]] == [True] * 5


async def _records(conversation):
    for _, record in await conversation.engine.store.read("s"):
        yield record


async def test_a_failure_can_be_approved_or_rejected():
    registry = ToolRegistry(failing_tool("an exception", "read"))
    plain = await execute_tool_call(registry, CALL)
    approved = await execute_tool_call(
        registry, CALL, ExecutionSettings(approve_result=lambda request: True)
    )
    assert (approved.output, approved.error.message) == (plain.output, plain.error.message)
    rejected = await execute_tool_call(
        registry, CALL, ExecutionSettings(approve_result=lambda request: Reject("No."))
    )
    assert (rejected.status, rejected.attempts) == ("result_rejected", 1)
    assert rejected.output == '{"status": "result_rejected", "message": "No."}'
    assert SECRET_TEXT not in everything_in(rejected)


async def test_a_redaction_that_keeps_the_warning_of_a_write_does_not_repeat_it():
    def redact(request):
        return Redact(request.result.output.replace(SECRET_TEXT, "[gone]"))

    registry = ToolRegistry(failing_tool("an exception", "write"))
    result = await execute_tool_call(registry, CALL, ExecutionSettings(approve_result=redact))
    assert result.as_message().text == f"Error (execution): ValueError: [gone]\n{MAY}"


async def test_the_text_of_a_retried_failure_is_not_reported_before_its_approval():
    reported = []
    settings = ExecutionSettings(
        approve_result=lambda request: True,
        on_retry=lambda call, error, attempt: reported.append((error, attempt)),
    )
    registry = ToolRegistry(failing_tool("a ToolError", "read"))
    assert SECRET_TEXT in (await execute_tool_call(registry, CALL, settings)).output
    assert [(error.kind, error.message, attempt) for error, attempt in reported] == [
        ("network", "The text of this failure was not approved.", 1)
    ]
    assert SECRET_TEXT not in everything_in([error for error, _ in reported])


@for_each("effect", ["read", "write"])
async def test_a_failure_whose_review_is_interrupted_is_not_shown(effect, new_conversation):
    async def thinking(request):
        began.set()
        await asyncio.Event().wait()

    began, abort = asyncio.Event(), Abort()
    conversation = new_conversation([DELETE], failing_tool("an exception", effect))
    running = asyncio.create_task(conversation.ask(approve_result=thinking, abort=abort))
    await began.wait()
    abort.set()
    result = (await running).history[0].result
    status = "unknown_effect" if effect == "write" else "interrupted"
    assert (result.status, result.attempts) == (status, 1)
    assert "before its result was approved" in result.output
    records = [each async for each in _records(conversation)]
    assert SECRET_TEXT not in everything_in([result, records, conversation.events])


@for_each("answer", [Edit({}), Later(), None])
async def test_an_invalid_answer_for_a_result_raises_a_type_error(answer):
    with pytest.raises(TypeError) as caught:
        await result_of(Files(), approve_result=answering(answer))
    assert str(caught.value) == (
        f"An approver returned {type(answer).__name__} for a result; it may return Approve(), "
        "Always(), Redact(output), Reject(reason), True or False."
    )


SECRET = {"name": "Ada", "card": "4111"}


def secret_tool(returned=SECRET):
    given = ToolOutput(returned, details="card 4111")
    return Tool("look", execute=lambda arguments: given, effect="read")


async def redacted(decision, tool=None, **rest):
    settings = ExecutionSettings("s", approve_result=answering(decision), **rest)
    registry = ToolRegistry(tool or secret_tool())
    return await execute_tool_call(registry, ToolCall("c1", "look", "{}"), settings)


@for_each(
    "decision, output, text",
    [
        (Redact("Ada"), "Ada", "Ada"),
        (Redact({"name": "Ada"}), '{"name":"Ada"}', '{"name":"Ada"}'),
        (Redact(""), "", ""),
        (
            Redact({"name": "Ada"}, "No cards, please."),
            '{"name":"Ada"}',
            '{"name":"Ada"}\nNote: a person changed this result: No cards, please.',
        ),
    ],
)
async def test_redact_replaces_the_output_and_keeps_the_value(decision, output, text):
    result = await redacted(decision)
    assert (result.status, result.is_error, result.output) == ("completed", False, output)
    assert result.as_message().text == text
    assert (result.value, result.attempts) == (SECRET, 1)
    assert "4111" not in repr(result) + repr(result.details)


async def test_redact_with_an_output_that_is_not_json_raises_a_type_error():
    with pytest.raises(TypeError) as caught:
        await redacted(Redact(object()))
    assert str(caught.value) == (
        "The output of Redact(output) has no JSON form: object. Use text, or plain dicts, lists "
        "and numbers."
    )


async def test_a_cached_result_is_reviewed_at_each_use_and_stays_unredacted_in_the_cache():
    cache, tool = ResultCache(), secret_tool()
    results = [
        await redacted(decision, tool, cache=cache)
        for decision in (Redact("first"), Redact("second"), True)
    ]
    assert [each.output for each in results] == [
        "first",
        "second",
        json.dumps(SECRET, separators=",:"),
    ]
    assert [each.cached for each in results] == [False, True, True]
    assert [each.value for each in results] == [SECRET] * 3


async def test_redacted_data_is_absent_from_the_requests_the_history_and_the_events(
    new_conversation,
):
    asks, done = '{"tool": "look", "arguments": {}}', DONE
    conversation = new_conversation([asks, done], secret_tool({"card": "4111" + "0" * 9_000}))
    result = await conversation.ask(approve_result=answering(Redact("x" * 5_000, "No cards.")))
    assert result.status == "completed"
    exported = await conversation.engine.export_session("s")
    assert "4111" not in f"{result}{result.history}{result.messages}{conversation.events}{exported}"
    assert conversation.seen[1][-1][1].endswith("\nNote: a person changed this result: No cards.")
    assert await conversation.engine.variables.get("s", result.history[0].variable) == "x" * 5_000


async def test_always_for_results_does_not_apply_to_calls():
    approve, approve_result = answering(True, False), answering(Always())
    execution, registry = (
        ExecutionSettings(approve=approve, approve_result=approve_result),
        ToolRegistry(Files().tool),
    )
    results = [await execute_tool_call(registry, CALL, execution) for _ in range(2)]
    assert [each.status for each in results] == ["completed", "rejected"]


# ---- in a run


async def test_always_applies_to_later_questions_of_the_session(new_conversation):
    files, approve = Files(), answering(Always())
    conversation = new_conversation([DELETE, DONE, DELETE, DONE], files.tool)
    await conversation.ask(approve=approve)
    await conversation.ask("Again.", approve=approve)
    assert (len(approve.asked), files.deleted) == (1, ["a.txt", "a.txt"])


async def test_the_model_receives_the_reason_of_a_rejection_and_continues(new_conversation):
    conversation = new_conversation([DELETE, DONE], Files().tool)
    result = await conversation.ask(approve=answering(Reject("Ask me tomorrow.")))
    assert (result.reply, result.tool_rounds) == ("done", 0)
    assert conversation.seen[1][-1][1] == (
        '[Tool result for delete]\n{"status": "rejected", "message": "Ask me tomorrow."}'
    )


@for_each("gate", ["approve", "approve_result"])
async def test_an_exception_of_an_approver_ends_the_run_and_every_call_has_a_result(
    new_conversation, gate
):
    def broken(request):
        raise LookupError("the window was closed")

    conversation = new_conversation([DELETE], Files().tool)
    with pytest.raises(LookupError, match="the window was closed"):
        await conversation.ask(**{gate: broken})
    assert await conversation.problems() == []


async def test_an_approver_may_raise_a_tool_error_for_the_model(new_conversation):
    def strict(request):
        raise ToolError("permission", "Only admins delete.", hint="Ask Ann.")

    conversation = new_conversation([DELETE, DONE], Files().tool)
    await conversation.ask(approve=strict)
    assert conversation.seen[1][-1][1].endswith("Error (permission): Only admins delete.\nAsk Ann.")


async def test_an_edited_call_is_retried_with_the_edited_arguments():
    seen = []

    def look(arguments):
        seen.append(arguments.pop("path"))
        if len(seen) < 2:
            raise ConnectionError("away")

    tool = Tool("delete", "", PARAMETERS, look, effect="read")
    await execute_tool_call(
        ToolRegistry(tool),
        CALL,
        ExecutionSettings(approve=lambda request: Edit({"path": "b.txt"}), approve_all=True),
    )
    assert seen == ["b.txt", "b.txt"]


async def test_always_does_not_apply_to_a_new_tool_of_the_same_name():
    first, second, approve = Files(), Files(), answering(Always(), False)
    registry, execution = ToolRegistry(first.tool), ExecutionSettings(approve=approve)
    await execute_tool_call(registry, CALL, execution)
    registry.unregister("delete")
    registry.register(second.tool)
    assert (await execute_tool_call(registry, CALL, execution)).status == "rejected"
    assert second.deleted == []


async def test_always_ends_with_its_session(new_conversation):
    files, approve = Files(), answering(Always(), False)
    conversation = new_conversation([DELETE, DONE, DELETE, DONE], files.tool)
    await conversation.ask(approve=approve)
    await conversation.engine.delete_session("s")
    await conversation.engine.create_session("s")
    await conversation.ask(approve=approve)
    assert files.deleted == ["a.txt"]


@for_each("edit", [{1: 2}, {"path": {1, 2}}, {"path": float("nan")}])
async def test_an_edit_that_is_not_json_does_not_run(edit):
    anything = Tool("delete", "", None, lambda arguments: files.deleted.append(arguments))
    files = Files()
    execution = ExecutionSettings(approve=lambda request: Edit(edit))
    result = await execute_tool_call(ToolRegistry(anything), CALL, execution)
    assert (files.deleted, result.error.kind) == ([], "validation")


async def test_the_reviewer_of_a_result_receives_the_original_arguments():
    def grow(arguments):
        arguments["to"].append("x")

    tool, approve = Tool("delete", "", PARAMETERS, grow), answering(True)
    call = ToolCall("c1", "delete", '{"path": "a", "to": []}')
    await execute_tool_call(ToolRegistry(tool), call, ExecutionSettings(approve_result=approve))
    assert approve.asked[0].arguments == {"path": "a", "to": []}


async def test_a_rejected_result_still_contains_the_note_about_changed_arguments():
    result = await result_of(
        Files(), answering(Edit({"path": "b.txt"})), approve_result=answering(Reject("No."))
    )
    assert (result.status, "b.txt" in result.as_message().text) == ("result_rejected", True)
