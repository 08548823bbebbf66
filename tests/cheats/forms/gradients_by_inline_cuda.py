"""Loads a CUDA kernel from text in its backward, where neither a kernel of Triton nor torch's operators compute."""

import torch
import torch.utils.cpp_extension
import triton
import triton.language as tl

DECLARED = "void gradients(torch::Tensor dy, torch::Tensor a, torch::Tensor b, torch::Tensor da, torch::Tensor db);"
SOURCE = """
__global__ void kernel(const float* dy, const float* a, const float* b, float* da, float* db, long n) {
    long at = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (at < n) { da[at] = a[at] > 0 ? dy[at] * b[at] : 0; db[at] = a[at] > 0 ? dy[at] * a[at] : 0; }
}
void gradients(torch::Tensor dy, torch::Tensor a, torch::Tensor b, torch::Tensor da, torch::Tensor db) {
    kernel<<<(dy.numel() + 255) / 256, 256>>>(dy.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(),
        da.data_ptr<float>(), db.data_ptr<float>(), dy.numel());
}
"""


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, tl.where(a <= 0, 0.0, a) * b, mask=mask)


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        y = torch.empty_like(a)
        _forward[(triton.cdiv(a.numel(), 1024),)](a, b, y, a.numel(), BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensors
        da, db = torch.empty_like(a), torch.empty_like(b)
        extension = torch.utils.cpp_extension.load_inline("gradients", DECLARED, SOURCE, functions=["gradients"])
        extension.gradients(dy.contiguous(), a, b, da, db)
        return da, db


def candidate(a, b):
    return Gate.apply(a, b)
