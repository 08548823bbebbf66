"""Problems that the capture tests trace, by name."""

from __future__ import annotations

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n"
ROWS = 'INPUTS = {"x": "T H"}\nWORKLOADS = [{"T": 256, "H": 1024}]\n'
GATED = 'INPUTS = {"a": "T I", "b": "T I"}\nWORKLOADS = [{"T": 256, "I": 1024}]\n'
IMAGES = 'INPUTS = {"x": "N C H W", "w": "C", "b": "C"}\nWORKLOADS = [{"N": 2, "C": 64, "H": 8, "W": 8}]\n'


def gated(body: str, signature: str = "a, b") -> str:
    return f"{HEAD}def reference({signature}):\n    return {body}\n\n{GATED}"


def rows(body: str, signature: str = "x") -> str:
    return f"{HEAD}def reference({signature}):\n    return {body}\n\n{ROWS}"


def images(body: str, signature: str) -> str:
    return f"{HEAD}def reference({signature}):\n    return {body}\n\n{IMAGES}"


def full(body: str, signature: str, inputs: str, workload: str) -> str:
    return f"{HEAD}def reference({signature}):\n{body}\n\nINPUTS = {inputs}\nWORKLOADS = [{workload}]\n"


PROBLEMS = {
    "swiglu": gated("F.silu(a) * b"),
    "geglu_erf": gated("F.gelu(a) * b"),
    "geglu_tanh": gated('F.gelu(a, approximate="tanh") * b'),
    "reglu": gated("F.relu(a) * b"),
    "mish_gate": gated("F.mish(a) * F.softplus(b, beta=2.0)"),
    "hard_gates": gated("F.hardswish(a) * F.hardsigmoid(b) + F.hardtanh(a) * F.relu6(b)"),
    "leaky_elu": gated("F.leaky_relu(a, s) * F.elu(b, alpha)", "a, b, s: float = 0.2, alpha: float = 0.7"),
    "logsigmoid_tanh": gated("F.logsigmoid(a) * torch.tanh(b) * torch.sigmoid(a)"),
    "clamped": gated("torch.clamp(a, -limit, limit) * torch.where(b > 0, b, b.exp())", "a, b, limit: float = 1.5"),
    "relu_squared": rows("F.relu(x) ** 2"),
    "softmax": rows("torch.softmax(x, dim=-1)"),
    "log_softmax": rows("F.log_softmax(x * temperature, dim=-1)", "x, temperature: float = 0.5"),
    "logsumexp": rows("torch.logsumexp(x, dim=-1)"),
    "row_maximum": rows("x.max(dim=-1).values * x.amin(dim=-1)"),
    "sum_over_rows": rows("x.pow(2).sum(dim=0)"),
    "variance": rows("x.var(dim=-1) + x.std(dim=-1, unbiased=False) + x.norm(dim=-1)"),
    "soft_cap": rows("cap * torch.tanh(x / cap)", "x, cap: float = 30.0"),
    "scaled_by_root": rows("x * x.shape[-1] ** -0.5 + math.sqrt(x.shape[0])"),
    "in_place": rows("_changed(x)").replace(
        "def reference",
        "def _changed(x):\n    y = x.clone()\n    y.mul_(2)\n    y[:, 0] = 0\n    return y\n\n\ndef reference",
    ),
    "rms_norm": full(
        "    v = x.float()\n    v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)\n"
        "    return v.to(x.dtype) * (w + offset)",
        "x, w, eps: float = 1e-6, offset: float = 0.0",
        '{"x": "T H", "w": "H"}',
        '{"T": 64, "H": 128}',
    ),
    "fused_rms_norm": full(
        "    return F.rms_norm(x + r, (x.shape[-1],), w, eps), x + r",
        "x, r, w, eps: float = 1e-6",
        '{"x": "T H", "r": "T H", "w": "H"}',
        '{"T": 64, "H": 128}',
    ),
    "layer_norm": full(
        "    return F.layer_norm(x, (x.shape[-1],), w, b, eps)",
        "x, w, b, eps: float = 1e-5",
        '{"x": "B T H", "w": "H", "b": "H"}',
        '{"B": 2, "T": 64, "H": 128}',
    ),
    "group_norm": images("F.group_norm(x, groups, w, b, eps)", "x, w, b, groups: int = 8, eps: float = 1e-5"),
    "instance_norm": images("F.instance_norm(x, weight=w, bias=b, eps=eps)", "x, w, b, eps: float = 1e-5"),
    "masked_where": full(
        "    return torch.softmax(torch.where(m, x, -1e9), -1).masked_fill(~m, 0.0)",
        "x, m",
        '{"x": "T H", "m": {"dims": "T H", "dtype": "bool"}}',
        '{"T": 64, "H": 128}',
    ),
    "rope_halves": full(
        "    q1, q2 = q.chunk(2, dim=-1)\n    return q * cos + torch.cat((-q2, q1), -1) * sin",
        "q, cos, sin",
        '{"q": "B S D", "cos": {"dims": "S D", "grad": False}, "sin": {"dims": "S D", "grad": False}}',
        '{"B": 2, "S": 64, "D": 128}',
    ),
    "rope_pairs": full(
        "    x, y = q[..., 0::2], q[..., 1::2]\n    return torch.stack((x * cos - y * sin, x * sin + y * cos), -1).flatten(-2)",
        "q, cos, sin",
        '{"q": "B S D", "cos": {"dims": "S P", "grad": False}, "sin": {"dims": "S P", "grad": False}}',
        '{"B": 2, "S": 64, "D": 128, "P": 64}',
    ),
    "cross_entropy": full(
        "    return F.cross_entropy(x, t, ignore_index=ignore, label_smoothing=smoothing)",
        "x, t, smoothing: float = 0.1, ignore: int = -100",
        '{"x": "T V", "t": {"dims": "T", "dtype": "int64", "high": "V"}}',
        '{"T": 64, "V": 128}',
    ),
    "cross_entropy_sum": full(
        "    loss = F.cross_entropy(x, t, reduction='none')\n    return loss.sum() + z * torch.logsumexp(x, -1).pow(2).sum()",
        "x, t, z: float = 1e-3",
        '{"x": "T V", "t": {"dims": "T", "dtype": "int64", "high": "V"}}',
        '{"T": 64, "V": 128}',
    ),
    "jsd": full(
        "    m = beta * p.exp() + (1 - beta) * q.exp()\n"
        "    return (beta * F.kl_div(m.log(), p, reduction='none', log_target=True)"
        " + (1 - beta) * F.kl_div(m.log(), q, reduction='none', log_target=True)).sum() / p.shape[0]",
        "p, q, beta: float = 0.3",
        '{"p": {"dims": "T V", "init": "log_softmax"}, "q": {"dims": "T V", "init": "log_softmax"}}',
        '{"T": 64, "V": 128}',
    ),
    "dyt": full(
        "    return w * torch.tanh(alpha * x) + b",
        "x, alpha, w, b",
        '{"x": "T H", "alpha": "", "w": "H", "b": "H"}',
        '{"T": 64, "H": 128}',
    ),
    "poly_norm": full(
        "    def n(v):\n        return v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)\n"
        "    return w[0] * n(x**3) + w[1] * n(x**2) + w[2] * n(x) + b",
        "x, w, b, eps: float = 1e-6",
        '{"x": "T H", "w": "3", "b": ""}',
        '{"T": 64, "H": 128}',
    ),
    "attention": full(
        "    return F.scaled_dot_product_attention(q, k, v)",
        "q, k, v",
        '{"q": "B T D", "k": "B S D", "v": "B S D"}',
        '{"B": 2, "T": 16, "S": 32, "D": 64}',
    ),
    "linear": full(
        "    return F.silu(F.linear(x, w, b))",
        "x, w, b",
        '{"x": "T H", "w": "I H", "b": "I"}',
        '{"T": 64, "H": 128, "I": 256}',
    ),
    "embedding_lookup": full(
        "    return w[i] * 2 + F.embedding(i, w)",
        "w, i",
        '{"w": {"dims": "V H", "grad": False}, "i": {"dims": "T", "dtype": "int64", "high": "V"}, "s": "H"}',
        '{"T": 64, "H": 128, "V": 50}',
    )
    .replace("w, i)", "w, i, s)")
    .replace("F.embedding(i, w)", "F.embedding(i, w) * s"),
    "repeated_heads": full(
        "    return q * k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)",
        "q, k",
        '{"q": "B Q D", "k": "B K D"}',
        '{"B": 2, "Q": 32, "K": 8, "D": 64}',
    ),
    "narrow_inside": rows("(x.to(torch.bfloat16) * 2).float() + x.half().float()"),
}
