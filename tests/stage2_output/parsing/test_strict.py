import json

import pytest

from stage2_output.parsing.strict import MOST_DEPTH, IntactParts, TooDeep, read_strictly
from tests.tables import for_each

VALID = {
    "object": ('{"a": 1}', {"a": 1}),
    "list": ("[1, 2]", [1, 2]),
    "string": (r'"a\n\u00e9\/"', "a\né/"),
    "lone surrogate": (r'"\ud83d"', "\ud83d"),
    "number": ("-1.5e3", -1500.0),
    "long number": ("1" * 300, int("1" * 300)),
    "very small number": ("1e-999", 0.0),
    "literals": ("[true, false, null]", [True, False, None]),
    "whitespace": ('{ "a"\t:\r\n1 }', {"a": 1}),
    "empty": ("[{}, []]", [{}, []]),
    "an empty key": ('{"": 1}', {"": 1}),
    "the same key in two objects": ('[{"a": {"a": 1}}, {"a": 2}]', [{"a": {"a": 1}}, {"a": 2}]),
}


@for_each("text, value", VALID.values())
def test_valid_json_is_read_at_any_position(text, value):
    assert read_strictly(text, 0) == (value, len(text))
    assert read_strictly(f"Hm: {text} and }}", 4) == (value, 4 + len(text))


REJECTED = {
    "nothing": "",
    "words": "abc",
    "whitespace before it": " 1",
    "nan": "NaN",
    "infinity": "Infinity",
    "minus infinity": "-Infinity",
    "nan inside": '{"a": [NaN]}',
    "too large": "[1e999]",
    "too large, negative": "[-1e999]",
    "thousands of digits": "[" + "1" * 5000 + "]",
    "a duplicate key": '{"a": 1, "b": 2, "a": 3}',
    "a duplicate key, the same value": '{"a": 1, "a": 1}',
    "a duplicate key, inside": '[{"b": {"a": 1, "a": 1}}]',
    "a duplicate key, written in two ways": r'{"a": 1, "\u0061": 1}',
    "a leading zero": "[01]",
    "a plus": "[+1]",
    "a trailing comma": "[1,]",
    "single quotes": "['a']",
    "a bare key": "{a: 1}",
    "a comment": "[1 /* one */]",
    "a line break in a string": '["a\nb"]',
    "an invalid escape": r'["\d"]',
    "unclosed": '{"a": [1',
    "a special space": "[\u00a01]",
    "other digits": "[\u0661]",
}


@for_each("text", REJECTED.values())
def test_text_that_is_not_json_is_rejected(text):
    assert read_strictly(text, 0) is None


# ---- depth


def nested(depth, begin="[", end="]"):
    return begin * depth + "1" + end * depth


@for_each("begin, end", [("[", "]"), ('{"a":', "}"), ('{"a":[', "]}")])
def test_json_is_read_up_to_the_depth_limit(begin, end):
    most = MOST_DEPTH // (1 + begin.count("[")) if "{" in begin else MOST_DEPTH
    text = nested(most, begin, end)
    assert read_strictly(text, 0)[1] == len(text)
    for depth in (most + 1, 100_000):
        with pytest.raises(TooDeep):
            read_strictly(nested(depth, begin, end), 0)


def test_wide_values_and_brackets_in_strings_do_not_count_as_depth():
    wide = [[], {}] * MOST_DEPTH
    assert read_strictly("[" + ",".join(["[]", "{}"] * MOST_DEPTH) + "]", 0)[0] == wide
    assert read_strictly('["' + "[" * 1000 + '"]', 0)[0] == ["[" * 1000]


def test_the_depth_limit_applies_at_any_position():
    with pytest.raises(TooDeep):
        read_strictly(f'{{"a": 1, "b": [2, {nested(MOST_DEPTH - 1)}, 3]}}', 0)


# ---- intact parts of a damaged text


def read_part(text, start, end=None):
    return IntactParts(text).read(start, len(text) if end is None else end)


def test_a_part_is_read_at_its_position():
    assert read_part('{x: {"a": [1]}, y', 4) == ({"a": [1]}, 14)
    assert read_part("{x: []}", 4) == ([], 6)


@for_each("text", ["{a: 1}", "[1,]", '{"a": 1', "[tru]", '["a', '["\\', "[", "{", '[{"a" 1}]'])
def test_a_damaged_part_returns_none(text):
    assert read_part(text, 0) is None


def test_a_part_does_not_extend_beyond_the_end():
    assert read_part("[1, [2]] [3]", 0, 7) is None
    assert read_part("[1, [2]] [3]", 4, 7) == ([2], 7)


@for_each("pad", range(1990, 2060))
def test_a_part_is_complete_regardless_of_the_slices_of_the_text(pad):
    text = '["' + "x" * pad + '", {"key": "a \\u00e9 b"}, true, null, -12.5e3, [false]]'
    value = ["x" * pad, {"key": "a é b"}, True, None, -12500.0, [False]]
    assert read_part("!" + text + ",", 1) == (value, 1 + len(text))


@for_each("size", [100_000, 1_000_000])
def test_a_part_may_be_long(size):
    text = '{"a": "' + "x" * size + '"}'
    assert read_part(text, 0) == ({"a": "x" * size}, len(text))


@for_each("escape", [r"\"", r"\\", r"\n"])
@for_each("before", ["", "x"])
def test_a_slice_may_end_before_or_inside_an_escape(escape, before):
    text = f'["{before}{escape * 10_000}"]'
    assert read_part(text, 0) == (json.loads(text), len(text))


def test_a_part_that_is_nested_too_deeply_raises_an_error():
    with pytest.raises(TooDeep):
        read_part("{a: " + nested(MOST_DEPTH + 1), 4)


def test_the_number_of_failed_attempts_is_limited():
    text = "[1, 2;" + " " * 100 + "[3]"
    parts = IntactParts(text)
    assert parts.read(106, len(text)) == ([3], len(text))
    for _ in range(100):
        assert parts.read(0, len(text)) is None
    assert [parts.read(106, len(text)) for _ in range(4)] == [None] * 4
