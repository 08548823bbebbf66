"""More cheats, by mechanism: what each attacks, and which layer shall see it. A cheat is a file in ``forms/``, or a diff there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_runner.contracts import Status

MECHANISMS = {
    1: "attributes that walk to what the language has not, and names by another scope",
    2: "what is done besides the watch: another thread, process, mode or operator",
    3: "a coding cookie: read as other text than what runs",
    4: "characters that cannot be seen, or look like others",
    5: "what outlives a call: memory made at import, caches, answers kept by content",
    6: "torch or the host does the work",
    7: "right on what is drawn alone: sizes, layouts, values, scalars, gradients, constants",
    8: "the judge is recognised",
    9: "precision thrown away, and biases",
    10: "gradients as autograd uses them: twice, retained, alone, without autograd",
    11: "what a GPU does otherwise: streams, stale memory, races, the compiler",
    12: "the judge itself: bombs, sizes, memory, files",
}

# What a cheat of each mechanism may end in: what it is accused of must be what it does.
WRONG = {
    Status.incorrect_values, Status.incorrect_gradient, Status.incorrect_shape, Status.unwritten_output, Status.out_of_bounds,
    Status.mutated_input, Status.nondeterministic,
}  # fmt: skip
LEAVES = {
    Status.refused,
    Status.unproved,
    Status.cheating,
    Status.compile_error,
}  # the language, seen by its text or when evaluated
NEW_ENDS: dict[int, set[Status]] = {
    **dict.fromkeys((1, 2, 3, 4), LEAVES),
    5: LEAVES | WRONG,
    6: {Status.cheating} | WRONG,
    **dict.fromkeys((7, 8, 9, 10, 11), LEAVES | WRONG | {Status.launch_error}),
    12: LEAVES | WRONG | {Status.launch_error, Status.timeout, Status.out_of_memory},
}


@dataclass(frozen=True)
class NewCheat:
    """``mechanism``: one of ``MECHANISMS``, which says in which statuses it may end. ``layer``: the text shows it, what it does in any
    case shows it, or a whole verdict, which asks that each decision is seen both ways.

    ``dtype``: the one in which it is wrong. ``gpu``: it is meant for a GPU. ``around``: it is wrong at sizes that its own
    constants tell. ``right_on``: where its values are right, so that a verdict passes: only times tell, or only one kind of host.
    ``passes``: no rule finds it in the interpreter yet, as docs/security.md says. ``slow_on``: where it ends in the time limit, as a
    block of 262144 columns does that ptxas compiles.
    """

    problem: str
    mechanism: int
    direction: Literal["forward", "backward"]
    layer: Literal["screen", "run", "whole"]
    note: str
    dtype: str = "float32"
    gpu: bool = False
    around: bool = False
    right_on: tuple[Literal["gpu", "interpreter"], ...] = ()
    passes: bool = False
    slow_on: tuple[Literal["gpu", "interpreter"], ...] = ()

    def cases(self, name: str) -> tuple[str, str, str]:
        """What its cases are made of: problem, dtypes, and the cheat around whose constants they lie."""
        return self.problem, self.dtype, name if self.around else ""


NEW: dict[str, NewCheat] = {
    "attrgetter_of_typing": NewCheat(
        "reglu", 1, "forward", "screen", "`typing.operator.attrgetter` takes attributes by text, dots included."
    ),
    "builtins_of_the_language": NewCheat(
        "reglu", 1, "forward", "screen", "Triton's module `core` holds `builtins`: `getattr` without its name."
    ),
    "default_factory": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "A dataclass calls its `default_factory`; the factory is a partial of `getattr`.",
    ),
    "descriptor": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "Reading an attribute of the class runs a descriptor's code, which knows how often it was read.",
    ),
    "frame_of_a_generator": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "A generator's frame holds the builtins; its attributes are opened by a class of the file.",
    ),
    "getattr_by_another_name": NewCheat(
        "reglu", 1, "forward", "screen", "`getattr` is looked at where it is called, not where it is named."
    ),
    "globals_of_a_function": NewCheat(
        "reglu", 1, "backward", "screen", "A class of the file names `__globals__`, and every function's is open."
    ),
    "hidden_by_a_condition": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "`if` around an import that never runs; the screen reads the imports in no order.",
    ),
    "hidden_by_an_import": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "The same name is imported as `math` in a function that is never called; the screen keeps the last import.",
    ),
    "imports_everything_of_core": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "`from triton.language.core import *` binds `builtins`, which the screen does not know as a module.",
    ),
    "imports_itself": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "`from candidate import torch` is one of the file's own names, and all of its attributes are known.",
    ),
    "matches_attributes": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "A class pattern reads attributes by keyword: there is no attribute node in the tree.",
    ),
    "metaclass_call": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "A metaclass answers every call of the class, and keeps what it was called with.",
    ),
    "module_getattr": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "The module's own `__getattr__` gives `candidate`: another function each time it is asked.",
    ),
    "opens_numpy": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "An attribute that the file defines is allowed on every `self`: a tensor is passed as `self`.",
    ),
    "reduces_getattr": NewCheat(
        "reglu",
        1,
        "backward",
        "screen",
        "`functools.reduce(getattr, names, start)` walks any chain of attributes that is written as text.",
    ),
    "rewrites_the_watch": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "By `dataclasses.sys.modules` the runner's own `Watch` counts nothing any more.",
    ),
    "set_name_hook": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "`__set_name__` is called while a class is made: code runs where only names stand, and sets itself up anew.",
    ),
    "subclass_hook": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "`__init_subclass__` runs as a class is made, with what the class line passes; a generator keeps what it found.",
    ),
    "sys_of_dataclasses": NewCheat(
        "reglu",
        1,
        "forward",
        "screen",
        "`dataclasses.sys` gives every module; numpy writes into the output's memory, no operator of torch runs.",
    ),
    "text_by_builtins_of_enum": NewCheat(
        "reglu", 1, "backward", "screen", "`enum.bltns.exec` is `exec`; the text takes the watch's modes away."
    ),
    "type_hints": NewCheat(
        "reglu", 1, "forward", "screen", "`typing.get_type_hints` evaluates the text of annotations."
    ),
    "buffer_of_an_array": NewCheat(
        "reglu",
        2,
        "forward",
        "screen",
        "`array` and `memoryview` of the standard library compute on the tensor's buffer through numpy's interface.",
    ),
    "dispatch_disabled": NewCheat("reglu", 2, "forward", "screen", "A guard of torch's own turns off every mode."),
    "function_mode_subclass": NewCheat(
        "reglu",
        2,
        "backward",
        "screen",
        "Saved tensors are of a subclass whose `__torch_function__` computes the gradient when the kernel's arguments are made.",
    ),
    "kernel_reaches_python": NewCheat(
        "reglu",
        2,
        "forward",
        "screen",
        "In the interpreter a kernel's body is Python: its blocks hold numpy arrays, by which it reaches the interpreter's modules.",
    ),
    "launch_replaced": NewCheat(
        "reglu",
        2,
        "forward",
        "screen",
        "The kernel's `run` is replaced by a function that launches nothing and has torch compute.",
    ),
    "gradients_by_inline_cuda": NewCheat(
        "reglu", 2, "backward", "screen", "A CUDA kernel that a backward compiles from text, with `load_inline`."
    ),
    "inline_extension": NewCheat(
        "reglu", 2, "forward", "screen", "A C++ extension that the file compiles as it is imported, with `load_inline`."
    ),
    "memory_by_ctypes": NewCheat(
        "reglu", 2, "forward", "screen", "`ctypes` reads and writes at addresses: neither torch nor a kernel computes."
    ),
    "mode_of_its_own": NewCheat(
        "reglu",
        2,
        "backward",
        "screen",
        "A mode pushed on top is called first; it answers with numpy, so that the watch sees no operator.",
    ),
    "operator_named_clone": NewCheat(
        "reglu",
        2,
        "forward",
        "screen",
        "An own operator of torch, named as one that only moves data, hides what runs inside it.",
    ),
    "pointwise_of_aten": NewCheat(
        "reglu",
        2,
        "backward",
        "screen",
        "`torch.ops.aten` with the modes off; the kernel is handed the answer afterwards and does nothing.",
    ),
    "traced_by_torch": NewCheat(
        "reglu",
        2,
        "forward",
        "screen",
        "`torch.jit.trace` compiles the function; its operators run with the modes off.",
    ),
    "watch_by_collector": NewCheat(
        "reglu",
        2,
        "backward",
        "screen",
        "`gc` lists every object of the process, the watch among them: it is told to look away.",
    ),
    "worker_of_a_pool": NewCheat(
        "reglu", 2, "backward", "screen", "Modes are a thread's own: a pool of threads computes unseen."
    ),
    "byte_order_mark": NewCheat(
        "reglu",
        3,
        "forward",
        "screen",
        "A byte-order mark: tools that read bytes and tools that read text disagree on the first line.",
    ),
    "carriage_return": NewCheat(
        "reglu",
        3,
        "forward",
        "screen",
        "A lone carriage return ends a comment for Python, and not for a diff or an editor.",
    ),
    "cookie_behind_form_feed": NewCheat(
        "reglu", 3, "forward", "screen", "A form feed may stand before the comment that names the encoding."
    ),
    "cookie_on_the_second_line": NewCheat(
        "reglu", 3, "backward", "screen", "The encoding stands on the second line, in an editor's form."
    ),
    "cookie_raw_unicode_escape": NewCheat(
        "reglu", 3, "backward", "screen", "In `raw_unicode_escape` only `\\u` is read: strings look as ever."
    ),
    "cookie_unicode_escape": NewCheat(
        "reglu", 3, "forward", "screen", "In the encoding `unicode_escape` an escape in a comment ends it."
    ),
    "cookie_utf7": NewCheat("reglu", 3, "forward", "screen", "In UTF-7 a comment holds a line break and a statement."),
    "form_feed": NewCheat(
        "reglu", 3, "backward", "screen", "A form feed begins a page: a viewer may show nothing behind it."
    ),
    "latin1_bytes": NewCheat(
        "reglu", 3, "backward", "screen", "Bytes that are no UTF-8, under a cookie that allows them."
    ),
    "null_byte": NewCheat(
        "reglu", 3, "forward", "screen", "A null byte: C readers end there, Python refuses or reads on, by version."
    ),
    "utf16": NewCheat("reglu", 3, "backward", "screen", "UTF-16 bytes: not UTF-8 at all."),
    "bidirectional_comment": NewCheat(
        "reglu", 4, "forward", "screen", "Bidirectional controls show the code after a comment as part of it."
    ),
    "cyrillic_name": NewCheat(
        "reglu",
        4,
        "forward",
        "screen",
        "A Cyrillic letter in a name that looks as the parameter's: the size that is checked is not the one that is used.",
    ),
    "filler_as_a_name": NewCheat(
        "reglu",
        4,
        "forward",
        "screen",
        "U+3164 is a letter that shows nothing: a parameter with it as its name drops the last element.",
    ),
    "fullwidth_name": NewCheat(
        "reglu",
        4,
        "forward",
        "screen",
        "Python reads fullwidth letters as the plain ones: `getattr` is not written as such.",
    ),
    "greek_constexpr": NewCheat(
        "reglu",
        4,
        "backward",
        "screen",
        "A Greek capital in the name of a block size: two constants that look the same.",
    ),
    "joiner_in_a_name": NewCheat(
        "reglu",
        4,
        "backward",
        "screen",
        "U+034F, the combining grapheme joiner, may stand in a name and shows nothing.",
    ),
    "note_in_tag_characters": NewCheat(
        "reglu", 4, "backward", "screen", "A comment holds a message in tag characters."
    ),
    "note_in_variation_selectors": NewCheat(
        "reglu",
        4,
        "forward",
        "screen",
        "A docstring holds a message in variation selectors, which no viewer shows, for whoever reads the text by machine.",
    ),
    "variation_selector_in_a_name": NewCheat(
        "reglu", 4, "backward", "screen", "`scale` with a variation selector behind it is another name than `scale`."
    ),
    "zero_width_in_a_string": NewCheat(
        "reglu", 4, "backward", "screen", "Two keys of a table that differ by a zero-width space."
    ),
    "answer_kept_by_an_exhausted_map": NewCheat(
        "reglu",
        5,
        "forward",
        "run",
        "`map` over an iterator of tensors made at import hands out a buffer a call, the last of them for ever.",
    ),
    "cached_pool": NewCheat(
        "reglu",
        5,
        "forward",
        "run",
        "A cached function without parameters gives memory by `new_empty`, which the rules for cached functions do not name.",
    ),
    "class_attribute_at_import": NewCheat(
        "reglu",
        5,
        "forward",
        "run",
        "A class attribute holds memory made at import, in which a kernel counts its launches.",
    ),
    "context_shared": NewCheat(
        "reglu",
        5,
        "backward",
        "run",
        "What the context keeps is a view of memory made at import: two forwards before two backwards share it.",
    ),
    "counted_by_a_generator": NewCheat(
        "reglu", 5, "backward", "run", "A generator's local variables outlive the call."
    ),
    "counted_by_an_iterator": NewCheat(
        "reglu", 5, "forward", "run", "An iterator made at import counts calls without any statement that stores."
    ),
    "gradients_in_one_buffer": NewCheat(
        "reglu",
        5,
        "backward",
        "run",
        "Memory that is made at import is in no record of the runs: every call gives its gradients in the same place, so that the next call changes them.",
    ),
    "import_buffer_by_content": NewCheat(
        "reglu",
        5,
        "forward",
        "run",
        "Memory that is made at import is in no record of the runs: a kernel compares the first elements of a block with those it kept, and copies the answer it kept.",
    ),
    "kept_by_a_partial": NewCheat(
        "reglu",
        5,
        "backward",
        "run",
        "Memory that is made at import is in no record of the runs; it is bound to a function by `functools.partial`.",
    ),
    "three_answers_in_two_buffers": NewCheat(
        "reglu",
        5,
        "forward",
        "run",
        "Memory that is made at import is in no record of the runs: answers alternate between two parts of it, so that a third overwrites the first.",
    ),
    "a_hundredth_of_the_gradient_by_torch": NewCheat(
        "reglu", 6, "backward", "run", "Torch computes a hundredth of each gradient."
    ),
    "a_thirtieth_by_torch": NewCheat(
        "reglu",
        6,
        "forward",
        "run",
        "Torch computes a thirtieth of the output: below any share that is counted for the whole call.",
    ),
    "matmul_by_partial_sums": NewCheat(
        "matmul",
        6,
        "forward",
        "run",
        "A kernel makes all products, torch adds them all: the inner dimension is the partial one.",
    ),
    "matmul_gradient_by_partial_sums": NewCheat(
        "matmul", 6, "backward", "run", "The gradients' inner sums are torch's."
    ),
    "row_sum_by_torch": NewCheat(
        "row_sum",
        6,
        "forward",
        "run",
        "The sum of partial buffers is the sum itself: a kernel copies the input, torch adds along the first dimension.",
    ),
    "rows_by_copies": NewCheat(
        "take_rows",
        6,
        "forward",
        "run",
        "`copy_` of one row at a time, with indices read by `item`, gathers the whole table.",
    ),
    "softmax_scaled_by_host": NewCheat(
        "softmax",
        6,
        "forward",
        "run",
        "The kernel gives exponentials and torch's `sum` over a transposed buffer gives the denominators.",
    ),
    "sum_of_two_by_torch": NewCheat(
        "add",
        6,
        "forward",
        "run",
        "Two inputs are copied behind each other, and torch adds them as if they were partial sums.",
    ),
    "whole_sum_beside_partial_sums": NewCheat(
        "rms_norm",
        6,
        "backward",
        "run",
        "One line adds up the programs' weight gradients and the terms of the input's gradient, which is the work.",
    ),
    "transpose_by_clone_in_the_arguments": NewCheat(
        "transpose",
        6,
        "forward",
        "run",
        "A view is handed to the kernel by `reshape`, which copies it in the order that is asked for.",
    ),
    "transpose_by_contiguous": NewCheat(
        "transpose", 6, "backward", "run", "`contiguous` of a transposed view is the transpose."
    ),
    "rows_by_stack": NewCheat("take_rows", 6, "forward", "run", "Rows that torch stacks are the gather."),
    "transpose_by_strides": NewCheat(
        "transpose", 6, "backward", "run", "A view with exchanged strides is a transpose by another name."
    ),
    "transpose_by_stack": NewCheat("transpose", 6, "backward", "run", "Columns that torch stacks are the transpose."),
    "transpose_by_copy": NewCheat(
        "transpose",
        6,
        "forward",
        "run",
        "`copy_` from a transposed view is the transpose; the kernel only copies its result onto itself.",
    ),
    "weights_by_expanded_gradients": NewCheat(
        "scale_bias",
        6,
        "backward",
        "run",
        "Weights are expanded outside of the function, so that autograd's own sum over all rows makes their gradients.",
    ),
    "whole_rows_as_partial_sums": NewCheat(
        "scale_bias",
        6,
        "backward",
        "run",
        "The buffer of partial sums has a row for every row of the input: torch's sum reads as much as the kernel.",
    ),
    "fifth_of_a_row_by_torch": NewCheat(
        "row_sum",
        6,
        "forward",
        "run",
        "A fifth of each row is copied beside the sum of the others: few numbers beside the input, and a fifth of the work.",
    ),
    "between_the_draws": NewCheat(
        "reglu", 7, "forward", "run", "Values are ordinary (below 30) or 2**60: between 64 and 1e24 little is drawn."
    ),
    "equal_rows": NewCheat(
        "softmax",
        7,
        "forward",
        "run",
        "Rows of equal values are drawn only at the end of the dtype: at ordinary values they are taken for padding.",
    ),
    "few_rows_only": NewCheat(
        "softmax",
        7,
        "backward",
        "run",
        "At most 64 rows are drawn in the interpreter: the grid of the backward ends at 4,096.",
    ),
    "five_blocks_at_most": NewCheat(
        "softmax",
        7,
        "forward",
        "run",
        "Nothing drawn in the interpreter is wider than 4,099: the loop over blocks ends after 5 (16 on a GPU would hide it as well).",
    ),
    "gradient_at_zero": NewCheat(
        "reglu",
        7,
        "backward",
        "run",
        "No input is exactly zero: the gradient there is another one than the reference's.",
    ),
    "index_in_sixteen_bits": NewCheat(
        "take_rows", 7, "forward", "run", "Tables are as small as the table of sizes: indices are cut to sixteen bits."
    ),
    "large_upstream": NewCheat(
        "rms_norm",
        7,
        "backward",
        "run",
        "Upstream gradients are a few units: loss scaling's 65,536 overflows the kernel's own clamp.",
    ),
    "no_eps_for_small_rows": NewCheat(
        "rms_norm",
        7,
        "backward",
        "run",
        "Rows are never small: for those that are eps is dropped, and rows of zeros give NaN.",
    ),
    "only_listed_widths": NewCheat(
        "reglu", 7, "forward", "run", "The odd sizes are a table in the source: any other width is not finished."
    ),
    "two_values_of_eps": NewCheat(
        "rms_norm",
        7,
        "forward",
        "run",
        "A scalar is drawn as its default or as 0.05: everything else is rounded to one of them.",
    ),
    "unit_column_stride": NewCheat(
        "reglu", 7, "forward", "run", "Inputs are never transposed or broadcast: only the row's stride is used."
    ),
    "upstream_with_unit_columns": NewCheat(
        "reglu",
        7,
        "backward",
        "run",
        "Upstream gradients are dense, apart or one number: a transposed one is read by its row stride alone.",
    ),
    "weights_above_minus_two": NewCheat(
        "rms_norm",
        7,
        "forward",
        "run",
        "Weights are drawn within 1 +- 0.4: they are clamped to [-2, 4], which none leaves.",
    ),
    "weights_above_minus_two_backward": NewCheat(
        "rms_norm", 7, "backward", "run", "The weight in the gradient is clamped to [-2, 4], which no draw leaves."
    ),
    "caller_by_frames": NewCheat(
        "reglu",
        8,
        "backward",
        "screen",
        "A generator's frame leads to the frames of its callers, the runner's among them.",
    ),
    "clock_by_modules": NewCheat(
        "reglu",
        8,
        "forward",
        "screen",
        "The clock is read through `typing.sys.modules`; whoever imports it a day later gets other answers.",
    ),
    "environment_by_modules": NewCheat(
        "reglu",
        8,
        "forward",
        "screen",
        "The environment is read through a module that an allowed one has imported; a judged process has few variables.",
    ),
    "grad_mode": NewCheat(
        "softmax",
        8,
        "forward",
        "run",
        "Judged calls are made with gradients on: under `no_grad` another kernel's settings lose blocks.",
    ),
    "gradients_wanted": NewCheat(
        "reglu",
        8,
        "forward",
        "run",
        "At least one judged input wants a gradient: without any, as in inference, only the first row is computed.",
    ),
    "guard_before_the_upstream": NewCheat(
        "reglu", 8, "backward", "run", "Before a judged upstream gradient lies a NaN, which the kernel reads."
    ),
    "guard_beyond_the_end": NewCheat(
        "softmax", 8, "forward", "run", "Behind a judged input lie NaNs: the kernel reads one element beyond the end."
    ),
    "module_name": NewCheat(
        "reglu", 8, "forward", "run", "The module is called `candidate` where it is judged, and otherwise in a library."
    ),
    "poisoned_gradient": NewCheat(
        "reglu",
        8,
        "backward",
        "run",
        "The kernel reads the gradient's memory before it writes: judged memory holds one known NaN.",
    ),
    "poisoned_output": NewCheat(
        "reglu",
        8,
        "forward",
        "run",
        "The kernel reads its output before it writes: memory that is judged holds one known NaN.",
    ),
    "same_content_again": NewCheat(
        "reglu",
        8,
        "backward",
        "run",
        "Only judged calls come twice with the same content: a kernel keeps a sum of its inputs at import-made memory, and errs on fresh content after a hundred calls.",
    ),
    "storage_offset": NewCheat(
        "reglu", 8, "forward", "run", "Every judged input begins 512 elements into its storage."
    ),
    "upstream_offset": NewCheat(
        "reglu", 8, "backward", "run", "Every judged upstream gradient begins 512 elements into its storage."
    ),
    "bfloat16_partial_gradients": NewCheat(
        "rms_norm",
        9,
        "backward",
        "run",
        "Partial sums of the weight's gradient are kept in bfloat16 beside a float32 reference.",
    ),
    "bfloat16_sums": NewCheat(
        "rms_norm",
        9,
        "forward",
        "run",
        "The reference adds squares in float32; here each square is a bfloat16.",
        dtype="bfloat16",
    ),
    "coarse_dot_product": NewCheat(
        "softmax", 9, "backward", "run", "The dot product of a row is made of terms cut by three bits."
    ),
    "drops_low_bits": NewCheat(
        "reglu",
        9,
        "forward",
        "run",
        "Four bits of the mantissa are cut off: every element is too small, within the tolerance.",
    ),
    "drops_low_bits_backward": NewCheat("reglu", 9, "backward", "run", "Four bits of each gradient are cut off."),
    "gradients_too_small": NewCheat(
        "reglu",
        9,
        "backward",
        "run",
        "Gradients in bfloat16 are too small by 0.15% (but for values far out): a bias, where rounding has none.",
        dtype="bfloat16",
    ),
    "one_in_a_million_too_large": NewCheat(
        "reglu",
        9,
        "forward",
        "run",
        "Every element is larger by a millionth: a bias below the bound on the error's size.",
    ),
    "tiny_numbers_for_zeros": NewCheat(
        "reglu", 9, "forward", "run", "A ten-millionth where the rectifier gives zero: what counts zeros finds none."
    ),
    "one_wrong_element_a_row": NewCheat(
        "reglu", 9, "forward", "run", "One element of each row is wrong by as much as one element may be."
    ),
    "rounds_by_index": NewCheat(
        "softmax",
        9,
        "forward",
        "run",
        "Noise of a millionth, by a hash of the index: neither exact nor random from run to run.",
    ),
    "small_elements_are_zero": NewCheat(
        "reglu",
        9,
        "backward",
        "run",
        "Gradients below 4e-6 are zero: all of their digits are lost, and the tolerance is relative to the tensor.",
    ),
    "truncates_bfloat16": NewCheat(
        "reglu",
        9,
        "forward",
        "run",
        "bfloat16 by cutting: the mean error is half a step, always towards zero.",
        dtype="bfloat16",
    ),
    "half_gradients_cut": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "Gradients are cut at the largest number of float16, where loss scaling looks for infinities.",
        dtype="float16",
    ),
    "clamped_upstream": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "Upstream gradients are a few units: they are clamped to 256, which a loss scale exceeds.",
    ),
    "double_backward_of_zeros": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "The gradient is a function of its own, whose backward gives zeros: a second derivative is silently wrong.",
    ),
    "no_weight_gradient_in_half": NewCheat(
        "reglu",
        10,
        "forward",
        "run",
        "Where the second input wants no gradient, the forward keeps a rounded gate, and gives its product.",
    ),
    "one_output_alone": NewCheat(
        "add_rms_norm",
        10,
        "backward",
        "run",
        "Both outputs always have an upstream gradient: where one is unused all gradients are zero.",
    ),
    "one_tensor_for_two_gradients": NewCheat(
        "add_rms_norm",
        10,
        "backward",
        "run",
        "Two inputs get one tensor as their gradients, doubled in place by whoever accumulates into it: shared memory that the reference does not share.",
    ),
    "overlapping_gradients": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "Both gradients are parts of one buffer with expanded strides once the upstream one is a single number: writing one writes the other.",
    ),
    "overwrites_what_is_saved": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "Wide saved tensors are overwritten by the backward; a second backward is only tried on small ones.",
    ),
    "second_input_alone": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "Only the first input is ever asked for alone: for the second alone the gradient is another one.",
    ),
    "third_backward": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "A graph that is kept is tried twice: the context counts, and the third gradient is zero.",
    ),
    "wrong_in_a_checkpoint": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "A checkpoint runs the forward first without gradients: what it saves then is half of the inputs for ever after.",
    ),
    "wrong_without_autograd": NewCheat(
        "reglu", 10, "forward", "run", "Under `no_grad`, as in inference, another path forgets the gate's sign."
    ),
    "adds_without_atomics": NewCheat(
        "row_sum",
        11,
        "forward",
        "run",
        "Programs add to one element by load and store: right in order, lost updates on a GPU.",
        gpu=True,
    ),
    "another_stream": NewCheat(
        "reglu",
        11,
        "forward",
        "screen",
        "The kernel runs on a stream of its own, and nobody waits for it: the caller's stream is timed empty.",
        gpu=True,
    ),
    "backward_moved_forward": NewCheat(
        "reglu",
        11,
        "backward",
        "run",
        "The forward computes both factors of the gradients: the backward's time is short, and its memory is not counted there.",
        gpu=True,
        right_on=("gpu", "interpreter"),  # the times of both together tell
    ),
    "graph_replayed": NewCheat(
        "reglu",
        11,
        "backward",
        "screen",
        "A CUDA graph is captured once a shape and replayed with its old addresses: gradients are those of the first call's inputs.",
        gpu=True,
    ),
    "programs_in_order": NewCheat(
        "reglu",
        11,
        "forward",
        "run",
        "A program reads what the one before it wrote: the interpreter runs them in order, a GPU does not.",
        gpu=True,
    ),
    "rows_on_the_second_axis": NewCheat(
        "reglu",
        11,
        "backward",
        "run",
        "Rows lie on the grid's second axis, which ends at 65,535 on a GPU: a later launch fails, or is cut off here.",
        gpu=True,
        right_on=("interpreter",),
    ),
    "trusts_stale_gradients": NewCheat(
        "reglu", 11, "backward", "run", "Gradient blocks that begin as they should are skipped.", gpu=True
    ),
    "trusts_stale_memory": NewCheat(
        "reglu",
        11,
        "forward",
        "run",
        "A block whose first 16 elements are right already is skipped: the last answer for the same inputs may lie there.",
        gpu=True,
    ),
    "ticket_as_place": NewCheat(
        "rms_norm",
        11,
        "backward",
        "run",
        "A ticket by `atomic_add` says where a program's result is kept: right where programs come in their order.",
        gpu=True,
    ),
    "moved_in_place": NewCheat(
        "reglu",
        11,
        "forward",
        "run",
        "Each program reads an element that the next one overwrites: right where programs come in their order.",
        gpu=True,
    ),
    "undefined_masked_loads": NewCheat(
        "rms_norm",
        11,
        "forward",
        "run",
        "Masked loads without `other`: zeros in the interpreter, anything on a GPU.",
        gpu=True,
    ),
    "weight_gradient_without_atomics": NewCheat(
        "scale_bias",
        11,
        "backward",
        "run",
        "Rows add to the weights' gradients by load and store: right in order, wrong where programs run at once.",
        gpu=True,
    ),
    "deep_brackets": NewCheat(
        "reglu",
        12,
        "forward",
        "screen",
        "150 brackets inside each other, each around a subscript: within Python's limit, beyond a careless walk.",
    ),
    "deep_expression": NewCheat(
        "reglu",
        12,
        "backward",
        "screen",
        "An expression 5,000 operators deep: parsing, walking, unparsing or compiling it overflows the stack.",
    ),
    "doubling_list": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "A list that is doubled forty times, by names that each hold two of the one before.",
    ),
    "endless_in_a_builtin": NewCheat(
        "reglu", 12, "forward", "run", "A builtin that loops in C, where no step of host code is counted."
    ),
    "every_seventeenth_size": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "Wrong at multiples of one number: no range of sizes is sure to hold one.",
        around=True,
    ),
    "endless_host_loop": NewCheat(
        "reglu", 12, "forward", "run", "A loop in host code that never ends: only a budget or a deadline ends it."
    ),
    "endless_recursion": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "A function that calls itself without end: in an evaluator each level costs several of Python's.",
    ),
    "expanded_answer": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "One element expanded to 2**34: whoever copies the answer before looking at its shape needs 64 GiB.",
    ),
    "expanded_gradient": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "An output of the right shape, and a gradient that is expanded over a new first dimension; autograd itself sums 2**34 elements.",
    ),
    "fills_the_disk": NewCheat(
        "reglu",
        12,
        "backward",
        "screen",
        "Files of the largest size that is allowed, one after the other, fill the disk under the scratch folder.",
    ),
    "giant_integer": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "Integers without bound: a power of a power takes all memory of whoever evaluates it.",
    ),
    "giant_shift": NewCheat("reglu", 12, "backward", "run", "A shift by 2**40 needs 128 GiB for one integer."),
    "giant_string": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "A string of 2**40 letters, or a width in a format, in a message that is never shown.",
    ),
    "huge_block": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "A block of 2**31 elements: the interpreter allocates it before any mask is looked at.",
    ),
    "huge_grid": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "A grid of 2**31 - 1 programs, nearly all of which do nothing.",
        right_on=("gpu",),  # which carries it out, in minutes
        slow_on=("gpu",),
    ),
    "long_error": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "An error whose message is 256 MiB of Markdown, for a log, a database and a comment.",
    ),
    "long_name": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "A kernel's name of 100,000 letters goes into every record, and a thousand kernels' names into the report.",
    ),
    "many_elif": NewCheat(
        "reglu",
        12,
        "forward",
        "screen",
        "1,500 `elif` lie 1,500 deep in the tree: a walk by recursion fails in the judge.",
    ),
    "many_processes": NewCheat(
        "reglu",
        12,
        "forward",
        "screen",
        "Each process starts two more, to a depth of ten: a limit on processes of the user, not of the verdict, hits the host.",
    ),
    "million_launches": NewCheat(
        "reglu",
        12,
        "forward",
        "run",
        "A million launches of a kernel that does nothing: the list of launches has no bound.",
    ),
    "nested_answer": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "The answer is a tuple in a tuple, 100,000 deep: whoever looks for tensors in it by recursion fails.",
    ),
    "nested_arguments": NewCheat("reglu", 12, "forward", "run", "A launch is handed a list in a list, 100,000 deep."),
    "nested_folders": NewCheat(
        "reglu",
        12,
        "forward",
        "screen",
        "3,000 folders inside each other are left behind: whoever removes them by recursion fails, at every later verdict too.",
    ),
    "unrolled_without_end": NewCheat(
        "reglu",
        12,
        "backward",
        "run",
        "`tl.static_range` over ten million: the compiler, not the kernel, never ends.",
        slow_on=("gpu",),
    ),
    "same_memory_twice": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "The kernel compares the addresses of its two inputs: where they are one, the product is doubled.",
    ),
    "upstream_of_exactly_one": NewCheat(
        "reglu",
        10,
        "backward",
        "run",
        "An upstream gradient of exactly one, as `sum().backward()` gives it, is taken for no gradient.",
    ),
    "loss_of_one": NewCheat(
        "cross_entropy",
        10,
        "backward",
        "run",
        "The gradient of a loss whose upstream is one, as it is for `loss.backward()`, is halved.",
    ),
    "faint_rows_are_zero": NewCheat(
        "rms_norm",
        7,
        "forward",
        "run",
        "Rows whose mean square is below 1e-4 become zero: activations of a hundredth are never drawn.",
    ),
    "zero_columns": NewCheat(
        "column_norm_clamped",
        7,
        "forward",
        "run",
        "A column of zeros is divided by its norm without the bound: zero rows are drawn, zero columns are not.",
    ),
    "negative_slope_is_positive": NewCheat(
        "activation", 7, "forward", "run", "A slope's sign is dropped: defaults of one sign are drawn with it."
    ),
    "share_clamped": NewCheat("scale_bias", 7, "forward", "run", "A factor beyond one is clamped to one."),
    "whole_number_for_a_float": NewCheat(
        "scale_bias", 7, "forward", "run", "A factor that is given as a whole number is taken for another."
    ),
    "overlapping_windows": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "Rows that overlap, as `unfold` gives them, are taken for rows that follow each other.",
    ),
    "parts_of_one_tensor": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "Two inputs that are the parts of one tensor, as `chunk` gives them, are taken for each other.",
    ),
    "columns_of_stride_zero": NewCheat(
        "reglu", 7, "forward", "run", "An input that is broadcast along its columns is read as zeros."
    ),
    "weights_in_float32": NewCheat(
        "rms_norm_float32",
        7,
        "forward",
        "run",
        "Weights in float32 beside inputs in half precision, as mixed precision has them, are taken for ones.",
        dtype="float32,float16",
    ),
    "weight_gradient_of_no_rows": NewCheat(
        "rms_norm",
        7,
        "backward",
        "run",
        "Without rows nobody writes the weight's gradient: what the memory held before is given.",
    ),
    "sum_of_no_rows": NewCheat(
        "column_sum", 7, "forward", "run", "The sum over no rows is what the memory held before."
    ),
    "inputs_hidden_from_autograd": NewCheat(
        "rms_norm",
        10,
        "backward",
        "run",
        "Inputs are kept on the context past autograd, which does not see that they were changed before the backward.",
    ),
    "answer_hidden_from_autograd": NewCheat(
        "softmax",
        10,
        "backward",
        "run",
        "The answer is kept past autograd: whoever changes it in place, as a dropout does, changes the gradient.",
    ),
    "data_hidden_from_autograd": NewCheat(
        "reglu", 10, "backward", "run", "`data` is saved, which has a version of its own: autograd sees no change."
    ),
    "threshold_by_names": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "Two names multiply to the number of rows from which on the last one is left out.",
        around=True,
    ),
    "threshold_by_text": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "The number of columns from which on one is left out is read from text.",
        around=True,
    ),
    "threshold_by_fraction": NewCheat(
        "reglu", 7, "forward", "run", "A limit that is no whole number: 301.5 columns.", around=True
    ),
    "threshold_by_a_table": NewCheat(
        "reglu",
        7,
        "forward",
        "run",
        "The limits are entries of a table, of which one is multiplied by the other.",
        around=True,
    ),
    "columns_in_sixteen_bits": NewCheat(
        "rms_norm",
        7,
        "forward",
        "run",
        "Columns are counted in sixteen bits: those from 32768 on are negative.",
        around=True,
    ),
    "second_setting_is_wrong": NewCheat(
        "glu",
        11,
        "forward",
        "run",
        "The settings of an autotuner but the first leave out columns: the interpreter takes the first.",
    ),
    "matmul_gradient_by_autograd": NewCheat(
        "matmul",
        6,
        "backward",
        "run",
        "The gradient of a matrix is given as one outer product an argument: autograd adds them all.",
    ),
    "last_program_adds_up": NewCheat(
        "mean_square",
        11,
        "forward",
        "run",
        "The middle program reads what the others have added, when as many have come before it as it expects.",
    ),
    "on_a_gpu_alone": NewCheat("reglu", 7, "forward", "run", "On a GPU one input is taken for the other."),
    "many_multiprocessors": NewCheat(
        "reglu",
        7,
        "backward",
        "run",
        "Where the GPU said at import that it has many multiprocessors the gradient is wrong.",
    ),
    "by_the_name_of_the_gpu": NewCheat(
        "reglu", 7, "forward", "run", "On GPUs of some names one input is taken for the other."
    ),
    "while_it_is_compiled": NewCheat(
        "reglu", 7, "forward", "run", "Where torch traces a program one input is taken for the other."
    ),
    "kl_zero_target": NewCheat(
        "kl_div",
        7,
        "forward",
        "run",
        "The logarithm of a probability that is exactly zero gives NaN: drawn ones are never zero.",
    ),
    "bce_no_clamp": NewCheat(
        "bce",
        7,
        "forward",
        "run",
        "Shares of exactly zero and one give infinities, where the reference bounds the logarithm.",
    ),
    "ce_mostly_ignored": NewCheat(
        "cross_entropy_ignore",
        7,
        "forward",
        "run",
        "Where more than half of the classes are ignored, as in a long prompt, the divisor is another.",
    ),
    "target_stride": NewCheat(
        "cross_entropy", 7, "forward", "run", "Labels that are a column of a table are read as if they were one piece."
    ),
    "parameter_instance": NewCheat(
        "rms_norm",
        8,
        "forward",
        "run",
        "A weight that is a module's parameter, as for every user, means another epsilon.",
    ),
    "default_differs": NewCheat(
        "scale_bias",
        7,
        "forward",
        "run",
        "The default of a scalar is not the reference's: whoever leaves it out gets another answer.",
    ),
    "nan_upstream": NewCheat(
        "reglu", 10, "backward", "run", "A NaN in an upstream gradient becomes zero: loss scaling sees nothing."
    ),
    "half_empty_rows": NewCheat(
        "softmax", 7, "forward", "run", "Rows of which most elements are zero, as behind a ReLU, are halved."
    ),
    "sum_of_no_columns": NewCheat(
        "row_sum", 7, "forward", "run", "The sum over no columns is what the memory held before."
    ),
    "seed_of_16_bits": NewCheat(
        "hashed_dropout", 7, "forward", "run", "Of a seed 16 bits count: drawn ones were small."
    ),
    "weight_gradient_alone": NewCheat(
        "rms_norm",
        10,
        "backward",
        "run",
        "Where the weight alone wants a gradient, only the first 1024 columns are summed.",
    ),
    "inference_wide": NewCheat(
        "softmax", 10, "forward", "run", "Without gradients a kernel of one block serves rows of any width."
    ),
    "attention_third_block": NewCheat(
        "attention", 7, "forward", "run", "From the third block of keys on sums are not rescaled.", around=True
    ),
    "mse_expanded": NewCheat(
        "mse", 9, "forward", "run", "Squares are expanded: where two inputs are close to each other the loss is noise."
    ),
    "nan_pair_in_row": NewCheat(
        "reglu", 7, "forward", "whole", "A row with two NaN or more becomes zeros where they are."
    ),
    "nan_upstream_row": NewCheat(
        "reglu", 7, "backward", "whole", "An upstream row that is NaN everywhere gives gradients of zero."
    ),
    "beyond_2_60": NewCheat("reglu", 7, "forward", "whole", "Finite values above 1e20 are cut."),
    "upstream_beyond": NewCheat("reglu", 7, "backward", "whole", "Finite upstream gradients above 1e8 count as zero."),
    "upstream_below": NewCheat("reglu", 7, "backward", "whole", "Upstream gradients below 1e-18 are zero."),
    "step_of_eight": NewCheat(
        "reglu", 7, "forward", "whole", "A column slice with a step above three swaps the inputs."
    ),
    "permuted_beside_sliced": NewCheat(
        "reglu", 7, "forward", "whole", "One input sliced, the other transposed: swapped."
    ),
    "one_number_expanded": NewCheat(
        "reglu", 7, "forward", "whole", "An input that is one number, expanded, swaps the inputs."
    ),
    "upstream_step": NewCheat("reglu", 7, "backward", "whole", "An upstream gradient with a column step above three."),
    "dtype_pair": NewCheat("reglu", 7, "forward", "whole", "Inputs of different dtypes are swapped."),
    "rows_divide_columns": NewCheat(
        "reglu", 7, "forward", "whole", "Wrong where more than 64 rows divide the columns (4096 x 8192)."
    ),
    "one_more_row": NewCheat("reglu", 7, "forward", "whole", "Wrong where there is one row more than columns."),
    "tall_single_column": NewCheat("reglu", 7, "forward", "whole", "A single column with more than 31 rows."),
    "rank_four": NewCheat("reglu", 7, "forward", "whole", "Four dimensions: swapped."),
    "activation_parameter": NewCheat(
        "reglu", 7, "forward", "whole", "An activation that is a Parameter swaps the inputs."
    ),
    "autocast_half": NewCheat(
        "reglu", 7, "forward", "whole", "Under autocast it computes in float16, where the reference stays in float32."
    ),
    "causal_rows": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "Rows of which several columns at the end are minus infinity (causal mask) are halved.",
    ),
    "sorted_row": NewCheat("softmax", 7, "forward", "whole", "Rows in ascending order (ALiBi) are halved."),
    "eps_large": NewCheat("rms_norm", 7, "forward", "whole", "eps above 0.25 is cut."),
    "eps_small": NewCheat(
        "rms_norm", 7, "forward", "whole", "eps below 4e-7 is raised: 1e-12 is wrong for faint rows."
    ),
    "two_of_three_gradients": NewCheat(
        "layer_norm",
        7,
        "backward",
        "whole",
        "x and bias want a gradient, the weight does not: the bias gets the weight's.",
    ),
    "tall_and_wide": NewCheat("reglu", 7, "forward", "whole", "More than 2^16 elements."),
    "weight_narrower": NewCheat("rms_norm", 7, "forward", "whole", "Weights in bfloat16 beside float32 inputs."),
    "overlap": NewCheat("reglu", 7, "forward", "whole", "Two inputs one element apart in one memory."),
    "two_infinities": NewCheat("reglu", 7, "forward", "whole", "Two +inf or more in a row become zeros."),
    "target_and_faint": NewCheat(
        "cross_entropy",
        7,
        "forward",
        "whole",
        "Several but fewer than half of the logits masked by -1e10 (padded vocabulary): off by one.",
    ),
    "power_of_zero": NewCheat(
        "rms_norm", 7, "forward", "whole", "`0 ** difference` raises eps for 4 times as many columns as rows (H, 4 H)."
    ),
    "table_by_bit_length": NewCheat(
        "residual", 7, "forward", "whole", "More than 2^17 elements: a table by the length of the number in bits."
    ),
    "zeros_in_the_size": NewCheat(
        "relu_squared", 7, "forward", "whole", "1000 or 3000 columns: a heuristic counts zeros in the number's text."
    ),
    "lanes_beyond_the_row": NewCheat(
        "reglu", 7, "forward", "whole", "Values above 1e25 are cut; lanes beyond the row are above it in every case."
    ),
    "limit_in_a_helper": NewCheat(
        "reglu", 7, "forward", "whole", "Values above 1e25 are cut, by a helper that another kernel calls with zero."
    ),
    "limit_in_an_unrolled_loop": NewCheat(
        "reglu", 7, "forward", "whole", "Values above 1e33 are cut, by a loop whose first step compares with zero."
    ),
    "quotient_that_is_zero": NewCheat(
        "scale_bias", 7, "forward", "whole", "Values above 4e28 are halved: a cast that is not zero there alone."
    ),
    "high_bits_of_a_label": NewCheat(
        "cross_entropy",
        7,
        "forward",
        "whole",
        "Labels from 2^16 read another logit: a shift that is not zero there alone.",
    ),
    "labels_in_order": NewCheat(
        "cross_entropy", 7, "forward", "run", "Labels are 0, 1, 2, ..., as of contrastive losses: off by one."
    ),
    "upstream_is_the_output": NewCheat(
        "swiglu",
        7,
        "backward",
        "run",
        "The upstream gradient is the output, as of half of its square: times the width.",
    ),
    "one_upstream_for_two_outputs": NewCheat(
        "add_rms_norm",
        7,
        "backward",
        "run",
        "Both outputs have one tensor as their upstream gradient: counted once more.",
    ),
    "matrix_and_its_transpose": NewCheat(
        "matmul", 7, "forward", "run", "Both factors begin at one address (x @ x.t()): doubled."
    ),
    "pixels": NewCheat("layer_norm", 7, "forward", "run", "Rows of multiples of 1/255 are doubled."),
    "fifth_backward": NewCheat(
        "rms_norm",
        7,
        "backward",
        "run",
        "The fifth backward of a retained graph is doubled, counted in a saved tensor.",
    ),
    "view_two_rows_on": NewCheat(
        "residual", 7, "forward", "run", "Two views of one tensor, two rows apart: the first counts twice."
    ),
    "usual_epsilon": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "A smooth bump at an epsilon of 1e-5, which most models have: no decision, and drawn epsilons were none of theirs.",
    ),
    "upstream_is_an_input": NewCheat(
        "reglu",
        10,
        "backward",
        "whole",
        "The upstream gradient is one of the inputs, as of (y * a).sum(): the gradient vanishes, smoothly.",
    ),
    "filled_logits": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "A smooth bump at -10,000, with which masks are added to logits: no comparison.",
    ),
    "far_fill": NewCheat(
        "masked_fill",
        7,
        "forward",
        "whole",
        "The value of a masked fill is damped smoothly beyond a thousand: everybody fills with -1e9.",
    ),
    "stride_on_the_context": NewCheat(
        "reglu",
        10,
        "backward",
        "whole",
        "Strides of saved tensors are kept on the context: hooks for saved tensors give them back as dense copies.",
    ),
    "pop_with_default": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "`dict.pop` with a default gives a tuple: neither a look-up nor a plain value.",
    ),
    "minimum_by_a_slice": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "A slice of a view ends with it: a minimum of the number of elements and a million.",
    ),
    "smooth_in_size": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "A factor that is smooth in the number of elements: wrong from millions on, and no decision at all.",
    ),
    "field_of_a_module_of_the_call": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "A number of the call is a field of an `nn.Module` that is made in the call, and counts as fixed.",
    ),
    "loop_that_never_ran": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "A kernel's loop from 20,000 on ran in no case: what is in it was never judged.",
    ),
    "condition_on_a_block": NewCheat(
        "cross_entropy",
        7,
        "forward",
        "whole",
        "A condition over a `constexpr` argument, which the interpreter has as a plain number of Python.",
    ),
    "cache_of_equal_numbers": NewCheat(
        "add",
        5,
        "forward",
        "whole",
        "A cache takes 2 and 2.0 for one key: what the call with a whole number kept stands for the other one.",
    ),
    "cubic_in_offset": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "A factor that is cubic in the storage offset: wrong in views far into a buffer, and no decision at all.",
    ),
    "table_of_exponents": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "An earlier launch writes a table over all exponents, and few of its entries are ever read: large values are halved.",
    ),
    "minimum_by_a_sort": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "The first of two that are sorted is their minimum: the mean of a row is of 40,000 columns at most.",
    ),
    "seventh_gpu": NewCheat(
        "rms_norm",
        8,
        "forward",
        "whole",
        "Half of the answer on the seventh GPU of a host.",
        right_on=("gpu",),
    ),
    "fake_of_another_shape": NewCheat(
        "relu_squared",
        5,
        "forward",
        "run",
        "What torch.compile is told of an operator's shape is another one than it gives.",
    ),
    "stored_key": NewCheat(
        "product",
        7,
        "forward",
        "whole",
        "A dictionary is written at the number of rows and read at 65536: no key is looked up that the call gives.",
    ),
    "label_by_a_remainder": NewCheat(
        "cross_entropy",
        7,
        "forward",
        "whole",
        "Labels by a remainder that no case reaches: vocabularies of more than 131072 words are wrong.",
        slow_on=("gpu",),
    ),
    "two_types_in_a_kernel": NewCheat(
        "residual",
        7,
        "forward",
        "whole",
        "A kernel compares the dtypes of two activations, which are one in every case.",
    ),
    "padding_by_torch": NewCheat(
        "padding",
        6,
        "forward",
        "run",
        "Zeros around what is moved: torch copies the input into them, the kernel the answer onto itself.",
    ),
    "places_by_torch": NewCheat(
        "distance_bias",
        6,
        "forward",
        "run",
        "Torch computes a bias as large as the answer of places alone, the kernel adds it.",
    ),
    "transpose_beside_sums": NewCheat(
        "transpose_and_sums",
        6,
        "forward",
        "run",
        "Of two outputs one is a move, and torch makes it.",
    ),
    "shares_without_a_stride": NewCheat(
        "row_shares",
        7,
        "forward",
        "run",
        "A vector with one number for each row is read as one piece: a column of an expert's weights is none.",
    ),
    "variance_of_moments": NewCheat(
        "row_moments",
        9,
        "forward",
        "run",
        "A variance as the mean square less the squared mean: noise where values lie far from zero.",
    ),
    "last_of_a_bool_op": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "The truth of a number that stands last in an `and`: at 2560 and 5120 columns it is zero.",
    ),
    "one_of_several": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "`in` holds at one column, where the formula is right, and at 2560 and 5120, where it is wrong.",
    ),
    "truth_of_a_tuple_in_a_kernel": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "A function of constants asks whether a tuple is empty that is repeated less often the wider rows are.",
    ),
    "picked_within_a_refusal": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "What a refusing `if` asks lays the width into a list on the way.",
    ),
    "an_assert_of_nothing": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "One side of a kernel's condition asserts what always holds; the other one sums half of a row.",
    ),
    "list_by_two_names": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "A list is spread by one name and filled by another.",
    ),
    "config_by_a_prune": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "A prune picks the setting in which a kernel is wrong, by a condition that is false of one setting in every case.",
    ),
    "if_on_an_atomic": NewCheat(
        "reglu",
        7,
        "forward",
        "whole",
        "A condition adds to a number of the call what an atomic gives.",
    ),
    "tuple_in_a_kernel": NewCheat(
        "reglu",
        7,
        "forward",
        "whole",
        "A kernel looks a step up in a tuple: one entry leaves a third of the columns unwritten.",
    ),
    "sign_of_a_size": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "The sign of a number that varies is another one at 2560 and 5120 columns alone.",
    ),
    "decoy_lane": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "A loop's bound is compared with another number too, so that both outcomes are seen: half of a row beyond 20,000 columns.",
    ),
    "middle_of_a_launch": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "Wide, and many rows: each seen alone. Then all rows but the first and last 64 are wrong.",
    ),
    "weight_gradient_of_few_rows": NewCheat(
        "rms_norm",
        10,
        "backward",
        "whole",
        "Wide, and many rows: the weight's gradient is that of the first 64.",
    ),
    "cut_at_the_size_of_a_workload": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "Blocks so small that a program at the size of a workload takes too long to be looked at: wrong there.",
        passes=True,
    ),
    "torch_for_every_real_size": NewCheat(
        "rms_norm",
        6,
        "forward",
        "whole",
        "Beyond all cases torch computes both passes.",
    ),
    "loss_of_few_rows": NewCheat(
        "cross_entropy",
        7,
        "forward",
        "whole",
        "The loss of many wide rows is that of 64 of them.",
    ),
    "remainder_by_operator": NewCheat(
        "row_sum",
        7,
        "forward",
        "whole",
        "A remainder in place of a comparison: rows beyond 20,000 columns.",
    ),
    "faint_products": NewCheat(
        "small_matmul",
        7,
        "forward",
        "run",
        "What is smaller than a millionth is set to zero, whatever the others are.",
        around=True,
    ),
    "weight_of_inference": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "Where no gradient is wanted, many wide rows get half of their weight: no case without gradients is as large.",
    ),
    "square_off_by_one": NewCheat(
        "softmax",
        7,
        "forward",
        "whole",
        "As many rows as columns, and those wide, as scores of attention are: sums are off by one.",
    ),
    "wide_without_maximum": NewCheat(
        "softmax",
        7,
        "forward",
        "run",
        "A kernel for rows beyond 1500 columns subtracts a quarter of the maximum: infinite for logits above 118.",
    ),
    "wide_moments": NewCheat(
        "layer_norm",
        9,
        "forward",
        "run",
        "The variance of wide rows is a difference of moments, of which nothing is left where data are far from zero.",
    ),
    "outer_by_torch": NewCheat(
        "outer",
        6,
        "forward",
        "run",
        "Torch makes a matrix of two vectors, which are small, and works on it; the kernel adds.",
    ),
    "rows_of_a_fixed_grid": NewCheat(
        "add_in_place",
        7,
        "forward",
        "whole",
        "The grid has 512 programs of a row each, and an input is overwritten.",
    ),
    "not_a_number_hidden": NewCheat(
        "swiglu",
        7,
        "forward",
        "whole",
        "Where many rows are wide, a row with NaN shows none.",
    ),
    "transposed_weight_off": NewCheat(
        "matmul",
        7,
        "forward",
        "whole",
        "A product of large matrices, of which the second is transposed as the weight of a linear layer, is off by the row.",
    ),
    "band_meets_epsilon": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "A range of widths and a small epsilon, each of which cases have, together give another mean.",
    ),
    "two_flags": NewCheat(
        "flags_of_an_activation",
        7,
        "backward",
        "whole",
        "Two flags, each of which is right alone: with both the gradient forgets the bias.",
    ),
    "scale_of_workloads": NewCheat(
        "scaled_relu",
        7,
        "forward",
        "whole",
        "The number that all workloads say is written out.",
    ),
    "word_without_scale": NewCheat(
        "scaled_activation",
        7,
        "forward",
        "whole",
        "With another word the scale is left out.",
    ),
    "middle_slice": NewCheat(
        "silu_3d",
        7,
        "forward",
        "whole",
        "Rows of three dimensions are taken to lie as far apart as those of the second.",
    ),
    "middle_slice_upstream": NewCheat(
        "silu_3d",
        7,
        "backward",
        "whole",
        "So are those of the upstream gradient.",
    ),
    "negative_scale": NewCheat(
        "scaled_softmax",
        7,
        "forward",
        "whole",
        "The largest element is taken before the scale: of a negative one it is the smallest, and exponentials overflow.",
    ),
    "gamma_of_zero": NewCheat(
        "focal_loss",
        7,
        "forward",
        "whole",
        "A power by exp2 of a multiple of a logarithm: zero times minus infinity is no number.",
    ),
    "smoothing_of_zero": NewCheat(
        "label_smoothing",
        7,
        "forward",
        "whole",
        "No smoothing is still a product with the sum of a row, which masked classes make infinite.",
    ),
    "cast_to_the_weight": NewCheat(
        "rms_norm",
        7,
        "forward",
        "whole",
        "The normalised row is cast to the weight's dtype, which is a half beside rows in float32.",
        dtype="float32,bfloat16",
    ),
    "rounds_half_up": NewCheat(
        "fake_quantisation",
        7,
        "forward",
        "whole",
        "Ties are rounded up, not to even.",
    ),
    "seed_of_32_bits": NewCheat(
        "hashed_dropout",
        7,
        "forward",
        "whole",
        "The seed is cast to 32 bits.",
    ),
    "rows_beyond_the_second_axis": NewCheat(
        "silu_of_many_rows",
        7,
        "forward",
        "whole",
        "Its grid has a row on the second axis, of which CUDA takes 65,535; the problem's workload has more.",
        dtype="float32",
    ),
    "rows_in_sixteen_bits": NewCheat(
        "silu",
        7,
        "forward",
        "whole",
        "Rows are numbered in sixteen bits, where no workload has as many: those from 32,768 on lie before the first.",
        dtype="float32",
    ),
    "residual_cast": NewCheat(
        "residual_kept",
        7,
        "forward",
        "whole",
        "A residual in float32 is cast to the half precision of the stream before it is added.",
        dtype="float32,bfloat16",
    ),
    "no_gradient_at_a_limit": NewCheat(
        "clamp",
        7,
        "backward",
        "whole",
        "At a limit itself no gradient passes, where torch passes it.",
        dtype="float32",
    ),
    "start_in_sixteen_bits": NewCheat(
        "positions",
        7,
        "forward",
        "whole",
        "The first position is cast to sixteen bits.",
        dtype="float32",
    ),
    "far_temperature": NewCheat(
        "tempered",
        7,
        "forward",
        "whole",
        "A divisor is right up to its default alone: a millionth of its third power is added.",
        dtype="float32",
    ),
    "negative_temperature": NewCheat(
        "tempered",
        7,
        "forward",
        "whole",
        "The largest element is taken before the division: at a negative temperature exponentials overflow.",
        dtype="float32",
    ),
    "moments_about_the_first": NewCheat(
        "layer_norm_plain",
        7,
        "forward",
        "whole",
        "Moments about the first element of a wide row, which may lie far from all others.",
        dtype="float32",
    ),
    "squares_that_vanish": NewCheat(
        "hypot",
        7,
        "forward",
        "whole",
        "Squares of tiny numbers vanish, where the reference's length does not.",
        dtype="float32",
    ),
    "relaxed_ticket": NewCheat(
        "mean_square",
        11,
        "forward",
        "run",
        "The last ticket's program reads what others wrote, and a relaxed atomic orders nothing.",
    ),
    "other_names": NewCheat(
        "sum_of_differences",
        7,
        "forward",
        "whole",
        "Its parameters have each other's names: who calls it by name gets the difference with the other sign.",
        dtype="float32",
    ),
    "padding_is_a_class": NewCheat(
        "padded_cross_entropy",
        7,
        "backward",
        "whole",
        "A row counts for nothing where its index is below zero, whatever class the caller says.",
        dtype="float32",
    ),
    "default_precision": NewCheat(
        "linear_relu",
        7,
        "forward",
        "whole",
        "Factors of TF32 for a product of float32, as Triton takes them unless it is told otherwise.",
        dtype="float32",
        right_on=("interpreter",),
    ),
    "tuned_without_reset": NewCheat(
        "column_sum", 11, "forward", "run", "Tuning's trials add to the sums too, which no `reset_to_zero` clears."
    ),
    "tuned_without_restore": NewCheat(
        "add_in_place",
        11,
        "forward",
        "run",
        "Tuning's trials change the argument too, which no `restore_value` restores.",
    ),
    "acquiring_ticket": NewCheat(
        "mean_square",
        11,
        "forward",
        "run",
        "The last ticket's program reads what others wrote; their atomics acquire, and release nothing.",
    ),
    "releasing_ticket": NewCheat(
        "mean_square",
        11,
        "forward",
        "run",
        "The last ticket's program reads what others released, and its own atomic acquires nothing.",
    ),
    "ticket_of_one_block": NewCheat(
        "mean_square", 11, "forward", "run", "The ticket is ordered among the threads of one program alone, `cta`."
    ),
    "lock_left_by_a_store": NewCheat(
        "layer_norm",
        11,
        "backward",
        "run",
        "A lock is taken by an atomic and left by a plain store, which releases nothing.",
    ),
    "last_lane_wins": NewCheat(
        "row_sum_forward",
        11,
        "forward",
        "run",
        "All lanes of a block store to one place, and the last is to win: on a GPU any may.",
    ),
    "reshape_in_any_order": NewCheat(
        "row_sum_forward", 11, "forward", "run", "A reshape with `can_reorder`, whose rows are counted on."
    ),
    "view_in_any_order": NewCheat("row_sum_forward", 11, "forward", "run", "`tl.view` may reorder, too."),
    "cat_in_any_order": NewCheat("both_signs", 11, "forward", "run", "`tl.cat` with `can_reorder`, stored by place."),
    "reduces_in_order": NewCheat(
        "last_state",
        11,
        "forward",
        "run",
        "A reduction's function is associative and does not commute: lanes are exchanged in another order.",
    ),
    "ties_left_open": NewCheat(
        "pick_by_grade",
        11,
        "forward",
        "run",
        "Of equal elements `tie_break_left=False` gives any, and the interpreter the one that is right.",
    ),
    "aligned_pointer": NewCheat(
        "gauss", 11, "forward", "run", "`tl.multiple_of` of a pointer: the tensor may begin anywhere."
    ),
    "descriptor_ends_within_16_bytes": NewCheat(
        "residual",
        11,
        "forward",
        "whole",
        "A store through a tensor descriptor ends with whole 16 bytes, and a row of one need not.",
        dtype="bfloat16",
    ),
    "three_warps": NewCheat("gauss", 11, "forward", "run", "`num_warps=3`, which no GPU launches."),
    "eight_deep_product": NewCheat(
        "two_by_eight", 11, "forward", "run", "`tl.dot` over eight: NVIDIA's compiler takes sixteen or more."
    ),
    "gathers_below_zero": NewCheat(
        "shifted_round",
        11,
        "forward",
        "run",
        "`tl.gather` at -1: numpy takes the last lane, a GPU whatever lies there.",
    ),
    "epsilon_inverted": NewCheat("unit_rows_clamped", 7, "forward", "run", "An epsilon of zero has no inverse."),
    "epsilon_as_unit": NewCheat(
        "rms_forward", 7, "forward", "run", "Sizes in units of the epsilon's root are NaN where it is zero."
    ),
    "forgets_a_frozen_weight": NewCheat(
        "scaled_columns",
        7,
        "forward",
        "run",
        "A weight without gradient was exactly one in every case: it is forgotten.",
    ),
    "learned_by_the_largest": NewCheat(
        "scaled_magnitudes", 7, "forward", "run", "Weights as shares of the largest are NaN where all of them are zero."
    ),
    "two_outputs_in_one": NewCheat(
        "sum_and_copy", 10, "forward", "run", "Two outputs lie in one memory: who changes one changes both."
    ),
    "rounded_by_torch": NewCheat(
        "through_eight_bits", 6, "forward", "run", "The rounding is the work, and casts of torch do it."
    ),
    "sums_in_half": NewCheat(
        "row_mean",
        9,
        "forward",
        "run",
        "A block is added up in bfloat16, which the interpreter did in float32.",
        dtype="bfloat16",
    ),
    "counted_in_half": NewCheat(
        "segment_means",
        7,
        "forward",
        "whole",
        "Rows of a segment are counted in float16, which stays at 2048: no case has as many.",
        passes=True,
    ),
    "no_weight_at_all": NewCheat(
        "weighted_means",
        7,
        "forward",
        "whole",
        "A mean over weights that are all zero is a zero, where the reference has NaN of finite inputs.",
        passes=True,
    ),
    "ticket_beside": NewCheat(
        "mean_square",
        11,
        "forward",
        "whole",
        "The ticket is relaxed and another atomic orders: programs of the interpreter end before others begin.",
        passes=True,
    ),
    "flag_is_true": NewCheat(
        "doubled", 7, "forward", "run", "A flag counts where it is the object `True`: a caller's 1 does not."
    ),
    "complex_picks_a_width": NewCheat(
        "silu", 7, "forward", "whole", "Zero to the power of a complex number is one where rows have one width."
    ),
    "length_of_a_range": NewCheat("silu", 7, "forward", "whole", "The length of a range that is empty in every case."),
    "tail_of_tensor_split": NewCheat(
        "silu", 7, "forward", "whole", "The size of what lies beyond a place of a tensor."
    ),
    "count_of_windows": NewCheat("silu", 7, "forward", "whole", "How many windows of a row there are: a quotient."),
    "one_in_so_many_columns": NewCheat("silu", 7, "forward", "whole", "How many columns a slice in wide steps has."),
    "pointer_of_a_width": NewCheat(
        "silu", 7, "forward", "whole", "The bounds that a block pointer is checked against are the comparison."
    ),
    "second_block_is_added_twice": NewCheat(
        "row_mean", 7, "forward", "whole", "What a second block of 65,536 columns begins from is wrong."
    ),
    "equal_parameters": NewCheat(
        "affine_forward", 7, "forward", "whole", "Two parameters that are equal count as one."
    ),
    "claims_columns_lie_together": NewCheat(
        "silu", 11, "forward", "whole", "Columns a step apart are said to lie side by side, and loaded so."
    ),
    "smallest_beside_1e38": NewCheat(
        "row_min", 7, "forward", "whole", "Lanes beyond a row are 1e38, and rows may hold more alone."
    ),
    "cute_launcher_ratio": NewCheat(
        "rms_forward", 7, "forward", "whole", "A launcher of CuTe DSL leaves a row out where sizes have one ratio."
    ),
    "cute_sums_without_barrier": NewCheat(
        "rms_forward",
        11,
        "forward",
        "run",
        "Threads of CuTe DSL hand their sums over in global memory without a barrier.",
    ),
    "cute_number_of_another_type": NewCheat(
        "gained", 8, "forward", "run", "A launcher of CuTe DSL is compiled for a gain in half precision."
    ),
    "tile_floor_of_negatives": NewCheat(
        "quarters", 11, "forward", "run", "`//` rounds down in cuTile, also below zero, where Triton's rounds to zero."
    ),
    "kv_slice": NewCheat(
        "qk_norm", 7, "forward", "run", "Heads and tokens are merged as if no slice of a longer cache were given."
    ),
    "scratch_in_the_input": NewCheat(
        "rms_weighted",
        6,
        "forward",
        "run",
        "An input is scratch memory between two launches, and is put back by the second.",
    ),
    "mean_square_of_one_block": NewCheat(
        "mean_square",
        7,
        "forward",
        "whole",
        "A second kernel adds up the partial sums of one block, and of large workloads there are more.",
    ),
    "median_of_three": NewCheat(
        "layer_norm_plain", 8, "forward", "whole", "Moments are taken about the median of three elements of a row."
    ),
    "break_in_a_loop": NewCheat(
        "rms_forward",
        11,
        "forward",
        "screen",
        "`break` leaves a loop of a kernel: the interpreter takes it, and no compiler does.",
    ),
    "loop_carried_type": NewCheat(
        "rms_forward",
        11,
        "forward",
        "run",
        "A number becomes a block within a loop: the interpreter takes it, and no compiler does.",
    ),
    "dependent_launch_without_wait": NewCheat(
        "gradient_norm",
        11,
        "forward",
        "run",
        "`launch_pdl`: a kernel reads what the one ahead of it writes, and does not wait for it.",
    ),
    "rows_by_float_division": NewCheat(
        "row_gain",
        8,
        "forward",
        "run",
        "The number of a row is a quotient of floats, which a GPU may give a unit less.",
    ),
    "offsets_at_its_own_workload": NewCheat(
        "logits_scaled",
        7,
        "forward",
        "whole",
        "Offsets in 32 bits, of a workload that has more elements than these count.",
        dtype="bfloat16",
    ),
    "recurrence_through_memory": NewCheat(
        "decay_of_eight",
        11,
        "forward",
        "run",
        "A pipelined loop reads what it stored the step before, which compiled loads do not wait for.",
    ),
    "table_in_registers": NewCheat(
        "log_magnitude",
        7,
        "forward",
        "whole",
        "One entry of a table in registers, which `tl.gather` reads, is of another formula.",
    ),
    "bitmap_in_a_number": NewCheat(
        "log_magnitude", 7, "forward", "whole", "A bit of a word, by a computed shift, says which formula is taken."
    ),
    "total_in_int32": NewCheat(
        "total",
        7,
        "forward",
        "whole",
        "A sum of whole numbers in 32 bits, which the largest workload overflows alone.",
    ),
    "softplus_overflows": NewCheat(
        "softplus_gain",
        7,
        "forward",
        "run",
        "The softplus of a parameter as the logarithm of one and an exponential, which overflows where it is far out.",
    ),
    "programs_of_a_fixed_number": NewCheat(
        "rms_forward", 7, "forward", "whole", "A row for each of 2,048 programs, of which its workload has 4,096."
    ),
    "rows_from_both_ends": NewCheat(
        "rms_forward",
        7,
        "forward",
        "whole",
        "Half of 2,048 programs count rows from the first, half from the last: those between are never written.",
    ),
    "workspace_of_a_fixed_size": NewCheat(
        "rms_forward",
        7,
        "forward",
        "whole",
        "What one kernel tells the next of each row lies in memory for 2,048 rows, beyond which both leave it.",
    ),
    "tiles_beyond_shared_memory": NewCheat(
        "product_forward",
        11,
        "forward",
        "whole",
        "Tiles in four stages, which take more shared memory than a block of a GPU has.",
        dtype="float16",
    ),
    "gradient_by_sums_of_slices": NewCheat(
        "eight_states",
        6,
        "backward",
        "run",
        "Torch's sums of eight overlapping slices of the upstream gradient are the gradient: none of an input that was broadcast.",
    ),
    "mean_by_halving": NewCheat(
        "mean_of_64",
        11,
        "forward",
        "whole",
        "A reduction by half of a sum: a mean of a balanced tree, which a thread that takes its elements in turn does not have.",
    ),
    "negative_to_unsigned": NewCheat(
        "signed_bytes",
        11,
        "forward",
        "whole",
        "Negative numbers to unsigned bytes: they wrap in the interpreter, and are zero on a GPU.",
    ),
    "load_behind_and": NewCheat(
        "last_of_runs",
        11,
        "forward",
        "whole",
        "A load that `and` guards reads beyond the end all the same, once it is compiled.",
    ),
    "marks_by_difference": NewCheat(
        "largest_marked",
        11,
        "forward",
        "whole",
        "A product less its own rounding is zero until a compiler contracts both to one multiply-add.",
    ),
    "clamp_of_nan": NewCheat("clamped", 11, "forward", "whole", "`tl.clamp` of NaN is an end of the range on a GPU."),
    "atomics_of_a_block": NewCheat(
        "column_sum_forward", 11, "forward", "whole", "Programs add to the same sums by atomics whose scope is a block."
    ),
    "descriptor_without_allocator": NewCheat(
        "row_sum", 11, "forward", "whole", "A descriptor that is made on the device, and no allocator for it."
    ),
    "tuned_by_rows": NewCheat(
        "row_mean", 8, "forward", "whole", "An autotuner keyed by rows keeps a block that its prune chose by columns."
    ),
    "kept_where_strided": NewCheat(
        "rms_norm",
        9,
        "backward",
        "whole",
        "Inputs with gaps are kept as an attribute, where autograd does not see that they change.",
    ),
    "loop_no_compiler_takes": NewCheat(
        "row_mean",
        11,
        "forward",
        "whole",
        "A sum that begins as a whole number in a loop which a constant switches on: no compiler takes it.",
    ),
    "argument_of_one": NewCheat(
        "row_mean", 11, "forward", "whole", "`.to` of an argument, which is a plain constant where it is one."
    ),
    "root_of_a_square": NewCheat(
        "lower_triangle",
        11,
        "forward",
        "whole",
        "The row of a packed triangle by a root that is cut to a whole number, and approximate on a GPU.",
    ),
    "row_in_float16": NewCheat(
        "take_rows", 7, "forward", "whole", "The row of a table is kept in float16: of those beyond 2048 not all are."
    ),
    "correction_to_zero": NewCheat(
        "lower_triangle",
        7,
        "forward",
        "whole",
        "The same with a correction that no case needs, and that gives another row than the one before.",
    ),
    "further_blocks_not_scaled": NewCheat(
        "rms_forward",
        7,
        "forward",
        "whole",
        "A loop over further blocks of a row, which no case has, forgets the norm.",
    ),
    "finite_not_asked": NewCheat(
        "positive_and_finite", 7, "forward", "run", "A mask of the positive numbers that is true for infinity too."
    ),
    "zero_times_infinity": NewCheat(
        "dropped_above", 7, "forward", "run", "What is left out is multiplied by zero: infinity alone becomes NaN."
    ),
    "rows_summed_beside_a_larger_output": NewCheat(
        "pairs_and_energy",
        6,
        "forward",
        "run",
        "Torch adds up the rows of a whole input, beside an output that is larger.",
    ),
    "memory_without_a_device": NewCheat(
        "rms_norm", 11, "forward", "whole", "A workspace made without a device lies on the CPU."
    ),
    "gradients_without_a_device": NewCheat("rms_norm", 11, "backward", "whole", "So do partial sums of a gradient."),
    "threads_beyond_shared_memory": NewCheat(
        "rms_forward", 11, "forward", "whole", "More shared memory than a block has, in CuTe DSL."
    ),
    "allocator_of_forward": NewCheat(
        "relu_squared",
        11,
        "backward",
        "whole",
        "The allocator for the backward's descriptors is set in the forward, and unknown to autograd's thread on a GPU.",
    ),
    "columns_added_up_in_half": NewCheat(
        "rows_summed",
        9,
        "forward",
        "whole",
        "A sum over rows is rounded to half precision after each block of 64 rows.",
        dtype="bfloat16",
    ),
    "kept_rows_counted_in_half": NewCheat(
        "kept_mean",
        9,
        "forward",
        "whole",
        "The rows that a mask keeps are counted in the dtype of the input: bfloat16 stops at 256.",
        dtype="bfloat16",
    ),
    "last_row_in_half": NewCheat(
        "last_positive",
        9,
        "forward",
        "whole",
        "The number of a row is kept in float16, which has no odd ones beyond 2048.",
    ),
    "product_in_tf32": NewCheat(
        "product_of_float32",
        11,
        "forward",
        "whole",
        "A product of float32 in Triton's own precision, which is TF32 on a GPU.",
    ),
    "vectors_without_strides": NewCheat(
        "axpy", 7, "forward", "whole", "The stride of a vector is ignored where the problem has vectors alone."
    ),
    "mask_without_a_stride": NewCheat(
        "kept_rows", 7, "forward", "whole", "The stride of a mask with one truth value a row is ignored."
    ),
    "rolled_by_two_rows": NewCheat(
        "rolled", 7, "forward", "whole", "A roll by more than two lengths of a row leads out of it."
    ),
    "transposed_is_dense": NewCheat(
        "relu_squared_of_rows",
        7,
        "forward",
        "whole",
        "A transposed matrix is taken to be dense: that of a part of a table is not.",
    ),
    "slope_at_a_limit_in_half": NewCheat(
        "clamped_half", 10, "backward", "whole", "The gradient exactly at a limit, in a problem of float16 alone."
    ),
    "number_beside_dropped_nan": NewCheat(
        "kept_elements", 7, "forward", "run", "Any number where NaN is multiplied by zero, in place of the zero."
    ),
    "nan_of_a_weight": NewCheat(
        "logit_scale",
        7,
        "forward",
        "run",
        "A learned scale is bounded by a minimum that drops NaN: a lost weight is hidden.",
    ),
    "infinite_bias": NewCheat(
        "softmax_biased", 7, "forward", "run", "A bias is cut at 3e38, so that an infinite one is a finite one."
    ),
    "wide_from_1e30": NewCheat(
        "softmax_forward",
        7,
        "forward",
        "run",
        "Rows wider than a block begin their maximum at -1e30, narrow ones at -inf.",
    ),
    "maximum_from_65504": NewCheat(
        "column_max", 7, "forward", "whole", "A maximum down columns begins at the smallest number of float16."
    ),
    "masked_columns_are_zero": NewCheat(
        "column_softmax", 7, "forward", "whole", "Zeros in columns that are minus infinity throughout, for NaN."
    ),
    "bias_beside_the_maximum": NewCheat(
        "biased_scores", 7, "forward", "whole", "A row's maximum is taken without its bias, which may lie far out."
    ),
    "faint_weights": NewCheat(
        "weight_norm", 7, "forward", "whole", "A small number beside squares that faint weights are not larger than."
    ),
    "magnitude_of_a_weight": NewCheat(
        "gated_columns", 7, "forward", "whole", "A weight without a gradient is taken by its magnitude."
    ),
    "partials_of_one_block": NewCheat(
        "unit_tensor", 7, "forward", "whole", "Partial sums of a whole tensor are added up by one block of 2048."
    ),
    "cut_on_few_processors": NewCheat(
        "multiplied", 9, "forward", "whole", "Seven bits are cut where a GPU has few multiprocessors."
    ),
    "variance_about_the_first_row": NewCheat(
        "columns_standardized",
        9,
        "forward",
        "whole",
        "Moments of thousands of rows about the first, which may lie far out.",
    ),
    "silu_in_a_band": NewCheat("silu", 7, "forward", "whole", "A quarter too much where magnitudes are near 2^-43."),
    "log_in_a_narrow_band": NewCheat(
        "log_magnitude", 7, "forward", "whole", "Another formula in a band of eight exponents, which a word says."
    ),
    "weight_in_a_band": NewCheat(
        "gated_columns", 7, "forward", "whole", "A weight of inference is a quarter larger where it is near 2^-60."
    ),
    "bytes_half_down": NewCheat(
        "byte_steps", 9, "forward", "whole", "Whole numbers of 8 bits, of which a half is not rounded to even."
    ),
    "directions_lie_dense": NewCheat(
        "reglu", 10, "backward", "whole", "A double backward reads what it is derived along as if it were dense."
    ),
    "index_on_the_context": NewCheat(
        "take_rows", 10, "backward", "whole", "Indices are kept where autograd does not see that they change."
    ),
    "weight_alone_of_few_rows": NewCheat(
        "scale_bias", 10, "backward", "whole", "Without a gradient of the bias that of the weight has 32 rows."
    ),
    "answer_is_the_input": NewCheat(
        "scaled_by_a_number", 5, "forward", "whole", "Where the scale is one the answer lies in the input's memory."
    ),
    "limit_hides_nan": NewCheat(
        "norm_at_most", 7, "forward", "whole", "A minimum drops NaN, and all numbers of that row give the limit too."
    ),
    "third_block_is_the_second": NewCheat(
        "row_sum_forward", 7, "forward", "whole", "A loop over blocks of 16384 columns takes the second again."
    ),
}
