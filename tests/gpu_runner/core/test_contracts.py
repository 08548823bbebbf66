"""The JSON forms of the runner's contracts are written down: other versions of this program read them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    Bound,
    CandidateSource,
    CaptureRequest,
    CaptureResult,
    CaseOutcome,
    Check,
    Choice,
    Comparison,
    Composed,
    Conditions,
    DoctorRequest,
    Evidence,
    Expr,
    Finding,
    GpuPeaks,
    GpuRequest,
    GpuResult,
    Graph,
    HostReport,
    Isolation,
    IsolationProof,
    KernelCounters,
    Knob,
    Limits,
    Multiple,
    Node,
    NodeRef,
    Pass,
    Picture,
    ProfileRequest,
    ProfileResult,
    RaceLength,
    RecordedCall,
    RecordedTensor,
    RecordRequest,
    RecordResult,
    Roofline,
    Rounding,
    ScalarBound,
    SourceFile,
    Stall,
    Status,
    TensorMeta,
    TestCase,
    TestsRequest,
    TestsResult,
    Timing,
    TracedSize,
    TuneRequest,
    TuneResult,
    Verdict,
    VerifyRequest,
    Word,
    Workload,
    WorkloadTiming,
    from_json,
    to_json,
)
from gpu_runner.contracts.doctor import ChildStart

GOLDEN = Path(__file__).parent / "golden"
ROWS = Workload(
    (("T", 4096), ("H", 8192)), "bfloat16", (("eps", 1e-6), ("causal", True), ("kind", "tanh"), ("groups", 8))
)
FILE = SourceFile("src/lib/ops/reglu.py", "import torch\n")
CANDIDATE = CandidateSource((FILE,), "lib.ops.reglu", "reglu", "tree.tar.gz", ("src", "."), ("src/lib/ops/reglu.py",))
META = TensorMeta((Expr("T"), Expr("I // 2"), 1), "float32")
RULES = (Multiple("H", "2 * groups"),)
GRAPH = Graph(
    nodes=(
        Node("x", "input", (), META),
        Node("upstream_0", "upstream", (), META),
        Node("cat_0", "cat", ((NodeRef("x"), NodeRef("x")), 1), META, (("note", None),)),
        Node("sum_0", "sum", (NodeRef("cat_0"), (0, 1), True), META),
        Node("mul_0", "mul", (NodeRef("sum_0"), Expr("1 - eps")), META),
        Node("add_0", "add", (NodeRef("mul_0"), 0.5), META),
    ),
    inputs=("x",),
    outputs=("add_0",),
    upstream=("upstream_0",),
    gradients=(("x", "mul_0"), ("w", None)),
    specialised=("causal",),
    tuple_output=True,
    output_dtypes=("bfloat16",),
    rounded=(Rounding("mul_0", ("x",)),),
    multiples=RULES,
    bounds=(ScalarBound("eps", ">", 0.0),),
    traced=(TracedSize("T", 2), TracedSize("D", 2, "R")),
)
TIMING = WorkloadTiming(
    ROWS,
    Pass.full,
    (
        Timing("candidate", 12.5, 12.0, 13.0, 20, 1024, host_us=31.5),
        Timing("torch_compile", None, error="it does not compile"),
    ),
    moved_bytes=2048,
    flops=4096,
    floor_us=10.25,
    speedup=1.5,
    speedup_low=1.4,
    speedup_high=1.6,
    against="original",
    word=Word.faster,
    fault="1.0 us is under 90% of the floor",
    comparisons=(Comparison("candidate", "original", 1.5, 1.4, 1.6, Word.faster, 20),),
    control=Comparison("control", "original", 1.001, 0.998, 1.004, Word.same, 20),
    conditions=Conditions(1830, 1980, 3201, 61, ("sw_power_cap",), 2),
    bound="memory",
)
PROFILE = ProfileResult(
    (Roofline(ROWS, Pass.forward, 2048, 4096, 1024, 2.0, 10.25, 5.5, 10.25, Bound.memory),),
    GpuPeaks("NVIDIA H200", 4240.0, 800.5, 60.5, 52428800, 132, "measured in the same run", measured=True),
    (
        KernelCounters(
            "_kernel", Pass.forward, ROWS, True, 12.5, 0.9, 0.5, 0.25, None, 2048, 0.125, 0.75, 64, 0, 132, 128,
            (Stall("long_scoreboard", 0.5),),
        ),
    ),
    (Finding("dram_busy", "dram_share", 0.9, 0.8, Bound.memory, "_kernel"),),
    ((Pass.forward, Bound.memory),),
    "ncu was not found",
    (("driver", "570"),),
    complete=False,
    counters_csv="Workload,Kernel Name\nrows,_kernel\n",
)  # fmt: skip
TUNED = TuneResult(
    (Choice(Pass.forward, ROWS, 8192, (("num_warps", 8),), 1.25, 1.2, 1.3, 12),),
    "sm_90",
    ((Pass.forward, ((4096, (("num_warps", 4),)), (8192, (("num_warps", 8), ("num_stages", 2))))),),
    "NVIDIA H200",
    (("num_warps=32", "out of registers"),),
    complete=False,
    notes=("note",),
)
EXAMPLES = {
    "gpu_request": GpuRequest("r1", Action.verify, {"a": [1, None]}, Limits(60.0, 10.0), (Isolation.landlock,)),
    "gpu_result": GpuResult(
        "r1",
        Action.capture,
        None,
        "no torch",
        (Isolation.process,),
        (("python", "3.12"),),
        1.5,
        (("candidate: run", 1.25),),
    ),
    "capture_request": CaptureRequest("def reference(x): ...", whole=True),
    "capture_result": CaptureResult(GRAPH, None, None, None, "source", ("add", "mul"), (("b.weight", "a.weight"),)),
    "capture_refusal": CaptureResult(None, "there is no `reference`", 3, "Define it."),
    "verify_request": VerifyRequest(
        "source",
        CANDIDATE,
        ("float32",),
        (ROWS,),
        quick=True,
        original=CANDIDATE,
        multiples=RULES,
        composed=Composed((12, 14), ("_kernel",)),
    ),
    "verdict": Verdict(
        Status.incorrect_values,
        (Evidence("values", "row 3 is wrong", "T=7 float32", "output 0", (3, 1), 1.5, 2.0, 0.25, 1e-3, 12, "log"),),
        (Check("values", "T=7 float32", False, "output 0", 0.25, 1e-3),),
        deterministic=True,
        seeds=5,
        interpreted=True,
        kernels=("_kernel",),
        peak_forward_bytes=10,
        overwrites=("x", "upstream 0"),
        allowances=("second_backward",),
        excused=(Evidence("gradient", "too far", "T=7 float32", "gradient of b", error=0.0071, allowed=0.0063),),
    ),
    "benchmark_request": BenchmarkRequest(
        "source",
        CANDIDATE,
        "float16",
        (Pass.forward,),
        (ROWS,),
        30.0,
        original=CANDIDATE,
        contenders=("eager",),
        lengths=(RaceLength("T=4096 H=8192 bfloat16", Pass.forward, 80),),
    ),
    "benchmark_result": BenchmarkResult(
        (TIMING,), False, "NVIDIA H200", 4240.0, (("driver", "570"),), True, ("note",), 700.5, 60.25
    ),
    "profile_request": ProfileRequest(
        "source", CANDIDATE, "float32", (ROWS,), (Pass.backward,), gpu="sm_90", counters=False, budget_s=30.0
    ),
    "profile_result": PROFILE,
    "tune_request": TuneRequest(
        "source", CANDIDATE, (Knob(Pass.forward, "num_warps", (4, 8)),), "float16", (ROWS,), 30.0, "lib.ops.reglu"
    ),
    "tune_result": TUNED,
    "record_request": RecordRequest(
        "tree.tar.gz", "benchmark/reglu.py", "lib.ops.reglu", "Reglu", ("src",), ("--all",), (FILE,), 8
    ),
    "record_result": RecordResult(
        (RecordedCall((RecordedTensor((4096, 8192), "bfloat16", True, False), 2, 1e-6, True, "tanh", None), 3),),
        "the script ended on an error",
    ),
    "tests_request": TestsRequest(
        "tree.tar.gz", (FILE,), "pytest", ("-q", "test"), ("src",), ("data.csv",), ("a.png",)
    ),
    "tests_result": TestsResult(
        True,
        0,
        (TestCase("a::b", CaseOutcome.passed, 0.5),),
        "1 passed",
        "log",
        (FILE,),
        (Picture("a.png", "iVBORw0KGgo="),),
    ),
    "doctor_request": DoctorRequest(quick=True),
    "host_report": HostReport(
        "3.12.3",
        "2.11.0",
        "3.6.0",
        "NVIDIA H200",
        "sm_90",
        "570",
        150_000_000_000,
        4240.0,
        (Isolation.process, Isolation.namespaces),
        (IsolationProof("connect", True, "refused"),),
        (("unshare", "/usr/bin/unshare"),),
        ("sentence",),
        ChildStart(True, 0.4, 6.1),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_contract_has_the_json_form_that_is_written_down(name: str) -> None:
    written = json.loads((GOLDEN / f"{name}.json").read_text())
    assert json.loads(json.dumps(to_json(EXAMPLES[name]))) == written


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_contract_is_read_back_from_its_json_form(name: str) -> None:
    written = json.loads((GOLDEN / f"{name}.json").read_text())
    assert from_json(type(EXAMPLES[name]), written) == EXAMPLES[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_unknown_field_is_refused_by_name(name: str) -> None:
    form = to_json(EXAMPLES[name]) | {"surprise": 1}
    with pytest.raises(ValueError, match="surprise"):
        from_json(type(EXAMPLES[name]), form)


def test_a_field_is_read_under_its_former_name_too() -> None:
    form = {"$": "CaptureResult", "graph": None, "error": "x is unknown", "cure": "Define it."}
    assert from_json(CaptureResult, form).fix == "Define it."
    assert to_json(from_json(CaptureResult, form))["fix"] == "Define it."


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_field_of_the_wrong_type_is_refused(name: str) -> None:
    kind = type(EXAMPLES[name])
    for field in dataclasses.fields(kind):
        if field.name == "payload":
            continue
        with pytest.raises(ValueError, match=r".+"):
            from_json(kind, to_json(EXAMPLES[name]) | {field.name: {"$": "Nothing"}})


def test_numbers_keep_their_type_on_the_way() -> None:
    read = from_json(Workload, json.loads(json.dumps(to_json(ROWS))))
    assert [type(value) for _, value in read.scalars] == [float, bool, str, int]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_no_json_value_makes_reading_fail_otherwise_than_by_a_value_error(form: object) -> None:
    for kind in (GpuRequest, CaptureResult, Verdict):
        with pytest.raises(ValueError, match=r".+"):
            from_json(kind, form)


def test_the_door_opens_without_torch_and_triton() -> None:
    check = "import sys, gpu_runner.contracts; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", check], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
