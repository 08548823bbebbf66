import torch


def reference(x: torch.Tensor, b: torch.Tensor, bias_first: bool = False, squared: bool = False) -> torch.Tensor:
    y = torch.relu(x + b) if bias_first else torch.relu(x)
    y = y * y if squared else y
    return y if bias_first else y + b


INPUTS = {"x": "T H", "b": "T H"}
WORKLOADS = [{"T": 4096, "H": 4096}]
