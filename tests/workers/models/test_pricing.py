from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.ledger import (
    Amount,
    Budget,
    BudgetReachedError,
    BudgetScope,
    BudgetUnit,
    Price,
    Room,
    cost,
    day_start,
    dollars,
    granted,
    most_of,
    price_of,
)
from workers.models.protocol import Form, Message, Part, Question, Role, Usage

PRICE = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
COUNTS = st.integers(0, 10_000_000)
DOLLARS = st.floats(0, 1000, allow_nan=False)


@pytest.mark.parametrize(
    ("usage", "micro_dollars"),
    [
        (Usage(), 0),
        (Usage(input_tokens=1_000_000), 3_000_000),
        (Usage(output_tokens=1), 15),
        (Usage(cache_read_tokens=10), 3),
        (Usage(cache_read_tokens=11), 4),
        (Usage(cache_written_tokens=1_000_000), 3_750_000),
        (Usage(1, 1, 1, 1), 23),
    ],
)
def test_cost_is_a_micro_dollar_a_token_for_each_dollar_a_million(usage: Usage, micro_dollars: int) -> None:
    assert cost(usage, PRICE) == micro_dollars


def test_price_that_is_no_binary_number_costs_nothing_more() -> None:
    assert cost(Usage(input_tokens=10), Price(input=1.1, output=0, cache_read=0, cache_write=0)) == 11


def test_cost_of_a_model_without_a_price_is_unknown() -> None:
    assert cost(Usage(input_tokens=1), None) is None


def test_price_of_a_provider_goes_before_the_model_s() -> None:
    prices = {"m": PRICE, "relay/m": replace_input(1)}
    assert price_of(prices, "relay", "m") == replace_input(1)
    assert price_of(prices, "anthropic", "m") == PRICE
    assert price_of(prices, "anthropic", "other") is None


def replace_input(value: float) -> Price:
    return PRICE.model_copy(update={"input": value})


@pytest.mark.parametrize(
    ("micro_dollars", "told"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (6053, "$0.006053"),
        (5000, "$0.005"),
        (10_000, "$0.01"),
        (1_234_567_890, "$1,234.57"),
    ],
)
def test_dollars_are_told_to_the_cent_and_less_in_full(micro_dollars: int, told: str) -> None:
    assert dollars(micro_dollars) == told


def question(text: str, **changes: Any) -> Question:
    return replace(Question("generate", (Part("ab"),), (Message(Role.user, (Part(text), Part("c"))),)), **changes)


def test_most_of_a_question_counts_every_text_its_answer_and_its_thinking() -> None:
    form = Form("name", "description", {"type": "object"})
    plain = question("x" * 3, most_tokens=100, thinking_tokens=50)
    assert most_of(plain, None) == Amount(2, 150, None)
    with_form = most_of(replace(plain, form=form), None)
    assert with_form.input_tokens == -(-(6 + 4 + 11 + len(str(form.schema))) // 3)


def test_most_takes_every_token_for_the_dearest_that_it_may_be() -> None:
    assert most_of(question("x" * 3, most_tokens=1), PRICE).micro_dollars == 15 + 8
    assert most_of(question("x" * 3, most_tokens=1), replace_input(10)).micro_dollars == 15 + 20


@given(
    st.text(max_size=300), COUNTS, DOLLARS, DOLLARS, DOLLARS, st.sampled_from(["input", "cache_written", "cache_read"])
)
def test_no_request_within_the_estimate_costs_more_than_it(
    text: str, output: int, price_in: float, price_out: float, price_write: float, read_as: str
) -> None:
    price = Price(input=price_in, output=price_out, cache_read=min(price_in, price_write), cache_write=price_write)
    most = most_of(question(text, most_tokens=output), price)
    usage = Usage(output_tokens=output, **{f"{read_as}_tokens": most.input_tokens})
    assert (cost(usage, price) or 0) <= (most.micro_dollars or 0)


def test_day_begins_at_midnight_utc() -> None:
    assert day_start(1_800_000_000.0) == 1_799_971_200.0
    assert day_start(1_799_971_200.0) == 1_799_971_200.0


def test_promises_to_others_stop_a_question_only_where_nobody_waits_for_them() -> None:
    limit = most_of(question("x"), PRICE).micro_dollars or 0
    room = Room(Budget(BudgetScope.job, BudgetUnit.micro_dollars, limit, "SETTING"), 0, limit, "acme/kernels")
    assert granted(question("x"), PRICE, (room,), 0.0, waits=True) is None
    with pytest.raises(BudgetReachedError):
        granted(question("x"), PRICE, (room,), 0.0, waits=False)


@pytest.mark.parametrize(("price", "refused"), [(None, False), (PRICE, True)])
def test_cost_that_is_not_known_passes_no_budget_in_dollars(price: Price | None, refused: bool) -> None:
    room = Room(Budget(BudgetScope.job, BudgetUnit.micro_dollars, 0, "SETTING"), 0, 0, "acme/kernels")
    asked = question("x")
    if refused:
        with pytest.raises(BudgetReachedError):
            granted(asked, price, (room,), 0.0, waits=True)
    else:
        assert granted(asked, price, (room,), 0.0, waits=True) is asked
