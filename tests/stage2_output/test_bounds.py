"""No value keeps the `jsonschema` library busy for ever; without its bounds most of these would take hours."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import CompiledSchema, Issue

TOO_MANY_WAYS = (Issue("", "is too deeply nested, with too many alternatives, to be checked", "depth"),)
TOO_DEEP = (Issue("", "is nested too deeply to be checked", "depth"),)
TOO_LARGE = (Issue("", "holds a number too large to be checked", "number"),)
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"
E = {"$ref": "#/$defs/e"}


def operation(name, reference=E):
    """A schema of a sum or a product; with a constant that tells which, or without."""
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


@pytest.mark.parametrize("depth", [15, 80])
@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_a_value_with_too_many_ways_through_the_schema_is_an_issue(rule, depth):
    compiled = CompiledSchema(expressions(rule, ("", "")))
    assert compiled.issues(chain(depth, "x")) == TOO_MANY_WAYS
    assert not compiled.fits(chain(depth, "x"))


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_a_value_that_is_far_too_deep_is_an_issue_at_once(rule):
    compiled = CompiledSchema(expressions(rule))
    assert compiled.issues(chain(200, "x")) == TOO_DEEP
    assert not compiled.fits(chain(200, "x"))


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {"$schema": DRAFT2020, "anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {"$schema": DRAFT7, "anyOf": [operation("", {"$ref": "#"})] * 2 + [{"type": "number"}]},
        {"$schema": DRAFT2019, "anyOf": [operation("", {"$recursiveRef": "#"})] * 2 + [{"type": "number"}]},
        {
            "$dynamicAnchor": "e",
            "anyOf": [operation("", {"$dynamicRef": "#e"})] * 2 + [{"type": "number"}],
        },
        {"$defs": {"e": {"anyOf": [{**operation(""), "unevaluatedProperties": False}] * 2}}, **E},
    ],
    ids=["root", "draft 2020", "draft 7", "$recursiveRef", "$dynamicRef", "unevaluated"],
)
def test_every_kind_of_reference_is_counted(schema):
    compiled = CompiledSchema(schema)
    assert compiled.issues(chain(40, "x")) == TOO_MANY_WAYS
    assert not compiled.fits(chain(40, "x"))


def test_a_long_text_deep_inside_is_not_written_into_a_thousand_messages():
    compiled = CompiledSchema(expressions(names=("", "")))
    assert [issue.path for issue in compiled.issues(chain(8, "x"))] == ["/a" * 8]
    assert compiled.issues(chain(8, "x" * 1_000_000)) == TOO_MANY_WAYS


# ---- what honest values and schemas see of it -------------------------------------------------------------


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
@pytest.mark.parametrize("depth", [3, 12, 25])
def test_where_a_constant_tells_the_alternatives_apart_the_place_is_found_in_deep_values_too(rule, depth):
    compiled = CompiledSchema(expressions(rule))
    wanted = Issue("/a" * depth, "must be object or number, not string", "type", ["object", "number"])
    assert compiled.issues(chain(depth, "x")) == (wanted,)
    assert compiled.issues(chain(depth, "x", "add")) == (wanted,)


def test_an_operation_that_is_unknown_is_told_in_deep_values_too():
    compiled = CompiledSchema(expressions())
    value = chain(20, {"op": "mull", "a": 1, "b": 1})
    assert compiled.issues(value) == (
        Issue(
            "/a" * 20 + "/op", 'must be one of ["add", "mul"]', "enum", ["add", "mul"], "did you mean `mul`?"
        ),
    )


def test_a_long_honest_value_may_follow_more_references_than_a_short_one():
    item = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}
    schema = {"$defs": {"n": {"type": "integer"}, "item": item}, "items": {"$ref": "#/$defs/item"}}
    items = [{"n": number} for number in range(2_000)]
    compiled = CompiledSchema({**schema, "unevaluatedItems": False})  # which is left to the library
    assert compiled.issues(items) == ()
    assert [issue.path for issue in compiled.issues([*items, {"n": "x"}])] == ["/2000/n"]


def test_a_constant_that_is_wrong_in_a_long_value_hides_nothing_of_other_objects():
    item = {"properties": {"kind": {"enum": ["a", "b"]}, "n": {"$ref": "#/$defs/n"}}}
    compiled = CompiledSchema({"$defs": {"n": {"type": "integer"}}, "items": item})
    items = [{"kind": "a", "n": 1}] * 600
    found = compiled.issues([*items, {"kind": "c", "n": 1}, {"kind": "b", "n": "x"}])
    assert [issue.path for issue in found] == ["/600/kind", "/601/n"]


def test_one_value_takes_nothing_from_the_next():
    compiled = CompiledSchema(expressions(names=("", "")))
    for _ in range(3):
        assert compiled.issues(chain(20, "x")) == TOO_MANY_WAYS
        assert [issue.path for issue in compiled.issues(chain(5, "x"))] == ["/a" * 5]


VALUES = st.recursive(
    st.sampled_from([1, "x", None]),
    lambda inner: st.fixed_dictionaries(
        {"a": inner, "b": inner}, optional={"op": st.sampled_from(["add", "mul", "?"])}
    ),
    max_leaves=6,
)


@given(VALUES, st.sampled_from(["anyOf", "oneOf"]), st.sampled_from([("add", "mul"), ("", ""), ("add", "")]))
def test_what_is_valid_is_not_changed_by_the_bounds(value, rule, names):
    for more in ({}, {"unevaluatedItems": False}):
        schema = expressions(rule, names, **more)
        compiled, library = CompiledSchema(schema), jsonschema.Draft202012Validator(schema)
        assert compiled.fits(value) is library.is_valid(value)
        assert (compiled.issues(value) == ()) is library.is_valid(value)


# ---- the place of `false` ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        ({"properties": {"a": False}}, {"a": 1}, "/a"),
        ({"properties": {"b": {}, "a/b": False}}, {"a/b": 1}, "/a~1b"),
        ({"patternProperties": {"^x-": False}}, {"a": 1, "x-a": 1}, "/x-a"),
        ({"prefixItems": [{}, False]}, [1, 2, 3], "/1"),
        ({"items": {"properties": {"a": False}}}, [{}, {"a": 1}], "/1/a"),
        ({"if": {"required": ["b"]}, "then": {"properties": {"a": False}}}, {"a": 1, "b": 1}, "/a"),
        ({"$schema": DRAFT7, "properties": {"a": False}}, {"a": 1}, "/a"),
        (False, 1, ""),
    ],
)
def test_the_place_where_nothing_is_allowed_is_told(schema, value, path):
    wanted = Issue(path, "holds something where nothing is allowed", "false", False)
    assert CompiledSchema(schema).issues(value) == (wanted,)


def test_a_schema_with_false_in_it_stays_as_it_was_written():
    schema = {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}
    compiled = CompiledSchema(schema)
    assert [issue.expected for issue in compiled.issues({})] == [False]
    assert compiled.schema is schema
    assert schema == {"$schema": DRAFT2020, "properties": {"a": False}, "required": ["a"]}


def test_a_schema_that_is_written_as_not_anything_is_told_as_such():
    issue = Issue("/a", "is not allowed", "not", {})
    assert CompiledSchema({"properties": {"a": {"not": {}}, "b": False}}).issues({"a": 1}) == (issue,)


# ---- numbers ----------------------------------------------------------------------------------------------


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
def test_a_number_that_the_library_cannot_divide_or_write_is_an_issue(schema, number):
    for each, value in [(schema, number), ({"properties": {"a": {"items": schema}}}, {"a": [1, number]})]:
        compiled = CompiledSchema(each)
        assert compiled.issues(value) == TOO_LARGE
        assert not compiled.fits(value)
