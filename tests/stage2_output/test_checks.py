"""Where the short way says "valid" the library does too; and the reverse, where it knows the whole schema."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage2_output.checks import compile_check
from stage2_output.rules import RULES

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT6 = "http://json-schema.org/draft-06/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"
OURS = [DRAFT6, DRAFT7, DRAFT2019, DRAFT2020]


def library(schema):
    """The library's verdict on values."""
    return kind(jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator))(schema).is_valid


@cache
def kind(validator):
    """The library's validator with a slow and simple look at unique items.

    Its own sorts and compares neighbours, and overlooks that two of [[1], [true], [1]] are equal.
    """

    def unique(_, wanted, value, __):
        items = value if wanted and isinstance(value, list) else []
        if any(same(one, two) for place, one in enumerate(items) for two in items[:place]):
            yield jsonschema.ValidationError("")

    return jsonschema.validators.extend(validator, {"uniqueItems": unique})


def same(one, two):
    return jsonschema.Draft202012Validator({"const": one}).is_valid(two)


# ---- schemas at random, and values that nearly fit --------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", ""])
NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 1.0, 2.5, 0.1, 0.3])
STRINGS = st.sampled_from(["", "a", "b", "ab", "aab", "é", "1"])
VALUES = st.recursive(
    st.sampled_from([None, True, False]) | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
PATTERNS = st.sampled_from(["a", "^a$", "b|c", "^.$", "", "(a)b"])
NAME_LISTS = st.lists(NAMES, max_size=2, unique=True)
SIZES = st.sampled_from([0, 1, 2, 2.0, 3])

SCHEMAS = st.deferred(lambda: st.booleans() | CLOSED | st.lists(RULE, max_size=3).map(dict))
RULE = st.deferred(lambda: st.one_of([st.tuples(st.just(name), each) for name, each in KEYWORDS.items()]))
SCHEMA_LISTS = st.lists(SCHEMAS, min_size=1, max_size=2)
KEYWORDS = {
    "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
    **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], SIZES),
    **dict.fromkeys(["minContains", "maxContains", "minProperties", "maxProperties"], SIZES),
    **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], SCHEMA_LISTS),
    **dict.fromkeys(["not", "if", "then", "else", "contains", "items"], SCHEMAS),
    **dict.fromkeys(["additionalProperties", "propertyNames"], SCHEMAS),
    **dict.fromkeys(["properties", "dependentSchemas"], st.dictionaries(NAMES, SCHEMAS, max_size=2)),
    "multipleOf": st.sampled_from([1, 2, 3, 0.1, 0.5, 2.5]),
    "pattern": PATTERNS,
    "uniqueItems": st.booleans(),
    "patternProperties": st.dictionaries(PATTERNS, SCHEMAS, max_size=2),
    "required": NAME_LISTS,
    "dependentRequired": st.dictionaries(NAMES, NAME_LISTS, max_size=2),
    "format": st.just("email"),
}
# One of these leads into the value, so that what refers to itself comes to an end.
CLOSED = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": KEYWORDS["properties"]},
    optional={"required": NAME_LISTS, "additionalProperties": st.booleans()},
) | st.fixed_dictionaries({"type": st.just("array"), "items": SCHEMAS})


@st.composite
def near(draw, schema, root, depth=3):
    """A value that may fit a schema."""
    if isinstance(schema, bool) or depth == 0 or draw(st.integers(0, 6)) == 0:
        return draw(VALUES)
    if inner := [each for name in ("allOf", "anyOf", "oneOf") for each in schema.get(name, ())]:
        return draw(near(draw(st.sampled_from(inner)), root, depth - 1))
    if "$ref" in schema:
        return draw(near(root["$defs"][schema["$ref"][-1]], root, depth - 1))
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from([schema["const"]] if "const" in schema else schema["enum"]))
    match draw(st.sampled_from(kinds(schema))):
        case "object":
            parts = schema.get("properties", {})
            names = {*draw(st.sets(NAMES, max_size=2)), *schema.get("required", ()), *[*parts][:1]}
            return {name: draw(near(parts.get(name, True), root, depth - 1)) for name in sorted(names)}
        case "array":
            item = schema.get("items", schema.get("contains", True))
            parts = [*schema.get("prefixItems", ()), item, item]
            return [draw(near(part, root, depth - 1)) for part in parts[: draw(st.integers(0, 3))]]
        case "string":
            return draw(STRINGS)
        case "integer" | "number":
            return draw(NUMBERS)
    return draw(VALUES)


def kinds(schema):
    """The types of value a schema may be about."""
    if "type" in schema:
        return [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return [kind for kind, rules in RULES.items() if rules.keys() & schema.keys()] or ["any"]


@st.composite
def cases(draw, rules):
    """A schema with certain rules and some more, and values for it."""
    more = draw(CLOSED | st.lists(RULE, max_size=3).map(dict))
    schema = {"$defs": {"a": draw(CLOSED), "b": draw(CLOSED)}, **more, **draw(rules)}
    return schema, [draw(near(schema, schema)) for _ in range(3)]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_both_agree_on_random_schemas_and_values(keyword):
    seen = Counter()

    @settings(max_examples=30)
    @given(cases(st.fixed_dictionaries({keyword: KEYWORDS[keyword]})))
    def judge(case):
        schema, values = case
        check, valid = compile_check(schema), library(schema)
        for value in values:
            assert check(value) is valid(value)
            seen[check(value)] += 1

    judge()
    assert {*seen} == {True, False}  # else nothing was proved


@pytest.mark.parametrize("draft", [DRAFT6, DRAFT7, DRAFT2019])
def test_both_agree_on_older_drafts_where_the_short_way_knows_them(draft):
    seen = Counter()

    @settings(max_examples=60)
    @given(cases(st.just({"$schema": draft})))
    def judge(case):
        schema, values = case
        check, valid = compile_check(schema), library(schema)
        for value in values if check else ():
            assert check(value) is valid(value)
            seen[check(value)] += 1

    judge()
    assert {*seen} == {True, False}


# ---- what is left to the library --------------------------------------------------------------------------


@pytest.mark.parametrize("draft", OURS)
def test_every_keyword_of_a_draft_is_a_rule_or_left_to_the_library(draft):
    keywords = jsonschema.validators.validator_for({"$schema": draft}).VALIDATORS.keys()
    rules = {name for rules in RULES.values() for name in rules}
    known = rules | {"type", "$ref", "format"}  # a format is a remark, nothing is checked
    assert [name for name in keywords - known if compile_check({"$schema": draft, name: {}})] == []
    assert [name for name in rules - keywords if compile_check({"$schema": draft, name: {}})] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DRAFT4, "type": "integer"},  # in which 1.0 is none
        {"$schema": DRAFT6, "if": {}, "then": False},
        {"$schema": "https://example.com/draft", "type": "integer"},
        {"$schema": DRAFT7, "items": [{}]},
        {"$schema": DRAFT7, "contains": {}, "minContains": 2},
        {"$schema": DRAFT7, "contains": {}, "maxContains": 2},
        {"$schema": DRAFT7, "items": {}, "additionalItems": False},
        {"properties": {"a": {"$schema": DRAFT7, "$ref": "#", "minimum": 1}}},
        {"properties": {"a": {"$id": "https://example.com/a", "$ref": "#/$defs/s", "$defs": {"s": {}}}}},
        {"$defs": {"a": {"$id": "a", "properties": {"b": {"$ref": "#"}}}}, "$ref": "#/$defs/a/properties/b"},
        {"anyOf": [{"items": {"$id": "https://example.com/a", "$ref": "#"}}]},
        {"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}},
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {}, "a%20b": {}}},
        {"$ref": "other.json"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#/x", "x": {"type": "strin"}},
        {"const": (1,)},
        {"items": {"unevaluatedProperties": False}},
        {"pattern": "("},
        "string",
        None,
    ],
)
def test_a_schema_that_is_not_wholly_known_is_left_to_the_library(schema):
    assert compile_check(schema) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.3}, 10**400),
        ({"multipleOf": 0.1}, 1e308),
        ({"multipleOf": 0.1}, float("nan")),
        ({"uniqueItems": True}, [{1}]),
        ({"pattern": "a", "enum": [b"a"]}, b"a"),
        ({"$ref": "#"}, 1),
        ({"anyOf": [{"$ref": "#"}, {}]}, 1),
    ],
)
def test_a_value_of_which_nobody_can_say_it_is_not_called_valid(schema, value):
    for each in (schema, {"not": schema}, {"oneOf": [False, schema]}):
        check = compile_check(each)
        assert check is None or check(value) is None


# ---- references -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "fit", "do_not"),
    [
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[], [[]]]], [1, [1], [[], [[1]]]]),
        ({"$ref": "#/$defs/a/b~1c~0/0", "$defs": {"a": {"b/c~": [{"type": "null"}]}}}, [None], [1]),
        ({"$defs": {"a": {"minimum": 2}}, "$ref": "#/$defs/a", "maximum": 3}, [2, 3], [1, 4]),
        ({"$defs": {"a": False}, "properties": {"$ref": {"$ref": "#/$defs/a"}}}, [{}], [{"$ref": 1}]),
        ({"$id": "https://example.com", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": False}}, [[]], [[1]]),
        ({"$schema": DRAFT2020 + "#", "prefixItems": [False]}, [[]], [[1]]),
        *(
            ({"$schema": draft, "a": {"minimum": 2}, "allOf": [{"$ref": "#/a", "maximum": 3}]}, [2, 9], [1])
            for draft in (DRAFT6, DRAFT7)
        ),
        (
            {
                "$ref": "#/$defs/even",
                "$defs": {
                    "even": {"properties": {"next": {"$ref": "#/$defs/odd"}}, "required": ["even"]},
                    "odd": {"properties": {"next": {"$ref": "#/$defs/even"}}, "required": ["odd"]},
                },
            },
            [{"even": 1}, {"even": 1, "next": {"odd": 1, "next": {"even": 1}}}],
            [{}, {"even": 1, "next": {"odd": 1, "next": {"odd": 1}}}],
        ),
    ],
    ids=["itself", "pointer", "neighbours", "name", "id", "draft", "draft 6", "draft 7", "each other"],
)
def test_references_within_a_schema_are_followed(schema, fit, do_not):
    check, valid = compile_check(schema), library(schema)
    assert [value for value in [*fit, *do_not] if check(value)] == fit
    assert [value for value in [*fit, *do_not] if valid(value)] == fit


def operations(*names):
    """Sums and products of numbers; each alternative tells what it is at its end, or not at all."""
    inner = {"a": {"$ref": "#/$defs/e"}, "b": {"$ref": "#/$defs/e"}}
    kinds = [{"properties": inner | {"op": {"const": name}}, "required": ["a", "op"]} for name in names]
    return {"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [*kinds, {"type": "number"}]}}}


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_alternatives_that_lead_to_each_other_do_not_double_the_work_for_each_level(rule):
    schema = operations("add", "mul")
    schema["$defs"]["e"] = {
        rule: [{**each, "type": each.get("type", "object")} for each in schema["$defs"]["e"]["anyOf"]]
    }
    check = compile_check(schema)
    fit = wrong = 1
    for _ in range(50):  # as many doublings would take years
        fit = {"a": fit, "b": 1, "op": "mul"}
        wrong = {"a": wrong, "b": "x", "op": "mul"}
    assert check(fit) is True
    assert check(wrong) is False


def test_what_was_found_of_one_value_is_not_said_of_another():
    schema = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "maxItems": 2}
    check = compile_check(schema)
    for _ in range(100):  # an address may be used again
        assert check([[None], [[], [None]]]) is True
        assert check([[None], [[], [1]]]) is False
    shared = [None]
    assert check([shared, [shared, shared]]) is True
    shared.append(1)
    assert check([shared, [shared, shared]]) is False


def test_several_threads_may_ask_the_same_check():
    check = compile_check({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}})
    values = [[[None]] * 50, [[None]] * 50 + [[1]]] * 20
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(check, values)] == [True, False] * 20


# ---- real schemas -----------------------------------------------------------------------------------------


def test_both_agree_on_every_recorded_call(recorded, say):
    rows, _ = recorded("tools.jsonl")
    schemas, known, calls, wrong = {}, 0, 0, []
    for row in rows:
        for tool in row["tools"]:
            parameters = tool["parameters"]
            if (key := json.dumps(parameters)) not in schemas:
                schemas[key] = compile_check(parameters), library(parameters)
        tools = {tool["name"]: schemas[json.dumps(tool["parameters"])] for tool in row["tools"]}
        for call in [*row["valid_calls"], *row.get("invalid_calls", ())]:
            check, valid = tools[call["name"]]
            calls += 1
            if check(call["arguments"]) is not valid(call["arguments"]):
                wrong.append((row["id"], call))
    known = sum(check is not None for check, _ in schemas.values())
    say(f"tools.jsonl: {calls} calls judged alike; the short way knows {known} of {len(schemas)} schemas")
    assert wrong == []
    assert known == len(schemas) > 1000
