import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.offline import broken_text as texts

CALL = '{"tool": "get_weather", "arguments": {"city": "Lima"}}'
OBJECTS = st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists, max_leaves=4))


@pytest.mark.parametrize(
    ("spoil", "spoiled"),
    [
        (texts.fenced, f"```json\n{CALL}\n```"),
        (
            texts.prose_around,
            f"Sure! Here is what you asked for:\n\n{CALL}\n\nLet me know if you need anything else.",
        ),
        (
            texts.thinking_first,
            '<think>\nMaybe {"tool": "get_weather", "arguments": {"city": "draft"}}? No, not quite.\n</think>\n'
            + CALL,
        ),
        (texts.trailing_comma, '{"tool": "get_weather", "arguments": {"city": "Lima"},}'),
        (texts.single_quotes, "{'tool': 'get_weather', 'arguments': {'city': 'Lima'}}"),
        (texts.in_words, "I would like to call get_weather, please, where city is Lima."),
        (texts.cut, '{"tool": "get_weather", "ar'),
        (texts.twice, f"{CALL}\n{CALL}"),
    ],
)
def test_each_way_to_spoil_a_decision(spoil, spoiled):
    assert spoil(CALL) == spoiled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"tool": null, "reply": "It is {22} degrees."}', "It is (22) degrees."),
        ('{"city": "Lima", "days": [1, 2], "exact": true}', "city is Lima, days is 1 and 2, exact is true"),
        ('{"tool": "now", "arguments": {}}', "I would like to call now, please, where nothing is said."),
        ("no JSON", "no JSON"),
    ],
)
def test_a_sentence_says_what_the_json_says_without_brackets(text, said):
    assert texts.in_words(text) == said


@pytest.mark.parametrize("text", ["Hello.", "[1, 2]", "", '{"a": '])
@pytest.mark.parametrize("spoil", [texts.trailing_comma, texts.single_quotes, texts.in_words])
def test_what_is_no_object_stays_as_it_was(spoil, text):
    assert spoil(text) == text


def test_an_empty_object_has_no_place_for_a_comma():
    assert texts.trailing_comma("{}") == "{}"


def test_thoughts_about_what_is_no_object_hold_none():
    assert texts.thinking_first("Hello.") == "<think>\nLet me think.\n</think>\nHello."


@given(OBJECTS)
def test_single_quotes_are_pythons_and_mean_the_same(value):
    assert ast.literal_eval(texts.single_quotes(json.dumps(value, ensure_ascii=False))) == value


@given(OBJECTS)
def test_no_half_and_no_trailing_comma_is_json(value):
    text = json.dumps(value)
    assert texts.json_object(texts.cut(text)) is None
    assert not value or texts.json_object(texts.trailing_comma(text)) is None


ARGUMENTS = {"city": "Lima", "days": 2}


@pytest.mark.parametrize(
    ("spoil", "name", "spoiled"),
    [
        (texts.renamed, "city", {"city_name": "Lima", "days": 2}),
        (texts.retyped, "city", {"city": ["Lima"], "days": 2}),
        (texts.retyped, "days", {"city": "Lima", "days": "2"}),
        (texts.without, "city", {"days": 2}),
    ],
)
def test_each_way_to_spoil_an_argument(spoil, name, spoiled):
    assert spoil(ARGUMENTS, name) == spoiled
    assert list(spoil(ARGUMENTS, name)) == list(spoiled)


def test_a_new_name_is_one_that_no_other_argument_has():
    assert texts.renamed({"city": 1, "city_name": 2}, "city") == {"city_name_": 1, "city_name": 2}


def test_a_draft_has_the_tool_and_other_texts():
    value = {"tool": "find", "arguments": {"names": ["a", {"b": "c"}], "most": 3}}
    drafted = {"tool": "find", "arguments": {"names": ["draft", {"b": "draft"}], "most": 3}}
    assert texts.drafted(value) == drafted
