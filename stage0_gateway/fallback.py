"""Ask one model after the other until one answers.

Whatever one model's server says no to, another may still do: a model that is down, a name that is gone, a
prompt that is too long for the first. Only a wrong setup is raised at once. Knows nothing of HTTP; used by
the gateway around the retries, which come first for each model.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stage0_gateway.errors import ConfigurationError, GatewayError

M = TypeVar("M")
T = TypeVar("T")


async def first_answer(
    models: Sequence[M],
    ask: Callable[[M], Awaitable[T]],
    on_fallback: Callable[[GatewayError, M, M], None],
) -> T:
    """The answer of the first model that gives one.

    Args:
        models: In the order in which they are asked.
        ask: Asks one of them.
        on_fallback: Told of an error, the model it came from, and the model that is asked next.

    Raises:
        GatewayError: The last model's. `earlier` holds what the others said, and the text shows it.
    """
    earlier: list[GatewayError] = []
    for model, following in zip(models, [*models[1:], None], strict=True):
        try:
            return await ask(model)
        except ConfigurationError:
            raise
        except GatewayError as error:
            if following is None:
                raise _with_reasons(error, earlier) from error.__cause__
            earlier.append(error)
            on_fallback(error, model, following)
    raise AssertionError("unreachable: there is at least one model")


def _with_reasons(error: GatewayError, earlier: list[GatewayError]) -> GatewayError:
    if earlier:
        reasons = "; ".join(f"{type(one).__name__}: {one}" for one in earlier)
        error.args = (f"{error} The models asked before it: {reasons}",)
        error.earlier = tuple(earlier)
    return error
