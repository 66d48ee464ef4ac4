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
from tests.tables import for_each


@for_each(
    "status, kind, retryable",
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
def test_the_status_sets_the_class_of_the_error_and_whether_it_is_retryable(
    status, kind, retryable
):
    error = error_for_status(status, "no")
    assert (type(error), error.status, error.retryable) == (kind, status, retryable)


def test_the_error_text_has_the_servers_message_and_a_hint():
    error = error_for_status(401, "Bad key.")
    assert str(error) == "Bad key. (HTTP 401) Check the API key, and that it may use this model."


def test_an_error_without_a_server_message_has_a_default_text():
    assert (
        str(error_for_status(500, ""))
        == "The server gave no reason. (HTTP 500) Try again later, or another model."
    )


def test_a_context_overflow_is_an_invalid_request_that_mentions_the_window():
    error = error_for_status(400, "Too long.", overflow=True)
    assert isinstance(error, ContextOverflow)
    assert isinstance(error, InvalidRequest)
    assert "window" in str(error)


def test_retryable_of_a_status_error_can_be_overridden():
    assert error_for_status(400, "locked", retryable=True).retryable is True
    assert error_for_status(500, "invalid", retryable=False).retryable is False


def test_a_new_error_has_no_earlier_errors_status_or_wait():
    assert GatewayError("x").earlier == ()
    assert (GatewayError("x").status, GatewayError("x").retry_after) == (None, None)


def test_the_wait_that_the_server_requests_is_stored():
    assert error_for_status(429, "slow down", retry_after=7.0).retry_after == 7.0


def test_retryable_of_an_error_instance_overrides_the_default_of_its_class():
    assert ServerFailed("x").retryable is True
    assert ServerFailed("x", retryable=False).retryable is False
    assert GatewayError("x").retryable is False
