"""A port of an operator to another device: what a person decides on, and the job's report. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Status
from service.escape import code, inline, sentence
from service.report.benchmarks import benchmark_table, speed_sentence
from service.report.layout import bullets, folded, paragraphs, percent, size_bytes, table
from service.report.verdicts import repetition, style_section, verdict_section, verdict_words
from workers.contracts import DEFAULT_OPERATORS, JobView, PortSummary

NOT_MEASURED = {
    "ascend": "Not measured: no NPU took part. The sizes of the table above are the shape groups to time there, by the library's "
    "benchmark script under `kernelsmith npu-profile`.",
    "cutile": "Not measured. The sizes of the table above are the shape groups to time.",
    "cutedsl": "Not measured. The sizes of the table above are the shape groups to time.",
    "rocm": "Not measured: no GPU of AMD took part. The sizes of the definition of done are the shape groups to time there.",
    "xpu": "Not measured: no GPU of Intel took part. The sizes of the definition of done are the shape groups to time there.",
}


def ported_verdict(summary: PortSummary, job: JobView) -> str:
    """Whether the port holds, in one line."""
    kernel, target = code(job.request.kernel), code(summary.target)
    where = " in Triton's interpreter" if any(parity.verdict.interpreted for parity in summary.parities) else ""
    words = "; ".join(dict.fromkeys(verdict_words(parity.verdict) for parity in summary.parities))
    proved = f"its values and gradients are proved{where}:** {words}."
    ported = f"{kernel} in {inline(summary.language, 40)}"
    if summary.existing and not summary.settings:
        return f"**No setting of {ported} was found faster than its own, so that nothing is changed; {proved}"
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
    header = ("size, bfloat16", "forward bytes", "backward bytes", "operations a byte, forward", "backward")
    most = max(size.forward_operations / max(1, size.forward_bytes) for size in summary.work)
    bound = "memory" if most < MEMORY_BOUND else "arithmetic, as far as its products reach the rate of the cube"
    turns = [
        f"{code(tiling.kernel, 80)} at {code(tiling.workload, 80)}: {tiling.turns(summary.cores)} tiles a core at most, "
        f"{percent(tiling.filled_share(summary.cores))} of the turns of {summary.cores} cores are filled"
        for tiling in summary.tilings
        if tiling.tiles and summary.cores
    ]
    twice = sorted({tiling.workload for tiling in summary.tilings if tiling.kernel.endswith(WIDE)})
    return paragraphs(
        f"By its bytes and operations it is bound by {bound}. For these bytes each tensor is read and written once."
        + (
            f" Kernels of wide rows read them again for each pass over a row: at {', '.join(map(code, twice))} more moves."
            if twice
            else ""
        ),
        table(header, rows, numeric=(1, 2, 3, 4)),
        folded("How evenly the cores are filled", bullets(turns)) if turns else "",
    )


def _done(summary: PortSummary) -> str:
    words = {True: "yes", False: "no", None: "only the device can say"}
    rows = [(inline(item.name, 80), words[item.holds], sentence(item.evidence)) for item in summary.done]
    return table(("item", "holds", "by"), rows)


def _api(summary: PortSummary) -> str:
    rows = [(code(row.name, 80), "yes" if row.exported else "no", code(row.note, 300)) for row in summary.api]
    other = (
        "the default operator" if summary.origin == DEFAULT_OPERATORS else f"the implementation {code(summary.origin)}"
    )
    return table(("name", "exported", f"against {other}"), rows)


def _optimizations(summary: PortSummary) -> list[str]:
    if summary.target == "cutile":
        return [
            "A tile has as many elements whatever the width of a row: short rows share one. Its sizes are powers of two.",
            "What lies beyond the last row or column is padded by the load: masks stand only where a sum would count it.",
            "Statistics and sums are kept in float32; results are cast where they are stored.",
        ]
    if summary.target == "cutedsl":
        return [
            "A thread takes vectors of 16 bytes where rows and tensors begin at multiples of them, else single elements.",
            "A row is reduced by shuffles within warps and one number of each warp in shared memory; it stays in registers.",
            "Statistics and sums are kept in float32; results are cast where they are stored.",
        ]
    if not summary.buffer_bits:
        return [
            "Blocks and warps come from the library's own `calculate_settings`, which knows the device.",
            "Where sums over rows are kept, each program of a grid of the device's processors strides over rows.",
            "Statistics and sums are kept in float32; results are cast where they are stored.",
        ]
    several = any(tiling.rows > 1 for tiling in summary.tilings)
    wide = any(tiling.kernel.endswith(WIDE) for tiling in summary.tilings)
    return [
        "Blocks come from the unified buffer, by the library's own `compute_default_tiling_strategy`; the memory multiplier is "
        "the largest number of float32 tiles that the kernel keeps at once, counted in its source.",
        "Programs are as many as vector cores at most, or one for each block of columns where these are more; each strides over "
        "the grid.",
        *(["Short rows share a two-dimensional block, with masks for rows and columns."] if several else []),
        *(
            ["Rows that the buffer does not hold are taken in blocks of columns, by kernels of their own."]
            if wide
            else []
        ),
        "Statistics and sums are kept in float32; results are cast where they are stored.",
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
        f"{code(kernel.name, 80)} compiles with {inline(summary.language, 40)} to linalg: {kernel.copies} copies of whole tiles, "
        f"at most {kernel.bits:,} bits of tiles alive"
        + (f", {kernel.buffered_bits:,} with second buffers" if kernel.buffered_bits else "")
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
    return table(("call", "judged in", "values and gradients"), rows)
