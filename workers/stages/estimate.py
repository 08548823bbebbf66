"""What a job may take at most, before it is started: the time for which it keeps a GPU timing, and what models may use. Pure."""

from __future__ import annotations

from workers.contracts import AuthorName, JobRequest, Verb
from workers.stages import finalizing, measuring, profiling, trial
from workers.stages.headroom import MOST_SIZES

ASKS_MODELS = (Verb.create, Verb.optimize, Verb.modify)
MEASURED_S = finalizing.START_S + finalizing.SECONDS_A_WORKLOAD * MOST_SIZES
PROFILED_S = profiling.START_S + profiling.SECONDS_A_WORKLOAD * MOST_SIZES + profiling.PROFILE_BUDGET_S
VARIANT_S = trial.START_S + trial.SECONDS_A_WORKLOAD * MOST_SIZES
TUNED_S = trial.START_S + trial.TUNE_SECONDS_A_WORKLOAD * MOST_SIZES


def gpu_seconds(request: JobRequest) -> float:
    """Give the seconds that a job may time, tune and profile on a GPU at most."""
    options = request.options
    found = {
        Verb.create: MEASURED_S * (1 + options.candidates),
        Verb.modify: MEASURED_S,
        Verb.profile: PROFILED_S,
        Verb.tune: PROFILED_S + TUNED_S + VARIANT_S + MEASURED_S,
        Verb.optimize: PROFILED_S + TUNED_S + VARIANT_S * options.variants + MEASURED_S,
        Verb.bench: MEASURED_S * (len(request.kernels) or measuring.MOST_KERNELS),
    }
    return found.get(request.verb, 0.0) + (profiling.PROFILE_BUDGET_S if options.profile else 0.0)


def asks_models(request: JobRequest) -> bool:
    """Tell whether a job may ask a language model, where one is configured."""
    return request.verb in ASKS_MODELS and request.options.author is not AuthorName.compiler
