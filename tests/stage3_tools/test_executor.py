import asyncio
from dataclasses import replace

import pytest

from stage0_gateway import TextPart, ToolCall
from stage3_tools import Tool, ToolError, ToolOutput, ToolRegistry, ToolResult, execute_tool_call, tool
from stage3_tools.executor import failed, interrupted

CALL = ToolCall("c1", "f", "{}")
MAY_HAVE_HAPPENED = "\nIt was cut off and may have happened. Check before you ask for it again."


def tool_that(does, effect="write", **rest):
    """A tool that returns a value, or raises it if it is an exception."""

    def execute(arguments):
        if isinstance(does, BaseException):
            raise does
        return does

    return Tool("f", "", None, execute, effect=effect, **rest)


async def result_of(tool, call=CALL):
    return await execute_tool_call(ToolRegistry(tool), call)


async def test_a_call_that_succeeds_is_completed_with_output_and_details():
    result = await result_of(tool_that(ToolOutput({"a": 1}, details={"log": "x"})))
    assert result.duration > 0
    assert replace(result, duration=0.0) == ToolResult("c1", "f", '{"a":1}', {"log": "x"}, attempts=1)


async def test_parts_reach_the_model_as_parts():
    assert (await result_of(tool_that([TextPart("hi")]))).output == (TextPart("hi"),)


@pytest.mark.parametrize(
    ("call", "text"),
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
    ids=["unknown", "no object", "does not fit"],
)
async def test_a_call_that_cannot_be_run_is_refused_unexecuted(recorder, call, text):
    noted = recorder(parameters={"type": "object", "properties": {"x": {"type": "integer"}}})
    result = await result_of(noted.tool, call)
    assert noted.seen == []
    assert (result.output, result.status, result.is_error, result.attempts) == (text, "error", True, 0)
    assert result.details is result.error.details
    assert result.details["available_tools"] == ["f"]


@pytest.mark.parametrize(
    ("raised", "effect", "status"),
    [
        (TimeoutError("x"), "write", "unknown_effect"),
        (TimeoutError("x"), "idempotent", "error"),
        (TimeoutError("x"), "read", "error"),
        (ConnectionError("x"), "write", "unknown_effect"),
        (ConnectionError("x"), "read", "error"),
        (ValueError("x"), "write", "error"),
        (PermissionError("x"), "write", "error"),
        (ToolError("interrupted", "x"), "write", "unknown_effect"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_a_write_that_was_cut_off_may_have_happened(raised, effect, status):
    result = await result_of(tool_that(raised, effect))
    assert (result.status, result.is_error, result.attempts) == (status, True, 1)
    assert result.output.endswith(MAY_HAVE_HAPPENED) == (status == "unknown_effect")


@pytest.mark.parametrize(("effect", "status"), [("write", "unknown_effect"), ("read", "error")])
async def test_a_tool_that_takes_too_long_is_answered_by_its_effect(effect, status):
    async def forever(arguments):
        await asyncio.Event().wait()

    result = await result_of(Tool("f", "", None, forever, effect=effect, timeout=0.01))
    assert (result.status, result.error.kind) == (status, "timeout")
    assert result.output.startswith("Error (timeout): f took longer than 0.01 s.")


async def test_the_model_is_told_type_and_message_and_only_people_the_traceback():
    result = await result_of(tool_that(ValueError("no such city")))
    assert result.output == "Error (execution): ValueError: no such city"
    assert result.details["traceback"].startswith("Traceback (most recent call last):")
    assert result.details["traceback"].endswith("ValueError: no such city\n")


async def test_a_tool_may_say_itself_what_went_wrong_and_what_to_do():
    own = ToolError("permission", "Not yours.", hint="Ask Ann.", details={"owner": "Ann"})
    result = await result_of(tool_that(own))
    assert result.error is own
    assert (result.output, result.details) == ("Error (permission): Not yours.\nAsk Ann.", {"owner": "Ann"})


@pytest.mark.parametrize(
    "value", [object(), ToolOutput(object()), {"a": object()}], ids=["bare", "output", "in"]
)
async def test_what_json_cannot_hold_is_an_error_result_and_never_a_repr(value):
    result = await result_of(tool_that(value))
    assert (result.status, result.is_error, result.attempts) == ("error", True, 1)
    assert result.output.startswith("Error (execution): The tool returned a value of type ")
    assert "0x" not in result.output


async def test_arguments_that_the_types_refuse_count_as_refused_and_not_as_run():
    import datetime as dt

    @tool
    def f(day: dt.date): ...

    result = await result_of(f, ToolCall("c1", "f", '{"day": "tomorrow"}'))
    assert (result.error.kind, result.attempts) == ("validation", 0)


async def test_whoever_cancels_is_obeyed():
    started = asyncio.Event()

    async def forever(arguments):
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(result_of(Tool("f", "", None, forever, timeout=2)))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_failure_is_a_result_for_the_call():
    error = ToolError("rejected", "No.", details={"by": "Ann"})
    assert failed(CALL, error, "rejected", duration=0.5, attempts=2) == ToolResult(
        "c1", "f", "Error (rejected): No.", error.details, True, error, 0.5, 2, status="rejected"
    )


@pytest.mark.parametrize(
    ("begun_in", "status"),
    [
        (None, "interrupted"),
        (ToolRegistry(tool_that(1, "read")), "interrupted"),
        (ToolRegistry(tool_that(1, "idempotent")), "interrupted"),
        (ToolRegistry(tool_that(1, "write")), "unknown_effect"),
    ],
    ids=["none was running", "read", "idempotent", "write"],
)
def test_an_interrupted_call_says_whether_it_may_have_happened(begun_in, status):
    result = interrupted(CALL, begun_in)
    assert (result.status, result.error.kind) == (status, "interrupted")
    assert result.output.startswith("Error (interrupted): The run was stopped before this call had a result.")
    assert result.output.endswith(MAY_HAVE_HAPPENED) == (status == "unknown_effect")


async def test_a_parse_that_fails_is_a_result_and_never_goes_up_the_stack():
    result = await result_of(Tool("f", "", None, print, parse=lambda arguments: arguments["missing"]))
    assert (result.is_error, result.attempts) == (True, 0)


async def test_a_tool_that_cancels_itself_has_failed_and_nobody_else_has():
    async def stop(arguments):
        raise asyncio.CancelledError

    result = await execute_tool_call(ToolRegistry(Tool("f", "", None, stop, effect="read")), CALL)
    assert (result.status, result.error.kind, result.attempts) == ("error", "interrupted", 1)
