from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from stage0_gateway.offline.schema import (
    NOTHING,
    as_list,
    as_mapping,
    as_text,
    blank,
    given,
    kind_of,
    member_named,
    resolve,
)

ROOT = {
    "a/b": {"type": "string"},
    "c~d": {"type": "number"},
    "hop": {"$ref": "#/a~1b"},
    "base": {"properties": {"x": {}, "y": {"type": "null"}}, "required": ["x"], "type": "object"},
}


@pytest.mark.parametrize(
    ("schema", "resolved"),
    [
        ({"$ref": "#/a~1b"}, {"type": "string"}),
        ({"$ref": "#/c~0d"}, {"type": "number"}),
        ({"$ref": "#/hop"}, {"type": "string"}),
        ({"$ref": "#/base/properties/y"}, {"type": "null"}),
        ({"$ref": "#"}, ROOT),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "https://x.org/s.json"}, {}),
        ({"$ref": 3}, {"$ref": 3}),
        (True, {}),
    ],
)
def test_a_reference_is_followed_inside_the_schema_and_nowhere_else(
    schema: Any, resolved: dict[str, Any]
) -> None:
    assert resolve(ROOT, schema) == resolved


def test_a_reference_to_itself_ends() -> None:
    loop = {"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}
    assert resolve(loop, loop["a"]) in loop.values()


def test_the_parts_of_all_of_are_laid_under_what_the_schema_says_itself() -> None:
    parts = [{"$ref": "#/base"}, {"title": "part", "description": "more"}]
    schema = {"allOf": parts, "title": "own", "properties": {"z": {}}, "required": ["z"]}
    assert resolve(ROOT, schema) == {
        "allOf": parts,
        "title": "own",
        "description": "more",
        "type": "object",
        "properties": {"z": {}, "x": {}, "y": {"type": "null"}},
        "required": ["z", "x"],
    }


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "int"]}, "integer"),
        ({"type": "dict"}, "object"),
        ({"type": "float"}, "number"),
        ({"type": ["null"]}, "null"),
        ({"type": "null"}, "null"),
        ({"properties": {}, "items": {}}, "object"),
        ({"items": {}}, "array"),
        ({"type": [[], 3]}, "string"),
        ({}, "string"),
    ],
)
def test_the_type_is_read_in_any_spelling_or_from_the_other_keywords(
    schema: dict[str, Any], kind: str
) -> None:
    assert kind_of(schema) == kind


@pytest.mark.parametrize(
    ("members", "text", "member"),
    [
        (["one_way", "round_trip"], "A round trip, not one way", "round_trip"),
        (["book"], "two Books", "book"),
        ([1, 2], "take 2, not 1", 2),
        (["c++", "c"], "in C++", "c++"),
        (["cat"], "a category", NOTHING),
        ([True, None, [], ""], "true or none", NOTHING),
        ([*range(100, 164), "late"], "late", NOTHING),
    ],
)
def test_the_member_of_an_enum_that_is_said_first_is_found(
    members: list[Any], text: str, member: Any
) -> None:
    assert member_named(members, text) == member


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": None, "default": 1}, None),
        ({"default": 1, "examples": [2]}, 1),
        ({"examples": [2, 3], "enum": [4]}, 2),
        ({"enum": [4]}, 4),
        ({"enum": [4, 5]}, NOTHING),
        ({"default": [[[[[[[1]]]]]]], "examples": [2]}, 2),
        ({"default": list(range(65)), "enum": [4]}, 4),
        ({"const": {"a": list(range(64))}}, {"a": list(range(64))}),
        ({"examples": 3, "enum": "a"}, NOTHING),
    ],
)
def test_the_schemas_own_value_is_offered_in_order_and_only_when_small(
    schema: dict[str, Any], value: Any
) -> None:
    assert given(schema) == value


@pytest.mark.parametrize("value", [{"a": 1}, [1], "a", 3, None, True])
def test_a_value_of_another_type_is_an_empty_one(value: Any) -> None:
    expected = (
        value if isinstance(value, dict) else {},
        value if isinstance(value, list) else [],
        value if isinstance(value, str) else "",
    )
    assert (as_mapping(value), as_list(value), as_text(value)) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, ""),
        ({"type": "string", "minLength": 2}, "??"),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["string", "null"]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ({"oneOf": [{"type": "integer", "minimum": 2}, {"type": "string"}]}, 2),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": "integer", "default": 7}, 7),
        ({"type": "integer"}, 0),
        ({"type": "integer", "minimum": 4.5}, 5),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": -0.5}, -1),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "number", "minimum": float("nan"), "maximum": float("inf")}, 0),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 0}),
        ({"$ref": "#/base"}, {"x": ""}),
    ],
)
def test_a_blank_says_nothing_and_fits(schema: Any, value: Any) -> None:
    assert blank(ROOT, schema) == value


def test_a_schema_that_needs_itself_without_end_gets_a_blank_that_ends() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}, "required": ["left"]}
    assert str(blank(tree, tree)).startswith("{'left': {'left': ")
    wide = {"type": "array", "items": {"$ref": "#"}, "minItems": 10**9}
    assert len(str(blank(wide, wide))) < 500_000


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["#", "#/allOf/0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$ref", "allOf", "type", "properties", "required", "items", "enum", "default"]),
            inner,
            max_size=4,
        )
    ),
)


@hypothesis.given(ANYTHING, st.text())
def test_no_schema_makes_it_fail(schema: Any, text: str) -> None:
    resolved = resolve(schema, schema)
    assert isinstance(kind_of(resolved), str)
    members = [*as_list(resolved.get("enum")), NOTHING]
    assert member_named(members[:-1], text) in members
    blank(schema, schema)
    assert given(resolved) in [*members, resolved.get("default"), resolved.get("const")]
