"""swa_forward and swa_backward as operators of PyTorch."""

import pytest
import torch
import torch_npu
from swa_case import DENSE, LAYOUTS, NO_LIMIT, Case, lengths


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


# ---- under tracing ----


def traced_case():
    return Case("BSND", **DENSE, mode=4, pre=7, next=0, mask="compressed", pse=True, sink=True)


@pytest.mark.parametrize("keep_prob", [1.0, 0.5])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(backend, keep_prob):
    """The same bits as without compiling; with dropout, of the same mask in both directions."""
    case = traced_case()
    dropout = keep_prob < 1

    def step():
        results = case.forward(keep_prob=keep_prob)
        return *results, *case.backward(results, keep_prob=keep_prob)

    torch.npu.manual_seed(5)
    wanted = step()
    torch.npu.manual_seed(5)
    torch._dynamo.reset()
    for one, other in zip(torch.compile(step, backend=backend, fullgraph=not dropout)(), wanted):
        if torch.is_tensor(other):
            assert torch.equal(one.cpu(), other.cpu())
        else:
            assert one == (other if dropout else 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fake_results_are_like_the_real_ones(layout):
    """PyTorch's own check of a fake kernel: metadata of every result, with the operators run beside it."""
    case = Case(layout, **lengths(layout), dim=24, value_dim=8)
    results = case.forward()
    torch.library.opcheck(torch.ops.npu.swa_forward.default, (*case.inputs(), case.heads, layout), case.options(),
                          test_utils="test_faketensor")
    given = {"softmax_max": results[1], "softmax_sum": results[2], "attention_in": results[0]}
    torch.library.opcheck(torch.ops.npu.swa_backward.default,
                          (*case.inputs(), case.pack(case.dy).npu(), case.heads, layout),
                          case.options("scale_value") | given, test_utils="test_faketensor")


class Attention(torch.autograd.Function):
    """What a caller writes who wants a gradient after all: the two operators, tied together by hand."""

    @staticmethod
    def forward(ctx, query, key, value, heads):
        out, softmax_max, softmax_sum, *_ = torch_npu.swa_forward(query, key, value, heads, "BNSD", scale=0.25)
        ctx.save_for_backward(query, key, value, out, softmax_max, softmax_sum)
        ctx.heads = heads
        return out

    @staticmethod
    def backward(ctx, dy):
        query, key, value, out, softmax_max, softmax_sum = ctx.saved_tensors
        return *torch_npu.swa_backward(query, key, value, dy, ctx.heads, "BNSD", scale_value=0.25, softmax_max=softmax_max,
                                       softmax_sum=softmax_sum, attention_in=out)[:3], None


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_tied_together_in_a_function_of_the_caller(backend):
    case = Case("BNSD", **DENSE)
    attention = Attention.apply
    if backend:
        torch._dynamo.reset()
        attention = torch.compile(attention, backend=backend)
    mine, theirs = ([tensor.requires_grad_() for tensor in case.inputs()] for _ in range(2))
    out = attention(*mine, case.heads)
    wanted = torch_npu.npu_fusion_attention(*theirs, case.heads, "BNSD", scale=0.25)[0]
    assert torch.equal(out.detach().cpu(), wanted.detach().cpu())
    dy = case.pack(case.dy).npu()
    for one, other in zip(torch.autograd.grad(out, mine, dy), torch.autograd.grad(wanted, theirs, dy)):
        assert torch.equal(one.cpu(), other.cpu())
