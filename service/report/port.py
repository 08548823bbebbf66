"""A port of an operator to another device: what a person decides on, and the job's report. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Status
from service.escape import code, inline, sentence
from service.report.benchmarks import benchmark_table, speed_sentence
from service.report.layout import bullets, folded, paragraphs, percent, size_bytes, table
from service.report.verdicts import repetition, style_section, verdict_section, verdict_words
from workers.contracts import DEFAULT_OPERATORS, JobView, PortSummary

NOT_MEASURED = {
    "ascend": "Not measured: no NPU was available. Time the sizes of the table above on one, with the library's benchmark script "
    "under `kernelsmith npu-profile`.",
    "cutile": "Not measured. The sizes to time are those of the table above.",
    "cutedsl": "Not measured. The sizes to time are those of the table above.",
    "rocm": "Not measured: no AMD GPU was available. The sizes to time are those of the definition of done.",
    "xpu": "Not measured: no Intel GPU was available. The sizes to time are those of the definition of done.",
}


def ported_verdict(summary: PortSummary, job: JobView) -> str:
    """Whether the port holds, in one line."""
    kernel, target = code(job.request.kernel), code(summary.target)
    where = " in Triton's interpreter" if any(parity.verdict.interpreted for parity in summary.parities) else ""
    words = "; ".join(dict.fromkeys(verdict_words(parity.verdict) for parity in summary.parities))
    proved = f"its values and gradients are proved{where}:** {words}."
    ported = f"{kernel} in {inline(summary.language, 40)}"
    if summary.existing and not summary.settings:
        return f"**No faster setting of {ported} was found, so nothing is changed; {proved}"
    if summary.existing:
        return f"**{ported} is tuned, and {proved}{_speed(summary)}"
    origin = "" if summary.origin == DEFAULT_OPERATORS else f" from {code(summary.origin)}"
    return f"**{kernel} is ported{origin} to {target}, and {proved}{_speed(summary)}"


def _speed(summary: PortSummary) -> str:
    return "" if summary.benchmark is None else f" {speed_sentence(summary.benchmark)}"


def ported_holds(summary: PortSummary) -> bool:
    """Whether every call of the port passed, and the library's style check."""
    return summary.style.passed and all(parity.verdict.status is Status.passed for parity in summary.parities)


def ported_sections(summary: PortSummary) -> str:
    """The task report: files, API, optimizations, tiling, parity, performance, risks."""
    return paragraphs(
        f"### Changed files\n\n{bullets([code(path, 200) for path in summary.files])}",
        f"### API\n\n{_api(summary)}",
        f"### Optimizations\n\n{bullets(_optimizations(summary))}",
        f"### Tiling and launches\n\n{_tilings(summary)}",
        f"### Parity\n\n{_parity(summary)}",
        f"### Performance\n\n{_performance(summary)}",
        f"### Definition of done\n\n{_done(summary)}" if summary.done else "",
        f"### Risks and next steps\n\n{bullets([sentence(risk) for risk in summary.risks])}",
        *(folded(f"Proof: {inline(p.name, 60)}", verdict_section(p.verdict)) for p in summary.parities),
        folded("Style check", style_section(summary.style)),
        repetition(summary.reproduce),
    )


def _performance(summary: PortSummary) -> str:
    """Times next to the original's, and settings that were found faster; without a GPU that there are none."""
    measured = summary.benchmark
    timed = measured is not None and not measured.predicted
    before = "as it was" if summary.existing else "default"
    return paragraphs(
        benchmark_table(measured, {"original": before}) if measured is not None and timed else "",
        table(
            ("settings at", "faster by measurement"), [(code(at, 120), code(own, 200)) for at, own in summary.settings]
        ),
        bullets([sentence(note) for note in summary.notes]),
        "" if timed else NOT_MEASURED.get(summary.target, NOT_MEASURED["ascend"]),
        "" if timed or not summary.work else _bottleneck(summary),
    )


WIDE = "(wide)"  # how the tilings of kernels end that take a row in blocks of columns
MEMORY_BOUND = 8  # operations a byte, below what any vector core with HBM can do at the rate of its memory


def _bottleneck(summary: PortSummary) -> str:
    """What bounds a port by its bytes and operations, where no time was taken."""
    rows = [
        (
            code(size.workload, 80),
            size_bytes(size.forward_bytes),
            size_bytes(size.backward_bytes),
            f"{size.forward_operations / max(1, size.forward_bytes):.2g}",
            f"{size.backward_operations / max(1, size.backward_bytes):.2g}",
        )
        for size in summary.work
    ]
    header = ("size, bfloat16", "forward bytes", "backward bytes", "operations per byte, forward", "backward")
    most = max(size.forward_operations / max(1, size.forward_bytes) for size in summary.work)
    bound = "memory-bound" if most < MEMORY_BOUND else "compute-bound, if its products reach the cube unit's rate"
    turns = [
        f"{code(tiling.kernel, 80)} at {code(tiling.workload, 80)}: at most {tiling.turns(summary.cores)} tiles per core; "
        f"{percent(tiling.filled_share(summary.cores))} of the turns of {summary.cores} cores are filled"
        for tiling in summary.tilings
        if tiling.tiles and summary.cores
    ]
    twice = sorted({tiling.workload for tiling in summary.tilings if tiling.kernel.endswith(WIDE)})
    return paragraphs(
        f"By bytes and operations it is {bound}. The bytes count each tensor once."
        + (
            f" Kernels for wide rows read a row once per pass, so more is moved at {', '.join(map(code, twice))}."
            if twice
            else ""
        ),
        table(header, rows, numeric=(1, 2, 3, 4)),
        folded("Load balance of the cores", bullets(turns)) if turns else "",
    )


def _done(summary: PortSummary) -> str:
    words = {True: "yes", False: "no", None: "needs the device"}
    rows = [(inline(item.name, 80), words[item.holds], sentence(item.evidence)) for item in summary.done]
    return table(("item", "holds", "evidence"), rows)


def _api(summary: PortSummary) -> str:
    rows = [(code(row.name, 80), "yes" if row.exported else "no", code(row.note, 300)) for row in summary.api]
    other = (
        "the default operator" if summary.origin == DEFAULT_OPERATORS else f"the implementation {code(summary.origin)}"
    )
    return table(("name", "exported", f"compared with {other}"), rows)


def _optimizations(summary: PortSummary) -> list[str]:
    if summary.target == "cutile":
        return [
            "Tiles have the same number of elements at every row width: short rows share a tile. Their sizes are powers of two.",
            "Loads pad beyond the last row and column; there is a mask only where a sum would count the padding.",
            "Statistics and sums are in float32; results are cast where they are stored.",
        ]
    if summary.target == "cutedsl":
        return [
            "A thread loads vectors of 16 bytes where rows and tensors are aligned to them, else single elements.",
            "A row stays in registers; warp shuffles and one number per warp in shared memory reduce it.",
            "Statistics and sums are in float32; results are cast where they are stored.",
        ]
    if not summary.buffer_bits:
        return [
            "The library's own `calculate_settings` chooses blocks and warps for the device.",
            "Sums over rows are kept by one program per processor of the device, which strides over the rows.",
            "Statistics and sums are in float32; results are cast where they are stored.",
        ]
    several = any(tiling.rows > 1 for tiling in summary.tilings)
    wide = any(tiling.kernel.endswith(WIDE) for tiling in summary.tilings)
    return [
        "The library's own `compute_default_tiling_strategy` fits blocks to the unified buffer; the memory multiplier is the "
        "largest number of float32 tiles that the kernel keeps at once, counted in its source.",
        "There are at most as many programs as vector cores, or one per block of columns where these are more; each strides "
        "over the grid.",
        *(["Short rows share a two-dimensional block, with masks for rows and columns."] if several else []),
        *(
            ["Rows that do not fit into the buffer are computed in blocks of columns, by separate kernels."]
            if wide
            else []
        ),
        "Statistics and sums are in float32; results are cast where they are stored.",
    ]


def _tilings(summary: PortSummary) -> str:
    rows = [
        (
            code(tiling.kernel, 80),
            code(tiling.workload, 80),
            f"{tiling.multiplier:g}",
            f"{tiling.rows} x {tiling.columns}",
            str(tiling.programs),
            f"{tiling.used_bits:,} of {summary.buffer_bits:,}",
        )
        for tiling in summary.tilings
    ]
    lowered = [
        f"{code(kernel.name, 80)} is lowered to linalg by {inline(summary.language, 40)}: {kernel.copies} copies of whole tiles, "
        f"at most {kernel.bits:,} bits of live tiles"
        + (f", {kernel.buffered_bits:,} with double buffering" if kernel.buffered_bits else "")
        for kernel in summary.lowered
    ]
    if not summary.buffer_bits:
        plain = [(*row[:2], *row[3:5]) for row in rows]
        said = [sentence(summary.compiled)] if summary.compiled else []
        return paragraphs(table(("launcher", "size", "tile", "programs"), plain, numeric=(3,)), bullets(said))
    header = (
        "launcher",
        "size",
        "live float32 tiles",
        "block",
        f"programs on {summary.cores} cores",
        "unified buffer, bits",
    )
    return paragraphs(table(header, rows, numeric=(2, 4, 5)), bullets(lowered))


def _parity(summary: PortSummary) -> str:
    rows = [
        (code(parity.call, 200), ", ".join(parity.dtypes), sentence(verdict_words(parity.verdict)))
        for parity in summary.parities
    ]
    return table(("call", "dtypes", "values and gradients"), rows)
