from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.models.ledger import Budget, BudgetScope, BudgetUnit, Price
from workers.settings import Settings, WrongSettingsError, environment_with, load_settings

PRICE = '{"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}'


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("KERNELSMITH_MODEL", "KERNELSMITH_ANTHROPIC", "KERNELSMITH_OPENAI")):
            monkeypatch.delenv(name)


def setting(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"KERNELSMITH_{name.upper()}", value)


def refused(monkeypatch: pytest.MonkeyPatch, **values: str) -> str:
    setting(monkeypatch, **values)
    with pytest.raises(WrongSettingsError) as caught:
        load_settings()
    return str(caught.value)


def test_tokens_are_limited_by_themselves_and_dollars_where_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    setting(monkeypatch, model_dollars_per_person_day="2.5", model_tokens_per_job="7")
    assert load_settings().budgets() == (
        Budget(BudgetScope.job, BudgetUnit.tokens, 7, "KERNELSMITH_MODEL_TOKENS_PER_JOB"),
        Budget(BudgetScope.person, BudgetUnit.tokens, 5_000_000, "KERNELSMITH_MODEL_TOKENS_PER_PERSON_DAY"),
        Budget(BudgetScope.person, BudgetUnit.micro_dollars, 2_500_000, "KERNELSMITH_MODEL_DOLLARS_PER_PERSON_DAY"),
        Budget(BudgetScope.repository, BudgetUnit.tokens, 10_000_000, "KERNELSMITH_MODEL_TOKENS_PER_REPOSITORY_DAY"),
        Budget(
            BudgetScope.installation, BudgetUnit.tokens, 20_000_000, "KERNELSMITH_MODEL_TOKENS_PER_INSTALLATION_DAY"
        ),
    )


def test_prices_and_budgets_reach_a_process_that_is_started_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting(monkeypatch, data_dir=str(tmp_path), model_prices=f'{{"m": {PRICE}}}', model_dollars_per_job="1.5")
    given = load_settings()
    assert given.model_prices == {"m": Price(input=3, output=15, cache_read=0.3, cache_write=3.75)}
    environment = environment_with(given)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings() == given


@pytest.mark.parametrize("prices", ["{}", f'{{"other": {PRICE}}}', f'{{"openai/m": {PRICE}}}'])
def test_limit_in_dollars_needs_a_price_for_every_model(monkeypatch: pytest.MonkeyPatch, prices: str) -> None:
    told = refused(
        monkeypatch,
        anthropic_model="m",
        anthropic_api_key="sk-ant-secret",
        model_prices=prices,
        model_dollars_per_repository_day="5",
    )
    assert told == (
        "a setting cannot be used:\n- KERNELSMITH_MODEL_DOLLARS_PER_REPOSITORY_DAY limits dollars, and "
        "KERNELSMITH_MODEL_PRICES has no price for the model that KERNELSMITH_ANTHROPIC_MODEL names"
    )


@pytest.mark.parametrize("named", ["m", "anthropic/m"])
def test_limit_in_dollars_starts_with_prices(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    setting(
        monkeypatch,
        anthropic_model="m",
        anthropic_api_key="sk-ant-secret",
        model_prices=f'{{"{named}": {PRICE}}}',
        model_dollars_per_job="5",
    )
    assert load_settings().model_dollars_per_job == 5


def test_model_without_a_price_starts_where_no_dollars_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    setting(monkeypatch, anthropic_model="m", anthropic_api_key="sk-ant-secret")
    assert load_settings().model_prices == {}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model_prices": '{"m": {"input": 3, "output": 15}}'}, "KERNELSMITH_MODEL_PRICES: cache_read: Field required"),
        (
            {"model_prices": '{"m": {"input": -1, "output": 1, "cache_read": 1, "cache_write": 1}}'},
            "KERNELSMITH_MODEL_PRICES: input:",
        ),
        ({"model_prices": "three"}, "KERNELSMITH_MODEL_PRICES is no JSON"),
        (
            {"model_tokens_per_job": "-1"},
            "KERNELSMITH_MODEL_TOKENS_PER_JOB: Input should be greater than or equal to 0",
        ),
        ({"model_dollars_per_job": "inf"}, "KERNELSMITH_MODEL_DOLLARS_PER_JOB: Input should be a finite number"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value.values())),
)
def test_setting_that_makes_no_sense_is_named(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], told: str
) -> None:
    assert told in refused(monkeypatch, **values)
