import pytest

from stage2_output import CompiledSchema, InvalidSchema, Issue

STRING = (Issue("/a", "must be string, not integer", "type", "string"),)
DRAFT7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "strin"}, r"is wrong at \$\.type: 'strin' "),
        ({"properties": {"a": {"type": 5}}}, r"is wrong at \$\.properties\.a\.type: 5 "),
        ({"required": "a"}, r"is wrong at \$\.required: 'a' "),
        ({"items": {"minLength": -1}}, r"is wrong at \$\.items\.minLength: -1 "),
        ({"pattern": "("}, r"is wrong at \$\.pattern: "),
        ("string", "is a mapping, not str"),
        (None, "is a mapping, not NoneType"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_place(schema, why):
    with pytest.raises(InvalidSchema, match=why):
        CompiledSchema(schema)


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/schema.json", "#/$defs/gone", "other.json", "#gone", "file:///etc/passwd"],
)
@pytest.mark.parametrize("place", ["properties", "items", "anyOf", "unused", "allOf"])
def test_a_reference_that_leads_nowhere_is_refused_and_never_fetched(reference, place):
    part = {"$ref": reference}
    schema = {
        "properties": {"properties": {"a": part}},
        "items": {"items": {"not": part}},
        "anyOf": {"anyOf": [{}, part]},
        "unused": {"$defs": {"unused": part}},
        "allOf": {"allOf": [part]},
    }[place]
    with pytest.raises(InvalidSchema, match=r"refers to .* which it does not hold"):
        CompiledSchema(schema)


@pytest.mark.parametrize("name", ["default", "examples", "const", "enum"])
def test_a_reference_under_a_property_named_like_a_keyword_is_refused_too(name):
    with pytest.raises(InvalidSchema, match="refers to"):
        CompiledSchema({"properties": {name: {"$ref": "#/$defs/gone"}}})


def test_a_property_may_be_named_like_the_keyword_id():
    assert CompiledSchema({"properties": {"$id": {"type": "string"}}}).issues({"$id": "x"}) == ()


def test_a_dialect_that_is_no_text_is_refused():
    with pytest.raises(InvalidSchema):
        CompiledSchema({"$schema": 5})


def test_a_reference_that_is_only_data_is_left_alone():
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
                "a": {"$id": "https://example.com/a", "$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}}
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
def test_references_within_a_schema_work(schema):
    compiled = CompiledSchema(schema)
    assert compiled.issues({"a": "x"}) == ()
    assert compiled.issues({"a": 1}) == STRING


def test_a_schema_is_read_in_the_draft_it_names():
    pair = {"items": [{"type": "string"}], "additionalItems": False}
    old = CompiledSchema({"$schema": DRAFT7, **pair})
    assert old.issues(["x"]) == ()
    assert [issue.path for issue in old.issues([1])] == ["/0"]
    assert [issue.rule for issue in old.issues(["x", "y"])] == ["additionalItems"]
    with pytest.raises(InvalidSchema, match=r"\$\.items"):
        CompiledSchema(pair)


def test_a_recursive_schema_holds_on_every_level():
    tree = CompiledSchema({"type": "array", "items": {"$ref": "#"}})
    assert tree.issues([[], [[]]]) == ()
    assert tree.issues([[], [[1]]]) == (Issue("/1/0/0", "must be array, not integer", "type", "array"),)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_a_schema_that_only_refers_to_itself_ends_in_an_issue(schema):
    assert CompiledSchema(schema).issues(1) == (Issue("", "is nested too deeply to be checked", "depth"),)


def test_a_value_too_deep_to_be_checked_is_an_issue():
    value = []
    for _ in range(900):
        value = [value]
    tree = CompiledSchema({"type": "array", "items": {"$ref": "#"}})
    assert tree.issues(value) == (Issue("", "is nested too deeply to be checked", "depth"),)


def test_a_schema_too_deep_to_be_checked_is_refused():
    schema = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        CompiledSchema(schema)


@pytest.mark.parametrize(
    ("type", "value", "valid"),
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
def test_true_is_not_one_for_const_and_enum_either(schema, value, valid):
    assert (CompiledSchema(schema).issues(value) == ()) is valid


def test_true_takes_anything_and_unknown_properties_are_allowed_as_written():
    assert CompiledSchema(True).issues({"a": [None]}) == ()
    assert CompiledSchema({"properties": {"a": {}}}).issues({"b": 1}) == ()


def test_a_number_too_large_to_be_divided_is_an_issue():
    [issue] = CompiledSchema({"multipleOf": 0.3}).issues(10**400)
    assert issue.path == ""


def test_a_schema_is_kept_as_it_was_written():
    schema = {"properties": {"a": {"default": 1}}}
    value = {}
    assert CompiledSchema(schema).issues(value) == ()
    assert (schema, value) == ({"properties": {"a": {"default": 1}}}, {})
