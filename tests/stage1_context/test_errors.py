import pytest

from stage1_context import (
    ContextError,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    StoreFailed,
    VariableNotFound,
    WindowTooSmall,
)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (SessionNotFound, LookupError),
        (SessionExists, ValueError),
        (SessionConflict, Exception),
        (StoreFailed, Exception),
        (WindowTooSmall, ValueError),
        (VariableNotFound, LookupError),
    ],
)
def test_an_error_is_caught_as_the_stages_own_and_as_pythons(error, builtin):
    assert issubclass(error, ContextError)
    assert issubclass(error, builtin)


@pytest.mark.parametrize("error", [SessionConflict, StoreFailed])
def test_what_trying_again_may_mend_is_not_taken_for_a_wrong_value(error):
    assert not issubclass(error, ValueError | LookupError)
