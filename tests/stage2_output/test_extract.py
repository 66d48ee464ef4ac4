import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import Extraction, ExtractionError, extract_json
from stage2_output.extract import Broken, find_json

FENCED = {
    "with language": '```json\n{"a": 1}\n```',
    "without language": '```\n{"a": 1}\n```',
    "on one line": '```{"a": 1}```',
    "upper case": '```JSON\n{"a": 1}\n```',
    "unclosed": 'Here:\n```json\n{"a": 1}\n',
    "between words": 'Sure!\n```json\n{"a": 1}\n```\nIs that all?',
    "a second block": '```python\nx = 1\n```\nand\n```json\n{"a": 1}\n```',
}


@pytest.mark.parametrize("text", FENCED.values(), ids=FENCED)
def test_json_is_found_in_a_fence(text):
    start = text.index("{")
    assert extract_json(text) == Extraction({"a": 1}, start, start + 8, "fenced")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('"a {string}"', "a {string}"),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("null", None),
        ('{"a": {"a": 1}, "b": {"a": 2}}', {"a": {"a": 1}, "b": {"a": 2}}),
    ],
    ids=["object", "list", "string", "number", "true", "null", "same key in two objects"],
)
def test_a_text_that_is_nothing_but_json_is_bare(text, value):
    assert extract_json(text) == Extraction(value, 0, len(text), "bare")
    assert extract_json(f" \n{text}\t ") == Extraction(value, 2, 2 + len(text), "bare")


@pytest.mark.parametrize(
    ("text", "source", "value"),
    [
        ('I think {"a": 1} will do.', "prose", {"a": 1}),
        ('\ufeff{"a": 1}', "prose", {"a": 1}),
        ('{curly} words, [square] ones and {"a": 1}', "prose", {"a": 1}),
        ('{"a": 1} or rather {"a": 2}', "prose", {"a": 1}),
        ('As [1] says, {"a": 1} [2]', "prose", {"a": 1}),
        ("[1, 2] or [3]", "prose", [1, 2]),
        ('{"a": 0}\n```json\n{"a": 1}\n```', "fenced", {"a": 1}),
        ('```json\n[1]\n```\n{"a": 0}', "fenced", [1]),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "fenced", {"a": 1}),
        ('<think>{"a": 0}</think>{"a": 1}', "prose", {"a": 1}),
        ('<thinking>\n```json\n{"a": 0}\n```\n</thinking>\n{"a": 1}', "prose", {"a": 1}),
        ('<THINK>{"a": 0}</THINK> [1]', "prose", [1]),
        ('maybe {"a": 0}\n</think>\n{"a": 1}', "prose", {"a": 1}),
        ('{"a": 1}\n<think>or {"a": 0}', "prose", {"a": 1}),
        ('<think>{"a": 1}</think>', "thinking", {"a": 1}),
        ('<think>{"a": 1}', "thinking", {"a": 1}),
        ('{"a": 1}</think>', "thinking", {"a": 1}),
        ('<think>a</think>{"a": 1}<think>{"a": 0}</think>{"a": 2}', "prose", {"a": 1}),
    ],
)
def test_what_was_meant_is_picked(text, source, value):
    found = extract_json(text)
    assert (found.source, found.value) == (source, value)
    assert json.loads(text[found.start : found.end]) == value


@pytest.mark.parametrize(
    "value",
    [
        {"md": "```json\n{}\n```"},
        {"md": "``` and </think> and <think>"},
        {"s": "}}]] {{[["},
        {"s": 'a "quoted" } and \\'},
        ["{", '"[', {"\\": '\\"'}],
    ],
)
@pytest.mark.parametrize("frame", ["{}", "Look: {} So.", "```json\n{}\n```"], ids=["bare", "prose", "fenced"])
def test_brackets_quotes_and_fences_in_strings_are_text(frame, value):
    assert extract_json(frame.replace("{}", json.dumps(value))).value == value


@pytest.mark.parametrize("mark", ["```", "</think>"])
def test_a_mark_in_a_string_does_not_change_which_value_is_meant(mark):
    first = {"a": mark}
    assert extract_json(f'{json.dumps(first)} or {{"b": 1}}').value == first


def test_every_value_is_found_in_order_and_so_is_what_is_broken():
    text = 'a {"a": [1]} b {"b": } c [2]'
    assert find_json(text) == (
        [Extraction({"a": [1]}, 2, 12, "prose"), Extraction([2], 25, 28, "prose")],
        [Broken(15, "is not valid: Expecting value at character 21")],
    )


def test_what_is_truncated_is_not_complete():
    assert extract_json('{"a": 1}', truncated=True) == Extraction({"a": 1}, 0, 8, "bare", complete=False)
    assert [each.complete for each in find_json("a [1] b [2]", truncated=True)[0]] == [False, False]


BROKEN = {
    "empty": ("", None, "The text is empty."),
    "blank": (" \n", None, "The text is empty."),
    "prose": ("The answer is 5.", None, "No JSON was found."),
    "nan": ("NaN", None, "No JSON was found."),
    "unclosed": ('Hm {"a": {"b": 1}', 3, "The JSON that begins at character 3 is never closed."),
    "unclosed string": (
        '{"a": "b}',
        0,
        "The JSON that begins at character 0 is ",
    ),
    "trailing comma": (
        'Hm {"a": 1,}',
        3,
        "The JSON that begins at character 3 is not valid: ",
    ),
    "unquoted value": (
        '{"a": {"b": 1}, "c": oops}',
        0,
        "The JSON that begins at character 0 is not valid: Expecting value at character 21.",
    ),
    "wrong bracket": ('{"a": [1}, {"b": 2}]', 0, "The JSON that begins at character 0 is not valid: "),
    "duplicate key": (
        'x {"a": {"same": 1, "other": 2, "same": 1}}',
        2,
        'The JSON that begins at character 2 is not valid: the key "same" stands twice in one object.',
    ),
    "nested nan": (
        '{"a": NaN}',
        0,
        "The JSON that begins at character 0 is not valid: NaN is not a JSON value.",
    ),
    "infinity": (
        "[Infinity, 1]",
        None,
        "No JSON was found.",
    ),
    "nested infinity": (
        "[1, Infinity]",
        0,
        "The JSON that begins at character 0 is not valid: Infinity is not a JSON value.",
    ),
    "minus infinity": (
        "[-Infinity]",
        0,
        "The JSON that begins at character 0 is not valid: -Infinity is not a JSON value.",
    ),
    "too large": (
        "[1e999]",
        0,
        "The JSON that begins at character 0 is not valid: a number is too large.",
    ),
    "minus too large": (
        "[-1e999]",
        0,
        "The JSON that begins at character 0 is not valid: a number is too large.",
    ),
    "very long integer": ("[" + "1" * 5000 + "]", 0, "The JSON that begins at character 0 is not valid: "),
}


@pytest.mark.parametrize(("text", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_an_error_that_says_where_and_why(text, position, message):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert caught.value.position == position
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        'x {"a": {"b": 1} oops} y',
        '{"a": {"b": 1}, "c": [1, 2], "d": }',
        '{"a": {"b": 1}',
        '[{"a": 1}, {"b": 2}',
        '[{"a": 1}; {"b": 2}]',
        'Note [1, {"a": {"b": 2}} ...',
    ],
)
def test_a_value_inside_a_broken_one_is_never_handed_out(text):
    with pytest.raises(ExtractionError):
        extract_json(text)
    assert find_json(text)[0] == []


@pytest.mark.parametrize(
    "text",
    [
        '{tool: "move", arguments: {"city": "x"}}',
        "{'tool': 'move', 'arguments': {\"city\": \"x\"}}",
        '{/* the call */ "arguments": {"city": "x"}}',
        '{// the call\n "arguments": {"city": "x"}}',
        '{, "arguments": {"city": "x"}}',
        '[x, {"city": "x"}]',
    ],
    ids=["unquoted key", "single quotes", "comment", "line comment", "comma", "list of names"],
)
def test_a_value_inside_one_that_does_not_even_begin_well_is_never_handed_out(text):
    with pytest.raises(ExtractionError):
        extract_json(text)


def test_what_is_broken_does_not_hide_a_whole_value_behind_it():
    assert extract_json('{"a": oops} Sorry: {"a": 1}').value == {"a": 1}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)
words = st.text("abc ,.:;!?\n()'\"äö中", max_size=30).map(lambda text: text.replace('"', ""))


def same(one, other):
    return json.dumps(one) == json.dumps(other)  # tells 1 from True and 1.0, and -0.0 from 0.0


@given(values, st.sampled_from([None, 0, 2]), st.booleans())
def test_any_bare_json_comes_back(value, indent, ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    found = extract_json(text)
    assert same(found.value, value)
    assert (found.start, found.end, found.source) == (0, len(text), "bare")


@given(
    containers, st.sampled_from([None, 2]), st.sampled_from(["```json\n@\n```", "```\n@\n```", "```json\n@"])
)
def test_any_fenced_object_or_list_comes_back(value, indent, frame):
    found = extract_json(frame.replace("@", json.dumps(value, indent=indent)))
    assert same(found.value, value)


@given(containers, words, words)
def test_any_object_or_list_between_words_comes_back(value, before, after):
    written = json.dumps(value, ensure_ascii=False)
    found = extract_json(before + written + after)
    assert same(found.value, value)
    assert (before + written + after)[found.start : found.end] == written


SHREDS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    ":",
    ",",
    '"a"',
    "1",
    "null",
    "```",
    "```json\n",
    "<think>",
    "</think>",
]


@given(st.text() | st.lists(st.sampled_from(SHREDS)).map("".join))
def test_any_text_gives_a_value_or_an_extraction_error(text):
    try:
        found = extract_json(text)
    except ExtractionError:
        return
    assert same(json.loads(text[found.start : found.end]), found.value)


@pytest.mark.parametrize(
    "unit", ["{", "[", '"', "`", '{"a":', "<think>", "</think>", "[1,", "[ ", '{"a":{}', "```", '\\"', "{x}"]
)
def test_long_nonsense_ends_in_an_error(unit):
    with pytest.raises(ExtractionError):
        extract_json(unit * (200_000 // len(unit)))


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("frame", ["@", "Here: @"], ids=["bare", "prose"])
def test_closed_nesting_that_is_too_deep_ends_in_an_error(begin, end, frame):
    text = frame.replace("@", begin * 100_000 + "1" + end * 100_000)
    with pytest.raises(ExtractionError, match="is nested too deeply") as caught:
        extract_json(text)
    assert caught.value.position == frame.index("@")


def test_an_object_of_strings_that_never_end_and_one_of_ten_thousand_keys_end_in_an_error():
    for text in ('{"' + '\\"' * 200_000, "{" + '"k":1,' * 10_000 + '"k":1}'):
        with pytest.raises(ExtractionError):
            extract_json(text)


def test_a_quote_in_prose_does_not_swallow_the_answer():
    assert extract_json('[it is 5" long] {"a": 1}').value == {"a": 1}


def test_a_thinking_tag_that_is_only_talked_about_hides_nothing():
    assert extract_json('I use the <think> tag. {"a": 1}').source == "prose"
    assert extract_json('<think>I wonder. {"a": 1}').source == "thinking"
