import pytest

from stage0_gateway import Usage
from stage3_tools import LoopStats, ToolLoopResult


def result(status):
    return ToolLoopResult(None, status, None, 0, None, Usage(), None, (), (), LoopStats(0, 0, 0.0))


@pytest.mark.parametrize(
    ("status", "reached"), [("max_rounds", True), ("limit", False), ("completed", False)]
)
def test_only_one_status_says_that_the_tools_were_taken_away(status, reached):
    assert result(status).max_rounds_reached is reached


def test_what_was_said_and_done_is_not_in_its_repr():
    assert "history" not in repr(result("completed"))
    assert "messages" not in repr(result("completed"))
