"""One attention problem for the tests: random inputs, the layouts, the call on npu tensors, and the judge: the formulas in double
precision with PyTorch's CPU operators and autograd. Nothing here asks the operators what is right."""

from dataclasses import dataclass, field

import torch
import torch_npu

NO_LIMIT = 2147483647
STATISTIC_COPIES = 8
LAYOUTS = ["BSH", "SBH", "BSND", "BNSD", "TND"]
# Lengths of sequences: TND has different ones, also none and more rows than keys of some.
LENGTHS = {"TND": {"q": (5, 0, 33, 1), "kv": (5, 7, 40, 90)}}
DENSE = {"q": (33, 33), "kv": (40, 40)}


def lengths(layout):
    return LENGTHS.get(layout, DENSE)


def compressed_mask():
    """The mask that stands for a pattern; 1 = hidden."""
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1)


@dataclass
class Case:
    layout: str = "BNSD"
    q: tuple = (7,)  # rows of each sequence; equal ones for dense layouts
    kv: tuple = (9,)
    heads: int = 4
    kv_heads: int = 2
    dim: int = 16
    value_dim: int = 16
    dtype: torch.dtype = torch.float32
    mode: int = 0
    pre: int = NO_LIMIT
    next: int = NO_LIMIT
    mask: object = None  # a tensor, hidden = not 0; "compressed" for mode 4
    pse: bool = False
    sink: bool = False
    softmax_layout: str = ""
    seed: int = 1
    scale: float = field(init=False)

    def __post_init__(self):
        self.scale = self.dim**-0.5
        generator = torch.Generator().manual_seed(self.seed)

        def random(lengths, heads, dim):
            return [torch.randn(heads, length, dim, generator=generator).to(self.dtype) for length in lengths]

        self.query = random(self.q, self.heads, self.dim)
        self.key = random(self.kv, self.kv_heads, self.dim)
        self.value = random(self.kv, self.kv_heads, self.value_dim)
        self.dy = random(self.q, self.heads, self.value_dim)
        self.bias = [torch.randn(self.heads, rows, keys, generator=generator).to(self.dtype)
                     for rows, keys in zip(self.q, self.kv)] if self.pse else None
        self.sinks = torch.randn(self.heads, generator=generator) if self.sink else None
        if isinstance(self.mask, str):
            self.mask = compressed_mask()

    # ---- layouts ----

    def pack(self, sequences):
        """[heads, length, dim] of each sequence -> the tensor of the layout."""
        if self.layout == "TND":
            return torch.cat([one.transpose(0, 1) for one in sequences]).contiguous()
        bnsd = torch.stack(list(sequences))
        bsnd = bnsd.transpose(1, 2)
        packed = {"BNSD": bnsd, "BSND": bsnd, "BSH": bsnd.flatten(2), "SBH": bsnd.flatten(2).transpose(0, 1)}
        return packed[self.layout].contiguous()

    def pack_statistic(self, sequences):
        """[heads, length] of each sequence -> the tensor of the layout of statistics, eight copies of each number."""
        if self.layout != "TND":
            packed = torch.stack(sequences)
        elif self.softmax_layout == "TND":
            packed = torch.cat([one.transpose(0, 1) for one in sequences])
        else:  # one block [heads, length] for each sequence
            packed = torch.cat([one.flatten() for one in sequences]).view(-1, self.heads)
        return packed.unsqueeze(-1).expand(*packed.shape, STATISTIC_COPIES)

    def pack_bias(self, sequences):
        return torch.cat([one.flatten() for one in sequences]) if self.layout == "TND" else torch.stack(sequences)

    # ---- the call ----

    def options(self, scale_name="scale"):
        options = {scale_name: self.scale, "sparse_mode": self.mode, "pre_tockens": self.pre, "next_tockens": self.next}
        if self.mask is not None:
            options["atten_mask"] = self.mask.npu()
        if self.pse:
            options["pse"] = self.pack_bias(self.bias).npu()
        if self.sink:
            options["sink"] = self.sinks.npu()
        if self.softmax_layout:
            options["softmax_layout"] = self.softmax_layout
        if self.layout == "TND":
            options["actual_seq_qlen"] = torch.tensor(self.q).cumsum(0).tolist()
            options["actual_seq_kvlen"] = torch.tensor(self.kv).cumsum(0).tolist()
        return options

    def inputs(self):
        return [self.pack(operand).npu() for operand in (self.query, self.key, self.value)]

    def forward(self, function=None, **changes):
        function = function or torch_npu.swa_forward
        return function(*self.inputs(), self.heads, self.layout, **(self.options() | changes))

    def backward(self, results, **changes):
        out, softmax_max, softmax_sum, _, seed, offset, numels = results
        given = {"softmax_max": softmax_max, "softmax_sum": softmax_sum, "attention_in": out, "seed": seed, "offset": offset,
                 "numels": numels}
        return torch_npu.swa_backward(*self.inputs(), self.pack(self.dy).npu(), self.heads, self.layout,
                                      **(self.options("scale_value") | given | changes))

    # ---- the judge ----

    def visible(self, rows, keys):
        """Which keys each row sees, [rows, keys]."""
        i, j = torch.arange(rows)[:, None], torch.arange(keys)[None, :]
        if self.mask is None:
            return torch.ones(rows, keys, dtype=torch.bool)
        if self.mode == 4:  # along the diagonal that ends at the last row and key
            distance = j - i - (keys - rows)
            return (-self.pre <= distance) & (distance <= self.next)
        return (self.mask[:rows, :keys] == 0) & (-self.pre <= j - i) & (j - i <= self.next)

    def attend(self, query, key, value, bias, sinks):
        """One sequence in double: out, maxima, sums. Rows without a key: 0 and what the interface says about statistics."""
        rows, keys = query.shape[1], key.shape[1]
        group = self.heads // self.kv_heads
        key, value = key.repeat_interleave(group, 0), value.repeat_interleave(group, 0)
        scores = query @ key.transpose(1, 2)
        scores = self.scale * (scores if bias is None else scores + bias)
        scores = scores.masked_fill(~self.visible(rows, keys), float("-inf"))
        sink = torch.full((self.heads, 1), float("-inf")).double() if sinks is None else sinks[:, None].expand(-1, rows)
        maxima = torch.maximum(scores.amax(-1), sink).detach()  # a shift, which cancels
        sees = maxima > float("-inf")
        weights = torch.exp(scores - maxima.masked_fill(~sees, 0)[..., None])
        sums = weights.sum(-1) + torch.exp(sink - maxima.masked_fill(~sees, 0))
        out = (weights / sums.masked_fill(~sees, 1)[..., None]) @ value
        largest = torch.finfo(torch.float32).max
        return out, maxima.masked_fill(~sees, -largest), sums.masked_fill(~sees, largest)

    def expected(self):
        """(out, maxima, sums), (dq, dk, dv, dpse, dsink) in double, in the layout of the case."""
        def leaves(tensors):
            return [one.double().requires_grad_() for one in tensors]

        query, key, value = leaves(self.query), leaves(self.key), leaves(self.value)
        bias = leaves(self.bias) if self.pse else [None] * len(query)
        sinks = leaves([self.sinks])[0] if self.sink else None
        parts = []
        for dy, *sequence in zip(self.dy, query, key, value, bias):
            part = self.attend(*sequence, sinks)
            part[0].backward(dy.double())  # one after another, so that only one sequence's matrices are in memory
            parts.append([tensor.detach() for tensor in part])

        out = self.pack([part[0] for part in parts])
        maxima, sums = (self.pack_statistic([part[i] for part in parts]) for i in (1, 2))
        gradients = [self.pack([one.grad for one in operand]) for operand in (query, key, value)]
        gradients.append(self.pack_bias([one.grad for one in bias]) if self.pse else None)
        gradients.append(sinks.grad if self.sink else None)
        return (out, maxima, sums), gradients

    def assert_close(self, actual, expected, roundings, what, dtype=None):
        """Within so many roundings of the dtype, relative to the largest value. For float those of a sum of a few hundred terms."""
        actual = actual.cpu().double()
        assert actual.shape == expected.shape, what
        unit = {torch.float32: 2.0**-20, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype or self.dtype]
        error = (actual - expected).abs().max().item() if actual.numel() else 0.0
        bound = roundings * unit * max(1.0, expected.abs().max().item() if expected.numel() else 0.0)
        assert error <= bound, f"{what}: error {error:.2e}, bound {bound:.2e}, seed {self.seed}"  # also when error is NaN


def check_statistic(case, actual, expected, sees, name):
    """Statistics are floats for every dtype, but weights that were rounded to 16 bits may enter the sum."""
    actual = actual.cpu().double()
    assert actual.shape == expected.shape
    assert torch.equal(actual[~sees], expected[~sees])
    roundings = 4 if case.dtype == torch.float32 else 128
    case.assert_close(actual[sees], expected[sees], roundings, name, torch.float32)


def check(case, **changes):
    """Forward, statistics and gradients of one case, called with the changes; returns what forward gave."""
    (out, maxima, sums), gradients = case.expected()
    results = case.forward(**changes)
    assert len(results) == 7 and results[0].dtype == case.dtype and results[3].shape == (0,)
    case.assert_close(results[0], out, 4, "attention")
    sees = sums < torch.finfo(torch.float32).max
    check_statistic(case, results[1], maxima, sees, "softmax_max")
    check_statistic(case, results[2], sums, sees, "softmax_sum")

    actual = case.backward(results, **changes)
    assert len(actual) == 5
    for name, one, wanted in zip(("dq", "dk", "dv", "dpse", "dsink"), actual, gradients):
        if wanted is not None:
            case.assert_close(one, wanted, 16, name)
    return results


class LongWindow(Case):
    """A window that ends with the token itself, on texts that are too long for the judge's matrices: it looks at a few rows at a
    time, and at the keys in their reach."""

    def attend(self, query, key, value, bias, sinks):
        rows = 256
        parts = []
        for begin in range(0, query.shape[1], rows):
            end = min(begin + rows, query.shape[1])
            reach = slice(max(0, begin - self.pre), end)
            parts.append(super().attend(query[:, begin:end], key[:, reach], value[:, reach], bias, sinks))
        return tuple(torch.cat(part, 1) for part in zip(*parts))
