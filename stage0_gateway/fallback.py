"""Request a reply from one model after the other until one answers.

An error of one model's server says nothing about the next: the model may be down, unknown, or too
small for the prompt. Only a wrong configuration is raised at once. Knows no HTTP. Used by the
gateway; each model is retried before the next one is tried.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from stage0_gateway.errors import ConfigurationError, GatewayError

M = TypeVar("M")
T = TypeVar("T")


async def first_answer(
    models: Sequence[M],
    ask: Callable[[M], Awaitable[T]],
    on_fallback: Callable[[GatewayError, M, M], None],
) -> T:
    """Return the reply of the first model that gives one.

    Args:
        models: The models, in the order in which they are tried; at least one.
        ask: Requests a reply from a model.
        on_fallback: Receives an error, the model that caused it, and the model that is tried next.

    Raises:
        GatewayError: The last model's. `earlier` holds the errors of the others, and its text shows
            them.
    """
    earlier: list[GatewayError] = []
    for model, following in pairwise(models):
        try:
            return await ask(model)
        except ConfigurationError:
            raise
        except GatewayError as error:
            earlier.append(error)
            on_fallback(error, model, following)
    try:
        return await ask(models[-1])
    except GatewayError as error:
        if earlier and not isinstance(error, ConfigurationError):
            reasons = "; ".join(f"{type(one).__name__}: {one}" for one in earlier)
            error.args = (f"{error} The models asked before it: {reasons}",)
            error.earlier = tuple(earlier)
        raise
