import pytest

from stage2_output.parsing.nesting import Nesting
from stage2_output.parsing.strict import MOST_DEPTH, TooDeep


def test_an_opened_container_is_added_to_the_open_one():
    nesting = Nesting()
    root = nesting.open("{")
    root.key = "a"
    items = nesting.open("[")
    items.add(1)
    nesting.open("{")
    assert root.value == {"a": [1, {}]}
    assert nesting.closers == "}]}"


def test_a_closed_container_receives_no_more_values():
    nesting = Nesting()
    root = nesting.open("[")
    nesting.open("[").add(1)
    nesting.close()
    nesting.frames[-1].add(2)
    assert root.value == [[1], 2]
    assert (nesting.closers, nesting.frames) == ("]", [root])
    nesting.close_all()
    assert (nesting.closers, nesting.frames) == ("", [])


def test_adding_a_value_updates_the_state_of_the_frame():
    frame = Nesting().open("[")
    assert (frame.state, frame.bare_text) == ("first", False)
    frame.state, frame.bare_text = "comma", True
    frame.add("a")
    assert (frame.state, frame.bare_text) == ("value", False)


def test_opening_more_containers_than_the_depth_limit_raises_an_error():
    nesting = Nesting()
    for _ in range(MOST_DEPTH):
        nesting.open("[")
    with pytest.raises(TooDeep):
        nesting.open("{")
    nesting.close()
    nesting.open("{")
    assert nesting.closers == "}" + "]" * (MOST_DEPTH - 1)
