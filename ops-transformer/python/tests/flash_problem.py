"""Calls of flash_attention and flash_attention_varlen, forward and backward, compared with attention_reference."""
import importlib.util
from itertools import accumulate

import torch
from attention_reference import Attention, assert_within, rounded

from ops_transformer import flash_attention, flash_attention_varlen

DEVICES = ["cpu"] + (["npu"] if importlib.util.find_spec("torch_npu") else [])
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def hidden_pairs(rows, keys, causal=False, window=None):
    """[rows, keys], true where hidden: by the words of the documentation, measured from the last row and key."""
    i, j = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)
    hidden = (j > i) if causal else torch.zeros(rows, keys, dtype=torch.bool)
    left, right = window or (None, None)
    if left is not None:
        hidden = hidden | (j < i - left)
    if right is not None:
        hidden = hidden | (j > i + right)
    return hidden


class Problem:
    """Random operands of sequences [heads, rows, features], and what a call says besides. `lengths`: rows and keys of each."""

    def __init__(self, dtype=torch.float32, lengths=((37, 53), (37, 53)), heads=4, key_heads=2, dim=64, value_dim=None, seed=20240607,
                 scale=None, **options):
        self.dtype, self.lengths, self.heads, self.options = dtype, list(lengths), heads, options
        self.generator = torch.Generator().manual_seed(seed)
        self.scale = dim ** -0.5 if scale is None else scale
        self.given_scale = scale
        self.sequences = {"q": [self.random(heads, rows, dim) for rows, _ in lengths],
                          "k": [self.random(key_heads, keys, dim) for _, keys in lengths],
                          "v": [self.random(key_heads, keys, value_dim or dim) for _, keys in lengths]}
        self.dy = [self.random(heads, rows, value_dim or dim) for rows, _ in lengths]

    def random(self, *shape, dtype=None):
        return torch.randn(*shape, generator=self.generator).to(dtype or self.dtype)

    def reference(self, bias=None, sink=None, mask=None):
        """The definition of each sequence, the double leaves, and what is added to the scores of each sequence."""
        leaves = {name: [each.double().requires_grad_() for each in parts] for name, parts in self.sequences.items()}
        if sink is not None:
            leaves["sink"] = [sink.double().requires_grad_()]
        if bias is not None:
            leaves["bias"] = [bias.double().requires_grad_()]
        parts, biases = [], []
        for b, (rows, keys) in enumerate(self.lengths):
            hidden = hidden_pairs(rows, keys, self.options.get("causal", False), self.options.get("window"))
            if mask is not None:
                hidden = hidden | ~mask.expand(len(self.lengths), self.heads, rows, keys)[b]
            full = None if bias is None else leaves["bias"][0].expand(len(self.lengths), self.heads, rows, keys)[b]
            slopes = self.options.get("alibi_slopes")
            if slopes is not None:
                distance = (torch.arange(rows)[:, None] - torch.arange(keys)).abs()
                full = -slopes.double().expand(len(self.lengths), self.heads)[b][:, None, None] * distance
            parts.append(Attention(*(leaves[name][b] for name in "qkv"), self.scale,
                                   hidden=hidden.expand(self.heads, rows, keys) if keys else None, bias=full, bias_is_scaled=False, sink=leaves["sink"][0] if sink is not None and keys else None))
            biases.append(full)
        return parts, leaves, biases

    def operands(self, device, layout):
        """Leaves on the device in the layout of the call."""
        def place(parts):
            if layout == "TND":
                tensor = torch.cat([part.transpose(0, 1) for part in parts])
            else:
                tensor = torch.stack(parts)
                tensor = tensor.transpose(1, 2).contiguous() if layout == "BSND" else tensor
            return tensor.to(device)

        return {name: place(parts).requires_grad_() for name, parts in self.sequences.items()}, place(self.dy)

    def sequences_of(self, tensor, layout, axis):
        """The inverse of `operands`; axis 0 for what has rows, 1 for what has keys."""
        if layout == "TND":
            return [part.transpose(0, 1) for part in tensor.split([lengths[axis] for lengths in self.lengths])]
        return list(tensor if layout == "BNSD" else tensor.transpose(1, 2))

    def call(self, operands, layout, **more):
        options = {**self.options, **more}
        if self.given_scale is not None:
            options["scale"] = self.given_scale
        if layout != "TND":
            return flash_attention(*operands.values(), layout=layout, **options)
        totals = [[0, *accumulate(lengths[axis] for lengths in self.lengths)] for axis in (0, 1)]
        return flash_attention_varlen(*operands.values(), *totals, **options)


def check(problem, device="cpu", layout="BNSD", bias=None, sink=None, mask=None):
    """Results, statistics and gradients of one call. Returns what the call returned."""
    parts, leaves, biases = problem.reference(bias, sink, mask)
    operands, dy = problem.operands(device, layout)
    extra = {name: tensor.to(device) for name, tensor in (("bias", bias), ("sink", sink), ("mask", mask)) if tensor is not None}
    extra = {name: tensor.requires_grad_() if tensor.is_floating_point() else tensor for name, tensor in extra.items()}
    slopes = problem.options.get("alibi_slopes")
    if slopes is not None:
        extra["alibi_slopes"] = slopes.to(device)
    out, maximum, total = problem.call(operands, layout, return_softmax_stats=True, **extra)
    assert out.dtype == problem.dtype and out.device.type == device and out.is_contiguous()
    for b, part in enumerate(parts):
        assert_within(f"output {b}", problem.sequences_of(out, layout, 0)[b], part.out, part.out_bound(problem.dtype))
        largest, sums = ((stat.t() if layout == "TND" else stat) for stat in
                         ((maximum, total) if layout != "TND" else (_rows(problem, maximum, b), _rows(problem, total, b))))
        if layout != "TND":
            largest, sums = largest[b], sums[b]
        assert_within(f"maximum {b}", largest, part.maximum, part.maximum_bound())
        assert_within(f"sum {b}", sums, part.total, part.total_bound(problem.dtype))
    out.backward(dy)
    _check_gradients(problem, operands, extra, parts, leaves, biases, layout)
    return out


def _rows(problem, stat, b):
    return stat.split([rows for rows, _ in problem.lengths])[b]


def _check_gradients(problem, operands, extra, parts, leaves, biases, layout):
    flat = [leaf for each in leaves.values() for leaf in each]
    outputs, dy = [part.out for part in parts], [dy.double() for dy in problem.dy]
    # A sequence without keys has zeros, whatever the sink.
    found = iter(torch.autograd.grad(outputs, flat, dy, retain_graph=True, allow_unused=True, materialize_grads=True))
    expected = {name: [next(found) for _ in each] for name, each in leaves.items()}
    bounds = [part.gradient_bounds(dy, problem.dtype) for part, dy in zip(parts, problem.dy)]
    for name, operand in operands.items():
        axis, word = (0, "query") if name == "q" else (1, {"k": "key", "v": "value"}[name])
        assert operand.grad.dtype == problem.dtype
        for b, gradient in enumerate(problem.sequences_of(operand.grad, layout, axis)):
            wanted = expected[name][b]
            assert_within(f"gradient of {name} {b}", gradient, wanted, rounded(bounds[b][word], wanted, problem.dtype))
    if "sink" in extra:
        wanted = expected["sink"][0]
        assert_within("gradient of sink", extra["sink"].grad, wanted, rounded(sum(b.get("sink", 0.0) for b in bounds) + 0 * wanted, wanted, torch.float32))
    if "bias" in extra:
        wanted = expected["bias"][0]
        # Each element is rounded to the type, and elements that share a number of the bias are added up.
        elements = torch.autograd.grad(outputs, biases, dy)
        bound = torch.stack([rounded(each["scores"], element, problem.dtype) for each, element in zip(bounds, elements)])
        bound = bound.sum_to_size(wanted.shape)
        assert_within("gradient of bias", extra["bias"].grad, wanted, rounded(bound, wanted, problem.dtype))
