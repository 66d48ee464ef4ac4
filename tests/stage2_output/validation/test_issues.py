import json

import pytest
from jsonschema import Draft202012Validator

from stage2_output import CompiledSchema, Issue
from stage2_output.validation.issues import MOST_ISSUES, collect, issues_of

SECRET = "hunter2"


def issues(schema, value):
    return CompiledSchema(schema).issues(value)


def test_a_value_where_nothing_is_allowed_is_an_issue():
    found = issues({"properties": {"a": False}}, {"a": SECRET})
    assert found == (Issue("/a", "is not allowed", "not", {}),)


def test_the_nearest_value_of_an_enum_is_told():
    [issue] = issues({"enum": ["celsius", "fahrenheit", 1]}, "Celcius")
    assert issue.hint == "did you mean `celsius`?"


def test_a_number_is_near_no_text():
    [issue] = issues({"enum": [100, "200"]}, "1000")
    assert issue.hint is None


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


def test_issues_come_in_the_order_of_places_and_each_once():
    text = {"type": "string"}
    schema = {"properties": {"b": text, "a": text}, "allOf": [{"properties": {"b": text}}]}
    assert [issue.path for issue in issues(schema, {"b": 1, "a": 1})] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"pattern": "^[a-z]+$"}, {"A b": SECRET, "a": SECRET}, ["/A b"]),
        ({"enum": ["celsius"]}, {"Celcius": SECRET}, ["/Celcius"]),
        (False, {"a": SECRET}, ["/a"]),
    ],
    ids=["rules", "alternatives", "none"],
)
def test_a_name_that_is_wrong_is_told_as_such(schema, value, found):
    message = f"has a name that does not fit {json.dumps(schema)}"
    expected = [Issue(path, message, "propertyNames", schema) for path in found]
    assert [*issues({"propertyNames": schema}, value)] == expected
    nested = issues(
        {"properties": {"propertyNames": {"items": {"propertyNames": schema}}}},
        {"propertyNames": [value]},
    )
    assert [issue.path for issue in nested] == [f"/propertyNames/0{path}" for path in found]


@pytest.mark.parametrize("rule", ["properties", "patternProperties", "dependentSchemas"])
def test_a_property_called_like_a_rule_is_a_property(rule):
    wanted = {"minLength": 50}
    schema = {
        rule: {
            "propertyNames": {"properties": {"propertyNames": wanted}} if rule[0] == "d" else wanted
        }
    }
    assert issues(schema, {"propertyNames": SECRET}) == (
        Issue("/propertyNames", "must have 50 or more characters", "minLength", 50),
    )


def unknown_words(schema, value):
    """The library's error as another version of it might put it."""
    [error] = Draft202012Validator(schema).iter_errors(value)
    error.message = "words of another version"
    return error


def test_an_error_without_words_is_an_issue_all_the_same():
    schema = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    [error] = Draft202012Validator({**schema, "required": []}).iter_errors({"b": 1})
    error.schema = schema  # in which the unknown property stands for the missing one
    assert issues_of([error]) == (Issue("", "does not fit", "additionalProperties", False),)


def test_a_missing_property_is_told_even_if_the_library_changes_its_words():
    error = unknown_words({"required": ["a", "b"]}, {"b": 1})
    assert issues_of([error]) == (Issue("/a", "is missing", "required", {}, "you sent `b`"),)


def test_no_errors_are_no_issues():
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


@pytest.mark.parametrize(("schema", "value"), HOSTILE.values(), ids=HOSTILE)
def test_of_very_many_issues_the_first_are_told(schema, value):
    found = issues(schema, value)
    assert len({issue.path for issue in found}) == len(found) == MOST_ISSUES


def test_as_many_issues_as_are_told_are_all():
    found = issues({"items": {"type": "string"}}, [1] * MOST_ISSUES)
    assert [issue.rule for issue in found] == ["type"] * MOST_ISSUES


def test_no_more_issues_are_asked_for_than_are_told():
    asked = []

    def endless():
        while True:
            asked.append(len(asked))
            yield Issue(f"/{len(asked) % 200}", "is wrong", "rule")

    assert len(collect(endless())) == MOST_ISSUES
    assert len(asked) == MOST_ISSUES


def test_the_same_issue_again_and_again_does_not_go_on_for_ever():
    def endless():
        while True:
            yield Issue("/a", "is wrong", "rule")

    assert collect(endless()) == (Issue("/a", "is wrong", "rule"),)


def test_a_key_of_a_megabyte_does_not_come_back():
    found = issues({"items": {"additionalProperties": False}}, [{"k" * 1_000_000: 1}, {"n": 1}])
    assert [len(issue.path) for issue in found] == [83, 4]
    assert len(repr(found)) < 1000
