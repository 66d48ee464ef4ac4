import httpx
import pytest

from stage3_tools import RegistrationError, ToolError
from stage3_tools.errors import error_of


def http_error(status):
    request = httpx.Request("GET", "https://example.com")
    return httpx.HTTPStatusError("no", request=request, response=httpx.Response(status))


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (TimeoutError("slow"), "timeout"),
        (http_error(408), "timeout"),
        (http_error(504), "timeout"),
        (
            httpx.ReadTimeout("slow"),
            "timeout",
        ),
        (PermissionError("no"), "permission"),
        (http_error(401), "permission"),
        (http_error(403), "permission"),
        (FileNotFoundError("gone"), "not_found"),
        (http_error(404), "not_found"),
        (ConnectionRefusedError("no"), "network"),
        (httpx.ConnectError("no"), "network"),
        (http_error(500), "execution"),
        (KeyError("k"), "execution"),
        (ValueError("HTTP 404 timeout, permission denied"), "execution"),
        (ExceptionGroup("two", [ValueError("a")]), "execution"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_kind_follows_from_type_and_attributes_never_from_words(exception, kind):
    assert error_of(exception).kind == kind


@pytest.mark.parametrize(
    ("exception", "message"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 3000), "ValueError: " + "x" * 1988),
    ],
    ids=["text", "no text", "long text"],
)
def test_the_message_is_type_and_text_of_the_exception(exception, message):
    assert error_of(exception).message == message


def test_a_tool_error_stays_itself():
    error = ToolError("permission", "ask the owner", hint="mail them")
    assert error_of(error) is error


def test_an_exception_whose_text_cannot_be_had_is_told_by_its_type():
    assert error_of(Unspeakable()).message == "Unspeakable"


@pytest.mark.parametrize(
    ("hint", "text"),
    [(None, "Error (not_found): no file"), ("Try b.txt.", "Error (not_found): no file\nTry b.txt.")],
    ids=["without hint", "with hint"],
)
def test_the_model_is_told_kind_message_and_hint(hint, text):
    assert ToolError("not_found", "no file", hint=hint, details={"secret": 1}).for_model == text


def test_details_are_copied_so_that_two_errors_never_share_them():
    given = {"a": 1}
    ToolError("execution", "x", details=given).details["b"] = 2
    assert given == {"a": 1}


def test_a_registration_error_is_a_value_error():
    assert issubclass(RegistrationError, ValueError)
