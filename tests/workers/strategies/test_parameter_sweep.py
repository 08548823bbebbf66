import ast

from gpu_runner.contracts import Pass
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import situation
from workers.strategies.protocol import DoesNotApply, Proposed
from workers.strategies.sweep import ParameterSweep, swept, with_tuned_sweep
from workers.tuned_table import Table, table_of

WARPS: Table = (("sm_90", (("forward", ((4096, (("num_warps", 2),)),)),)),)


def _swept(source: str) -> str:
    found = swept(source)
    assert found is not None
    return found[0]


def test_every_launch_looks_its_settings_up() -> None:
    found = swept(ROW_SCALE)
    assert found is not None
    text, knobs = found
    assert '        **_tuned(Y.device, "forward", n_cols, num_warps=num_warps),  # of the rule\n' in text
    assert '        **_tuned(dY.device, "backward", n_cols, num_warps=num_warps),\n' in text
    assert [(knob.tuned_pass, knob.setting) for knob in knobs] == [
        (Pass.forward, "num_warps"),
        (Pass.backward, "num_warps"),
        (Pass.backward, "programs_per_multiprocessor"),
    ]


def test_the_number_of_programs_is_settled_before_it_is_used() -> None:
    lines = _swept(ROW_SCALE).split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("    sm_count *= _tuned("))
    assert lines[at - 1].endswith("multi_processor_count")
    assert lines[at + 1].startswith("    dX = ")


def test_nothing_found_gives_the_file_back_byte_by_byte() -> None:
    proposed = ParameterSweep().propose(situation(ROW_SCALE))
    assert isinstance(proposed, Proposed)
    assert proposed.settle is not None
    assert proposed.settle(proposed.source, ()) == ROW_SCALE
    assert proposed.settle(proposed.source, (("sm_90", (("forward", ()),)),)) == ROW_SCALE


def test_only_what_was_found_is_looked_up() -> None:
    text = with_tuned_sweep(ROW_SCALE, WARPS)
    assert table_of(text) == WARPS
    assert text.count("_tuned(") == 2  # its definition, and the launch of the forward pass
    assert "sm_count *=" not in text


def test_a_block_that_holds_a_whole_row_is_no_knob() -> None:
    found = swept(ROW_SCALE)
    assert found is not None
    assert {knob.setting for knob in found[1]} == {"num_warps", "programs_per_multiprocessor"}


def test_a_block_that_a_kernel_loops_over_is_a_knob() -> None:
    head, rest = ROW_SCALE.split("    cols = tl.arange(0, BLOCK_SIZE)\n", 1)
    body, tail = rest.split("\n\n\n@triton.jit\ndef _scale_backward", 1)
    looped = "".join(f"    {line}\n" for line in body.split("\n"))
    loop = "    for start in range(0, n_cols, BLOCK_SIZE):\n        cols = start + tl.arange(0, BLOCK_SIZE)\n"
    found = swept(f"{head}{loop}{looped}\n\n@triton.jit\ndef _scale_backward{tail}")
    assert found is not None
    assert (Pass.forward, "BLOCK_SIZE") in [(knob.tuned_pass, knob.setting) for knob in found[1]]


def test_a_block_that_shapes_the_grid_is_no_knob() -> None:
    source = ROW_SCALE.replace(
        "range(program * rows_per_program, min((program + 1) * rows_per_program, n_rows))",
        "range(0, n_cols, BLOCK_SIZE)",
    )
    source = source.replace("grid = (sm_count,)", "grid = (triton.cdiv(n_cols, BLOCK_SIZE),)")
    found = swept(source)
    assert found is None or all(knob.setting != "BLOCK_SIZE" for knob in found[1])


def test_an_autotuned_kernel_is_left_to_its_tuner() -> None:
    source = ROW_SCALE.replace(
        "@triton.jit\ndef _scale_forward",
        '@triton.autotune(configs=[], key=["n_cols"])\n@triton.jit\ndef _scale_forward',
    )
    found = swept(source)
    assert found is not None
    assert {knob.tuned_pass for knob in found[1]} == {Pass.backward}


def test_a_file_that_looks_its_settings_up_and_has_none_yet_is_tuned_as_it_stands() -> None:
    source = _swept(ROW_SCALE)
    found = swept(source)
    assert found is not None and found[0] == source
    assert set(found[1]) == set((swept(ROW_SCALE) or ("", ()))[1])
    table = (("sm_90", (("forward", ((4096, (("num_warps", 8),)),)),)),)
    assert '"forward": ((4096, {"num_warps": 8}),)' in with_tuned_sweep(source, table)


def test_a_file_that_is_tuned_already_is_left_alone() -> None:
    table = 'TUNED = {"sm_90": {"forward": ((4096, {"num_warps": 8}),)}}'
    answer = ParameterSweep().propose(situation(_swept(ROW_SCALE).replace("TUNED = {}", table)))
    assert isinstance(answer, DoesNotApply)


def test_the_lookup_takes_the_first_entry_that_is_not_below_the_size() -> None:
    table: Table = (("cpu", (("forward", ((16, (("num_warps", 1),)), (64, (("num_warps", 2), ("other", 9))))),)),)
    module = ast.parse(with_tuned_sweep(ROW_SCALE, table))
    kept = [n for n in module.body if getattr(n, "name", "") == "_tuned" or isinstance(n, ast.Assign)]
    names: dict[str, object] = {"torch": None}
    exec(compile(ast.Module(kept, []), "tuned", "exec"), names)

    class Cpu:
        type = "cpu"

    def looked_up(size: int, **settings: int | None) -> object:
        return names["_tuned"](Cpu(), "forward", size, **settings)  # type: ignore[operator]

    assert looked_up(16, num_warps=8) == {"num_warps": 1}
    assert looked_up(17, num_warps=8) == {"num_warps": 2}
    assert looked_up(65, num_warps=8, num_stages=None) == {"num_warps": 8}


def test_a_file_that_triton_tunes_itself_is_told_as_such() -> None:
    tuned = ROW_SCALE.replace("@triton.jit\n", '@triton.autotune(configs=[], key=["n_cols"])\n@triton.jit\n')
    answer = ParameterSweep().propose(situation(tuned))
    assert isinstance(answer, DoesNotApply)
    assert "`@triton.autotune` chooses this file's settings" in answer.sentence
    planned = ParameterSweep().plan(situation(tuned))
    assert planned is not None
    assert (planned.trigger, planned.gain_high) == (answer.sentence, 1.0)
