import datetime as dt
import functools
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from stage3_tools import RegistrationError, Retry, ToolContext, ToolError, ToolRegistry, tool
from stage3_tools.execution.invocation import invoke
from tests.tables import for_each


class Unit(Enum):
    C = "celsius"


class Place(BaseModel):
    city: str
    unit: Unit = Unit.C


class Nested(BaseModel):
    inner: "Nested | None" = None


class Counter:
    """Methods of all kinds."""

    def __init__(self):
        self.total = 0

    def add(self, number: int) -> int:
        """Count on.

        Args:
            number: How far.
        """
        self.total += number
        return self.total

    async def add_later(self, number: int) -> int:
        return self.add(number)

    @classmethod
    def named(cls, number: int) -> tuple[str, int]:
        return cls.__name__, number

    @staticmethod
    def twice(number: int) -> int:
        return 2 * number

    @property
    def size(self) -> int:
        return self.total

    def __call__(self, number: int) -> int:
        return self.add(number)


def test_a_decorated_function_is_a_tool_with_its_name_and_docstring():
    @tool
    def get_weather(city: str) -> str:
        """Tell the weather."""
        return f"sun in {city}"

    assert (get_weather.name, get_weather.description) == ("get_weather", "Tell the weather.")
    assert (get_weather.effect, get_weather.timeout) == ("write", None)
    assert get_weather.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }


def test_arguments_of_the_decorator_take_precedence_over_the_function():
    @tool(name="weather", description="", effect="read", timeout=2)
    def get_weather(city: str) -> str:
        """Tell the weather."""

    assert (get_weather.name, get_weather.description) == ("weather", "")
    assert (get_weather.effect, get_weather.timeout) == ("read", 2)


def test_other_arguments_of_the_decorator_become_settings_of_the_tool():
    settings = {
        "retry": Retry(2, 0.5),
        "needs_approval": True,
        "exclusive": True,
        "category": "travel",
        "tags": ("sea",),
    }

    @tool(effect="read", **settings)
    def f(): ...

    assert {each: getattr(f, each) for each in settings} == settings


async def test_plain_and_async_functions_give_the_same_result():
    @tool
    def plain(a: int, b: int = 2):
        return a, b

    @tool
    async def waiting(a: int, b: int = 2):
        return a, b

    assert [await invoke(each, {"a": 1}) for each in (plain, waiting)] == [(1, 2), (1, 2)]


async def test_a_function_receives_the_types_of_its_signature():
    @tool
    def weekday(day: dt.date):
        return day.strftime("%Y")

    assert await ToolRegistry(weekday).execute("weekday", {"day": "2024-01-02"}) == "2024"


async def test_a_bound_method_keeps_its_object_and_self_is_not_a_parameter():
    counter = Counter()
    add = tool(counter.add)
    assert await invoke(add, {"number": 3}) == counter.total == 3
    assert add.parameters["properties"] == {
        "number": {"type": "integer", "description": "How far."}
    }


@for_each(
    "method, value",
    [
        (Counter().add, 3),
        (Counter().add_later, 3),
        (Counter.named, ("Counter", 3)),
        (Counter.twice, 6),
        (Counter.__dict__["twice"], 6),
        (functools.cache(Counter.twice), 6),
    ],
)
async def test_methods_of_all_kinds_can_become_tools(method, value):
    made = tool(method)
    assert [*made.parameters["properties"]] == ["number"]
    assert await invoke(made, {"number": 3}) == value


@for_each("function", [functools.partial(Counter().add), Counter(), lambda number: number])
async def test_a_callable_without_a_name_requires_one(function):
    with pytest.raises(
        RegistrationError, match=r"has no name of its own: tool\(name=…\) gives it one\."
    ):
        tool(function)
    assert await invoke(tool(name="count")(function), {"number": 3}) == 3


@for_each(
    "given, says",
    [
        ("f", "'f' is not a function."),
        (Counter, "is not a function."),
        (Place, "is not a function."),
        (
            Counter.__dict__["named"],
            "after the class, make a tool of an object's method: tool(thing.method).",
        ),
        (
            Counter.__dict__["size"],
            "after the class, make a tool of an object's method: tool(thing.method).",
        ),
    ],
)
def test_a_value_that_is_not_a_function_raises_an_error_with_advice(given, says):
    with pytest.raises(RegistrationError) as caught:
        tool(given)
    assert says in str(caught.value)


def test_a_tool_cannot_be_made_from_a_tool():
    with pytest.raises(RegistrationError, match="twice is a tool already"):
        tool(tool(Counter.twice))


def test_decorating_a_method_in_a_class_body_raises_an_error_with_advice():
    with pytest.raises(RegistrationError, match=r"after the class, .* tool\(thing\.method\)"):

        class Shop:
            @tool
            def sell(self, count: int): ...


def test_a_generator_raises_a_registration_error():
    def plain(number: int):
        yield number

    async def later(number: int):
        yield number

    for function in (plain, later):
        with pytest.raises(RegistrationError, match="a tool cannot be a generator"):
            tool(function)


def test_an_empty_name_raises_an_error():
    with pytest.raises(RegistrationError, match="'' cannot be a tool's name"):
        tool(name="")(Counter.twice)


async def test_a_context_parameter_may_have_any_position_and_name():
    @tool
    def first(context: ToolContext, number: int):
        return context.tool, number

    @tool
    async def last(number: int, *, call: ToolContext | None = None):
        return call.tool, number

    for each in (first, last):
        assert [*each.parameters["properties"]] == ["number"]
        assert await invoke(each, {"number": 3}) == (each.name, 3)


async def test_parameters_may_have_the_same_names_as_internal_variables():
    @tool
    def f(
        arguments: int, function: int, name: int, execute: int, json: int, title: int, class_: int
    ): ...

    @tool
    def g(arguments: int, function: int, call: ToolContext, context: int, self: int):
        return arguments, function, context, self

    registry = ToolRegistry(f, g)
    assert await registry.execute("f", dict.fromkeys(f.parameters["properties"], 1)) is None
    assert await registry.execute(
        "g", {"arguments": 1, "function": 2, "context": 3, "self": 4}
    ) == (
        1,
        2,
        3,
        4,
    )


OSLO, MARKER, NOTHING = Place(city="Oslo"), object(), []


async def test_a_default_is_the_original_object_and_not_its_json():
    @tool
    def f(place: Place = OSLO, marker=MARKER, nothing: list = NOTHING):
        return [place, marker, nothing]

    got = await ToolRegistry(f).execute("f", {})
    assert [each is mine for each, mine in zip(got, (OSLO, MARKER, NOTHING), strict=True)] == [
        True
    ] * 3


async def test_models_enums_literals_and_fields_are_validated_and_converted():
    @tool
    def f(place: Place, kind: Literal["a", "b"], count: Annotated[int, Field(ge=1)] = 1):
        return place, kind, count

    registry = ToolRegistry(f)
    given = {"place": {"city": "Oslo", "unit": "celsius"}, "kind": "b"}
    assert await registry.execute("f", given) == (Place(city="Oslo"), "b", 1)
    wrong = {"place": {"city": 5, "unit": "kelvin"}, "kind": "c", "count": 0}
    assert len(f.schema.issues(wrong)) == 4


@for_each("depth, fits", [(1, True), (100, True), (300, False), (10_000, False)])
async def test_an_argument_of_a_recursive_type_may_be_a_hundred_levels_deep_but_not_three_hundred(
    depth, fits
):
    @tool
    def f(inner: Nested):
        return "made"

    given = {}
    for _ in range(depth):
        given = {"inner": given}
    if fits:
        assert await ToolRegistry(f).execute("f", given) == "made"
        return
    with pytest.raises(ToolError, match="the value is nested too deeply to be checked"):
        await ToolRegistry(f).execute("f", given)
