"""Stands in for ``python -m gpu_runner`` where values count and times do not: the real one makes the verdicts, times are fixed."""

import json
import os
import sys
from pathlib import Path

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    GpuRequest,
    GpuResult,
    HostReport,
    TestsResult,
    from_json,
    to_json,
)
from tests.workers.stages.answers import benchmark

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
request = from_json(GpuRequest, json.loads(Path(arguments["--request"]).read_text()))
if request.action is Action.verify:
    os.execv(sys.executable, (sys.executable, "-m", "gpu_runner", *sys.argv[1:]))
if request.action is Action.doctor:
    payload = to_json(HostReport("3.12", "2.11.0", "3.6.0", "NVIDIA H200", "sm_90", "580", 1, 4240.0, (), (), (), ()))
elif request.action is Action.benchmark:
    payload = to_json(benchmark()(from_json(BenchmarkRequest, request.payload)))
else:
    payload = to_json(TestsResult(True, 0, (), "exit code 0", ""))
result = GpuResult(request.request_id, request.action, payload, duration_s=1.0)
Path(arguments["--result"], "result.json").write_text(json.dumps(to_json(result)))
