import enum
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from stage2_output import CompiledSchema, InvalidSchema, Issue, OutputController
from stage2_output.types.typed_schema import TypedSchema
from tests.stage2_output.schemas import TOO_DEEP, TOO_LARGE, nested
from tests.tables import for_each


def load(kind, value, **options):
    return TypedSchema(kind).load(value, **options)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    """A person."""

    name: str
    born: date | None = None
    likes: Color = Color.RED


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    depth: int


class Pair(NamedTuple):
    left: int
    right: str


@for_each(
    "kind, value, data",
    [
        (Person, {"name": "Ada"}, Person(name="Ada")),
        (
            Person,
            {"name": "Ada", "born": "1815-12-10", "likes": "blue"},
            Person(name="Ada", born=date(1815, 12, 10), likes=Color.BLUE),
        ),
        (Point, {"x": 1}, Point(1)),
        (Options, {"depth": 1}, {"depth": 1}),
        (Pair, [1, "a"], Pair(1, "a")),
        (TypeAdapter(list[int]), [1], [1]),
        (list[Person], [{"name": "Ada"}], [Person(name="Ada")]),
        (int | None, None, None),
        (Literal["a", 1], 1, 1),
        (Annotated[int, Field(ge=1)], 1, 1),
        (Color, "red", Color.RED),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (datetime, "2024-02-29T12:00:00", datetime(2024, 2, 29, 12)),
        (timedelta, "P1D", timedelta(days=1)),
        (
            UUID,
            "12345678-1234-5678-1234-567812345678",
            UUID("12345678-1234-5678-1234-567812345678"),
        ),
        (Decimal, "1.10", Decimal("1.10")),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (type(None), None, None),
    ],
)
def test_data_is_loaded_as_the_type(kind, value, data):
    loaded, issues = load(kind, value)
    assert (loaded, issues) == (data, ())
    assert type(loaded) is type(data)


@for_each(
    "kind, value",
    [
        (int, "5"),
        (int, 5.5),
        (int, True),
        (float, "5"),
        (str, 5),
        (bool, 1),
        (bool, "true"),
        (date, 0),
        (Color, "Red"),
        (Literal[1], True),
        (Literal[True], 1),
        (list[int], {"0": 1}),
        (list[int], "12"),
        (Point, [1, 2]),
        (Pair, {"left": 1, "right": "a"}),
        (complex, 5),
    ],
)
def test_types_are_strict(kind, value):
    schema = TypedSchema(kind)
    data, issues = schema.load(value)
    assert data is None
    assert issues
    assert issues == CompiledSchema(schema.schema).issues(value)


def test_the_json_schema_of_a_model_omits_generated_titles():
    assert TypedSchema(Person).schema == {
        "$defs": {"Color": {"enum": ["red", "blue"], "title": "Color", "type": "string"}},
        "description": "A person.",
        "properties": {
            "name": {"type": "string"},
            "born": {
                "anyOf": [{"format": "date", "type": "string"}, {"type": "null"}],
                "default": None,
            },
            "likes": {"$ref": "#/$defs/Color", "default": "red"},
        },
        "required": ["name"],
        "title": "Person",
        "type": "object",
    }


def test_a_title_that_the_developer_set_stays_in_the_schema():
    class Named(BaseModel):
        a: Annotated[int, Field(title="How many")]

    assert TypedSchema(Named).schema["properties"] == {
        "a": {"title": "How many", "type": "integer"}
    }


def test_a_violation_of_the_schema_is_reported_as_for_a_plain_json_schema():
    assert load(Person, {"nam": "Ada", "born": "never"})[1] == (
        Issue(
            "/name",
            "is missing (string)",
            "required",
            {"type": "string"},
            "you sent `nam`, `born`; did you mean `name` instead of `nam`?",
        ),
    )


@for_each("value", [5.0, 1e3, -0.0])
def test_a_float_without_a_fraction_is_accepted_as_an_integer(value):
    for kind, wrapped in [(int, value), (list[int | str], [value]), (Point, {"x": value})]:
        data, issues = load(kind, wrapped)
        assert issues == ()
        number = data.x if kind is Point else data if kind is int else data[0]
        assert (number, type(number)) == (value, int)


def test_a_float_without_a_fraction_stays_a_float_where_the_type_is_float():
    data, _ = load(tuple[int, float], [5.0, 5.0])
    assert [type(number) for number in data] == [int, float]


def test_other_issues_beside_a_converted_float_are_reported():
    assert load(tuple[int, date], [5.0, "x"])[1] == (
        Issue(
            "/1",
            "must be a valid date in the format YYYY-MM-DD, input is too short",
            "date_parsing",
        ),
    )


def test_a_huge_integer_is_rejected_and_never_becomes_infinity():
    huge = 10**400
    for kind, value in [
        (int, huge),
        (float, huge),
        (list[float], [-huge]),
        (tuple[int, float], [huge, huge]),
        (Any, huge),
    ]:
        assert load(kind, value) == (None, TOO_LARGE)


def test_a_text_of_many_digits_is_not_checked_as_a_number():
    assert load(str, "9" * 1000) == ("9" * 1000, ())
    assert load(tuple[str, float], ["9" * 1000, 10**308]) == (("9" * 1000, 1e308), ())


@for_each("value", [float("nan"), float("inf"), 10**5000])
def test_a_value_that_json_cannot_represent_is_rejected(value):
    assert load(Any, [value]) == (None, TOO_LARGE)


def test_a_lone_surrogate_is_an_issue():
    assert load(str, "a\ud800") == (None, (Issue("", "could not be checked", "unknown"),))


class Tree(BaseModel):
    inner: "Tree | None" = None
    when: date | None = None


def trees(depth, value):
    return nested(depth, lambda value: {"inner": value}, value)


def test_a_value_that_is_nested_too_deeply_is_an_issue():
    assert load(Any, trees(300, 1)) == (None, TOO_DEEP)
    assert load(Any, trees(100_000, 1)) == (None, TOO_DEEP)
    assert load(Tree, trees(100, {"when": "x"}))[1][0].path == "/inner" * 100 + "/when"


class Add(BaseModel):
    left: "Term"
    right: "Term"
    op: Literal["add"]


class Multiply(BaseModel):
    left: "Term"
    right: "Term"
    op: Literal["multiply"]


Term = Add | Multiply | int
Add.model_rebuild()
Multiply.model_rebuild()


def term(depth, leaf=1, op="multiply"):
    return nested(depth, lambda value: {"left": value, "right": 2, "op": op}, leaf)


def test_a_value_that_would_take_pydantic_exponential_time_is_an_issue():
    schema = TypedSchema(Term)
    assert schema.load(term(5))[0] == Multiply.model_validate(term(5))
    for value in (term(60), term(60, op="add")):  # each level doubles the time
        assert schema.fits(value)
        assert schema.load(value) == (
            None,
            (
                Issue(
                    "", "is too deeply nested, with too many alternatives, to be checked", "depth"
                ),
            ),
        )
    assert [issue.path for issue in schema.load(term(20, "x"))[1]] == ["/left" * 20]


def test_deep_alternatives_with_a_discriminator_are_accepted():
    class Chain(BaseModel):
        kind: Literal["chain"]
        inner: "Annotated[Chain | End, Field(discriminator='kind')]"

    class End(BaseModel):
        kind: Literal["end"]

    Chain.model_rebuild(
        _types_namespace={"Chain": Chain, "End": End, "Annotated": Annotated, "Field": Field}
    )
    value = nested(60, lambda value: {"kind": "chain", "inner": value}, {"kind": "end"})
    assert TypedSchema(Chain).load(value)[1] == ()


class Account(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    number: int = Field(alias="no")
    opened: date = date(2020, 1, 1)

    @field_validator("number")
    @classmethod
    def is_small(cls, number):
        if number > 5:
            raise ValueError("numbers end at 5")
        return number

    @model_validator(mode="after")
    def is_not_four(self):
        if self.number == 4:
            raise ValueError("there is no 4")
        return self


def test_an_alias_replaces_the_name_of_a_field():
    assert load(Account, {"no": 1}) == (Account(no=1), ())
    assert [(issue.path, issue.hint) for issue in load(Account, {"number": 1})[1]] == [
        ("/no", "you sent `number`; did you mean `no`?")
    ]


def test_a_model_that_validates_by_name_has_the_names_in_its_schema():
    class ByName(BaseModel):
        model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
        a: int = Field(alias="x")

    schema = TypedSchema(ByName)
    assert [*schema.schema["properties"]] == ["a"]
    assert schema.load({"a": 1})[1] == ()


def test_validators_run_after_the_check_of_the_schema():
    assert load(Account, {"no": 7})[1] == (
        Issue("/no", "does not fit: numbers end at 5", "value_error"),
    )
    assert load(Account, {"no": 4})[1] == (Issue("", "does not fit: there is no 4", "value_error"),)
    assert load(Account, {"no": "7"})[1] == (
        Issue("/no", "must be integer, not string", "type", "integer"),
    )


def test_an_unexpected_exception_of_a_validator_is_raised():
    class InvalidJson(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def fail(cls, value):
            return {}[value]

    with pytest.raises(KeyError):
        load(InvalidJson, {"a": 1})


NumberText = Annotated[int, WithJsonSchema({"type": "string"})]


def test_with_coerce_a_type_decides_how_strict_it_is():
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        a: NumberText

    assert load(NumberText, "5")[0] is None
    assert load(NumberText, "5", coerce=True) == (5, ())
    assert load(Strict, {"a": "5"}, coerce=True)[0] is None
    # Values that do not fit the schema are converted by `coerce_types` only.
    assert load(int, "5", coerce=True)[0] is None


def test_a_controller_reads_a_type_as_strictly_as_coerce_says():
    controller = OutputController()
    assert not controller.parse_and_validate('"5"', NumberText).success
    assert controller.parse_and_validate('"5"', NumberText, coerce=True).data == 5


class Opaque:
    pass


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    fine: int
    wrong: Opaque


@dataclass
class Secret:
    word: str


NEITHER = "A schema must be a JSON Schema (a mapping) or a type such as a pydantic model, not "
FUNCTIONS = [
    lambda: 0,
    load,
    len,
    Person(name="Ada").model_dump,
    Person.model_validate,
    "".join,
    partial(int),
]


@dataclass
class Calls:
    fine: int
    back: Callable[[int], int]


@for_each(
    "kind, message",
    [
        (Holder, "Holder has no valid JSON Schema: Cannot generate"),
        (Calls, "Calls has no valid JSON Schema: Cannot generate"),
        (list[Holder], "has no valid JSON Schema: Cannot generate"),
        (Opaque, "Opaque has no valid JSON Schema: Unable to generate"),
        (Callable[[], int], "has no valid JSON Schema: Cannot generate"),
        (list["Nowhere"], "is not fully defined"),  # noqa: F821
        (TypeAdapter(Callable[[], int]), "has no valid JSON Schema: Cannot generate"),
        (5, "5 has no valid JSON Schema: Unable to generate"),
        ("int", NEITHER + "a value of the type str."),
        (Color.RED, "Color.RED has no valid JSON Schema: Unable to generate"),
        (
            Person(name="hunter2"),
            NEITHER + "a value of the type Person.",
        ),
        (Secret("hunter2"), NEITHER + "a value of the type Secret."),
        *((function, NEITHER + "a value of the type ") for function in FUNCTIONS),
    ],
)
def test_a_type_without_a_json_schema_raises_an_error_that_names_it(kind, message):
    with pytest.raises(InvalidSchema) as caught:
        TypedSchema(kind)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pattern_that_only_pydantic_accepts_raises_an_error_that_names_the_type():
    class Word(BaseModel):
        text: Annotated[str, Field(pattern=r"^\x{41}+$")]

    with pytest.raises(
        InvalidSchema,
        match=r"^Word has no valid JSON Schema: The JSON Schema has an invalid pattern: ",
    ):
        TypedSchema(Word)


def test_defaults_and_types_that_json_cannot_represent_are_omitted_from_the_schema():
    class Odd(BaseModel):
        a: int | Callable[[], int] = 3
        b: Any = Opaque()

    assert TypedSchema(Odd).schema["properties"] == {
        "a": {"default": 3, "type": "integer"},
        "b": {},
    }


Item = TypeVar("Item")


@dataclass
class Box(Generic[Item]):
    item: Item


class Crate(BaseModel, Generic[Item]):
    item: Item


def test_pydantic_is_imported_only_when_a_type_is_used():
    code = "import sys, stage2_output.types.typed_schema; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
