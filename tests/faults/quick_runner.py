"""Stands in for ``python -m gpu_runner``: gives one answer to each action at once, or dies where the test says so.

``answers.json`` on the desk holds a payload for each action, and ``benchmark-alone`` for what is measured without an original. Each
file ``die-ACTION-...`` has one runner of that action kill itself.
"""

import json
import os
import signal
import sys
from pathlib import Path

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
desk = Path(arguments["--desk"])
request = json.loads(Path(arguments["--request"]).read_text())
action = "imports" if request["payload"].get("module") == "imports" else request["action"]
with (desk / "asked").open("a") as told:
    told.write(f"{action} {request['request_id']}\n")
for order in sorted(desk.glob(f"die-{action}-*")):
    order.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
alone = action == "benchmark" and request["payload"]["original"] is None
payload = json.loads((desk / "answers.json").read_text())["benchmark-alone" if alone else request["action"]]
answer = {"request_id": request["request_id"], "action": request["action"], "payload": payload, "duration_s": 0.5}
Path(arguments["--result"], "result.json").write_text(json.dumps(answer))
