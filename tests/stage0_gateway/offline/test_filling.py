import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.offline.filling import Filled, complete, fill, fill_each, fill_reply

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}


def form(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


@pytest.mark.parametrize(
    ("required", "question", "arguments"),
    [
        ({"city": TEXT}, "What is the weather in New York today?", {"city": "New York"}),
        ({"city": TEXT}, "It rains in St. Louis. Does it?", {"city": "St. Louis"}),
        ({"city": TEXT}, "Is it hot in Rio de Janeiro?", {"city": "Rio de Janeiro"}),
        ({"city": TEXT}, "weather in shanghai", {"city": "shanghai"}),
        ({"city": TEXT}, "上海的天气怎么样？", {"city": "上海"}),
        ({"city": TEXT}, "义乌的天气怎么样？", {"city": "义乌"}),
        ({"city": TEXT, "days": WHOLE}, "3 days in Oslo", {"city": "Oslo", "days": 3}),
        (
            {"from_city": TEXT, "to_city": TEXT},
            "Fly to Rome from Oslo",
            {"from_city": "Oslo", "to_city": "Rome"},
        ),
        ({"a": NUMBER, "b": NUMBER}, "add -2.5 and 1,000", {"a": -2.5, "b": 1000}),
        ({"height": NUMBER, "base": NUMBER}, "base 10 and height 5", {"height": 5, "base": 10}),
        ({"n": WHOLE}, "between 2.5 and 4", {"n": 4}),
        ({"numbers": {"type": "array", "items": NUMBER}}, "add 2, 3 and 4", {"numbers": [2, 3, 4]}),
        ({"cities": {"type": "array", "items": TEXT}}, "In Oslo and Rome", {"cities": ["Oslo", "Rome"]}),
        ({"unit": {"enum": ["celsius", "fahrenheit"]}}, "in Fahrenheit", {"unit": "fahrenheit"}),
        ({"loud": {"type": "boolean"}}, "Play it loud", {"loud": True}),
        ({"loud": {"type": "boolean"}}, "Play it, not loud", {"loud": False}),
        ({"date": TEXT}, "on 2024-05-01", {"date": "2024-05-01"}),
        ({"date": TEXT}, "What about tomorrow?", {"date": "tomorrow"}),
        ({"to": {"type": "string", "format": "email"}}, "Write to a.b@c.org!", {"to": "a.b@c.org"}),
        ({"url": TEXT}, "Open https://x.org/a?b=c.", {"url": "https://x.org/a?b=c"}),
        ({"path": TEXT}, "Read notes/todo.txt", {"path": "notes/todo.txt"}),
        ({"text": TEXT}, 'Say "good night" to her', {"text": "good night"}),
        ({"text": TEXT}, "Translate 'it's late'", {"text": "it's late"}),
        ({"text": TEXT}, "Translate this: good morning", {"text": "good morning"}),
        ({"query": TEXT}, "What is the capital of France?", {"query": "capital of France"}),
        ({"expression": TEXT}, "What is 12 * (3 + 4)?", {"expression": "12 * (3 + 4)"}),
        ({"title": TEXT}, "A book, title: Dune", {"title": "Dune"}),
        ({"place": form({"city": TEXT})}, "In Oslo", {"place": {"city": "Oslo"}}),
        ({"x": {"anyOf": [{"type": "null"}, WHOLE]}}, "It is 7", {"x": 7}),
        ({"zone": {"type": "integer", "default": 3}}, "Now", {"zone": 3}),
        ({"kind": {"const": "a"}}, "Now", {"kind": "a"}),
        ({"level": {"type": "integer", "examples": [4]}}, "Now", {"level": 4}),
    ],
)
def test_a_required_parameter_takes_what_the_question_holds_for_it(
    required: dict[str, Any], question: str, arguments: dict[str, Any]
) -> None:
    assert fill(form(required), question) == Filled(arguments)


def test_an_optional_parameter_is_filled_only_from_a_clear_value() -> None:
    schema = form({}, city=TEXT, days=WHOLE, unit={"enum": ["c", "f"]}, note=TEXT, size={"default": 1})
    assert fill(schema, "What is it like?") == Filled({})
    assert fill(schema, "5 days in Oslo") == Filled({"city": "Oslo", "days": 5})


def test_what_cannot_be_filled_is_named() -> None:
    assert fill(form({"city": TEXT, "days": WHOLE}), "weather in Oslo") == Filled({"city": "Oslo"}, ("days",))


def test_a_list_of_names_fills_one_parameter_once_for_each() -> None:
    each = fill_each(form({"city": TEXT}), "Weather in Beijing, Rome and New York?")
    assert [filled.arguments["city"] for filled in each] == ["Beijing", "Rome", "New York"]
    assert fill_each(form({"city": TEXT}), "Weather in Paris, France?") == [Filled({"city": "Paris"})]


def test_a_local_reference_and_all_of_are_followed() -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/base"}],
        "properties": {"days": WHOLE},
        "required": ["days"],
        "$defs": {"base": form({"city": TEXT})},
    }
    assert fill(schema, "3 days in Oslo") == Filled({"days": 3, "city": "Oslo"})


def test_a_reply_by_schema_gets_an_empty_value_where_the_text_holds_none() -> None:
    schema = form({"city": TEXT, "days": WHOLE, "anything": {"type": "null"}})
    assert complete(schema, fill(schema, "In Oslo")) == {"city": "Oslo", "days": 0, "anything": None}


def test_a_reply_by_schema_has_its_fields_in_the_order_of_the_schema() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": form({"n": WHOLE, "city": TEXT, "next": {"enum": ["x", "y"]}})},
    }
    assert list(complete(schema, fill(schema, "In Oslo")).items()) == [
        ("n", 0),
        ("city", "Oslo"),
        ("next", "x"),
    ]


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        (form({"city": TEXT, "days": WHOLE}), {"city": "Oslo", "days": 3}),
        ({}, {}),
        ({"type": ["object", "null"], "properties": {"days": WHOLE}, "required": ["days"]}, {"days": 3}),
        (WHOLE, 3),
        ({"type": "array", "items": WHOLE}, [3]),
        ({"type": "array", "items": TEXT}, ["Oslo"]),
        ({"enum": ["a month", "3 days"]}, "3 days"),
        ({"anyOf": [form({"on": {"enum": ["x", "y"]}}), WHOLE]}, 3),
        ({"type": "null"}, None),
        ({"$ref": "#/$defs/n", "$defs": {"n": WHOLE}}, 3),
    ],
)
def test_a_reply_by_schema_may_be_of_any_type(schema: Any, reply: Any) -> None:
    assert fill_reply(schema, "3 days in Oslo") == reply


SCHEMAS = st.recursive(
    st.sampled_from(
        [{}, TEXT, NUMBER, WHOLE, {"type": "boolean"}, {"$ref": "#"}, {"enum": [1, "a"]}, True, None, 3]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.text(max_size=8), inner, max_size=4) | st.just([]),
            "required": st.lists(st.text(max_size=8), max_size=4) | st.just("a"),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=3),
            "enum": st.lists(st.none() | st.integers() | st.text(), max_size=3),
            "type": st.sampled_from(["object", "array", "string", "dict", ["null", "array"], 3]),
            "minimum": st.integers() | st.text(),
            "$ref": st.sampled_from(["#", "#/properties/a", "x", 1]),
            "default": st.integers(),
            "description": st.text() | st.none(),
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS, st.text())
def test_no_schema_and_no_text_make_it_fail(schema: Any, text: str) -> None:
    for filled in fill_each(schema, text):
        complete(schema, filled)
    json.dumps(fill_reply(schema, text))


@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from([TEXT, NUMBER, WHOLE]), max_size=5),
    st.text(),
)
def test_a_required_parameter_is_filled_or_named_as_missing(properties: dict[str, Any], text: str) -> None:
    filled = fill(form(properties), text)
    assert {*filled.arguments, *filled.missing} == set(properties)
