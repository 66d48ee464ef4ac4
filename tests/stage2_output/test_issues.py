import json

import pytest

from stage2_output import CompiledSchema, Issue, nearest

SECRET = "hunter2"


def issues(schema, value):
    return CompiledSchema(schema).issues(value)


RULES = {
    "type": ({"type": "integer"}, SECRET, "must be integer, not string"),
    "two types": ({"type": ["integer", "null"]}, SECRET, "must be integer or null, not string"),
    "minimum": ({"minimum": 5}, 4, "must be at least 5"),
    "maximum": ({"maximum": 5}, 6, "must be at most 5"),
    "exclusiveMinimum": ({"exclusiveMinimum": 5}, 5, "must be more than 5"),
    "exclusiveMaximum": ({"exclusiveMaximum": 5}, 5, "must be less than 5"),
    "multipleOf": ({"multipleOf": 5}, 6, "must be a multiple of 5"),
    "minLength": ({"minLength": 50}, SECRET, "must have at least 50 characters"),
    "maxLength": ({"maxLength": 3}, SECRET, "must have at most 3 characters"),
    "pattern": ({"pattern": "^a+$"}, SECRET, 'must match the pattern "^a+$"'),
    "minItems": ({"minItems": 2}, [SECRET], "must have at least 2 items"),
    "maxItems": ({"maxItems": 1}, [SECRET, SECRET], "must have at most 1 items"),
    "minProperties": ({"minProperties": 2}, {"a": SECRET}, "must have at least 2 properties"),
    "maxProperties": ({"maxProperties": 0}, {"a": SECRET}, "must have at most 0 properties"),
    "const": ({"const": "a"}, SECRET, 'must be "a"'),
    "enum": ({"enum": ["a", 1, None]}, SECRET, 'must be one of ["a", 1, null]'),
    "uniqueItems": ({"uniqueItems": True}, [SECRET, SECRET], "does not meet the rule uniqueItems"),
    "contains": ({"contains": {"type": "null"}}, [SECRET], "does not meet the rule contains"),
    "not": ({"not": {"type": "string"}}, SECRET, "does not meet the rule not"),
    "oneOf, both": ({"oneOf": [{}, {"type": "string"}]}, SECRET, "does not meet the rule oneOf"),
    "items": ({"items": False}, [SECRET], "does not meet the rule items"),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b"]}},
        {"a": SECRET},
        "does not meet the rule dependentRequired",
    ),
}


@pytest.mark.parametrize(("schema", "value", "message"), RULES.values(), ids=RULES)
def test_a_rule_is_put_into_words_without_the_value(schema, value, message):
    [(rule, expected)] = schema.items()
    assert issues(schema, value) == (Issue("", message, rule, expected),)
    nested = issues({"properties": {"a": {"items": schema}}}, {"a": [value]})
    assert nested == (Issue("/a/0", message, rule, expected),)
    assert SECRET not in repr(nested)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({}, "object"),
        ([], "array"),
        ("", "string"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        (None, "null"),
    ],
)
def test_types_have_the_names_of_json(value, name):
    [wanted] = {"object", "null"} - {name} if name in ("object", "null") else {"null"}
    assert issues({"type": wanted}, value)[0].message == f"must be {wanted}, not {name}"


def test_a_place_where_nothing_may_stand_is_said_to_be_one():
    found = issues({"properties": {"a": False}}, {"a": SECRET})
    assert found == (Issue("", "holds something where nothing is allowed", "false", False),)


def test_a_missing_property_is_named_with_its_place_and_type():
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city", "any"]}
    assert issues({"items": schema}, [{}]) == (
        Issue("/0/any", "is missing", "required", {}),
        Issue("/0/city", "is missing (string)", "required", {"type": "string"}),
    )


def test_an_unknown_property_is_named_with_those_there_are():
    schema = {"properties": {"b": {}, "a": {}}, "additionalProperties": False}
    assert issues(schema, {"zzz": SECRET, "a": SECRET}) == (
        Issue("/zzz", "is not a known property", "additionalProperties", ["a", "b"]),
    )


def test_properties_that_fit_a_pattern_are_known():
    schema = {"patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert [issue.path for issue in issues(schema, {"x-a": 1, "y": 1, "z": 1})] == ["/y", "/z"]


def test_unevaluated_properties_are_unknown_ones():
    schema = {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}
    assert issues(schema, {"a": 1, "b": SECRET}) == (
        Issue("/b", "is not a known property", "unevaluatedProperties", []),
    )


def closed(**properties):
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "value", "hints"),
    [
        (
            closed(path={}),
            {"file": SECRET},
            {"/path": "you sent `file`; did you mean `path`?"},
        ),
        (
            closed(location={}, unit={}),
            {"locaton": SECRET, "units": SECRET},
            {
                "/location": "you sent `locaton`; did you mean `location`?",
                "/unit": "you sent `units`; did you mean `unit`?",
            },
        ),
        (
            closed(City={}),
            {"city": 1},
            {"/City": "you sent `city`; did you mean `City`?"},
        ),
        (closed(path={}, mode={}), {"file": 1}, {"/file": None, "/mode": None, "/path": None}),
        (closed(path={}), {"file": 1, "url": 1}, {"/file": None, "/path": None, "/url": None}),
        (
            {"properties": {"path": {"type": "string"}}, "required": ["path"]},
            {"file": SECRET},
            {"/path": "you sent `file`; did you mean `path`?"},
        ),
        (closed(path={}), {}, {"/path": None}),
        (
            closed(path={}),
            {"path": 1, "paths": SECRET},
            {"/paths": "did you mean `path`?"},
        ),
    ],
    ids=["renamed", "misspelt", "case", "two missing", "two unknown", "open", "nothing sent", "one too many"],
)
def test_the_name_that_was_meant_is_told(schema, value, hints):
    found = issues(schema, value)
    assert {issue.path: issue.hint for issue in found} == hints
    assert SECRET not in repr(found)


def test_a_property_known_elsewhere_is_not_taken_for_the_missing_one():
    schema = {"properties": {"path": {}, "text": {}}, "allOf": [{"required": ["text"]}]}
    assert issues(schema, {"path": "a"}) == (Issue("/text", "is missing", "required", {}),)


def test_the_nearest_value_of_an_enum_is_told():
    [issue] = issues({"enum": ["celsius", "fahrenheit"]}, "Celcius")
    assert issue.hint == "did you mean `celsius`?"


@pytest.mark.parametrize(
    ("name", "near"), [("locaton", "Location"), ("UNIT", "unit"), ("zzz", None), ("", None)]
)
def test_the_nearest_name(name, near):
    assert nearest(name, ["Location", "unit"]) == near
    assert nearest(name, []) is None


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"a/b": 1}, ["/a~1b"]),
        ({"m~n": 1}, ["/m~0n"]),
        ({"~1": 1}, ["/~01"]),
        ({"list": ["x", 1]}, ["/list/1"]),
        ({"": 1}, ["/"]),
    ],
)
def test_a_place_is_a_json_pointer(value, paths):
    text = {"type": "string"}
    schema = {"properties": {"list": {"items": text}}, "additionalProperties": text}
    assert [issue.path for issue in issues(schema, value)] == paths


@pytest.mark.parametrize(("name", "pointer"), [("a/b", "/a~1b"), ("m~n", "/m~0n")])
def test_the_place_of_a_missing_or_unknown_property_is_a_json_pointer(name, pointer):
    places = [
        issues({"required": [name]}, {})[0].path,
        issues({"additionalProperties": False}, {name: 1})[0].path,
    ]
    assert places == [pointer, pointer]


def test_issues_come_in_the_order_of_places_and_each_once():
    text = {"type": "string"}
    schema = {"properties": {"b": text, "a": text}, "allOf": [{"properties": {"b": text}}]}
    assert [issue.path for issue in issues(schema, {"b": 1, "a": 1})] == ["/a", "/b"]


def test_places_in_a_list_are_in_the_order_of_the_list():
    found = issues({"items": {"type": "string"}}, [1] * 11)
    assert [issue.path for issue in found] == [f"/{index}" for index in range(11)]


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("branches", "value", "found"),
    [
        (
            [{"type": "string"}, {"type": "object", "properties": {"n": {"type": "integer"}}}],
            {"n": SECRET},
            [("/n", "must be integer, not string")],
        ),
        (
            [{"type": "null"}, {"type": "string", "minLength": 50}],
            SECRET,
            [("", "must have at least 50 characters")],
        ),
    ],
    ids=["object", "string"],
)
def test_of_several_branches_the_one_that_was_meant_is_explained(rule, branches, value, found):
    assert [(issue.path, issue.message) for issue in issues({rule: branches}, value)] == found


ADD = {"properties": {"op": {"const": "add"}, "file": {"type": "string"}}, "required": ["op", "file"]}
DROP = {"properties": {"op": {"const": "drop"}, "id": {"type": "integer"}}, "required": ["op", "id"]}
OPERATION = [{"type": "object", **ADD}, {"type": "object", **DROP}]


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"op": "add"}, "/file", "is missing (string)"),
        ({"op": "drop"}, "/id", "is missing (integer)"),
        ({"op": "drop", "id": "x"}, "/id", "must be integer, not string"),
    ],
    ids=["first", "second", "wrong type"],
)
def test_a_branch_whose_constant_fits_is_the_one_that_was_meant(value, path, message):
    found = issues({"anyOf": OPERATION}, value)
    assert [(issue.path, issue.message) for issue in found] == [(path, message)]


def test_a_long_expectation_is_cut_in_the_words_but_not_in_the_issue():
    choices = [f"choice {number}" for number in range(100)]
    [issue] = issues({"enum": choices}, "x")
    assert issue.expected == choices
    assert issue.message == f"must be one of {json.dumps(choices)[:200]} …"
