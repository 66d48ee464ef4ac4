import collections
import datetime as dt
import itertools
import json
import tracemalloc
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field, SecretStr, field_serializer

from stage0_gateway import ImagePart, JsonPart, Message, TextPart
from stage3_tools import ToolError, ToolOutput, ToolResult
from stage3_tools.result import output_for_model, shorten, stored_details
from tests.tables import for_each


@dataclass
class Point:
    x: int
    y: int


class City(BaseModel):
    name: str


class Color(Enum):
    RED = "red"


class Name(NamedTuple):
    first: str
    last: str


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class OldWord(str, Enum):  # noqa: UP042
    YES = "yes"


class Shouting(str):
    def __str__(self):
        return "<object Shouting>"


@dataclass(slots=True)
class Slotted:
    x: int
    inner: Any = None


class Aliased(BaseModel):
    city_name: str = Field(serialization_alias="cityName")
    key: SecretStr


class Breaking(BaseModel):
    x: int

    @field_serializer("x")
    def fail(self, value):
        raise KeyError("s3cret")


class Array:
    """Has a `tolist` method, as numpy arrays do."""

    def tolist(self):
        return [1]


def nested(depth, make=lambda inner: [inner]):
    value = 1
    for _ in range(depth):
        value = make(value)
    return value


IMAGE = ImagePart("aGk=")
LOOP = []
LOOP.append(LOOP)


@for_each(
    "value, output",
    [
        ("as it is", "as it is"),
        ("", ""),
        ({"ok": True, "n": 1.5}, '{"ok":true,"n":1.5}'),
        ({"城市": "上海"}, '{"城市":"上海"}'),
        ([1, "a", None], '[1,"a",null]'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        ({7}, "[7]"),
        (None, "null"),
        (False, "false"),
        (Point(1, 2), '{"x":1,"y":2}'),
        (City(name="Oslo"), '{"name":"Oslo"}'),
        ([City(name="Oslo")], '[{"name":"Oslo"}]'),
        (Color.RED, '"red"'),
        (dt.datetime(2024, 1, 2, 3, 4, 5), '"2024-01-02T03:04:05"'),
        (dt.date(2024, 1, 2), '"2024-01-02"'),
        (Decimal("1.10"), '"1.10"'),
        (Path("a/b"), '"a/b"'),
        (b"caf\xc3\xa9", '"café"'),
        (b"\xff\xfe", '"__4="'),
        ([b"text", b"\xff"], '["dGV4dA==","_w=="]'),
        (b"", '""'),
        (Slotted(1, [Slotted(2)]), '{"x":1,"inner":[{"x":2,"inner":null}]}'),
        (Aliased(city_name="Oslo", key="s3cret"), '{"cityName":"Oslo","key":"**********"}'),
        (Name("Ada", "L"), '["Ada","L"]'),
        (collections.deque([1]), "[1]"),
        (collections.Counter("aab"), '{"a":2,"b":1}'),
        (dt.timedelta(hours=1), '"PT1H"'),
        ({"deep": [Decimal("NaN"), {1: Color.RED}]}, '{"deep":["NaN",{"1":"red"}]}'),
        ({None: 1, 2.5: 2, (1, 2): 3, Color.RED: 4}, '{"None":1,"2.5":2,"1,2":3,"red":4}'),
        (2**70, "1180591620717411303424"),
        (Level.HIGH, "3"),
        ((), "[]"),
        (float("nan"), '"NaN"'),
        ({"x": float("-inf")}, '{"x":"-Infinity"}'),
        (TextPart("hi"), (TextPart("hi"),)),
        ([TextPart("hi"), IMAGE], (TextPart("hi"), IMAGE)),
        ((JsonPart({"a": 1}),), (JsonPart({"a": 1}),)),
        (("Look:", IMAGE), (TextPart("Look:"), IMAGE)),
        ([{"n": 1}, IMAGE, None], (TextPart('{"n":1}'), IMAGE, TextPart("null"))),
        (ToolOutput("as it is", "for people"), "as it is"),
        (ToolOutput(ToolOutput([1], "for people"), "for people"), "[1]"),
    ],
)
def test_text_and_parts_are_unchanged_and_other_values_become_json(value, output):
    assert output_for_model(value) == output


@for_each(
    "value, kind",
    [
        (object(), "object"),
        ([object()], "list"),
        ({"deep": {"er": object()}}, "dict"),
        ({object(): 1}, "dict"),
        (Point, "type"),
        (len, "builtin_function_or_method"),
        (ValueError("x"), "ValueError"),
        (Array(), "Array"),
        (Breaking(x=1), "Breaking"),
        ({frozenset({1}): 1}, "dict"),
        (memoryview(b"x"), "memoryview"),
        ([float("nan"), "\ud800"], "list"),
        (nested(300), "list"),
        (nested(10_000, lambda inner: {"a": inner}), "dict"),
        (LOOP, "list"),
    ],
)
def test_a_value_without_a_json_form_raises_an_error_with_its_type_and_without_its_repr(
    value, kind
):
    with pytest.raises(ToolError) as caught:
        output_for_model(value)
    assert caught.value.kind == "execution"
    assert caught.value.for_model == (
        f"Error (execution): The tool ran to its end, but what it returned (type {kind}) cannot be written as JSON."
    )
    assert (
        caught.value.details["for the developer"]
        == "Return text, or plain dicts, lists and numbers."
    )


@for_each(
    "value, why",
    [
        (Breaking(x=1), "Error calling function `fail`: KeyError: 's3cret'"),
        (LOOP, "Circular reference detected (id repeated)"),
        (nested(300), "Maximum serialization depth exceeded"),
    ],
)
def test_the_reason_why_a_value_cannot_be_written_is_only_in_the_details(value, why):
    with pytest.raises(ToolError) as caught:
        output_for_model(value)
    assert caught.value.details["why"] == why
    assert why not in caught.value.for_model


@for_each(
    "iterator",
    [itertools.count(), (x for x in [1]), map(str, [1]), iter([1]), zip([1], [2], strict=True)],
)
def test_an_iterator_raises_an_error_and_is_not_read(iterator):
    with pytest.raises(ToolError) as caught:
        output_for_model(iterator)
    assert caught.value.details["why"] == "An iterator can be read only once, and may be endless."
    assert next(iterator) is not None


def test_an_iterator_inside_a_value_becomes_a_complete_list_or_an_error():
    assert output_for_model({"lines": (each for each in "ab")}) == '{"lines":["a","b"]}'
    with pytest.raises(ToolError):
        output_for_model({"lines": (each for each in ["a", "\ud800", "b"])})


@for_each("text", [Word.YES, OldWord.YES, Shouting("yes")])
@for_each("wrap", [lambda text: text, lambda text: [text, IMAGE]])
def test_subclasses_of_str_become_plain_text(text, wrap):
    output = output_for_model(wrap(text))
    text = output if isinstance(output, str) else output[0].text
    assert (type(text), text) == (str, "yes")


def test_two_hundred_and_fifty_levels_can_be_written():
    assert output_for_model(nested(250)) == "[" * 250 + "1" + "]" * 250


@for_each(
    "value, copies",
    [("x" * 10_000_000, 0.1), ({"x": "x" * 10_000_000}, 3.1), (b"x" * 10_000_000, 3.1)],
)
def test_large_results_are_copied_only_a_few_times_and_text_is_not_copied(value, copies):
    tracemalloc.start()
    try:
        output_for_model(value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < copies * 10_000_000


def test_an_unpaired_surrogate_inside_a_value_is_written_as_json():
    assert json.loads(output_for_model({"x": "a\ud800"})) == {"x": "a\ud800"}


def test_as_message_returns_the_tool_message_of_the_call():
    result = ToolResult("c1", "f", "no", is_error=True, details={"for": "people"})
    assert result.as_message() == Message.tool("no", "c1", is_error=True, name="f")


def test_the_repr_of_a_result_omits_details():
    assert "people" not in repr(ToolResult("c1", "f", "ok", details="people"))


@dataclass
class Weather:
    day: dt.date
    station: object


CIRCLE = []
CIRCLE.append(CIRCLE)


@for_each(
    "details, plain",
    [
        (None, None),
        ({}, None),
        (0, 0),
        ("log", "log"),
        ({"log": ["x", 1, None]}, {"log": ["x", 1, None]}),
        ({1: (2.5, {3})}, {"1": [2.5, [3]]}),
        (Weather(dt.date(2028, 2, 29), object()), {"day": "2028-02-29", "station": "object"}),
        (
            {"raised": ValueError("hunter2"), "raw": b"\xff"},
            {"raised": "ValueError", "raw": "_w=="},
        ),
        ([float("nan"), float("inf")], ["NaN", "Infinity"]),
        ({"text": "cut \ud83d"}, {"text": "cut \ud83d"}),
        ({"traceback": "Traceback …", "why": "x"}, {"why": "x"}),
        ({"traceback": "Traceback …"}, None),
        (object(), "object"),
        (CIRCLE, "list"),
        (itertools.count(), "count"),
        ({"rows": itertools.count()}, "dict"),
        ([10**5_000], "list"),
    ],
)
def test_stored_details_are_json_values(details, plain):
    assert stored_details(details) == plain
    assert stored_details(plain) == plain
    json.dumps(plain, allow_nan=False)


def test_an_output_has_no_details_by_default():
    assert ToolOutput("a") == ToolOutput("a", None)


@for_each(
    "text, most, shown",
    [
        ("abc", 3, "abc"),
        ("", 0, ""),
        (
            "abc",
            2,
            "ab\n[The first 2 of 3 characters. Ask for a part of it, if the tool can give one.]",
        ),
        (
            "abc",
            0,
            "\n[The first 0 of 3 characters. Ask for a part of it, if the tool can give one.]",
        ),
    ],
)
def test_shorten_truncates_long_text_and_adds_a_note(text, most, shown):
    assert shorten(text, most) == shown


def test_parts_share_the_limit_and_text_and_json_are_truncated():
    parts = (
        TextPart("abc"),
        IMAGE,
        TextPart("defg"),
        JsonPart({"long": "x" * 50}),
        TextPart("h"),
        TextPart(""),
    )
    assert shorten(parts, 5) == (
        TextPart("abc"),
        IMAGE,
        TextPart(
            "de\n[The first 2 of 4 characters. Ask for a part of it, if the tool can give one.]"
        ),
        TextPart(
            "\n[The first 0 of 61 characters. Ask for a part of it, if the tool can give one.]"
        ),
        TextPart(
            "\n[The first 0 of 1 characters. Ask for a part of it, if the tool can give one.]"
        ),
        TextPart(""),
    )


def test_a_part_within_the_limit_is_unchanged():
    part = TextPart("abc", provider_data={"anthropic": {"cache_control": {"type": "ephemeral"}}})
    assert shorten((part,), 3)[0] is part


def test_a_message_is_truncated_and_the_result_keeps_the_whole_output():
    result = ToolResult("c1", "f", "abcdef")
    assert result.as_message(6) == Message.tool("abcdef", "c1", name="f")
    assert (
        result.as_message(2).text
        == "ab\n[The first 2 of 6 characters. Ask for a part of it, if the tool can give one.]"
    )
    assert result.output == "abcdef"
