from stage2_output import Issue
from tests.stage2_output.schemas import DRAFT3, SECRET, issues, paths
from tests.tables import for_each


def hints(schema, value):
    return {issue.path: issue.hint for issue in issues(schema, value)}


def closed(**properties):
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def test_a_missing_property_is_reported_with_its_path_and_type():
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city", "any"]}
    assert issues({"items": schema}, [{}]) == (
        Issue("/0/any", "is missing", "required", {}),
        Issue("/0/city", "is missing (string)", "required", {"type": "string"}),
    )


def test_a_missing_property_may_have_any_name():
    names = ["a", "it's", "'a'", "", "a is a required property"]
    assert paths({"required": names}, {}) == sorted(f"/{name}" for name in names)


def test_an_unknown_property_is_reported_with_the_known_ones():
    schema = {"properties": {"b": {}, "a": {}}, "additionalProperties": False}
    assert issues(schema, {"zzz": SECRET}) == (
        Issue("/zzz", "is not a known property", "additionalProperties", ["a", "b"]),
    )


def test_an_unknown_property_is_reported_where_required_is_a_boolean():
    inner = {"properties": {"a": {}}, "required": True, "additionalProperties": False}
    schema = {"$schema": DRAFT3, "properties": {"x": inner}}
    assert issues(schema, {"x": {"z": SECRET}}) == (
        Issue("/x/z", "is not a known property", "additionalProperties", ["a"]),
    )


def test_properties_that_match_a_pattern_are_known():
    schema = {"patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert paths(schema, {"x-a": 1, "y": 1, "z": 1}) == ["/y", "/z"]


def test_unevaluated_properties_are_not_allowed():
    schema = {"allOf": [{"properties": {"path": {}}}], "unevaluatedProperties": False}
    assert issues(schema, {"path": 1, "paths": SECRET}) == (
        Issue("/paths", "is not allowed", "not", {}),
    )


def test_an_unevaluated_property_is_found_among_hundreds_of_known_ones():
    names = [f"k{number}" for number in range(300)]
    schema = {
        "allOf": [{"properties": {name: {} for name in names}}],
        "unevaluatedProperties": False,
    }
    found = issues(schema, {**dict.fromkeys(names, 1), "zz": SECRET})
    assert [issue.path for issue in found] == ["/zz"]


def test_unevaluated_properties_may_have_a_schema():
    schema = {"properties": {"a": {}}, "unevaluatedProperties": {"type": "string"}}
    assert issues(schema, {"a": 1, "c": 2, "b": 3}) == (
        Issue("/b", "must be string, not integer", "type", "string"),
        Issue("/c", "must be string, not integer", "type", "string"),
    )


@for_each(
    "schema, value, expected",
    [
        # renamed
        (closed(path={}), {"file": SECRET}, {"/path": "you sent `file`; did you mean `path`?"}),
        # misspelt
        (
            closed(location={}, unit={}),
            {"locaton": SECRET, "units": SECRET},
            {
                "/location": "you sent `locaton`; did you mean `location`?",
                "/unit": "you sent `units`; did you mean `unit`?",
            },
        ),
        # case
        (closed(City={}), {"city": 1}, {"/City": "you sent `city`; did you mean `City`?"}),
        # two missing
        (closed(path={}, mode={}), {"file": 1}, {"/file": None, "/mode": None, "/path": None}),
        # two unknown
        (closed(path={}), {"file": 1, "url": 1}, {"/file": None, "/path": None, "/url": None}),
        # open
        (
            {"properties": {"path": {"type": "string"}}, "required": ["path"]},
            {"file": SECRET},
            {"/path": "you sent `file`; did you mean `path`?"},
        ),
        # nothing sent
        (closed(path={}), {}, {"/path": None}),
    ],
)
def test_the_intended_name_is_suggested(schema, value, expected):
    assert hints(schema, value) == expected
    assert SECRET not in repr(issues(schema, value))


@for_each(
    "value, expected",
    [
        # similar to both
        (
            {"meight": SECRET, "heisht": SECRET},
            {
                "/height": "you sent `heisht`; did you mean `height`?",
                "/weight": "you sent `meight`; did you mean `weight`?",
            },
        ),
        # the remaining one
        (
            {"weigth": SECRET, "tall": SECRET},
            {
                "/height": "you sent `tall`; did you mean `height`?",
                "/weight": "you sent `weigth`; did you mean `weight`?",
            },
        ),
    ],
)
def test_an_unknown_property_is_matched_with_one_missing_property_only(value, expected):
    assert hints(closed(height={}, weight={}), value) == expected


@for_each(
    "value, expected",
    [
        # optional
        (
            {"end_dat": SECRET},
            {"/end_dat": "did you mean `end_date`?", "/start_date": None},
        ),
        # required
        ({"start": SECRET}, {"/start_date": "you sent `start`; did you mean `start_date`?"}),
        # the only one
        (
            {"ends_with": SECRET},
            {"/start_date": "you sent `ends_with`; did you mean `start_date`?"},
        ),
        # of another type
        ({"ends_with": 5}, {"/ends_with": None, "/start_date": None}),
        # no number
        ({"ends_with": True}, {"/ends_with": None, "/start_date": None}),
    ],
)
def test_a_property_that_matches_another_one_or_has_another_type_is_not_suggested(value, expected):
    schema = {
        "properties": {"start_date": {"type": "string"}, "end_date": {}},
        "required": ["start_date"],
    }
    assert hints({**schema, "additionalProperties": False}, value) == expected


@for_each(
    "required, optional, sent, intended",
    [
        ("function", "variable", "function_value", "function"),
        ("departure_date", "departure_time", "departure_tim", "departure_time"),
    ],
)
def test_the_more_similar_of_a_missing_and_an_optional_property_is_suggested(
    required, optional, sent, intended
):
    schema = {"properties": {required: {}, optional: {}}, "required": [required]}
    found = hints({**schema, "additionalProperties": False}, {sent: SECRET})
    assert [hint for hint in found.values() if hint and f"did you mean `{intended}`?" in hint] != []


def test_a_boolean_is_not_matched_with_a_missing_number():
    assert hints(
        {"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"verbose": True}
    ) == {"/n": "you sent `verbose`"}


def test_a_property_that_was_already_sent_is_suggested_last():
    schema = {"properties": {"line_a": {}, "line_b": {}}, "additionalProperties": False}
    assert hints(schema, {"line_a": 1, "line_x": 1}) == {
        "/line_x": "you sent `line_a`, `line_x`; did you mean `line_b`?"
    }


def test_a_suggested_name_is_not_cut():
    name = "the_number_of_the_seats_at_the_second_table"
    assert hints(closed(**{name: {}}), {name[1:]: 1}) == {
        f"/{name}": f"you sent `{name[1:40]}…`; did you mean `{name}`?"
    }


@for_each(
    "schema, value, expected",
    [
        # renamed
        (
            closed(path={}, mode={}),
            {"mode": SECRET, "file": SECRET},
            {"/path": "you sent `mode`, `file`; did you mean `path` instead of `file`?"},
        ),
        # one too many
        (
            closed(path={}),
            {"path": 1, "paths": 1},
            {"/paths": "you sent `path`, `paths`; did you mean `path`?"},
        ),
        # missing
        (closed(path={}, mode={}), {"mode": 1}, {"/path": "you sent `mode`"}),
        # several issues
        (
            closed(path={}, mode={}, user={}),
            {"mode": 1, "zzz": 1, "a": 1},
            {
                "/a": "you sent `mode`, `zzz`, `a`",
                "/path": None,
                "/user": None,
                "/zzz": None,
            },
        ),
        # several objects
        (
            {"items": closed(path={}, mode={})},
            [{"mode": 1}, {"mode": 1}],
            {"/0/path": "you sent `mode`", "/1/path": "you sent `mode`"},
        ),
    ],
)
def test_the_received_keys_are_listed_once_for_each_object(schema, value, expected):
    assert hints(schema, value) == expected
    assert SECRET not in repr(issues(schema, value))


def test_received_keys_are_cleaned_shortened_and_counted():
    value = {"a`b\n# New orders": 1, "k" * 500: 1, **{f"k{number}": 1 for number in range(20)}}
    [issue] = issues({"required": ["n"]}, value)
    assert issue.hint == (
        f"you sent `a'b # New orders`, `{'k' * 39}…`, `k0`, `k1`, `k2`, `k3`, "
        f"`k4`, `k5`, `k6`, `k7` and 12 more"
    )


def test_a_property_that_is_known_elsewhere_is_not_matched_with_the_missing_one():
    schema = {"properties": {"path": {}, "text": {}}, "allOf": [{"required": ["text"]}]}
    assert issues(schema, {"path": "a"}) == (
        Issue("/text", "is missing", "required", {}, "you sent `path`"),
    )


def test_twenty_unknown_properties_are_listed_and_all_are_counted():
    twenty = issues({"additionalProperties": False}, {f"k{number}": 1 for number in range(20)})
    assert [issue.path for issue in twenty] == sorted(f"/k{number}" for number in range(20))
    found = issues({"additionalProperties": False}, {f"k{number}": 1 for number in range(30)})
    assert len(found) == 21
    assert found[0] == Issue(
        "", "has 30 unknown properties, too many to name them all", "additionalProperties", []
    )


@for_each("name, pointer", [("a/b", "/a~1b"), ("m~n", "/m~0n")])
def test_the_path_of_a_missing_or_unknown_property_is_a_json_pointer(name, pointer):
    paths = [
        issues({"required": [name]}, {})[0].path,
        issues({"additionalProperties": False}, {name: 1})[0].path,
    ]
    assert paths == [pointer, pointer]
