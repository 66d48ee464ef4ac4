"""Errors of invalid calls of real tools (BFCL) are compared with those of the jsonschema library.

The recorded invalid calls are of a few kinds; more kinds are derived here from the valid calls.
"""

import copy
import json
import re
import statistics
from itertools import pairwise

import pytest
from jsonschema import Draft202012Validator

from stage0_gateway import ToolCall
from stage1_context import ApproximateCounter
from stage3_tools import Tool, ToolRegistry, execute_tool_call
from tests.tables import for_each

EVERY = [60, pytest.param(20, marks=pytest.mark.long)]  # the distance of the rows that are used
EVERY_INVALID = [12, pytest.param(4, marks=pytest.mark.long)]
SECRET = "SECRET-7f3a"
OF_ANY_TYPE = [None, SECRET, "42", "true", 71937, 71937.5, True, {"key": SECRET}, [SECRET], {}, []]
TOOLS = {}  # cached by schema, because creating a tool takes longer than using it
FAR = ["xylophone", "qqzzk", "umbrella"]


def camel(name):
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def one_letter_wrong(name):
    middle = len(name) // 2
    return name[:middle] + ("q" if name[middle] != "q" else "x") + name[middle + 1 :]


def two_letters_swapped(name):
    at = next((at for at in range(len(name) - 1) if name[at] != name[at + 1]), 0)
    return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]


RENAMED = [
    str.upper,
    camel,
    lambda name: re.sub("([A-Z])", r"_\1", name).lower(),
    lambda name: name.replace("_", "-"),
    lambda name: name + "s",
    lambda name: name[:-1],
    lambda name: "the_" + name,
    lambda name: name + "_value",
    one_letter_wrong,
    two_letters_swapped,
]

# The recorded schemas have no lists of objects, limits, patterns or several types.
ORDER = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "article": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
                    "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
                    "colour": {"enum": ["red", "green"]},
                },
                "required": ["article", "quantity"],
                "additionalProperties": False,
            },
        },
        "delivery": {
            "type": "object",
            "properties": {"street_name": {"minLength": 2}, "country": {"const": "NL"}},
            "required": ["street_name", "country"],
        },
        "customer_note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "required": ["lines", "delivery"],
    "additionalProperties": False,
}
ORDERED = {
    "lines": [
        {"article": "AB1", "quantity": 3},
        {"article": "CD2", "quantity": 1, "colour": "green"},
    ],
    "delivery": {"street_name": "Damrak", "country": "NL"},
    "customer_note": None,
    "tags": ["a", "b"],
}


@pytest.fixture(scope="module")
def rows(recorded):
    return [row for row in recorded("tools.jsonl")[0] if row["valid_calls"]]


@pytest.fixture(scope="module", params=EVERY)
def calls(rows, request):
    """Return valid calls as name, schema and arguments, each also with a schema that allows no
    other arguments."""
    some = [("order", ORDER, ORDERED)]
    for row in rows[:: request.param]:
        parameters = {tool["name"]: tool["parameters"] for tool in row["tools"]}
        name, arguments = row["valid_calls"][0]["name"], row["valid_calls"][0]["arguments"]
        some += [(name, parameters[name], arguments), (name, closed(parameters[name]), arguments)]
    return some


def closed(schema):
    inner = {"additionalProperties": False} if schema.get("properties") else {}
    if "properties" in schema:
        inner["properties"] = {name: closed(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        inner["items"] = closed(schema["items"])
    return {**schema, **inner}


def places(schema, value, path=()):
    """Yield every place in a value as path, schema and value."""
    yield path, schema, value
    if isinstance(value, dict):
        for name, each in value.items():
            if name in schema.get("properties", {}):
                yield from places(schema["properties"][name], each, (*path, name))
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(schema.get("items", {}), each, (*path, index))


def objects(calls):
    """Yield every object with properties in the calls, as call, path, schema and object."""
    for name, schema, arguments in calls:
        for path, part, value in places(schema, arguments):
            if isinstance(value, dict) and part.get("properties"):
                yield (name, schema, arguments), path, part, value


def put(arguments, path, new):
    if not path:
        return new
    arguments = copy.deepcopy(arguments)
    at = arguments
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return arguments


def pointer(path):
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def renamed(value, names):
    return {names.get(key, key): each for key, each in value.items()}


def wrong_places(schema, arguments):
    """Return pointer and rule of all errors; a missing or unknown property has its own pointer."""
    found = set()
    for error in Draft202012Validator(schema).iter_errors(arguments):
        rule, path, value = error.validator, [*error.absolute_path], error.instance
        names = [None]
        if rule == "required":
            names = [name for name in error.schema["required"] if name not in value]
        if rule == "additionalProperties":
            names = [name for name in value if name not in error.schema["properties"]]
        found |= {(pointer(path if name is None else [*path, name]), rule) for name in names}
    return found


async def refused(name, schema, arguments):
    """Run an invalid call and check its error; return None if the call is valid."""
    wrong = wrong_places(schema, arguments)
    if not wrong:
        return None
    if id(schema) not in TOOLS:
        reached = []
        TOOLS[id(schema)] = schema, reached, ToolRegistry(Tool(name, "", schema, reached.append))
    _, reached, tools = TOOLS[id(schema)]
    result = await execute_tool_call(tools, ToolCall("1", name, json.dumps(arguments)))
    assert (reached, result.is_error, result.error.kind) == ([], True, "validation"), arguments
    issues = result.error.details["issues"]
    reported = {(issue.path, issue.rule) for issue in issues}
    # An unknown property that is similar to a missing one is named together with it.
    unknown = {each for each in wrong if each[1] == "additionalProperties"}
    reported |= {each for each in unknown if f"`{each[0].rsplit('/', 1)[1]}`" in result.output}
    assert reported == wrong, result.output
    for issue in issues:
        assert f"\n- {issue.path} {issue.message}" in result.output
        assert issue.expected is not None
    texts = f"{result.output}{issues}{result.error}{result.error!r}"
    assert (SECRET in texts, "71937" in texts) == (False, False), texts
    return result


def suggestions(result):
    return re.findall("did you mean `([^`]*)`", result.output)


@pytest.mark.parametrize("every", EVERY_INVALID)
async def test_every_invalid_argument_of_recorded_calls_is_named_in_a_short_text(rows, every, say):
    tokens = []
    for row in rows[::every]:
        parameters = {tool["name"]: tool["parameters"] for tool in row["tools"]}
        for call in row["invalid_calls"]:
            result = await refused(call["name"], parameters[call["name"]], call["arguments"])
            named = {issue.path.split("/")[1] for issue in result.error.details["issues"]}
            assert (named, suggestions(result)) == ({call["why"].rsplit(" ", 1)[1]}, []), row["id"]
            assert "__wrong__" not in result.output
            tokens.append(ApproximateCounter().count(result.output))
    median, most = statistics.median(tokens), sorted(tokens)[-len(tokens) // 20]
    assert (median <= 60, most <= 120) == (True, True), (median, most)
    say(f"{len(tokens)} recorded invalid calls: {median} tokens, 19 of 20 at most {most}")


async def test_a_value_of_a_wrong_type_is_named_at_any_depth_and_never_repeated(calls, say):
    tokens = []
    for name, schema, arguments in calls:
        for path, _, _ in places(schema, arguments):
            for value in OF_ANY_TYPE if path else [{}]:
                if result := await refused(name, schema, put(arguments, path, value)):
                    tokens.append(ApproximateCounter().count(result.output))
    assert statistics.median(tokens) <= 60
    say(
        f"{len(tokens)} values of a wrong type or outside of an enumeration, {statistics.median(tokens)} tokens"
    )


@for_each(
    "place, value, rule",
    [
        (("lines",), [], "minItems"),
        (("lines", 1, "article"), SECRET, "pattern"),
        (("lines", 1, "quantity"), 0, "minimum"),
        (("lines", 0, "quantity"), 71937, "maximum"),
        (("lines", 1, "colour"), SECRET, "enum"),
        (("delivery", "street_name"), "", "minLength"),
        (("delivery", "country"), SECRET, "const"),
        (("tags",), [SECRET, SECRET], "uniqueItems"),
    ],
)
async def test_a_value_that_violates_another_rule_is_named(place, value, rule):
    result = await refused("order", ORDER, put(ORDERED, place, value))
    assert [(issue.path, issue.rule) for issue in result.error.details["issues"]] == [
        (pointer(place), rule)
    ]


async def test_a_misnamed_argument_is_reported_with_the_correct_name(calls, say):
    tokens = []
    for (name, schema, arguments), path, part, value in objects(calls):
        for right in value:
            # A changed name of one or two letters is recognized only if no other argument is missing.
            if right not in part["properties"] or (
                len(right) < 3 and right not in part.get("required", ())
            ):
                continue
            for wrong in {rename(right) for rename in RENAMED} - {*part["properties"], ""}:
                if result := await refused(
                    name, schema, put(arguments, path, renamed(value, {right: wrong}))
                ):
                    assert suggestions(result) == [right], (wrong, result.output)
                    tokens.append(ApproximateCounter().count(result.output))
    assert len(tokens) > 300
    assert statistics.median(tokens) <= 80
    say(f"{len(tokens)} renamed arguments found, {statistics.median(tokens)} tokens")


async def test_two_misspelt_arguments_get_separate_suggestions(calls, say):
    checked = 0
    for (name, schema, arguments), path, part, value in objects(calls):
        long = [key for key in value if key in part.get("required", ()) and len(key) > 4]
        for first, second in pairwise(long):
            wrong = {first: one_letter_wrong(first), second: two_letters_swapped(second)}
            broken = put(arguments, path, renamed(value, wrong))
            result = await refused(name, schema, broken)
            for right in (first, second):
                [line] = [
                    each for each in result.output.split("\n") if f"/{right} is missing" in each
                ]
                assert suggestions(result).count(right) == 1
                assert f"did you mean `{right}`" in line
                assert f"`{wrong[right]}`" in line
            checked += 1
    say(f"{checked} calls with two misspelt arguments")


async def test_without_a_similar_name_nothing_is_suggested(calls, say):
    checked = 0
    for (name, schema, arguments), path, part, value in objects(calls):
        for far in FAR:
            without = [
                {key: value[key] for key in value if key != left}
                for left in part.get("required", ())
            ]
            more = {**value, far: SECRET}
            for broken in [more, *without]:
                if result := await refused(name, schema, put(arguments, path, broken)):
                    assert suggestions(result) == []
                    checked += 1
    say(f"{checked} calls with nothing near to suggest")


@for_each("text", [f'{{"a": "{SECRET}}}', f'{{"a": {SECRET}}}', f'["{SECRET}"]', f'"{SECRET}"'])
async def test_unreadable_arguments_are_not_repeated_in_the_error(text):
    result = await execute_tool_call(
        ToolRegistry(Tool("order", "", ORDER, print)), ToolCall("1", "order", text)
    )
    assert result.error.kind == "validation"
    assert SECRET not in f"{result.output}{result.error!r}{result.error.details['issues']}"
