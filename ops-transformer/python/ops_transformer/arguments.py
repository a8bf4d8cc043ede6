"""Checks of the arguments of flash_attention and flash_attention_varlen. Each error names argument, value and rule."""
import math
from typing import NamedTuple

import torch

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_DEVICES = ("cpu", "npu", "meta")
_MAX_HEAD_DIM = 768
# name of each axis, and where batch, heads and tokens are
_LAYOUTS = {"BNSD": ((0, 1, 2), "[batch, heads, tokens, head dim]"), "BSND": ((0, 2, 1), "[batch, tokens, heads, head dim]"),
            "TND": ((None, 1, 0), "[tokens, heads, head dim]")}


class Shape(NamedTuple):
    """Sizes of a call. Packed: tokens of all sequences together, and batch is the number of sequences."""
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int


def check_type(name, value, *types):
    """bool is no number here."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = " or ".join(t.__name__ for t in types)
        shown = "" if isinstance(value, torch.Tensor) else f"{value!r}, "  # what is in a tensor may fill pages
        raise TypeError(f"{name} is {shown}a {type(value).__name__}: it has to be {wanted}")


def check_int64(name, value):
    """An int that the operators can take."""
    check_type(name, value, int)
    if not -2**63 <= value < 2**63:
        raise ValueError(f"{name} is {value}: it has to fit into 64 bits")


def check_strided(name, tensor):
    if tensor.is_nested:
        raise TypeError(f"{name} is a nested tensor: packed sequences go to flash_attention_varlen, with running totals of their lengths")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} has layout {tensor.layout}: it has to be torch.strided")


def check_tensor(name, tensor, dtype, q):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}: it has to be a tensor")
    check_strided(name, tensor)
    if tensor.dtype != dtype:
        raise TypeError(f"{name} is {tensor.dtype}: it has to be {dtype}{' like q' if dtype == q.dtype else ''}")
    if tensor.device != q.device:
        raise ValueError(f"{name} is on {tensor.device}, q on {q.device}: all tensors have to be on one device")


def _sizes(name, tensor, layout):
    axes, words = _LAYOUTS[layout]
    shape = tensor.shape
    rank = 3 if layout == "TND" else 4
    if len(shape) != rank:
        hint = "; [B, S, N * D] becomes BSND by .unflatten(-1, (N, D))" if rank == 4 and len(shape) == 3 else ""
        raise ValueError(f"{name} has shape {tuple(shape)}: {layout} has {rank} dimensions, {words}{hint}")
    batch, heads, tokens = axes
    return 1 if batch is None else shape[batch], shape[heads], shape[tokens], shape[-1]


def check_layout(layout):
    if layout not in ("BNSD", "BSND"):
        raise ValueError(f"layout is {layout!r}: it can be BNSD or BSND; [B, S, N * D] becomes BSND by .unflatten(-1, (N, D)), and packed "
                         "sequences go to flash_attention_varlen")


def check_operands(q, k, v, layout):
    if not isinstance(q, torch.Tensor):
        raise TypeError(f"q is a {type(q).__name__}: it has to be a tensor")
    check_strided("q", q)
    if q.dtype not in _DTYPES:
        raise TypeError(f"q is {q.dtype}: it has to be float32, float16 or bfloat16")
    if q.device.type not in _DEVICES:
        raise ValueError(f"q is on {q.device}: it has to be on cpu or npu")
    check_tensor("k", k, q.dtype, q)
    check_tensor("v", v, q.dtype, q)
    batch, heads, queries, head_dim = _sizes("q", q, layout)
    key_batch, key_heads, keys, key_dim = _sizes("k", k, layout)
    value_batch, value_heads, values, value_dim = _sizes("v", v, layout)
    if key_batch != batch or value_batch != batch:
        raise ValueError(f"q has batch {batch}, k {key_batch} and v {value_batch}: they have to be equal")
    if value_heads != key_heads or values != keys:
        raise ValueError(f"k has shape {tuple(k.shape)}, v {tuple(v.shape)}: both need the same heads and tokens")
    if heads == 0 or key_heads == 0 or heads % key_heads != 0:
        raise ValueError(f"q has {heads} heads, k {key_heads}: the heads of q have to be a multiple of those of k")
    if key_dim != head_dim or not 1 <= head_dim <= _MAX_HEAD_DIM:
        raise ValueError(f"q has head dim {head_dim}, k {key_dim}: they have to be equal, from 1 to {_MAX_HEAD_DIM}")
    if not 1 <= value_dim <= head_dim:
        raise ValueError(f"v has head dim {value_dim}: it has to be from 1 to {head_dim}, the head dim of q")
    return Shape(batch, heads, key_heads, queries, keys, head_dim, value_dim)


def check_scale(scale):
    check_type("scale", scale, float, int)
    # As the kernels have it: a float of 32 bits.
    if not abs(scale) <= 3.4028234663852886e38:
        raise ValueError(f"scale is {scale}: it has to be finite as a float of 32 bits")
    return float(scale)


def check_dropout(dropout_p):
    check_type("dropout_p", dropout_p, float, int)
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p is {dropout_p}: it has to be at least 0 and below 1")
    return dropout_p > 0


def check_sink(sink, q, shape):
    check_tensor("sink", sink, torch.float32, q)
    if tuple(sink.shape) != (shape.heads,):
        raise ValueError(f"sink has shape {tuple(sink.shape)}: it has to be ({shape.heads},), a number for each head of q")


def check_alibi(slopes, q, shape):
    check_tensor("alibi_slopes", slopes, torch.float32, q)
    if tuple(slopes.shape) not in ((shape.heads,), (shape.batch, shape.heads)):
        raise ValueError(f"alibi_slopes has shape {tuple(slopes.shape)}: it has to be ({shape.heads},) or ({shape.batch}, {shape.heads})")
    if slopes.requires_grad and torch.is_grad_enabled():
        raise ValueError("alibi_slopes requires a gradient, but the operator has none for slopes: give them as bias instead")
    if q.dim() == 4 and shape.queries != shape.keys:
        raise ValueError(f"alibi_slopes with {shape.queries} queries and {shape.keys} keys: the numbers have to be equal; give the "
                         "distances as bias instead")
    return slopes


def broadcast(name, tensor, shape):
    """As a view of four dimensions whose axes have the size of the call's, or 1."""
    full = (shape.batch, shape.heads, shape.queries, shape.keys)
    sizes = (1,) * (4 - tensor.dim()) + tuple(tensor.shape)
    if len(sizes) != 4 or any(size not in (1, wanted) for size, wanted in zip(sizes, full)):
        hint = "; [batch, keys] does so as [:, None, None]" if tuple(tensor.shape) == (shape.batch, shape.keys) else ""
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it has to broadcast to {full}, [batch, heads, queries, keys]{hint}")
    return tensor.view(sizes) if tensor.is_contiguous() else tensor.reshape(sizes)


def check_bias(bias, q, shape):
    check_tensor("bias", bias, q.dtype, q)
    bias = broadcast("bias", bias, shape)
    # The forms that the operator takes, and gives a gradient of that shape for.
    return bias.expand(-1, shape.heads, -1, shape.keys)


def check_cu_seqlens(cu_seqlens_q, cu_seqlens_k):
    """As int64 tensors; what they hold is checked where it is read."""
    return _totals("cu_seqlens_q", cu_seqlens_q), _totals("cu_seqlens_k", cu_seqlens_k)


def _totals(name, totals):
    if isinstance(totals, (list, tuple)):
        for total in totals:
            check_int64(f"an entry of {name}", total)
        totals = torch.tensor(totals, dtype=torch.int64, device="cpu")  # whatever torch.set_default_device says
    if not isinstance(totals, torch.Tensor):
        raise TypeError(f"{name} is a {type(totals).__name__}: it has to be a list of ints or an integer tensor")
    if totals.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} is {totals.dtype}: it has to be int64 or int32")
    if totals.dim() != 1 or totals.shape[0] == 0:
        raise ValueError(f"{name} has shape {tuple(totals.shape)}: it has to be a list that begins with 0")
    return totals
