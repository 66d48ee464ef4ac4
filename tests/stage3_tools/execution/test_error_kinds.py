import asyncio
import email.message
import errno
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
from http import HTTPStatus

import httpx

from stage3_tools import ToolError
from stage3_tools.execution.error_kinds import classify_exception
from tests.stage3_tools.conversation import Unprintable
from tests.tables import for_each


def http_error(status, **headers):
    request = httpx.Request("GET", "https://example.com")
    return httpx.HTTPStatusError(
        "no", request=request, response=httpx.Response(status, headers=headers)
    )


def url_error(status, **headers):
    message = email.message.Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("https://example.com", status, "no", message, None)


def error_with(**attributes):
    """Return an exception of a third-party library with these attributes."""
    error = Exception("x")
    vars(error).update(attributes)
    return error


class ClientResponseError(Exception):
    """Has the status as an attribute, as aiohttp does."""

    status = 404


class ConnectTimeout(type("ConnectionError", (OSError,), {}), type("Timeout", (OSError,), {})):
    """Has two library base classes, as in requests, and no built-in timeout."""


class Closed(Exception):
    """Raises when an attribute is read."""

    def __getattr__(self, name):
        raise RuntimeError("no attributes")


@for_each(
    "exception, kind",
    [
        (TimeoutError("slow"), "timeout"),
        (OSError(errno.ETIMEDOUT, "slow"), "timeout"),
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.PoolTimeout("slow"), "timeout"),
        (subprocess.TimeoutExpired("sleep", 1), "timeout"),
        (ConnectTimeout("slow"), "timeout"),
        (PermissionError("no"), "permission"),
        (OSError(errno.EACCES, "no"), "permission"),
        (FileNotFoundError("gone"), "not_found"),
        (ConnectionRefusedError("no"), "network"),
        (BrokenPipeError("no"), "network"),
        (OSError(errno.EHOSTUNREACH, "no"), "network"),
        (socket.gaierror(-2, "no such host"), "network"),
        (asyncio.IncompleteReadError(b"", 5), "network"),
        (ssl.SSLEOFError(8, "cut"), "network"),
        (httpx.ConnectError("no"), "network"),
        (httpx.RemoteProtocolError("no"), "network"),
        (urllib.error.URLError(ConnectionRefusedError("no")), "network"),
        (urllib.error.URLError(TimeoutError("slow")), "timeout"),
        (urllib.error.URLError("unknown url type"), "execution"),
        (httpx.UnsupportedProtocol("no http:// before it"), "execution"),
        (httpx.InvalidURL("no"), "execution"),
        (ssl.SSLCertVerificationError(1, "self-signed"), "execution"),
        (IsADirectoryError("a folder"), "execution"),
        (OSError(errno.ENOSPC, "full"), "execution"),
        (OSError("nothing said"), "execution"),
        (sqlite3.OperationalError("locked"), "execution"),
        (subprocess.CalledProcessError(404, "false"), "execution"),
        (KeyError("k"), "execution"),
        (MemoryError(), "execution"),
        (ValueError("HTTP 404 timeout, permission denied"), "execution"),
    ],
)
def test_the_error_kind_depends_on_type_and_attributes_not_on_the_message(exception, kind):
    error = classify_exception(exception)
    assert (error.kind, error.retryable) == (kind, kind in ("timeout", "network"))
    assert error.__cause__ is exception


@for_each(
    "status, kind, retryable",
    [
        (302, "execution", False),
        (400, "execution", False),
        (401, "permission", False),
        (403, "permission", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (410, "not_found", False),
        (429, "execution", True),
        (500, "network", True),
        (501, "execution", False),
        (503, "network", True),
        (504, "timeout", True),
        (529, "network", True),
    ],
)
def test_the_http_status_determines_the_kind_and_whether_it_is_retryable(status, kind, retryable):
    error = classify_exception(http_error(status))
    assert (error.kind, error.retryable) == (kind, retryable)


@for_each(
    "exception",
    [
        ClientResponseError(),
        url_error(404),
        error_with(status_code=404),
        error_with(code=404),
        error_with(status=HTTPStatus.NOT_FOUND),
        error_with(response=httpx.Response(404)),
        error_with(response=None, status=404),
    ],
)
def test_the_http_status_is_found_on_exceptions_of_common_http_libraries(exception):
    assert classify_exception(exception).kind == "not_found"


@for_each(
    "exception",
    [
        SystemExit(404),
        error_with(sqlite_errorcode=404),
        error_with(code="404"),
        error_with(code=lambda: 404),
        error_with(errno=404),
        error_with(status=True),
        error_with(code=4040),
    ],
)
def test_other_numeric_attributes_are_not_treated_as_an_http_status(exception):
    assert classify_exception(exception).kind == "execution"


@for_each(
    "exception, delay",
    [
        (http_error(429, **{"Retry-After": "5"}), 5.0),
        (http_error(503, **{"Retry-After": "0.5"}), 0.5),
        (url_error(503, **{"Retry-After": "7"}), 7.0),
        (error_with(status=503, headers=httpx.Headers({"Retry-After": "3"})), 3.0),
        (http_error(503), None),
        (http_error(503, **{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), None),
        (http_error(503, **{"Retry-After": "-5"}), None),
        (http_error(503, **{"Retry-After": "nan"}), None),
        (http_error(503, **{"Retry-After": "86400"}), None),
        (error_with(headers=httpx.Headers({"Retry-After": "3"})), None),
    ],
)
def test_retry_after_in_seconds_becomes_the_retry_delay(exception, delay):
    assert classify_exception(exception).retry_delay == delay


@for_each(
    "exception, message",
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 3000), "ValueError: " + "x" * 1988),
        (Unprintable(), "Unprintable"),
        (Closed("x"), "Closed: x"),
    ],
)
def test_the_message_contains_type_and_text_of_the_exception(exception, message):
    assert classify_exception(exception).message == message


def test_an_explicit_text_replaces_the_message():
    error = classify_exception(TimeoutError("s3cret"), text="TimeoutError")
    assert (error.message, error.kind, error.retryable) == ("TimeoutError", "timeout", True)


def test_a_tool_error_is_copied_even_alone_in_a_group():
    error = ToolError("permission", "ask the owner", hint="mail them")
    for copy in (classify_exception(error), classify_exception(ExceptionGroup("g", [error]))):
        assert (copy.for_model, copy.__cause__) == (error.for_model, error)


def test_a_group_with_a_single_exception_is_classified_as_that_exception():
    error = classify_exception(
        ExceptionGroup("g", [ExceptionGroup("h", [http_error(429, **{"retry-after": "5"})])])
    )
    assert (error.kind, error.retryable, error.retry_delay) == ("execution", True, 5.0)
    assert error.message == "HTTPStatusError: no"


def test_a_group_of_several_exceptions_is_an_execution_error_that_is_not_retried():
    error = classify_exception(
        ExceptionGroup("two failures", [TimeoutError("a"), TimeoutError("b")])
    )
    assert (error.kind, error.retryable) == ("execution", False)
    assert error.message == "ExceptionGroup: two failures (2 sub-exceptions)"
