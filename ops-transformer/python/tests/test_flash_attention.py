"""flash_attention and flash_attention_varlen against the definition in double precision, with gradients."""
import pytest
import torch
from attention_reference import LARGEST
from flash_problem import DEVICES, DTYPES, Problem, check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops_transformer import flash_attention, flash_attention_varlen

LAYOUTS = ["BNSD", "BSND", "TND"]
MORE_KEYS, MORE_ROWS, SQUARE = (37, 53), (53, 37), (129, 129)
everywhere = pytest.mark.parametrize("device", DEVICES)


@everywhere
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_types(layout, dtype, device):
    check(Problem(dtype, [MORE_KEYS] * 2, value_dim=40), device, layout)
    check(Problem(dtype, [SQUARE] * 2, heads=6, key_heads=1, causal=True), device, layout)


WINDOWS = [{"causal": True}, {"window": (20, 0)}, {"window": (0, 0)}, {"window": (9, 4)}, {"window": (None, 3)}, {"window": (5, None)},
           {"window": (None, None)}, {"window": (10, None), "causal": True}, {"window": (200, 300)}, {"window": (2**40, 2)}]


@everywhere
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_windows(options, device):
    for lengths in (MORE_KEYS, MORE_ROWS, SQUARE):
        check(Problem(lengths=[lengths] * 2, **options), device)


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_windows_of_packed_sequences(options):
    check(Problem(lengths=[(5, 5), (1, 300), (130, 140), (0, 7), (64, 64)], **options), layout="TND")


def test_packed_sequences_of_any_length():
    check(Problem(lengths=[(0, 0), (3, 0), (0, 5), (70, 2), (1, 1), (513, 600)]), layout="TND")


MASK_SHAPES = [(37, 53), (1, 53), (4, 37, 53), (4, 1, 1), (2, 1, 37, 53), (2, 1, 1, 53), (1, 4, 37, 53), (2, 4, 37, 53), (53,)]


@everywhere
@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_masks_broadcast(shape, device):
    problem = Problem(torch.float16, [MORE_KEYS] * 2)
    mask = torch.rand(shape, generator=problem.generator) > 0.3
    out = check(problem, device, mask=mask)
    if shape[-2:] == (37, 53) and len(shape) == 2:
        assert torch.equal(out, problem.call(problem.operands(device, "BNSD")[0], "BNSD", atten_mask=~mask.to(device)))


@pytest.mark.parametrize("options", [{"causal": True}, {"window": (9, 4)}, {"window": (3, None)}], ids=str)
@pytest.mark.parametrize("lengths", [MORE_KEYS, MORE_ROWS, SQUARE], ids=str)
def test_mask_and_pattern_together_show_what_both_allow(lengths, options):
    problem = Problem(lengths=[lengths] * 2, **options)
    check(problem, mask=torch.rand(2, 1, *lengths, generator=problem.generator) > 0.3)


@everywhere
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(37, 53), (4, 37, 53), (2, 1, 37, 53), (1, 4, 37, 53), (2, 4, 37, 53), (2, 4, 1, 53), (4, 1, 53)], ids=str)
def test_bias_broadcasts_and_has_a_gradient(shape, dtype, device):
    problem = Problem(dtype, [MORE_KEYS] * 2, causal=True)
    check(problem, device, bias=problem.random(*shape))


@everywhere
def test_sink(device):
    problem = Problem(torch.bfloat16, [MORE_ROWS] * 2, window=(7, 0))
    check(problem, device, sink=problem.random(4, dtype=torch.float32))
    for layout in ("BSND", "TND"):
        problem = Problem(torch.float32, [MORE_KEYS] * 2, causal=True)
        check(problem, device, layout, sink=problem.random(4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_alibi(layout):
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    check(Problem(lengths=[(70, 70), (70, 70)], causal=True, alibi_slopes=slopes), layout=layout)
    check(Problem(lengths=[(70, 70), (70, 70)], alibi_slopes=torch.stack([slopes, 2 * slopes])), layout=layout)


def test_the_scale_can_be_any_number():
    for scale in (0.0, -0.3, 2, 1e-3):
        check(Problem(scale=scale))


@everywhere
def test_rows_without_keys_are_zero(device):
    q = torch.randn(1, 2, 6, 8, device=device)
    k = v = torch.randn(1, 2, 4, 8, device=device)
    out, maximum, total = flash_attention(q, k, v, causal=True, return_softmax_stats=True)
    assert not out[:, :, :2].any() and out[:, :, 2:].any()
    assert (maximum[:, :, :2] == -LARGEST).all() and (total[:, :, :2] == LARGEST).all()
    empty = torch.randn(1, 2, 0, 8, device=device)
    for tensors in ((q, empty, empty), (empty, k, v), (q[:0], k[:0], v[:0])):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        out = flash_attention(*leaves)
        assert out.shape == tensors[0].shape and not out.any()
        out.sum().backward()
        assert all(leaf.grad.shape == leaf.shape and not leaf.grad.any() for leaf in leaves)


def test_no_sequences_and_slack_tokens():
    q = torch.randn(5, 2, 8, requires_grad=True)
    for totals in ([0], [0, 0, 0]):
        out = flash_attention_varlen(q, q, q, totals, totals)
        assert out.shape == q.shape and not out.any()
    out = flash_attention_varlen(q, q, q, [0, 3], [0, 3])
    assert out[:3].any() and not out[3:].any()
    out.sum().backward()
    assert q.grad[:3].any() and not q.grad[3:].any()
    totals, slopes = [0, 2, 3], torch.tensor([[0.5, 0.25], [1.0, 2.0]])
    alone = flash_attention_varlen(q[:3], q[:3], q[:3], totals, totals, causal=True, alibi_slopes=slopes)
    assert torch.equal(flash_attention_varlen(q, q, q, totals, totals, causal=True, alibi_slopes=slopes)[:3], alone)
    alone = flash_attention_varlen(q[:3], q[:3], q[:3], totals, totals, sparse_mode=6, prefix=[1, 1])
    assert torch.equal(flash_attention_varlen(q, q, q, totals, totals, sparse_mode=6, prefix=[1, 1])[:3], alone)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, list], ids=str)
@everywhere
def test_running_totals_may_be_lists_or_tensors_anywhere(dtype, device):
    q = torch.randn(9, 2, 8, device=device)
    totals = [0, 4, 9]
    expected = flash_attention_varlen(q, q, q, totals, totals)
    given = totals if dtype is list else torch.tensor(totals, dtype=dtype, device=device)
    assert torch.equal(flash_attention_varlen(q, q, q, given, given), expected)
    for begin, end in ((0, 4), (4, 9)):
        one = q[begin:end].transpose(0, 1)[None]
        assert torch.equal(flash_attention(one, one, one)[0].transpose(0, 1), expected[begin:end])


def test_strides_do_not_count():
    base = torch.randn(2, 70, 3, 4, 64)
    q, k, v = base.permute(2, 0, 3, 1, 4)  # one tensor that holds all three, as projections give it
    expected = flash_attention(q.contiguous(), k.contiguous(), v.contiguous(), causal=True)
    assert torch.equal(flash_attention(q, k, v, causal=True), expected)
    wide = torch.randn(2, 4, 70, 128)[..., ::2]
    assert torch.equal(flash_attention(wide, k, v), flash_attention(wide.contiguous(), k, v))
    same_keys = k[:, :, :1].expand(-1, -1, 70, -1)
    torch.testing.assert_close(flash_attention(q, same_keys, v), v.mean(2, keepdim=True).expand_as(v), atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dropout_follows_the_seed(layout):
    problem = Problem(lengths=[(64, 200)] * 2)
    operands, dy = problem.operands("cpu", layout)

    def run(seed):
        torch.manual_seed(seed)
        out = problem.call(operands, layout, dropout_p=0.25)
        return out, torch.autograd.grad(out, list(operands.values()), dy)

    (one, grads), (two, same), (other, _) = run(1), run(1), run(2)
    assert torch.equal(one, two) and all(map(torch.equal, grads, same)) and not torch.equal(one, other)
    with torch.no_grad():
        ones = [operands["q"], operands["k"], torch.ones_like(operands["v"])]
        kept = problem.call(dict(zip("qkv", ones)), layout, dropout_p=0.25)
    assert abs(kept.mean() - 1) < 0.01  # dropped weights are made up for
    assert kept.std() > 0.01


def test_gradients_of_dropout_are_those_of_the_same_bits():
    """The output is linear in v, and the scores' gradient follows from finite differences with the same seed."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 8, 16, requires_grad=True) for _ in range(3))
    direction, dy = torch.randn_like(q), torch.randn(1, 1, 8, 16)

    def run(query):
        torch.manual_seed(5)
        return flash_attention(query, k, v, dropout_p=0.5)

    out = run(q)
    out.backward(dy)
    assert torch.allclose((out * dy).sum(), (v.grad * v).sum(), rtol=1e-4)
    step = 1e-2
    slope = ((run(q + step * direction) - run(q - step * direction)) * dy).sum() / (2 * step)
    assert torch.allclose(slope, (q.grad * direction).sum(), rtol=1e-2, atol=1e-2)


def test_ascend_words_say_the_same():
    problem = Problem(lengths=[(70, 90)] * 2)
    operands = problem.operands("cpu", "BNSD")[0]

    def run(**options):
        return problem.call(operands, "BNSD", **options)

    assert torch.equal(run(sparse_mode=3), run(causal=True))
    assert torch.equal(run(sparse_mode=4, pre_tokens=9, next_tokens=2), run(window=(9, 2)))
    top_left = torch.ones(70, 90, dtype=torch.bool).tril()
    torch.testing.assert_close(run(sparse_mode=2), run(mask=top_left))
    assert torch.equal(run(sparse_mode=1, atten_mask=~top_left), run(mask=top_left))
    prefix = torch.ones(70, 90, dtype=torch.bool).tril(20)
    prefix[:, :30] = True
    torch.testing.assert_close(run(sparse_mode=6, prefix=[30, 30]), run(mask=prefix))


# The same problems in each run. Nothing about time: other processes may be at work.
@settings(max_examples=60, deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_problems(data):
    draw = data.draw
    layout = draw(st.sampled_from(LAYOUTS))
    key_heads, group = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 5]))
    length = st.one_of(st.integers(0, 9), st.integers(60, 70), st.integers(120, 270))
    lengths = draw(st.lists(st.tuples(length, length), min_size=1, max_size=4))
    if layout != "TND":
        lengths = [lengths[0]] * len(lengths)
    options = draw(st.sampled_from([{}, {"causal": True}, {"window": (draw(st.integers(0, 80)), draw(st.integers(0, 80)))}]))
    if layout == "TND" and options:  # the operator wants a key for each query
        lengths = [(min(pair), max(pair)) for pair in lengths]
    dim = draw(st.integers(1, 130))
    problem = Problem(draw(st.sampled_from(DTYPES)), lengths, key_heads * group, key_heads, dim, draw(st.integers(1, dim)),
                      draw(st.integers(0, 2**32)), **options)
    sink = problem.random(key_heads * group, dtype=torch.float32) if draw(st.booleans()) else None
    mask = bias = None
    if layout != "TND" and draw(st.booleans()):
        mask = torch.rand(len(lengths), 1, *lengths[0], generator=problem.generator) > 0.2
    if layout != "TND" and draw(st.booleans()):
        bias = problem.random(1, key_heads * group, *lengths[0])
    check(problem, "cpu", layout, bias, sink, mask)
