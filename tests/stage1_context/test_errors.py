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
def test_an_error_is_a_context_error_and_a_builtin_exception(error, builtin):
    assert issubclass(error, ContextError)
    assert issubclass(error, builtin)


@pytest.mark.parametrize("error", [SessionConflict, StoreFailed])
def test_errors_that_a_retry_may_fix_are_neither_value_errors_nor_lookup_errors(error):
    assert not issubclass(error, ValueError | LookupError)
