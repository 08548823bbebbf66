"""What a job may take at most, and what it would not find: what a dry run says. Nothing is run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workers.contracts import AuthorName, Estimate, Failure, FailureCode, JobRequest, UserFacingError, Verb
from workers.settings import Settings
from workers.stages.bench import layout_for
from workers.stages.gate import MOST_KERNELS, PAIRED_S, PROFILE_BUDGET_S, TUNED_S, timing_budget_s
from workers.stages.headroom import MOST_SIZES
from workers.tree import Tree

MEASURED_S = timing_budget_s(MOST_SIZES)
PROFILED_S = MEASURED_S + PROFILE_BUDGET_S
VARIANT_S = timing_budget_s(MOST_SIZES, PAIRED_S)
SWEPT_S = timing_budget_s(MOST_SIZES, TUNED_S)
SWEEPS = 3  # the launch settings of what stands, and those of the two kinds of fast path
ASKS_MODELS = (Verb.create, Verb.optimize, Verb.modify, Verb.fuse)
NAMES_KERNELS = (
    Verb.bench,
    Verb.verify,
    Verb.nightly,
    Verb.bisect,
)  # looked up by the job itself, in the newest commit
TIMES = (Verb.nightly, Verb.bisect)  # are worth nothing without a GPU
DAYS_SEEN = 7

NO_MODEL = Failure(
    FailureCode.model,
    "no language model is configured on this bot, and `/kernel {verb}{asked}` needs one",
    "An operator configures one, with a key, a model's name and a budget (docs/models.md).",
)
NO_HOST = Failure(
    FailureCode.environment,
    f"no GPU host has taken a request{{where}} in the last {DAYS_SEEN} days, so that the job may wait for one",
    "An operator starts `kernelsmith work --only gpu` on a host{where}, unless one is at work that had nothing to do.",
)

NO_GPU = Failure(
    FailureCode.environment,
    f"no GPU host that answered in the last {DAYS_SEEN} days has a GPU, so that nothing could be timed",
    "An operator starts `kernelsmith work --only gpu` on a host with a GPU.",
)


def gpu_seconds(request: JobRequest) -> float:
    """The seconds that a job may time, tune and profile on a GPU at most; a bisect for each commit that it finds."""
    options = request.options
    most = {
        Verb.create: MEASURED_S * (1 + options.candidates),
        Verb.modify: MEASURED_S,
        Verb.fuse: MEASURED_S,
        Verb.port: SWEPT_S + MEASURED_S if options.tuned else 0.0,
        Verb.profile: PROFILED_S,
        Verb.tune: PROFILED_S + SWEPT_S + VARIANT_S + MEASURED_S,
        Verb.optimize: PROFILED_S + SWEPT_S * min(SWEEPS, options.variants) + VARIANT_S * options.variants + MEASURED_S,
        Verb.bench: MEASURED_S * (len(request.kernels) or MOST_KERNELS),
        Verb.nightly: options.budget_minutes * 60.0,
        Verb.bisect: MEASURED_S * (1 + math.ceil(math.log2(max(2, len(request.commits) - 1)))),
    }
    return most.get(request.verb, 0.0) + (PROFILE_BUDGET_S if options.profile else 0.0)


def asks_models(request: JobRequest) -> bool:
    """Whether a job may ask a language model, where one is configured."""
    return request.verb in ASKS_MODELS and request.options.author is not AuthorName.compiler


def estimate(
    request: JobRequest, tree: Tree, hosts: Iterable[Mapping[str, str]], settings: Settings, *, models: bool
) -> Estimate:
    """The most that a job would take, and what is missing.

    ``tree`` is the newest commit that it works on; ``hosts`` are the facts of GPU hosts that answered lately in its queue.
    """
    seconds, price, known = gpu_seconds(request), settings.gpu_dollars_per_hour, tuple(hosts)
    asks, has_gpu = asks_models(request) and models, any("gpu" in facts for facts in known) if known else None
    missing = [
        *_missing_kernels(request, tree),
        *_missing_model(request, models=models),
        *_missing_host(request, has_gpu),
    ]
    return Estimate(
        seconds / 60,
        None if price is None else price * seconds / 3600,
        settings.model_tokens_per_job if asks else 0,
        settings.model_dollars_per_job if asks else None,
        tuple(missing),
        has_gpu,
    )


def _missing_kernels(request: JobRequest, tree: Tree) -> Iterable[Failure]:
    """Kernels that nothing in the repository has, and a repository that no layout fits; other verbs looked that up before."""
    if request.verb not in NAMES_KERNELS:
        return
    names = (request.kernel,) if request.verb is Verb.bisect else request.kernels
    try:
        layout = layout_for(request.options.layout, tree)
    except UserFacingError as error:
        yield error.failure
        return
    for name in names:
        try:
            layout.locate(name, tree)
        except UserFacingError as error:
            yield error.failure


def _missing_model(request: JobRequest, *, models: bool) -> Iterable[Failure]:
    by_name = request.options.author is AuthorName.llm
    if not models and (request.verb is Verb.modify or (request.verb in ASKS_MODELS and by_name)):
        asked = " --author llm" if by_name and request.verb is not Verb.modify else ""
        yield Failure(NO_MODEL.code, NO_MODEL.message.format(verb=request.verb.value, asked=asked), NO_MODEL.fix)


def _missing_host(request: JobRequest, has_gpu: bool | None) -> Iterable[Failure]:
    where = f" for `{request.options.gpu}`" if request.options.gpu else ""
    if has_gpu is None:
        fix = (NO_HOST.fix or "").format(where=where.replace("for", "of"))
        yield Failure(NO_HOST.code, NO_HOST.message.format(where=where), fix)
    elif not has_gpu and request.verb in TIMES:
        yield NO_GPU
