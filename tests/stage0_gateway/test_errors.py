import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ContextOverflow,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    ServerFailed,
)
from stage0_gateway.errors import error_for_status


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, InvalidRequest, False),
        (401, AuthenticationFailed, False),
        (403, AuthenticationFailed, False),
        (404, InvalidRequest, False),
        (408, InvalidRequest, True),
        (422, InvalidRequest, False),
        (429, RateLimited, True),
        (500, ServerFailed, True),
        (529, ServerFailed, True),
        (302, MalformedResponse, False),
    ],
)
def test_a_status_says_what_kind_of_error_it_is_and_whether_to_try_again(status, kind, retryable):
    error = error_for_status(status, "no")
    assert (type(error), error.status, error.retryable) == (kind, status, retryable)


def test_the_text_holds_the_servers_words_and_what_to_do():
    error = error_for_status(401, "Bad key.")
    assert str(error) == "Bad key. (HTTP 401) Check the API key, and that it may use this model."


def test_a_server_without_words_still_gives_a_sentence():
    assert (
        str(error_for_status(500, ""))
        == "The server gave no reason. (HTTP 500) Try again later, or another model."
    )


def test_an_overflow_is_an_invalid_request_that_names_the_window():
    error = error_for_status(400, "Too long.", overflow=True)
    assert isinstance(error, ContextOverflow)
    assert isinstance(error, InvalidRequest)
    assert "window" in str(error)


def test_whoever_raises_a_refusal_may_know_that_it_passes():
    assert error_for_status(400, "locked", retryable=True).retryable is True
    assert error_for_status(500, "invalid", retryable=False).retryable is False


def test_an_error_stands_alone_until_others_came_before_it():
    assert GatewayError("x").earlier == ()
    assert (GatewayError("x").status, GatewayError("x").retry_after) == (None, None)


def test_the_time_a_server_asks_to_wait_is_kept():
    assert error_for_status(429, "slow down", retry_after=7.0).retry_after == 7.0


def test_whoever_raises_an_error_may_know_better_than_its_class():
    assert ServerFailed("x").retryable is True
    assert ServerFailed("x", retryable=False).retryable is False
    assert GatewayError("x").retryable is False
