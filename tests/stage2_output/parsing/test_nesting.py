import pytest

from stage2_output.parsing.nesting import Nesting
from stage2_output.parsing.strict import MOST_DEPTH, TooDeep


def test_what_is_opened_stands_in_what_is_open():
    nesting = Nesting()
    root = nesting.open("{")
    root.key = "a"
    items = nesting.open("[")
    items.add(1)
    nesting.open("{")
    assert root.value == {"a": [1, {}]}
    assert nesting.closers == "}]}"


def test_what_is_closed_takes_no_more():
    nesting = Nesting()
    root = nesting.open("[")
    nesting.open("[").add(1)
    nesting.close()
    nesting.frames[-1].add(2)
    assert root.value == [[1], 2]
    assert (nesting.closers, nesting.frames) == ("]", [root])
    nesting.close_all()
    assert (nesting.closers, nesting.frames) == ("", [])


def test_a_value_ends_what_was_said_of_the_one_before_it():
    frame = Nesting().open("[")
    assert (frame.state, frame.bare_text) == ("first", False)
    frame.state, frame.bare_text = "comma", True
    frame.add("a")
    assert (frame.state, frame.bare_text) == ("value", False)


def test_no_more_is_opened_than_may_be():
    nesting = Nesting()
    for _ in range(MOST_DEPTH):
        nesting.open("[")
    with pytest.raises(TooDeep):
        nesting.open("{")
    nesting.close()
    nesting.open("{")
    assert nesting.closers == "}" + "]" * (MOST_DEPTH - 1)
