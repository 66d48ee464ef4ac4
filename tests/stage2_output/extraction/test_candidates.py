import json

import pytest

from stage2_output.extraction.candidates import MOST_CANDIDATES, candidates
from stage2_output.result import Extraction, InvalidJson
from tests.stage2_output.texts import repairs
from tests.tables import for_each


def summaries(text):
    """The text, value, source and repairs of each candidate; "part" marks an incomplete one."""
    return [summary(candidate, text) for candidate in candidates(text)]


def summary(piece, text):
    if isinstance(piece, InvalidJson):
        return (piece.start, piece.problem, piece.position, piece.source)
    written = text[piece.start : piece.end]
    return (
        written,
        piece.value,
        piece.source,
        *filter(None, [repairs(piece), not piece.complete and "part"]),
    )


A = '{"a": 1}'
ONE = {"a": 1}


def test_a_candidate_has_its_value_and_position():
    assert candidates(f"So {A}!") == [Extraction(ONE, 3, 11, "prose", (), complete=True, open=())]
    assert candidates("[1,]") == [Extraction([1], 0, 4, "bare", (("trailing_comma", 2),))]


def test_an_invalid_value_has_its_position_and_a_message():
    (broken,) = candidates('So {"a": }')
    assert broken == InvalidJson(3, "lacks a value", 9, "prose")
    assert str(broken) == "The JSON that begins at character 3 lacks a value (at character 9)."


# ---- alone in the text


@for_each(
    "text, value",
    [
        (A, ONE),
        ("[1, 2]", [1, 2]),
        ('"a {b}"', "a {b}"),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("null", None),
        ("{}", {}),
        ("[ ]", []),
        ('{"a": {"a": 1}, "b": {"a": 2}}', {"a": {"a": 1}, "b": {"a": 2}}),
    ],
)
def test_a_text_that_consists_of_json_only_is_bare_and_not_repaired(text, value):
    assert candidates(text) == [Extraction(value, 0, len(text), "bare")]
    for before, after in [(" \n", "\t "), ("\ufeff", "\n"), ("\ufeff \n", "")]:
        assert candidates(before + text + after) == [
            Extraction(value, len(before), len(before + text), "bare")
        ]


@for_each(
    "text, value, source",
    [
        ("```json\n5\n```", 5, "fenced"),
        ('<think>a</think>"b"', "b", "prose"),
        ("<think>[1]</think>\n```\nnull\n```", None, "fenced"),
    ],
)
def test_a_scalar_may_appear_in_a_fence_or_after_thinking(text, value, source):
    (found,) = candidates(text)
    assert (found.value, found.source, found.repairs) == (value, source, ())


@for_each("given", [None, b"{}", {}])
def test_a_value_that_is_not_text_raises_a_type_error(given):
    with pytest.raises(TypeError, match=f"not {type(given).__name__}"):
        candidates(given)


@for_each(
    "text",
    ["", " \n", "So be it.", "NaN", "1e999", "01", "1 2", "'a'", "True", '"a', "-", "5 apples"],
)
def test_words_and_invalid_scalars_are_not_candidates(text):
    assert candidates(text) == []


@for_each(
    "text, value",
    [
        (r'"{\"a\": 1}"', ONE),
        (r' "[1, \"b\"]" ', [1, "b"]),
        (r'"{\n  \"a\": 1\n}"', ONE),
        ('"{}"', {}),
    ],
)
def test_a_string_that_contains_json_is_found_as_a_string_and_as_its_value(text, value):
    scalar, inside = candidates(text)
    start = text.index('"')
    assert isinstance(scalar.value, str)
    assert (scalar.repairs, scalar.source) == ((), "bare")
    assert inside == Extraction(
        value, start, len(text.strip()) + start, "bare", (("double_encoded", start),)
    )


@for_each("text", [r'"{\"a\": 1,}"', r'"so {\"a\": 1}"', r'"\"{}\""', '"5"'])
def test_a_string_that_contains_other_text_is_found_as_a_string_only(text):
    assert [type(candidate.value) for candidate in candidates(text)] == [str]


# ---- in other text

FOUND = {
    "words": (f"So {A} it is.", [(A, ONE, "prose")]),
    "words at the end": (f"So: {A}", [(A, ONE, "prose")]),
    "words after it": (f"{A} it is.", [(A, ONE, "prose", "trailing_text@8")]),
    "words on the next line": (f"{A}\nSo be it.", [(A, ONE, "prose")]),
    "several": (f"a {A} b [2] c", [(A, ONE, "prose"), ("[2]", [2], "prose")]),
    "one each line": (f"{A}\n{A}", [(A, ONE, "prose"), (A, ONE, "prose")]),
    "events": (f"data: {A}\n\ndata: [2]", [(A, ONE, "prose"), ("[2]", [2], "prose")]),
    "in quotes": (
        f"\"{A}\" and '[2]' or `[3]`",
        [(A, ONE, "prose"), ("[2]", [2], "prose"), ("[3]", [3], "prose")],
    ),
    "in round brackets": (f"f({A})", [(A, ONE, "prose")]),
    "assigned": (f"const a = {A};", [(A, ONE, "prose")]),
    "quoted lines": (f"> {A}", [(A, ONE, "prose")]),
    "below a comment": (f"// one\n{A}", [(A, ONE, "prose")]),
    "a fence": (f"```json\n{A}\n```", [(A, ONE, "fenced")]),
    "a fence without language": (f"```\n{A}\n```", [(A, ONE, "fenced")]),
    "a fence in upper case": (f"```JSON\n{A}\n```", [(A, ONE, "fenced")]),
    "a fence between words": (f"Sure!\n```json\n{A}\n```\nIs that all?", [(A, ONE, "fenced")]),
    "a fence after code": (f"```python\nx = 1\n```\nand\n```json\n{A}\n```", [(A, ONE, "fenced")]),
    "a fence on one line": (f"```{A}```", [(A, ONE, "fenced")]),
    "a fence never closed": (f"So:\n```json\n{A}", [(A, ONE, "fenced")]),
    "a long fence": (
        f'````json\n["```"]\n````\n{A}',
        [('["```"]', ["```"], "fenced"), (A, ONE, "prose")],
    ),
    "two fences": (f"```\n{A}\n```\n```\n[2]\n```", [(A, ONE, "fenced"), ("[2]", [2], "fenced")]),
    "two in a fence": (f"```\n{A}\n[2]\n```", [(A, ONE, "fenced"), ("[2]", [2], "fenced")]),
    "code": (f"```js\nlet x = {A};\n```\n{A}", [(A, ONE, "code"), (A, ONE, "prose")]),
    "a mention of invalid JSON": (f'The `{{"a": }}` is {A}.', [(A, ONE, "prose")]),
    "a tag": (f"<tool_call>\n{A}\n</tool_call>", [(A, ONE, "tagged")]),
    "a tag of a template": (f"<|tool|>{A}<|end|>", [(A, ONE, "tagged")]),
    "two tags": (f"<a>{A}</a><a>[2]</a>", [(A, ONE, "tagged"), ("[2]", [2], "tagged")]),
    "thinking": (f"<think>[0]</think>{A}", [("[0]", [0], "thinking"), (A, ONE, "prose")]),
    "thinking that began in the prompt": (
        f"[0]\n</think>\n{A}",
        [("[0]", [0], "thinking"), (A, ONE, "prose")],
    ),
    "thinking that never ends": (f"<think>So {A}", [(A, ONE, "thinking")]),
    "full width": (
        "So ｛“a”：1｝",
        [
            (
                "｛“a”：1｝",
                ONE,
                "prose",
                "fullwidth_punctuation@3 smart_quotes@4 fullwidth_punctuation@7 "
                "fullwidth_punctuation@9",
            )
        ],
    ),
    "escaped": (r"So: {\"a\": 1} it is", [(r"{\"a\": 1}", ONE, "prose", "escaped_json@4")]),
    "escaped, in quotes": (r'So: "{\"a\": 1}"', [(r"{\"a\": 1}", ONE, "prose", "escaped_json@5")]),
    "escaped lines in a fence": (
        '```\n{\\n \\"a\\": 1\\n}\n```',
        [('{\\n \\"a\\": 1\\n}', ONE, "fenced", "escaped_json@4")],
    ),
    "repaired": (
        f"So {{a: 1}}\n{A}",
        [("{a: 1}", ONE, "prose", "unquoted_key@4"), (A, ONE, "prose")],
    ),
    "unquoted text, alone": (
        "[b, c]",
        [("[b, c]", ["b", "c"], "bare", "unquoted_text@1 unquoted_text@4")],
    ),
    "unquoted text in a fence": (
        "```\n[b, c]\n```",
        [("[b, c]", ["b", "c"], "fenced", "unquoted_text@5 unquoted_text@8")],
    ),
}


@for_each("text, expected", FOUND.values())
def test_every_value_is_found_in_its_source(text, expected):
    assert summaries(text) == expected


@for_each(
    "text",
    [
        "Hello {name}, {first name} and {{name}}!",
        "{name}",
        "a [see below] and [x]",
        "[Note: this]",
        "- [ ] to do\n- [x] done",
        "items[0] and f(x)[1, 2] and a[0][1]",
        'f{} and ${a} and \\{"a"}',
        "a [link](http://b.c)",
        "The set {1, 2, 3} or {a, b}",
        "x < {y} and [a-z]+",
        "```python\nx = {1, 2}\n```",
        "```js\n{a: f()}\n```",
    ],
)
def test_brackets_that_are_not_json_are_not_candidates(text):
    assert summaries(text) == []


MARKS = [
    "```json\n{}\n```",
    "``` and </think> and <think>",
    "<tool_call>",
    "}}]] {{[[",
    'a "quoted" } and \\',
    '{"b": 0}',
]


@for_each("mark", MARKS)
@for_each("begin", ["", "So: ", "```\n", "<a>", "<think>a</think>"])
def test_marks_inside_strings_are_text(mark, begin):
    value = {"a": mark, "b": [mark]}
    text = begin + json.dumps(value)
    (found,) = candidates(text + "\n")
    assert (found.value, found.start, found.end, found.repairs) == (
        value,
        len(begin),
        len(text),
        (),
    )


# ---- incomplete and invalid values

PARTS = {
    "unclosed": ('So {"a": 1', [('{"a": 1', ONE, "prose", "missing_closer@10", "part")]),
    "unclosed in a fence": (
        '```\n{"a": 1\n```\n[2]',
        [('{"a": 1\n', ONE, "fenced", "missing_closer@12", "part"), ("[2]", [2], "prose")],
    ),
    "unclosed in a tag": (
        '<a>{"a": 1</a> [2]',
        [('{"a": 1', ONE, "tagged", "missing_closer@10", "part"), ("[2]", [2], "prose")],
    ),
    "unclosed in code": ("```\nx {", [("{", {}, "code", "missing_closer@7", "part")]),
    "unclosed in thinking": (
        f'<think>{{"a": 1</think>{A}',
        [('{"a": 1', ONE, "thinking", "missing_closer@14", "part"), (A, ONE, "prose")],
    ),
    "nothing after it": (
        'So {"a": 1] {"b": 2}',
        [(3, "has an unexpected ]", 10, "prose")],
    ),
    "a string cut by a fence": (
        '```\n{"a": "b\n```',
        [('{"a": "b\n', {"a": "b"}, "fenced", "missing_quote@12 missing_closer@13", "part")],
    ),
    "an ellipsis": ("So [1, ...] or [2]", [("[1, ...]", [1], "prose", "ellipsis@7", "part")]),
    "extra closers": ("[1]]}", [("[1]", [1], "bare", "extra_closer@3")]),
    "extra closers in a fence": ("```\n[1] ]\n```", [("[1]", [1], "fenced", "extra_closer@7")]),
    "closers in prose": ("(see [1, 2])] so", [("[1, 2]", [1, 2], "prose")]),
}


@for_each("text, expected", PARTS.values())
def test_an_incomplete_value_is_marked_as_a_part(text, expected):
    assert summaries(text) == expected


CONTINUES = "continues behind its last bracket"
BROKEN = {
    "no value": ('So {"a": }', [(3, "lacks a value", 9, "prose")]),
    "a key twice": ('{"a": 1, "a": 2}', [(0, 'has the key "a" twice in one object', 9, "prose")]),
    "too deep": ("[" * 201 + "]" * 201, [(0, "is nested too deeply", 0, "prose")]),
    "too deep and cut off": ("So " + "[" * 100_000, [(3, "is nested too deeply", 3, "prose")]),
    "nothing after it": (f'{{"a": }} {A} [2]', [(0, "lacks a value", 6, "prose")]),
    "a fence after it": (
        f'```\n{{"a": }}\n```\n```\n{A}\n```',
        [(4, "lacks a value", 10, "fenced")],
    ),
    "thinking": (
        f'<think>{{"a": }} [2]</think>{A}',
        [(7, "lacks a value", 13, "thinking"), (A, ONE, "prose")],
    ),
    "code": (f'```js\n{{"a": }} [2]\n```\n{A}', [(A, ONE, "prose")]),
    "escaped": (r"{\"a\": 1", [(0, "has escaped quotes and is not valid", 0, "prose")]),
    "guessed quotes and more": (
        '{"a": "b "c" d"} is "it"',
        [(0, "has quotes that can be read in more ways than one", 16, "prose")],
    ),
    "a member after it": ('{"a": 1}, "b": 2}', [(0, CONTINUES, 8, "prose")]),
    "a member after it, unquoted": ("So [1], b}", [(3, CONTINUES, 6, "prose")]),
    "an item after it": ("So [1], 2]", [(3, CONTINUES, 6, "prose")]),
    "an object and a closer": ('{"a": 1}, {"b": 2}]', [(0, CONTINUES, 8, "prose")]),
    "text that touches it": ('{"a": 1}b"}', [(0, CONTINUES, 8, "prose")]),
    "a closer and a member": ('{"a": 1}}, "b": 2}', [(0, CONTINUES, 8, "prose")]),
    "two that touch": ('{"a": 1}{"b": 2}', [(0, CONTINUES, 8, "prose")]),
}


@for_each("text, expected", BROKEN.values())
def test_an_invalid_value_hides_the_values_inside_and_after_it(text, expected):
    assert summaries(text) == expected


# ---- bounds


def test_the_number_of_candidates_is_limited():
    pieces = candidates("[2]\n" * (MOST_CANDIDATES + 5))
    assert len(pieces) == MOST_CANDIDATES + 1
    assert pieces[-1] == InvalidJson(
        4 * MOST_CANDIDATES, "is one value too many", 4 * MOST_CANDIDATES, "prose"
    )
    assert len(candidates("[2]\n" * MOST_CANDIDATES)) == MOST_CANDIDATES


def test_brackets_around_words_are_tried_only_a_few_times():
    text = "```\n" + "[b c d]\n" * 20 + "```"
    assert [candidate.value for candidate in candidates(text)] == [["b c d"]] * 8


def test_any_number_of_lists_separated_by_commas_is_found():
    text = "So " + ", ".join(["[1, 2]"] * 20) + " it is"
    assert [candidate.value for candidate in candidates(text)] == [[1, 2]] * 20


# ---- beside code and closers


def test_a_value_that_its_backticks_cut_is_no_json():
    assert candidates('Use `{"a": [1` here.') == []


def test_an_extra_closer_inside_of_a_tag_is_a_repair():
    assert summaries('<tool_call>{"a": 1}}</tool_call>') == [(A, ONE, "tagged", "extra_closer@19")]


@for_each("text", ["- [ ] {0}", 'Write "[" before "]": {0}'])
def test_a_checkbox_and_a_quoted_bracket_in_prose_are_no_json(text):
    assert summaries(text.replace("{0}", A)) == [(A, ONE, "prose")]


def test_a_list_behind_a_hyphen_in_a_json_fence_is_json():
    assert summaries("```json\n- []\n```") == [("[]", [], "fenced")]
