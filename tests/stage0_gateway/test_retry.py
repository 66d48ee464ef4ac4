import asyncio
import logging

import pytest
import stamina

from stage0_gateway import InvalidRequest, RateLimited, ServerFailed
from stage0_gateway.retry import LONGEST_WAIT, with_retries


class Script:
    """Fails with each error in turn, then succeeds; remembers what it was asked and told."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.attempts = []
        self.retries = []

    async def send(self, attempt):
        self.attempts.append(attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "yes"

    def on_retry(self, error, attempt):
        self.retries.append((type(error), attempt))


@pytest.fixture
def waits():
    """The seconds that would have been waited before each retry."""
    from stamina.instrumentation import set_on_retry_hooks

    seen = []
    set_on_retry_hooks([lambda details: seen.append(details.wait_for)])
    yield seen
    set_on_retry_hooks(None)


async def test_what_may_succeed_is_tried_again_and_told():
    script = Script(ServerFailed("a"), RateLimited("b"))
    assert await with_retries(script.send, 2, script.on_retry) == "yes"
    assert script.attempts == [1, 2, 3]
    assert script.retries == [(ServerFailed, 1), (RateLimited, 2)]


async def test_after_the_last_try_the_last_error_is_raised_and_not_told_as_a_retry():
    script = Script(ServerFailed("a"), ServerFailed("b"), ServerFailed("c"))
    with pytest.raises(ServerFailed, match="b"):
        await with_retries(script.send, 1, script.on_retry)
    assert (script.attempts, script.retries) == ([1, 2], [(ServerFailed, 1)])


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("no"),
        ServerFailed("invalid", retryable=False),
        RateLimited("tomorrow", retry_after=LONGEST_WAIT + 1),
        ZeroDivisionError(),
        asyncio.CancelledError(),
    ],
    ids=[
        "refused",
        "a failure that says it will stay",
        "a wait of more than a minute",
        "not ours",
        "cancelled",
    ],
)
@pytest.mark.parametrize("before", [[], [ServerFailed("a")]], ids=["at first", "later"])
async def test_what_cannot_succeed_is_not_tried_again(error, before):
    script = Script(*before, error)
    with pytest.raises(type(error)) as caught:
        await with_retries(script.send, 5, script.on_retry)
    assert caught.value is error
    assert len(script.attempts) == len(before) + 1
    assert script.retries == [(ServerFailed, 1)] * len(before)


async def test_without_retries_there_is_one_try():
    script = Script(ServerFailed("a"))
    with pytest.raises(ServerFailed):
        await with_retries(script.send, 0, script.on_retry)
    assert script.attempts == [1]


async def test_a_refusal_that_the_server_calls_passing_is_tried_again():
    script = Script(InvalidRequest("locked", retryable=True))
    assert await with_retries(script.send, 1, script.on_retry) == "yes"


@pytest.mark.parametrize("seconds", [0.0, 0.25, LONGEST_WAIT])
async def test_a_server_that_says_how_long_to_wait_is_believed(seconds, waits, monkeypatch):
    slept = []

    async def sleep(delay, *rest):
        slept.append(delay)

    stamina.set_testing(False)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    script = Script(RateLimited("a", retry_after=seconds))
    assert await with_retries(script.send, 2, script.on_retry) == "yes"
    assert (waits, slept) == ([seconds], [seconds])


async def test_our_own_waits_grow_and_stay_below_eight_seconds(waits, monkeypatch):
    async def sleep(delay, *rest):
        pass

    stamina.set_testing(False)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    script = Script(*[ServerFailed("a")] * 9)
    assert await with_retries(script.send, 9, script.on_retry) == "yes"
    assert [0.5 * 2**n <= wait <= 0.5 * 2**n + 0.5 for n, wait in enumerate(waits[:4])] == [
        True
    ] * 4
    assert waits[5:] == pytest.approx([8.0] * 4)


async def test_a_listener_that_raises_ends_the_trying():
    def stumble(error, attempt):
        raise ZeroDivisionError

    script = Script(ServerFailed("a"))
    with pytest.raises(ZeroDivisionError):
        await with_retries(script.send, 2, stumble)
    assert script.attempts == [1]


async def test_retries_write_nothing_where_nobody_listens(capsys):
    script = Script(ServerFailed("a"))
    await with_retries(script.send, 1, script.on_retry)
    assert capsys.readouterr() == ("", "")
    assert logging.getLogger("stamina").handlers


async def test_the_switch_of_the_retrying_library_counts_here_too():
    stamina.set_active(False)
    try:
        script = Script(ServerFailed("a"))
        with pytest.raises(ServerFailed):
            await with_retries(script.send, 5, script.on_retry)
    finally:
        stamina.set_active(True)
    assert script.attempts == [1]
