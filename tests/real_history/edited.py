"""Edits of the last release that make a kernel worse for real, and the requests by which a GPU host measures and judges them.

``edit FOLDER`` writes ``FOLDER/edited``: a kernel as it is and as it was edited, next to either, several times. ``stand_in``
answers with these results and no others where ``plant FOLDER --edited`` plays nights.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts import Action, BenchmarkRequest, GpuRequest, Limits, VerifyRequest, parse_problem, to_json
from workers.layouts.protocol import Layout
from workers.nightly.series import Metric
from workers.stages.bench import layout_for
from workers.stages.gate import ORIGINAL_ALONE
from workers.tree import Tree

OPS = "src/liger_kernel/ops"
AS_IT_IS, EDITED = "as-it-is", "edited"
NEIGHBOUR = "neighbour"
HEAD, GOOD = "head.tar.gz", "good.tar.gz"


@dataclass(frozen=True)
class Edit:
    """What makes a kernel worse: texts and what stands in their place, each at its first occurrence; ``shown_by`` is the metric."""

    what: str
    replaced: tuple[tuple[str, str], ...]
    shown_by: Metric

    def apply(self, text: str) -> str:
        """The kernel's file, edited.

        Raises:
            ValueError: the file is of another release.
        """
        for old, new in self.replaced:
            if old not in text:
                raise ValueError(f"the release has no {old!r}")
            text = text.replace(old, new, 1)
        return text


EDITS = {
    "swiglu": Edit(
        "read every sixteenth row twice",
        (
            (
                "    a_ptr, b_ptr, c_ptr, stride, gate_multiplier, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr\n):\n"
                "    program_id = tl.program_id(0).to(tl.int64)\n",
                "    a_ptr, b_ptr, c_ptr, stride, gate_multiplier, n_rows, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr\n):\n"
                "    program_id = (tl.program_id(0) % n_rows).to(tl.int64)\n",
            ),
            (
                "    tl.store(c_ptr + col_offsets, c_row, mask=mask)\n",
                "    tl.store(c_ptr + col_offsets, c_row, mask=mask & (tl.program_id(0) < n_rows))\n",
            ),
            (
                "        _swiglu_forward_kernel[(n_rows,)](\n            a,\n            b,\n            c,\n"
                "            c.stride(-2),\n            float(gate_multiplier),\n",
                "        _swiglu_forward_kernel[(n_rows + n_rows // 16,)](\n            a,\n            b,\n            c,\n"
                "            c.stride(-2),\n            float(gate_multiplier),\n            n_rows,\n",
            ),
        ),
        Metric.time_us,
    ),
    "geglu": Edit(
        "allocate twice the output",
        (
            (
                "    c = torch.empty_like(a)\n",
                "    c = torch.empty((2, *a.shape), dtype=a.dtype, device=a.device)[0]\n",
            ),
        ),
        Metric.peak_bytes,
    ),
    "rms_norm": Edit(
        "divide by at most 4096 columns",
        (
            (
                "    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols\n",
                "    mean_square = tl.sum(X_row * X_row, axis=0) / tl.minimum(n_cols, 4096)\n",
            ),
        ),
        Metric.wrong_values,
    ),
}

TIMED = tuple(kernel for kernel, edit in EDITS.items() if edit.shown_by is not Metric.wrong_values)


@dataclass(frozen=True)
class Asked:
    """How often a form of a kernel is judged, or timed in turns, next to another form of it."""

    kernel: str
    action: Action
    new: str
    old: str
    times: int = 1
    beside: str = ""  # what else works on the GPU


# What matters most first: a host begins no request that it has no time for. As often as a night and a bisection ask.
ASKED = (
    Asked("rms_norm", Action.verify, EDITED, AS_IT_IS, 3),
    *(Asked(kernel, Action.verify, AS_IT_IS, AS_IT_IS) for kernel in EDITS),
    Asked("swiglu", Action.verify, EDITED, AS_IT_IS),
    Asked("geglu", Action.verify, EDITED, AS_IT_IS),
    *(Asked(kernel, Action.verify, EDITED, EDITED) for kernel in EDITS),
    *(Asked(kernel, Action.benchmark, AS_IT_IS, AS_IT_IS) for kernel in EDITS),
    *(Asked(kernel, Action.benchmark, EDITED, AS_IT_IS, 2) for kernel in TIMED),
    *(Asked(kernel, Action.benchmark, EDITED, EDITED) for kernel in TIMED),
    *(Asked(kernel, Action.benchmark, AS_IT_IS, AS_IT_IS, beside=NEIGHBOUR) for kernel in EDITS),
    *(Asked(kernel, Action.benchmark, EDITED, AS_IT_IS) for kernel in TIMED),
    *(Asked(kernel, Action.benchmark, AS_IT_IS, AS_IT_IS) for kernel in EDITS),
    Asked("swiglu", Action.benchmark, EDITED, AS_IT_IS, 2),
    Asked("swiglu", Action.benchmark, AS_IT_IS, AS_IT_IS, 2),
)


def write_edited(folder: Path, files: dict[str, bytes], budget_s: float, script: str) -> int:
    """Write the requests for the last release's files, numbered in their order, and the script that runs them; gives how many."""
    shutil.rmtree(folder / "requests", ignore_errors=True)
    layout = layout_for("liger", Tree(files))
    trees: dict[tuple[str, str], Path] = {}
    count = 0
    for asked in ASKED:
        forms = {AS_IT_IS: files, EDITED: edited(files, asked.kernel)}
        for _ in range(asked.times):
            count += 1
            words = (f"{count:02}", asked.kernel, asked.action.value, asked.new, "next-to", asked.old, asked.beside)
            place = folder / "requests" / "-".join(word for word in words if word)
            place.mkdir(parents=True)
            payload = _payload(asked, layout, forms[asked.new], forms[asked.old], budget_s)
            request = GpuRequest(place.name, asked.action, to_json(payload), Limits())
            (place / "request.json").write_text(json.dumps(to_json(request)))
            for name, form in ((HEAD, asked.new), (GOOD, asked.old)):
                _lay(place / name, asked.kernel, form, forms[form], trees)
            key = (
                asked.kernel,
                asked.action.value,
                *(_digest(forms[one], asked.kernel) for one in (asked.new, asked.old)),
            )
            (place / "about.json").write_text(json.dumps([*key, asked.beside]))
    (folder / "run.py").write_text(script)
    return count


def edited(files: dict[str, bytes], kernel: str) -> dict[str, bytes]:
    """The release with one kernel's edit."""
    path = f"{OPS}/{kernel}.py"
    return files | {path: EDITS[kernel].apply(files[path].decode()).encode()}


def _payload(
    asked: Asked, layout: Layout, new: dict[str, bytes], old: dict[str, bytes], budget_s: float
) -> VerifyRequest | BenchmarkRequest:
    standing, tree = layout.locate(asked.kernel, Tree(new)), Tree(new)
    source = layout.problem_of(standing, tree)
    if source is None:
        raise ValueError(f"the problem of {asked.kernel} is not known")
    problem = parse_problem(source)
    candidate = layout.form_of(standing, problem, (), HEAD)
    original = layout.form_of(layout.locate(asked.kernel, Tree(old)), problem, (), GOOD)
    if asked.action is Action.verify:
        return VerifyRequest(source, candidate, original=original)
    return BenchmarkRequest(
        source, candidate, budget_s=budget_s, original=original, contenders=ORIGINAL_ALONE, standing=True
    )


def _lay(place: Path, kernel: str, form: str, files: dict[str, bytes], trees: dict[tuple[str, str], Path]) -> None:
    """Write a form's tree once and link it where it is needed again: an archive of the folder stays small."""
    key = (kernel if form == EDITED else "", form)
    if key in trees:
        os.link(trees[key], place)
    else:
        place.write_bytes(_tarball(files))
        trees[key] = place


def _tarball(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            if name.startswith("src/") and name.endswith(".py"):
                entry = tarfile.TarInfo(f"snapshot/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _digest(files: dict[str, bytes], kernel: str) -> str:
    return digest_of(files[f"{OPS}/{kernel}.py"])


def digest_of(content: bytes) -> str:
    """What a form of a kernel's file is known by."""
    return hashlib.sha256(content).hexdigest()[:16]
