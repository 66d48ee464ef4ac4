"""How much pydantic has to do is told before it begins."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from stage2_output.effort import holds_itself, takes_too_long
from stage2_output.typed import TypedSchema


class Sum(BaseModel):
    of: "list[Sum | Product | int]"
    op: Literal["sum"] = "sum"


class Product(BaseModel):
    of: "list[Sum | Product | int]"
    op: Literal["product"] = "product"


class Named(BaseModel):
    of: "dict[str, Named | Other | int]"


class Other(BaseModel):
    of: "dict[str, Named | Other | int]"


class Pair(BaseModel):
    of: "tuple[int, Pair | Couple | int]"


class Couple(BaseModel):
    of: "tuple[int, Pair | Couple | int]"


class Patterned(BaseModel):
    of: "dict[Annotated[str, Field(pattern='a')], Patterned | Alike | int]"


class Alike(BaseModel):
    of: "dict[Annotated[str, Field(pattern='a')], Patterned | Alike | int]"


class Told(BaseModel):
    op: Literal["told", 1]
    of: "Annotated[Told | Said, Field(discriminator='op')] | None"


class Said(BaseModel):
    op: Literal["said"]
    of: "Annotated[Told | Said, Field(discriminator='op')] | None"


class Tree(BaseModel):
    of: "list[Tree]"


class Plain(BaseModel):
    one: Tree | None
    two: list[Tree]


class Flat(BaseModel):
    one: int | None


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (Sum, True),
        (Tree, True),
        (Plain, True),
        (list[Told], True),
        (Flat, False),
        (list[Flat], False),
        (int, False),
    ],
)
def test_a_schema_that_leads_to_itself_is_told(kind, holds):
    assert holds_itself(TypeAdapter(kind).json_schema()) is holds


def test_definitions_that_lead_to_each_other_in_one_direction_come_to_an_end():
    class Inner(BaseModel):
        flat: list[Flat]

    class Outer(BaseModel):
        inner: Inner | Flat

    assert holds_itself(TypeAdapter(list[Outer]).json_schema()) is False


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS = {
    Sum: lambda value: {"of": [value], "op": "product"},
    Named: lambda value: {"of": {"a": value}},
    Pair: lambda value: {"of": [1, value]},
    Patterned: lambda value: {"of": {"a": value}},
}


@pytest.mark.parametrize("kind", WRAPS, ids=lambda kind: kind.__name__)
def test_alternatives_within_alternatives_take_too_long(kind):
    schema = TypedSchema(kind | int).schema
    assert not takes_too_long(schema, nested(8, WRAPS[kind]))
    assert takes_too_long(schema, nested(40, WRAPS[kind]))


@pytest.mark.parametrize("op", ["told", 1])
def test_an_alternative_that_a_property_tells_is_the_only_one_tried(op):
    schema = TypedSchema(Told).schema
    value = None
    for _ in range(60):
        value = {"op": op, "of": value}
    assert not takes_too_long(schema, value)


def test_without_alternatives_depth_is_no_burden_and_neither_is_breadth():
    assert not takes_too_long(TypedSchema(Tree).schema, nested(60, lambda value: {"of": [value, 1]}))
    wide = {"of": [{"of": [1] * 30} for _ in range(20_000)]}
    assert not takes_too_long(TypedSchema(Sum).schema, wide)
