"""Situations that users of attention libraries reported, those of PyTorch's function and of ours.

../../tests/reported/README.md lists all. PyTorch's function runs on cpu tensors inside replace_sdpa, where every call
has to be routed, and on npu tensors."""
import importlib.util
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from attention_reference import hidden_pairs
from sdpa_check import check_sdpa, numbers
from torch.utils.flop_counter import FlopCounterMode

from ops_transformer import flash_attention, flash_attention_varlen, replace_sdpa

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HAS_NPU = importlib.util.find_spec("torch_npu") is not None
DEVICES = ["cpu", pytest.param("npu", marks=pytest.mark.skipif(not HAS_NPU, reason="torch_npu is not installed"))]


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param != "cpu":
        yield request.param
        return
    with replace_sdpa() as sdpa:
        yield request.param
    assert sdpa.routed == sdpa.calls, sdpa.reasons


# ---- masks of PyTorch's function: true is attended to, numbers are added ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_asc_09_additive_masks_are_added(device, dtype):
    query, key, value = (numbers(1, 4, rows, 32, dtype=dtype, seed=rows) for rows in (8, 4, 4))
    mask = torch.tensor([0.0, 0.0, -10000.0, -10000.0]).expand(1, 1, 8, 4).to(dtype)
    check_sdpa(query, key, value, bias=mask.expand(1, 4, 8, 4), device=device, composed=device == "npu",
               attn_mask=mask.to(device))
    operands = [tensor.to(device) for tensor in (query, key, value)]
    for name in ("atten_mask", "mask"):
        with pytest.raises(TypeError, match=f"{name}.*{dtype}"):
            flash_attention(*operands, **{name: mask.to(device)})


def test_asc_11_masks_of_all_kinds_agree(device):
    query, key, value = (numbers(1, 8, 128, 64, seed=seed) for seed in (1, 2, 3))
    attended = ~hidden_pairs(2, 128, 128) & (torch.arange(128) < 100)
    everywhere = attended.expand(1, 8, 128, 128)
    additive = torch.zeros(128, 128).masked_fill(~attended, -torch.inf)
    boolean = check_sdpa(query, key, value, everywhere, device=device, attn_mask=attended.to(device))
    operands = [tensor.to(device) for tensor in (query, key, value)]
    others = [check_sdpa(query, key, value, everywhere, device=device, attn_mask=additive.to(device))]
    # Ours has a word for each: true is seen in `mask`, hidden in Ascend's `atten_mask`.
    for words in ({"mask": attended}, {"bias": additive}, {"atten_mask": ~attended}, {"atten_mask": (~attended).byte()}):
        words = {name: tensor.to(device) for name, tensor in words.items()}
        others.append(flash_attention(*operands, **words).cpu())
    for other in others:
        # Each is within 1e-5 of the definition: out_bound of scores that add up to less than 10 and values below 4.
        torch.testing.assert_close(boolean, other, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(2, 4, 8, 33), (2, 1, 8, 33), (1, 1, 8, 33), (8, 33), (2, 4, 1, 33), (2, 1, 1, 33), (1, 33),
                                   (2, 4, 8, 1), (8, 1), (1, 1), (1, 1, 1, 1)], ids=str)
def test_pt_08_every_shape_that_broadcasts(device, shape):
    query, key, value = numbers(2, 4, 8, 16), numbers(2, 4, 33, 16, seed=2), numbers(2, 4, 33, 16, seed=3)
    attended = torch.rand(shape, generator=torch.Generator().manual_seed(4)) < 0.6
    attended[..., 0] = True  # the npu device leaves open what a row without keys gives
    check_sdpa(query, key, value, attended.expand(2, 4, 8, 33), device=device, attn_mask=attended.to(device))
    bias = numbers(*shape)
    check_sdpa(query, key, value, bias=bias.expand(2, 4, 8, 33), device=device, attn_mask=bias.to(device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_causal_function_of_pytorch(device, dtype):
    query, key, value = (numbers(2, 4, 49, 64, dtype=dtype, seed=seed) for seed in (1, 2, 3))
    check_sdpa(query, key, value, (~hidden_pairs(2, 49, 49)).expand(2, 4, 49, 49), device=device, composed=device == "npu",
               is_causal=True)


# ---- which keys are seen, through our words ----

PADDING = torch.arange(9) < torch.tensor([9, 5])[:, None]  # [2, 9], two sequences of 9 and 5 keys
PAIRS = numbers(4, 8, 8) > 0
WHAT_IS_SEEN = {
    # id: (queries, keys, words, i and j to what is seen: position of the query among the keys, of the key)
    "CPU-01 own token": (1, 40, {"causal": True, "window": (7, None)}, lambda i, j: (j <= i) & (j > i - 8)),
    "CPU-04 first row at the last key": (1, 9, {"causal": True}, lambda i, j: j >= 0),
    "CPU-04 first row at the first key": (1, 9, {"sparse_mode": 2}, lambda i, j: j <= 0),
    "PT-11 more queries than keys": (5, 2, {"causal": True}, lambda i, j: j <= i),
    "PT-11 first row at the first key": (5, 2, {"sparse_mode": 2}, lambda i, j: j <= i + 3),
    "ASC-03 next 0": (4, 12, {"window": (7, 0)}, lambda i, j: (j <= i) & (j >= i - 7)),
    "ASC-03 next 1": (4, 12, {"window": (7, 1)}, lambda i, j: (j <= i + 1) & (j >= i - 7)),
    "CPU-13 both sides": (40, 40, {"window": (6, 6)}, lambda i, j: (i - j).abs() <= 6),
    "FA-07 bound behind the last key": (12, 5, {"window": (None, 9)}, lambda i, j: j <= i + 9),
    "FA-07 all": (12, 5, {"window": (None, 11)}, lambda i, j: j >= 0),
    "FA-09 window of 4 tokens": (16, 16, {"causal": True, "window": (3, 0)}, lambda i, j: (j <= i) & (j > i - 4)),
    "FA-09 window of 1 token": (16, 16, {"window": (0, 0)}, lambda i, j: j == i),
    "FA-11 left is 0": (10, 10, {"window": (0, 3)}, lambda i, j: (j >= i) & (j <= i + 3)),
    "FA-11 right is 0": (10, 10, {"window": (3, 0)}, lambda i, j: (j <= i) & (j >= i - 3)),
    "FA-11 left only": (10, 10, {"window": (0, None)}, lambda i, j: j >= i),
    "ASC-12 padding": (9, 9, {"mask": PADDING[:, None, None]}, lambda i, j: PADDING[:, None, None].expand(2, 4, 9, 9)),
    "CPU-05 padding and causal": (9, 9, {"mask": ~PADDING[:, None, None], "causal": True},
                                  lambda i, j: (~PADDING[:, None, None] & (j <= i)).expand(2, 4, 9, 9)),
    "CPU-03 three dimensions are heads": (8, 8, {"mask": PAIRS}, lambda i, j: PAIRS),
    "ASC-14 two dimensions are queries and keys": (8, 8, {"mask": PAIRS[0]}, lambda i, j: PAIRS[0]),
}


@pytest.mark.parametrize("name", WHAT_IS_SEEN)
def test_which_keys_are_seen(name):
    """All scores are 0 and values are rows of the identity: the output holds the weights, equal for what is seen."""
    queries, keys, words, seen = WHAT_IS_SEEN[name]
    weights = flash_attention(torch.zeros(2, 4, queries, keys), torch.zeros(2, 4, keys, keys),
                              torch.eye(keys).expand(2, 4, keys, keys), **words)
    expected = seen(torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)).expand(2, 4, queries, keys)
    assert torch.equal(weights > 0, expected)
    torch.testing.assert_close(weights.sum(-1), expected.any(-1).float(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("words, which", [
    pytest.param({"window": (-1, -1)}, "window", id="RING-08 two negative bounds"),
    pytest.param({"mask": torch.ones(2, 8).bool()}, "mask", id="ASC-14 two dimensions that do not fit"),
    pytest.param({"mask": torch.ones(3, 1, 1, 8).bool()}, "mask", id="ASC-12 another batch"),
    pytest.param({"softcap": 50.0}, "softcap", id="CPU-34 no soft-capping"),
])
def test_refused_words(words, which):
    operands = [torch.zeros(4, 4, 8, 16)] * 3
    with pytest.raises((TypeError, ValueError), match=which):
        flash_attention(*operands, **words)


@pytest.mark.parametrize("causal", [False, True])
def test_fa_14_varlen_14_sequences_are_separate(causal):
    """Each is what the dense function gives for it alone, with its diagonal at its own last key."""
    ends, key_ends = [0, 7, 7, 20], [0, 30, 33, 46]
    query, key, value = (numbers(rows, 4, 32, seed=seed).requires_grad_() for seed, rows in enumerate((22, 46, 46)))
    packed = flash_attention_varlen(query, key, value, ends, torch.tensor(key_ends), causal=causal)
    parts = [flash_attention(query[None, a:b], key[None, c:d], value[None, c:d], causal=causal, layout="BSND")[0]
             for a, b, c, d in zip(ends, ends[1:], key_ends, key_ends[1:]) if b > a]
    assert torch.equal(packed[:20], torch.cat(parts))
    assert not packed[20:].any(), "ASC-16: rows behind the last sequence"
    gradients = torch.autograd.grad(packed.square().sum(), [query, key])
    for one, other in zip(gradients, torch.autograd.grad(torch.cat(parts).square().sum(), [query, key])):
        assert torch.equal(one, other)


def test_asc_20_lists_of_different_lengths():
    query, key = torch.zeros(16, 4, 64), torch.zeros(90, 4, 64)
    with pytest.raises(ValueError, match="cu_seqlens_q has 16 sequences, cu_seqlens_k 9"):
        flash_attention_varlen(query, key, key, list(range(17)), list(range(0, 100, 10)))


# ---- strides and head dims ----


@pytest.mark.parametrize("strides", ["contiguous", "as the output", "expanded", "transposed"])
def test_pt_07_gradients_with_any_strides(device, strides):
    query, key, value = (numbers(2, 2, 49, 32, seed=seed).to(device).requires_grad_() for seed in (1, 2, 3))
    out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    dy = numbers(2, 2, 49, 32, seed=4).to(device)
    if strides == "as the output":
        dy = torch.empty_like(out).copy_(dy)
    elif strides == "expanded":
        dy = dy[:1, :1, :1, :1].expand(out.shape)
    elif strides == "transposed":
        dy = dy.transpose(1, 2).contiguous().transpose(1, 2)
    gradients = torch.autograd.grad(out, [query, key, value], dy, retain_graph=True)
    dy = dy.clone(memory_format=torch.contiguous_format)
    for one, other in zip(gradients, torch.autograd.grad(out, [query, key, value], dy)):
        assert torch.equal(one, other)


@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
def test_pt_07_meta_tensors_have_the_strides_of_real_ones(layout):
    operands = [numbers(2, 6, 6, 32).transpose(1, 2) for _ in range(3)]
    real = flash_attention(*operands, layout=layout, return_softmax_stats=True)
    meta = flash_attention(*(tensor.to("meta") for tensor in operands), layout=layout, return_softmax_stats=True)
    for one, other in zip(meta, real):
        assert one.shape == other.shape and one.dtype == other.dtype and one.stride() == other.stride()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_pt_29_pt_25_compiled_code_has_gradients(device, backend):
    """Values are narrower than keys."""
    inputs = [numbers(1, 2, 4, dim, seed=seed).to(device).requires_grad_() for seed, dim in enumerate((16, 16, 8))]

    def step(query, key, value):
        dense = flash_attention(query * 2, key, value, causal=True)
        rows = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
        packed = flash_attention_varlen(*rows, torch.tensor([0, 1, 4]), torch.tensor([0, 1, 4]), causal=True)
        return dense.square().sum() + packed.square().sum()

    expected = torch.autograd.grad(step(*inputs), inputs)
    torch._dynamo.reset()
    actual = torch.autograd.grad(torch.compile(step, backend=backend)(*inputs), inputs)
    for gradient, other, operand in zip(actual, expected, inputs):
        assert gradient.shape == operand.shape
        torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="8.*16|16.*8"):
        flash_attention(inputs[0][..., :8], inputs[1][..., :8], inputs[0])


# ---- autograd ----


def test_asc_33_no_operator_forgets_its_gradient():
    """Every operator of ours has a derivative, or refuses to have one."""
    query, key, value = (numbers(1, 2, 9, 16, seed=seed).requires_grad_() for seed in (1, 2, 3))
    assert flash_attention(query, key, value).requires_grad
    rows = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    assert flash_attention_varlen(*rows, [0, 9], [0, 9]).requires_grad
    out, *statistics = flash_attention(query, key, value, return_softmax_stats=True)
    assert out.requires_grad and not any(each.requires_grad for each in statistics)


@pytest.mark.parametrize("with_options", [False, True])
def test_grad_09_every_optional_argument_with_gradients(with_options):
    tensors = {name: numbers(2, 4, 20, 16, seed=seed).requires_grad_() for seed, name in enumerate("qkv")}
    options = {"causal": True, "window": (9, 0), "mask": numbers(2, 1, 1, 20) > -1, "scale": 0.3,
               "dropout_p": 0.25} if with_options else {}
    if with_options:
        tensors |= {"sink": torch.zeros(4).requires_grad_(), "bias": numbers(1, 4, 20, 20).requires_grad_()}
    out = flash_attention(**tensors, **options)
    for (name, tensor), gradient in zip(tensors.items(), torch.autograd.grad(out.square().sum(), list(tensors.values()))):
        assert gradient.shape == tensor.shape and gradient.isfinite().all() and gradient.any(), name


def test_pt_42_second_derivatives_are_refused():
    query, key, value = (numbers(1, 1, 6, 4, seed=seed).requires_grad_() for seed in (1, 2, 3))
    with replace_sdpa():
        out = F.scaled_dot_product_attention(query, key, value)
    first, = torch.autograd.grad(out.square().sum(), query, create_graph=True)
    with pytest.raises(NotImplementedError, match="attention has no second derivative"):
        torch.autograd.grad(first.sum(), query)


def test_pt_35_operations_are_counted():
    """As PyTorch counts them: 2 B N Sq Skv for each feature of each product, two products forward and five backward."""
    query, key, value = numbers(2, 4, 9, 16).requires_grad_(), numbers(2, 4, 11, 16), numbers(2, 4, 11, 8)
    with replace_sdpa(), FlopCounterMode(display=False) as forward:
        out = F.scaled_dot_product_attention(query, key, value)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    product = 2 * 2 * 4 * 9 * 11
    assert forward.get_total_flops() == product * (16 + 8)
    assert backward.get_total_flops() == product * (3 * 16 + 2 * 8)


# ---- arguments have an effect, dropout is one mask ----

EFFECTS = {
    "scale": (0.1, 0.2), "causal": (False, True), "window": ((3, 0), (4, 0)), "mask": (PAIRS, ~PAIRS),
    "bias": (numbers(8, 8), numbers(8, 8, seed=1)), "alibi_slopes": (torch.full((4,), 0.5), torch.full((4,), 0.25)),
    "dropout_p": (0.0, 0.5), "sink": (torch.zeros(4), torch.ones(4)), "atten_mask": (PAIRS[0], ~PAIRS[0]),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_soft_03_every_argument_has_an_effect(name):
    operands = [numbers(1, 4, 8, 16, seed=seed) for seed in (1, 2, 3)]
    one, other = (flash_attention(*operands, **{name: value}) for value in EFFECTS[name])
    assert not torch.equal(one, other)
    if name in ("scale", "causal", "window", "alibi_slopes", "dropout_p", "sink"):
        rows = [tensor[0].transpose(0, 1) for tensor in operands]
        one, other = (flash_attention_varlen(*rows, [0, 3, 8], [0, 3, 8], **{name: value}) for value in EFFECTS[name])
        assert not torch.equal(one, other)


def test_fa_22_fa_24_backward_drops_what_forward_dropped():
    """With one-hot values the output shows the mask, and so does the gradient of the values; in many threads at once."""
    zeros, eye = torch.zeros(1, 2, 64, 64), torch.eye(64).expand(1, 2, 64, 64)

    def run(_):
        value = eye.clone().requires_grad_()
        out = flash_attention(zeros, zeros, value, dropout_p=0.5)
        # dv = P^T dy: with dy the identity, dv is the transpose of the weights.
        gradient, = torch.autograd.grad(out, value, eye)
        assert torch.equal(gradient.transpose(2, 3) > 0, out > 0)
        return out.detach() > 0

    with ThreadPoolExecutor(8) as pool:
        masks = list(pool.map(run, range(32)))
    assert len({mask.numpy().tobytes() for mask in masks}) == 32, "two calls had the same random numbers"
    kept = torch.stack(masks).float().mean().item()
    assert abs(kept - 0.5) < 5 * 0.5 / (32 * 2 * 64 * 64) ** 0.5  # five standard deviations
