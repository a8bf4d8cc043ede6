"""Gradients on npu tensors, above all of the operators whose derivatives torch_npu replaced by those of its own kernels."""
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def numbers(*shape, seed=5):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def targets():
    return torch.tensor([0, 4, 2, 1])


# `x` is a [4, 6] leaf on the device, `to` brings constants to it.
FUNCTIONS = {
    "matmul": lambda x, to: x @ to(numbers(6, 3)),
    "linear": lambda x, to: F.linear(x, to(numbers(5, 6)), to(numbers(5))),
    "softmax": lambda x, to: x.softmax(-1),
    "softmax of another type": lambda x, to: torch.softmax(x, -1, dtype=torch.float64),
    "log_softmax": lambda x, to: F.log_softmax(x, 1),
    "log_sigmoid": lambda x, to: F.logsigmoid(x),
    "where": lambda x, to: torch.where(x > 0, x * x, -x),
    "gather": lambda x, to: x.gather(1, to(torch.tensor([[0], [5], [2], [2]]))),
    "renorm": lambda x, to: torch.renorm(x, 2, 0, 1.0),
    "bce with logits": lambda x, to: F.binary_cross_entropy_with_logits(x, to(numbers(4, 6).sigmoid())),
    "cross_entropy": lambda x, to: F.cross_entropy(x, to(targets())),
    "l1_loss": lambda x, to: F.l1_loss(x, to(numbers(4, 6, seed=6))),
    "smooth_l1_loss": lambda x, to: F.smooth_l1_loss(x, to(numbers(4, 6, seed=6))),
    "kl_div": lambda x, to: F.kl_div(x.log_softmax(1), to(numbers(4, 6).softmax(1)), reduction="batchmean"),
    "layer_norm": lambda x, to: F.layer_norm(x, (6,), to(numbers(6)), to(numbers(6))),
    "group_norm": lambda x, to: F.group_norm(x, 2),
    "embedding": lambda x, to: F.embedding(to(targets().clamp(max=3)), x),
    "conv1d": lambda x, to: F.conv1d(x[None], to(numbers(2, 4, 3))),
    "gelu": lambda x, to: F.gelu(x),
    "silu": lambda x, to: F.silu(x),
    "sdpa by hand": lambda x, to: F.softmax(x @ x.t() / 2, -1) @ x,
    "max": lambda x, to: x.max(1).values,
    "sort": lambda x, to: x.sort(1).values[:, :3],
    "index": lambda x, to: x[to(torch.tensor([0, 0, 3]))],
    "cumsum": lambda x, to: x.cumsum(0),
    "stft": lambda x, to: torch.view_as_real(torch.stft(x.flatten(), 8, window=to(torch.ones(8, dtype=x.dtype)),
                                                        return_complex=True)),
    "fft": lambda x, to: torch.fft.rfft(x).abs(),
    "einsum": lambda x, to: torch.einsum("ij,kj->ik", x, x),
    "in place": lambda x, to: (x * 2).add_(1).mul_(to(numbers(4, 6))),
    "expand and view": lambda x, to: (x[:, None].expand(4, 3, 6) * to(numbers(3, 6))).reshape(12, 6),
    "norm": lambda x, to: torch.linalg.vector_norm(x, dim=1),
    "split": lambda x, to: torch.cat([part * i for i, part in enumerate(x.split([1, 2, 3], 1))], 1),
}


def gradient(function, to):
    x = to(numbers(4, 6)).requires_grad_()
    result = function(x, to)
    assert result.requires_grad and result.device == x.device
    # Not a plain sum: its gradient would hide mistakes in the order of elements.
    weights = to(torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).view(result.shape))
    (first,) = torch.autograd.grad((result * weights).sum(), x, create_graph=True)
    return first, torch.autograd.grad((first * first).sum(), x, allow_unused=True)[0] if first.requires_grad else None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives(name):
    actual = gradient(FUNCTIONS[name], lambda tensor: tensor.npu())
    expected = gradient(FUNCTIONS[name], lambda tensor: tensor)
    for one, other in zip(actual, expected):
        assert (one is None) == (other is None)
        if other is not None:
            torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=1e-12, atol=1e-12)


def test_derivative_of_cdist():
    """It has a first one only."""
    gradients = []
    for to in (lambda x: x.npu(), lambda x: x):
        x = to(numbers(4, 6)).requires_grad_()
        torch.cdist(x, to(numbers(3, 6))).square().sum().backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_dropout_gradient_uses_the_mask_that_was_drawn():
    x = torch.ones(1000, device="npu", requires_grad=True)
    result = F.dropout(x, 0.4)
    result.sum().backward()
    assert torch.equal(x.grad, result.detach())


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers(kind):
    torch.manual_seed(3)
    layer = kind(6, 5, num_layers=2).double()
    layer(numbers(7, 3, 6))[0].square().sum().backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    layer.npu()
    layer(numbers(7, 3, 6).npu())[0].square().sum().backward()
    for parameter, other in zip(layer.parameters(), expected):
        torch.testing.assert_close(parameter.grad.cpu(), other, rtol=1e-10, atol=1e-12)


def test_checkpointing_draws_the_same_numbers_again():
    def block(x):
        return F.dropout(x.sin(), 0.5)

    gradients = []
    for run in (block, lambda x: checkpoint(block, x, use_reentrant=False)):
        torch.manual_seed(9)
        x = torch.ones(500, device="npu", requires_grad=True)
        run(x).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_function_transforms():
    x, weight = numbers(4, 6), numbers(6)

    def loss(weight, row):
        return (row * weight).sum().sigmoid()

    transformed = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    torch.testing.assert_close(transformed(weight.npu(), x.npu()).cpu(), transformed(weight, x), rtol=1e-12, atol=1e-14)


def test_saved_tensors_notice_in_place_changes():
    x = torch.ones(3, device="npu", requires_grad=True)
    middle = x.exp()
    result = middle.sum()
    middle.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2, 3, device="npu")
        result = F.linear(x, x).softmax(-1)
        assert result.is_inference() and result.tolist() == [[0.5, 0.5]] * 2
        torch.nn.LSTM(3, 2).npu()(x)
