"""Stands in for ``python -m gpu_runner``: answers with what it was asked and what it can see."""

import json
import os
import sys
from pathlib import Path

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
request = json.loads(Path(arguments["--request"]).read_text())
result = {
    "request_id": request["request_id"],
    "action": request["action"],
    "payload": {
        "environment": sorted(os.environ),
        "files": sorted(path.name for path in Path(arguments["--request"]).parent.iterdir()),
    },
    "duration_s": 0.5,
}
Path(arguments["--result"], "result.json").write_text(json.dumps(result))
