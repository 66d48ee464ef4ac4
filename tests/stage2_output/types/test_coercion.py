import copy
import inspect
import json
import sys

import pytest
from hypothesis import strategies as st

from stage2_output import CompiledSchema, InvalidSchema, OutputController
from stage2_output.types import coercion
from stage2_output.types.typed_schema import TypedSchema
from tests.random_values import random_examples
from tests.stage2_output.schemas import BOOLEAN, DRAFT7, INTEGER, NULL, NUMBER, STRING, nested
from tests.tables import for_each


def coerce_types(value, schema):
    return coercion.coerce_types(value, CompiledSchema(schema))


NUMBERS = {"type": "array", "items": INTEGER}
STRINGS = {"type": "array", "items": STRING}


def test_wrong_types_are_converted_at_every_depth_and_each_change_is_reported():
    schema = {
        "type": "object",
        "properties": {
            "age": INTEGER,
            "tags": NUMBERS,
            "home": {"type": "object", "properties": {"no": STRING}},
        },
        "additionalProperties": BOOLEAN,
    }
    value = {"age": "36", "tags": [1, "2"], "home": {"no": 5}, "ok": "true"}
    before = copy.deepcopy(value)
    assert coerce_types(value, schema) == (
        {"age": 36, "tags": [1, 2], "home": {"no": "5"}, "ok": True},
        (
            "/age: string to integer",
            "/tags/1: string to integer",
            "/home/no: integer to string",
            "/ok: string to boolean",
        ),
    )
    assert value == before


def test_doubly_encoded_json_is_decoded_and_converted():
    schema = {
        "type": "object",
        "properties": {"filter": {"type": "object", "properties": {"n": INTEGER, "of": NUMBERS}}},
    }
    assert coerce_types('{"filter": "{\\"n\\": \\"1\\", \\"of\\": \\"[2]\\"}"}', schema) == (
        {"filter": {"n": 1, "of": [2]}},
        (
            "the value: string to object",
            "/filter: string to object",
            "/filter/n: string to integer",
            "/filter/of: string to array",
        ),
    )


@for_each(
    "schema, value",
    [
        (STRING, "5"),
        ({}, {"a": "5"}),
        (True, "5"),
        ({"type": ["string", "integer"]}, "5"),
        ({"anyOf": [STRING, INTEGER]}, "5"),
        ({"anyOf": [STRING, STRINGS]}, "a"),
        ({"enum": ["Red", "red"]}, "Red"),
        (INTEGER, 5.0),
        ({"type": "object", "properties": {"a": INTEGER}}, {"a": 5, "b": "6"}),
        (
            {
                "$schema": DRAFT7,
                "$ref": "#/definitions/n",
                "type": "string",
                "definitions": {"n": INTEGER},
            },
            5,
        ),
    ],
)
def test_values_that_fit_are_never_changed(schema, value):
    result = OutputController().parse_and_validate(json.dumps(value), schema, coerce=True)
    assert (result.success, result.data, result.coerced) == (True, value, ())


def test_parts_that_fit_are_not_changed_when_other_parts_are():
    schema = {"properties": {"a": {"anyOf": [STRING, INTEGER]}, "b": INTEGER}}
    assert coerce_types({"a": "5", "b": "6"}, schema) == (
        {"a": "5", "b": 6},
        ("/b: string to integer",),
    )


@for_each(
    "schema, value",
    [
        (False, "5"),
        (INTEGER, "five"),
        ({"anyOf": [{"const": 1}, {"const": True}]}, "x"),
        ({"oneOf": [INTEGER, NUMBER]}, "5"),
        ({"anyOf": [{"properties": {"a": INTEGER}, "required": ["b"]}, NULL]}, {"a": "5"}),
        ({"not": STRING}, "5"),
        ({"type": "object", "properties": {"a": INTEGER}, "if": {}, "then": False}, {"a": 5}),
    ],
)
def test_values_that_cannot_be_converted_are_not_changed(schema, value):
    found, changes = coerce_types(value, schema)
    assert (found, changes) == (value, ())
    assert found is value


@for_each(
    "branches, value, changed, change",
    [
        ([INTEGER, NULL], "5", 5, "string to integer"),
        ([INTEGER, NUMBERS], "5", 5, "string to integer"),
        ([INTEGER, NULL], "null", None, "string to null"),
        ([INTEGER, BOOLEAN], "true", True, "string to boolean"),
        ([{"const": "red"}, {"const": "blue"}], "Red", "red", "string to the known value"),
        ([NULL, {"anyOf": [BOOLEAN, NUMBERS]}], "[1]", [1], "string to array"),
    ],
)
@for_each("rule", ["anyOf", "oneOf"])
def test_the_only_alternative_that_accepts_the_converted_value_is_chosen(
    rule, branches, value, changed, change
):
    assert coerce_types({"a": value}, {"properties": {"a": {rule: branches}}}) == (
        {"a": changed},
        (f"/a: {change}",),
    )


def test_alternatives_with_the_same_result_are_not_ambiguous():
    assert coerce_types("5", {"anyOf": [INTEGER, NUMBER]}) == (
        5,
        ("the value: string to integer",),
    )


OPERATION = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"op": {"const": "add"}, "n": INTEGER},
            "required": ["op", "n"],
        },
        {
            "type": "object",
            "properties": {"op": {"const": "keep"}, "n": BOOLEAN},
            "required": ["op", "n"],
        },
    ]
}


def test_alternatives_are_distinguished_by_their_constants():
    value = [
        {"op": "add", "n": "5"},
        {"op": "keep", "n": "true"},
        {"op": "Add", "n": 5},
        {"op": "add", "n": "true"},
    ]
    assert coerce_types(value, {"items": OPERATION}) == (
        [
            {"op": "add", "n": 5},
            {"op": "keep", "n": True},
            {"op": "add", "n": 5},
            {"op": "add", "n": "true"},
        ],
        ("/0/n: string to integer", "/1/n: string to boolean", "/2/op: string to the known value"),
    )


@for_each("schema, value", [(STRINGS, "a"), (NUMBERS, 5), (NUMBERS, "5"), (STRINGS, None)])
def test_a_single_value_is_not_converted_to_an_array(schema, value):
    assert coerce_types(value, schema) == (value, ())


@for_each(
    "schema, value, changed",
    [
        # $ref
        ({"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, "5", 5),
        # allOf
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "5", 5),
        # itself
        (
            {"properties": {"n": INTEGER, "in": {"$ref": "#"}}},
            {"n": "1", "in": {"in": {"n": "2"}}},
            {"n": 1, "in": {"in": {"n": 2}}},
        ),
        # prefixItems
        ({"prefixItems": [INTEGER, BOOLEAN], "items": INTEGER}, ["1", "true", "2"], [1, True, 2]),
        # escaped
        ({"properties": {"a/b~c": {"anyOf": [INTEGER, NULL]}}}, {"a/b~c": "5"}, {"a/b~c": 5}),
        # escaped $ref
        ({"$defs": {"a/b": INTEGER}, "items": {"$ref": "#/$defs/a~1b"}}, ["5"], [5]),
        # encoded
        ({"$defs": {"ä b": INTEGER}, "items": {"$ref": "#/$defs/%C3%A4%20b"}}, ["5"], [5]),
        # anyOf
        (
            {
                "$defs": {"n": INTEGER},
                "anyOf": [{"properties": {"n": {"$ref": "#/$defs/n"}}}, NULL],
            },
            {"n": "5"},
            {"n": 5},
        ),
    ],
)
def test_references_and_nested_schemas_are_followed(schema, value, changed):
    found, changes = coerce_types(value, schema)
    assert (found, bool(changes)) == (changed, True)
    assert CompiledSchema(schema).fits(found)


@for_each(
    "schema",
    [
        {"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "integer"}}},
        {"if": {}, "then": INTEGER},
        {"dependentSchemas": {"a": {"properties": {"a": INTEGER}}}},
        {
            "anyOf": [{"$dynamicRef": "#n"}, NULL],
            "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}},
        },
    ],
)
def test_references_and_conditions_that_are_not_supported_change_nothing(schema):
    for value in ("5", {"a": "5"}):
        assert coerce_types(value, schema) == (value, ())


def test_a_schema_is_interpreted_by_the_rules_of_its_draft():
    branches = {
        "anyOf": [{"$ref": "#/definitions/n", "minimum": 6}, NULL],
        "definitions": {"n": INTEGER},
    }
    assert coerce_types("5", branches) == ("5", ())
    # Draft 7 ignores the keywords beside a $ref.
    older = {"$schema": DRAFT7, **branches}
    assert coerce_types("5", older) == (5, ("the value: string to integer",))


def test_a_value_is_coerced_by_the_schema_of_a_type_before_it_is_loaded():
    schema = TypedSchema(dict[str, int | None])
    value, changes = coerce_types({"a": "5", "b": "null"}, schema.schema)
    assert schema.load(value, coerce=True) == ({"a": 5, "b": None}, ())
    assert changes == ("/a: string to integer", "/b: string to null")


def test_an_invalid_schema_raises_an_error():
    with pytest.raises(InvalidSchema):
        coerce_types("5", {"type": "strin"})


TREE = {
    "$defs": {
        "tree": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"k": {"$ref": "#/$defs/tree"}, "a": INTEGER},
                    "required": ["a"],
                },
                {
                    "type": "object",
                    "properties": {"k": {"$ref": "#/$defs/tree"}, "b": INTEGER},
                    "required": ["b"],
                },
            ]
        }
    },
    "$ref": "#/$defs/tree",
}


def test_nested_alternatives_do_not_take_exponential_time():
    found, changes = coerce_types(
        nested(20, lambda value: {"a": "1", "k": value}, {"a": "1"}), TREE
    )
    assert len(changes) == 21
    assert CompiledSchema(TREE).fits(found)


@pytest.mark.parametrize("rule", ["allOf", pytest.param("anyOf", marks=pytest.mark.long)])
def test_a_circular_schema_changes_nothing(rule):
    schema = {"$defs": {"a": {rule: [{"$ref": "#/$defs/a"}, INTEGER]}}, "$ref": "#/$defs/a"}
    assert coerce_types("5", schema) == ("5", ())


CHAIN = {"properties": {"a": {"$ref": "#"}, "n": INTEGER}}


def chain(depth):
    return nested(depth, lambda value: {"a": value}, {"n": "1"})


def test_a_value_that_is_nested_too_deeply_is_not_changed():
    value = chain(5000)
    found, changes = coerce_types(value, CHAIN)
    assert found is value
    assert changes == ()


def test_a_value_is_not_changed_if_the_stack_is_nearly_exhausted():
    value, compiled = chain(60), CompiledSchema(CHAIN)

    def at_depth(frames):
        return at_depth(frames - 1) if frames else coercion.coerce_types(value, compiled)

    assert at_depth(0)[1] == (f"{'/a' * 60}/n: string to integer",)
    free = sys.getrecursionlimit() - len(inspect.stack(0))
    assert at_depth(free - 100) == (value, ())


def test_thousands_of_changes_can_be_made():
    value = {"a": [str(number) for number in range(3_000)]}
    found, changes = coerce_types(value, {"properties": {"a": NUMBERS}})
    assert found == {"a": [*range(3_000)]}
    assert changes[-1] == "/a/2999: string to integer"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1", "true", "[1]"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["n", "op", "of"]), inner)
    ),
)
ANY_OF_ALL = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"n": INTEGER, "of": STRINGS},
            "additionalProperties": BOOLEAN,
        },
        {"type": "array", "items": {"anyOf": [NULL, NUMBERS, OPERATION]}},
        INTEGER,
    ]
}


@random_examples(8, 100, VALUES)
def test_any_value_is_changed_only_if_it_does_not_fit_and_never_raises_an_error(value):
    compiled = CompiledSchema(ANY_OF_ALL)
    before = copy.deepcopy(value)
    found, changes = coercion.coerce_types(value, compiled)
    assert repr(value) == repr(before)
    assert compiled.fits(found) if changes else found is value
    assert not (changes and compiled.fits(value))
    assert coercion.coerce_types(found, compiled)[1] == ()


@for_each("value", [object(), {"n": {1, 2}}, (1, 2), float("nan"), b"5"])
def test_a_value_that_is_not_json_is_not_changed(value):
    schema = {
        "properties": {"n": NUMBERS},
        "items": INTEGER,
        "type": ["integer", "object"],
        "minProperties": 2,
    }
    assert coerce_types(value, schema)[1] == ()


def test_a_value_that_is_not_json_does_not_prevent_other_changes():
    schema = {"anyOf": [{"properties": {"n": INTEGER}}, NULL]}
    assert coerce_types({"n": "5", "x": {1, 2}}, schema)[0] == {"n": 5, "x": {1, 2}}
