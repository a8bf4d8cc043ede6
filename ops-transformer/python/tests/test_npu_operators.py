"""Operators of torch_npu's namespace beside attention: their documented formulas, and derivatives through torch_npu's autograd."""
import pytest
import torch
import torch.nn.functional as F
import torch_npu

# Results are rounded once; gradients come out of two or three operators.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def rms_norm(x, gamma, epsilon=1e-6):
    rstd = (x.square().mean(tuple(range(x.dim() - gamma.dim(), x.dim())), keepdim=True) + epsilon).rsqrt()
    return x * rstd * gamma, rstd


def turn(x, mode):
    if mode == "half":
        return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def rotary(x, cos, sin, mode="half"):
    return x * cos + turn(x, mode) * sin


# Function of torch_npu, its formula, operands.
CASES = {
    "rms_norm": (lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-5)[0], lambda x, g: rms_norm(x, g, 1e-5)[0], [(2, 5, 16), (16,)]),
    "rms_norm over two dimensions": (lambda x, g: torch_npu.npu_rms_norm(x, g)[0], lambda x, g: rms_norm(x, g)[0],
                                     [(3, 4, 8), (4, 8)]),
    "swiglu": (torch_npu.npu_swiglu, lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], [(3, 4, 10)]),
    "swiglu of another dimension": (lambda x: torch_npu.npu_swiglu(x, dim=1),
                                    lambda x: F.silu(x.chunk(2, 1)[0]) * x.chunk(2, 1)[1], [(3, 4, 10)]),
    "rotary_mul": (torch_npu.npu_rotary_mul, rotary, [(2, 3, 4, 8), (1, 1, 4, 8), (1, 1, 4, 8)]),
    "rotary_mul interleaved": (lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, "interleave"),
                               lambda x, c, s: rotary(x, c, s, "interleave"), [(2, 3, 4, 8), (1, 3, 1, 8), (1, 3, 1, 8)]),
    "fast_gelu": (torch_npu.npu_fast_gelu, lambda x: x * torch.sigmoid(1.702 * x), [(5, 7)]),
    "gelu": (torch_npu.npu_gelu, F.gelu, [(5, 7)]),
    "gelu tanh": (lambda x: torch_npu.npu_gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), [(5, 7)]),
    "silu": (torch_npu.npu_silu, F.silu, [(5, 7)]),
}


def values_and_gradients(function, operands, to):
    leaves = [to(operand).detach().requires_grad_() for operand in operands]
    result = function(*leaves)
    weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(result)
    result.backward(weights)
    return [result.detach()] + [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype):
    function, formula, shapes = CASES[name]
    operands = [numbers(*shape, dtype=dtype) for shape in shapes]
    actual = values_and_gradients(function, operands, lambda x: x.npu())
    expected = values_and_gradients(formula, operands, lambda x: x.double())
    for one, other in zip(actual, expected):
        assert one.dtype == dtype and one.device.type == "npu"
        scale = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one.cpu().double(), other, rtol=0, atol=TOLERANCES[dtype] * scale)


def second_derivatives(function, operands):
    leaves = [operand.detach().requires_grad_() for operand in operands]
    result = function(*leaves)
    weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(result)
    first = torch.autograd.grad(result, leaves, weights, create_graph=True)
    return torch.autograd.grad(sum((grad * grad).sum() for grad in first), leaves)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name):
    """As of a gradient penalty. In double precision, where nothing but the order of operations may differ."""
    function, formula, shapes = CASES[name]
    operands = [numbers(*shape).double() for shape in shapes]
    actual = second_derivatives(function, [operand.npu() for operand in operands])
    for one, other in zip(actual, second_derivatives(formula, operands)):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-9, atol=1e-9)


def test_silu_in_place_is_differentiated():
    x = numbers(5, 7).npu().requires_grad_()
    changed = x * 2
    assert torch_npu.npu_silu_(changed) is changed
    changed.sum().backward()
    y = numbers(5, 7).requires_grad_()
    F.silu(y * 2).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.grad)


def test_what_has_no_derivative_says_so():
    q = numbers(1, 2, 3, 16).npu().requires_grad_()
    result = torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD")[0]
    (first,) = torch.autograd.grad(result.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="^derivative for npu::npu_fusion_attention_grad is not implemented$"):
        first.sum().backward()
    x, gamma = numbers(4, 16).npu().requires_grad_(), numbers(16).npu()
    for name, operands in (("npu_gemma_rms_norm", (x, gamma)), ("npu_add_rms_norm", (x, x, gamma))):
        with pytest.raises(RuntimeError, match=f"^derivative for npu::{name} is not implemented$"):
            getattr(torch_npu, name)(*operands)[0].sum().backward()


def test_rms_norm_statistic_and_relatives():
    x, y, gamma = numbers(4, 16), numbers(4, 16) + 1, numbers(16)
    result, rstd = torch_npu.npu_rms_norm(x.half().npu(), gamma.half().npu())
    assert result.dtype == torch.float16 and rstd.dtype == torch.float32 and rstd.shape == (4, 1)
    torch.testing.assert_close(rstd.cpu(), rms_norm(x.half().float(), gamma)[1])
    result, rstd, total = torch_npu.npu_add_rms_norm(x.npu(), y.npu(), gamma.npu())
    torch.testing.assert_close(total.cpu(), x + y)
    torch.testing.assert_close(result.cpu(), rms_norm(x + y, gamma)[0])
    torch.testing.assert_close(torch_npu.npu_gemma_rms_norm(x.npu(), gamma.npu())[0].cpu(), rms_norm(x, gamma + 1)[0])


def test_rotary_with_a_matrix_and_in_place():
    x, cos, sin = numbers(2, 4, 3, 8), numbers(2, 4, 1, 8), numbers(2, 4, 1, 8) * 2
    rotate = torch.zeros(8, 8)
    rotate[:4, 4:], rotate[4:, :4] = torch.eye(4), -torch.eye(4)
    for mode in ("half", "interleave"):  # the matrix decides
        result = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), mode, rotate.npu())
        torch.testing.assert_close(result.cpu(), rotary(x, cos, sin))
    swap = torch.eye(8).flip(0)
    result = torch_npu.npu_rotary_mul(x.half().npu(), cos.half().npu(), sin.half().npu(), rotate=swap.npu())
    torch.testing.assert_close(result.cpu(), (x * cos + x.flip(-1) * sin).half(), rtol=2e-3, atol=1e-2)
    query, key = x.npu(), (x + 1).npu()
    results = torch_npu.npu_apply_rotary_pos_emb(query, key, cos.npu(), sin.npu())
    for result, changed, original in zip(results, (query, key), (x, x + 1)):
        torch.testing.assert_close(result.cpu(), rotary(original, cos, sin))
        assert torch.equal(result, changed)


def test_casts():
    x = numbers(3, 4).npu().requires_grad_()
    half = torch_npu.npu_dtype_cast(x, torch.float16)
    assert half.dtype == torch.float16
    half.float().square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach(), rtol=2e-3, atol=2e-3)
    for tensor in (torch_npu.npu_format_cast(x, 29), torch_npu.npu_format_cast(x.detach(), 2)):
        assert tensor.data_ptr() == x.data_ptr()
    assert torch_npu.npu_format_cast_(x.detach(), 29).data_ptr() == x.data_ptr()
    assert torch_npu.get_npu_format(x) == 2


def test_bad_arguments():
    x = numbers(2, 3, 4, 6).npu()
    with pytest.raises(RuntimeError, match="gamma of shape"):
        torch_npu.npu_rms_norm(x, numbers(5).npu())
    with pytest.raises(RuntimeError, match="odd size 3"):
        torch_npu.npu_swiglu(x, dim=1)
    with pytest.raises(RuntimeError, match="rotary_mode"):
        torch_npu.npu_rotary_mul(x, x, x, "quarter")
    with pytest.raises(RuntimeError, match="rotary_mode"):
        torch_npu.npu_rotary_mul(x, x, x, "quarter", torch.eye(6).npu())
    with pytest.raises(RuntimeError, match=r"rotate of shape \[6, 4\] should be a matrix \[6, 6\]"):
        torch_npu.npu_rotary_mul(x, x, x, "half", torch.ones(6, 4).npu())
    with pytest.raises(RuntimeError, match=r"do not both fit an input of shape \[2, 3, 4, 6\]"):
        torch_npu.npu_rotary_mul(x, x[:, :1], x.repeat(2, 1, 1, 1))
    with pytest.raises(RuntimeError, match="input_dtype"):
        torch_npu.npu_dtype_cast(x, torch.float16, torch.int8)


def test_rotary_with_a_matrix_has_no_backward():
    """As documented. A forward of tensors that have gradients is none of its business."""
    x, cos = numbers(2, 4, 3, 8).npu().requires_grad_(), numbers(2, 4, 1, 8).npu()
    result = torch_npu.npu_rotary_mul(x, cos, cos, "half", torch.eye(8).npu())
    with pytest.raises(RuntimeError, match="npu_rotary_mul: there is no backward with a rotate matrix"):
        result.sum().backward()


@pytest.mark.parametrize("layout", ["BSND", "SBND", "BNSD", "TND"])
def test_layouts_of_rotary(layout):
    """cos and sin have one head, wherever the layout has its heads; key may have fewer heads than query."""
    sizes = {"B": 2, "S": 4, "T": 5, "N": 3, "D": 8}
    shape = [sizes[axis] for axis in layout]
    one_head = [1 if axis == "N" else sizes[axis] for axis in layout]
    x, other, cos, sin = numbers(*shape), numbers(*one_head) + 1, numbers(*one_head), numbers(*one_head) * 2
    query, key = torch_npu.npu_apply_rotary_pos_emb(x.npu(), other.npu(), cos.npu(), sin.npu(), layout=layout)
    torch.testing.assert_close(query.cpu(), rotary(x, cos, sin))
    torch.testing.assert_close(key.cpu(), rotary(other, cos, sin))


def test_bad_arguments_of_rotary_change_nothing():
    x, cos = numbers(2, 4, 3, 8), numbers(2, 4, 1, 8).npu()
    query, key = x.npu(), x.npu()
    for change, text in [({"layout": "BSH"}, "layout should be BSND, SBND, BNSD or TND, but got BSH"),
                         ({"layout": "TND"}, "query of shape"),
                         ({"layout": "BNSD"}, "cos of shape"),
                         ({"key": numbers(2, 5, 3, 8).npu()}, "key of shape"),
                         ({"sin": numbers(2, 4, 1, 1).npu()}, "sin of shape"),
                         ({"rotary_mode": "quarter"}, "rotary_mode should be half or interleave, but got quarter")]:
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_apply_rotary_pos_emb(**{"query": query, "key": key, "cos": cos, "sin": cos, **change})
    assert torch.equal(query.cpu(), x) and torch.equal(key.cpu(), x)
