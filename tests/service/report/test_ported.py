"""A port's report: one line, then the seven sections of its task report."""

from __future__ import annotations

import re
from dataclasses import replace

from gpu_runner.contracts import Status
from service.report.port import ported_holds, ported_sections, ported_verdict
from service.report.pull_request import pull_request_body, pull_request_title
from tests.service.report.facts import LINKS, REQUEST, VERDICT, WAITING
from workers.contracts import (
    DoneItem,
    KernelTiling,
    LoweredKernel,
    Parity,
    PortedName,
    PortSummary,
    PortWork,
    PullRequestUpdate,
    StyleOutcome,
    Verb,
)

JOB = replace(WAITING, request=replace(REQUEST, verb=Verb.port, kernel="rms_norm"))
PORT = PortSummary(
    target="ascend",
    language="Triton-Ascend",
    files=("src/liger_kernel/ops/backends/_ascend/ops/rms_norm.py",),
    api=(
        PortedName("LigerRMSNormFunction", True, "forward(X, W, eps); 3 gradients"),
        PortedName("rms_norm_forward", False, "it passes values that only its own kernels have: BLOCK_SIZE"),
    ),
    narrowed=("casting_mode = 'llama'",),
    tilings=(
        KernelTiling("_rms_norm_forward", "T=128 H=1024", 4.0, 4, 1024, 32, 524288),
        KernelTiling("_rms_norm_forward (wide)", "T=8192 H=65536", 5.0, 1, 4096, 40, 655360),
    ),
    parities=(Parity("llama", "LigerRMSNormFunction.apply(x, w, eps)", VERDICT),),
    style=StyleOutcome(True, ("ruff check",)),
    risks=("It takes casting_mode = 'llama' alone.",),
    problem_source="import torch\n",
    reproduce="kernelsmith port rms_norm --to ascend --repo . --auto",
    buffer_bits=1_572_864,
    cores=40,
    lowered=(LoweredKernel("_rms_norm_forward_kernel", 600_000, 2),),
    done=(DoneItem("both import forms", True, "executed"), DoneItem("times", None, "times need the device")),
    work=(PortWork("T=128 H=1024", 2**19, 2**20, 2**19, 2**20),),
)
SECTIONS = [
    "Changed files",
    "API",
    "Optimizations",
    "Tiling and launches",
    "Parity",
    "Performance",
    "Definition of done",
    "Risks and next steps",
]


def test_what_only_the_device_can_say_is_told_from_what_was_shown() -> None:
    text = ported_sections(PORT)
    assert "| both import forms | yes | executed" in text
    assert "| times | needs the device | times need the device" in text


def test_without_a_time_the_bytes_and_operations_say_what_bounds_it() -> None:
    assert "it is memory-bound" in ported_sections(PORT)
    assert "| `T=128 H=1024` | 512 KiB | 1.00 MiB | 1 | 1 |" in ported_sections(PORT)
    products = replace(PORT, work=(replace(PORT.work[0], forward_operations=2**24),))
    assert "it is compute-bound" in ported_sections(products)
    tiles = replace(PORT, tilings=(replace(PORT.tilings[0], tiles=33),))
    assert "2 tiles per core; 41% of the turns of 40 cores are filled" in ported_sections(tiles)


def test_the_report_has_its_seven_sections_and_the_checklist_in_order() -> None:
    text = ported_sections(PORT)
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == SECTIONS
    assert "| `_rms_norm_forward` | `T=128 H=1024` | 4 | 4 x 1024 | 32 | 524,288 of 1,572,864 |" in text
    assert "Not measured: no NPU was available." in text
    assert "2 copies of whole tiles" in text


def test_paths_that_no_size_takes_are_not_listed_as_optimizations() -> None:
    flat = replace(PORT, tilings=(replace(PORT.tilings[0], rows=1),))
    assert "two-dimensional block" in ported_sections(PORT) and "blocks of columns" in ported_sections(PORT)
    assert "two-dimensional block" not in ported_sections(flat) and "blocks of columns" not in ported_sections(flat)


def test_a_port_holds_where_every_call_passed_and_the_style_check() -> None:
    wrong = replace(PORT.parities[0], verdict=replace(VERDICT, status=Status.incorrect_values))
    assert ported_holds(PORT)
    assert not ported_holds(replace(PORT, parities=(*PORT.parities, wrong)))
    assert not ported_holds(replace(PORT, style=replace(PORT.style, passed=False)))
    assert ported_verdict(PORT, JOB).startswith("**`rms_norm` is ported to `ascend`")


def test_the_pull_request_is_about_the_port() -> None:
    update = PullRequestUpdate(None, PORT.problem_source, VERDICT, port=PORT)
    assert pull_request_title(update, JOB) == "Port rms_norm to Triton-Ascend"
    assert "The default operator is unchanged." in pull_request_body(update, JOB, LINKS)
