"""What pydantic itself finds in values that fit the JSON Schema of their type."""

import ipaddress
import re
import uuid
from datetime import date
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
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

SECRET = "hunter2"
NO_DATE = "must be a valid date in the format YYYY-MM-DD, input is too short"


def issues(kind, value):
    data, found = TypedSchema(kind).load(value)
    assert data is None
    return found


def told(kind, value):
    return [(issue.path, issue.message) for issue in issues(kind, value)]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
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
def test_what_pydantic_refuses_is_told_without_the_value(kind, value, message):
    [issue] = issues(list[kind], [value])
    assert (issue.path, issue.message, issue.expected) == ("/0", message, None)
    assert value not in repr(issue)


def test_bytes_that_cannot_be_decoded_are_told_without_them():
    class Blob(BaseModel):
        model_config = ConfigDict(val_json_bytes="hex")
        data: bytes

    assert told(Blob, {"data": SECRET}) == [("/data", "must be hex as text")]


def test_the_rule_is_pydantics_name_for_the_error():
    assert issues(date, "x") == (Issue("", NO_DATE, "date_parsing"),)


def refuse(value):
    raise ValueError(f"{value} is too big")


def refuse_without_words(value):
    raise AssertionError


def refuse_by_a_library(value):
    return int("many")


def refuse_in_a_way_of_ones_own(value):
    raise PydanticCustomError("mine", "{number} is odd", {"number": value})


@pytest.mark.parametrize(
    ("validator", "message", "rule"),
    [
        (refuse, "does not fit: 5 is too big", "value_error"),
        (refuse_without_words, "is not valid", "assertion_error"),
        (
            refuse_by_a_library,
            "does not fit: invalid literal for int() with base 10: 'many'",
            "value_error",
        ),
        (refuse_in_a_way_of_ones_own, "does not fit: 5 is odd", "mine"),
    ],
)
def test_the_developers_own_words_are_kept(validator, message, rule):
    assert issues(Annotated[int, AfterValidator(validator)], 5) == (Issue("", message, rule),)


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


@pytest.mark.parametrize(
    ("kind", "value", "places"),
    [
        (Trip, {"day": "x", "stops": {"a/b": ["2024-01-01", "x"]}}, ["/day", "/stops/a~1b/1"]),
        (list[Trip | Wait | None], [None, {"day": "x"}], ["/1/day"]),
        (dict[date, int], {"x": 1}, ["/x"]),
        (dict[int, date], {"1": "x"}, ["/1"]),
        (
            Annotated[Train | Bus, Field(discriminator="kind")],
            {"kind": "train", "day": "x"},
            ["/day"],
        ),
        (Train | Bus, {"kind": "train", "day": "x"}, ["/day"]),
        (date | int | list[int], "x", [""]),
        (list[date] | dict[str, date], ["x", "2024-01-01", "y"], ["/0", "/2"]),
        (Json[list[date]], '["x"]', [""]),
    ],
    ids=[
        "alias",
        "union",
        "key",
        "number as key",
        "tagged",
        "untagged",
        "scalars",
        "lists",
        "JSON in text",
    ],
)
def test_a_place_is_a_json_pointer_and_names_no_types(kind, value, places):
    assert told(kind, value) == [(place, NO_DATE) for place in places]


def test_json_in_text_is_not_taken_for_the_value_itself():
    assert told(Json[int], SECRET) == [("", "must be text that is valid JSON")]


def test_an_item_that_is_missing_to_pydantic_only_is_named():
    pair = Annotated[tuple[int, int], WithJsonSchema({"type": "array"})]
    assert told(list[pair], [[1]]) == [("/0/1", "is missing")]


def test_a_key_that_is_missing_to_pydantic_only_is_named():
    class Strict(BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema, handler):
            return {"type": "object"}

        a: int

    assert told(list[Strict], [{}]) == [("/0/a", "is missing")]


def test_of_very_many_refusals_the_first_are_told():
    assert len(issues(list[date], ["x"] * 1000)) == 100


def test_a_long_refusal_is_cut():
    def refuse(value):
        raise ValueError("word " * 1000)

    [issue] = issues(Annotated[int, AfterValidator(refuse)], 5)
    assert len(issue.message) == 500
