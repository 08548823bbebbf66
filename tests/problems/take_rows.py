"""Embedding: rows of a table by index."""

import torch


def reference(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index]


INPUTS = {"table": "V H", "index": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"V": 32000, "H": 4096, "T": 8192}]
