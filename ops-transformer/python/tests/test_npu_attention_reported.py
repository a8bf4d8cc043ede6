"""Situations that users of attention libraries reported, those of PyTorch: ../../tests/reported/README.md lists all."""
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_npu
from attention_reference import Attention, assert_within, hidden_pairs
from npu_attention import COMPRESSED, Problem, call, check
from sdpa_check import numbers

KEEP = 0.52


# ---- calls of the operator as torch-npu offers it; `test_reported_torch.py` has PyTorch's own function ----


def test_asc_09_masks_of_numbers_are_refused():
    query, key, value = (numbers(1, 4, rows, 32, dtype=torch.bfloat16).npu() for rows in (8, 4, 4))
    mask = torch.tensor([0.0, 0.0, -10000.0, -10000.0]).expand(1, 1, 8, 4).bfloat16()
    with pytest.raises(RuntimeError, match="attenMaskOptional dtype BFLOAT16.*realShiftOptional"):
        torch_npu.npu_fusion_attention(query, key, value, 4, "BNSD", atten_mask=mask.npu())


def test_asc_11_a_true_element_hides():
    query, key, value = (numbers(1, 8, 128, 64, seed=seed) for seed in (1, 2, 3))
    hidden = hidden_pairs(2, 128, 128) | (torch.arange(128) >= 100)
    out = torch_npu.npu_fusion_attention(query.npu(), key.npu(), value.npu(), 8, "BNSD", scale=0.125, sparse_mode=1,
                                         atten_mask=hidden.npu())[0].cpu()
    part = Attention(*(tensor[0].double() for tensor in (query, key, value)), 0.125, hidden=hidden)
    assert_within("output", out[0], part.out, part.out_bound(torch.float32))


def test_pt_29_values_narrower_than_keys():
    inputs = [numbers(1, 2, 4, dim, seed=dim).npu().requires_grad_() for dim in (16, 16, 8)]

    def attention(query, key, value):
        return torch_npu.npu_fusion_attention(query, key, value, 2, "BNSD", scale=0.25)[0]

    plain = attention(*inputs)
    expected = torch.autograd.grad(plain, inputs, torch.ones_like(plain))
    compiled = torch.compile(attention, backend="aot_eager")(*inputs)
    assert torch.equal(compiled, plain)
    for gradient, other, operand in zip(torch.autograd.grad(compiled, inputs, torch.ones_like(plain)), expected, inputs):
        assert gradient.shape == operand.shape and torch.equal(gradient, other)
    with pytest.raises(RuntimeError, match="161002"):
        attention(inputs[0][..., :8], inputs[1][..., :8], inputs[0])


# ---- compiled code, autograd ----


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_pt_25_compiled_code_has_gradients(backend):
    problem = Problem("BNSD", lengths=[(20, 20)])
    inputs = [problem.pack(each).npu().requires_grad_() for each in problem.sequences.values()]
    mask = COMPRESSED.npu()

    def step(query, key, value):
        out = torch_npu.npu_fusion_attention(query * 2, key, value, 4, "BNSD", scale=0.1, sparse_mode=3, atten_mask=mask)[0]
        return (out * out).sum()

    expected = torch.autograd.grad(step(*inputs), inputs)
    for one, other in zip(torch.autograd.grad(torch.compile(step, backend=backend)(*inputs), inputs), expected):
        assert torch.equal(one, other)


def test_asc_33_no_operator_forgets_its_gradient():
    """The wheel's ring update has no derivative; asking for one is an error."""
    query, key, value = (numbers(1, 2, 9, 16, seed=seed).npu().requires_grad_() for seed in (1, 2, 3))
    for version in (1, 2, 3):
        results = call(version, {"query": query, "key": key, "value": value}, 2, "BNSD")
        assert results[0].requires_grad
    out, largest, total = (tensor.detach().requires_grad_() for tensor in
                           call(1, {"query": query, "key": key, "value": value}, 2, "BNSD")[:3])
    merged = torch_npu.npu_ring_attention_update(*[out[0].transpose(0, 1).flatten(1)[:, None], largest, total] * 2)
    assert merged[0].requires_grad
    with pytest.raises(RuntimeError, match="derivative for npu::npu_ring_attention_update is not implemented"):
        merged[0].sum().backward()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_grad_09_every_optional_argument_with_gradients(version):
    problem = Problem(lengths=[(20, 20)] * 2)
    options = {"sparse_mode": 6, "prefix": [3, 7], "sink": torch.zeros(4), "pse": problem.random(2, 4, 20, 20)}
    mask = torch.cat([COMPRESSED, torch.arange(2048).ge(1024).expand(1024, 2048)])
    hidden = [hidden_pairs(6, 20, 20, prefix=prefix) for prefix in (3, 7)]
    check(problem, version)
    check(problem, version, hidden=hidden, bias=list, atten_mask=mask, **options)


def test_pt_42_second_derivatives_are_refused():
    """The wheel's gradient operator has none. What matters: no number comes out."""
    query, key, value = (numbers(1, 1, 6, 4, seed=seed).npu().requires_grad_() for seed in (1, 2, 3))
    out = torch_npu.npu_fusion_attention(query, key, value, 1, "BNSD")[0]
    first, = torch.autograd.grad(out.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.sum(), query)


def test_pt_35_operations_are_counted():
    """By the formulas that the wheel has for its own counter: 2 B N Sq Skv (D + Dv)."""
    from torch_npu.profiler._flops_formulas import npu_fusion_attention_flops

    query, key = torch.empty(2, 4, 9, 16), torch.empty(2, 4, 11, 16)
    assert npu_fusion_attention_flops(query, key, key, 4, "BNSD") == 2 * 2 * 4 * 9 * 11 * 32


# ---- dropout and threads ----


def test_fa_24_seed_and_offset_are_those_that_were_used():
    """Many threads share the generator: what each gets back stands for the mask that its results have."""
    problem = Problem("BNSD", torch.float16, [(64, 64)] * 2, heads=4, key_heads=4, dim=32)
    inputs = [problem.pack(each).npu() for each in problem.sequences.values()]
    dy = problem.pack(problem.dy).npu()
    torch.npu.manual_seed(1234)

    def run(_):
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        results = torch_npu.npu_fusion_attention(*leaves, 4, "BNSD", scale=problem.scale, keep_prob=KEEP)
        gradients = torch.autograd.grad(results[0], leaves, dy)
        seed, offset, count = results[4:]
        again = torch_npu.npu_fusion_attention_grad(
            *inputs, dy, 4, "BNSD", softmax_max=results[1].detach(), softmax_sum=results[2].detach(),
            attention_in=results[0].detach(), scale_value=problem.scale, keep_prob=KEEP, seed=seed, offset=offset, numels=count)
        assert all(torch.equal(*pair) for pair in zip(gradients, again))
        return results[0].detach().cpu(), seed, offset, count

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(40)))
    assert sorted(offset for _, _, offset, _ in results) == list(range(0, 40 * 12, 12))
    assert {(seed, count) for _, seed, _, count in results} == {(1234, sum(problem.pairs()))}
    for out, seed, offset, _ in results:
        torch.npu.set_rng_state(torch.tensor([seed, offset]).view(torch.uint8))
        alone = torch_npu.npu_fusion_attention(*inputs, 4, "BNSD", scale=problem.scale, keep_prob=KEEP)[0]
        assert torch.equal(alone.cpu(), out)


# ---- the judge ----


@pytest.mark.parametrize("actual, expected", [(torch.nan, 1.0), (1.0, torch.nan), (torch.nan, torch.nan), (torch.inf, 1.0),
                                              (1.0, torch.inf), (torch.inf, torch.inf), (1.0 + 2e-6, 1.0)])
def test_pt_39_the_judge_takes_no_wrong_number(actual, expected):
    with pytest.raises(AssertionError, match="1 of 3 elements are wrong, first \\[1\\]"):
        assert_within("it", torch.tensor([0.0, actual, 0.0]).double(), torch.tensor([0.0, expected, 0.0]).double(), 1e-6)
