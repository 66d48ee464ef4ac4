import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel

from stage0_gateway import ImagePart, JsonPart, Message, TextPart
from stage3_tools import ToolError, ToolOutput, ToolResult
from stage3_tools.result import output_for_model


@dataclass
class Point:
    x: int
    y: int


class City(BaseModel):
    name: str


class Color(Enum):
    RED = "red"


IMAGE = ImagePart("aGk=")
LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "output"),
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
        (float("nan"), '"NaN"'),
        ({"x": float("-inf")}, '{"x":"-Infinity"}'),
        (TextPart("hi"), (TextPart("hi"),)),
        ([TextPart("hi"), IMAGE], (TextPart("hi"), IMAGE)),
        ((JsonPart({"a": 1}),), (JsonPart({"a": 1}),)),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_text_and_parts_stay_and_everything_else_becomes_json(value, output):
    assert output_for_model(value) == output


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "object"),
        ([object()], "list"),
        ({"deep": {"er": object()}}, "dict"),
        ({object(): 1}, "dict"),
        (Point, "type"),
        (len, "builtin_function_or_method"),
        (ValueError("x"), "ValueError"),
        (b"\xff", "bytes"),
        (LOOP, "list"),
    ],
    ids=["object", "in a list", "in dicts", "as a key", "class", "function", "exception", "binary", "circle"],
)
def test_what_json_cannot_hold_is_an_error_that_names_the_type_and_never_a_repr(value, kind):
    with pytest.raises(ToolError) as caught:
        output_for_model(value)
    assert caught.value.kind == "execution"
    assert caught.value.for_model == (
        f"Error (execution): The tool returned a value of type {kind}, which cannot be written as JSON."
    )


def test_half_a_surrogate_pair_inside_a_value_is_written_as_json_can_write_it():
    assert json.loads(output_for_model({"x": "a\ud800"})) == {"x": "a\ud800"}


def test_a_result_is_the_message_that_answers_its_call():
    result = ToolResult("c1", "f", "no", is_error=True, details={"for": "people"})
    assert result.as_message() == Message.tool("no", "c1", is_error=True, name="f")


def test_details_are_not_shown_when_a_result_is_printed():
    assert "people" not in repr(ToolResult("c1", "f", "ok", details="people"))


def test_an_output_has_no_details_unless_they_are_given():
    assert ToolOutput("a") == ToolOutput("a", None)
