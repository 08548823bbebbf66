"""A new kernel: its analysis, its proof, and the report on it in the library. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_runner.contracts import Status
from service.escape import code, code_block, inline, sentence
from service.report.benchmarks import benchmark_table, memory_table, speed_sentence
from service.report.layout import bullets, folded, paragraphs, pictures, table
from service.report.profiled import profile_section
from service.report.verdicts import (
    attempts_section,
    interpreted_words,
    provenance_line,
    repetition,
    style_section,
    tests_section,
    verdict_section,
    verdict_words,
)
from workers.contracts import (
    AnalyzeSummary,
    GenerateSummary,
    JobView,
    KernelProfile,
    LearnableParameter,
    ModuleParameter,
    ProfileTensor,
    ValidateSummary,
)

NONE = "none"
LIMIT = 400

Row = tuple[str, Callable[[KernelProfile], str]]


def profile_table(profile: KernelProfile) -> str:
    """The table."""
    return table(("field", "value"), [(label, cell(profile)) for label, cell in ROWS])


def _codes(values: tuple[str, ...]) -> str:
    return ", ".join(code(value) for value in values) or NONE


def _tensors(tensors: tuple[ProfileTensor, ...]) -> str:
    return "<br>".join(f"{code(t.name)} {code(t.shape)} {inline(t.dtype, 60)}" for t in tensors) or NONE


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return "<br>".join(f"{code(name)} = {code(value, LIMIT)}" for name, value in pairs) or NONE


def _arguments(parameters: tuple[ModuleParameter, ...]) -> str:
    shown = (f"{p.name}: {p.type}" + (f" = {p.default}" if p.default is not None else "") for p in parameters)
    return ", ".join(code(text) for text in shown) or NONE


def _learnable(parameters: tuple[LearnableParameter, ...]) -> str:
    shown = (f"{code(p.name)} {code(p.shape)}, starting with {inline(p.init, 60)}" for p in parameters)
    return "<br>".join(shown) or NONE


ROWS: tuple[Row, ...] = (
    ("operation", lambda p: code(p.operation_name)),
    ("autograd function", lambda p: code(p.function_class_name)),
    ("module", lambda p: code(p.module_class_name)),
    ("functional form", lambda p: code(p.functional_name)),
    ("tier", lambda p: f"{p.tier}, {inline(p.tier_description)}"),
    ("nearest kernel that exists", lambda p: code(p.closest_existing_kernel)),
    ("inputs", lambda p: _tensors(p.forward_inputs)),
    ("outputs", lambda p: _tensors(p.forward_outputs)),
    ("forward", lambda p: code(p.forward_computation, LIMIT)),
    ("in float32 for precision", lambda p: _codes(p.precision_sensitive_ops)),
    ("saved for backward", lambda p: _codes(p.backward_saved_tensors)),
    ("recomputed in backward", lambda p: inline(p.backward_recompute) if p.backward_recompute.strip() else NONE),
    ("gradients", lambda p: _pairs(p.gradient_formulas)),
    ("grid", lambda p: f"{inline(p.grid_dimensions, 60)}, {inline(p.grid_description)}"),
    ("block size", lambda p: code(p.block_size_source, LIMIT)),
    ("partial sums over SMs", lambda p: "needed" if p.needs_sm_parallelism else "not needed"),
    ("module's arguments", lambda p: _arguments(p.module_init_params)),
    ("learnable parameters", lambda p: _learnable(p.learnable_params)),
    ("benchmark over", lambda p: f"{code(p.benchmark_variable)} ({inline(p.benchmark_x_label, 100)})"),
    ("benchmark at", lambda p: ", ".join(str(x) for x in p.benchmark_x_values_suggestion[:24]) or NONE),
    ("compared with", lambda p: _codes(p.benchmark_providers)),
    ("fixed in the benchmark", lambda p: _pairs(p.benchmark_fixed_config)),
)


MAX_PATHS = 40


def analyzed_verdict(summary: AnalyzeSummary, job: JobView) -> str:
    """What the kernel was understood as, in one line."""
    profile = summary.profile
    return (
        f"**{code(job.request.kernel)} is understood:** tier {profile.tier}, {inline(profile.tier_description, 80)}, "
        f"nearest to {code(profile.closest_existing_kernel)}."
    )


def generated_verdict(summary: GenerateSummary, job: JobView) -> str:
    """Whether the kernel is proved, in one line."""
    kernel, words = code(job.request.kernel), verdict_words(summary.verdict)
    if summary.verdict.status is not Status.passed:
        return f"**{kernel} is not proved:** {words}."
    where = " in Triton's interpreter" if summary.verdict.interpreted else ""
    return f"**{kernel} is written and proved{where}:** {words}."


def analyzed_sections(summary: AnalyzeSummary) -> str:
    """What the kernel is written from."""
    return paragraphs(
        f"Check the inputs, gradients and names: the {code(summary.author)} author writes the kernel from them.",
        review_answered(summary.answered),
        profile_table(summary.profile),
        bullets([sentence(note) for note in summary.notes]),
        folded("Reference", code_block(summary.problem_source, "python")),
    )


def review_answered(answered: Sequence[str]) -> str:
    """What was done about the last review, point by point; the points and a model's replies are foreign text."""
    points = bullets([sentence(answer) for answer in answered])
    return f"To your last review:\n\n{points}" if points else ""


def generated_sections(summary: GenerateSummary) -> str:
    """What was written, and its proof."""
    formulas = [("forward", summary.forward_formula), *summary.gradient_formulas]
    rows = [(inline(name, 60), code(formula, 400)) for name, formula in formulas]
    paths = [code(path, 200) for path in summary.changed[:MAX_PATHS]]
    if len(summary.changed) > MAX_PATHS:
        paths.append(f"and {len(summary.changed) - MAX_PATHS} more")
    return paragraphs(
        f"{interpreted_words(summary.verdict)} Speed has not been measured yet." if summary.verdict.interpreted else "",
        review_answered(summary.answered),
        table(("value", "computed as"), rows),
        f"Files, by the {code(summary.author)} author:\n\n{bullets(paths)}" if paths else "",
        bullets([sentence(note) for note in summary.notes]),
        attempts_section(summary.attempts),
        folded("Proof", verdict_section(summary.verdict)),
    )


def validated_verdict(summary: ValidateSummary, job: JobView) -> str:
    """The verdict on a kernel in one line."""
    kernel = code(job.request.kernel)
    wrong = faults(summary)
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    proved = "in Triton's interpreter " if summary.verdict.interpreted else ""
    return f"**{kernel} is proved {proved}and passes the library's tests.** {speed_sentence(summary.benchmark)}"


def faults(summary: ValidateSummary) -> list[str]:
    """What stands against a merge, each as part of a sentence; nothing where all is well."""
    reasons = []
    if summary.verdict.status is not Status.passed:
        reasons.append(verdict_words(summary.verdict))
    if not summary.tests.passed:
        reasons.append(f"the library's tests fail ({inline(summary.tests.summary, 120)})")
    if not summary.style.passed:
        reasons.append("the library's style check fails")
    return reasons


def validated_sections(summary: ValidateSummary, image_urls: Mapping[str, str]) -> str:
    """The report below its verdict: the table, then plots, then the rest folded, then where the numbers come from."""
    return paragraphs(
        review_answered(summary.answered),
        benchmark_table(summary.benchmark),
        pictures(summary.images, image_urls),
        bullets([sentence(note) for note in summary.notes]),
        attempts_section(summary.attempts),
        folded("Proof", verdict_section(summary.verdict)),
        folded("The library's tests", tests_section(summary.tests)),
        folded("The library's benchmark script", tests_section(summary.script) if summary.script else ""),
        folded("Style check", style_section(summary.style)),
        folded("Peak memory", memory_table(summary.benchmark)),
        folded("Profile", profile_section(summary.profile) if summary.profile else ""),
        provenance_line(summary.provenance),
        repetition(summary.reproduce),
    )
