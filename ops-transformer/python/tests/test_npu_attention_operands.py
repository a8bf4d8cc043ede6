"""How operands may lie in memory, and which operators the wheel calls with what: strides, offsets, formats."""
import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from attention_reference import hidden_pairs
from npu_attention import COMPRESSED, DTYPES, LAYOUTS, Problem, call, check

DENSE = [(37, 53)] * 2
PACKED = [(5, 9), (33, 70), (1, 4)]
NAN = float("nan")

# The same numbers in another place: differentiable, and nothing but NaN around them.
PLACES = {
    "gaps between rows": lambda x: F.pad(x, (8, 3), value=NAN)[..., 8:-3],
    "a part of a longer tensor": lambda x: F.pad(x, (0, 0) * (x.dim() - 1) + (2, 1), value=NAN)[2:-1],
    "another order of axes": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "features last but one": lambda x: x.mT.contiguous().mT,
    "gaps between features": lambda x: torch.stack([x, torch.full_like(x, NAN)], -1)[..., 0],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_views(layout, place):
    problem = Problem(layout, torch.float16, PACKED if layout == "TND" else DENSE)
    moved = []

    def change(name, tensor):
        view = PLACES[place](tensor)
        moved.append(not view.is_contiguous() or view.storage_offset() > 0)
        return view

    check(problem, change=change)
    assert all(moved) and len(moved) == 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_of_a_sum(layout, dtype):
    """out.sum().backward() hands over one number with strides of 0."""
    problem = Problem(layout, dtype, PACKED if layout == "TND" else DENSE)
    problem.dy = [torch.ones_like(each) for each in problem.dy]

    def change(name, tensor):
        return torch.ones((), dtype=dtype).npu().expand(tensor.shape) if name == "dy" else tensor

    check(problem, change=change)


def test_keys_that_all_batches_and_heads_share():
    """Expanded keys and values have strides of 0."""
    query, key, value = (torch.randn(shape, generator=torch.Generator().manual_seed(3))
                         for shape in ((2, 4, 37, 64), (1, 1, 53, 64), (1, 1, 53, 64)))
    key, value = (tensor.npu().expand(2, 4, -1, -1) for tensor in (key, value))
    shared, copied = ({"query": query.npu(), "key": change(key), "value": change(value)}
                      for change in (lambda x: x, lambda x: x.contiguous()))
    assert torch.equal(*(call(1, operands, 4, "BNSD")[0].cpu() for operands in (shared, copied)))


MASKS = {
    "transposed": lambda mask: mask.mT.contiguous().mT,
    "expanded over the batch": lambda mask: mask[:1].expand(mask.shape),
    "every second column of a wider one": lambda mask: mask.repeat_interleave(2, -1)[..., ::2],
    "behind others": lambda mask: torch.cat([1 - mask.byte(), mask])[mask.shape[0]:].to(mask.dtype),
}


@pytest.mark.parametrize("view", MASKS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
def test_views_of_masks(view, dtype):
    problem = Problem(lengths=DENSE)
    matrix = torch.rand(*DENSE[0], generator=problem.generator) < 0.3
    mask = MASKS[view](matrix.expand(2, 1, -1, -1).to(dtype).npu())
    check(problem, sparse_mode=1, atten_mask=mask, hidden=[matrix] * 2)


def test_views_of_a_bias():
    problem = Problem(lengths=[(41, 41)] * 2)
    pse = problem.random(2, 4, 41, 41)

    def change(name, tensor):
        return tensor.mT.contiguous().mT if name == "pse" else tensor

    check(problem, pse=pse, bias=list, change=change, sparse_mode=3, atten_mask=COMPRESSED,
          hidden=[hidden_pairs(3, 41, 41)] * 2)


# ---- what the wheel calls ----

CALLS = """
    import os, torch, torch_npu
    q, k, v = (torch.randn(2, 2, 8, 16).npu().requires_grad_() for _ in range(3))
    h = [x.detach().flatten(1, 2).requires_grad_() for x in (q, k, v)]      # 3-D: [2, 16, 16]
    n = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)]
    t = [x.detach().view(16, 2, 16).requires_grad_() for x in (q, k, v)]
    b = [x.detach().bfloat16().requires_grad_() for x in t]
    r = [torch.randn(16, 2, 8).bfloat16().npu() for _ in range(2)]
    mask, sink = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu(), torch.zeros(2).npu()
    ends = dict(actual_seq_qlen=[5, 16], actual_seq_kvlen=[5, 16])
    lists = {name: torch.tensor(end) for name, end in ends.items()}
    v1, v2, v3 = torch_npu.npu_fusion_attention, torch_npu.npu_fusion_attention_v2, torch_npu.npu_fusion_attention_v3

    def call(name, function, *arguments, **options):
        os.write(2, f"== {name}\\n".encode())
        result = function(*arguments, **options)
        result = result[0] if isinstance(result, tuple) else result
        if result.requires_grad:
            os.write(2, b"== backward\\n")
            result.sum().backward()
        return result
"""
SCORE = "FlashAttentionScore"
VARLEN, UNPADDING = "FlashAttentionVarLenScore", "FlashAttentionUnpaddingScoreGrad"
# Call, what it asks for, and what its gradient asks for.
TABLE = {
    'v1, q, k, v, 2, "BNSD"': ([SCORE], [SCORE + "Grad"]),
    'v1, *n, 2, "BSND"': ([SCORE], [SCORE + "Grad"]),
    'v1, *h, 2, "BSH"': ([SCORE], [SCORE + "Grad"]),
    'v1, *h, 2, "SBH"': ([SCORE], [SCORE + "Grad"]),
    'v1, q, k, v, 2, "BNSD", sink=sink': ([SCORE + "V3"], [SCORE + "GradV3"]),
    'v1, *t, 2, "TND", **ends': ([VARLEN], [UNPADDING]),
    'v1, *t, 2, "TND", softmax_layout="TND", **ends': ([VARLEN + "V4"], [UNPADDING + "V4"]),
    'v1, *t, 2, "TND", sink=sink, **ends': ([VARLEN + "V5"], [UNPADDING + "V5"]),
    'v1, q, k, v, 2, "BNSD", keep_prob=0.9': (["DropoutGenMaskV2", SCORE], ["DropoutGenMaskV2", SCORE + "Grad"]),
    'v2, q, k, v, 2, "BNSD"': ([SCORE + "V2"], [SCORE + "GradV2"]),
    'v2, *t, 2, "TND", **ends': ([VARLEN + "V2"], [UNPADDING + "V2"]),
    'v2, *b, 2, "TND", query_rope=r[0], key_rope=r[1], atten_mask=mask, sparse_mode=3, **ends':
        ([VARLEN + "V3"], [UNPADDING + "V3"]),
    'v2, q, k, v, 2, "BNSD", sink=sink': ([SCORE + "V3"], [SCORE + "GradV3"]),
    'v2, *t, 2, "TND", sink=sink, **ends': ([VARLEN + "V5"], [UNPADDING + "V5"]),
    'v3, q, k, v, 2, "BNSD"': ([SCORE], [SCORE + "Grad"]),
    'v3, *t, 2, "TND", **lists': ([VARLEN], [UNPADDING]),
    'v3, q, k, v, 2, "BNSD", keep_prob=0.9': (["DropoutGenMaskV2", SCORE], ["DropoutGenMaskV2", SCORE + "Grad"]),
    "torch_npu._npu_dropout_gen_mask, q, [64], 0.5, 1, 2": (["DropoutGenMaskV2"], []),
    'torch_npu.npu_dropout_gen_mask, [64], 0.5, dtype=torch.float32, device="npu"': (["DropoutGenMask"], []),
    "torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=True": ([SCORE], [SCORE + "Grad"]),
    "torch_npu.npu_ring_attention_update, *[x.detach() for x in (h[0], *s, h[1], *s)]": (["RingAttentionUpdateV2"], []),
}
STATISTICS = "    s = [torch.ones(16, 2, 2, 8).npu() for _ in range(2)]\n"


@pytest.fixture(scope="module")
def log():
    """The debug log of all calls of the table: the lines of each call, and of its gradient."""
    program = textwrap.dedent(CALLS + STATISTICS) + "".join(f"call({row!r}, {row})\n" for row in TABLE)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "ASCEND_CPU_LOG": "debug"})
    if process.returncode != 0:
        pytest.fail(process.stderr[-1500:], pytrace=False)
    sections = re.split(r"^== (.*)\n", process.stderr, flags=re.MULTILINE)[1:]
    calls, row = {}, None
    for title, lines in zip(sections[::2], sections[1::2]):
        if title != "backward":
            row = title
        calls[row, title == "backward"] = lines
    return calls


def operators(lines):
    return re.findall(r"aclnn(\w+?)GetWorkspaceSize\(", lines)


@pytest.mark.parametrize("row", TABLE)
def test_operators_that_the_wheel_calls(log, row):
    forward, backward = TABLE[row]
    assert operators(log[row, False]) == forward
    assert operators(log.get((row, True), "")) == backward


def test_formats_follow_the_number_of_dimensions(log):
    """3: NCL, 4: NCHW, others: ND. They mean nothing, and all of them are taken."""
    seen = set()
    for lines in log.values():
        seen |= {(int(rank), name) for rank, name in re.findall(r"viewDimsNum=(\d+),.*? format=(\w+)", lines)}
    assert seen == {(1, "ND"), (2, "ND"), (3, "NCL"), (4, "NCHW")}


def test_what_is_passed(log):
    """The expanded gradient with its strides of 0, the causal call of scaled_dot_product_attention."""
    backward = log['v1, *t, 2, "TND", **ends', True]
    assert re.search(r"dy=FLOAT\[16, 2, 16\], strides=\[0, 0, 0\]", backward)
    causal = log["torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=True", False]
    assert "sparseMode=2" in causal and "nextTokens=0" in causal and "attenMaskOptional=BOOL[2048, 2048]" in causal
    assert 'inputLayout="BNSD"' in causal
