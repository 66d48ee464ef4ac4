import asyncio
from traceback import format_exception

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    ContextOverflow,
    MalformedResponse,
    RateLimited,
    RequestTimeout,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.fallback import first_answer


class Models:
    """Answers as told: an exception is raised, anything else is the answer; remembers who was
    asked."""

    def __init__(self, **answers):
        self.answers, self.asked, self.told = answers, [], []

    async def ask(self, model):
        self.asked.append(model)
        answer = self.answers[model]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def on_fallback(self, error, model, following):
        self.told.append((error, model, following))

    async def first(self):
        return await first_answer(list(self.answers), self.ask, self.on_fallback)


async def test_a_model_that_answers_is_the_only_one_asked():
    models = Models(a="yes", b="no")
    assert await models.first() == "yes"
    assert (models.asked, models.told) == (["a"], [])


@pytest.mark.parametrize(
    "kind",
    [
        ServerFailed,
        RateLimited,
        ContextOverflow,
        AuthenticationFailed,
        ConnectionFailed,
        RequestTimeout,
        MalformedResponse,
        StreamInterrupted,
    ],
)
async def test_whatever_a_server_says_no_to_the_next_model_is_asked(kind):
    error = kind("no")
    models = Models(a=error, b="yes")
    assert await models.first() == "yes"
    assert models.told == [(error, "a", "b")]


async def test_an_answer_of_nothing_is_an_answer():
    assert await Models(a=None, b="no").first() is None


@pytest.mark.parametrize(
    "error",
    [ConfigurationError("no url"), ValueError("not JSON"), asyncio.CancelledError()],
    ids=repr,
)
async def test_what_no_other_model_would_change_is_raised_at_once(error):
    models = Models(a=error, b="yes")
    with pytest.raises(type(error)) as caught:
        await models.first()
    assert caught.value is error
    assert (models.asked, models.told) == (["a"], [])


async def test_the_last_error_is_raised_with_what_the_others_said():
    first, second, last = (
        RateLimited("slow"),
        ServerFailed("broken"),
        ContextOverflow("long", status=400),
    )
    models = Models(a=first, b=second, c=last)
    with pytest.raises(ContextOverflow) as caught:
        await models.first()
    said = "long The models asked before it: RateLimited: slow; ServerFailed: broken"
    assert (str(caught.value), caught.value.earlier) == (said, (first, second))
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert models.told == [(first, "a", "b"), (second, "b", "c")]


async def test_a_single_models_error_stays_as_it_is():
    cause = OSError("reset")
    error = ConnectionFailed("broke")
    error.__cause__ = cause
    with pytest.raises(ConnectionFailed) as caught:
        await Models(a=error).first()
    assert (str(caught.value), caught.value.earlier, caught.value.__cause__) == ("broke", (), cause)


async def test_the_traceback_tells_each_error_once():
    models = Models(a=ServerFailed("broken"), b=RateLimited("slow"))
    with pytest.raises(RateLimited) as caught:
        await models.first()
    shown = "".join(format_exception(caught.value))
    assert shown.count("ServerFailed: broken") == 1
    assert "During handling" not in shown
