import pytest

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
    ],
    ids=["refused", "a failure that says it will stay", "a wait of more than a minute", "not ours"],
)
async def test_what_cannot_succeed_is_not_tried_again(error):
    script = Script(error)
    with pytest.raises(type(error)):
        await with_retries(script.send, 5, script.on_retry)
    assert (script.attempts, script.retries) == ([1], [])


async def test_without_retries_there_is_one_try():
    script = Script(ServerFailed("a"))
    with pytest.raises(ServerFailed):
        await with_retries(script.send, 0, script.on_retry)
    assert script.attempts == [1]
