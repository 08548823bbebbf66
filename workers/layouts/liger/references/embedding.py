"""Rows of a table, by index."""

import torch


def reference(w: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(index, w)


INPUTS = {"w": {"dims": "V H", "role": "parameter"}, "index": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [
    {"V": 128256, "H": 4096, "T": 16384},
    {"V": 32000, "H": 4096, "T": 16384},
    {"V": 32000, "H": 768, "T": 4096},
]
CALL = "LigerEmbeddingFunction.apply(w, index)"
