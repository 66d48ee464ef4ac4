import json
import sys

from stage0_gateway import (
    AuthenticationFailed,
    ContextOverflow,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.wire.error_body import (
    error_for_body,
    error_in_event,
    error_in_reply,
    error_message,
)
from tests.tables import for_each


@for_each(
    "status, body, kind, message",
    [
        (
            401,
            {"error": {"message": "bad key", "code": "invalid_api_key"}},
            AuthenticationFailed,
            "bad key",
        ),
        (401, {"detail": "Unauthorized"}, AuthenticationFailed, "Unauthorized"),
        (
            422,
            {"detail": [{"msg": "field required"}, 5]},
            InvalidRequest,
            '[{"msg": "field required"}, 5]',
        ),
        (400, {"error": "no model"}, InvalidRequest, "no model"),
        (400, {"message": "no", "type": "bad"}, InvalidRequest, "no"),
        (
            400,
            [{"error": {"code": 400, "message": "API key not valid."}}],
            InvalidRequest,
            "API key not valid.",
        ),
        (429, {"error": {"message": "slow down", "code": 429}}, RateLimited, "slow down"),
        (529, {"type": "error", "error": {"message": "Overloaded"}}, ServerFailed, "Overloaded"),
        (502, "<html>Bad gateway</html>", ServerFailed, "<html>Bad gateway</html>"),
        (500, {"error": {"code": None}}, ServerFailed, '{"code": null}'),
        (500, ["odd", 1], ServerFailed, '["odd", 1]'),
        (500, None, ServerFailed, "null"),
        (500, "", ServerFailed, "The server gave no reason."),
    ],
)
def test_errors_of_every_shape_keep_the_servers_message(status, body, kind, message):
    error = error_for_body(status, body)
    assert type(error) is kind
    assert str(error).startswith(f"{message} (HTTP {status})")


@for_each(
    "error",
    [
        {"code": "context_length_exceeded", "message": "no"},
        {"type": "exceed_context_size_error", "message": "no"},
        {"message": "This model's maximum context length is 8192 tokens."},
        {"message": "prompt is too long: 3333404 tokens > 200000 maximum"},
        {
            "message": "The input token count (1200000) exceeds the maximum number of tokens "
            "allowed (1048576)."
        },
        {"message": "the request exceeds the available context size"},
        {"message": "Please reduce the length of the messages."},
    ],
)
def test_a_context_overflow_is_recognized_by_codes_and_messages_of_many_servers(error):
    assert type(error_for_body(400, {"error": error})) is ContextOverflow
    assert type(error_for_body(429, {"error": error})) is RateLimited


@for_each(
    "message",
    [
        "max_tokens is too large",
        "The tool call id is too long",
        "missing context",
        "a list of prompts",
    ],
)
def test_similar_messages_are_not_a_context_overflow(message):
    assert type(error_for_body(400, {"error": {"message": message}})) is InvalidRequest


@for_each(
    "status, error, retryable",
    [
        (429, {"message": "slow down"}, True),
        (429, {"message": "no money", "code": "insufficient_quota"}, False),
        (400, {"message": "no money", "type": "billing_error"}, False),
        (500, {"message": "Internal error"}, True),
        (500, {"message": "no", "type": "invalid_request_error"}, False),
        (500, {"message": "Invalid tool schema"}, False),
        (500, {"message": "1 validation error for Request"}, False),
        (408, {"message": "too slow"}, True),
        (404, {"message": "no such model"}, False),
    ],
)
def test_retryable_depends_on_the_status_and_on_permanent_causes(status, error, retryable):
    assert error_for_body(status, {"error": error}).retryable is retryable


def retry_info(delay):
    return {"error": {"message": "quota", "details": [{"@type": "x"}, 5, {"retryDelay": delay}]}}


@for_each(
    "body, seconds",
    [
        (retry_info("7s"), 7.0),
        (retry_info("0.5s"), 0.5),
        (retry_info("soon"), None),
        (retry_info(7), None),
        ({"error": {"message": "Please retry in 34.07s."}}, 34.07),
        ({"error": {"message": "Please try again in 1m30s."}}, 90.0),
        ({"error": {"message": "Please try again in 120ms. Or later."}}, 0.12),
        ({"error": {"message": "Retry later."}}, None),
        ("try again in 2h", 7200.0),
    ],
)
def test_the_wait_is_read_from_the_details_or_from_the_message(body, seconds):
    assert error_for_body(429, body).retry_after == seconds


def test_the_wait_in_the_headers_overrides_the_body():
    assert error_for_body(429, retry_info("7s"), 0.0).retry_after == 0.0


@for_each(
    "error, kind, status_inside",
    [
        ({"code": 503}, ServerFailed, 503),
        ({"code": "503"}, ServerFailed, 503),
        ({"type": "overloaded_error"}, ServerFailed, 529),
        ({"code": "rate_limit_exceeded"}, RateLimited, 429),
        (
            {"type": "invalid_request_error", "code": "context_length_exceeded"},
            ContextOverflow,
            400,
        ),
        ({"code": 200}, None, None),
        ({"code": "odd"}, None, None),
        ({"code": "٤٠٠"}, None, None),
        ({"code": ["x"]}, None, None),
    ],
)
def test_an_error_with_status_200_is_classified_by_its_code_or_type(error, kind, status_inside):
    body = {"error": {"message": "boo", **error}}
    streamed, whole = error_in_event(body), error_in_reply(body)
    assert (type(streamed), type(whole)) == (kind or StreamInterrupted, kind or MalformedResponse)
    assert (streamed.status, whole.status) == (200, 200)
    assert str(whole).startswith(
        f"boo (HTTP 200, but {status_inside} inside)" if status_inside else "boo (HTTP 200) Check"
    )


def test_an_error_without_a_code_mentions_that_it_came_in_a_stream():
    assert str(error_in_event({"error": "boo"})) == "boo (reported inside the stream)"


def test_a_long_error_is_truncated_between_words_so_that_no_partial_key_remains():
    assert error_message(f"{'x' * 3990} sk-secret-key") == f"{'x' * 3990} …"


def test_a_long_error_without_spaces_is_truncated():
    assert error_message("请" * 5000) == "请" * 4000 + " …"


def test_a_deeply_nested_error_is_classified():
    for depth in range(sys.getrecursionlimit() - 150, sys.getrecursionlimit()):
        try:
            body = json.loads('{"error":' + "[" * depth + "]" * depth + "}")
        except RecursionError:
            break
        assert type(error_for_body(400, body)) is InvalidRequest
