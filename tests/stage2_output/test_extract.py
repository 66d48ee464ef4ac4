import json

import pytest

from stage2_output.errors import ExtractionError
from stage2_output.extract import doubts, extract_json, find_json, missing_json_message
from stage2_output.result import Extraction, InvalidJson
from tests.stage2_output.texts import read
from tests.tables import for_each

A = '{"a": 1}'
# ---- selection of a value

SELECTED = {
    "in words": ('I think {"a": 1} will do.', "prose", {"a": 1}),
    "after a byte order mark": ('\ufeff{"a": 1}', "bare", {"a": 1}),
    "placeholders": ('{curly} words, [square] ones and {"a": 1}', "prose", {"a": 1}),
    "citations": ('As [1] says, {"a": 1} [2]', "prose", {"a": 1}),
    "a list and citations": ("As [1] says: [2, 3]", "prose", [2, 3]),
    "checkboxes": ('- [ ] one\n- [x] two\n{"a": 1}', "prose", {"a": 1}),
    "an index": ('items[0] is {"a": 1}', "prose", {"a": 1}),
    "the first of objects": ('{"a": 1} or rather {"a": 2}', "prose", {"a": 1}),
    "the first of lists": ("[1, 2] or [3]", "prose", [1, 2]),
    "an object before a list": ('[0]\n{"a": 1}', "prose", {"a": 1}),
    "a fence before words": ('{"a": 0}\n```json\n{"a": 1}\n```', "fenced", {"a": 1}),
    "a list in a fence before an object": ('```json\n[1]\n```\n{"a": 0}', "fenced", [1]),
    "the first of fences": ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "fenced", {"a": 1}),
    "a tag before words": ('{"a": 0} <tool_call>{"a": 1}</tool_call>', "tagged", {"a": 1}),
    "a tag or a fence": ('<tool_call>{"a": 1}</tool_call>\n```\n{"a": 0}\n```', "tagged", {"a": 1}),
    "valid JSON before unquoted text": ("```\n[b, c]\n```\n```\n[1]\n```", "fenced", [1]),
    "after thinking": ('<think>{"a": 0}</think>{"a": 1}', "prose", {"a": 1}),
    "after a fence in thinking": ("<think>\n```\n[0]\n```\n</think>\n[1, 2]", "prose", [1, 2]),
    "a list after thinking": ('<THINK>{"a": 0}</THINK> [1, 2]', "prose", [1, 2]),
    "thinking that began in the prompt": ('maybe {"a": 0}\n</think>\n{"a": 1}', "prose", {"a": 1}),
    "before thinking": ('{"a": 1}\n<think>or {"a": 0}', "prose", {"a": 1}),
    "between thinking blocks": (
        '<think>a</think>{"a": 1}<think>{"a": 0}</think>{"a": 2}',
        "prose",
        {"a": 1},
    ),
    "thinking, if there is no other value": ('<think>{"a": 1}</think>', "thinking", {"a": 1}),
    "thinking that never ends": ('<think>{"a": 1}', "thinking", {"a": 1}),
    "thinking with an end tag only": ('{"a": 1}</think>', "thinking", {"a": 1}),
    "a tag that is only mentioned": ('I use the <think> tag. {"a": 1}', "prose", {"a": 1}),
    "a broken draft": ('<think>{"a": , [2]</think>{"a": 1}', "prose", {"a": 1}),
    "broken code": ('```js\n{a: f()}\n```\n{"a": 1}', "prose", {"a": 1}),
    "a quote in words": ('Hm [it is 5" long] {"a": 1}', "prose", {"a": 1}),
}


@for_each("text, source, value", SELECTED.values())
def test_the_intended_value_is_selected(text, source, value):
    found = extract_json(text)
    assert (found.source, found.value) == (source, value)
    assert json.loads(text[found.start : found.end]) == value


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


@for_each("text", LISTS)
def test_a_list_of_one_number_without_words_around_it_is_a_value(text):
    assert extract_json(text).value == json.loads(text[text.index("[") : text.index("]") + 1])


def test_a_repaired_list_is_not_a_citation():
    assert extract_json("It is [1,].").value == [1]


@for_each("text", CITATIONS)
def test_a_citation_is_not_a_value(text):
    with pytest.raises(ExtractionError, match="No JSON was found"):
        extract_json(text)


@for_each("mark", ["```", "</think>", "<tool_call>"])
def test_a_mark_in_a_string_does_not_change_the_selection(mark):
    first = {"a": mark}
    assert extract_json(f'{json.dumps(first)} or {{"b": 1}}').value == first


def test_all_values_and_invalid_values_are_found_in_order():
    text = 'a {"a": [1]} b [2] c {"b": } d [3]'
    assert find_json(text) == (
        [Extraction({"a": [1]}, 2, 12, "prose"), Extraction([2], 15, 18, "prose")],
        [InvalidJson(21, "lacks a value", 27, "prose")],
    )


def test_a_value_of_a_truncated_text_is_not_complete():
    assert extract_json(A, truncated=True) == Extraction({"a": 1}, 0, 8, "bare", complete=False)
    with pytest.raises(ExtractionError):
        extract_json('{"a": ,', truncated=True)


@for_each(
    "text, reason",
    [
        # none
        ('{"a": 1}', (False, False, False, False)),
        # repaired
        ("{a: 1,}", (False, False, False, False)),
        # a guess
        ("{a: b}", (False, False, False, True)),
        # a citation
        ("as in [1], so", (False, False, True, False)),
        # code
        ("```js\nlet x = [1];\n```", (False, True, False, False)),
        # thinking
        ("<think>[]", (True, False, False, False)),
    ],
)
def test_the_doubts_about_a_value_are_ordered_by_severity(text, reason):
    assert doubts(find_json(text)[0][0], text) == reason


# ---- errors


@for_each(
    "text, message",
    [
        ("", "The text is empty."),
        (" \n", "The text is empty."),
        ("The answer is 5.", "No JSON was found."),
        ("NaN", "No JSON was found."),
    ],
)
def test_a_text_without_json_raises_an_error(text, message):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert (caught.value.position, str(caught.value)) == (None, message)
    assert missing_json_message(text, []) == message


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
    "the fence is broken": ('[2]\n```\n{"a": }\n```', 8, "lacks a value", 14),
    "thinking before it is ignored": ('<think>{"a": }</think>{"b": }', 22, "lacks a value", 28),
}


@for_each("text, start, reason, position", BROKEN.values())
def test_invalid_json_raises_an_error_with_its_position_and_the_reason(
    text, start, reason, position
):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    message = f"The JSON that begins at character {start} {reason} (at character {position})."
    assert (caught.value.position, str(caught.value)) == (position, message)
    assert missing_json_message(text, find_json(text)[1]) == message


@for_each(
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
def test_a_value_inside_a_broken_one_is_never_returned(text):
    with pytest.raises(ExtractionError):
        extract_json(text)
    assert find_json(text)[0] == []


@for_each(
    "text",
    [
        # after it
        '{"a": } Sorry: {"b": 1}',
        # inside it
        '{"a": , "b": [{"c": 1}]}',
        # a list before it
        '[1]\n{"a": }',
        # a fence after it
        '```\n{"a": }\n```\n```\n{"b": 1}\n```',
        # thinking before it
        '<think>{"b": 1}</think>{"a": }',
        # words before its fence
        '{"b": 1}\n```\n{"a": }\n```',
    ],
)
def test_a_broken_value_is_an_error_even_if_there_is_a_less_likely_valid_value(text):
    with pytest.raises(ExtractionError, match="lacks a value"):
        extract_json(text)


def test_a_broken_value_has_no_higher_priority_than_a_valid_one_in_its_place():
    assert extract_json('{"b": 1}\n[1,,2]').value == {"b": 1}
    assert extract_json('```\n[1]\n```\n{"a": }').value == [1]


@for_each(
    "text, value, repair",
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
def test_a_repaired_value_is_complete_and_reports_its_repairs(text, value, repair):
    assert extract_json(text) == Extraction(value, 0, len(text), "bare", (repair,))


@for_each(
    "text, value",
    [
        ('Hm {"a": {"b": 1}', {"a": {"b": 1}}),
        ('{"a": "b}', {"a": "b"}),
        ('[{"a": 1}, {"b": 2}', [{"a": 1}, {"b": 2}]),
        ('Note [1, {"a": {"b": 2}} ...', [1, {"a": {"b": 2}}]),
        ('```json\n{"a": [1', {"a": [1]}),
        ('{"a": 1, ...}', {"a": 1}),
    ],
)
def test_a_value_that_had_to_be_closed_or_has_an_ellipsis_is_not_complete(text, value):
    found = extract_json(text)
    assert (found.value, found.complete) == (value, False)


# ---- long texts

OPENING = ["{", "[", "[ ", "[1,", "['", '{"a":', '{"a":{}', '{"a": "\n', '"', '\\"', "/*", "{x}"]
WRAPPING = ["`", "```", "<think>", "</think>"]


@for_each("unit", OPENING + WRAPPING)
def test_a_long_meaningless_text_raises_an_error_or_gives_an_incomplete_value(unit):
    found = read(unit * (30_000 // len(unit)))
    assert found is None or not found.complete


def test_an_object_with_thousands_of_keys_and_one_duplicate_raises_an_error():
    with pytest.raises(ExtractionError, match="twice in one object"):
        extract_json("{" + "".join(f'"k{n}":1,' for n in range(5_000)) + '"k0":2}')
