"""What can be known of a function without calling it: whether it is async, what it takes, of which
types.

A function may be a method, a partial, an object with `__call__`, or be decorated; annotations may
be written as text. Used by `signature` and `tool`, which decide what to make of it.
"""

import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from stage3_tools.context import ToolContext


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, plain or async, instead of a value."""
    of_kind = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(each(function) or each(type(function).__call__) for each in of_kind)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many arguments by position, and nothing else."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say what it takes
        return count == 1
    return True


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a builtin that does not say what it takes
        return []


def has_context(function: Callable[..., Any]) -> bool:
    """Whether the second parameter is meant for a context: `lambda arguments, x=x: …` has another
    one there.
    """
    return any(
        each.name == "context" or each.default is each.empty or _is_annotated(each, function)
        for each in _parameters(function)[1:2]
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    )


def misplaces_context(function: Callable[..., Any]) -> bool:
    """Whether a parameter annotated `ToolContext` stands where none will be given."""
    return any(
        (place != 1 or each.kind is each.KEYWORD_ONLY) and _is_annotated(each, function)
        for place, each in enumerate(_parameters(function))
    )


def _is_annotated(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    try:
        return is_context(annotation_of(parameter, function))
    except Exception:  # an annotation may be any expression; one that nobody needs may be wrong
        return False


def annotation_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """The type a parameter is annotated with, also where types are written as text.

    Raises:
        NameError: It is not known in the function's module.
        Exception: Whatever reading it raises.
    """
    if parameter.annotation is parameter.empty:
        return Any
    below = plain(function)
    known = getattr(below, "__globals__", None) or getattr(type(below).__call__, "__globals__", {})
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, known, include_extras=True)[parameter.name]
    except NameError as error:
        where = "import or define it at the top of the module, and not only for type checkers"
        raise NameError(f"{error} for the type of {parameter.name}; {where}") from None


def is_context(kind: Any) -> bool:
    """Whether a type is `ToolContext`, or that or None."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind is ToolContext or (
        get_origin(kind) in (Union, UnionType) and ToolContext in get_args(kind)
    )


def plain(function: Callable[..., Any]) -> Any:
    """The function below decorators and partials."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    return function
