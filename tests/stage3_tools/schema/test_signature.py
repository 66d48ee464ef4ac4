import datetime as dt
import functools
import json
import traceback
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from stage3_tools import RegistrationError, ToolContext, ToolError, tool
from stage3_tools.execution.arguments import validate_arguments
from stage3_tools.schema.signature import signature_of
from tests.tables import for_each

if TYPE_CHECKING:
    from stage3_tools import ToolContext as Unseen


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(BaseModel):
    city: str
    country: str = "CN"


class Titled(BaseModel):
    meta: dict = {"title": "none"}


class Unknown:
    pass


class Tree(BaseModel):
    name: str
    branches: list["Tree"] = []


class Aliased(BaseModel):
    city_name: str = Field(alias="cityName")


class Span(TypedDict):
    start: int


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Point:
    x: int
    tags: list[str]


def schema_of(function):
    return signature_of(function).schema


def objects(properties, required=(), **rest):
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **rest}
    return schema | ({"required": list(required)} if required else {})


def test_a_function_without_annotations_accepts_any_values_but_no_other_names():
    def quiet(a, b=None): ...

    assert signature_of(quiet).description == ""
    assert schema_of(quiet) == objects({"a": {}, "b": {"default": None}}, ["a"])


def test_a_function_without_parameters_takes_an_empty_object():
    assert schema_of(lambda: 1) == objects({})


@for_each(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[int, Field(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (
            Annotated[str, Field(description="said here")],
            {"type": "string", "description": "said here"},
        ),
    ],
)
def test_annotations_are_converted_to_json_schema(annotation, schema):
    def function(x): ...

    function.__annotations__["x"] = annotation
    assert schema_of(function) == objects({"x": schema}, ["x"])


def test_enums_and_models_are_defined_once_in_defs():
    def function(place: Place, home: Place, unit: Unit = Unit.C): ...

    place = {"city": {"type": "string"}, "country": {"default": "CN", "type": "string"}}
    assert schema_of(function) == objects(
        {
            "place": {"$ref": "#/$defs/Place"},
            "home": {"$ref": "#/$defs/Place"},
            "unit": {"$ref": "#/$defs/Unit", "default": "celsius"},
        },
        ["place", "home"],
        **{
            "$defs": {
                "Place": {"type": "object", "properties": place, "required": ["city"]},
                "Unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            }
        },
    )


def test_a_description_in_the_annotation_takes_precedence_over_the_docstring():
    def function(x: Annotated[int, Field(description="annotated")]):
        """Do it.

        Args:
            x: documented
        """

    assert schema_of(function)["properties"]["x"]["description"] == "annotated"


def test_parameter_names_may_be_reserved_names_of_pydantic():
    def function(
        json: str, copy: int, title: str, model_config: str, schema: str, properties: str
    ): ...

    names = ["json", "copy", "title", "model_config", "schema", "properties"]
    assert [*schema_of(function)["properties"]] == schema_of(function)["required"] == names


def test_a_default_object_without_a_json_form_is_omitted_from_the_schema():
    marker = object()

    def function(x=marker): ...

    assert schema_of(function) == objects({"x": {}})


def test_a_key_called_title_in_a_default_value_is_kept():
    def function(x: Titled): ...

    assert schema_of(function)["$defs"]["Titled"]["properties"]["meta"]["default"] == {
        "title": "none"
    }


def test_arguments_are_converted_to_the_types_of_the_signature():
    def function(day: dt.date, unit: Unit, place: Place): ...

    given = {"day": "2024-01-02", "unit": "celsius", "place": {"city": "Oslo"}}
    assert signature_of(function).convert(given) == {
        "day": dt.date(2024, 1, 2),
        "unit": Unit.C,
        "place": Place(city="Oslo"),
    }


def test_a_conversion_error_names_the_path_and_not_the_value():
    def function(day: dt.date): ...

    given = {"day": "s3cret"}
    with pytest.raises(ToolError, match="\n- /day Input should be a valid date") as caught:
        validate_arguments(tool(function), given)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    assert [issue.path for issue in caught.value.details["issues"]] == ["/day"]


def test_an_error_with_very_many_issues_lists_the_first_ones():
    def function(days: dict[str, dt.date]): ...

    with pytest.raises(ToolError, match="and at least 9990 more") as caught:
        validate_arguments(
            tool(function), {"days": {f"{number}{'x' * 1000}": "no" for number in range(10_000)}}
        )
    assert len(str(caught.value)) < 5_000


def two(a: ToolContext, b: ToolContext): ...
def unseen(a: int, context: "Unseen"): ...
def lone(context: ToolContext, /): ...
def many(contexts: list[ToolContext]): ...
def unnamed(a: int, context: ToolContext, /): ...
def star(*args): ...
def stars(**kwargs): ...
def positional(x, /): ...
def untypable(x: Unknown): ...
def misspelled(x: "Intt"): ...  # noqa: F821


@for_each(
    "function, says",
    [
        (star, "star: its parameters have no JSON Schema: *args has no name that JSON could use"),
        (stars, "**kwargs has no name that JSON could use"),
        (positional, "x has no name that JSON could use"),
        (untypable, "untypable: its parameters have no JSON Schema"),
        (
            misspelled,
            "name 'Intt' is not defined for the type of x; import or define it at the top",
        ),
        (
            unseen,
            "'Unseen' is not defined for the type of context; import or define it at the top of the module",
        ),
        (unnamed, "a: int has no name that JSON could use"),
        (two, "only one parameter may take a ToolContext"),
        (many, "many: its parameters have no JSON Schema"),
        (lone, "context: stage3_tools.context.ToolContext has no name that JSON could use"),
        (len, "len: its parameters have no JSON Schema: obj has no name that JSON could use"),
        (max, "max: its parameters have no JSON Schema"),
    ],
)
def test_a_parameter_without_a_json_schema_raises_a_registration_error(function, says):
    with pytest.raises(RegistrationError) as caught:
        tool(function)
    assert says in str(caught.value)
    assert "https://" not in str(caught.value)


def test_an_alias_is_neither_shown_nor_accepted():
    def function(q: Annotated[str, Field(alias="query")], place: Aliased): ...

    signature = signature_of(function)
    given = {"q": "x", "place": {"city_name": "Oslo"}}
    assert [*signature.schema["properties"]] == ["q", "place"]
    assert [*signature.schema["$defs"]["Aliased"]["properties"]] == ["city_name"]
    assert signature.convert(given) == {"q": "x", "place": Aliased(cityName="Oslo")}
    with pytest.raises(ValueError, match="city_name"):
        signature.convert({"q": "x", "place": {"cityName": "Oslo"}})


@for_each(
    "annotation, given, taken",
    [
        (
            Tree,
            {"name": "a", "branches": [{"name": "b"}]},
            Tree(name="a", branches=[Tree(name="b")]),
        ),
        (Point, {"x": 1, "tags": []}, Point(1, [])),
        (Pair, [1, "b"], Pair(1, "b")),
        (Span, {"start": 1}, {"start": 1}),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "b"], (1, "b")),
        (Unit, "celsius", Unit.C),
        (bytes, "é", b"\xc3\xa9"),
        (Path, "a/b", Path("a/b")),
        (Decimal, "1.10", Decimal("1.10")),
        (float, 1, 1.0),
        (Optional[int], None, None),  # noqa: UP045
        (int | str | dt.date, "2024-01-02", "2024-01-02"),
        (dt.timedelta, "PT1H", dt.timedelta(hours=1)),
        (Any, {"any": ["thing"]}, {"any": ["thing"]}),
    ],
)
def test_valid_arguments_are_converted_to_the_annotated_type(annotation, given, taken):
    def function(x): ...

    function.__annotations__["x"] = annotation
    made = tool(function)
    assert made.schema.issues({"x": given}) == ()
    assert made.parse({"x": given}) == {"x": taken}


@for_each("default", [[], {}, Tree(name="a"), Unit.C, dt.date(2024, 1, 2), {1}, Path("a")])
def test_a_default_of_any_type_is_shown_as_json(default):
    def function(x: Any = default): ...

    shown = json.dumps(schema_of(function)["properties"]["x"]["default"])
    assert shown in (
        "[]",
        "{}",
        '{"name": "a", "branches": []}',
        '"celsius"',
        '"2024-01-02"',
        "[1]",
        '"a"',
    )


@for_each(
    "default, schema, required, taken",
    [
        (Field(5, ge=1), {"type": "integer", "default": 5, "minimum": 1}, [], {"x": 5}),
        (Field(default_factory=lambda: 7), {"type": "integer"}, [], {"x": 7}),
        (Field(ge=1), {"type": "integer", "minimum": 1}, ["x"], None),
    ],
)
def test_a_field_may_be_used_as_the_default(default, schema, required, taken):
    def function(x: int = default): ...

    assert schema_of(function) == objects({"x": schema}, required)
    if taken is not None:
        assert signature_of(function).convert({}) == taken


def quoted(a: "list['Tree']", b: "Optional['Unit']" = None): ...  # noqa: UP045


@for_each(
    "wrap",
    [
        lambda function: function,
        functools.partial,
        functools.cache,
        lambda function: functools.wraps(function)(lambda *rest, **named: None),
    ],
)
def test_quoted_types_of_wrapped_functions_are_resolved_in_their_module(wrap):
    schema = schema_of(wrap(quoted))
    assert schema["properties"]["a"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert sorted(schema["$defs"]) == ["Tree", "Unit"]


@for_each(
    "annotation",
    [
        ToolContext,
        "ToolContext",
        "'ToolContext'",
        ToolContext | None,
        "ToolContext | None",
        Optional[ToolContext],  # noqa: UP045
        Optional["ToolContext"],
        Annotated[ToolContext, "of the call"],
    ],
)
@for_each("default", [False, True])
def test_a_context_parameter_is_detected_by_its_type_and_excluded_from_the_schema(
    annotation, default
):
    def function(a: int, anything): ...

    function.__annotations__["anything"] = annotation
    function.__defaults__ = (None,) if default else None
    signature = signature_of(function)
    assert (signature.context, signature.schema) == (
        "anything",
        objects({"a": {"type": "integer"}}, ["a"]),
    )


def test_a_parameter_named_context_with_another_type_is_part_of_the_schema():
    def function(context: str): ...

    assert signature_of(function).context is None
    assert [*schema_of(function)["properties"]] == ["context"]


def test_an_annotation_that_raises_gives_a_registration_error():
    for annotation in ("not python!", "1/0", "dt.nope"):

        def function(x): ...

        function.__annotations__ = {"x": annotation}
        with pytest.raises(RegistrationError, match="its parameters have no JSON Schema"):
            signature_of(function)


def test_an_unresolvable_return_annotation_is_ignored():
    def function(x: int) -> "DataFrame": ...  # noqa: F821

    assert signature_of(function).schema["properties"] == {"x": {"type": "integer"}}


class Shop:
    def sell(self, count: int): ...

    def annotated(self: "Shop", count: int): ...

    def open(cls, count: int): ...  # noqa: N805 - as @classmethod finds it


@for_each("method", [Shop.sell, Shop.annotated, Shop.open])
def test_an_unbound_method_raises_an_error_with_advice(method):
    with pytest.raises(RegistrationError, match=r"after the class, .* tool\(thing\.method\)"):
        signature_of(method)


def test_parameters_of_a_plain_function_may_be_named_self_and_cls():
    def function(self: int, cls: int): ...

    assert schema_of(function)["required"] == ["self", "cls"]


def test_a_default_of_nan_is_omitted_from_the_schema():
    def function(x: float = float("nan")): ...

    assert signature_of(function).schema["properties"] == {"x": {"type": "number"}}
