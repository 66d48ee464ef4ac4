"""No value and no schema takes exponential time; with `jsonschema` alone most of these would take
hours."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import CompiledSchema, Issue

TOO_DEEP = (Issue("", "is nested too deeply to be checked", "depth"),)
TOO_LARGE = (Issue("", "contains a number too large to be checked", "number"),)
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"
E = {"$ref": "#/$defs/e"}


def operation(name, reference=E):
    """A schema of an operation with two operands; a name adds a constant to the schema."""
    named = {"op": {"const": name}} if name else {}
    parts = {"a": reference, "b": reference}
    return {"type": "object", "properties": {**parts, **named}, "required": ["a", "b"]}


def expressions(rule="anyOf", names=("add", "mul"), **more):
    alternatives = [*map(operation, names), {"type": "number"}]
    return {"$defs": {"e": {rule: alternatives, **more}}, **E}


def chain(depth, leaf, name="mul"):
    for _ in range(depth):
        leaf = {"op": name, "a": leaf, "b": 1}
    return leaf


def wrong_number(depth):
    """The issue of a text at the end of a chain, where numbers are the only scalars."""
    return Issue("/a" * depth, "must be object or number, not string", "type", ["object", "number"])


@pytest.mark.parametrize("depth", [8, 15, 80])
@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_mutually_recursive_alternatives_do_not_double_the_work_at_each_level(rule, depth):
    compiled = CompiledSchema(expressions(rule, ("", "")))
    assert compiled.issues(chain(depth, "x")) == (wrong_number(depth),)
    assert not compiled.fits(chain(depth, "x"))
    assert compiled.fits(chain(depth, 1)) is (rule == "anyOf")  # the alternatives are equal


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_a_value_that_is_far_too_deep_is_rejected_quickly(rule):
    compiled = CompiledSchema(expressions(rule))
    assert compiled.issues(chain(200, "x")) == TOO_DEEP
    assert not compiled.fits(chain(200, "x"))


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {"$schema": DRAFT2020, "anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {"$schema": DRAFT7, "anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {
            "$schema": DRAFT2019,
            "anyOf": [operation("", {"$recursiveRef": "#"})] * 2 + [{"type": "number"}],
        },
        {
            "$dynamicAnchor": "e",
            "anyOf": [operation("", {"$dynamicRef": "#e"})] * 2 + [{"type": "number"}],
        },
        {"$defs": {"e": {"anyOf": [{**operation(""), "unevaluatedProperties": False}] * 2}}, **E},
    ],
    ids=["root", "draft 2020", "draft 7", "$recursiveRef", "$dynamicRef", "unevaluated"],
)
def test_every_kind_of_reference_is_followed_once_for_each_part_of_a_value(schema):
    compiled = CompiledSchema(schema)
    assert "/a" * 40 in [issue.path for issue in compiled.issues(chain(40, "x"))]
    assert not compiled.fits(chain(40, "x"))


def test_chained_references_of_a_schema_do_not_double_the_work():
    chained = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(60)}
    schema = {"$defs": {**chained, "s60": {"type": "integer"}}, "$ref": "#/$defs/s0"}
    for more in ({}, {"unevaluatedProperties": False}):
        compiled = CompiledSchema({**schema, **more})
        assert compiled.issues(1) == ()
        assert [issue.path for issue in compiled.issues("x")] == [""]
        assert not compiled.fits({})


def test_equal_parts_at_several_paths_are_reported_at_each_path():
    defined = expressions(names=("",))["$defs"]
    compiled = CompiledSchema({"$defs": defined, "type": "array", "items": E})
    wrong = {"a": "x", "b": 1}
    assert [issue.path for issue in compiled.issues([wrong, 1, wrong, "y", "y"])] == [
        "/0/a",
        "/2/a",
        "/3",
        "/4",
    ]


def test_a_long_text_in_a_nested_value_is_not_repeated_in_the_messages():
    compiled = CompiledSchema(expressions(names=("", "")))
    assert compiled.issues(chain(8, "x" * 1_000_000)) == (wrong_number(8),)


# ---- effect on ordinary values and schemas
# -------------------------------------------------------------


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
@pytest.mark.parametrize("depth", [3, 12, 25])
def test_issues_of_alternatives_with_a_constant_have_the_right_path_in_deep_values(rule, depth):
    compiled = CompiledSchema(expressions(rule))
    assert compiled.issues(chain(depth, "x")) == (wrong_number(depth),)
    assert compiled.issues(chain(depth, "x", "add")) == (wrong_number(depth),)


def test_an_unknown_constant_is_reported_in_deep_values():
    compiled = CompiledSchema(expressions())
    value = chain(20, {"op": "mull", "a": 1, "b": 1})
    assert compiled.issues(value) == (
        Issue(
            "/a" * 20 + "/op",
            'must be one of ["add", "mul"]',
            "enum",
            ["add", "mul"],
            "did you mean `mul`?",
        ),
    )


def test_a_long_value_may_follow_more_references_than_a_short_one():
    item = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}
    schema = {"$defs": {"n": {"type": "integer"}, "item": item}, "items": {"$ref": "#/$defs/item"}}
    items = [{"n": number} for number in range(2_000)]
    # `unevaluatedItems` is checked by the library.
    compiled = CompiledSchema({**schema, "unevaluatedItems": False})
    assert compiled.issues(items) == ()
    assert [issue.path for issue in compiled.issues([*items, {"n": "x"}])] == ["/2000/n"]


def test_a_wrong_constant_in_a_long_value_hides_no_issues_of_other_objects():
    item = {"properties": {"kind": {"enum": ["a", "b"]}, "n": {"$ref": "#/$defs/n"}}}
    compiled = CompiledSchema({"$defs": {"n": {"type": "integer"}}, "items": item})
    items = [{"kind": "a", "n": 1}] * 600
    found = compiled.issues([*items, {"kind": "c", "n": 1}, {"kind": "b", "n": "x"}])
    assert [issue.path for issue in found] == ["/600/kind", "/601/n"]


def test_the_limits_apply_to_each_value_separately():
    compiled = CompiledSchema(expressions(names=("", "")))
    for _ in range(3):
        assert compiled.issues(chain(20, "x")) == (wrong_number(20),)
        assert [issue.path for issue in compiled.issues(chain(5, "x"))] == ["/a" * 5]


VALUES = st.recursive(
    st.sampled_from([1, "x", None]),
    lambda inner: st.fixed_dictionaries(
        {"a": inner, "b": inner}, optional={"op": st.sampled_from(["add", "mul", "?"])}
    ),
    max_leaves=6,
)


@given(
    VALUES,
    st.sampled_from(["anyOf", "oneOf"]),
    st.sampled_from([("add", "mul"), ("", ""), ("add", "")]),
)
def test_the_limits_change_no_verdict(value, rule, names):
    for more in ({}, {"unevaluatedItems": False}):
        schema = expressions(rule, names, **more)
        compiled, library = CompiledSchema(schema), jsonschema.Draft202012Validator(schema)
        assert compiled.fits(value) is library.is_valid(value)
        assert (compiled.issues(value) == ()) is library.is_valid(value)


# ---- the path of an issue of the schema `false`
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "path"),
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
    assert CompiledSchema(schema).issues(value) == (Issue(path, "is not allowed", "not", {}),)


def test_the_schema_false_allows_nothing():
    issue = Issue("", "has a value where none is allowed", "false", False)
    assert CompiledSchema(False).issues(1) == (issue,)


def test_compiling_a_schema_with_false_does_not_change_the_schema():
    schema = {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}
    compiled = CompiledSchema(schema)
    assert [issue.path for issue in compiled.issues({})] == ["/a"]
    assert compiled.schema is schema
    assert schema == {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}


# ---- numbers
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        ({"multipleOf": 0.3}, float("nan")),
        ({"multipleOf": 0.3}, float("inf")),
        ({"type": "string"}, 10**5000),
        ({"maximum": 5}, 10**5000),
        ({"uniqueItems": True, "maxItems": 0}, [10**5000] * 2),
    ],
    ids=["nan", "inf", "type", "maximum", "items"],
)
def test_a_number_that_the_library_cannot_process_is_an_issue(schema, number):
    for each, value in [
        (schema, number),
        ({"properties": {"a": {"items": schema}}}, {"a": [1, number]}),
    ]:
        compiled = CompiledSchema(each)
        assert compiled.issues(value) == TOO_LARGE
        assert not compiled.fits(value)
