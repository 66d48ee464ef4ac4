"""Tests that compare the rows of a table."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Test = Callable[..., Any]
OUTCOMES = (Exception, pytest.fail.Exception, pytest.skip.Exception)


def for_each(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each row, and report the rows that fail as its subtests.

    The arguments are those of `pytest.mark.parametrize`, and two tables are combined in the same
    way. A row costs only its own work, while each case of `parametrize` costs two milliseconds. All
    rows share the fixtures of the test, so no row may change them.

        @for_each("text, value", [("1", 1), ("[]", [])])
        def test_json_is_read(text, value):
            assert extract_json(text).value == value
    """
    columns = [name.strip() for name in names.split(",")]
    table = []
    for row in rows:
        assert not isinstance(row, type(pytest.param())), "A row is a tuple, not a pytest.param()."
        table.append(dict(zip(columns, row if len(columns) > 1 else [row], strict=True)))
    assert table, "A table without rows tests nothing."

    def decorate(test: Test) -> Test:
        other = getattr(test, "table", None)
        combined = [{**row, **each} for row in table for each in other or [{}]]
        return _test_of(inspect.unwrap(test) if other else test, combined)

    return decorate


def _test_of(test: Test, table: list[Mapping[str, Any]]) -> Test:
    """Return a test that runs another one for each row."""

    def run(*args: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
        for row in table:
            try:
                test(*args, **row, **fixtures)
            except OUTCOMES:
                with subtests.test(**row):
                    raise

    async def run_async(*args: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
        for row in table:
            try:
                await test(*args, **row, **fixtures)
            except OUTCOMES:
                with subtests.test(**row):
                    raise

    result = functools.wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
    signature = inspect.signature(test)
    fixtures = [each for name, each in signature.parameters.items() if name not in table[0]]
    subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
    result.__signature__ = signature.replace(parameters=[*fixtures, subtests])
    result.table = table
    return result
