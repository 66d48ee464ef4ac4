import functools
import inspect

from stage3_tools import ToolContext
from stage3_tools.schema.callables import (
    accepts,
    annotation_of,
    has_context,
    is_async,
    is_context,
    is_generator,
    misplaces_context,
    undecorated,
)
from tests.tables import for_each


def function(a, b=1): ...


async def later(a): ...


def yields(a):
    yield a


async def yields_later(a):
    yield a


class Called:
    def __call__(self, a): ...


class CalledLater:
    async def __call__(self, a): ...


@for_each(
    "given, found",
    [
        (function, False),
        (later, True),
        (Called(), False),
        (CalledLater(), True),
        (functools.partial(later), True),
    ],
)
def test_is_async_detects_callables_that_return_an_awaitable(given, found):
    assert is_async(given) is found


@for_each(
    "given, found",
    [(function, False), (later, False), (yields, True), (yields_later, True), (Called(), False)],
)
def test_is_generator_detects_generator_functions(given, found):
    assert is_generator(given) is found


@for_each(
    "given, counts",
    [(function, {1, 2}), (later, {1}), (lambda: None, set()), (print, {1, 2, 3}), (type, {1})],
)
def test_accepts_checks_the_number_of_positional_arguments(given, counts):
    assert {count for count in (1, 2, 3) if accepts(given, count)} >= counts - {3}
    assert not accepts(lambda: None, 1)


def test_undecorated_unwraps_decorators_and_partials():
    @functools.wraps(function)
    def wrapper(*args): ...

    assert undecorated(functools.partial(wrapper, 1)) is function


def with_types(a: "int", b: "ToolContext | None" = None, *, c: ToolContext): ...


def test_a_quoted_type_is_resolved_in_the_module_of_the_function():
    parameters = inspect.signature(with_types).parameters
    kinds = {name: annotation_of(each, with_types) for name, each in parameters.items()}
    assert kinds["a"] is int
    assert [name for name, kind in kinds.items() if is_context(kind)] == ["b", "c"]


@for_each(
    "given, wants, misplaced",
    [
        (lambda a: None, False, False),
        (lambda a, context: None, True, False),
        (lambda a, context=None: None, True, False),
        (lambda a, other: None, True, False),
        (lambda a, a2=1: None, False, False),
        (with_types, True, True),
    ],
)
def test_has_context_and_misplaces_context_detect_the_context_parameter(given, wants, misplaced):
    assert (has_context(given), misplaces_context(given)) == (wants, misplaced)
