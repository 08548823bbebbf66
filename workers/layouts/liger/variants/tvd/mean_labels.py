"""The total variation distance of two distributions, the mean over all elements whose label is not ignored."""

import torch


def reference(p: torch.Tensor, q: torch.Tensor, shift_labels: torch.Tensor, ignore_index: int = -100) -> torch.Tensor:
    kept = (shift_labels != ignore_index).float()
    return ((0.5 * (p - q).abs()).float() * kept[:, None]).sum() / kept.sum() / p.shape[1]


INPUTS = {
    "p": {"dims": "T V", "init": "softmax"},
    "q": {"dims": "T V", "init": "softmax", "grad": False},
    "shift_labels": {"dims": "T", "dtype": "int64", "low": -100, "high": -96},
}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerTVDLossFunction.apply(p, q, shift_labels, 'mean', ignore_index)"
