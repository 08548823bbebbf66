"""A bisection runs pairs of commits in turns and names the commits that made a kernel worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import BenchmarkRequest, Status, Verdict, VerifyRequest, from_json
from tests.workers.layouts.standing import NORM
from tests.workers.stages.answers import benchmark
from tests.workers.stages.context import FakeContext, optimizing, packed
from tests.workers.stages.library import tree
from tests.workers.stages.test_nightly import report, sha
from workers.contracts import (
    AssetsUpdate,
    BisectSummary,
    FailureCode,
    FileChange,
    RangeCommit,
    ReportUpdate,
    Suspect,
    UserFacingError,
    Verb,
)
from workers.reports import plots
from workers.reports.plots import RangePlace
from workers.stages.bisection import Bisect
from workers.stages.gate import NO_GPU

KERNEL = "src/liger_kernel/ops/geglu.py"
LIBRARY = tree(**{".kernelsmith/problems/rms_norm.py": NORM})


def searched(times: Sequence[float | None], merges: Sequence[int] = (), kernel: str = "geglu") -> FakeContext:
    """Give a range in which the kernel takes these times; None: it is not there. ``merges`` are the places of merges."""
    context = optimizing({"doctor": report(), "verify": Verdict(Status.passed)})
    snapshots: dict[str, float] = {}
    commits = []
    for place, time in enumerate(times):
        text = None if time is None else (LIBRARY.read(KERNEL) or "") + f"\n\nPLACE = {place}\n"
        digest = context.put(packed(LIBRARY.overlaid((FileChange(KERNEL, text),))))
        snapshots[digest] = time or 0.0
        commits.append(RangeCommit(sha(place), digest, f"commit {place}", sha(99) if place in merges else None))

    def answer(request: BenchmarkRequest) -> Any:
        files = context.files[-1]
        new, old = (snapshots[files[f"{name}.tar.gz"]] for name in ("new", "good"))
        return benchmark(old / new)(request)

    context.answers["benchmark"] = answer
    context.request = replace(
        context.request,
        verb=Verb.bisect,
        kernel=kernel,
        kernels=(),
        snapshot=commits[-1].snapshot,
        commits=tuple(commits),
    )
    return context


def found(context: FakeContext) -> BisectSummary:
    result = context.run(Bisect())
    assets, update = result.updates
    assert isinstance(assets, AssetsUpdate)
    assert isinstance(update, ReportUpdate)
    assert assets.images == update.summary.images
    assert not result.checkpoint
    return from_json(BisectSummary, result.output["summary"])


def test_the_commit_that_made_a_kernel_slower_is_named_in_about_log_steps() -> None:
    context = searched([1.0] * 11 + [1.3] * 5)
    summary = found(context)
    assert summary.suspects == (Suspect((sha(11),)),)
    assert (summary.titles, summary.gpu) == (((sha(11), "commit 11"),), "NVIDIA H200")
    assert summary.ratio == pytest.approx(1.3)
    assert summary.steps == len([place for place in context.order if place.startswith("benchmark")]) <= 6


def test_two_culprits_in_a_range_are_both_named() -> None:
    summary = found(searched([1.0, 1.0, 1.2, 1.2, 1.2, 1.5, 1.5]))
    assert [one.commits for one in summary.suspects] == [(sha(2),), (sha(5),)]


def test_a_commit_at_which_the_kernel_is_not_there_is_stepped_around() -> None:
    summary = found(searched([1.0, None, 1.3, 1.3]))
    assert summary.suspects == (Suspect((sha(1), sha(2)), (sha(1),)),)


def test_the_commit_that_made_values_wrong_is_named_by_verdicts_and_nothing_is_timed() -> None:
    context = searched([1.0, 1.0, None, 2.0, 2.0, 2.0])
    places = {commit.snapshot: place for place, commit in enumerate(context.request.commits)}

    def verdict(_: VerifyRequest) -> Verdict:
        place = places[context.files[-1]["new.tar.gz"]]
        return Verdict(Status.incorrect_values if place >= 3 else Status.passed)

    context.answers["verify"] = verdict
    summary = found(context)
    assert summary.suspects == (Suspect((sha(2), sha(3)), (sha(2),)),)
    assert (summary.by_values, summary.steps, summary.ratio) == (True, 4, None)
    assert not [place for place in context.order if place.startswith("benchmark")]


@pytest.mark.parametrize(
    ("good", "suspects"),
    [
        (Status.unproved, (Suspect((sha(3),)),)),
        (Status.passed, (Suspect((sha(1), sha(2), sha(3)), (sha(1), sha(2))),)),
    ],
)
def test_what_cannot_be_proved_is_right_where_the_good_commit_cannot_be_proved_either(
    good: Status, suspects: tuple[Suspect, ...]
) -> None:
    context = searched([1.0] * 6)
    places = {commit.snapshot: place for place, commit in enumerate(context.request.commits)}

    def verdict(_: VerifyRequest) -> Verdict:
        place = places[context.files[-1]["new.tar.gz"]]
        return Verdict(Status.incorrect_values if place >= 3 else Status.unproved if place else good)

    context.answers["verify"] = verdict
    assert found(context).suspects == suspects


def test_a_step_times_the_sizes_alone_that_became_worse_over_the_whole_range() -> None:
    context, asked = searched([1.0, 1.0, 1.3, 1.3]), []
    answer = context.answers["benchmark"]

    def counting(request: BenchmarkRequest) -> Any:
        asked.append([one.label() for one in request.workloads])
        return answer(request)

    context.answers["benchmark"] = counting
    assert found(context).suspects == (Suspect((sha(2),)),)
    assert asked == [[], *[["T=4096 I=11008"]] * (len(asked) - 1)]


def test_a_merge_is_named_as_one() -> None:
    summary = found(searched([1.0, 1.0, 1.3], merges=(2,)))
    assert summary.suspects == (Suspect((sha(2),), merge=sha(2)),)


def test_a_range_whose_end_is_no_worse_is_not_searched() -> None:
    summary = found(searched([1.0, 1.5, 1.0]))
    assert (summary.whole, summary.suspects, summary.steps, summary.ratio) == ("same", (), 1, None)


def test_a_range_whose_first_commit_has_no_such_kernel_cannot_be_compared() -> None:
    summary = found(searched([None, 1.0, 1.3]))
    assert (summary.whole, summary.suspects) == ("broken", ())


def test_a_kernel_that_the_last_commit_does_not_have_ends_the_job() -> None:
    with pytest.raises(UserFacingError):
        found(searched([1.0, 1.0], kernel="no_such_kernel"))


def test_a_gpu_host_at_fault_is_not_taken_for_a_commit_that_does_not_build() -> None:
    context = searched([1.0, 1.3])
    context.answers["benchmark"] = "the sandbox is broken"
    with pytest.raises(UserFacingError) as caught:
        found(context)
    assert caught.value.failure.code is FailureCode.environment


def test_a_host_without_a_gpu_ends_the_job_with_what_to_do() -> None:
    context = searched([1.0, 1.3])
    context.answers["doctor"] = report(gpu=None)
    with pytest.raises(UserFacingError) as caught:
        found(context)
    assert caught.value.failure == NO_GPU


def test_what_was_compared_is_drawn_with_the_commits_at_which_it_became_worse() -> None:
    context = searched([1.0, 1.0, 1.2, 1.2, 1.2, 1.5, 1.5])
    (image,) = found(context).images
    assert image.digest in context.blobs
    assert image.alt.endswith("over 7 commits, 7 of them compared; worse from number 3, 6 on")
    assert "time, " in image.alt


def test_a_second_culprit_stands_on_top_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[RangePlace] = []

    def plot(what: str, labels: Sequence[str], places: Sequence[RangePlace], culprits: Sequence[int]) -> bytes:
        drawn.extend(places)
        return b"a picture"

    monkeypatch.setattr(plots, "range_plot", plot)
    times = [1.0, 1.0, 1.2, 1.2, 1.2, 1.5, 1.5]
    found(searched(times))
    assert {one.place: one.level for one in drawn} == {one.place: pytest.approx(times[one.place]) for one in drawn}
    assert {one.place for one in drawn if one.worse} == set(range(2, 7)) & {one.place for one in drawn}


def test_a_range_that_cannot_be_compared_has_no_picture() -> None:
    assert found(searched([None, 1.0, 1.3])).images == ()
