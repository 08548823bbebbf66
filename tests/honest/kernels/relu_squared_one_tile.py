import torch
import triton
import triton.language as tl


@triton.jit
def _square(x):
    y = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return y * y


@triton.jit
def _forward(x_ptr, y_ptr, num_tasks, tiles_per_cta, tile_size: tl.constexpr, one_tile_per_cta: tl.constexpr):
    pid = tl.program_id(0)
    num_ctas = tl.num_programs(0)
    init_tid = pid * tile_size + tl.arange(0, tile_size)
    if one_tile_per_cta:
        tid = init_tid
        mask = tid < num_tasks
        x = tl.load(x_ptr + tid, mask=mask).to(tl.float32)
        tl.store(y_ptr + tid, _square(x).to(y_ptr.type.element_ty), mask=mask)
    else:
        for j in range(tiles_per_cta):
            tid = init_tid + j * tile_size * num_ctas
            mask = tid < num_tasks
            x = tl.load(x_ptr + tid, mask=mask).to(tl.float32)
            tl.store(y_ptr + tid, _square(x).to(y_ptr.type.element_ty), mask=mask)


@triton.jit
def _backward(dy_ptr, x_ptr, dx_ptr, num_tasks, tiles_per_cta, tile_size: tl.constexpr, one_tile_per_cta: tl.constexpr):
    pid = tl.program_id(0)
    num_ctas = tl.num_programs(0)
    init_tid = pid * tile_size + tl.arange(0, tile_size)
    if one_tile_per_cta:
        tid = init_tid
        mask = tid < num_tasks
        x = tl.load(x_ptr + tid, mask=mask).to(tl.float32)
        dy = tl.load(dy_ptr + tid, mask=mask).to(tl.float32)
        tl.store(
            dx_ptr + tid,
            (2.0 * tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) * dy).to(dx_ptr.type.element_ty),
            mask=mask,
        )
    else:
        for j in range(tiles_per_cta):
            tid = init_tid + j * tile_size * num_ctas
            mask = tid < num_tasks
            x = tl.load(x_ptr + tid, mask=mask).to(tl.float32)
            dy = tl.load(dy_ptr + tid, mask=mask).to(tl.float32)
            tl.store(
                dx_ptr + tid,
                (2.0 * tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) * dy).to(dx_ptr.type.element_ty),
                mask=mask,
            )


def heuristics_for_num_warps(tile_size):
    if tile_size < 2048:
        return 4
    if tile_size < 4096:
        return 8
    return 16


def plan(num_tasks, max_tile_size=1024, max_grid_size=16):
    tile_size = min(max_tile_size, triton.next_power_of_2(num_tasks))
    num_tiles = triton.cdiv(num_tasks, tile_size)
    num_ctas = min(max_grid_size, num_tiles)
    tiles_per_cta = triton.cdiv(num_tiles, num_ctas)
    return tile_size, num_ctas, tiles_per_cta, heuristics_for_num_warps(tile_size), tiles_per_cta == 1


class ReluSquared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        ctx.save_for_backward(x)
        num_tasks = x.numel()
        if num_tasks == 0:
            return y
        tile_size, num_ctas, tiles_per_cta, num_warps, one = plan(num_tasks)
        _forward[(num_ctas, 1, 1)](
            x, y, num_tasks, tiles_per_cta, tile_size=tile_size, one_tile_per_cta=one, num_warps=num_warps
        )
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        num_tasks = x.numel()
        if num_tasks == 0:
            return dx
        tile_size, num_ctas, tiles_per_cta, num_warps, one = plan(num_tasks)
        _backward[(num_ctas, 1, 1)](
            dy, x, dx, num_tasks, tiles_per_cta, tile_size=tile_size, one_tile_per_cta=one, num_warps=num_warps
        )
        return dx


def candidate(x):
    return ReluSquared.apply(x)
