"""torch_npu.swa_forward and torch_npu.swa_backward against the formulas in double precision and against npu_fusion_attention."""

import pytest
import torch
import torch_npu
from swa_case import NO_LIMIT, Case, compressed_mask

LAYOUTS = ["BSH", "SBH", "BSND", "BNSD", "TND"]
LENGTHS = {"TND": {"q": (5, 0, 33, 1), "kv": (5, 7, 40, 90)}}
DENSE = {"q": (33, 33), "kv": (40, 40)}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def lengths(layout):
    return LENGTHS.get(layout, DENSE)


def causal(rows, keys):
    return torch.ones(rows, keys, dtype=torch.bool).triu(1)


def check_statistic(case, actual, expected, sees, name):
    """Statistics are floats for every dtype, but weights that were rounded to 16 bits may enter the sum."""
    actual = actual.cpu().double()
    assert actual.shape == expected.shape
    assert torch.equal(actual[~sees], expected[~sees])
    roundings = 4 if case.dtype == torch.float32 else 128
    case.assert_close(actual[sees], expected[sees], roundings, name, torch.float32)


def check(case):
    """Forward, statistics and gradients of one case; returns what forward gave."""
    (out, maxima, sums), gradients = case.expected()
    results = case.forward()
    assert len(results) == 7 and results[0].dtype == case.dtype and results[3].shape == (0,)
    case.assert_close(results[0], out, 4, "attention")
    sees = sums < torch.finfo(torch.float32).max
    check_statistic(case, results[1], maxima, sees, "softmax_max")
    check_statistic(case, results[2], sums, sees, "softmax_sum")

    actual = case.backward(results)
    assert len(actual) == 5
    for name, one, wanted in zip(("dq", "dk", "dv", "dpse", "dsink"), actual, gradients):
        if wanted is not None:
            case.assert_close(one, wanted, 16, name)
    return results


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sink(layout):
    check(Case(layout, **lengths(layout), mode=4, pre=7, next=0, mask="compressed", sink=True))


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_bias(layout):
    check(Case(layout, **lengths(layout), mode=4, pre=7, next=0, mask="compressed", pse=True))


@pytest.mark.parametrize("sink", [False, True])
def test_statistics_in_the_order_of_tokens(sink):
    check(Case("TND", **LENGTHS["TND"], softmax_layout="TND", sink=sink))


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
    """Sequences of 2048 tokens and a short last one, with a mask of [2048, 2048] that hides key 0 in mode 0. Mode 4 does not
    read it, so key 0 tells which mode was used."""
    sequences = [2048] * (tokens // 2048) + ([tokens % 2048] if tokens % 2048 else [])
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
    assert given_0.forward(atten_mask=compressed_mask().npu())[0].shape == (16385, 1, 16)


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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keep_prob", [1.0, 0.8])
def test_equal_to_npu_fusion_attention(layout, keep_prob):
    """The same bits, seeds and numbers of mask bits, in forward and in the gradients of autograd."""
    case = Case(layout, **lengths(layout), mode=4, pre=7, next=0, mask="compressed")
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


# ---- refusals ----

BAD_MODES = [1, 2, 3, 5, 6, 7, 8, -1, 9]


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
@pytest.mark.parametrize("mode", BAD_MODES)
def test_other_modes_are_refused(layout, mode):
    case = Case(layout, **lengths(layout))
    results = case.forward()
    for call in (lambda: case.forward(sparse_mode=mode), lambda: case.backward(results, sparse_mode=mode)):
        with pytest.raises(RuntimeError) as error:
            call()
        first, second = str(error.value).split("\n")[:2]
        assert first == f"The sparse_mode value should be 0 or 4, but got {mode}"
        assert second.startswith("[ERROR] ") and second.endswith("ERR01001 OPS invalid parameter")
    assert torch.equal(case.forward()[0].cpu(), results[0].cpu())


def test_a_long_batch_does_not_save_a_wrong_mode():
    case = Case("TND", (16385,), (16,), heads=1, kv_heads=1)
    with pytest.raises(RuntimeError, match="The sparse_mode value should be 0 or 4, but got 3"):
        case.forward(sparse_mode=3)


SHARED_REFUSALS = {
    "keep_prob 0": {"keep_prob": 0.0},
    "keep_prob above 1": {"keep_prob": 1.5},
    "softmax_layout of dense batches": {"softmax_layout": "TND"},
    "unknown softmax_layout": {"softmax_layout": "SBH"},
    "head_num": {"head_num": 0},
    "layout": {"input_layout": "XYZ"},
    "no lists": {"input_layout": "TND", "axes": 3},
    "lists of two lengths": {"input_layout": "TND", "axes": 3, "actual_seq_qlen": [4], "actual_seq_kvlen": [2, 4]},
    "five axes": {"axes": 5},
}


@pytest.mark.parametrize("options", SHARED_REFUSALS.values(), ids=SHARED_REFUSALS.keys())
def test_texts_are_those_of_npu_fusion_attention(options):
    options = {"head_num": 1, "input_layout": "BNSD"} | options
    axes = options.pop("axes", 4)
    tensors = [torch.zeros([4, 1, 4, 16, 1][:axes]).npu() for _ in range(3)]
    texts = []
    for function in (torch_npu.swa_forward, torch_npu.npu_fusion_attention):
        with pytest.raises(RuntimeError) as error:
            function(*tensors, **options)
        texts.append(str(error.value).split("\n")[0])
    assert texts[0] == texts[1]


def test_the_operators_sentence_is_in_the_exception():
    """A refusal that only the operator knows: code and sentence arrive, and the process works on."""
    case = Case("BNSD", **DENSE, mode=4, mask=torch.zeros(7, 7, dtype=torch.bool))
    with pytest.raises(RuntimeError) as error:
        case.forward()
    text = str(error.value)
    assert "aclnnFlashAttentionScore" in text and "161002" in text and "attenMask" in text
    check(Case("BNSD", **DENSE))


def test_backward_needs_the_results_of_forward():
    case = Case("BNSD", **DENSE)
    with pytest.raises(RuntimeError, match="aclnnFlashAttentionScoreGrad"):
        case.backward(case.forward(), softmax_max=None)
    check(case)


def test_both_bounds_negative_are_refused():
    """RING-08: -1 is not "no limit"."""
    with pytest.raises(RuntimeError):
        Case("BNSD", (16,), (16,), mode=4, pre=-1, next=-1, mask="compressed").forward()


def test_tensors_of_two_devices():
    case = Case("BNSD", **DENSE)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        case.forward(atten_mask=torch.zeros(33, 40, dtype=torch.bool))


# ---- autograd, fake tensors, names ----


def test_autograd_is_refused_not_ignored():
    """ASC-33"""
    case = Case("BNSD", **DENSE)
    query, key, value = case.inputs()
    dy = case.pack(case.dy).npu()
    out = torch_npu.swa_forward(query.requires_grad_(), key, value, case.heads, "BNSD", scale=case.scale)
    assert out[0].requires_grad
    with pytest.raises(RuntimeError, match="swa_forward is not differentiable: call swa_backward"):
        torch.autograd.grad(out[0], query, dy)
    gradients = torch_npu.swa_backward(query, key, value, dy, case.heads, "BNSD", scale_value=case.scale, softmax_max=out[1],
                                       softmax_sum=out[2], attention_in=out[0])
    with pytest.raises(RuntimeError, match="swa_backward is not differentiable"):
        torch.autograd.grad(gradients[0], query, query)

    assert not case.forward()[0].requires_grad
    with torch.no_grad():
        assert not torch_npu.swa_forward(query, key, value, case.heads, "BNSD")[0].requires_grad


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fake_kernels(layout, sink):
    case = Case(layout, **lengths(layout), dim=24, value_dim=8, dtype=torch.float16, sink=sink)
    results = case.forward()
    gradients = case.backward(results)
    meta = [tensor.to("meta") for tensor in (case.pack(case.query), case.pack(case.key), case.pack(case.value))]
    sinks = case.sinks.to("meta") if sink else None
    lists = {name: value for name, value in case.options().items() if name.startswith("actual")}
    fake = torch_npu.swa_forward(*meta, case.heads, layout, sink=sinks, **lists)
    fake_gradients = torch_npu.swa_backward(*meta, fake[0], case.heads, layout, sink=sinks, **lists)
    for one, real in zip([*fake[:4], *fake_gradients], [*results[:4], *gradients]):
        if real is None:
            assert one is None
        else:
            assert (one.shape, one.dtype, one.stride()) == (real.shape, real.dtype, real.stride())
            assert one.device.type == "meta"
    assert fake[4:] == (0, 0, 0)


def test_names():
    assert torch_npu.swa_forward is torch.ops.npu.swa_forward
    assert torch_npu.swa_backward is torch.ops.npu.swa_backward


def test_schemas_are_those_of_npu_fusion_attention():
    """Of the generation without the arguments for a mask made elsewhere."""
    def arguments(operator):
        schema = operator.default._schema
        return [(one.name, str(one.type), one.default_value, one.kwarg_only) for one in schema.arguments], schema.returns

    mine, returns = arguments(torch.ops.npu.swa_forward)
    theirs, their_returns = arguments(torch.ops.npu.npu_fusion_attention)
    assert mine == [one for one in theirs if one[0] not in ("dropout_mask", "seed", "offset")]
    assert [str(one.type) for one in returns] == [str(one.type) for one in their_returns]
    assert arguments(torch.ops.npu.swa_backward)[0] == arguments(torch.ops.npu.npu_fusion_attention_grad)[0]


def test_no_limit_is_the_default():
    defaults = {one.name: one.default_value for one in torch.ops.npu.swa_forward.default._schema.arguments}
    assert defaults["pre_tockens"] == defaults["next_tockens"] == NO_LIMIT
