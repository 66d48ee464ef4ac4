import copy
import pickle

import pytest

from stage3_tools import RegistrationError, Retry, ToolError
from stage3_tools.execution.retries import DEFAULT_RETRIES
from tests.tables import for_each


@for_each(
    "hint, text",
    [
        (None, "Error (not_found): no file"),
        ("Try b.txt.", "Error (not_found): no file\nTry b.txt."),
    ],
)
def test_the_text_for_the_model_has_kind_message_and_hint(hint, text):
    assert ToolError("not_found", "no file", hint=hint, details={"secret": 1}).for_model == text


@for_each("kind", ["rejected", "result_rejected"])
@for_each("hint, message", [(None, "不行"), ("Ask first.", "不行\\nAsk first.")])
def test_the_text_of_a_rejection_is_json_with_the_unescaped_reason(kind, hint, message):
    text = ToolError(kind, "不行", hint=hint).for_model
    assert text == f'{{"status": "{kind}", "message": "{message}"}}'


def test_by_default_only_timeouts_and_network_errors_are_retried():
    assert dict(DEFAULT_RETRIES) == {"timeout": Retry(3, 1.0), "network": Retry(5, 2.0)}


def test_the_str_of_an_error_is_its_message():
    assert (
        str(ToolError("permission", "ask the owner", hint="mail them", details={"a": 1}))
        == "ask the owner"
    )


def test_details_are_copied_and_never_shared_between_errors():
    given = {"a": 1}
    ToolError("execution", "x", details=given).details["b"] = 2
    assert given == {"a": 1}


def test_with_details_returns_a_new_error_and_keeps_existing_details():
    error = ToolError(
        "network", "m", retryable=True, retry_delay=2.0, max_retries=4, hint="h", details={"a": 1}
    )
    more = error.with_details(a=2, b=3)
    assert (more.details, error.details) == ({"a": 1, "b": 3}, {"a": 1})
    assert {**vars(more), "details": 0} == {**vars(error), "details": 0}
    assert more.__cause__ is error


def test_with_details_keeps_the_cause():
    error = ToolError("execution", "x")
    error.__cause__ = KeyError("k")
    assert error.with_details(a=1).__cause__ is error.__cause__


def test_a_registration_error_is_a_value_error():
    assert issubclass(RegistrationError, ValueError)


@for_each("seconds", [-1, float("nan")])
def test_an_invalid_retry_delay_raises_a_value_error(seconds):
    with pytest.raises(ValueError, match=r"retry_delay is .*; use a number of seconds, or None"):
        ToolError("network", "x", retry_delay=seconds)


def test_an_exception_may_be_the_message():
    assert (
        ToolError("execution", ValueError("no such city")).for_model
        == "Error (execution): no such city"
    )


def test_an_error_can_be_pickled_and_copied():
    own = ToolError(
        "network", "x", retryable=True, retry_delay=2.0, max_retries=1, hint="h", details={"a": 1}
    )
    again = pickle.loads(pickle.dumps(own))
    assert vars(again) == vars(own)
    assert copy.copy(own).for_model == own.for_model
