"""The forms of the answers: closed JSON schemas, each size bounded. Pure.

Texts that are code may be longer here than a reading lets pass: an answer that is too large shall end with that reason, and not as
malformed.
"""

from __future__ import annotations

from typing import Any

from workers.models.protocol import Form

MOST_CODE = 400_000  # characters
MOST_REMARKS = 64

Schema = dict[str, Any]


def _text(most: int, least: int = 1, description: str | None = None) -> Schema:
    told = {} if description is None else {"description": description}
    return {"type": "string", "minLength": least, "maxLength": most, **told}


def _list(items: Schema, most: int, least: int = 0, description: str | None = None) -> Schema:
    told = {} if description is None else {"description": description}
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **told}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = (), description: str | None = None) -> Schema:
    told = {} if description is None else {"description": description}
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **told}


CODE = _text(MOST_CODE, description="the whole Python file as it shall be written, with no Markdown around it")
COUNT = _text(400, description="arithmetic (+ - * / //) over dimension names, numbers and E, the bytes of an element")
REPLIES = _list(
    _object({"number": {"type": "integer", "minimum": 1, "maximum": 10_000}, "text": _text(2_000)}),
    MOST_REMARKS,
    description="for each numbered remark exactly one entry: what was done about it, or why nothing; empty without remarks",
)
PLAN = _object(
    {
        "family": _text(80, description="such as element-wise, row reduction, fused loss"),
        "tier": {"type": "integer", "minimum": 1, "maximum": 3},
        "kernels": _list(
            _object(
                {
                    "name": _text(120),
                    "pass": {"enum": ["forward", "backward"]},
                    "iteration_space": _text(200),
                    "grid": _text(300),
                }
            ),
            16,
            1,
        ),
        "forward_formula": _text(2_000),
        "gradient_formulas": _list(_object({"input": _text(120), "formula": _text(2_000)}), 32),
        "saved_tensors": _list(_text(120), 32),
        "recomputed": _text(600),
        "precision_sensitive_ops": _list(_text(80), 32),
        "grid_dimensions": {"enum": ["1D", "2D", "3D"]},
        "grid_description": _text(300),
        "block_size_source": _text(200),
        "needs_sm_parallelism": {"type": "boolean"},
        "forward_bytes": COUNT,
        "backward_bytes": COUNT,
        "forward_flops": COUNT,
        "backward_flops": COUNT,
        "notes": _list(_text(600), 16),
    }
)
EDITS = _list(
    _object(
        {
            "path": _text(300),
            "old": _text(100_000, description="text that stands in the file exactly once, white space included"),
            "new": _text(200_000, 0, "what stands there instead"),
        }
    ),
    60,
    description="applied in their order",
)

PROBLEM = Form(
    "give_problem",
    "Give the problem file and what was assumed.",
    _object(
        {
            "source": CODE,
            "assumptions": _list(
                _text(600), 24, description="each thing that the request leaves open and how it was settled"
            ),
            "replies": REPLIES,
        }
    ),
)
KERNEL = Form(
    "give_kernel",
    "Give the kernel module and its plan.",
    _object({"source": CODE, "plan": PLAN, "replies": REPLIES}),
)
CHANGE = Form(
    "give_change",
    "Give the edits of the files and the tests to add.",
    _object(
        {
            "summary": _text(2_000, description="what changes for a user of the kernel, in a few sentences"),
            "edits": EDITS,
            "added_tests": _object(
                {"path": _text(300), "text": _text(MOST_CODE, description="Python to append to that test file")}
            ),
            "problem": _text(
                MOST_CODE, description="the whole new problem file, only where the function itself changes"
            ),
            "replies": REPLIES,
        },
        optional=("added_tests", "problem"),
    ),
)
DIAGNOSIS = Form(
    "give_diagnosis",
    "Say what bounds the kernel, by what it is seen, and what to try in order.",
    _object(
        {
            "bottleneck": _text(1_200),
            "evidence": _list(_text(600), 16, 1),
            "steps": _list(_text(600), 12, 1),
        }
    ),
)
VARIANT = Form(
    "give_variant",
    "Give one change that makes the kernel faster, with its notes.",
    _object(
        {
            "hypothesis": _text(1_200),
            "change": _text(1_200),
            "expected": _text(1_200),
            "edits": EDITS,
            "source": _text(MOST_CODE, description="the whole file, instead of edits, where most of it changes"),
            "replies": REPLIES,
        },
        optional=("edits", "source"),
    ),
)
