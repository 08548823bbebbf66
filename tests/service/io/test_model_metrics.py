from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from service.metrics import ModelMetrics
from workers.contracts import ModelAmount, ModelRequests, ModelUse

USE = ModelUse(
    (
        ModelRequests("anthropic", "generate", "answered", 3, 61.5),
        ModelRequests("anthropic", "generate", "overloaded", 1, 0.5),
    ),
    (ModelAmount("anthropic", "m", "cache_read_tokens", 70), ModelAmount("anthropic", "m", "micro_dollars", 1_250_000)),
)


def told(use: object) -> set[str]:
    registry = CollectorRegistry()
    registry.register(ModelMetrics(use))  # type: ignore[arg-type]
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def test_use_of_models_is_told_by_provider_purpose_outcome_and_model() -> None:
    assert told(lambda: USE) == {
        'kernelsmith_model_requests_total{outcome="answered",provider="anthropic",purpose="generate"} 3.0',
        'kernelsmith_model_requests_total{outcome="overloaded",provider="anthropic",purpose="generate"} 1.0',
        'kernelsmith_model_seconds_total{outcome="answered",provider="anthropic",purpose="generate"} 61.5',
        'kernelsmith_model_seconds_total{outcome="overloaded",provider="anthropic",purpose="generate"} 0.5',
        'kernelsmith_model_tokens_total{kind="cache_read",model="m",provider="anthropic"} 70.0',
        'kernelsmith_model_dollars_total{model="m",provider="anthropic"} 1.25',
    }


def test_without_a_database_there_are_no_numbers_and_the_log_says_why() -> None:
    def down() -> ModelUse:
        raise OSError("the database is gone")

    with capture_logs() as logs:
        assert told(down) == set()
    assert {(entry["event"], entry["error"]) for entry in logs} == {
        ("numbers_missing", "OSError: the database is gone")
    }
