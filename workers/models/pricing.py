"""What tokens cost, in micro-dollars, by the prices that the settings give; the product knows none itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

from pydantic import BaseModel, ConfigDict, Field

from workers.models.protocol import Usage


class Price(BaseModel):
    """What one model's tokens cost.

    Units: dollars per million tokens, which is micro-dollars per token.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float = Field(ge=0, allow_inf_nan=False)
    cache_write: float = Field(ge=0, allow_inf_nan=False)


def price_of(prices: Mapping[str, Price], provider: str, model: str) -> Price | None:
    """Give a model's price: what is set for ``provider/model``, else for ``model``; None where neither is."""
    return prices.get(f"{provider}/{model}", prices.get(model))


def cost(usage: Usage, price: Price | None) -> int | None:
    """Give what a request cost, None where the model has no price.

    Units: micro-dollars, rounded up.
    """
    if price is None:
        return None
    parts = (
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_written_tokens, price.cache_write),
    )
    # A price such as 0.1 is no binary number, and must not make a micro-dollar of its rounding error.
    exact = sum((tokens * Decimal(str(each)) for tokens, each in parts), Decimal(0))
    return int(exact.to_integral_value(ROUND_CEILING))


def dollars(micro_dollars: int) -> str:
    """Give an amount for people, such as ``$1.25``; less than a cent with as many places as it takes."""
    if 0 < micro_dollars < 10_000:
        return f"${micro_dollars / 1_000_000:.6f}".rstrip("0")
    return f"${micro_dollars / 1_000_000:,.2f}"
