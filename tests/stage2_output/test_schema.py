import pytest

from stage2_output import CompiledSchema, InvalidSchema, Issue
from tests.stage2_output.schemas import (
    DRAFT4,
    DRAFT7,
    INTEGER,
    STRING,
    TOO_DEEP,
    TOO_LARGE,
    in_list,
    is_valid,
    issues,
    nested,
)
from tests.tables import for_each


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
        ({"type": {"a": 1}}, r"is invalid at \$\.type: "),
        ({"$ref": "#/enum/0", "enum": [5]}, "refers to '#/enum/0', which is not a schema"),
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


@for_each("name", ["default", "examples", "const", "enum"])
def test_a_reference_under_a_property_named_like_a_keyword_is_checked(name):
    with pytest.raises(InvalidSchema, match="refers to"):
        CompiledSchema({"properties": {name: {"$ref": "#/$defs/gone"}}})


@for_each("name", ["$id", "$schema", "pattern"])
def test_a_property_may_be_named_like_a_keyword(name):
    compiled = CompiledSchema({"properties": {name: STRING}})
    assert compiled.issues({name: "("}) == ()
    assert [issue.path for issue in compiled.issues({name: 1})] == ["/" + name]


def test_a_dialect_that_is_not_text_is_rejected():
    with pytest.raises(InvalidSchema):
        CompiledSchema({"$schema": 5})


def test_a_reference_in_data_is_ignored():
    link = {"$ref": "https://example.com"}
    assert CompiledSchema({"const": link, "default": link, "examples": [link]}).issues(link) == ()


@for_each(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": STRING}},
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
                    "$defs": {"s": STRING},
                }
            }
        },
        {
            "$schema": DRAFT7,
            "properties": {"a": {"$ref": "#/definitions/s"}},
            "definitions": {"s": STRING},
        },
    ],
)
def test_references_inside_a_schema_are_resolved(schema):
    compiled = CompiledSchema(schema)
    assert compiled.issues({"a": "x"}) == ()
    wrong = Issue("/a", "must be string, not integer", "type", "string")
    assert compiled.issues({"a": 1}) == (wrong,)


def test_a_schema_is_interpreted_by_the_draft_that_it_names():
    pair = {"items": [{"type": "string"}], "additionalItems": False}
    old = CompiledSchema({"$schema": DRAFT7, **pair})
    assert old.issues(["x"]) == ()
    assert [issue.path for issue in old.issues([1])] == ["/0"]
    assert [issue.rule for issue in old.issues(["x", "y"])] == ["additionalItems"]
    with pytest.raises(InvalidSchema, match=r"\$\.items"):
        CompiledSchema(pair)


TREE = {"type": "array", "items": {"$ref": "#"}}


def test_a_recursive_schema_is_checked_on_every_level():
    wrong = Issue("/1/0/0", "must be array, not integer", "type", "array")
    assert issues(TREE, [[], [[]]]) == ()
    assert issues(TREE, [[], [[1]]]) == (wrong,)


def test_a_schema_that_is_too_deep_is_rejected():
    with pytest.raises(InvalidSchema, match="cannot be read: RecursionError"):
        CompiledSchema(nested(5000, lambda schema: {"not": schema}, {}))


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
    assert is_valid(CompiledSchema({"type": type}), value) is valid


@for_each("value, valid", [(1, True), (1.0, True), (True, False), ("1", False)])
@for_each("schema", [{"const": 1}, {"enum": [1]}])
def test_true_and_one_are_different_for_const_and_enum(schema, value, valid):
    assert is_valid(CompiledSchema(schema), value) is valid


def test_the_schema_true_accepts_any_value_and_unknown_properties_are_allowed_by_default():
    assert CompiledSchema(True).issues({"a": [None]}) == ()
    assert CompiledSchema({"properties": {"a": {}}}).issues({"b": 1}) == ()


# ---- values that the library cannot check

ITSELF = {"$ref": "#"}
EACH_OTHER = {
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    "$ref": "#/$defs/a",
}
NOT_CHECKED = (Issue("", "could not be checked", "unknown"),)


@for_each(
    "schema", [ITSELF, {"allOf": [ITSELF]}, {"not": ITSELF}, {"anyOf": [ITSELF, {}]}, EACH_OTHER]
)
def test_a_schema_that_only_refers_to_itself_gives_an_issue(schema):
    compiled = CompiledSchema(schema)
    assert compiled.issues(1) == TOO_DEEP
    assert not compiled.fits(1)


@for_each("depth", [900, 5000])
def test_a_value_that_is_too_deep_is_an_issue(depth):
    compiled = CompiledSchema(TREE)
    assert compiled.issues(nested(depth, in_list, [])) == TOO_DEEP
    assert not compiled.fits(nested(depth, in_list, []))


@for_each(
    "schema, number",
    [
        ({"multipleOf": 0.3}, float("nan")),
        ({"multipleOf": 0.3}, float("inf")),
        ({"multipleOf": 0.3}, 10**400),
        (STRING, 10**5000),
        ({"maximum": 5}, 10**5000),
        ({"uniqueItems": True, "maxItems": 0}, [10**5000] * 2),
    ],
)
def test_a_number_that_the_library_cannot_process_is_an_issue(schema, number):
    in_object = {"properties": {"a": {"items": schema}}}
    for each, value in [(schema, number), (in_object, {"a": [1, number]})]:
        compiled = CompiledSchema(each)
        assert compiled.issues(value) == TOO_LARGE
        assert not compiled.fits(value)


@for_each(
    "schema, value",
    [
        ({"uniqueItems": True}, [{1}, {2}]),
        ({"patternProperties": {"a": {}}, "additionalProperties": False}, {1: 1, "b": 2}),
    ],
)
def test_a_value_on_which_the_library_fails_is_an_issue(schema, value):
    compiled = CompiledSchema(schema)
    assert compiled.issues(value) == NOT_CHECKED
    assert not compiled.fits(value)


@for_each(
    "schema, value, fits",
    [
        ({"type": "string", "pattern": "a"}, "\ud800", False),
        ({"maxLength": 1}, "\ud800", True),
        ({"additionalProperties": INTEGER}, {1: 2}, True),
        ({"additionalProperties": {"pattern": "a"}}, {1: "b"}, False),
        ({"propertyNames": {"pattern": "a"}}, {"\ud800": 2}, False),
        ({"multipleOf": 10**400}, 5, False),
        ({"multipleOf": 10**400}, 10**400, True),
        ({"maximum": 5}, 10**400, False),
        ({"const": 1}, nested(5000, in_list, []), False),
    ],
)
def test_unusual_values_are_checked(schema, value, fits):
    assert is_valid(CompiledSchema(schema), value) is fits


def test_a_schema_may_have_keys_that_are_not_text():
    for schema in ({1: 2}, {"properties": {1: {}}}):
        assert is_valid(CompiledSchema(schema), {})


# ---- fits


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
    assert is_valid(CompiledSchema(schema), value) is fits


def test_checking_changes_neither_the_schema_nor_the_value():
    schema = {"properties": {"a": {"default": 1}}}
    value = {}
    assert CompiledSchema(schema).issues(value) == ()
    assert (schema, value) == ({"properties": {"a": {"default": 1}}}, {})
