from pathlib import Path

import pytest

from gpu_runner.contracts import BenchmarkResult, Pass, parse_problem
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import PROBLEM, graph_of_scale, row, situation, variant
from workers.contracts import Outcome
from workers.strategies.catalog import STRATEGIES, Described, strategy_named
from workers.strategies.order import ordered
from workers.strategies.protocol import DoesNotApply, ModelTurn
from workers.strategies.source import fingerprint

DOCUMENTS = Path(__file__).resolve().parents[3] / "docs" / "knowledge" / "optimizations"


def _measured(share: float) -> BenchmarkResult:
    rows = tuple(row({"T": 64, "H": 64}, timed_pass=p, floor_us=100.0 * share) for p in Pass)
    return BenchmarkResult(rows, False, "Some GPU", 4000.0)


def test_the_sweep_comes_first() -> None:
    planned = ordered(situation(ROW_SCALE, graph=graph_of_scale()))
    assert planned[0].strategy == "parameter_sweep"
    described = {strategy.id for strategy in STRATEGIES if isinstance(strategy, Described)}
    others = described | {"model_change", "grouped_tiles"}  # there is no product
    assert {p.strategy for p in planned} == {strategy.id for strategy in STRATEGIES} - others


def test_what_only_a_model_writes_is_listed_where_one_may_be_asked() -> None:
    many = parse_problem(PROBLEM.replace('"T": 64', '"T": 8192'))
    given = {turn: situation(ROW_SCALE, graph=graph_of_scale(), problem=many, model=turn) for turn in ModelTurn}
    listed = {turn: "persistent_loop" in {p.strategy for p in ordered(of)} for turn, of in given.items()}
    assert listed == {ModelTurn.never: False, ModelTurn.last: True, ModelTurn.first: True}
    assert isinstance(strategy_named("persistent_loop").propose(given[ModelTurn.first]), DoesNotApply)


@pytest.mark.parametrize(("turn", "place"), [(ModelTurn.first, 1), (ModelTurn.last, -1)])
def test_a_models_changes_come_right_behind_the_sweep_or_last(turn: ModelTurn, place: int) -> None:
    planned = [p.strategy for p in ordered(situation(ROW_SCALE, model=turn, benchmark=_measured(0.5)))]
    assert planned[0] == "parameter_sweep"
    assert planned[place] == "model_change"
    assert planned.count("model_change") == 1


def test_no_model_is_asked_for_a_kernel_within_a_tenth_of_its_floor_unless_it_is_wanted() -> None:
    near = {turn: ordered(situation(ROW_SCALE, model=turn, benchmark=_measured(0.95))) for turn in ModelTurn}
    asks = {turn for turn, planned in near.items() if any(p.repeats for p in planned)}
    assert asks == {ModelTurn.first}


def test_the_fast_path_comes_next_where_the_floor_is_far() -> None:
    planned = ordered(situation(ROW_SCALE, graph=graph_of_scale(), benchmark=_measured(0.4)))
    assert planned[1].strategy == "compiled_fast_path"
    assert "forward runs at 0.40 of its floor" in planned[1].trigger


def test_no_gain_is_promised_beyond_the_floor() -> None:
    planned = ordered(situation(ROW_SCALE, graph=graph_of_scale(), benchmark=_measured(0.98)))
    assert planned
    assert all(1.0 <= p.gain_low <= p.gain_high <= 1 / 0.98 + 1e-9 for p in planned)
    assert "compiled_fast_path" not in [p.strategy for p in planned]


def test_what_gained_nothing_before_comes_last() -> None:
    earlier = (variant(1, "compiled_fast_path", Outcome.no_gain, 1.0),)
    planned = ordered(situation(ROW_SCALE, graph=graph_of_scale(), benchmark=_measured(0.4), earlier=earlier))
    assert planned[-1].strategy == "compiled_fast_path"


def test_the_order_is_always_the_same() -> None:
    one = situation(ROW_SCALE, graph=graph_of_scale())
    assert ordered(one) == ordered(one)


def test_every_strategy_has_its_document() -> None:
    for strategy in STRATEGIES:
        text = (DOCUMENTS / strategy.document).read_text()
        for heading in ("## Trigger", "## Mechanism", "## Evidence", "## Counter-evidence", "## Source"):
            assert heading in text, f"{strategy.document} lacks {heading}"
    assert strategy_named("parameter_sweep") is STRATEGIES[0]
    with pytest.raises(LookupError, match="known: parameter_sweep"):
        strategy_named("magic")


def test_comments_docstrings_and_format_make_no_other_code() -> None:
    assert fingerprint('def f(x):\n    """Say."""\n    return x  # so\n') == fingerprint(
        "def f( x ):\n\n  return (x)\n"
    )
    assert fingerprint("def f(x):\n    return x\n") != fingerprint("def f(x):\n    return -x\n")
    assert fingerprint("def f(:") != fingerprint("def g(:")
