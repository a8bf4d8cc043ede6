"""Calls of torch_npu's attention operators, forward and backward, compared with attention_reference."""
from itertools import accumulate

import torch
import torch_npu
from attention_reference import Attention, assert_within, rounded

SEED = 20240607
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
LAYOUTS = ["BSH", "SBH", "BSND", "BNSD", "TND"]
# What is passed for a mask that the sparse mode defines: only its shape counts.
COMPRESSED = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
COMPRESSED_PREFIX = torch.cat([COMPRESSED, torch.arange(2048).ge(1024).expand(1024, 2048)])


def pack(sequences, layout):
    """The tensor of a layout from its sequences [heads, rows, features]."""
    if layout == "TND":
        return torch.cat([sequence.transpose(0, 1) for sequence in sequences])
    tensor = torch.stack(sequences)
    if layout == "BNSD":
        return tensor
    if layout == "SBH":
        return tensor.permute(2, 0, 1, 3).flatten(2).contiguous()
    tensor = tensor.transpose(1, 2).contiguous()
    return tensor if layout == "BSND" else tensor.flatten(2)  # BSH


class Problem:
    """Operands of a call with random numbers, and its sequences. `lengths`: rows and keys of each."""

    def __init__(self, layout="BNSD", dtype=torch.float32, lengths=((37, 53), (37, 53)), heads=4, key_heads=2, dim=64,
                 value_dim=None, rope_dim=0, scale=None, seed=SEED):
        self.layout, self.dtype, self.lengths = layout, dtype, list(lengths)
        self.heads, self.key_heads, self.dim = heads, key_heads, dim
        self.scale = scale if scale is not None else (dim + rope_dim) ** -0.5
        self.generator = torch.Generator().manual_seed(seed)
        rows, keys = zip(*self.lengths)
        value_dim = value_dim or dim
        self.sequences = {"query": self.numbers(heads, rows, dim), "key": self.numbers(key_heads, keys, dim),
                          "value": self.numbers(key_heads, keys, value_dim)}
        if rope_dim:
            self.sequences |= {"query_rope": self.numbers(heads, rows, rope_dim),
                               "key_rope": self.numbers(key_heads, keys, rope_dim)}
        self.dy = self.numbers(heads, rows, value_dim)

    def numbers(self, heads, rows, features):
        return [self.random(heads, each, features) for each in rows]

    def random(self, *shape):
        return torch.randn(*shape, generator=self.generator).to(self.dtype)

    def ends(self):
        """The running totals of the lengths, as packed calls take them."""
        rows, keys = zip(*self.lengths)
        return {"actual_seq_qlen": list(accumulate(rows)), "actual_seq_kvlen": list(accumulate(keys))}

    def pairs(self):
        """Numbers of elements of the score matrices of each sequence, all heads together."""
        return [self.heads * rows * keys for rows, keys in self.lengths]

    def matrices(self, flat):
        """[heads, rows, keys] of each sequence out of one element for each pair, in the order of dropout bits and of bias."""
        parts = flat.flatten()[:sum(self.pairs())].split(self.pairs())
        return [part.view(self.heads, *lengths) for part, lengths in zip(parts, self.lengths)]

    def pack(self, sequences):
        return pack(sequences, self.layout)


def call(version, operands, head_num, layout, *, pre=2**31 - 1, next=2**31 - 1, **options):
    """npu_fusion_attention of a version, whose spelling differs: query, key, value in front, everything else by name."""
    operands = dict(operands)
    positional = [operands.pop(name) for name in ("query", "key", "value")]
    if version == 3:
        for name in ("actual_seq_qlen", "actual_seq_kvlen"):
            if name in options:
                options[name] = torch.tensor(options[name])
    ending = "tokens" if version == 2 else "tockens"
    function = getattr(torch_npu, f"npu_fusion_attention{['', '_v2', '_v3'][version - 1]}")
    return function(*positional, head_num, layout, **operands, **{f"pre_{ending}": pre, f"next_{ending}": next}, **options)


def statistic_sequences(statistic, problem, token_order=False):
    """[heads, rows] of each sequence. Packed calls store one block [heads, rows, 8] a sequence, or really [T, heads, 8]."""
    assert statistic.dtype == torch.float32 and statistic.shape[-1] == 8
    statistic = statistic.cpu()
    assert torch.equal(statistic, statistic[..., :1].expand_as(statistic)), "the eight copies differ"
    statistic = statistic[..., 0]
    if problem.layout != "TND":
        return list(statistic)
    rows = [rows for rows, _ in problem.lengths]
    if token_order:
        return [part.t() for part in statistic.split(rows)]
    blocks = statistic.flatten().split([problem.heads * each for each in rows])
    return [block.view(problem.heads, -1) for block in blocks]


def reference(problem, hidden=None, bias=None, pse=None, pse_type=1, keep=None, sink=None):
    """The definition of each sequence, and the double leaves that gradients are taken of."""
    leaves = {name: [each.double().requires_grad_() for each in sequences]
              for name, sequences in problem.sequences.items()}
    for name, tensor in (("pse", pse), ("sink", sink)):
        if tensor is not None:
            leaves[name] = [tensor.detach().double().requires_grad_()]
    biases = None if pse is None else bias(leaves["pse"][0])
    parts = []
    for b in range(len(problem.lengths)):
        parts.append(Attention(
            scale=problem.scale, bias_is_scaled=pse_type == 1, sink=leaves["sink"][0] if sink is not None else None,
            **{name: leaves[name][b] for name in problem.sequences},
            **{name: each[b] for name, each in (("hidden", hidden), ("bias", biases), ("keep", keep)) if each is not None}))
    return parts, leaves, biases


def check_results(problem, results, parts, token_order=False, steps=1):
    """Output and statistics of a call, or of as many calls one after the other as there are steps."""
    dtype = problem.dtype
    out, maximum, total, reserved = results[:4]
    assert out.device.type == "npu" and out.dtype == dtype and reserved.shape == (0,)
    assert_within("output", out, problem.pack([part.out for part in parts]),
                  problem.pack([steps * part.out_bound(dtype) for part in parts]))
    for b, (part, largest, sums) in enumerate(zip(parts, statistic_sequences(maximum, problem, token_order),
                                                  statistic_sequences(total, problem, token_order))):
        assert_within(f"softmax_max of sequence {b}", largest, part.maximum, part.maximum_bound())
        assert_within(f"softmax_sum of sequence {b}", sums, part.total, steps * part.total_bound(dtype))


def bias_gradient(problem, pse_type, gradient, leaf, biases, bounds):
    if pse_type in (2, 3) or leaf[0].shape[-2:-1] == (1024,):  # slopes and compressed forms have none: documented
        return torch.zeros_like(gradient), torch.zeros_like(gradient)
    scale = abs(problem.scale) if pse_type == 1 else 1
    # Each element of the bias collects the errors of the scores that it is in.
    bound, = torch.autograd.grad(biases, leaf, [scale * each["scores"] for each in bounds], retain_graph=True)
    return gradient, bound


def expected_gradients(problem, parts, leaves, biases, dy, pse_type=1):
    """name: the gradient as the operator returns it, and its bound."""
    flat = [leaf for each in leaves.values() for leaf in each]
    gradients = iter(torch.autograd.grad([part.out for part in parts], flat, [each.double() for each in dy],
                                         retain_graph=True))
    bounds = [part.gradient_bounds(each, problem.dtype) for part, each in zip(parts, dy)]
    result = {}
    for name, each in leaves.items():
        gradient = [next(gradients) for _ in each]
        if name == "pse":
            result[name] = bias_gradient(problem, pse_type, gradient[0], each, biases, bounds)
        elif name == "sink":
            result[name] = gradient[0], sum(b["sink"] for b in bounds)
        else:
            result[name] = problem.pack(gradient), problem.pack([b[name] for b in bounds])
    return result


def check_gradients(actual, expected, dtypes):
    for name, gradient in actual.items():
        wanted, bound = expected[name]
        assert gradient.dtype == dtypes[name]
        assert_within(f"gradient of {name}", gradient, wanted, rounded(bound, wanted, dtypes[name]))


def check(problem, version=1, *, hidden=None, bias=None, keep=None, token_order=False, change=lambda name, tensor: tensor,
          **options):
    """Calls the operator forward and, through autograd, backward, and compares everything. Returns the results.

    hidden       what each row does not see, a sequence an entry
    bias         the bias of each sequence, of the double tensor `pse`
    change       makes an operand on the device another tensor of the same numbers
    options      of the operator; tensors on the CPU
    """
    modifiers = {name: options[name] for name in ("pse", "sink", "pse_type") if name in options}
    parts, leaves, biases = reference(problem, hidden, bias, keep=keep, **modifiers)
    if problem.layout == "TND":
        options = problem.ends() | options
    operands = {name: problem.pack(each) for name, each in problem.sequences.items()}
    operands |= {name: options.pop(name) for name in ("pse", "sink") if name in options}
    inputs = {name: tensor.npu().requires_grad_() for name, tensor in operands.items()}
    options = {name: option.npu() if isinstance(option, torch.Tensor) else option for name, option in options.items()}
    results = call(version, {name: change(name, tensor) for name, tensor in inputs.items()}, problem.heads, problem.layout,
                   scale=problem.scale, **options)
    check_results(problem, results, parts, token_order)

    dy = change("dy", problem.pack(problem.dy).npu())
    gradients = torch.autograd.grad(results[0], list(inputs.values()), dy)
    expected = expected_gradients(problem, parts, leaves, biases, problem.dy, options.get("pse_type", 1))
    check_gradients(dict(zip(inputs, gradients)), expected,
                    {name: tensor.dtype for name, tensor in inputs.items()})
    return results
