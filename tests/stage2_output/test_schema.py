from decimal import Decimal

import pytest

from stage2_output import CompiledSchema, InvalidSchema, Issue
from tests.tables import for_each

STRING = (Issue("/a", "must be string, not integer", "type", "string"),)
DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"


@for_each(
    "schema, reason",
    [
        ({"type": "strin"}, r"is invalid at \$\.type: 'strin' "),
        ({"properties": {"a": {"type": 5}}}, r"is invalid at \$\.properties\.a\.type: 5 "),
        ({"required": "a"}, r"is invalid at \$\.required: 'a' "),
        ({"items": {"minLength": -1}}, r"is invalid at \$\.items\.minLength: -1 "),
        ({"pattern": "("}, r"invalid pattern: '\('"),
        (
            {"$schema": DRAFT4, "items": {"patternProperties": {"(": {}}}},
            r"invalid pattern: '\('",
        ),
        ("string", "must be a mapping or a bool, not str"),
        (None, "must be a mapping or a bool, not NoneType"),
        (lambda: 0, "must be a mapping or a bool, not function"),
        (dict, "must be a mapping or a bool, not type"),
    ],
)
def test_an_invalid_schema_raises_an_error_with_the_path(schema, reason):
    with pytest.raises(InvalidSchema, match=reason):
        CompiledSchema(schema)


@for_each(
    "reference",
    [
        "https://example.com/schema.json",
        "#/$defs/gone",
        "other.json",
        "#gone",
        "file:///etc/passwd",
    ],
)
@for_each("keyword", ["properties", "items", "anyOf", "unused", "allOf"])
def test_an_unresolvable_reference_raises_an_error_and_is_never_downloaded(reference, keyword):
    part = {"$ref": reference}
    schema = {
        "properties": {"properties": {"a": part}},
        "items": {"items": {"not": part}},
        "anyOf": {"anyOf": [{}, part]},
        "unused": {"$defs": {"unused": part}},
        "allOf": {"allOf": [part]},
    }[keyword]
    with pytest.raises(InvalidSchema, match=r"refers to .* which it does not contain"):
        CompiledSchema(schema)


@pytest.mark.parametrize("name", ["default", "examples", "const", "enum"])
def test_a_reference_under_a_property_named_like_a_keyword_is_checked(name):
    with pytest.raises(InvalidSchema, match="refers to"):
        CompiledSchema({"properties": {name: {"$ref": "#/$defs/gone"}}})


def test_a_property_may_be_named_like_the_keyword_id():
    assert CompiledSchema({"properties": {"$id": {"type": "string"}}}).issues({"$id": "x"}) == ()


def test_a_dialect_that_is_not_text_is_rejected():
    with pytest.raises(InvalidSchema):
        CompiledSchema({"$schema": 5})


def test_a_reference_in_data_is_ignored():
    link = {"$ref": "https://example.com"}
    assert CompiledSchema({"const": link, "default": link, "examples": [link]}).issues(link) == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#s"}}, "$defs": {"s": {"$anchor": "s", "type": "string"}}},
        {
            "$id": "https://example.com/root",
            "properties": {"a": {"$ref": "part"}},
            "$defs": {"s": {"$id": "part", "type": "string"}},
        },
        {
            "properties": {
                "a": {
                    "$id": "https://example.com/a",
                    "$ref": "#/$defs/s",
                    "$defs": {"s": {"type": "string"}},
                }
            }
        },
        {
            "$schema": DRAFT7,
            "properties": {"a": {"$ref": "#/definitions/s"}},
            "definitions": {"s": {"type": "string"}},
        },
    ],
    ids=["pointer", "anchor", "id", "inner id", "draft-07"],
)
def test_references_inside_a_schema_are_resolved(schema):
    compiled = CompiledSchema(schema)
    assert compiled.issues({"a": "x"}) == ()
    assert compiled.issues({"a": 1}) == STRING


def test_a_schema_is_interpreted_by_the_draft_that_it_names():
    pair = {"items": [{"type": "string"}], "additionalItems": False}
    old = CompiledSchema({"$schema": DRAFT7, **pair})
    assert old.issues(["x"]) == ()
    assert [issue.path for issue in old.issues([1])] == ["/0"]
    assert [issue.rule for issue in old.issues(["x", "y"])] == ["additionalItems"]
    with pytest.raises(InvalidSchema, match=r"\$\.items"):
        CompiledSchema(pair)


def test_a_recursive_schema_is_checked_on_every_level():
    tree = CompiledSchema({"type": "array", "items": {"$ref": "#"}})
    assert tree.issues([[], [[]]]) == ()
    assert tree.issues([[], [[1]]]) == (
        Issue("/1/0/0", "must be array, not integer", "type", "array"),
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_a_schema_that_only_refers_to_itself_gives_an_issue(schema):
    assert CompiledSchema(schema).issues(1) == (
        Issue("", "is nested too deeply to be checked", "depth"),
    )


def test_a_value_that_is_too_deep_is_an_issue():
    value = []
    for _ in range(900):
        value = [value]
    tree = CompiledSchema({"type": "array", "items": {"$ref": "#"}})
    assert tree.issues(value) == (Issue("", "is nested too deeply to be checked", "depth"),)


def test_a_schema_that_is_too_deep_is_rejected():
    schema = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(InvalidSchema, match="cannot be read: RecursionError"):
        CompiledSchema(schema)


@for_each(
    "type, value, valid",
    [
        ("integer", 5, True),
        ("integer", 1.0, True),
        ("integer", 1.5, False),
        ("integer", "5", False),
        ("integer", True, False),
        ("number", 5, True),
        ("number", "5", False),
        ("number", False, False),
        ("boolean", 1, False),
        ("boolean", "true", False),
        ("string", 5, False),
        ("null", "", False),
        ("null", 0, False),
        ("array", {}, False),
        ("object", [], False),
    ],
)
def test_types_are_strict(type, value, valid):
    assert (CompiledSchema({"type": type}).issues(value) == ()) is valid


@pytest.mark.parametrize(("value", "valid"), [(1, True), (1.0, True), (True, False), ("1", False)])
@pytest.mark.parametrize("schema", [{"const": 1}, {"enum": [1]}], ids=["const", "enum"])
def test_true_and_one_are_different_for_const_and_enum(schema, value, valid):
    assert (CompiledSchema(schema).issues(value) == ()) is valid


def test_the_schema_true_accepts_any_value_and_unknown_properties_are_allowed_by_default():
    assert CompiledSchema(True).issues({"a": [None]}) == ()
    assert CompiledSchema({"properties": {"a": {}}}).issues({"b": 1}) == ()


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf")])
def test_a_number_that_cannot_be_divided_is_an_issue(value):
    compiled = CompiledSchema({"multipleOf": 0.3})
    assert compiled.issues(value) == (
        Issue("", "contains a number too large to be checked", "number"),
    )
    assert not compiled.fits(value)


def test_many_unique_items_are_checked_quickly():
    items = [{"a": number} for number in range(20_000)]  # comparing all pairs would take minutes
    compiled = CompiledSchema({"items": {"type": "object"}, "uniqueItems": True})
    assert compiled.issues(items) == ()
    assert [issue.rule for issue in compiled.issues([*items, {"a": 5.0}])] == ["uniqueItems"]
    assert [issue.path for issue in compiled.issues([*items, 5])] == ["/20000"]


@pytest.mark.parametrize(
    ("wanted", "value"), [(False, ["a", "a", 1]), (True, "aa"), (True, {"a": 1})]
)
def test_items_are_compared_only_if_unique_items_is_true(wanted, value):
    compiled = CompiledSchema({"type": "array", "items": {"type": "string"}, "uniqueItems": wanted})
    assert [issue.rule for issue in compiled.issues(value)] == ["type"]


@pytest.mark.parametrize("items", [[(1,), (1,)], [Decimal(1), Decimal(1)]])
def test_items_that_are_not_json_values_are_compared(items):
    compiled = CompiledSchema({"uniqueItems": True})
    assert [issue.rule for issue in compiled.issues(items)] == ["uniqueItems"]
    assert compiled.issues(items[:1]) == ()


@for_each(
    "schema",
    [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {
            "allOf": [{"properties": {"a": {"type": "integer"}}}],
            "required": ["a"],
            "unevaluatedProperties": False,
        },
        {"$schema": DRAFT4, "enum": [{"a": 1}, {"a": 2}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"const": {"a": 1}}}},
    ],
)
@for_each("value, fits", [({"a": 1}, True), ({"a": 1.0}, True), ({"a": "1"}, False), ({}, False)])
def test_a_value_fits_if_it_has_no_issues(schema, value, fits):
    compiled = CompiledSchema(schema)
    assert compiled.fits(value) is fits
    assert (compiled.issues(value) == ()) is fits


def test_a_value_that_cannot_be_checked_does_not_fit():
    assert not CompiledSchema({"$ref": "#"}).fits(1)


def test_checking_changes_neither_the_schema_nor_the_value():
    schema = {"properties": {"a": {"default": 1}}}
    value = {}
    assert CompiledSchema(schema).issues(value) == ()
    assert (schema, value) == ({"properties": {"a": {"default": 1}}}, {})
