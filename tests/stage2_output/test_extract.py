import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output.errors import ExtractionError
from stage2_output.extract import doubts, extract_json, find_json, missing_json_message
from stage2_output.result import Extraction, InvalidJson

A = '{"a": 1}'
FENCED = {
    "with language": f"```json\n{A}\n```",
    "without language": f"```\n{A}\n```",
    "on one line": f"```{A}```",
    "upper case": f"```JSON\n{A}\n```",
    "unclosed": f"Here:\n```json\n{A}\n",
    "between words": f"Sure!\n```json\n{A}\n```\nIs that all?",
    "a second block": f"```python\nx = 1\n```\nand\n```json\n{A}\n```",
}


@pytest.mark.parametrize("text", FENCED.values(), ids=FENCED)
def test_json_is_found_in_a_fence(text):
    start = text.index("{")
    assert extract_json(text) == Extraction({"a": 1}, start, start + 8, "fenced")


@pytest.mark.parametrize("text", [A, "[1, 2]", '"a {string}"', "-1.5e3", "null"])
def test_a_text_that_is_nothing_but_json_is_bare(text):
    assert extract_json(text) == Extraction(json.loads(text), 0, len(text), "bare")


# ---- which value was meant ----

MEANT = {
    "in words": ('I think {"a": 1} will do.', "prose", {"a": 1}),
    "behind the mark of an editor": ('\ufeff{"a": 1}', "bare", {"a": 1}),
    "placeholders": ('{curly} words, [square] ones and {"a": 1}', "prose", {"a": 1}),
    "citations": ('As [1] says, {"a": 1} [2]', "prose", {"a": 1}),
    "a list and citations": ("As [1] says: [2, 3]", "prose", [2, 3]),
    "check boxes": ('- [ ] one\n- [x] two\n{"a": 1}', "prose", {"a": 1}),
    "an index": ('items[0] is {"a": 1}', "prose", {"a": 1}),
    "the first of objects": ('{"a": 1} or rather {"a": 2}', "prose", {"a": 1}),
    "the first of lists": ("[1, 2] or [3]", "prose", [1, 2]),
    "an object before a list": ('[0]\n{"a": 1}', "prose", {"a": 1}),
    "a fence before words": ('{"a": 0}\n```json\n{"a": 1}\n```', "fenced", {"a": 1}),
    "a list in a fence before an object": ('```json\n[1]\n```\n{"a": 0}', "fenced", [1]),
    "the first of fences": ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "fenced", {"a": 1}),
    "a tag before words": ('{"a": 0} <tool_call>{"a": 1}</tool_call>', "tagged", {"a": 1}),
    "a tag or a fence": ('<tool_call>{"a": 1}</tool_call>\n```\n{"a": 0}\n```', "tagged", {"a": 1}),
    "valid before guessed": ("```\n[b, c]\n```\n```\n[1]\n```", "fenced", [1]),
    "behind thoughts": ('<think>{"a": 0}</think>{"a": 1}', "prose", {"a": 1}),
    "behind a fence in thoughts": ("<think>\n```\n[0]\n```\n</think>\n[1, 2]", "prose", [1, 2]),
    "a list behind thoughts": ('<THINK>{"a": 0}</THINK> [1, 2]', "prose", [1, 2]),
    "thoughts begun in the prompt": ('maybe {"a": 0}\n</think>\n{"a": 1}', "prose", {"a": 1}),
    "before thoughts": ('{"a": 1}\n<think>or {"a": 0}', "prose", {"a": 1}),
    "between thoughts": (
        '<think>a</think>{"a": 1}<think>{"a": 0}</think>{"a": 2}',
        "prose",
        {"a": 1},
    ),
    "thoughts, if nothing else": ('<think>{"a": 1}</think>', "thinking", {"a": 1}),
    "thoughts that never end": ('<think>{"a": 1}', "thinking", {"a": 1}),
    "thoughts that only end": ('{"a": 1}</think>', "thinking", {"a": 1}),
    "a tag that is talked about": ('I use the <think> tag. {"a": 1}', "prose", {"a": 1}),
    "a broken draft": ('<think>{"a": , [2]</think>{"a": 1}', "prose", {"a": 1}),
    "broken code": ('```js\n{a: f()}\n```\n{"a": 1}', "prose", {"a": 1}),
    "a quote in words": ('Hm [it is 5" long] {"a": 1}', "prose", {"a": 1}),
}


@pytest.mark.parametrize(("text", "source", "value"), MEANT.values(), ids=MEANT)
def test_what_was_meant_is_picked(text, source, value):
    found = extract_json(text)
    assert (found.source, found.value) == (source, value)
    assert json.loads(text[found.start : found.end]) == value


JSON_IN_STRINGS = [
    (r'"{\"a\": 1}"', {"a": 1}),
    ('"[1]"', [1]),
    ('"5"', "5"),
    (r'"{\"a\": 1,}"', '{"a": 1,}'),
]


@pytest.mark.parametrize(("text", "value"), JSON_IN_STRINGS)
def test_of_a_string_that_holds_json_the_json_is_meant(text, value):
    assert extract_json(text).value == value


LISTS = [
    "[1]",
    "```\n[1]\n```",
    "> [7]",
    "- [7]\n",
    "It is [1.5].",
    'A ["a"].',
    "A [1, 2].",
    "A [true].",
]
CITATIONS = ["See [1].", "It says [1].", "Two [1] and [2].", "So:\n[1] and so on", "- a [3]"]


@pytest.mark.parametrize("text", LISTS)
def test_a_list_of_one_number_is_a_value_where_no_words_are_around_it(text):
    assert extract_json(text).value == json.loads(text[text.index("[") : text.index("]") + 1])


def test_a_list_that_was_mended_is_no_citation():
    assert extract_json("It is [1,].").value == [1]


@pytest.mark.parametrize("text", CITATIONS)
def test_a_citation_is_none(text):
    with pytest.raises(ExtractionError, match="No JSON was found"):
        extract_json(text)


@pytest.mark.parametrize("mark", ["```", "</think>", "<tool_call>"])
def test_a_mark_in_a_string_does_not_change_which_value_is_meant(mark):
    first = {"a": mark}
    assert extract_json(f'{json.dumps(first)} or {{"b": 1}}').value == first


def test_every_value_is_found_in_order_and_so_is_what_is_broken():
    text = 'a {"a": [1]} b [2] c {"b": } d [3]'
    assert find_json(text) == (
        [Extraction({"a": [1]}, 2, 12, "prose"), Extraction([2], 15, 18, "prose")],
        [InvalidJson(21, "lacks a value", 27, "prose")],
    )


def test_what_is_truncated_is_not_complete():
    assert extract_json(A, truncated=True) == Extraction({"a": 1}, 0, 8, "bare", complete=False)
    with pytest.raises(ExtractionError):
        extract_json('{"a": ,', truncated=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1}', (False, False, False, False)),
        ("{a: 1,}", (False, False, False, False)),
        ("{a: b}", (False, False, False, True)),
        ("as in [1], so", (False, False, True, False)),
        ("```js\nlet x = [1];\n```", (False, True, False, False)),
        ("<think>[]", (True, False, False, False)),
    ],
    ids=["none", "mended", "a guess", "a citation", "code", "a thought"],
)
def test_what_speaks_against_a_value_is_told_the_gravest_first(text, why):
    assert doubts(find_json(text)[0][0], text) == why


# ---- what cannot be read ----


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The text is empty."),
        (" \n", "The text is empty."),
        ("The answer is 5.", "No JSON was found."),
        ("NaN", "No JSON was found."),
    ],
)
def test_where_there_is_no_json_the_error_says_so(text, sentence):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert (caught.value.position, str(caught.value)) == (None, sentence)
    assert missing_json_message(text, []) == sentence


TWO_QUOTES = "has quotes that can be read in more ways than one"
UNKNOWN = "has a number in a format that JSON does not allow"
TOO_LARGE = "has a number that is too large"
BROKEN = {
    "no value": ('Hm {"a": }', 3, "lacks a value", 9),
    "duplicate key": ('x {"a": {"b": 1, "b": 2}}', 2, 'has the key "b" twice in one object', 17),
    "nested nan": ('{"a": NaN}', 0, "has NaN, which is not a JSON value", 6),
    "infinity": ("[Infinity, 1]", 0, "has Infinity, which is not a JSON value", 1),
    "minus infinity": ("[1, -Infinity]", 0, "has -Infinity, which is not a JSON value", 4),
    "too large": ("[1e999]", 0, TOO_LARGE, 1),
    "minus too large": ("[-1e999]", 0, TOO_LARGE, 1),
    "very long integer": ("[" + "1" * 5000 + "]", 0, TOO_LARGE, 1),
    "very long and cut off": ("[" + "1" * 5000 + ".", 0, TOO_LARGE, 1),
    "leading zero": ("[007]", 0, UNKNOWN, 1),
    "two commas": ("[1,,2]", 0, "has two commas in a row", 3),
    "a path": (r'{"a": "C:\Users"}', 0, "has an escape that JSON does not know", 9),
    "a quote too many": ('{"a": "b" c"}', 0, TWO_QUOTES, 8),
    "too deep": ("[" * 300 + "]" * 300, 0, "is nested too deeply", 0),
    "broken where it counts": ('[2]\n```\n{"a": }\n```', 8, "lacks a value", 14),
    "the first that counts": ('<think>{"a": }</think>{"b": }', 22, "lacks a value", 28),
}


@pytest.mark.parametrize(("text", "start", "why", "position"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_an_error_that_says_where_and_why(text, start, why, position):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    sentence = f"The JSON that begins at character {start} {why} (at character {position})."
    assert (caught.value.position, str(caught.value)) == (position, sentence)
    assert missing_json_message(text, find_json(text)[1]) == sentence


@pytest.mark.parametrize(
    "text",
    [
        'x {"a": {"b": 1}, oops} y',
        '{"a": {"b": 1}, "c": [1, 2], "d": }',
        '[{"a": 1}; {"b": 2}]',
        '{"a": [1}, {"b": 2}]',
        '[{"a": 1},, {"b": 2}]',
        '{"a": {"b": 1}, "a": {"b": 2}}',
        '{"a": {"b": 1}, "c": NaN}',
        '{"a": "b" c", "d": {"e": 1}}',
        '{"a": 1}, {"b": 2}]',
        '{x} {"a": {"b": 1}, "c": f(1)}',
    ],
)
def test_a_value_inside_a_broken_one_is_never_handed_out(text):
    with pytest.raises(ExtractionError):
        extract_json(text)
    assert find_json(text)[0] == []


@pytest.mark.parametrize(
    "text",
    [
        '{"a": } Sorry: {"b": 1}',
        '{"a": , "b": [{"c": 1}]}',
        '[1]\n{"a": }',
        '```\n{"a": }\n```\n```\n{"b": 1}\n```',
        '<think>{"b": 1}</think>{"a": }',
        '{"b": 1}\n```\n{"a": }\n```',
    ],
    ids=[
        "behind it",
        "in it",
        "a list before it",
        "a fence behind it",
        "thoughts before it",
        "words before its fence",
    ],
)
def test_what_is_broken_is_an_error_rather_than_a_lesser_value(text):
    with pytest.raises(ExtractionError, match="lacks a value"):
        extract_json(text)


def test_what_is_broken_counts_no_more_than_what_it_would_have_been():
    assert extract_json('{"b": 1}\n[1,,2]').value == {"b": 1}
    assert extract_json('```\n[1]\n```\n{"a": }').value == [1]


@pytest.mark.parametrize(
    ("text", "value", "repair"),
    [
        ('{to: {"city": "x"}}', {"to": {"city": "x"}}, ("unquoted_key", 1)),
        ('{\'to\': {"city": "x"}}', {"to": {"city": "x"}}, ("single_quotes", 1)),
        ('{/* one */ "to": {"city": "x"}}', {"to": {"city": "x"}}, ("comment", 1)),
        ('{// one\n "to": {"city": "x"}}', {"to": {"city": "x"}}, ("comment", 1)),
        ('{, "to": {"city": "x"}}', {"to": {"city": "x"}}, ("leading_comma", 1)),
        ('{"to": {"city": "x"},}', {"to": {"city": "x"}}, ("trailing_comma", 20)),
        ('[x, {"city": "x"}]', ["x", {"city": "x"}], ("unquoted_text", 1)),
        ('{"a": {"b": 1}, "c": oops}', {"a": {"b": 1}, "c": "oops"}, ("unquoted_text", 21)),
    ],
)
def test_what_was_mended_is_named_and_whole(text, value, repair):
    assert extract_json(text) == Extraction(value, 0, len(text), "bare", (repair,))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Hm {"a": {"b": 1}', {"a": {"b": 1}}),
        ('{"a": "b}', {"a": "b"}),
        ('[{"a": 1}, {"b": 2}', [{"a": 1}, {"b": 2}]),
        ('Note [1, {"a": {"b": 2}} ...', [1, {"a": {"b": 2}}]),
        ('```json\n{"a": [1', {"a": [1]}),
        ('{"a": 1, ...}', {"a": 1}),
    ],
)
def test_what_had_to_be_closed_or_was_left_out_is_not_complete(text, value):
    found = extract_json(text)
    assert (found.value, found.complete) == (value, False)


# ---- any text ----

SHREDS = [
    *"{}[]\"'\\:,a1.\n",
    '"a"',
    "null",
    "```",
    "```json\n",
    "<think>",
    "</think>",
    "//",
    "...",
]


@given(st.text() | st.lists(st.sampled_from(SHREDS)).map("".join))
def test_any_text_gives_a_value_or_an_extraction_error(text):
    with contextlib.suppress(ExtractionError):
        found = extract_json(text)
        assert 0 <= found.start < found.end <= len(text)
        json.dumps(found.value, allow_nan=False)


OPENING = ["{", "[", "[ ", "[1,", "['", '{"a":', '{"a":{}', '{"a": "\n', '"', '\\"', "/*", "{x}"]
WRAPPING = ["`", "```", "<think>", "</think>"]


@pytest.mark.parametrize("unit", OPENING + WRAPPING)
def test_long_nonsense_ends_in_an_error_or_a_part(unit):
    with contextlib.suppress(ExtractionError):
        assert not extract_json(unit * (100_000 // len(unit))).complete


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("frame", ["@", "Here: @"], ids=["bare", "prose"])
def test_closed_nesting_that_is_too_deep_ends_in_an_error(begin, end, frame):
    text = frame.replace("@", begin * 100_000 + "1" + end * 100_000)
    with pytest.raises(ExtractionError, match="is nested too deeply") as caught:
        extract_json(text)
    assert caught.value.position == frame.index("@")


def test_an_object_of_ten_thousand_keys_and_one_twice_ends_in_an_error():
    with pytest.raises(ExtractionError, match="twice in one object"):
        extract_json("{" + "".join(f'"k{n}":1,' for n in range(10_000)) + '"k0":2}')
