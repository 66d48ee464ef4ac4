"""Inspect a function without calling it: async or not, accepted arguments, annotations.

The function may be a method, a partial, an object with `__call__`, or decorated. Annotations may be
written as text. Used by `signature` and `tool`.
"""

import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from stage3_tools.context import ToolContext


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call of the function returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def is_generator(function: Callable[..., Any]) -> bool:
    """Return whether a call of the function returns a plain or async generator."""
    return any(
        check(function) or check(type(function).__call__)
        for check in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Return whether the function can be called with exactly `count` positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return count == 1
    return True


def has_context(function: Callable[..., Any]) -> bool:
    """Return whether the second parameter is for a context.

    The second parameter of `lambda arguments, x=x: ...` is not, and neither is `days: int`.
    """
    for parameter in _parameters(function)[1:2]:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            annotation = _known_annotation(parameter, function)
            is_required = parameter.default is parameter.empty
            return (
                parameter.name == "context"
                or is_context(annotation)
                or (is_required and annotation is Any)
            )
    return False


def misplaces_context(function: Callable[..., Any]) -> bool:
    """Return whether a parameter annotated `ToolContext` is in a position that gets no context."""
    return any(
        (position != 1 or parameter.kind is parameter.KEYWORD_ONLY)
        and is_context(_known_annotation(parameter, function))
        for position, parameter in enumerate(_parameters(function))
    )


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of all parameters; empty for a builtin without a signature."""
    return [parameter.name for parameter in _parameters(function)]


def annotation_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Return the type of a parameter; annotations written as text are evaluated.

    Raises:
        NameError: The function's module does not define the type.
        Exception: The annotation is an invalid expression.
    """
    if parameter.annotation is parameter.empty:
        return Any
    inner = undecorated(function)
    names = getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, names, include_extras=True)[parameter.name]
    except NameError as error:
        fix = "import or define it at the top of the module, and not only for type checkers"
        raise NameError(f"{error} for the type of {parameter.name}; {fix}") from None


def is_context(annotation: Any) -> bool:
    """Return whether a type is `ToolContext`, or an optional `ToolContext`."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation is ToolContext or (
        get_origin(annotation) in (Union, UnionType) and ToolContext in get_args(annotation)
    )


def undecorated(function: Callable[..., Any]) -> Any:
    """Return the function below decorators and partials."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    return function


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a builtin without a signature
        return []


def _known_annotation(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    try:
        return annotation_of(parameter, function)
    except Exception:  # an annotation may be any expression, and this one may not be needed
        return Any
