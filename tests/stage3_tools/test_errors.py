import copy
import pickle

import pytest

from stage3_tools import RegistrationError, Retry, ToolError
from stage3_tools.execution.retries import DEFAULT_RETRIES


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (None, "Error (not_found): no file"),
        ("Try b.txt.", "Error (not_found): no file\nTry b.txt."),
    ],
    ids=["without hint", "with hint"],
)
def test_the_model_is_told_kind_message_and_hint(hint, text):
    assert ToolError("not_found", "no file", hint=hint, details={"secret": 1}).for_model == text


@pytest.mark.parametrize("kind", ["rejected", "result_rejected"])
@pytest.mark.parametrize(
    ("hint", "message"),
    [(None, "不行"), ("Ask first.", "不行\\nAsk first.")],
    ids=["without hint", "with hint"],
)
def test_what_somebody_rejected_is_told_as_json_with_the_reason_as_it_is(kind, hint, message):
    told = ToolError(kind, "不行", hint=hint).for_model
    assert told == f'{{"status": "{kind}", "message": "{message}"}}'


def test_only_what_may_pass_is_tried_again_unless_it_says_so_itself():
    assert dict(DEFAULT_RETRIES) == {"timeout": Retry(3, 1.0), "network": Retry(5, 2.0)}


def test_an_error_is_its_message_when_it_is_printed():
    assert (
        str(ToolError("permission", "ask the owner", hint="mail them", details={"a": 1}))
        == "ask the owner"
    )


def test_details_are_copied_so_that_two_errors_never_share_them():
    given = {"a": 1}
    ToolError("execution", "x", details=given).details["b"] = 2
    assert given == {"a": 1}


def test_more_details_make_another_error_and_those_it_has_already_stand():
    error = ToolError(
        "network", "m", retryable=True, retry_delay=2.0, max_retries=4, hint="h", details={"a": 1}
    )
    more = error.with_details(a=2, b=3)
    assert (more.details, error.details) == ({"a": 1, "b": 3}, {"a": 1})
    assert {**vars(more), "details": 0} == {**vars(error), "details": 0}
    assert more.__cause__ is error


def test_an_error_with_more_details_still_says_what_caused_it():
    error = ToolError("execution", "x")
    error.__cause__ = KeyError("k")
    assert error.with_details(a=1).__cause__ is error.__cause__


def test_a_registration_error_is_a_value_error():
    assert issubclass(RegistrationError, ValueError)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_time_to_wait_that_is_none_is_refused(seconds):
    with pytest.raises(ValueError, match=r"retry_delay is .*; use a number of seconds, or None"):
        ToolError("network", "x", retry_delay=seconds)


def test_an_exception_will_do_as_the_message():
    assert (
        ToolError("execution", ValueError("no such city")).for_model
        == "Error (execution): no such city"
    )


def test_an_error_survives_the_way_to_another_process():
    own = ToolError(
        "network", "x", retryable=True, retry_delay=2.0, max_retries=1, hint="h", details={"a": 1}
    )
    again = pickle.loads(pickle.dumps(own))
    assert vars(again) == vars(own)
    assert copy.copy(own).for_model == own.for_model
