import pytest

from stage2_output.damage import Repair
from stage2_output.nesting import Nesting
from stage2_output.runs import read_key, read_run


def run(text, bracket):
    """What was read, what of the text is left, the state of the object or array, and what was mended."""
    repairs = []
    frame = Nesting().open(bracket)
    at = read_run(text, 0, len(text), frame, repairs)
    return frame.value, text[at:], frame.state, repairs


MEMBERS = {
    "strict": ('"a": 1, "b": "x"}', {"a": 1, "b": "x"}, "}", "value", []),
    "single quotes": (
        "'a': 'x', 'b': 2}",
        {"a": "x", "b": 2},
        "}",
        "value",
        [Repair("single_quotes", 0), Repair("single_quotes", 5), Repair("single_quotes", 10)],
    ),
    "smart quotes": (
        "“a”: “x”}",
        {"a": "x"},
        "}",
        "value",
        [Repair("smart_quotes", 0), Repair("smart_quotes", 5)],
    ),
    "bare keys": (
        "a: true, b_1: null}",
        {"a": True, "b_1": None},
        "}",
        "value",
        [Repair("unquoted_key", 0), Repair("unquoted_key", 9)],
    ),
    "Python's literals": (
        '"a": None, "b": True, "c": False}',
        {"a": None, "b": True, "c": False},
        "}",
        "value",
        [Repair("literal", 5), Repair("literal", 16), Repair("literal", 27)],
    ),
    "wide marks": (
        '"a"：1，"b"：2}',
        {"a": 1, "b": 2},
        "}",
        "value",
        [Repair("fullwidth_punctuation", place) for place in (3, 5, 9)],
    ),
    "a comma is missing": (
        '"a": 1 "b": 2}',
        {"a": 1, "b": 2},
        "}",
        "value",
        [Repair("missing_comma", 7)],
    ),
    "a comma too many": ('"a": 1,}', {"a": 1}, "}", "comma", []),
    "up to an object": ('"a": 1, "b": {}}', {"a": 1}, '"b": {}}', "comma", []),
    "up to an escape": ('"a": 1, "b": "\\n"}', {"a": 1}, '"b": "\\n"}', "comma", []),
    "up to an inner quote": (
        '"a": 1, "b": "x" y", "c": 1}',
        {"a": 1},
        '"b": "x" y", "c": 1}',
        "comma",
        [],
    ),
    "up to the same key": ('"a": 1, "a": 2}', {"a": 1}, '"a": 2}', "comma", []),
    "up to a comment": ('"a": 1, // one\n"b": 2}', {"a": 1}, '// one\n"b": 2}', "comma", []),
    "up to a number too large": ("\"a\": 1, 'b': 1e999}", {"a": 1}, "'b': 1e999}", "comma", []),
    "not the wrong bracket": ('"a": 1]', {}, '"a": 1]', "first", []),
    "not an end": ('"a": 1', {}, '"a": 1', "first", []),
}


@pytest.mark.parametrize(("text", "members", "left", "state", "repairs"), MEMBERS.values(), ids=MEMBERS)
def test_plain_members_are_read_up_to_the_first_other_one(text, members, left, state, repairs):
    assert run(text, "{") == (members, left, state, repairs)


ITEMS = {
    "strict": ('1, "x", true, -2.5e3]', [1, "x", True, -2500.0], "]", "value", []),
    "a comma is missing between texts": ('"a" "b"]', ["a", "b"], "]", "value", [Repair("missing_comma", 4)]),
    "a comma is missing between lines": ("1\n2]", [1, 2], "]", "value", [Repair("missing_comma", 2)]),
    "two numbers in a line": ("1 2]", [], "1 2]", "first", []),
    "two texts without a space": ('"a""b"]', [], '"a""b"]', "first", []),
    "a comma too many": ("1, 2,]", [1, 2], "]", "comma", []),
    "up to an array": ("1, [2]]", [1], "[2]]", "comma", []),
    "up to an ellipsis": ("1, 2, ...]", [1, 2], "...]", "comma", []),
    "up to a bare word": ("1, 2, x]", [1], "2, x]", "comma", []),
    "up to the end": ("1, 2", [], "1, 2", "first", []),
}


@pytest.mark.parametrize(("text", "items", "left", "state", "repairs"), ITEMS.values(), ids=ITEMS)
def test_plain_items_are_read_up_to_the_first_other_one(text, items, left, state, repairs):
    assert run(text, "[") == (items, left, state, repairs)


def test_the_place_of_the_last_comma_is_kept():
    frame = Nesting().open("[")
    read_run("[1, 2 , ]", 1, 9, frame, [])
    assert (frame.value, frame.state, frame.comma) == ([1, 2], "comma", 6)


@pytest.mark.parametrize(
    ("text", "key", "left", "repairs"),
    [
        ('"a": {}', "a", "{}", []),
        ("'a' : [1]", "a", "[1]", [Repair("single_quotes", 0)]),
        ("a：{}", "a", "{}", [Repair("fullwidth_punctuation", 1), Repair("unquoted_key", 0)]),
        ('"a": 1', "", '"a": 1', []),
        ('"old": {}', "", '"old": {}', []),
    ],
    ids=["strict", "single quotes", "bare", "no bracket", "the same key"],
)
def test_a_plain_key_is_read_up_to_the_bracket_behind_it(text, key, left, repairs):
    found, frame = [], Nesting().open("{")
    frame.value["old"] = 1
    at = read_key(text, 0, len(text), frame, found)
    assert (frame.key, text[at:], found) == (key, left, repairs)
