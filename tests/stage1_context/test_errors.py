import pytest

from stage1_context import ContextError, SessionExists, SessionNotFound, WindowTooSmall


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(SessionNotFound, LookupError), (SessionExists, ValueError), (WindowTooSmall, ValueError)],
)
def test_an_error_is_caught_as_the_stages_own_and_as_pythons(error, builtin):
    assert issubclass(error, ContextError)
    assert issubclass(error, builtin)
