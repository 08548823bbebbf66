import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, w: torch.Tensor, stride: int = 1, dilation: int = 1) -> torch.Tensor:
    return F.conv1d(x, w.unsqueeze(1), stride=stride, dilation=dilation, groups=w.shape[0])


INPUTS = {"x": "B C T", "w": {"dims": "C 3", "role": "parameter", "grad": False}}
WORKLOADS = [{"B": 8, "C": 512, "T": 4096}]
