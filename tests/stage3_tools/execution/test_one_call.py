import asyncio
import threading
from dataclasses import replace
from decimal import Decimal

import pytest

from stage0_gateway import TextPart, ToolCall
from stage3_tools import (
    ExecutionSettings,
    Later,
    Redact,
    Tool,
    ToolError,
    ToolOutput,
    ToolRegistry,
    ToolResult,
    execute_tool_call,
    tool,
)
from stage3_tools.execution.one_call import PendingCall
from stage3_tools.execution.results import MAY_HAVE_HAPPENED
from tests.stage3_tools.clock import without_waiting
from tests.stage3_tools.conversation import Recorder
from tests.tables import for_each

CALL = ToolCall("c1", "f", "{}")
SECRETS = {"price": Decimal("9.90")}


def tool_that(does, effect="write", **rest):
    """Return a tool that returns this value, or raises it if it is an exception."""

    def execute(arguments):
        if isinstance(does, BaseException):
            raise does
        return does

    return Tool("f", "", None, execute, effect=effect, **rest)


async def result_of(tool, call=CALL):
    return await execute_tool_call(ToolRegistry(tool), call)


@for_each("returned", [SECRETS, ToolOutput(SECRETS), ToolOutput(SECRETS, "log")])
async def test_the_value_of_a_result_is_excluded_from_repr_and_comparison(returned):
    result = await result_of(tool_that(returned))
    assert result.value is SECRETS
    assert replace(result, value=None) == result
    assert "Decimal" not in repr(result)


async def test_a_call_without_an_output_has_no_value():
    assert (await result_of(tool_that(ValueError("no")))).value is None


@for_each("plain", [True, False])
@without_waiting
async def test_the_time_limit_of_a_call_overrides_that_of_the_tool(plain):
    released = threading.Event()

    async def wait(arguments):
        await asyncio.sleep(50)
        return "ok"

    def block(arguments):
        released.wait()

    slow = Tool("f", execute=block if plain else wait, timeout=1000, effect="read", retry=0)
    result = await execute_tool_call(ToolRegistry(slow), CALL, timeout=20)
    assert (result.error.kind, result.error.message) == ("timeout", "f took longer than 20 s.")
    released.set()
    quick = Tool("f", execute=wait, timeout=20)
    assert (await execute_tool_call(ToolRegistry(quick), CALL, timeout=100)).output == "ok"


@for_each("seconds", [0, -1, float("nan")])
async def test_a_time_limit_must_be_positive(seconds):
    with pytest.raises(ValueError, match=r"^timeout is .*; it must be above 0 seconds, or None"):
        await execute_tool_call(ToolRegistry(tool_that("ok")), CALL, timeout=seconds)


async def test_a_successful_call_has_status_completed_with_output_and_details():
    result = await result_of(tool_that(ToolOutput({"a": 1}, details={"log": "x"})))
    assert result.duration > 0
    assert replace(result, duration=0.0) == ToolResult(
        "c1", "f", '{"a":1}', {"log": "x"}, attempts=1
    )


async def test_content_parts_are_returned_as_parts():
    assert (await result_of(tool_that([TextPart("hi")]))).output == (TextPart("hi"),)


@for_each(
    "call, text",
    [
        (
            ToolCall("c1", "g", "{}"),
            "Error (not_found): There is no tool named 'g'. Available tools: f.",
        ),
        (
            ToolCall("c1", "f", "[1]"),
            "Error (validation): The arguments must be a JSON object, not an array.",
        ),
        (
            ToolCall("c1", "f", '{"x": "1"}'),
            "Error (validation): The arguments of f do not fit:\n- /x must be integer, not string",
        ),
    ],
)
async def test_an_invalid_call_returns_an_error_without_running(call, text):
    recorder = Recorder(parameters={"type": "object", "properties": {"x": {"type": "integer"}}})
    result = await result_of(recorder.tool, call)
    assert recorder.seen == []
    assert (result.output, result.status, result.is_error, result.attempts) == (
        text,
        "error",
        True,
        0,
    )
    assert result.details is result.error.details
    assert result.details["available_tools"] == ("f",)
    assert result.details["expected_schema"] == (
        recorder.tool.parameters if call.name == "f" else None
    )
    assert isinstance(result.details["issues"], tuple)


@for_each(
    "raised, effect, status",
    [
        (TimeoutError("x"), "write", "unknown_effect"),
        (TimeoutError("x"), "idempotent", "error"),
        (TimeoutError("x"), "read", "error"),
        (ConnectionError("x"), "write", "unknown_effect"),
        (ConnectionError("x"), "read", "error"),
        (ValueError("x"), "write", "unknown_effect"),
        (PermissionError("x"), "write", "unknown_effect"),
        (ValueError("x"), "idempotent", "error"),
        (ToolError("interrupted", "x"), "write", "unknown_effect"),
        (ToolError("permission", "x"), "write", "error"),
        (ToolError("execution", "x"), "write", "error"),
    ],
)
async def test_a_failed_write_has_an_unknown_effect_unless_the_tool_raises_a_tool_error(
    raised, effect, status
):
    result = await result_of(tool_that(raised, effect))
    assert (result.status, result.is_error) == (status, True)
    assert result.output.endswith(MAY_HAVE_HAPPENED) == (status == "unknown_effect")


@for_each("effect, status", [("write", "unknown_effect"), ("read", "error")])
@without_waiting
async def test_the_status_after_a_timeout_depends_on_the_effect(effect, status):
    async def forever(arguments):
        await asyncio.Event().wait()

    result = await result_of(
        Tool(
            "f", "", None, forever, effect=effect, timeout=60, retry=0 if effect == "read" else None
        )
    )
    assert (result.status, result.error.kind) == (status, "timeout")
    assert result.output.startswith("Error (timeout): f took longer than 60 s.")


async def test_the_output_has_type_and_message_and_only_details_have_the_traceback():
    result = await result_of(tool_that(ValueError("no such city"), "read"))
    assert result.output == "Error (execution): ValueError: no such city"
    assert result.details["traceback"].startswith("Traceback (most recent call last):")
    assert result.details["traceback"].endswith("ValueError: no such city\n")


async def test_a_tool_error_is_returned_with_its_message_hint_and_details():
    own = ToolError("permission", "Not yours.", hint="Ask Ann.", details={"owner": "Ann"})
    result = await result_of(tool_that(own))
    assert result.output == "Error (permission): Not yours.\nAsk Ann."
    assert result.error.__cause__ is own
    assert result.details == {
        "owner": "Ann",
        "expected_schema": None,
        "issues": (),
        "available_tools": ("f",),
    }
    assert own.details == {"owner": "Ann"}  # another tool may raise the same error object


@for_each(
    "value",
    [object(), ToolOutput(object()), {"a": object()}, {"x": "\ud800", "y": object()}, lambda: 1],
)
async def test_a_value_without_a_json_form_gives_an_error_and_never_a_repr(value):
    result = await result_of(tool_that(value))
    assert (result.status, result.is_error, result.attempts) == ("error", True, 1)
    assert result.output.startswith(
        "Error (execution): The tool ran to its end, but what it returned "
    )
    assert "0x" not in result.output


async def test_arguments_that_do_not_fit_the_types_count_as_invalid_not_as_run():
    import datetime as dt

    @tool
    def f(day: dt.date): ...

    result = await result_of(f, ToolCall("c1", "f", '{"day": "tomorrow"}'))
    assert (result.error.kind, result.attempts) == ("validation", 0)


async def test_an_exception_of_parse_becomes_an_error_result():
    result = await result_of(
        Tool("f", "", None, print, parse=lambda arguments: arguments["missing"])
    )
    assert (result.is_error, result.attempts) == (True, 0)


async def test_a_tool_that_raises_cancelled_error_fails_alone():
    async def stop(arguments):
        raise asyncio.CancelledError

    result = await execute_tool_call(ToolRegistry(Tool("f", "", None, stop, effect="read")), CALL)
    assert (result.status, result.error.kind, result.attempts) == ("error", "interrupted", 1)


async def test_a_classifier_may_replace_the_error_text():
    settings = ExecutionSettings(classify=lambda exception: type(exception).__name__)
    registry = ToolRegistry(tool_that(ValueError("password hunter2"), "write"))
    result = await execute_tool_call(registry, CALL, settings)
    assert result.output.startswith("Error (execution): ValueError\nIt may have happened")
    assert result.status == "unknown_effect"
    assert "hunter2" in result.details["traceback"]


async def test_a_classifier_takes_precedence_over_the_default_rules():
    def classify(exception):
        return (
            ToolError("permission", "Locked.", hint="Ask Ann.")
            if isinstance(exception, KeyError)
            else None
        )

    settings = ExecutionSettings(classify=classify)
    known = await execute_tool_call(ToolRegistry(tool_that(KeyError("x"))), CALL, settings)
    assert (known.output, known.status) == ("Error (permission): Locked.\nAsk Ann.", "error")
    unknown = await execute_tool_call(ToolRegistry(tool_that(ValueError("x"))), CALL, settings)
    assert unknown.output.startswith("Error (execution): ValueError: x")
    assert unknown.status == "unknown_effect"


@for_each(
    "inside, status",
    [(ToolError("permission", "Not yours."), "error"), (KeyError("x"), "unknown_effect")],
)
async def test_a_single_exception_in_a_group_is_treated_as_that_exception(inside, status):
    async def together(arguments):
        async def fail():
            raise inside

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    result = await result_of(Tool("f", "", None, together))
    assert (result.status, result.error.kind) == (
        status,
        "permission" if status == "error" else "execution",
    )


async def test_a_retryable_failure_is_retried_and_each_retry_is_counted_and_reported():
    retries, fails = [], [TimeoutError("1"), ConnectionError("2")]

    def flaky(arguments):
        if fails:
            raise fails.pop(0)
        return "ok"

    execution = ExecutionSettings(
        on_retry=lambda call, error, number: retries.append((call.id, error.kind, number))
    )
    result = await execute_tool_call(
        ToolRegistry(Tool("f", "", None, flaky, effect="read")), CALL, execution
    )
    assert (result.output, result.attempts, result.status) == ("ok", 3, "completed")
    assert retries == [("c1", "timeout", 1), ("c1", "network", 2)]


async def test_screen_can_reject_a_call_or_add_a_note_to_its_result():
    def screen(call):
        if call.name == "g":
            raise ToolError("interrupted", "Too late.")
        return " (noted)"

    execution, registry = ExecutionSettings(screen=screen), ToolRegistry(tool_that("ok"))
    results = [
        await execute_tool_call(registry, replace(CALL, name=name), execution) for name in "fgh"
    ]
    assert results[0].as_message().text == "ok (noted)"
    assert (results[1].output, results[1].status) == (
        "Error (interrupted): Too late.",
        "interrupted",
    )
    assert results[2].as_message().text.endswith("Available tools: f. (noted)")
    parts = await execute_tool_call(ToolRegistry(tool_that(TextPart("ok"))), CALL, execution)
    assert parts.as_message().content == (TextPart("ok"), TextPart(" (noted)"))


# ---- the context of a call


class ContextRecorder:
    """A tool that records its contexts and fails a given number of times."""

    def __init__(self, failures=0, effect="read"):
        self.contexts, self.failures = [], failures
        self.tool = Tool("f", "", None, self.run, effect=effect)

    async def run(self, arguments, context):
        self.contexts.append(context)
        context.progress(f"try {context.attempt}")
        if len(self.contexts) <= self.failures:
            raise ConnectionError("away")


async def test_the_context_has_session_and_call_and_the_same_idempotency_key_for_every_attempt():
    seen, progress = ContextRecorder(failures=2), []
    execution = ExecutionSettings(
        "s1", "s1 since ever", on_progress=lambda call, value: progress.append((call.id, value))
    )
    await execute_tool_call(ToolRegistry(seen.tool), CALL, execution)
    assert [(each.session_id, each.call_id, each.attempt) for each in seen.contexts] == [
        ("s1", "c1", 1),
        ("s1", "c1", 2),
        ("s1", "c1", 3),
    ]
    assert len({each.idempotency_key for each in seen.contexts}) == 1
    assert progress == [("c1", "try 1"), ("c1", "try 2"), ("c1", "try 3")]


@for_each(
    "first, second, same",
    [
        (("s", "since 1", "c1"), ("s", "since 1", "c1"), True),
        (("s", "since 1", "c1"), ("s", "since 1", "c2"), False),
        (("s", "since 1", "c1"), ("s", "since 2", "c1"), False),
        (("s", None, "c1"), ("s", None, "c1"), False),
    ],
)
async def test_an_idempotency_key_is_unique_to_one_call_of_one_session(first, second, same):
    keys = []
    for session, origin, call_id in (first, second):
        seen = ContextRecorder()
        await execute_tool_call(
            ToolRegistry(seen.tool), replace(CALL, id=call_id), ExecutionSettings(session, origin)
        )
        keys.append(seen.contexts[0].idempotency_key)
    assert (keys[0] == keys[1]) == same


class Panic(BaseException):
    """A BaseException, as extension libraries raise it."""


@for_each("raised", [Panic("x"), SystemExit(3), ValueError("y" * 9000)])
async def test_every_exception_of_a_parser_becomes_a_short_validation_error(raised):
    def parse(arguments):
        raise raised

    result = await result_of(Tool("f", "", None, print, parse=parse))
    assert (result.error.kind, result.attempts) == ("validation", 0)
    assert len(result.output) < 2100


async def test_a_rejection_by_the_tool_looks_like_a_rejection_by_an_approver():
    result = await result_of(tool_that(ToolError("rejected", "Not on Sundays.")))
    assert (result.status, result.attempts) == ("rejected", 1)
    assert result.output == '{"status": "rejected", "message": "Not on Sundays."}'


# ---- phases


class Phases:
    """A pending call of a tool, and the phase that its function saw."""

    def __init__(self, call=CALL, effect="read", needs_approval=None, **settings):
        self.seen = []
        tool = Tool("f", execute=self.run, effect=effect, needs_approval=needs_approval)
        self.call = PendingCall(call, ToolRegistry(tool), ExecutionSettings(**settings))

    async def run(self, arguments):
        self.seen.append(self.call.phase)
        return "ok"


async def test_a_call_is_prepared_runs_and_ends():
    it = Phases()
    assert (it.call.phase, it.call.has_ended) == ("new", False)
    await it.call.prepare()
    assert (it.call.phase, it.call.result, it.call.has_ended) == ("ready", None, False)
    assert it.call.prepared == CALL
    await it.call.run()
    assert (it.call.phase, it.seen, it.call.has_ended) == ("ended", ["running"], True)
    assert (it.call.attempts, it.call.was_run) == (1, True)
    result = await it.call.review()
    assert (it.call.phase, result, result.output) == ("final", it.call.result, "ok")


@for_each(
    "call, settings, status",
    [
        (ToolCall("c1", "unknown", "{}"), {}, "error"),
        (ToolCall("c1", "f", "[]"), {}, "error"),
        (CALL, {"approve": lambda request: False, "approve_all": True}, "rejected"),
    ],
)
async def test_a_call_that_is_refused_ends_without_running(call, settings, status):
    it = Phases(call, **settings)
    await it.call.prepare()
    assert (it.call.phase, it.call.result.status, it.seen) == ("ended", status, [])
    assert (it.call.was_run, (await it.call.review()).status, it.call.phase) == (
        *(False, status, "final"),
    )


@for_each(
    "settings",
    [
        {"needs_approval": True},
        {"approve": lambda request: Later(), "approve_all": True},
    ],
)
async def test_a_call_waits_for_approval_or_is_rejected_if_the_run_cannot_be_resumed(settings):
    it = Phases(can_suspend=True, **settings)
    await it.call.prepare()
    assert (it.call.phase, it.call.result, it.call.has_ended) == ("waiting", None, False)

    it = Phases(**settings)
    await it.call.prepare()
    assert (it.call.phase, it.call.result.status) == ("ended", "rejected")
    assert "needs approval, and there is no approver" in it.call.result.output


async def test_a_call_whose_result_is_known_is_not_executed():
    known = ToolResult("c1", "f", "known")
    it = Phases()
    it.call.result = known
    await it.call.prepare()
    assert (it.call.phase, await it.call.review(), it.seen) == ("ended", known, [])


async def test_a_call_that_was_skipped_is_interrupted():
    it = Phases()
    await it.call.prepare()
    it.call.skip()
    assert (it.call.phase, it.call.result.status, it.seen) == ("ended", "interrupted", [])


async def test_the_result_of_a_call_is_reviewed_once():
    asked = []

    def approve_result(request):
        asked.append(request.result.output)
        return Redact("hidden")

    it = Phases(approve_result=approve_result)
    await it.call.prepare()
    await it.call.run()
    results = [await it.call.review() for _ in range(2)]
    assert [each.output for each in results] == ["hidden", "hidden"]
    assert (asked, it.call.phase) == (["ok"], "final")


async def test_a_cancelled_call_has_no_result_until_it_is_interrupted():
    async def forever(arguments):
        await asyncio.Event().wait()

    it, ended = Phases(), asyncio.Queue()
    it.call.registry = ToolRegistry(Tool("f", execute=forever))
    await it.call.prepare()
    it.call.run_in_task(ended)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (it.call.phase, it.call.has_ended) == ("running", False)
    it.call.task.cancel()
    assert await ended.get() is it.call
    assert (it.call.result, it.call.has_ended) == (None, True)
    assert it.call.interrupt().status == "unknown_effect"


async def test_an_exception_that_ends_the_program_is_kept_for_the_caller():
    def stop(arguments):
        raise KeyboardInterrupt

    it = Phases()
    it.call.registry = ToolRegistry(Tool("f", execute=stop))
    await it.call.prepare()
    await it.call.run()
    assert (it.call.phase, type(it.call.error)) == ("ended", KeyboardInterrupt)
    assert it.call.result.status == "unknown_effect"
