"""Keywords with an implementation of their own: references, `uniqueItems`, unevaluated properties.

With `jsonschema` alone, most values of the first section would take hours.
"""

from decimal import Decimal
from functools import cache

import jsonschema
from hypothesis import strategies as st

from stage2_output import CompiledSchema, Issue
from tests.random_values import random_examples
from tests.stage2_output.schemas import (
    DRAFT7,
    DRAFT2019,
    DRAFT2020,
    INTEGER,
    NUMBER,
    STRING,
    TOO_DEEP,
    is_valid,
    issues,
    nested,
    paths,
)
from tests.tables import for_each

EXPRESSION = {"$ref": "#/$defs/e"}


def operation(name, reference=EXPRESSION):
    """A schema of an operation with two operands; a name adds a constant to the schema."""
    named = {"op": {"const": name}} if name else {}
    parts = {"a": reference, "b": reference}
    return {"type": "object", "properties": {**parts, **named}, "required": ["a", "b"]}


def expressions(rule="anyOf", names=("add", "mul"), **more):
    """Return a schema of numbers and nested operations; `more` are keywords beside the rule."""
    alternatives = [*map(operation, names), NUMBER]
    return {"$defs": {"e": {rule: alternatives, **more}}, **EXPRESSION}


def chain(depth, leaf, name="mul"):
    """Return nested operations, with a leaf in the first operand of the innermost one."""
    return nested(depth, lambda value: {"op": name, "a": value, "b": 1}, leaf)


def wrong_number(depth):
    """The issue of a text at the end of a chain, where numbers are the only scalars."""
    return Issue("/a" * depth, "must be object or number, not string", "type", ["object", "number"])


@for_each("depth", [8, 40])
@for_each("rule", ["anyOf", "oneOf"])
def test_mutually_recursive_alternatives_do_not_double_the_work_at_each_level(rule, depth):
    compiled = CompiledSchema(expressions(rule, ("", "")))
    assert compiled.issues(chain(depth, "x")) == (wrong_number(depth),)
    assert not compiled.fits(chain(depth, "x"))
    assert compiled.fits(chain(depth, 1)) is (rule == "anyOf")  # the alternatives are equal


@for_each("rule", ["anyOf", "oneOf"])
def test_a_value_that_is_far_too_deep_is_rejected_quickly(rule):
    compiled = CompiledSchema(expressions(rule))
    assert compiled.issues(chain(200, "x")) == TOO_DEEP
    assert not compiled.fits(chain(200, "x"))


def alternatives(reference, **more):
    """Return a schema of two equal operations, or a number, with a reference to the schema."""
    return {"anyOf": [operation("", reference)] * 2 + [NUMBER], **more}


ROOT = {"$ref": "#"}


@for_each(
    "schema",
    [
        alternatives(ROOT),
        alternatives(ROOT, **{"$schema": DRAFT2020}),
        alternatives(ROOT, **{"$schema": DRAFT7}),
        alternatives({"$recursiveRef": "#"}, **{"$schema": DRAFT2019}),
        alternatives({"$dynamicRef": "#e"}, **{"$dynamicAnchor": "e"}),
        {
            "$defs": {"e": {"anyOf": [{**operation(""), "unevaluatedProperties": False}] * 2}},
            **EXPRESSION,
        },
    ],
)
def test_every_kind_of_reference_is_followed_once_for_each_part_of_a_value(schema):
    compiled = CompiledSchema(schema)
    assert "/a" * 20 in [issue.path for issue in compiled.issues(chain(20, "x"))]
    assert not compiled.fits(chain(20, "x"))


def test_chained_references_of_a_schema_do_not_double_the_work():
    chained = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": {**chained, "s40": INTEGER}, "$ref": "#/$defs/s0"}
    for more in ({}, {"unevaluatedProperties": False}):
        compiled = CompiledSchema({**schema, **more})
        assert compiled.issues(1) == ()
        assert [issue.path for issue in compiled.issues("x")] == [""]
        assert not compiled.fits({})


def test_equal_parts_at_several_paths_are_reported_at_each_path():
    defined = expressions(names=("",))["$defs"]
    schema = {"$defs": defined, "type": "array", "items": EXPRESSION}
    wrong = {"a": "x", "b": 1}
    assert paths(schema, [wrong, 1, wrong, "y", "y"]) == ["/0/a", "/2/a", "/3", "/4"]


def test_a_long_text_in_a_nested_value_is_not_repeated_in_the_messages():
    compiled = CompiledSchema(expressions(names=("", "")))
    assert compiled.issues(chain(8, "x" * 10_000)) == (wrong_number(8),)


# ---- references in ordinary values


@for_each("rule", ["anyOf", "oneOf"])
@for_each("depth", [3, 25])
def test_issues_of_alternatives_with_a_constant_have_the_right_path_in_deep_values(rule, depth):
    compiled = CompiledSchema(expressions(rule))
    assert compiled.issues(chain(depth, "x")) == (wrong_number(depth),)
    assert compiled.issues(chain(depth, "x", "add")) == (wrong_number(depth),)


def test_an_unknown_constant_is_reported_in_deep_values():
    value = chain(20, {"op": "mull", "a": 1, "b": 1})
    path, message = "/a" * 20 + "/op", 'must be one of ["add", "mul"]'
    issue = Issue(path, message, "enum", ["add", "mul"], "did you mean `mul`?")
    assert issues(expressions(), value) == (issue,)


def test_a_long_value_may_follow_more_references_than_a_short_one():
    item = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}
    schema = {"$defs": {"n": INTEGER, "item": item}, "items": {"$ref": "#/$defs/item"}}
    # `unevaluatedItems` is checked by the library.
    compiled = CompiledSchema({**schema, "unevaluatedItems": False})
    items = [{"n": number} for number in range(500)]
    assert compiled.issues(items) == ()
    assert [issue.path for issue in compiled.issues([*items, {"n": "x"}])] == ["/500/n"]


def test_a_wrong_constant_in_a_long_value_hides_no_issues_of_other_objects():
    item = {"properties": {"kind": {"enum": ["a", "b"]}, "n": {"$ref": "#/$defs/n"}}}
    schema = {"$defs": {"n": INTEGER}, "items": item}
    items = [{"kind": "a", "n": 1}] * 600
    wrong = [{"kind": "c", "n": 1}, {"kind": "b", "n": "x"}]
    assert paths(schema, items + wrong) == ["/600/kind", "/601/n"]


def test_different_references_of_one_value_are_followed_separately():
    schema = {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    schema["$defs"] = {"a": {"maximum": 5}, "b": {"multipleOf": 2}}
    assert [issue.rule for issue in issues(schema, 7)] == ["maximum", "multipleOf"]


def test_a_dynamic_reference_is_followed_again_where_it_has_another_target():
    dynamic = {"$id": "list", "$dynamicAnchor": "T", "items": {"$dynamicRef": "#T"}}

    def list_of(name, schema):
        return {"$id": name, "$ref": "list", "$defs": {"T": {"$dynamicAnchor": "T", **schema}}}

    schema = {
        "$id": "https://example.com/root",
        "allOf": [{"$ref": "small"}, {"$ref": "even"}],
        "$defs": {
            "list": dynamic,
            "small": list_of("small", {"maximum": 5}),
            "even": list_of("even", {"multipleOf": 2}),
        },
    }
    assert [issue.rule for issue in issues(schema, [7])] == ["maximum", "multipleOf"]


def test_references_are_followed_again_for_the_next_value():
    compiled = CompiledSchema(expressions(names=("", "")))
    for _ in range(2):
        assert compiled.issues(chain(20, "x")) == (wrong_number(20),)
        assert [issue.path for issue in compiled.issues(chain(5, "x"))] == ["/a" * 5]


VALUES = st.recursive(
    st.sampled_from([1, "x", None]),
    lambda inner: st.fixed_dictionaries(
        {"a": inner, "b": inner}, optional={"op": st.sampled_from(["add", "mul", "?"])}
    ),
    max_leaves=6,
)


@cache
def checkers(rule, names, is_extended):
    """Return the compiled schema of expressions, and the validator of the library."""
    schema = expressions(rule, names, **({"unevaluatedItems": False} if is_extended else {}))
    return CompiledSchema(schema), jsonschema.Draft202012Validator(schema)


@random_examples(
    8,
    100,
    VALUES,
    st.sampled_from(["anyOf", "oneOf"]),
    st.sampled_from([("add", "mul"), ("", ""), ("add", "")]),
    st.booleans(),
)
def test_following_references_once_changes_no_verdict(value, rule, names, is_extended):
    compiled, library = checkers(rule, names, is_extended)
    assert is_valid(compiled, value) is library.is_valid(value)


# ---- the schema `false`


@for_each(
    "schema, value, path",
    [
        ({"properties": {"a": False}}, {"a": 1}, "/a"),
        ({"properties": {"b": {}, "a/b": False}}, {"a/b": 1}, "/a~1b"),
        ({"patternProperties": {"^x-": False}}, {"a": 1, "x-a": 1}, "/x-a"),
        ({"items": {"properties": {"a": False}}}, [{}, {"a": 1}], "/1/a"),
        ({"if": {"required": ["b"]}, "then": {"properties": {"a": False}}}, {"a": 1, "b": 1}, "/a"),
        ({"$schema": DRAFT7, "properties": {"a": False}}, {"a": 1}, "/a"),
    ],
)
def test_a_value_where_the_schema_is_false_is_reported_at_its_path(schema, value, path):
    assert issues(schema, value) == (Issue(path, "is not allowed", "not", {}),)


def test_the_schema_false_allows_nothing():
    issue = Issue("", "has a value where none is allowed", "false", False)
    assert issues(False, 1) == (issue,)


def test_compiling_a_schema_with_false_does_not_change_the_schema():
    schema = {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}
    compiled = CompiledSchema(schema)
    assert [issue.path for issue in compiled.issues({})] == ["/a"]
    assert compiled.schema is schema
    assert schema == {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}


# ---- unevaluated properties


@for_each(
    "schema, value, unknown",
    [
        ({"allOf": [{"properties": {"a": {}}}]}, {"a": 1, "b": 1}, ["/b"]),
        ({"allOf": [{"patternProperties": {"^a": {}}}]}, {"ab": 1, "b": 1}, ["/b"]),
        (
            {"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}}]},
            {"a": 1, "b": 1},
            ["/a"],
        ),
        (
            {"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": {}}}},
            {"a": 1, "b": 1},
            [],
        ),
        ({"if": {"required": ["a"]}, "else": {"properties": {"b": {}}}}, {"b": 1, "c": 1}, ["/c"]),
        (
            {"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}},
            {"a": 1, "b": 1, "c": 1},
            ["/c"],
        ),
        (
            {"$ref": "#/$defs/s", "$defs": {"s": {"properties": {"a": {}}}}},
            {"a": 1, "b": 1},
            ["/b"],
        ),
        ({"oneOf": [{"additionalProperties": {"type": "integer"}}]}, {"a": 1}, []),
        ({"allOf": [True]}, {"a\"'": 1, "é": 1}, ["/a\"'", "/é"]),
    ],
)
def test_properties_that_no_inner_schema_evaluates_are_unknown(schema, value, unknown):
    compiled = CompiledSchema({**schema, "unevaluatedProperties": False})
    assert [issue.path for issue in compiled.issues(value)] == unknown
    assert compiled.fits(value) is (unknown == [])


def tree(draft, anchor, reference):
    """Return a schema of nested groups that adds a name to the groups of its base schema."""
    group = {"items": {**reference, "unevaluatedProperties": False}}
    base = {"$id": "base", **anchor, "properties": {"group": group}}
    named = {"$id": "https://example.com/named", **anchor, "$ref": "base"}
    return {"$schema": draft, **named, "properties": {"name": STRING}, "$defs": {"base": base}}


@for_each(
    "schema",
    [
        tree(DRAFT2019, {"$recursiveAnchor": True}, {"$recursiveRef": "#"}),
        tree(DRAFT2020, {"$dynamicAnchor": "group"}, {"$dynamicRef": "#group"}),
    ],
)
def test_properties_that_an_extended_schema_evaluates_are_known(schema):
    compiled = CompiledSchema(schema)
    assert is_valid(compiled, {"name": "a", "group": [{"name": "b", "group": [{"name": "c"}]}]})
    found = compiled.issues({"group": [{"group": [{"name": "c", "size": 1}]}]})
    assert "/group/0/group/0/size" in [issue.path for issue in found]


def test_a_reference_that_the_draft_does_not_define_evaluates_no_properties():
    group = {"$recursiveRef": "#", "unevaluatedProperties": False}  # only in draft 2019-09
    schema = {"$schema": DRAFT2020, "properties": {"name": STRING, "group": group}}
    assert paths(schema, {"name": "a", "group": {"name": "b"}}) == ["/group/name"]


def resource(**definition):
    """Return a schema with an address of its own, in which references to definitions begin."""
    return {"$id": "https://example.com/inner", "$ref": "#/$defs/x", "$defs": {"x": definition}}


HAS_A = {"properties": {"a": {}}, "required": ["a"]}


@for_each(
    "schema, value, unknown",
    [
        ({"allOf": [resource(**HAS_A)]}, {"a": 1, "b": 1}, ["/b"]),
        ({"anyOf": [resource(**HAS_A), {"properties": {"b": {}}}]}, {"b": 1}, []),
        ({"if": {"required": ["b"]}, "then": resource(**HAS_A)}, {"a": 1, "b": 1}, ["/b"]),
        ({"unevaluatedProperties": resource(**INTEGER)}, {"a": 1, "b": "x"}, ["/b"]),
    ],
)
def test_an_inner_schema_with_an_id_evaluates_properties(schema, value, unknown):
    assert paths({"unevaluatedProperties": False, **schema}, value) == unknown


def test_the_schema_of_property_names_may_have_an_id():
    assert paths({"propertyNames": resource(maxLength=2)}, {"ab": 1, "abc": 1}) == ["/abc"]


# ---- unique items


def test_many_unique_items_are_checked_quickly():
    items = [{"a": number} for number in range(20_000)]  # comparing all pairs would take minutes
    compiled = CompiledSchema({"uniqueItems": True})
    assert compiled.fits(items)
    assert not compiled.fits([*items, {"a": 5.0}])


def test_an_item_of_another_type_is_reported_beside_equal_items():
    schema = {"items": {"type": "object"}, "uniqueItems": True}
    assert paths(schema, [{"a": 5}, {"a": 5.0}, 5]) == ["", "/2"]


@for_each("wanted, value", [(False, ["a", "a", 1]), (True, "aa"), (True, {"a": 1})])
def test_items_are_compared_only_if_unique_items_is_true(wanted, value):
    schema = {"type": "array", "items": STRING, "uniqueItems": wanted}
    assert [issue.rule for issue in issues(schema, value)] == ["type"]


@for_each("items", [[(1,), (1,)], [Decimal(1), Decimal(1)]])
def test_items_that_are_not_json_values_are_compared(items):
    compiled = CompiledSchema({"uniqueItems": True})
    assert [issue.rule for issue in compiled.issues(items)] == ["uniqueItems"]
    assert compiled.issues(items[:1]) == ()
