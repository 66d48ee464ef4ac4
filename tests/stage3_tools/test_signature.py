import contextlib
import datetime as dt
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from stage3_tools import RegistrationError, tool
from stage3_tools.signature import signature_of


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


def schema_of(function):
    return signature_of(function).schema


def objects(properties, required=(), **rest):
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **rest}
    return schema | ({"required": list(required)} if required else {})


def google(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    Args:
        city: Where.
        days: How far ahead.

    Returns:
        A sentence.
    """


def numpy(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    Parameters
    ----------
    city : str
        Where.
    days : int
        How far ahead.

    Returns
    -------
    str
        A sentence.
    """


def sphinx(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    :param city: Where.
    :param days: How far ahead.
    :returns: A sentence.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx], ids=lambda each: each.__name__)
def test_description_and_parameters_are_read_from_docstrings_of_all_three_styles(function):
    signature = signature_of(function)
    assert signature.description == "Tell the weather.\n\nIt is invented."
    assert signature.schema == objects(
        {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "description": "How far ahead.", "default": 3},
        },
        ["city"],
    )


def test_a_function_that_says_nothing_takes_anything_and_nothing_more():
    def quiet(a, b=None): ...

    assert signature_of(quiet).description == ""
    assert schema_of(quiet) == objects({"a": {}, "b": {"default": None}}, ["a"])


def test_a_function_without_parameters_takes_an_empty_object():
    assert schema_of(lambda: 1) == objects({})


@pytest.mark.parametrize(
    ("annotation", "schema"),
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
        (Annotated[str, Field(description="said here")], {"type": "string", "description": "said here"}),
    ],
    ids=str,
)
def test_annotations_become_their_json_schema(annotation, schema):
    def function(x): ...

    function.__annotations__["x"] = annotation
    assert schema_of(function) == objects({"x": schema}, ["x"])


def test_enums_and_models_are_defined_once_beside_the_properties():
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


def test_a_description_in_the_annotation_stands_before_that_of_the_docstring():
    def function(x: Annotated[int, Field(description="annotated")]):
        """Do it.

        Args:
            x: documented
        """

    assert schema_of(function)["properties"]["x"]["description"] == "annotated"


def test_parameters_may_be_called_what_pydantic_models_may_not():
    def function(json: str, copy: int, title: str, model_config: str, schema: str, properties: str): ...

    names = ["json", "copy", "title", "model_config", "schema", "properties"]
    assert [*schema_of(function)["properties"]] == schema_of(function)["required"] == names


def test_a_default_that_json_cannot_hold_stays_the_functions_own_business():
    marker = object()

    def function(x=marker): ...

    assert schema_of(function) == objects({"x": {}})


def test_a_key_called_title_in_a_default_value_is_kept():
    def function(x: Titled): ...

    assert schema_of(function)["$defs"]["Titled"]["properties"]["meta"]["default"] == {"title": "none"}


def test_checked_arguments_come_as_the_types_of_the_signature():
    def function(day: dt.date, unit: Unit, place: Place): ...

    given = {"day": "2024-01-02", "unit": "celsius", "place": {"city": "Oslo"}}
    assert signature_of(function).convert(given) == {
        "day": dt.date(2024, 1, 2),
        "unit": Unit.C,
        "place": Place(city="Oslo"),
    }


def test_what_the_schema_could_not_say_is_refused_by_place_and_without_the_value():
    def function(day: dt.date): ...

    with pytest.raises(ValueError, match="\n- /day Input should be a valid date") as caught:
        signature_of(function).convert({"day": "s3cret"})
    assert "s3cret" not in str(caught.value)


def star(*args): ...
def stars(**kwargs): ...
def positional(x, /): ...
def untypable(x: Unknown): ...
def misspelled(x: "Intt"): ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (star, "star: its parameters have no JSON Schema: *args has no name that JSON could use"),
        (stars, "**kwargs has no name that JSON could use"),
        (positional, "x has no name that JSON could use"),
        (untypable, "untypable: its parameters have no JSON Schema"),
        (misspelled, "name 'Intt' is not defined"),
    ],
    ids=["*args", "**kwargs", "positional only", "unknown class", "unknown name"],
)
def test_a_parameter_that_json_cannot_describe_is_refused_in_words(function, says):
    with pytest.raises(RegistrationError) as caught:
        tool(function)
    assert says in str(caught.value)


def test_a_parameter_with_an_alias_can_be_described_or_is_refused():
    def function(q: Annotated[str, Field(alias="query")]): ...

    with contextlib.suppress(RegistrationError):
        signature_of(function)


def test_an_annotation_that_raises_is_refused_in_words():
    for annotation in ("not python!", "1/0", "dt.nope"):

        def function(x): ...

        function.__annotations__ = {"x": annotation}
        with pytest.raises(RegistrationError, match="its parameters have no JSON Schema"):
            signature_of(function)


def test_a_return_annotation_that_cannot_be_resolved_does_not_matter():
    def function(x: int) -> "DataFrame": ...  # noqa: F821

    assert signature_of(function).schema["properties"] == {"x": {"type": "integer"}}


def test_a_method_without_its_object_is_refused_with_what_to_do():
    class Shop:
        def sell(self, count: int): ...

    with pytest.raises(RegistrationError, match=r"tool\(thing\.method\)"):
        signature_of(Shop.sell)


def test_a_default_that_json_cannot_hold_is_left_out():
    def function(x: float = float("nan")): ...

    assert signature_of(function).schema["properties"] == {"x": {"type": "number"}}
