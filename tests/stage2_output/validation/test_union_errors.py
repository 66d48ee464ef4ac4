from stage2_output import Issue
from tests.stage2_output.schemas import SECRET, issues, nested, paths_and_messages
from tests.tables import for_each


@for_each("rule", ["anyOf", "oneOf"])
@for_each(
    "branches, value, found",
    [
        # object
        (
            [{"type": "string"}, {"type": "object", "properties": {"n": {"type": "integer"}}}],
            {"n": SECRET},
            [("/n", "must be integer, not string")],
        ),
        # string
        (
            [{"type": "null"}, {"type": "string", "minLength": 50}],
            SECRET,
            [("", "must have 50 or more characters")],
        ),
        # fewest issues
        (
            [
                {"maxProperties": 0, "required": ["lat", "lon"]},
                {"maxProperties": 0, "required": ["city"]},
            ],
            {"x": 1},
            [("", "must have 0 or fewer properties"), ("/city", "is missing")],
        ),
    ],
)
def test_the_intended_branch_of_an_alternative_is_explained(rule, branches, value, found):
    assert paths_and_messages({rule: branches}, value) == found


ADD = {
    "properties": {"op": {"const": "add"}, "file": {"type": "string"}},
    "required": ["op", "file"],
}
DROP = {
    "properties": {"op": {"enum": ["drop"]}, "id": {"type": "integer"}},
    "required": ["op", "id"],
}
OPERATION = [{"type": "object", **ADD}, {"type": "object", **DROP}, {"type": "null"}]


@for_each(
    "value, path, message",
    [
        ({"op": "add"}, "/file", "is missing (string)"),
        ({"op": "drop"}, "/id", "is missing (integer)"),
        ({"op": "drop", "id": "x"}, "/id", "must be integer, not string"),
        ({"op": SECRET, "id": 1}, "/op", 'must be one of ["add", "drop"]'),
        ({"op": 5}, "/op", 'must be one of ["add", "drop"]'),
        ({}, "", "must have `op` and `file` or `op` and `id`"),
        ({"file": 1, "id": "x"}, "/op", "is missing"),
        (SECRET, "", "must be object or null, not string"),
    ],
)
@for_each("rule", ["anyOf", "oneOf"])
def test_a_constant_selects_the_branch_to_explain(rule, value, path, message):
    assert paths_and_messages({"items": {rule: OPERATION}}, [value]) == [(f"/0{path}", message)]


def test_the_most_similar_constant_of_any_branch_is_suggested():
    [issue] = issues({"anyOf": OPERATION}, {"op": "dorp", "id": 1})
    assert issue == Issue(
        "/op", 'must be one of ["add", "drop"]', "enum", ["add", "drop"], "did you mean `drop`?"
    )


def test_a_wrong_enum_value_does_not_exclude_a_branch():
    place = {"properties": {"city": {}, "unit": {"enum": ["c", "f"]}}, "required": ["city"]}
    point = {"properties": {"lat": {}, "lon": {}}, "required": ["lat", "lon"]}
    assert paths_and_messages({"anyOf": [place, point]}, {"city": "a", "unit": "kelvin"}) == [
        ("/unit", 'must be one of ["c", "f"]')
    ]


def test_a_property_that_two_branches_share_does_not_hide_other_issues():
    unit = {"unit": {"enum": ["c", "f"]}}
    add = {"properties": {**ADD["properties"], **unit}, "required": ["op", "file"]}
    drop = {"properties": {**DROP["properties"], **unit}, "required": ["op", "id"]}
    assert paths_and_messages({"anyOf": [add, drop]}, {"op": "add", "unit": SECRET}) == [
        ("/file", "is missing (string)"),
        ("/unit", 'must be one of ["c", "f"]'),
    ]


@for_each(
    "branches, value, message, rule",
    [
        # types
        (
            [{"type": "integer"}, {"type": "string"}],
            None,
            "must be integer or string, not null",
            "type",
        ),
        # optional enum
        (
            [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}],
            "c",
            'must be one of ["a", "b"] or null',
            "enum",
        ),
        # and a wrong type
        (
            [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}],
            5,
            'must be one of ["a", "b"] or null',
            "enum",
        ),
        # constants
        (
            [{"const": "a"}, {"const": "b"}, {"const": "a"}],
            "c",
            'must be one of ["a", "b"]',
            "enum",
        ),
        # 1 is not true
        (
            [{"const": 1}, {"const": "1"}, {"const": True}],
            "c",
            'must be one of [1, "1", true]',
            "enum",
        ),
        # optional constant
        ([{"const": "a"}, {"type": "null"}], 5, 'must be "a" or null', "enum"),
        # nested
        (
            [
                {"type": "null"},
                {"oneOf": [{"const": "a"}, {"anyOf": [{"const": "b"}, {"type": "integer"}]}]},
            ],
            "c",
            'must be one of ["a", "b"] or null or integer',
            "enum",
        ),
    ],
)
def test_alternatives_of_single_values_are_reported_as_one_choice(branches, value, message, rule):
    [issue] = issues({"anyOf": branches}, value)
    assert (issue.path, issue.message, issue.rule) == ("", message, rule)


def test_alternatives_with_different_required_properties_are_reported_together():
    schema = {"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}
    assert issues(schema, {"x": SECRET}) == (
        Issue("", "must have `a` or `b` and `c`", "anyOf", schema["anyOf"], "you sent `x`"),
    )


def test_common_issues_are_reported_if_no_branch_was_clearly_intended():
    first = {"properties": {"n": {"type": "integer"}}, "required": ["a"]}
    second = {"properties": {"n": {"type": "integer"}}, "required": ["b"]}
    assert paths_and_messages({"anyOf": [first, second]}, {"n": SECRET}) == [
        ("/n", "must be integer, not string")
    ]


@for_each(
    "first, second, value, found",
    [
        # the same missing property
        (
            {"required": ["a", "b"], "minProperties": 2},
            {"required": ["c", "b"], "minProperties": 2},
            {"x": SECRET},
            [("", "must have 2 or more properties"), ("/b", "is missing")],
        ),
        # the same unknown property
        (
            {"properties": {"a": {}}, "additionalProperties": False, "required": ["a"]},
            {"properties": {"b": {}}, "additionalProperties": False, "required": ["b"]},
            {"x": SECRET, "y": SECRET},
            [("/x", "is not a known property"), ("/y", "is not a known property")],
        ),
        # different unknown properties
        (
            {"properties": {"a": {}}, "additionalProperties": False, "minProperties": 3},
            {"properties": {"b": {}}, "additionalProperties": False, "minProperties": 3},
            {"a": SECRET, "b": SECRET},
            [("", "must have 3 or more properties")],
        ),
        # different limits
        (
            {"properties": {"n": {"minLength": 10}, "m": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"n": {"minLength": 20}, "m": {"type": "integer"}}, "required": ["b"]},
            {"n": SECRET, "m": SECRET},
            [("/m", "must be integer, not string")],
        ),
    ],
)
def test_issues_are_common_if_both_branches_expect_the_same(first, second, value, found):
    assert paths_and_messages({"anyOf": [first, second]}, value) == found


@for_each(
    "branches, message",
    [
        ([False, False], "has a value where none is allowed"),
        ([False, {"type": "string"}], "must be string, not integer"),
        ([False, {"minimum": 6}], "must be at least 6"),
    ],
)
def test_a_branch_that_accepts_no_value_is_not_the_intended_one(branches, message):
    assert paths_and_messages({"anyOf": branches}, 5) == [("", message)]


@for_each(
    "schema, value, found",
    [
        # allOf and $ref
        (
            {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": OPERATION}}},
            {"op": "add"},
            [("/file", "is missing (string)")],
        ),
        # then
        (
            {"if": {"required": ["a"]}, "then": {"anyOf": OPERATION}, "else": {"required": ["b"]}},
            {"a": 1, "op": "add"},
            [("/file", "is missing (string)")],
        ),
        # else
        (
            {"if": {"required": ["a"]}, "then": {"anyOf": OPERATION}, "else": {"required": ["b"]}},
            {},
            [("/b", "is missing")],
        ),
        # alternatives in alternatives
        (
            {
                "properties": {
                    "x": {
                        "anyOf": [
                            {"type": "array", "items": {"anyOf": OPERATION}},
                            {"type": "null"},
                        ]
                    }
                }
            },
            {"x": [{"op": "drop"}]},
            [("/x/0/id", "is missing (integer)")],
        ),
    ],
)
def test_issues_are_found_inside_other_rules(schema, value, found):
    assert paths_and_messages(schema, value) == found


def test_nested_alternatives_are_explained_at_the_deepest_value():
    schema = {
        "$defs": {
            "tree": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"k": {"$ref": "#/$defs/tree"}},
                        "required": ["k"],
                    },
                    {"type": "integer"},
                ]
            }
        },
        "$ref": "#/$defs/tree",
    }
    value = nested(20, lambda value: {"k": value}, SECRET)
    assert paths_and_messages(schema, value) == [
        ("/k" * 20, "must be object or integer, not string")
    ]
