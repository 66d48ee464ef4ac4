"""Common lines are found in linear time, and the chunks contain all lines of both texts."""

import random
from difflib import SequenceMatcher

import pytest

from llm_stages.runs import matching
from llm_stages.runs.matching import chunks
from tests.tables import for_each


def joined(found, side):
    return [line for chunk in found for line in getattr(chunk, side)]


def lines(count):
    return [f"line {number}" for number in range(count)]


def equal_lines(left, right):
    found = list(chunks(left, right))
    assert (joined(found, "left"), joined(found, "right")) == (left, right)
    assert all(chunk.is_equal == (chunk.left == chunk.right) for chunk in found)
    return sum(len(chunk.left) for chunk in found if chunk.is_equal)


def test_random_texts_keep_all_their_lines():
    choice = random.Random(1)
    for _ in range(500):
        texts = [[choice.choice("abcdef") for _ in range(choice.randrange(9))] for _ in "12"]
        equal_lines(*texts)


@for_each(
    "left, right, expected",
    [
        ([], [], 0),
        (["a"], [], 0),
        (["a"], ["a"], 1),
        (["a", "b", "c"], ["a", "x", "c"], 2),
        (["a", "a"], ["a"], 1),
        (["x", "a", "b", "y"], ["a", "b"], 2),
    ],
)
def test_small_texts_are_compared_line_by_line(left, right, expected):
    assert equal_lines(left, right) == expected


def test_two_distant_changes_of_a_long_text_are_found():
    left, right = lines(5000), lines(5000)
    right[3], right[4990] = "other", "another"
    assert equal_lines(left, right) == 4998
    assert equal_lines(lines(5000), [*lines(2000), "new", *lines(5000)[2000:]]) == 5000


def test_moved_lines_are_equal_on_one_of_both_places():
    left = lines(1000)
    assert equal_lines(left, [*left[500:], *left[:500]]) == 500


class Line(str):
    """A line that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Line.compared += 1
        return super().__eq__(other)


def two_different_lines(count):
    choice = random.Random(1)
    return [choice.choice("ab") for _ in range(count)]


@pytest.mark.parametrize("new_lines", [lambda count: ["x"] * count, two_different_lines, lines])
def test_the_number_of_comparisons_is_linear(new_lines, monkeypatch):
    class Counted(SequenceMatcher):
        """A matcher whose comparisons are those of the worst case."""

        def __init__(self, junk, left, right, autojunk):
            Line.compared += len(left) * len(right)
            super().__init__(junk, left, right, autojunk)

    def comparisons(count):
        left = [*map(Line, new_lines(count))]
        right = [Line(left[number ^ 1]) for number in range(count)]  # neighbors are exchanged
        right[count // 2] = Line("other")
        Line.compared = 0
        assert [*chunks(left, right)]
        return Line.compared

    monkeypatch.setattr(matching, "SequenceMatcher", Counted)
    assert comparisons(4000) < 2.5 * comparisons(2000)
