import json

from stage2_output import Issue
from stage2_output.validation.messages import requirement
from tests.stage2_output.schemas import SECRET, issues
from tests.tables import for_each

RULES = {
    "type": ({"type": "integer"}, SECRET, "must be integer, not string"),
    "two types": ({"type": ["integer", "null"]}, SECRET, "must be integer or null, not string"),
    "minimum": ({"minimum": 5}, 4, "must be at least 5"),
    "maximum": ({"maximum": 5}, 6, "must be at most 5"),
    "exclusiveMinimum": ({"exclusiveMinimum": 5}, 5, "must be more than 5"),
    "exclusiveMaximum": ({"exclusiveMaximum": 5}, 5, "must be less than 5"),
    "multipleOf": ({"multipleOf": 5}, 6, "must be a multiple of 5"),
    "minLength": ({"minLength": 50}, SECRET, "must have 50 or more characters"),
    "maxLength": ({"maxLength": 3}, SECRET, "must have 3 or fewer characters"),
    "pattern": ({"pattern": "^a+$"}, SECRET, 'must match the pattern "^a+$"'),
    "minItems": ({"minItems": 2}, [SECRET], "must have 2 or more items"),
    "maxItems": ({"maxItems": 1}, [SECRET, SECRET], "must have 1 or fewer items"),
    "minProperties": ({"minProperties": 2}, {"a": SECRET}, "must have 2 or more properties"),
    "maxProperties": ({"maxProperties": 0}, {"a": SECRET}, "must have 0 or fewer properties"),
    "minProperties, one": ({"minProperties": 1}, {}, "must have 1 or more properties"),
    "const": ({"const": "a"}, SECRET, 'must be "a"'),
    "enum": ({"enum": ["a", 1, None]}, SECRET, 'must be one of ["a", 1, null]'),
    "uniqueItems": ({"uniqueItems": True}, [SECRET, SECRET], "must not contain equal items"),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b"]}},
        {"a": SECRET},
        'must fit {"dependentRequired": {"a": ["b"]}}',
    ),
    "contains": (
        {"contains": {"type": "null"}},
        [SECRET],
        'must have at least 1 item that fits {"type": "null"}',
    ),
    "not": ({"not": {"type": "string"}}, SECRET, 'must not fit {"type": "string"}'),
    "oneOf, both": (
        {"oneOf": [{}, {"type": "string"}]},
        SECRET,
        "fits more than one of several alternatives; it must fit exactly one",
    ),
    "items": ({"items": False}, [SECRET], 'must fit {"items": false}'),
    "unevaluatedItems": (
        {"unevaluatedItems": False},
        [SECRET],
        'must fit {"unevaluatedItems": false}',
    ),
    "unevaluatedItems, typed": (
        {"unevaluatedItems": {"type": "null"}},
        [SECRET],
        'must fit {"unevaluatedItems": {"type": "null"}}',
    ),
}


@for_each("schema, value, message", RULES.values())
def test_the_message_of_a_rule_does_not_contain_the_value(schema, value, message):
    [(rule, expected)] = schema.items()
    assert issues(schema, value) == (Issue("", message, rule, expected),)
    nested = issues({"properties": {"a": {"items": schema}}}, {"a": [value]})
    assert nested == (Issue("/a/0", message, rule, expected),)
    assert SECRET not in repr(nested)


@for_each(
    "schema, value, message",
    [
        (
            {"contains": {"type": "null"}, "minContains": 2},
            [None, 1],
            "must have 2 or more matching items",
        ),
        (
            {"contains": {"type": "null"}, "maxContains": 1},
            [None, None],
            "must have 1 or fewer matching items",
        ),
        ({"not": {}}, 1, "is not allowed"),
    ],
)
def test_messages_of_some_rules_depend_on_other_keywords(schema, value, message):
    assert [issue.message for issue in issues(schema, value)] == [message]


@for_each(
    "draft, schema, value, path, message",
    [
        ("04", {"minimum": 5, "exclusiveMinimum": True}, 5, "", "must be more than 5"),
        ("04", {"maximum": 5, "exclusiveMaximum": True}, 5, "", "must be less than 5"),
        ("04", {"minimum": 5}, 4, "", "must be at least 5"),
        ("03", {"divisibleBy": 2}, 3, "", 'must fit {"divisibleBy": 2}'),
        ("03", {"properties": {"a": {"required": True}}}, {}, "/a", 'must fit {"required": true}'),
    ],
)
def test_rules_of_older_drafts_have_messages(draft, schema, value, path, message):
    schema = {"$schema": f"http://json-schema.org/draft-{draft}/schema#", **schema}
    assert [(issue.path, issue.message) for issue in issues(schema, value)] == [(path, message)]


@for_each(
    "value, name",
    [
        ({}, "object"),
        ([], "array"),
        ("", "string"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        (None, "null"),
        ((), "Python's tuple"),
    ],
)
def test_types_have_their_json_names(value, name):
    [wanted] = {"object", "null"} - {name} if name in ("object", "null") else {"null"}
    assert issues({"type": wanted}, value)[0].message == f"must be {wanted}, not {name}"


@for_each(
    "wanted, description",
    [
        ({"type": "string"}, " (string)"),
        ({"type": ["string", "null"]}, " (string or null)"),
        ({"type": "string", "const": "add"}, ' ("add")'),
        ({"enum": ["a", "b"], "type": "string"}, ' (one of ["a", "b"])'),
        (
            {"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]},
            " (integer or string or null)",
        ),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#"}]}, ""),
        ({"enum": []}, ""),
        ({"anyOf": []}, ""),
        ({}, ""),
        (True, ""),
    ],
)
def test_requirement_describes_the_type_of_a_missing_property(wanted, description):
    assert requirement(wanted) == description


def test_a_long_list_of_choices_is_cut_in_the_message_but_not_in_the_issue():
    choices = [f"choice {number}" for number in range(100)]
    [issue] = issues({"enum": choices}, "x")
    assert issue.expected == choices
    assert issue.message == f"must be one of {json.dumps(choices)[:200]} …"
