"""A weighted sum over depth: softmax over blocks of the query's product with each block's RMSNorm."""

import torch


def reference(v: torch.Tensor, q: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = v.float()
    k = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(v.dtype) * w
    share = (k.float() * q.float()).sum(-1, keepdim=True).softmax(0)
    return (share * h).sum(0).to(v.dtype)


INPUTS = {"v": "N T H", "q": {"dims": "H", "role": "parameter"}, "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"N": 8, "T": 4096, "H": 4096}, {"N": 4, "T": 4096, "H": 4096}, {"N": 4, "T": 1024, "H": 2048}]
CALL = "LigerAttnResFunction.apply(v, q, w, eps)"
