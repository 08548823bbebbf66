"""Streams mixed for each token: what a layer gives, spread over them, and a sum of them."""

import torch


def reference(x: torch.Tensor, f: torch.Tensor, post: torch.Tensor, res: torch.Tensor) -> torch.Tensor:
    mixed = res @ x.float()
    return (mixed + post[..., None] * f.float()[:, None]).to(x.dtype)


INPUTS = {
    "x": "T 4 C",
    "f": "T C",
    "post": {"dims": "T 4", "dtype": "float32"},
    "res": {"dims": "T 4 4", "dtype": "float32"},
}
WORKLOADS = [{"T": 16384, "C": 4096}, {"T": 4096, "C": 4096}, {"T": 4096, "C": 1024}]
CALL = "LigerMHCPostResFunction.apply(x, f, post, res)"
