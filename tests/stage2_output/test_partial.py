import json
from itertools import pairwise

import pytest
from hypothesis import example
from hypothesis import strategies as st

from stage2_output import ExtractionError, extract_json
from stage2_output.parsing.strict import MOST_DEPTH
from stage2_output.partial import LONGEST_POINTER, parse_partial
from stage2_output.result import Extraction
from tests.random_values import json_values, random_examples
from tests.tables import for_each

VALUES = json_values(st.text(max_size=6))
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4)
JSON_TEXTS = st.builds(
    json.dumps, OBJECTS, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 2])
)
AROUND = ["Sure: ", "\n", "```json\n", "\n```", "<think>", "</THINK>", "{name} ", "{}"]
CITATIONS = ["[1] ", "[ ] ", "[1, 2] "]
BITS = [*'{}[],:"\\', '{"a": ', '{"b":[', ', "c": ', "\\ud83d", "\\ude00", "\\u00e9"]
MORE = [*"x1- \x01\ud83d`<", "\\n", ".5", "e3", "true", "null", "NaN", "/~", '{"a": 1}']
PIECES = AROUND + CITATIONS + BITS + MORE
REPLIES = st.lists(st.sampled_from(PIECES) | JSON_TEXTS, max_size=14).map("".join)
SPOILED = st.builds(
    lambda text, at, gone, new: text[: at % len(text)] + new + text[at % len(text) + gone :],
    JSON_TEXTS,
    st.integers(0, 200),
    st.integers(0, 2),
    st.text(st.sampled_from('{}[]",:\\-.e01 \ud83dx'), max_size=2),
)
ANY = (REPLIES | SPOILED | st.text()).map(lambda text: text[:250])


def no_value(text):
    return Extraction(None, len(text), len(text), "prose", complete=False)


def so_far(text):
    """The partial value after every character."""
    return [parse_partial(text[:end]) for end in range(len(text) + 1)]


def shown(text):
    return [found for found in so_far(text) if found.start < found.end]


def grown_only_where_open(earlier, later, opened, pointer=""):
    """Whether a later value extends an earlier one at its end, and only where it was open."""
    if pointer not in opened:
        # repr distinguishes 1, 1.0 and True, and includes the order of keys.
        return repr(earlier) == repr(later)
    if type(earlier) is not type(later):
        return False
    if isinstance(earlier, str):
        return later.startswith(earlier)
    keys, new = (
        list(value) if isinstance(value, dict) else range(len(value)) for value in (earlier, later)
    )
    return keys == new[: len(keys)] and all(
        grown_only_where_open(earlier[key], later[key], opened, f"{pointer}/{escaped(key)}")
        for key in keys
    )


def escaped(key):
    return str(key).replace("~", "~0").replace("/", "~1")


def at(value, pointer):
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[step] if isinstance(value, dict) else value[int(step)]
    return value


# ---- any text


@random_examples(10, 100, ANY)
@example('{"a": "\\ud83d\\u')
@example('{"a": "\\ud83d\\ud83d\\ude00"}')
@example('{"a": "\\\\ud83d')
@example('{"a": "\ud83d\\ude00"}')
@example('{"a": "\\u\\')
@example("[1, 12.5e+3, -0, 1e, 2]")
@example('{"a": {"b/~": ["x", {"": ""}]}, "a": 2}')
@example("[[[ \n[1,2], [ ]")
@example('{"{"{"a": 1')
@example('<x {"a": 1} y> {"b": 2}')
def test_a_partial_value_only_grows_and_only_where_it_is_open(text):
    for earlier, later in pairwise(shown(text)):
        assert (later.start, later.source) == (earlier.start, earlier.source)
        assert later.end >= earlier.end
        assert grown_only_where_open(earlier.value, later.value, earlier.open)


@random_examples(10, 100, ANY)
def test_a_partial_value_that_was_found_is_never_withdrawn(text):
    found = so_far(text)
    first = next(
        (end for end, partial in enumerate(found) if partial.open or partial.complete),
        len(text) + 1,
    )
    assert found[:first] == [no_value(text[:end]) for end in range(first)]
    assert all(partial.open or partial.complete for partial in found[first:])


@random_examples(10, 100, ANY)
def test_a_complete_partial_value_equals_the_result_of_extract_json(text):
    for found, written in ((partial, text[partial.start : partial.end]) for partial in shown(text)):
        assert found.complete == (found.open == ())
        if found.complete:
            assert repr(extract_json(written).value) == repr(found.value)
        else:
            with pytest.raises(json.JSONDecodeError):
                json.loads(written)


@random_examples(10, 100, ANY)
def test_pointers_of_open_parts_lead_to_nested_strings_lists_and_objects(text):
    for found in shown(text):
        for pointer in found.open:
            assert isinstance(at(found.value, pointer), dict | list | str)
        for outer, inner in pairwise(found.open):
            assert inner.rpartition("/")[0] == outer


@random_examples(
    8,
    100,
    JSON_TEXTS,
    st.sampled_from(["", "Sure: ", "\n```json\n", "<think>{}</think>", "[1] ", "\ufeff"]),
)
def test_json_is_available_while_it_grows_and_complete_at_its_last_bracket(text, before):
    found = so_far(before + text)
    value = json.loads(text)
    assert repr(found[-1].value) == repr(value)
    assert [partial.complete for partial in found] == [False] * (len(found) - 1) + [True]
    assert repr(parse_partial(before + text + ' {"a": 2}').value) == repr(value)


@random_examples(10, 100, st.lists(st.text(), min_size=1), st.booleans())
def test_every_complete_character_of_a_string_is_available_at_once(strings, ascii_only):
    written = "["
    for place, string in enumerate(strings):
        written += '"'
        for end, character in enumerate(string):
            written += json.dumps(character, ensure_ascii=ascii_only)[1:-1]
            so_far = parse_partial(written).value
            assert so_far[:place] == strings[:place]
            # A first surrogate waits for the second one.
            assert so_far[place] == string[: end + 1] or "\ud800" <= character <= "\udbff"
        written += '",'
        assert parse_partial(written).value == strings[: place + 1]


# ---- partial values step by step


def steps(text):
    """The partial value at each `|`; the marks are removed."""
    pieces = text.split("|")
    return [parse_partial("".join(pieces[: end + 1])) for end in range(len(pieces))]


def test_a_tool_call_grows_and_its_open_parts_are_listed():
    text = '{|"|to|ol":| "get_w|eather", "argu|ments": {"ci|ty": "Par|is"|}|}| That is it.'
    call = {"tool": "get_weather", "arguments": {}}
    assert [(found.value, found.open) for found in steps(text)] == [
        (None, ()),
        ({}, ("",)),
        ({}, ("",)),
        ({}, ("",)),
        ({"tool": "get_w"}, ("", "/tool")),
        ({"tool": "get_weather"}, ("",)),
        (call, ("", "/arguments")),
        (call | {"arguments": {"city": "Par"}}, ("", "/arguments", "/arguments/city")),
        (call | {"arguments": {"city": "Paris"}}, ("", "/arguments")),
        (call | {"arguments": {"city": "Paris"}}, ("",)),
        (call | {"arguments": {"city": "Paris"}}, ()),
        (call | {"arguments": {"city": "Paris"}}, ()),
    ]


def test_parse_partial_returns_an_extraction_with_all_fields():
    assert parse_partial('Sure: {"a": [1, "x') == Extraction(
        {"a": [1, "x"]}, 6, 18, "prose", complete=False, open=("", "/a", "/a/1")
    )
    assert parse_partial('Sure: {"a": [1, "x"]}!') == Extraction({"a": [1, "x"]}, 6, 21, "prose")


def test_a_number_waits_for_the_next_character_and_a_literal_for_its_last_letter():
    values = [found.value for found in steps("[1|2|,| -0|.5|e3| |, tr|ue|, fal|se, nul|l|]")]
    assert values == [
        *(None, None, [12], [12], [12], [12]),
        *([12, -500.0], [12, -500.0], [12, -500.0, True], [12, -500.0, True]),
        *(
            [12, -500.0, True, False],
            [12, -500.0, True, False, None],
            [12, -500.0, True, False, None],
        ),
    ]


def test_an_escape_is_available_when_it_is_complete():
    texts = [
        found.value["a"] for found in steps('{"a": "x|\\|n|\\u|00|e9|\\ud83d|\\u|de|00|\\ud83d|!')
    ]
    start = "x\né"
    assert texts == [
        "x",
        "x",
        "x\n",
        "x\n",
        "x\n",
        start,
        start,
        start,
        start,
        f"{start}😀",
        f"{start}😀",
        texts[-1],
    ]
    assert texts[-1] == f"{start}😀\ud83d!"


def test_keys_with_slashes_and_tildes_are_escaped_in_pointers():
    assert parse_partial('{"a/b": {"~": [[').open == ("", "/a~1b", "/a~1b/~0", "/a~1b/~0/0")


@for_each(
    "text, source",
    [
        ('{"a": "', "bare"),
        (' \n{"a": "', "bare"),
        ('Yes: {"a": "', "prose"),
        ('\ufeff{"a": "', "bare"),
        ('<tool_call>\n{"a": "', "tagged"),
        ('<|call|> so {"a": "', "prose"),
        ('```json\n{"a": "', "fenced"),
        ('```\n{"a": "', "fenced"),
        ('```{"a": "', "fenced"),
        ('```py\nx\n```\n{"a": "', "prose"),
        ('<think>so</think>{"a": "', "prose"),
        ('<think>```</think>{"a": "', "prose"),
        ('<THINKING>{"b": 1}</Thinking>\n```\n{"a": "', "fenced"),
        ('so it is</think>{"a": "', "prose"),
        ('[\'b\', {"c": 1}] [“b”, {"c": 1}] {"a": "', "prose"),
        ('an empty `` and {"a": "', "prose"),
        ('{\'b\': "}", \'c\': {"d": 1}} {"a": "', "prose"),
        ('[1] [ ] [x] [[2]] [see {name}] {{ x }} {} [] [1, 2] {"a": "', "prose"),
        ('a[0]["c"], f(x)["b"], list[{}] ${"b"} \\{"b"} {"a": "', "prose"),
        ('[ ] no\n[1] no\n[2](there)\n{\n1}\n{"a": "', "prose"),
        (
            '{\'b\': [{"c": \'1\'}]} {b: {"c": 1}} {{"c": 1}} ｛"b": {}｝ [{\'c\': []}] {"a": "',
            "prose",
        ),
    ],
)
def test_the_first_json_outside_of_thinking_is_returned(text, source):
    found = parse_partial(text)
    assert (found.value, found.start, found.source) == ({"a": ""}, text.rindex("{"), source)


NOTHING_YET = [
    "",
    "Let me see",
    "```json\n",
    "[",
    "{",
    "{ ",
    "[[ ",
    "[{ ",
    "[1",
    "[tr",
    "[-1.5e",
    "{x",
    "<x {",
    "<think",
]
THINKING = [
    '<think>{"a": 1}',
    '<think>{"a": 1}</thi',
    "<thinking>[1, 2]",
    'a <think> tag: {"a": 1}',
]
NO_JSON = [
    "42",
    '"a string"',
    "as [1] and [2, 3] say",
    "the empty set {} and []",
    "[NaN, 1]",
    "[01, 2]",
]
DAMAGED = [
    "{a: 1}",
    "{'a': {\"b\": 1}",
    '{\\"a\\": {"b": 1}}',
    '{ // {"a": 1}',
    "[“a”, {",
    '{{"a": 1}}',
]


@for_each("text", NOTHING_YET + THINKING + NO_JSON + DAMAGED)
def test_a_text_without_json_gives_an_empty_extraction(text):
    assert parse_partial(text) == no_value(text)


@for_each("text", ["{}", "[]", "{ }", "[{}]", "[1, 2]", "[true, null]", "[[0, 1], [2, 3]]"])
def test_brackets_that_may_be_prose_are_json_at_the_beginning_of_a_line(text):
    for before in ("", "Here:\n  ", "```json\n", "```", "<think>x</think>"):
        found = parse_partial(before + text)
        assert (found.value, found.complete) == (json.loads(text), True)
    assert parse_partial(f"Here: {text}") == no_value(f"Here: {text}")


@for_each(
    "text, value",
    [
        ('{"a": 1, "b": "x", "a": 2}', {"a": 1, "b": "x"}),
        ('{"a": [1, NaN, 2]}', {"a": [1]}),
        ('{"a": [1, -Infinity]}', {"a": [1]}),
        ('{"a": 1e999, "b": 2}', {}),
        ('{"a": 01, "b": 2}', {}),
        ('{"a": 1.}', {}),
        ('{"a": 1 "b": 2}', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": "x\ny"}', {"a": "x"}),
        ('{"a": "x\\qy"}', {"a": "x"}),
        ('{"a": "x\\ud83d\\uz"}', {"a": "x"}),
        ('{"a": "x", \'b\': 1}', {"a": "x"}),
        ('{"a": truely}', {"a": True}),
        ('{"a": [1, 2}, "b": 1}', {"a": [1, 2]}),
        ('{"a": 1, // one\n"b": 2}', {"a": 1}),
        ('{"a": "x"] "b": {"c": 1}} {"d": 1}', {"a": "x"}),
        (f'{{"a": {"9" * 5000}, "b": 1}}', {}),
    ],
)
def test_invalid_json_ends_the_growth_of_a_partial_value(text, value):
    found = parse_partial(text)
    assert (found.value, found.complete) == (value, False)
    assert parse_partial(text + '", "z": 1}]}') == found


def test_nested_values_have_the_depth_limit_of_extract_json():
    for bracket, closing in (("[", "]"), ('{"a":', "}")):
        most = bracket * MOST_DEPTH + '"x"' + closing * MOST_DEPTH
        assert parse_partial(most) == extract_json(most)
        deeper = parse_partial(bracket + most + closing)
        assert (len(deeper.open), deeper.complete) == (MOST_DEPTH, False)
        with pytest.raises(ExtractionError):
            extract_json(bracket + most + closing)


def test_very_long_pointers_are_omitted():
    key = "k" * (LONGEST_POINTER // 2)
    text = f'{{"{key}": {{"a": {{"{key}": {{"b": ["x'
    assert parse_partial(text).open == ("", f"/{key}", f"/{key}/a")
    assert parse_partial(text).value == {key: {"a": {key: {"b": ["x"]}}}}


@for_each("unit", ["{", "[", "`", '\\"', '{"a":', '["', "<think>", '"\\', "{'", "[{ ", "1", " "])
def test_long_hostile_texts_are_read_without_errors(unit):
    for text in (unit * 5_000, '{"a": [' + unit * 5_000, '{"a": "' + unit * 5_000):
        found = parse_partial(text)
        assert (found.complete, found.end <= len(text), len(found.open) <= MOST_DEPTH + 1) == (
            False,
            True,
            True,
        )


def test_complete_partial_values_of_recorded_texts_are_those_of_extract_json(recorded):
    rows, _ = recorded("output.jsonl")
    shown = [(row["raw"], parse_partial(row["raw"])) for row in rows if isinstance(row["raw"], str)]
    complete = [(text, found.value) for text, found in shown if found.complete]
    assert complete
    assert complete == [(text, extract_json(text).value) for text, _ in complete]
