"""Every honest candidate: the problem that it solves, where it is, and the style that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts import CandidateSource, SourceFile
from tests.problems import problem_source

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"


@dataclass(frozen=True)
class Honest:
    """A candidate is ``kernels/NAME.py``, or the folder ``kernels/NAME`` where ``module`` names one of its files."""

    problem: str
    style: str
    symbol: str = "candidate"
    module: str = "candidate"
    deterministic: bool = True  # False: atomics, whose order changes the last bits


def problem_of(name: str) -> str:
    """The text of a candidate's problem, from this folder or the one that all tests use."""
    own = HERE / "problems" / f"{HONEST[name].problem}.py"
    return own.read_text() if own.is_file() else problem_source(HONEST[name].problem)


def source_of(name: str) -> CandidateSource:
    """A candidate as it is sent to the runner."""
    row, folder = HONEST[name], KERNELS / name
    if folder.is_dir():
        paths = sorted(folder.rglob("*.py"))
        files = tuple(SourceFile(path.relative_to(folder).as_posix(), path.read_text()) for path in paths)
    else:
        files = (SourceFile("candidate.py", (KERNELS / f"{name}.py").read_text()),)
    return CandidateSource(files, module=row.module, symbol=row.symbol)


HONEST: dict[str, Honest] = {
    "reglu": Honest("reglu", "one program a row, in blocks"),
    "rms_norm": Honest("rms_norm", "persistent backward with partial weight gradients"),
    "softmax": Honest("softmax", "three passes over blocks"),
    "swiglu": Honest("swiglu", "decorator, settings by width, arithmetic in the input's dtype"),
    "take_rows": Honest("take_rows", "embedding whose gradient scans the indices"),
    "cross_entropy": Honest("cross_entropy", "losses of rows, summed by torch"),
    "kernelbench_relu": Honest("kernelbench_relu", "module with a parameter", symbol="ModelNew"),
    "geglu_libdevice": Honest(
        "geglu_tanh", "a library's form: libdevice by version, ensure_contiguous, gradients over copies of the inputs"
    ),
    "geglu_flat": Honest(
        "geglu_tanh", "flat index, jit functions that call each other and return pairs, `candidate = Function.apply`"
    ),
    "glu_autotuned": Honest("glu", "triton.autotune with configs by comprehension"),
    "relu_squared_heuristics": Honest("relu_squared", "triton.heuristics with lambdas"),
    "relu_squared_triton_op": Honest("relu_squared", "torch.library.triton_op and wrap_triton"),
    "reglu_by_device": Honest(
        "reglu", "settings by the GPU's properties and name, cached; memory on a device by its name"
    ),
    "relu_squared_custom_op": Honest("relu_squared", "torch.library.custom_op, register_fake, register_autograd"),
    "residual_identity": Honest("residual", "the upstream gradient is both gradients"),
    "bias_torch_sum": Honest("add_bias", "bias gradient by torch.sum(dy, 0), needs_input_grad"),
    "row_sum_expand": Honest("row_sum", "gradient by expand"),
    "scale_bias_setup_context": Honest("scale_bias", "setup_context, once_differentiable, persistent 2D grid"),
    "dropout_hash": Honest("hashed_dropout", "mask by a hash of index and seed, keyword-only argument, early return"),
    "activation_match": Honest("activation", "match statement, IntEnum, constexpr branches, static_assert"),
    "dyt_two_grids": Honest("dyt", "libdevice under try, 2D grid, gradient of one number by a sum of partial sums"),
    "masked_fill_strided": Honest("masked_fill", "strides passed with *x.stride(), boolean mask"),
    "transpose_tiles": Honest("transpose", "tl.trans, new_empty, the gradient by the same kernel"),
    "rms_norm_casting_modes": Honest(
        "rms_norm", "casting modes by Enum and dict, dtype table, assert with f-string, multiprocessor count"
    ),
    "layer_norm_partial_sums": Honest("layer_norm", "partial weight gradients by .sum(dim=0)"),
    "layer_norm_torch_sum": Honest(
        "layer_norm", "partial weight gradients by torch.sum(dw, dim=0), unbind, contextlib.nullcontext"
    ),
    "layer_norm_two_kernels": Honest("layer_norm", "partial weight gradients by a second kernel"),
    "layer_norm_atomics": Honest("layer_norm", "weight gradients by atomic additions into zeros", deterministic=False),
    "layer_norm_locks": Honest("layer_norm", "Triton's tutorial: partial gradients under locks", deterministic=False),
    "group_norm_channels": Honest("group_norm", "2D grid, tl.static_range, statistics unpacked from one allocation"),
    "fused_add_rms_norm": Honest(
        "add_rms_norm", "two outputs, one tensor for two gradients, set_materialize_grads, cache modifiers, hints"
    ),
    "poly_norm_static": Honest("poly_norm", "jit functions, small gradients by a sum and slices"),
    "l2_normalize_classes": Honest("l2_normalize", "class hierarchy, NamedTuple with a property, classmethod launcher"),
    "softmax_one_block": Honest("softmax", "lru_cache of whole numbers, functools.partial over a launcher"),
    "softmax_dispatch": Honest("softmax", "two kernels by width, frozen dataclass with a classmethod, online maximum"),
    "log_softmax_closure": Honest("log_softmax", "nested function that launches, dict of settings at module level"),
    "cross_entropy_item_count": Honest(
        "cross_entropy_ignore",
        "a library's form: count by .sum().item(), gradient made in forward, early return in a kernel",
    ),
    "cross_entropy_device_count": Honest(
        "cross_entropy_ignore", "count and mean in a second kernel, generator expressions"
    ),
    "label_smoothing_rows": Honest("label_smoothing", "f-string assert, positional constexpr"),
    "kl_div_rows": Honest("kl_div", "torch.no_grad decorator, mean by a sum of rows' losses"),
    "jsd_three_branches": Honest("jsd", "gradient made in forward, dead constexpr branches"),
    "tvd_mean": Honest("tvd", "mean of rows' losses by torch, new_empty"),
    "sparsemax_threshold": Honest("sparsemax", "while loop in a kernel"),
    "mse_split": Honest("mse", "split reduction, while loop and shift on the host"),
    "rope_on_clone": Honest("rope", "in place on a clone, BACKWARD flag"),
    "rope_on_views": Honest("rope", "slices as arguments, star-unpacking of lists and strides"),
    "embedding_atomics": Honest("take_rows", "atomic scatter, cast by a kernel", deterministic=False),
    "gather_scan": Honest("gather", "nested unpacking into ctx, 2D grid"),
    "row_max_marked": Honest("row_max", "mark_non_differentiable, tl.argmax, two outputs"),
    "cumsum_blocks": Honest("cumsum", "tl.cumsum with a carry, keyword-only flag"),
    "cumsum_offsets": Honest("cumsum", "torch.cumsum over the sums of blocks; cached settings in a NamedTuple"),
    "cumsum_associative": Honest("cumsum", "tl.associative_scan with an own combine function"),
    "column_sum_tiles": Honest("column_sum", "reduction over rows, gradient by dy[None, :].expand"),
    "mean_square_persistent": Honest(
        "mean_square", "reduction over all, persistent grid by multiprocessors, sum of partial sums divided by the host"
    ),
    "row_moments_combine": Honest("row_moments", "plain function, tl.reduce with an own combine over pairs"),
    "logsumexp_rows": Honest("logsumexp", "Final mapping torch.dtype to tl.dtype, type alias, collections.abc"),
    "matmul_grouped": Honest("matmul", "Triton's tutorial: grouped programs, transposed views in the gradients"),
    "matmul_block_pointers": Honest("matmul", "tl.make_block_ptr, tl.advance, boundary checks"),
    "matmul_persistent": Honest("matmul", "persistent programs, jit function that returns a pair of indices"),
    "relu_squared_descriptors": Honest(
        "relu_squared", "tl.make_tensor_descriptor, triton.set_allocator, a fallback kernel"
    ),
    "residual_host_descriptors": Honest("residual", "TensorDescriptor.from_tensor, gradient by clone"),
    "linear_bias_relu": Honest("linear_relu", "forward only, a jit function as a constexpr argument, optional bias"),
    "attention_online": Honest(
        "attention", "forward only, online softmax with exp2, tl.dot of float32 and of the input's dtype"
    ),
    "causal_conv_3d_grid": Honest("causal_conv", "3D grid, grid without parentheses, tl.static_range"),
    "kernelbench_gelu": Honest("kernelbench_gelu", "module that calls a function", symbol="ModelNew"),
    "kernelbench_norm": Honest(
        "kernelbench_norm", "module with parameters, buffers, a property and extra_repr", symbol="ModelNew"
    ),
    "swiglu_package": Honest(
        "swiglu", "package of several files with relative imports and ops/utils.py", symbol="swiglu", module="gated"
    ),
    "rms_norm_package": Honest(
        "rms_norm", "package with absolute imports of its own modules", symbol="rms_norm", module="norms.rms"
    ),
    "row_sort_network": Honest("row_sort", "tl.sort of a row padded with infinity, NaN put last by count"),
    "recurrence_scan": Honest("recurrence", "tl.associative_scan over pairs, a generator of inputs"),
    "column_sum_atomic": Honest("column_sum", "atomic additions into zeros, a cast by a kernel", deterministic=False),
    "column_sum_reset": Honest(
        "column_sum", "triton.autotune with reset_to_zero and pruned settings", deterministic=False
    ),
    "matmul_split_k": Honest(
        "matmul", "split inner dimension by atomics, EVEN_K by triton.heuristics", deterministic=False
    ),
    "softmax_nested_settings": Honest("softmax", "dataclass within a dataclass, default_factory, tl.range with stages"),
    "masked_fill_tuples": Honest("masked_fill", "NamedTuple and tuple as arguments of a kernel"),
    "packed_gate_views": Honest("packed_gate", "views of one buffer, gradients into parts of one buffer"),
    "add_in_place_strided": Honest("add_in_place", "overwrites what MUTATES names, and hands it back as it lies"),
    "row_extremes_two_passes": Honest("row_extremes", "three outputs, partial results joined by a second kernel"),
    "small_matmul_padded": Honest("small_matmul", "tl.dot with an inner dimension padded to sixteen"),
    "mean_square_ticket": Honest("mean_square", "the last of the programs by a ticket adds up the others"),
    "add_triton_op": Honest("add", "triton_op with a scalar, its gradient by another one"),
    "row_sum_descriptor": Honest("row_sum", "tensor descriptor of two dimensions, a plain kernel beside it"),
    "running_maximum_helpers": Honest("running_maximum", "tl.associative_scan by a helper of a helper"),
    "column_norm_two_kernels": Honest("column_norm", "reduction over rows forward and backward"),
    "layer_norm_welford": Honest("layer_norm", "mean and variance merged block by block, as Welford and Chan have it"),
    "softmax_online": Honest("softmax", "maximum and sum in one pass, the result in a second"),
    "bias_atomics": Honest("add_bias", "gradient of a bias by float32 atomics, then a cast", deterministic=False),
    "row_sum_split": Honest("row_sum", "parts of rows by one kernel, joined by a second"),
    "transpose_block_pointers": Honest("transpose", "block pointers with bounds, strides of both matrices"),
    "add_in_place_autotuned": Honest("add_in_place", "triton.autotune that restores what it overwrites"),
    "flags_of_four": Honest("four_flags", "four flags that change the formula one by one"),
    "clamp_limits": Honest("clamp", "limits at which the gradient passes, as in torch"),
    "unit_rows_scaled": Honest("unit_rows", "squares of what the largest element of a row leaves, a float64 reference"),
    "words_of_six": Honest("six_words", "six words, each with a formula of its own"),
    "softplus_gain": Honest("softplus_gain", "the softplus of a parameter, whose gradient a loop over rows adds up"),
    "rms_rows_in_steps": Honest("rms_forward", "rows seven apart, more programs than rows, whose last ones return"),
    "neighbour_behind_mask": Honest("last_of_runs", "a neighbour by a masked load, whose mask a condition repeats"),
    "counts_of_own_block": Honest("counts_of_rows", "atomics of a block's scope, in memory of that block alone"),
    "row_mean_tuned_by_columns": Honest("row_mean", "triton.autotune with a prune by what its key names"),
    "clamp_hands_on_nan": Honest("clamped", "tl.clamp that hands on NaN"),
    "row_mean_of_constant_blocks": Honest("row_mean", "a loop over a constant number of blocks"),
    "packed_triangle_corrected": Honest(
        "lower_triangle", "a root cut to a whole number, and put right where it is off"
    ),
    "rms_further_blocks": Honest("rms_forward", "a loop over further blocks, of which no row has any"),
    "mask_of_numbers": Honest("positive_and_finite", "an answer of truth values, of which infinities are told apart"),
    "dropped_above_where": Honest("dropped_above", "elements that are left out by tl.where"),
    "pairs_and_energy": Honest("pairs_and_energy", "two kernels for two outputs, one of them much larger"),
    "rms_rows_asserted": Honest("rms_forward", "tl.device_assert and tl.assume of what always holds"),
    "row_moments_of_lanes": Honest("row_moments", "a mean and variance of each lane, merged by tl.reduce over triples"),
    "mean_square_in_turn": Honest(
        "mean_square", "programs that add up in the order of their tickets, each after a wait"
    ),
    "rope_head_groups": Honest(
        "rope_heads", "heads by groups of four, a mask over half of a head, of which all is there"
    ),
    "relu_squared_one_tile": Honest(
        "relu_squared", "a library's form for elements: a tile or several a program, warps by what a helper returns"
    ),
    "relu_squared_described_backward": Honest("relu_squared", "descriptors in both passes, each with an allocator"),
    "kept_by_where": Honest("kept_elements", "a mask that selects, where the reference multiplies by zero"),
    "logit_scale_clamped": Honest("logit_scale", "a learned scale, bounded by a minimum that hands NaN on"),
    "softmax_biased_online": Honest("softmax_biased", "a running maximum over blocks, with a vector added to each"),
    "columns_in_two_passes": Honest("columns_standardized", "moments of columns in two passes over tiles"),
    "unit_columns_by_largest": Honest("unit_columns", "a norm of what is divided by the largest element first"),
    "smooth_l1_branches": Honest("smooth_l1", "a branch by the scalar, whose other side divides by it"),
    "channel_norm_tiles": Honest(
        "channel_norm", "channels first: tiles of channels and places, weights by flat places"
    ),
    "row_best_pairs": Honest("row_best", "largest and its place by tl.reduce over pairs, NaN before any number"),
    "picked_along_scan": Honest("picked_along", "a scatter without atomics: every element looks through all places"),
    "log_add_kahan": Honest("log_add", "log1p by Kahan's correction, helpers that return several blocks"),
    "rope_pairs_split": Honest("rope_pairs", "pairs by tl.split and tl.interleave, the sign as constexpr"),
    "int8_rows_two_passes": Honest("int8_rows", "whole numbers of 8 bits and their scales, by libdevice.rint"),
    "unit_tensor_three_launches": Honest(
        "unit_tensor", "partial sums of a whole tensor, added up by one program in a loop"
    ),
    "heads_first_strides": Honest("heads_first", "a permuting copy by all strides, backward by the same kernel"),
    "bytes_to_even": Honest(
        "byte_steps", "whole numbers of 8 bits, a half to the even one without a rounding of the language"
    ),
    "tanh_series": Honest("tanh_plain", "a series near zero, exponentials elsewhere"),
    "reglu_twice": Honest("reglu", "a gradient that can be derived once more, by a kernel of its own"),
    "norm_at_most": Honest("norm_at_most", "a limit by tl.where, which hands NaN on"),
    "scale_bias_by_needs": Honest("scale_bias", "kernels by which inputs want gradients"),
}
