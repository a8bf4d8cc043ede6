"""torch_npu.swa_forward and torch_npu.swa_backward against the formulas in double precision and against npu_fusion_attention."""

import pytest
import torch
import torch_npu
from swa_case import DENSE, LAYOUTS, LENGTHS, Case, LongWindow, check, compressed_mask, lengths

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def causal(rows, keys):
    return torch.ones(rows, keys, dtype=torch.bool).triu(1)


# ---- both modes, all layouts ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_mask(layout, dtype):
    check(Case(layout, **lengths(layout), dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_window(layout, dtype):
    check(Case(layout, **lengths(layout), dtype=dtype, mode=4, pre=7, next=0, mask="compressed"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mode_0_with_an_explicit_mask(layout):
    sizes = lengths(layout)
    check(Case(layout, **sizes, mask=causal(max(sizes["q"]), max(sizes["kv"]))))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_value_of_a_smaller_head_dimension(layout):
    check(Case(layout, **lengths(layout), dim=24, value_dim=8, mode=4, pre=9, next=2, mask="compressed"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sink(layout, dtype):
    check(Case(layout, **lengths(layout), dtype=dtype, mode=4, pre=7, next=0, mask="compressed", sink=True))


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_bias(layout):
    check(Case(layout, **lengths(layout), mode=4, pre=7, next=0, mask="compressed", pse=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sink", [False, True])
def test_statistics_in_the_order_of_tokens(sink, dtype):
    check(Case("TND", **LENGTHS["TND"], dtype=dtype, softmax_layout="TND", sink=sink))


def test_layout_in_small_letters():
    case = Case("BSND", **DENSE)
    small = torch_npu.swa_forward(*case.inputs(), case.heads, "bsnd", scale=case.scale)
    assert torch.equal(small[0].cpu(), case.forward()[0].cpu())


def test_strided_inputs():
    case = Case("BNSD", **DENSE)
    turned = [tensor.transpose(1, 2).contiguous().npu().transpose(1, 2) for tensor in
              (case.pack(case.query), case.pack(case.key), case.pack(case.value))]
    assert not turned[0].is_contiguous()
    out = torch_npu.swa_forward(*turned, case.heads, "BNSD", scale=case.scale)[0]
    assert torch.equal(out.cpu(), case.forward()[0].cpu())


def test_expanded_gradient():
    """dy with strides 0, as `out.sum().backward()` makes it."""
    case = Case("BNSD", **DENSE)
    case.dy = [torch.ones_like(dy) for dy in case.dy]
    one = torch.ones(()).npu().expand(2, case.heads, 33, case.value_dim)
    results = case.forward()
    actual = torch_npu.swa_backward(*case.inputs(), one, case.heads, "BNSD", scale_value=case.scale, softmax_max=results[1],
                                    softmax_sum=results[2], attention_in=results[0])
    for mine, wanted in zip(actual[:3], case.backward(results)[:3]):
        assert torch.equal(mine.cpu(), wanted.cpu())


# ---- windows, with the ids of reported faults that they stand for ----


@pytest.mark.parametrize("window", [1, 2, 8, 16])
def test_window_of_w_keys_ends_with_the_token_itself(window):
    """FA-09: pre_tockens = W - 1, next_tockens = 0; counted by values that are 1 for one key each."""
    length = 16
    query = torch.zeros(1, 1, length, 16)
    key = torch.zeros(1, 1, length, 16)
    value = torch.eye(length).view(1, 1, length, length)
    out = torch_npu.swa_forward(query.npu(), key.npu(), value.npu(), 1, "BNSD", atten_mask=compressed_mask().npu(),
                                sparse_mode=4, pre_tockens=window - 1, next_tockens=0)[0].cpu()[0, 0]
    for row in range(length):
        assert (out[row] > 0).nonzero().flatten().tolist() == list(range(max(0, row - window + 1), row + 1))


WINDOWS = {
    "CPU-01 decoding": {"q": (1,), "kv": (40,), "pre": 7, "next": 0},
    "CPU-13 both sides": {"q": (200,), "kv": (200,), "pre": 64, "next": 64},
    "FA-11 zero is a bound": {"q": (10,), "kv": (10,), "pre": 0, "next": 0},
    "FA-11 zero before": {"q": (10,), "kv": (10,), "pre": 0, "next": 3},
    "FA-11 zero behind": {"q": (10,), "kv": (10,), "pre": 3, "next": 0},
    "FA-07 wider than the keys": {"q": (12,), "kv": (5,), "next": 7},
    "FA-07 no limit": {"q": (12,), "kv": (5,)},
    "PT-01 late rows": {"q": (640,), "kv": (640,), "pre": 9, "next": 0},
    "ASC-05 chunks of queries": {"layout": "TND", "q": (128, 32), "kv": (1152, 288), "pre": 255, "next": 0},
    "ASC-25 far behind": {"layout": "TND", "q": (16,), "kv": (20000,), "dim": 59, "value_dim": 59, "pre": 0, "next": 256},
    "SINK-06 window and sink": {"layout": "TND", "q": (128,), "kv": (128,), "heads": 8, "pre": 127, "next": 0, "sink": True},
    "rows without keys": {"q": (12,), "kv": (5,), "pre": 3, "next": 0},
}


@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS.keys())
def test_windows(case):
    check(Case(**case, mode=4, mask="compressed"))


# ---- packed batches of more than 16 Ki tokens ----


def packed(tokens, **options):
    """A sequence of 2048 tokens and many of 256, with a mask of [2048, 2048] that hides key 0 in mode 0. Mode 4 does not
    read it, so key 0 tells which mode was used."""
    sequences = [2048] + [256] * ((tokens - 2048) // 256) + [tokens % 256] * (tokens % 256 > 0)
    mask = torch.zeros(2048, 2048, dtype=torch.bool)
    mask[:, 0] = True
    return Case("TND", tuple(sequences), tuple(sequences), heads=1, kv_heads=1, dim=16, mask=mask, pre=100, next=0, **options)


def test_16384_tokens_keep_mode_0():
    check(packed(16384))


def test_more_than_16384_tokens_use_the_band():
    given_0, given_4 = packed(16385), packed(16385, mode=4)
    results = check(given_4)
    forced = given_0.forward()
    for one, wanted in zip(forced[:3], results[:3]):
        assert torch.equal(one.cpu(), wanted.cpu())
    for one, wanted in zip(given_0.backward(forced)[:3], given_4.backward(results)[:3]):
        assert torch.equal(one.cpu(), wanted.cpu())


@pytest.mark.parametrize("tokens", [16385, 20000])
def test_a_long_text_has_the_window_in_mode_0(tokens):
    case = LongWindow("TND", (tokens,), (tokens,), heads=2, kv_heads=1, mode=4, pre=99, next=0, mask="compressed")
    check(case, sparse_mode=0)


def test_a_text_of_16384_tokens_has_no_window_in_mode_0():
    """Mode 0 reads the mask of a pattern as one of all rows and keys, and it is too small for that."""
    case = LongWindow("TND", (16384,), (16384,), heads=1, kv_heads=1, mode=4, pre=99, next=0, mask="compressed")
    with pytest.raises(RuntimeError, match="attenMask"):
        case.forward(sparse_mode=0)
    check(case)


def test_more_than_16384_tokens_in_other_layouts_keep_the_mode():
    case = Case("BSND", (16385,), (64,), heads=1, kv_heads=1, mask=None)
    case.assert_close(case.forward()[0], case.expected()[0][0], 4, "attention")


def test_more_than_16384_tokens_without_a_mask_warn(capfd):
    """Once in a process, on standard error: operators that are called through torch.ops have no Python warnings."""
    tokens = 16385
    case = Case("TND", (tokens - 40, 40), (16, 40), heads=1, kv_heads=1)
    message = "T > 16384 forces sparse_mode 4, but atten_mask is None: no window is applied"
    results = case.forward()
    case.assert_close(results[0], case.expected()[0][0], 4, "attention")
    case.backward(results)
    assert capfd.readouterr().err.count(message) == 1


def test_more_than_16384_tokens_refuse_a_full_mask():
    case = Case("TND", (16385 - 40, 40), (16, 40), heads=1, kv_heads=1)
    full = torch.zeros(16345, 40, dtype=torch.bool).npu()
    expected = (r"T > 16384 forces sparse_mode 4, which needs atten_mask of shape \[2048, 2048\], but got \[16345, 40\]")
    with pytest.raises(RuntimeError, match=expected):
        case.forward(atten_mask=full)
    with pytest.raises(RuntimeError, match=expected):
        case.backward(case.forward(sparse_mode=4), atten_mask=full)


# ---- dropout, and equality with npu_fusion_attention ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keep_prob", [1.0, 0.8])
def test_equal_to_npu_fusion_attention(layout, keep_prob, dtype):
    """The same bits, seeds and numbers of mask bits, in forward and in the gradients of autograd."""
    case = Case(layout, **lengths(layout), dtype=dtype, mode=4, pre=7, next=0, mask="compressed")
    torch.npu.manual_seed(11)
    mine = [case.forward(keep_prob=keep_prob) for _ in range(2)]
    torch.npu.manual_seed(11)
    leaves = [tensor.requires_grad_() for tensor in case.inputs()]
    theirs = [torch_npu.npu_fusion_attention(*leaves, case.heads, layout, keep_prob=keep_prob, **case.options())
              for _ in range(2)]
    for one, other in zip(mine, theirs):
        for tensor, wanted in zip(one[:3], other[:3]):
            assert torch.equal(tensor.cpu(), wanted.detach().cpu())
        assert one[4:] == other[4:]
    if keep_prob < 1:
        assert [result[4:6] for result in mine] == [(11, 0), (11, 12)]

    gradients = torch.autograd.grad(theirs[1][0], leaves, case.pack(case.dy).npu())
    for one, wanted in zip(case.backward(mine[1], keep_prob=keep_prob), gradients):
        assert torch.equal(one.cpu(), wanted.cpu())


@pytest.mark.parametrize("parallel, sync", [(True, False), (False, False), (True, True)])
def test_the_way_a_mask_is_made_changes_nothing(parallel, sync):
    case = Case("BNSD", **DENSE)
    torch.npu.manual_seed(3)
    wanted = case.forward(keep_prob=0.5)
    torch.npu.manual_seed(3)
    results = case.forward(keep_prob=0.5, gen_mask_parallel=parallel, sync=sync)
    assert torch.equal(results[0].cpu(), wanted[0].cpu())
    gradients = case.backward(results, keep_prob=0.5, gen_mask_parallel=parallel, sync=sync)
    assert torch.equal(gradients[0].cpu(), case.backward(wanted, keep_prob=0.5)[0].cpu())


def test_number_of_mask_bits():
    assert Case("BNSD", **DENSE).forward()[6] == 2 * 4 * 33 * 40
    assert Case("TND", **LENGTHS["TND"]).forward()[6] == 4 * (5 * 5 + 0 * 7 + 33 * 40 + 1 * 90)


def test_gradients_of_absent_inputs():
    case = Case("BNSD", **DENSE)
    gradients = case.backward(case.forward())
    assert gradients[3] is None and gradients[4].shape == (0,) and gradients[4].dtype == torch.float32
