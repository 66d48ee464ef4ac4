import json

from jsonschema import Draft202012Validator

from stage2_output import Issue
from stage2_output.validation.issues import MOST_ISSUES, collect, issues_of
from stage2_output.validation.keywords import extended, follow_references_once
from tests.stage2_output.schemas import SECRET, STRING, issues, paths
from tests.tables import for_each


def test_the_nearest_value_of_an_enum_is_suggested():
    [issue] = issues({"enum": ["celsius", "fahrenheit", 1]}, "Celcius")
    assert issue.hint == "did you mean `celsius`?"


def test_a_number_is_not_suggested_for_a_text():
    [issue] = issues({"enum": [100, "200"]}, "1000")
    assert issue.hint is None


@for_each(
    "value, path",
    [
        ({"a/b": 1}, "/a~1b"),
        ({"m~n": 1}, "/m~0n"),
        ({"~1": 1}, "/~01"),
        ({"list": ["x", 1]}, "/list/1"),
        ({"": 1}, "/"),
    ],
)
def test_a_path_is_a_json_pointer(value, path):
    schema = {"properties": {"list": {"items": STRING}}, "additionalProperties": STRING}
    assert paths(schema, value) == [path]


def test_issues_are_sorted_by_path_and_unique():
    schema = {"properties": {"b": STRING, "a": STRING}, "allOf": [{"properties": {"b": STRING}}]}
    assert paths(schema, {"b": 1, "a": 1}) == ["/a", "/b"]


@for_each(
    "schema, value, found",
    [
        # rules
        ({"pattern": "^[a-z]+$"}, {"A b": SECRET, "a": SECRET}, ["/A b"]),
        # alternatives
        ({"enum": ["celsius"]}, {"Celcius": SECRET}, ["/Celcius"]),
        # none
        (False, {"a": SECRET}, ["/a"]),
    ],
)
def test_an_invalid_property_name_is_reported(schema, value, found):
    message = f"has a name that does not fit {json.dumps(schema)}"
    expected = [Issue(path, message, "propertyNames", schema) for path in found]
    assert [*issues({"propertyNames": schema}, value)] == expected
    nested = issues(
        {"properties": {"propertyNames": {"items": {"propertyNames": schema}}}},
        {"propertyNames": [value]},
    )
    assert [issue.path for issue in nested] == [f"/propertyNames/0{path}" for path in found]


@for_each("rule", ["properties", "patternProperties", "dependentSchemas"])
def test_a_property_may_be_named_like_a_keyword(rule):
    wanted = {"minLength": 50}
    schema = {
        rule: {
            "propertyNames": {"properties": {"propertyNames": wanted}} if rule[0] == "d" else wanted
        }
    }
    assert issues(schema, {"propertyNames": SECRET}) == (
        Issue("/propertyNames", "must have 50 or more characters", "minLength", 50),
    )


def test_an_error_with_an_unknown_message_is_an_issue():
    schema = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    [error] = Draft202012Validator({**schema, "required": []}).iter_errors({"b": 1})
    error.schema = schema  # contradicts the error
    assert issues_of([error]) == (Issue("", "does not fit", "additionalProperties", False),)


def without_messages(errors):
    """Yield errors of the library without their messages, which change with its version."""
    for error in errors:
        error.message = ""
        error.context = [*without_messages(error.context)]
        yield error


@for_each(
    "schema, value",
    [
        ({"required": ["a", "b", "c"]}, {"b": 1}),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"required": ["a", "b"]}}}, [{"b": 1}]),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, {"x": 1}),
        ({"anyOf": [{"required": ["a", "b"], "not": {}}, {"required": ["b", "c"], "not": {}}]}, {}),
    ],
)
def test_issues_do_not_depend_on_the_messages_of_the_library(schema, value):
    expected = issues(schema, value)
    validator = extended(Draft202012Validator)(schema)

    def check(value):
        return issues_of(without_messages(validator.iter_errors(value)))

    assert follow_references_once(check, value) == expected != ()


def test_issues_of_no_errors_is_empty():
    assert issues_of([]) == ()


PERSON = {
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
HOSTILE = {
    "items": ({"items": PERSON}, [{"name": 5}] * 10_000),
    "items of an alternative": (
        {"anyOf": [{"type": "array", "items": PERSON}, {"type": "object"}]},
        [{"name": 5}] * 10_000,
    ),
    "items with alternatives": (
        {"items": {"anyOf": [PERSON, {"type": "null"}]}},
        [{"name": 5}] * 10_000,
    ),
    "missing": ({"required": [f"n{number}" for number in range(200)]}, {}),
}


@for_each("schema, value", HOSTILE.values())
def test_only_the_first_of_many_issues_are_reported(schema, value):
    found = issues(schema, value)
    assert len({issue.path for issue in found}) == len(found) == MOST_ISSUES


def test_exactly_the_maximum_number_of_issues_is_reported():
    found = issues({"items": {"type": "string"}}, [1] * MOST_ISSUES)
    assert [issue.rule for issue in found] == ["type"] * MOST_ISSUES


def test_no_more_issues_are_requested_than_reported():
    requested = []

    def endless():
        while True:
            requested.append(len(requested))
            yield Issue(f"/{len(requested) % 200}", "is wrong", "rule")

    assert len(collect(endless())) == MOST_ISSUES
    assert len(requested) == MOST_ISSUES


def test_endlessly_repeated_issues_are_limited():
    def endless():
        while True:
            yield Issue("/a", "is wrong", "rule")

    assert collect(endless()) == (Issue("/a", "is wrong", "rule"),)


def test_a_very_long_key_is_cut_in_the_path():
    found = issues({"items": {"additionalProperties": False}}, [{"k" * 1_000_000: 1}, {"n": 1}])
    assert [len(issue.path) for issue in found] == [83, 4]
    assert len(repr(found)) < 1000
