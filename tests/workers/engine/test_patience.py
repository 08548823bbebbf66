"""Stages that ask through the patience that the settings give: tries, the next provider, and budgets in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.workers.engine.scripted import USAGE, Scripted, ask_for, ledger, outcomes, script, set_to, trouble
from tests.workers.store.worlds import World
from workers import artifacts, embedded
from workers.contracts import FailureCode, JobState
from workers.engine.protocol import StageContext
from workers.models.protocol import ModelError, Trouble, Usage
from workers.models.recording import read_record
from workers.models.settings import installed
from workers.settings import Settings

SECRET = "hunter2hunter2"


def patient(world: World, *providers: Scripted) -> None:
    models = replace(installed(world.runtime.settings, (SECRET,)), providers=providers)
    world.runtime.models = lambda: models


def busy(usage: Usage) -> ModelError:
    error = trouble(Trouble.overloaded, usage)
    error.retry_after_s = 0.01
    return error


def asking(context: StageContext) -> None:
    context.ask("a", ask_for(f"softmax {SECRET}"))


def test_every_try_is_in_the_ledger_and_in_the_record(world: World) -> None:
    first, second = (
        Scripted([busy(Usage(input_tokens=3)), trouble(Trouble.refused)]),
        Scripted(name="relay", model="model-2"),
    )
    job_id = script(world, first, asking)
    patient(world, first, second)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert outcomes(world) == ["overloaded", "refused", "answered"]
    took = [("input_tokens", 1000), ("output_tokens", 200), ("cache_read_tokens", 50), ("cache_written_tokens", 10)]
    assert ledger(world) == [("input_tokens", 3), *took, *took]
    (artifact,) = world.job(job_id).artifacts
    record = read_record(artifacts.get(artifact.digest))
    assert [(it.provider, it.model, it.outcome, it.usage) for it in record.tried] == [
        ("scripted", "model-1", "overloaded", Usage(input_tokens=3)),
        ("scripted", "model-1", "refused", USAGE),
        ("relay", "model-2", "answered", USAGE),
    ]


def test_secret_is_neither_sent_nor_kept(local: World) -> None:
    provider = Scripted()
    job_id = script(local, provider, asking)
    patient(local, provider)
    embedded.drive()
    (artifact,) = local.job(job_id).artifacts
    assert provider.asked[0].messages[0].parts[0].text == "softmax [redacted: configured secret]"
    assert SECRET.encode() not in artifacts.get(artifact.digest)


def test_budget_that_is_reached_between_two_tries_ends_the_asking(local: World) -> None:
    first, second = Scripted([busy(USAGE)]), Scripted(name="relay")
    job_id = script(local, first, asking)
    patient(local, first, second)
    set_to(local, model_tokens_per_job=1300)
    embedded.drive()
    failure = local.job(job_id).failure
    assert failure is not None
    assert failure.code is FailureCode.budget
    assert (len(first.asked), len(second.asked)) == (1, 0)


def test_nobody_answered_is_kept_with_what_all_took_where_it_is_final(local: World) -> None:
    provider = Scripted([trouble(Trouble.refused)])
    seen: list[tuple[Trouble, Usage]] = []

    def run(context: StageContext) -> None:
        with pytest.raises(ModelError) as caught:
            context.ask("a", ask_for("softmax"))
        seen.append((caught.value.trouble, caught.value.usage))

    script(local, provider, run)
    patient(local, provider)
    embedded.drive()
    assert seen == [(Trouble.refused, USAGE)]


def test_bot_without_settings_on_models_has_none() -> None:
    assert installed(Settings(anthropic_model=None, openai_model=None), ()).providers == ()
