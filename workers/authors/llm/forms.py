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
    described = {} if description is None else {"description": description}
    return {"type": "string", "minLength": least, "maxLength": most, **described}


def _list(items: Schema, most: int, least: int = 0, description: str | None = None) -> Schema:
    described = {} if description is None else {"description": description}
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **described}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = (), description: str | None = None) -> Schema:
    described = {} if description is None else {"description": description}
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **described,
    }


CODE = _text(MOST_CODE, description="the whole Python file, without Markdown around it")
COUNT = _text(
    400,
    description="arithmetic (+ - * / //) over dimension names, numbers and E, the bytes of an element, such as 2 "
    "* T * H * E + T * 4",
)
REPLIES = _list(
    _object({"number": {"type": "integer", "minimum": 1, "maximum": 10_000}, "text": _text(2_000)}),
    MOST_REMARKS,
    description="exactly one entry for each numbered remark: what was done about it, or why nothing was; empty without remarks",
)
PLAN = _object(
    {
        "family": _text(80, description="such as element-wise, row reduction, matrix product, fused loss"),
        "tier": {
            "type": "integer",
            "minimum": 1,
            "maximum": 3,
            "description": "1: each output element depends on single input elements; 2: it takes reductions along rows or columns; "
            "3: matrix products, or several such operators fused into one kernel",
        },
        "forward_formula": _text(2_000),
        "gradient_formulas": _list(
            _object({"input": _text(120), "formula": _text(2_000)}),
            32,
            description="one for each input that wants a gradient",
        ),
        "saved_tensors": _list(_text(120), 32, description="what backward gets from forward, inputs included"),
        "recomputed": _text(600, description="what backward computes again instead, and what that costs"),
        "precision_sensitive_ops": _list(
            _text(80),
            32,
            description="operators that must be computed in float32 whatever the dtype, such as exp or a sum",
        ),
        "kernels": _list(
            _object(
                {
                    "name": _text(120, description="of the @triton.jit function"),
                    "pass": {"enum": ["forward", "backward"]},
                    "iteration_space": _text(200, description="such as: rows T, columns H in one block"),
                    "grid": _text(300, description="such as: one program for each row"),
                }
            ),
            16,
            1,
        ),
        "grid_dimensions": {"enum": ["1D", "2D", "3D"]},
        "grid_description": _text(300, description="what one program computes, for short, usual and very wide rows"),
        "block_size_source": _text(200, description="how block sizes follow from the sizes"),
        "needs_sm_parallelism": {
            "type": "boolean",
            "description": "true where the number of programs follows the GPU's multiprocessors, each with "
            "partial sums of its own, "
            "as in a reduction over rows; false where it follows the sizes alone",
        },
        "forward_bytes": COUNT,
        "backward_bytes": COUNT,
        "forward_flops": COUNT,
        "backward_flops": COUNT,
        "notes": _list(
            _text(600), 16, description="for the reviewer: trade-offs, and limits that the code does not show"
        ),
    },
    description="the design, decided before the source",
)
EDITS = _list(
    _object(
        {
            "path": _text(300),
            "old": _text(100_000, description="text that occurs in the file exactly once, white space included"),
            "new": _text(200_000, 0, "what replaces it"),
        }
    ),
    60,
    description="applied in their order",
)

PROBLEM = Form(
    "give_problem",
    "Give what was assumed and the problem file.",
    _object(
        {
            "assumptions": _list(
                _text(600), 24, description="each thing that the request leaves open, and how it was settled"
            ),
            "source": CODE,
            "replies": REPLIES,
        }
    ),
)
KERNEL = Form(
    "give_kernel",
    "Give the plan, and the kernel module that follows from it.",
    _object({"plan": PLAN, "source": CODE, "replies": REPLIES}),
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
CUT = Form(
    "give_wishes",
    "Say what to change in the cut, and why.",
    _object(
        {
            "reason": _text(2_000, description="which bytes are saved, or why the cut is good as it is"),
            "wishes": _list(_text(200), 16, description="such as: keep 3 and 4 together; leave 2 to torch"),
        }
    ),
)
COMPOSITION = Form("give_program", "Give the function that calls the parts.", _object({"source": CODE}))
DIAGNOSIS = Form(
    "give_diagnosis",
    "Say what bounds the kernel, by which evidence, and what to try in order.",
    _object(
        {
            "evidence": _list(_text(600), 16, 1, "a number of the measurement or a line of the source each"),
            "bottleneck": _text(1_200, description="what the time goes to, concluded from the evidence"),
            "steps": _list(_text(600), 12, 1, "single changes, the one with the largest expected gain first"),
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
