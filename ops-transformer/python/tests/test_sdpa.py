"""replace_sdpa: what is routed is what PyTorch's function means, everything else is PyTorch's own."""
import logging
import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sdpa_check import check_sdpa, numbers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from ops_transformer import replace_sdpa

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
sdpa_of_pytorch = F.scaled_dot_product_attention


def operands(rows=8, keys=33, dim=16, heads=4, batch=2, dtype=torch.float32):
    return [numbers(batch, heads, length, dim, dtype=dtype, seed=seed) for seed, length in enumerate((rows, keys, keys))]


# ---- what is routed ----


@st.composite
def calls(draw):
    """Operands of four dimensions, arguments, what is attended to and what is added."""
    batch, key_heads, rows, keys = (draw(st.integers(1, top)) for top in (2, 3, 40, 40))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    dim = draw(st.integers(1, 24))
    value_dim = draw(st.one_of(st.just(dim), st.integers(1, dim)))
    dtype = draw(st.sampled_from(DTYPES))
    scores = (batch, key_heads * group, rows, keys)
    query = numbers(*scores[:3], dim, dtype=dtype)
    key, value = (numbers(batch, key_heads, keys, each, dtype=dtype, seed=each) for each in (dim, value_dim))
    options = {"enable_gqa": group > 1}
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from([0.0, -0.5, 0.3, 2]))
    kind = draw(st.sampled_from(["none", "causal", "bool", "numbers"]))
    attended = bias = None
    if kind == "causal":
        options["is_causal"] = True
        attended = torch.ones(rows, keys, dtype=torch.bool).tril().expand(scores)
    elif kind != "none":
        shape = [size if draw(st.booleans()) else 1 for size in scores]
        shape = shape[draw(st.integers(0, 2)):] if shape[0] == shape[1] == 1 else shape
        mask = numbers(*shape, dtype=dtype, seed=7)
        if kind == "bool":
            mask = mask > draw(st.sampled_from([-1.0, 0.0, 9.0]))  # 9: nobody sees anything
            attended = mask.expand(scores)
        else:
            bias = mask.expand(scores)
        options["attn_mask"] = mask
    return (query, key, value), attended, bias, options


@settings(max_examples=150, deadline=None, derandomize=True)
@given(calls())
def test_routed_calls_are_right(call):
    """Against the definition, forward and backward; shapes, types and strides are PyTorch's."""
    (query, key, value), attended, bias, options = call
    with replace_sdpa() as sdpa:
        out = check_sdpa(query, key, value, attended, bias, **options)
    assert (sdpa.calls, sdpa.routed, dict(sdpa.reasons)) == (1, 1, {})
    expected = sdpa_of_pytorch(query, key, value, **options)
    assert (out.shape, out.dtype, out.stride()) == (expected.shape, expected.dtype, expected.stride())


LONG = {"rows": 300, "keys": 700, "dim": 64}


@pytest.mark.parametrize("sizes", [LONG, LONG | {"rows": 700, "keys": 300}], ids=["more keys", "more rows"])
def test_the_diagonal_begins_at_the_first_key(sizes):
    query, key, value = operands(**sizes, heads=2, batch=1)
    attended = torch.ones(sizes["rows"], sizes["keys"], dtype=torch.bool).tril().expand(1, 2, -1, -1)
    with replace_sdpa() as sdpa:
        check_sdpa(query, key, value, attended, is_causal=True)
    assert sdpa.routed == 1


@pytest.mark.parametrize("lead, mask", [((), (8, 33)), ((3,), (1, 33)), ((3,), (3, 8, 33)), ((2, 2, 3), (8, 33)),
                                        ((2, 2, 3), (3, 8, 1)), ((2, 2, 3), (2, 1, 8, 33)), ((2, 2, 3), (2, 1, 1, 8, 33)),
                                        ((1, 2, 2, 3), (1, 2, 1, 3, 8, 33))], ids=str)
@pytest.mark.parametrize("boolean", [False, True])
def test_other_numbers_of_dimensions(lead, mask, boolean):
    inputs = [numbers(*lead, length, 16, seed=length).requires_grad_() for length in (8, 33, 33)]
    mask = numbers(*mask) > 0 if boolean else numbers(*mask)
    expected = sdpa_of_pytorch(*inputs, attn_mask=mask)
    dy = numbers(*expected.shape)
    with replace_sdpa() as sdpa:
        actual = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    assert sdpa.routed == 1 and actual.shape == expected.shape
    # fp32: weights and values of some units, in another order of sums.
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)
    for pair in zip(torch.autograd.grad(actual, inputs, dy), torch.autograd.grad(expected, inputs, dy)):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 4, 8, 33), (1, 4, 1, 33), (8, 33), (8, 1)], ids=str)
def test_masks_of_numbers_have_gradients(shape):
    query, key, value = operands()
    mask = numbers(*shape).requires_grad_()
    expected, = torch.autograd.grad(sdpa_of_pytorch(query, key, value, attn_mask=mask).square().sum(), mask)
    with replace_sdpa() as sdpa:
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    actual, = torch.autograd.grad(out.square().sum(), mask)
    assert sdpa.routed == 1
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [torch.zeros(8, 33).bool(), torch.full((8, 33), -torch.inf)], ids=["bool", "numbers"])
def test_rows_without_keys_give_zero_in_both(mask):
    inputs = [tensor.requires_grad_() for tensor in operands()]
    mask[1] = mask.dtype == torch.bool  # one row sees all keys
    with replace_sdpa() as sdpa:
        out = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    assert sdpa.routed == 1
    for each in (out, sdpa_of_pytorch(*inputs, attn_mask=mask)):
        assert not each[:, :, [0, 2, 7]].any() and each[:, :, 1].all()
        assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(each.sum(), inputs))


def test_hidden_nan_has_no_effect():
    query, key, value = operands()
    mask = torch.arange(33) < 30
    with replace_sdpa():
        expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.expand(8, 33))
        key[..., 30:, :], value[..., 30:, :] = torch.nan, torch.inf
        assert torch.equal(F.scaled_dot_product_attention(query, key, value, attn_mask=mask.expand(8, 33)), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_gives_its_type(dtype):
    query, key, value = operands()
    mask = numbers(8, 33)
    with torch.autocast("cpu", dtype):
        expected = sdpa_of_pytorch(query, key, value, attn_mask=mask)
        with replace_sdpa() as sdpa:
            actual = F.scaled_dot_product_attention(query, key.to(dtype), value, attn_mask=mask)
    assert sdpa.routed == 1 and actual.dtype == expected.dtype == dtype
    # Weights below 1 and values below 4 are rounded to the type.
    torch.testing.assert_close(actual, expected, rtol=0, atol=8 * torch.finfo(dtype).eps)


# ---- what is PyTorch's ----

QUERY, KEY, VALUE = operands()
OTHERS = {
    "dropout_p > 0": ((QUERY, KEY, VALUE), {"dropout_p": 0.5}),
    "is_causal together with attn_mask": ((QUERY, KEY, VALUE), {"is_causal": True, "attn_mask": torch.ones(8, 33).bool()}),
    "element type torch.float64": ((QUERY.double(), KEY.double(), VALUE.double()), {}),
    "attn_mask is torch.float32, query torch.float16": ((QUERY.half(), KEY.half(), VALUE.half()),
                                                        {"attn_mask": numbers(8, 33)}),
    "head dim of value above that of query": ((QUERY[..., :8], KEY[..., :8], VALUE), {}),
    "head dim above 768": ((numbers(1, 1, 2, 769),) * 3, {}),
    "batch sizes differ": ((QUERY, KEY[:1], VALUE[:1]), {}),
    "head counts differ": ((QUERY, KEY[:, :1], VALUE[:, :1]), {}),
    "head counts are no multiples": ((QUERY, KEY[:, :2], VALUE[:, :1]), {"enable_gqa": True}),
    "an operand is empty": ((QUERY[:, :, :0], KEY, VALUE), {}),
    "query is on meta": ((QUERY.to("meta"), KEY.to("meta"), VALUE.to("meta")), {}),
    "nested or sparse": ((torch.nested.nested_tensor([QUERY[0], QUERY[1, :, :5]], layout=torch.strided),) * 3, {}),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_other_calls_go_to_pytorch(reason):
    inputs, options = OTHERS[reason]
    torch.manual_seed(3)
    expected = sdpa_of_pytorch(*inputs, **options)
    torch.manual_seed(3)
    with replace_sdpa() as sdpa:
        actual = F.scaled_dot_product_attention(*inputs, **options)
    assert (sdpa.calls, sdpa.routed) == (1, 0) and actual.device == expected.device
    (counted, count), = sdpa.reasons.items()
    assert reason in counted and count == 1
    if not (actual.is_meta or actual.is_nested):
        assert torch.equal(actual, expected)


class Tagged(torch.Tensor):
    pass


def test_surroundings_that_are_pytorchs():
    query, key, value = operands()
    with replace_sdpa() as sdpa:
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(query, key, value)
        torch.vmap(F.scaled_dot_product_attention)(query, key, value)
        with sdpa_kernel(SDPBackend.MATH):
            torch.func.jvp(lambda q: F.scaled_dot_product_attention(q, key, value), (query,), (query,))
        torch.jit.trace(F.scaled_dot_product_attention, (query, key, value), check_trace=False)
        F.scaled_dot_product_attention(query.as_subclass(Tagged), key, value)
    assert sdpa.routed == 0 and set(sdpa.reasons) == {
        "the flash backend is switched off", "inside a transform of torch.func", "inside torch.jit.trace",
        "query is a Tagged"}


WRONG = {
    "keys of another head dim": ((QUERY, KEY[..., :8], VALUE), {}),
    "element types": ((QUERY, KEY.half(), VALUE), {}),
    "integer mask": ((QUERY, KEY, VALUE), {"attn_mask": torch.ones(8, 33, dtype=torch.int32)}),
    "mask of one dimension": ((QUERY, KEY, VALUE), {"attn_mask": torch.ones(33).bool()}),
    "mask that does not broadcast": ((QUERY, KEY, VALUE), {"attn_mask": torch.ones(8, 32).bool()}),
    "heads without enable_gqa": ((QUERY, KEY[:, :2], VALUE[:, :2]), {}),
    "one dimension": ((QUERY[0, 0, 0], KEY, VALUE), {}),
    "no tensor": ((QUERY, KEY, None), {}),
    "unknown argument": ((QUERY, KEY, VALUE), {"window": 3}),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_pytorch(name):
    inputs, options = WRONG[name]
    with pytest.raises(Exception) as expected:
        sdpa_of_pytorch(*inputs, **options)
    with replace_sdpa() as sdpa, pytest.raises(expected.type) as actual:
        F.scaled_dot_product_attention(*inputs, **options)
    assert str(actual.value) == str(expected.value) and sdpa.routed == 0


# ---- the manager ----


def test_other_functions_and_calls_outside_are_not_counted():
    query, key, value = operands()
    sdpa = replace_sdpa()
    F.scaled_dot_product_attention(query, key, value)
    with sdpa:
        F.softmax(query @ key.mT, -1)
    assert (sdpa.calls, sdpa.routed) == (0, 0)
    for calls in (1, 2):  # it can be entered again
        with sdpa:
            F.scaled_dot_product_attention(query, key, value)
        assert sdpa.calls == calls


def test_nested_managers():
    query, key, value = operands()
    with replace_sdpa() as outer, replace_sdpa() as inner:
        F.scaled_dot_product_attention(query, key, value)
        F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert (inner.calls, inner.routed) == (2, 1)
    assert (outer.calls, outer.routed) == (1, 0) and outer.reasons == inner.reasons


def test_threads():
    """A thread is routed if it entered; counts of a shared object are exact."""
    query, key, value = operands()
    sdpa = replace_sdpa()

    def enter():
        with sdpa:
            for _ in range(50):
                F.scaled_dot_product_attention(query, key, value)
                F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    threads.append(threading.Thread(target=F.scaled_dot_product_attention, args=(query, key, value)))
    with sdpa:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (sdpa.calls, sdpa.routed, sum(sdpa.reasons.values())) == (800, 400, 400)


def test_verbose_says_each_reason_once(caplog):
    query, key, value = operands()
    with caplog.at_level(logging.WARNING), replace_sdpa(verbose=True):
        for _ in range(3):
            F.scaled_dot_product_attention(query, key, value)
            F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
            F.scaled_dot_product_attention(query.double(), key.double(), value.double())
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        "dropout_p > 0: PyTorch's random numbers are others", "element type torch.float64"]
    with caplog.at_level(logging.WARNING), replace_sdpa():
        F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_is_routed(backend):
    """In one graph, compiled once; outside of the manager the same function is PyTorch's again."""
    inputs = [tensor.requires_grad_() for tensor in operands()]

    def attend(query, key, value):
        return F.scaled_dot_product_attention(query * 2, key, value, is_causal=True) * 2

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend=backend, fullgraph=True)
    with replace_sdpa() as eager:
        expected = attend(*inputs)
    with replace_sdpa() as sdpa:
        for _ in range(12):  # more than dynamo would compile again
            actual = compiled(*inputs)
    assert eager.routed == sdpa.routed == sdpa.calls == 1
    assert torch.equal(actual, expected)
    for one, other in zip(torch.autograd.grad(actual.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)):
        assert torch.equal(one, other)
    assert torch.equal(compiled(*inputs), attend(*inputs)) and sdpa.calls == 1


def test_checkpointed_layers_compute_again_inside():
    inputs = [tensor.requires_grad_() for tensor in operands()]
    with replace_sdpa() as sdpa:
        out = checkpoint(F.scaled_dot_product_attention, *inputs, use_reentrant=False)
        gradients = torch.autograd.grad(out.sum(), inputs)
        expected = torch.autograd.grad(F.scaled_dot_product_attention(*inputs).sum(), inputs)
    assert sdpa.calls == sdpa.routed == 3
    assert all(torch.equal(*pair) for pair in zip(gradients, expected))


def test_modules_of_pytorch_are_routed():
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    tokens = numbers(2, 9, 32).requires_grad_()
    padding = torch.arange(9) >= torch.tensor([9, 5])[:, None]
    expected = layer(tokens, src_key_padding_mask=padding)
    with replace_sdpa() as sdpa:
        actual = layer(tokens, src_key_padding_mask=padding)
    assert sdpa.routed == sdpa.calls == 1
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
