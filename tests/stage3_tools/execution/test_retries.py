import asyncio

import pytest
import stamina

from stage0_gateway import ToolCall
from stage3_tools import Retry, Tool, ToolError, ToolRegistry, execute_tool_call
from stage3_tools.execution.retries import can_retry, policy_of, retry
from tests.tables import for_each


def tool_of(effect="read", retry=None):
    return Tool("f", "", None, lambda arguments: None, effect=effect, retry=retry)


class Attempts:
    """A function that fails with these errors in order, then succeeds."""

    def __init__(self, *errors):
        self.errors, self.numbers, self.reported = list(errors), [], []

    async def once(self, number):
        self.numbers.append(number)
        if self.errors:
            raise self.errors.pop(0)
        return "ok"

    async def under(self, tool):
        try:
            return await self.once(1)
        except ToolError as error:
            if not can_retry(tool, error, 1, None):
                raise
            return await retry(tool, error, self.once, on_retry=self.on_retry)

    def on_retry(self, error, number):
        self.reported.append((error.kind, number))


TIMEOUT = ToolError("timeout", "x", retryable=True)
NETWORK = ToolError("network", "x", retryable=True)
FINAL = ToolError("execution", "x")


@for_each("effect", ["read", "idempotent"])
async def test_a_retryable_error_is_retried_until_success(effect):
    attempts = Attempts(TIMEOUT, NETWORK, TIMEOUT)
    assert await attempts.under(tool_of(effect)) == "ok"
    assert attempts.numbers == [1, 2, 3, 4]
    assert attempts.reported == [("timeout", 1), ("network", 2), ("timeout", 3)]


@for_each("error, tries", [(TIMEOUT, 4), (NETWORK, 6), (FINAL, 1)])
async def test_the_number_of_attempts_depends_on_the_error_kind(error, tries):
    attempts = Attempts(*[error] * 10)
    with pytest.raises(ToolError) as raised:
        await attempts.under(tool_of())
    assert raised.value is error
    assert attempts.numbers == [*range(1, tries + 1)]


async def test_a_final_error_ends_the_retries():
    attempts = Attempts(TIMEOUT, FINAL, TIMEOUT)
    with pytest.raises(ToolError) as raised:
        await attempts.under(tool_of())
    assert raised.value is FINAL
    assert attempts.numbers == [1, 2]


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


@pytest.fixture
def waits():
    """Collect the delay in seconds before each retry."""
    seen = []
    stamina.instrumentation.set_on_retry_hooks([lambda details: seen.append(details.wait_for)])
    with stamina.set_testing(False):
        yield seen
    stamina.instrumentation.set_on_retry_hooks(None)


async def test_the_delay_of_a_tool_doubles_with_each_retry(waits):
    await Attempts(*[NETWORK] * 3).under(tool_of(retry=Retry(3, 0.001)))
    assert len(waits) == 3
    assert all(
        base <= wait <= base + 0.0005
        for base, wait in zip([0.001, 0.002, 0.004], waits, strict=True)
    )


async def test_the_delay_of_an_error_is_constant(waits):
    asks = ToolError("network", "x", retryable=True, retry_delay=0.002)
    await Attempts(asks, asks).under(tool_of())
    assert waits == [0.002, 0.002]


async def test_a_tool_that_converts_its_cancellation_is_not_retried():
    numbers = []

    async def failing(arguments):
        numbers.append(len(numbers))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise NETWORK from None

    registry = ToolRegistry(Tool("f", "", None, failing, effect="read"))
    running = asyncio.create_task(execute_tool_call(registry, ToolCall("c", "f", "{}")))
    while not numbers:  # noqa: ASYNC110 (no event exists yet)
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert numbers == [0]
