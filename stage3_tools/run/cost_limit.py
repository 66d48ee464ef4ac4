"""A limit of the cost of a run whose costs are unknown: refuse it, or end the run.

A limit that is never reached, because no price is known, would be a silent mistake. It is refused
before the first request if the gateway has no prices; otherwise the first reply without a cost ends
the run. `RunLimits.reached` compares known costs. Used by `state.py`.
"""

from stage0_gateway import ChatModel, ChatResponse, ConfigurationError
from stage3_tools.options import RunLimits


def check_prices(limits: RunLimits, gateway: ChatModel | None) -> None:
    """Refuse a limit of the cost if the model of a run is known to have no prices.

    Raises:
        ConfigurationError: The gateway has no prices.
    """
    if limits.cost is not None and gateway is not None and not gateway.has_prices:
        raise ConfigurationError(
            f"The limit of {limits.cost:g} dollars needs prices, and {gateway.model!r} has none. "
            f"{_add_prices(gateway.model)}"
        )


def unknown_cost(limits: RunLimits, response: ChatResponse) -> str | None:
    """Return why a limit of the cost cannot be applied after a reply; None if it can."""
    if limits.cost is None or response.cost is not None:
        return None
    model = response.model or "the model"
    problem = (
        f"The limit of {limits.cost:g} dollars cannot be applied, because the cost of a reply of "
        f"{model!r} is unknown"
    )
    if response.usage is None:
        return f"{problem}: the server reported no tokens."
    return f"{problem}. {_add_prices(model)}"


def _add_prices(model: str) -> str:
    table = f"PriceTable({{{model!r}: Price(0.25, 2.0)}})"
    return (
        f"Pass Gateway(…, prices={table}) with dollars per million tokens of input and output, "
        "Price(0, 0) for a model that costs nothing, or prices=GenaiPrices() for list prices."
    )
