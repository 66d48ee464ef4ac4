"""Tests of retries: which failures are repeated, how often, and after which waits."""

import asyncio

import pytest
import stamina

from stage0_gateway import ToolCall
from stage3_tools import (
    ExecutionSettings,
    Retry,
    Tool,
    ToolError,
    ToolRegistry,
    execute_tool_call,
)
from stage3_tools.execution.retries import can_retry, policy_of
from tests.tables import for_each

CALL = ToolCall("c", "f", "{}")


def tool_of(effect="read", retry=None):
    return Tool("f", "", None, lambda arguments: None, effect=effect, retry=retry)


class Failing:
    """A tool that fails with these errors in order, then succeeds."""

    def __init__(self, *errors, effect="read", retry=None):
        self.errors, self.numbers, self.reported = list(errors), [], []
        self.tool = Tool("f", execute=self.attempt, effect=effect, retry=retry)

    async def attempt(self, arguments, context):
        self.numbers.append(context.attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "ok"

    async def result(self, **settings):
        given = ExecutionSettings(on_retry=self.on_retry, **settings)
        return await execute_tool_call(ToolRegistry(self.tool), CALL, given)

    def on_retry(self, call, error, number):
        assert call is CALL
        self.reported.append((error.kind, number))


TIMEOUT = ToolError("timeout", "x", retryable=True)
NETWORK = ToolError("network", "x", retryable=True)
FINAL = ToolError("execution", "x")


@for_each("effect", ["read", "idempotent"])
async def test_a_retryable_error_is_retried_until_success(effect):
    failing = Failing(TIMEOUT, NETWORK, TIMEOUT, effect=effect)
    result = await failing.result()
    assert (result.status, result.output, result.attempts) == ("completed", "ok", 4)
    assert failing.numbers == [1, 2, 3, 4]
    assert failing.reported == [("timeout", 1), ("network", 2), ("timeout", 3)]


@for_each("error, tries", [(TIMEOUT, 4), (NETWORK, 6), (FINAL, 1)])
async def test_the_number_of_attempts_depends_on_the_error_kind(error, tries):
    failing = Failing(*[error] * 10)
    result = await failing.result()
    assert (result.error.kind, result.error.message) == (error.kind, error.message)
    assert (result.status, result.attempts) == ("error", tries)
    assert failing.numbers == [*range(1, tries + 1)]
    assert failing.reported == [(error.kind, number) for number in range(1, tries)]


async def test_a_final_error_ends_the_retries():
    failing = Failing(TIMEOUT, FINAL, TIMEOUT)
    result = await failing.result()
    assert (result.error.kind, result.attempts) == ("execution", 2)
    assert (failing.numbers, failing.reported) == ([1, 2], [("timeout", 1)])


async def test_a_write_is_not_retried():
    failing = Failing(NETWORK, effect="write")
    result = await failing.result()
    assert (result.error.kind, failing.numbers, failing.reported) == ("network", [1], [])


async def test_after_a_stop_a_failure_is_not_retried():
    failing = Failing(NETWORK, NETWORK)
    result = await failing.result(stopped=lambda: bool(failing.numbers))
    assert (result.error.kind, failing.numbers, failing.reported) == ("network", [1], [])


@for_each(
    "tool, error, policy",
    [
        (tool_of(), TIMEOUT, Retry(3, 1.0)),
        (tool_of(), NETWORK, Retry(5, 2.0)),
        (tool_of(), FINAL, Retry(0)),
        (tool_of(), ToolError("timeout", "x"), Retry(0)),
        (tool_of(), ToolError("execution", "x", retryable=True), Retry(3, 1.0)),
        (
            tool_of(),
            ToolError("execution", "x", retryable=True, max_retries=1, retry_delay=0.5),
            Retry(1, 0.5),
        ),
        (tool_of(retry=2), NETWORK, Retry(2, 2.0)),
        (tool_of(retry=2), FINAL, Retry(0)),
        (tool_of(retry=0), NETWORK, Retry(0, 2.0)),
        (tool_of(retry=Retry(7, 0.1)), NETWORK, Retry(7, 0.1)),
        (tool_of("write"), NETWORK, Retry(0)),
        (tool_of("write"), ToolError("network", "x", retryable=True, max_retries=9), Retry(0)),
        (tool_of(), ToolError("network", "x", retryable=True, retry_delay=31), Retry(0)),
        (
            tool_of(retry=Retry(7, 0.1)),
            ToolError("network", "x", retryable=True, retry_delay=31),
            Retry(0),
        ),
    ],
)
def test_the_retry_policy_is_taken_from_tool_then_error_then_kind(tool, error, policy):
    assert policy_of(tool, error) == policy


@for_each(
    "tool, error, attempts, stopped, may_follow",
    [
        (tool_of(), TIMEOUT, 1, None, True),
        (tool_of(), TIMEOUT, 3, None, True),
        (tool_of(), TIMEOUT, 4, None, False),
        (tool_of(), FINAL, 1, None, False),
        (tool_of("write"), TIMEOUT, 1, None, False),
        (tool_of(), TIMEOUT, 1, lambda: False, True),
        (tool_of(), TIMEOUT, 1, lambda: True, False),
    ],
)
async def test_another_attempt_may_follow_if_the_policy_and_the_run_allow_it(
    tool, error, attempts, stopped, may_follow
):
    assert can_retry(tool, error, attempts, stopped) is may_follow


@pytest.fixture
def waits():
    """Collect the delay in seconds before each retry."""
    seen = []
    stamina.instrumentation.set_on_retry_hooks([lambda details: seen.append(details.wait_for)])
    with stamina.set_testing(False):
        yield seen
    stamina.instrumentation.set_on_retry_hooks(None)


async def test_the_delay_of_a_tool_doubles_with_each_retry(waits):
    await Failing(*[NETWORK] * 3, retry=Retry(3, 0.001)).result()
    assert len(waits) == 3
    assert all(
        base <= wait <= base + 0.0005
        for base, wait in zip([0.001, 0.002, 0.004], waits, strict=True)
    )


async def test_the_delay_of_an_error_is_constant(waits):
    asks = ToolError("network", "x", retryable=True, retry_delay=0.002)
    await Failing(asks, asks).result()
    assert waits == [0.002, 0.002]


async def test_the_first_attempt_does_not_wait(waits):
    assert (await Failing().result()).attempts == 1
    assert waits == []


async def test_a_tool_that_converts_its_cancellation_is_not_retried():
    numbers = []

    async def failing(arguments):
        numbers.append(len(numbers))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise NETWORK from None

    registry = ToolRegistry(Tool("f", "", None, failing, effect="read"))
    running = asyncio.create_task(execute_tool_call(registry, CALL))
    while not numbers:  # noqa: ASYNC110 (no event exists yet)
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert numbers == [0]
