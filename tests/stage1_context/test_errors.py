from stage1_context import (
    ContextError,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    StoreFailed,
    VariableNotFound,
    WindowTooSmall,
)
from tests.tables import for_each


@for_each(
    "error, builtin",
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


@for_each("error", [SessionConflict, StoreFailed])
def test_errors_that_a_retry_may_fix_are_neither_value_errors_nor_lookup_errors(error):
    assert not issubclass(error, ValueError | LookupError)


@for_each(
    "known, sessions",
    [(None, ""), ([], "Sessions: none yet. "), (["a", "b"], "Sessions: 'a', 'b'. ")],
)
def test_the_error_of_an_unknown_session_lists_those_that_the_store_knows(known, sessions):
    expected = f"Unknown session 'x'. {sessions}Create one with create_session()."
    assert str(SessionNotFound("x", known)) == expected
