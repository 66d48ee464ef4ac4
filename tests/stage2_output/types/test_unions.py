"""Detection of values of recursive unions that would take pydantic exponential time."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from stage2_output.types.typed_schema import TypedSchema
from stage2_output.types.unions import recursive_alternatives, takes_too_long
from tests.stage2_output.schemas import nested
from tests.tables import for_each


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


class Left(BaseModel):
    op: Literal["left", 1]
    of: "Annotated[Left | Right, Field(discriminator='op')] | None"


class Right(BaseModel):
    op: Literal["right"]
    of: "Annotated[Left | Right, Field(discriminator='op')] | None"


class Tree(BaseModel):
    of: "list[Tree]"


class Plain(BaseModel):
    one: Tree | None
    two: list[Tree]


class Flat(BaseModel):
    one: int | None


@for_each(
    "kind, alternatives",
    [
        (Sum, 2),
        (Named, 2),
        (Pair, 2),
        (Tree, 1),
        (Plain, 1),
        (list[Left], 1),
        (Flat, 0),
        (list[Flat], 0),
        (int, 0),
    ],
)
def test_recursive_alternatives_counts_the_models_in_the_unions_of_a_recursive_type(
    kind, alternatives
):
    assert recursive_alternatives(TypeAdapter(kind).json_schema()) == alternatives


def test_a_type_without_recursive_models_has_no_recursive_alternatives():
    class Inner(BaseModel):
        flat: list[Flat]

    class Outer(BaseModel):
        inner: Inner | Flat

    assert recursive_alternatives(TypeAdapter(list[Outer]).json_schema()) == 0


WRAPS = {
    Sum: lambda value: {"of": [value], "op": "product"},
    Named: lambda value: {"of": {"a": value}},
    Pair: lambda value: {"of": [1, value]},
    Patterned: lambda value: {"of": {"a": value}},
}


@for_each("kind", WRAPS)
def test_deeply_nested_alternatives_take_too_long(kind):
    alternatives = recursive_alternatives(TypedSchema(kind | int).schema)
    assert not takes_too_long(alternatives, nested(8, WRAPS[kind], 1))
    assert takes_too_long(alternatives, nested(40, WRAPS[kind], 1))


@for_each("op", ["left", 1])
def test_deeply_nested_alternatives_with_a_discriminator_do_not_take_too_long(op):
    alternatives = recursive_alternatives(TypedSchema(Left).schema)
    assert not takes_too_long(alternatives, nested(60, lambda value: {"op": op, "of": value}, None))


def test_deep_values_without_alternatives_and_wide_values_do_not_take_too_long():
    deep, wide = nested(60, lambda value: {"of": [value, 1]}, 1), {"of": [{"of": [1] * 30}] * 1_000}
    assert not takes_too_long(recursive_alternatives(TypedSchema(Tree).schema), deep)
    assert not takes_too_long(recursive_alternatives(TypedSchema(Sum).schema), wide)
