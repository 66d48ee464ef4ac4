import copy
import inspect
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import CompiledSchema, InvalidSchema, OutputController
from stage2_output.types import coercion
from stage2_output.types.typed_schema import TypedSchema


def coerce_types(value, schema):
    return coercion.coerce_types(value, CompiledSchema(schema))


INTEGER, STRING, BOOLEAN, NULL = (
    {"type": name} for name in ("integer", "string", "boolean", "null")
)
NUMBERS = {"type": "array", "items": INTEGER}
STRINGS = {"type": "array", "items": STRING}


def test_wrong_types_are_put_right_at_every_depth_and_each_is_named():
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


def test_arguments_that_were_written_twice_as_json_are_read():
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


@pytest.mark.parametrize(
    ("schema", "value"),
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
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/n",
                "type": "string",
                "definitions": {"n": INTEGER},
            },
            5,
        ),
    ],
)
def test_what_fits_is_never_changed(schema, value):
    result = OutputController().parse_and_validate(json.dumps(value), schema, coerce=True)
    assert (result.success, result.data, result.coerced) == (True, value, ())


def test_what_fits_is_not_changed_where_something_else_does_not():
    schema = {"properties": {"a": {"anyOf": [STRING, INTEGER]}, "b": INTEGER}}
    assert coerce_types({"a": "5", "b": "6"}, schema) == (
        {"a": "5", "b": 6},
        ("/b: string to integer",),
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (False, "5"),
        (INTEGER, "five"),
        ({"anyOf": [{"const": 1}, {"const": True}]}, "x"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "5"),
        ({"anyOf": [{"properties": {"a": INTEGER}, "required": ["b"]}, NULL]}, {"a": "5"}),
        ({"not": STRING}, "5"),
        ({"type": "object", "properties": {"a": INTEGER}, "if": {}, "then": False}, {"a": 5}),
    ],
)
def test_what_cannot_be_put_right_stays_as_it_is(schema, value):
    found, changes = coerce_types(value, schema)
    assert (found, changes) == (value, ())
    assert found is value


@pytest.mark.parametrize(
    ("branches", "value", "changed", "change"),
    [
        ([INTEGER, NULL], "5", 5, "string to integer"),
        ([INTEGER, NUMBERS], "5", 5, "string to integer"),
        ([INTEGER, NULL], "null", None, "string to null"),
        ([INTEGER, BOOLEAN], "true", True, "string to boolean"),
        ([{"const": "red"}, {"const": "blue"}], "Red", "red", "string to the known value"),
        ([NULL, {"anyOf": [BOOLEAN, NUMBERS]}], "[1]", [1], "string to array"),
    ],
)
@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_the_only_alternative_that_takes_the_changed_value_is_chosen(
    rule, branches, value, changed, change
):
    assert coerce_types({"a": value}, {"properties": {"a": {rule: branches}}}) == (
        {"a": changed},
        (f"/a: {change}",),
    )


def test_alternatives_that_agree_leave_no_doubt():
    assert coerce_types("5", {"anyOf": [INTEGER, {"type": "number"}]}) == (
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


def test_alternatives_are_told_apart_by_their_constants():
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


@pytest.mark.parametrize(
    ("schema", "value"), [(STRINGS, "a"), (NUMBERS, 5), (NUMBERS, "5"), (STRINGS, None)]
)
def test_one_value_does_not_become_an_array(schema, value):
    assert coerce_types(value, schema) == (value, ())


@pytest.mark.parametrize(
    ("schema", "value", "changed"),
    [
        ({"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, "5", 5),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "5", 5),
        (
            {"properties": {"n": INTEGER, "in": {"$ref": "#"}}},
            {"n": "1", "in": {"in": {"n": "2"}}},
            {"n": 1, "in": {"in": {"n": 2}}},
        ),
        ({"prefixItems": [INTEGER, BOOLEAN], "items": INTEGER}, ["1", "true", "2"], [1, True, 2]),
        ({"properties": {"a/b~c": {"anyOf": [INTEGER, NULL]}}}, {"a/b~c": "5"}, {"a/b~c": 5}),
        ({"$defs": {"a/b": INTEGER}, "items": {"$ref": "#/$defs/a~1b"}}, ["5"], [5]),
        ({"$defs": {"ä b": INTEGER}, "items": {"$ref": "#/$defs/%C3%A4%20b"}}, ["5"], [5]),
        (
            {
                "$defs": {"n": INTEGER},
                "anyOf": [{"properties": {"n": {"$ref": "#/$defs/n"}}}, NULL],
            },
            {"n": "5"},
            {"n": 5},
        ),
    ],
    ids=[
        "$ref",
        "allOf",
        "itself",
        "prefixItems",
        "escaped",
        "escaped $ref",
        "encoded",
        "anyOf",
    ],
)
def test_schemas_are_followed(schema, value, changed):
    found, changes = coerce_types(value, schema)
    assert (found, bool(changes)) == (changed, True)
    assert CompiledSchema(schema).fits(found)


@pytest.mark.parametrize(
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
def test_what_is_not_followed_changes_nothing(schema):
    for value in ("5", {"a": "5"}):
        assert coerce_types(value, schema) == (value, ())


def test_a_schema_is_read_by_the_rules_of_its_draft():
    branches = {
        "anyOf": [{"$ref": "#/definitions/n", "minimum": 6}, NULL],
        "definitions": {"n": INTEGER},
    }
    assert coerce_types("5", branches) == ("5", ())
    older = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **branches,
    }  # in which a $ref stands alone
    assert coerce_types("5", older) == (5, ("the value: string to integer",))


def test_a_type_is_coerced_by_its_schema_and_then_loaded():
    schema = TypedSchema(dict[str, int | None])
    value, changes = coerce_types({"a": "5", "b": "null"}, schema.schema)
    assert schema.load(value, coerce=True) == ({"a": 5, "b": None}, ())
    assert changes == ("/a: string to integer", "/b: string to null")


def test_a_schema_that_is_none_is_the_developers_error():
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


def test_alternatives_within_alternatives_do_not_take_for_ever():
    value = {"a": "1"}
    for _ in range(11):
        value = {"a": "1", "k": value}
    found, changes = coerce_types(value, TREE)
    assert len(changes) == 12
    assert CompiledSchema(TREE).fits(found)


def test_a_schema_that_leads_back_to_itself_changes_nothing():
    schema = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, INTEGER]}}, "$ref": "#/$defs/a"}
    assert coerce_types("5", schema) == ("5", ())


def test_what_is_nested_too_deeply_changes_nothing():
    schema = {"properties": {"a": {"$ref": "#"}, "n": INTEGER}}
    value = {"n": "1"}
    for _ in range(5000):
        value = {"a": value}
    found, changes = coerce_types(value, schema)
    assert found is value
    assert changes == ()


def test_a_stack_that_is_nearly_full_changes_nothing():
    schema = {"properties": {"a": {"$ref": "#"}, "n": INTEGER}}
    value = {"n": "1"}
    for _ in range(60):
        value = {"a": value}

    def further_down(frames):
        return further_down(frames - 1) if frames else coerce_types(value, schema)

    assert further_down(0)[1] == (f"{'/a' * 60}/n: string to integer",)
    free = sys.getrecursionlimit() - len(inspect.stack(0))
    assert further_down(free - 100) == (value, ())


def test_twenty_thousand_changes_are_made():
    found, changes = coerce_types(
        {"a": [str(number) for number in range(20_000)]}, {"properties": {"a": NUMBERS}}
    )
    assert found == {"a": [*range(20_000)]}
    assert changes[-1] == "/a/19999: string to integer"


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
COMPILED = CompiledSchema(ANY_OF_ALL)


@given(VALUES)
def test_arbitrary_values_are_never_an_error_and_changed_only_if_they_do_not_fit(value):
    compiled = COMPILED
    before = copy.deepcopy(value)
    found, changes = coercion.coerce_types(value, compiled)
    assert repr(value) == repr(before)
    assert compiled.fits(found) if changes else found is value
    assert not (changes and compiled.fits(value))
    assert coercion.coerce_types(found, compiled)[1] == ()


@pytest.mark.parametrize("value", [object(), {"n": {1, 2}}, (1, 2), float("nan"), b"5"])
def test_what_is_no_json_is_left_alone(value):
    schema = {
        "properties": {"n": NUMBERS},
        "items": INTEGER,
        "type": ["integer", "object"],
        "minProperties": 2,
    }
    assert coerce_types(value, schema)[1] == ()


def test_what_is_no_json_may_stand_beside_what_is_changed():
    schema = {"anyOf": [{"properties": {"n": INTEGER}}, NULL]}
    assert coerce_types({"n": "5", "x": {1, 2}}, schema)[0] == {"n": 5, "x": {1, 2}}
