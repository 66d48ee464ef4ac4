"""Issues that pydantic finds in values that fit the JSON Schema of their type."""

import ipaddress
import re
import uuid
from datetime import date
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    FilePath,
    HttpUrl,
    ImportString,
    IPvAnyAddress,
    Json,
    PastDate,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from stage2_output import Issue
from stage2_output.types.typed_schema import TypedSchema
from tests.stage2_output.schemas import SECRET
from tests.tables import for_each

INVALID_DATE = "must be a valid date in the format YYYY-MM-DD, input is too short"


def issues(kind, value):
    data, found = TypedSchema(kind).load(value)
    assert data is None
    return found


def paths_and_messages(kind, value):
    return [(issue.path, issue.message) for issue in issues(kind, value)]


@for_each(
    "kind, value, message",
    [
        (
            date,
            "2023-02-29",
            "must be a valid date in the format YYYY-MM-DD, day value is outside expected range",
        ),
        (PastDate, "2999-01-01", "must be in the past"),
        (uuid.UUID, SECRET, "must be a valid UUID"),
        (HttpUrl, SECRET, "must be a valid URL, relative URL without a base"),
        (re.Pattern, f"({SECRET}", "must be a valid regular expression"),
        (ZoneInfo, SECRET, "must be a known time zone"),
        (ByteSize, f"5 {SECRET}", "must have a known unit"),
        (ImportString[Any], f"{SECRET}.x", "must name something that can be imported"),
        (ipaddress.IPv4Address, SECRET, "is not valid"),
        (ipaddress.IPv4Network, "10.0.0.1/8", "is not valid"),
        (IPvAnyAddress, SECRET, "does not fit: value is not a valid IPv4 or IPv6 address"),
        (FilePath, f"/{SECRET}", "does not fit: Path does not point to a file"),
        (Json[int], SECRET, "must be text that is valid JSON"),
        (Base64Bytes, "aGk", "does not fit: Base64 decoding error: 'Incorrect padding'"),
        (Json[int], '"5"', "must be integer"),
    ],
)
def test_errors_of_pydantic_are_reported_without_the_value(kind, value, message):
    [issue] = issues(list[kind], [value])
    assert (issue.path, issue.message, issue.expected) == ("/0", message, None)
    assert value not in repr(issue)


def test_undecodable_bytes_are_reported_without_their_value():
    class Blob(BaseModel):
        model_config = ConfigDict(val_json_bytes="hex")
        data: bytes

    assert paths_and_messages(Blob, {"data": SECRET}) == [("/data", "must be hex as text")]


def test_the_rule_of_an_issue_is_the_error_type_of_pydantic():
    assert issues(date, "x") == (Issue("", INVALID_DATE, "date_parsing"),)


def raise_value_error(value):
    raise ValueError(f"{value} is too big")


def raise_without_a_message(value):
    raise AssertionError


def raise_in_a_library(value):
    return int("many")


def raise_a_custom_error(value):
    raise PydanticCustomError("mine", "{number} is odd", {"number": value})


@for_each(
    "validator, message, rule",
    [
        (raise_value_error, "does not fit: 5 is too big", "value_error"),
        (raise_without_a_message, "is not valid", "assertion_error"),
        (
            raise_in_a_library,
            "does not fit: invalid literal for int() with base 10: 'many'",
            "value_error",
        ),
        (raise_a_custom_error, "does not fit: 5 is odd", "mine"),
    ],
)
def test_the_message_of_a_validator_is_kept(validator, message, rule):
    assert issues(Annotated[int, AfterValidator(validator)], 5) == (Issue("", message, rule),)


def raise_like_an_email_address(value):
    raise PydanticCustomError("value_error", "is no address: {reason}", {"reason": f"'{value}'"})


def raise_a_value_error_without_a_reason(value):
    raise PydanticCustomError("value_error", "is odd: {rule}", {"rule": "must be even"})


@for_each(
    "validator, message",
    [
        (raise_like_an_email_address, "does not fit: is no address"),
        (raise_a_value_error_without_a_reason, "does not fit: is odd: must be even"),
    ],
)
def test_the_reason_of_an_error_of_pydantic_is_left_out(validator, message):
    kind = Annotated[int, AfterValidator(validator)]
    assert issues(kind, 5) == (Issue("", message, "value_error"),)


class Trip(BaseModel):
    when: date = Field(alias="day")
    stops: dict[str, list[date]] = {}


class Wait(BaseModel):
    hours: int


class Train(BaseModel):
    kind: Literal["train"]
    day: date


class Bus(BaseModel):
    kind: Literal["bus"]
    line: int


@for_each(
    "kind, value, paths",
    [
        # alias
        (Trip, {"day": "x", "stops": {"a/b": ["2024-01-01", "x"]}}, ["/day", "/stops/a~1b/1"]),
        # union
        (list[Trip | Wait | None], [None, {"day": "x"}], ["/1/day"]),
        # key
        (dict[date, int], {"x": 1}, ["/x"]),
        # number as key
        (dict[int, date], {"1": "x"}, ["/1"]),
        # tagged
        (
            Annotated[Train | Bus, Field(discriminator="kind")],
            {"kind": "train", "day": "x"},
            ["/day"],
        ),
        # untagged
        (Train | Bus, {"kind": "train", "day": "x"}, ["/day"]),
        # scalars
        (date | int | list[int], "x", [""]),
        # lists
        (list[date] | dict[str, date], ["x", "2024-01-01", "y"], ["/0", "/2"]),
        # JSON in text
        (Json[list[date]], '["x"]', [""]),
    ],
)
def test_a_path_is_a_json_pointer_without_the_names_of_types(kind, value, paths):
    assert paths_and_messages(kind, value) == [(path, INVALID_DATE) for path in paths]


def test_invalid_json_in_a_text_is_reported_at_the_text():
    assert paths_and_messages(Json[int], SECRET) == [("", "must be text that is valid JSON")]


def test_an_item_that_only_pydantic_requires_is_reported_as_missing():
    pair = Annotated[tuple[int, int], WithJsonSchema({"type": "array"})]
    assert paths_and_messages(list[pair], [[1]]) == [("/0/1", "is missing")]


def test_a_key_that_only_pydantic_requires_is_reported_as_missing():
    class Strict(BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema, handler):
            return {"type": "object"}

        a: int

    assert paths_and_messages(list[Strict], [{}]) == [("/0/a", "is missing")]


def test_at_most_100_issues_are_reported():
    assert len(issues(list[date], ["x"] * 1000)) == 100


def test_a_long_message_is_cut():
    def raise_value_error(value):
        raise ValueError("word " * 1000)

    [issue] = issues(Annotated[int, AfterValidator(raise_value_error)], 5)
    assert len(issue.message) == 500
