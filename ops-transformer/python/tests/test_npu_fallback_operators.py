"""Operators give on npu tensors, bit by bit, what they give on CPU tensors: the same kernels on the same memory."""
import pytest
import torch
import torch.nn.functional as F


def numbers(*shape, seed=5):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, SQUARE = numbers(4, 6), numbers(4, 6, seed=6), numbers(5, 5)
IMAGE = numbers(2, 3, 8, 8)
INDEX = torch.tensor([[0, 2, 1, 0, 3, 1]])
WORDS = torch.tensor([[1, 2, 0], [4, 4, 3]])

# The function gets npu or CPU tensors, and `to`, which brings further ones to the same device.
CASES = {
    "add": lambda to: to(X) + to(Y),
    "add number": lambda to: to(X) + 2.5,
    "number minus": lambda to: 1 - to(X),
    "add half and number": lambda to: to(X).half() * 3,
    "broadcast": lambda to: to(X) * to(Y)[:1],
    "zero-dimensional cpu tensor": lambda to: to(X) * torch.tensor(2.0),
    "int division": lambda to: to(WORDS) // 2,
    "true division of ints": lambda to: to(WORDS) / 2,
    "comparison": lambda to: to(X) > to(Y),
    "logical": lambda to: (to(X) > 0) & ~(to(Y) > 0),
    "matmul": lambda to: to(X) @ to(Y).t(),
    "bmm": lambda to: to(IMAGE)[0].bmm(to(IMAGE)[1]),
    "einsum": lambda to: torch.einsum("ij,kj->ik", to(X), to(Y)),
    "linear": lambda to: F.linear(to(X), to(Y), to(numbers(4))),
    "addmm": lambda to: torch.addmm(to(numbers(4)), to(X), to(Y).t(), beta=0.5),
    "sum": lambda to: to(X).sum(),
    "mean": lambda to: to(X).mean(1, keepdim=True),
    "max": lambda to: to(X).max(1),
    "var": lambda to: to(X).var(0),
    "norm": lambda to: torch.linalg.vector_norm(to(X), dim=1),
    "cumsum": lambda to: to(X).cumsum(0),
    "argmax": lambda to: to(X).argmax(-1),
    "sort": lambda to: to(X).sort(dim=1, descending=True),
    "argsort": lambda to: to(X).argsort(1),
    "topk": lambda to: to(X).topk(3, dim=1),
    "unique": lambda to: to(WORDS).unique(return_inverse=True, return_counts=True),
    "nonzero": lambda to: (to(X) > 0).nonzero(),
    "any": lambda to: (to(X) > 9).any(),
    "softmax": lambda to: to(X).softmax(-1),
    "log_softmax": lambda to: F.log_softmax(to(X), 0, dtype=torch.float64),
    "layer_norm": lambda to: F.layer_norm(to(X), (6,), to(numbers(6)), to(numbers(6))),
    "group_norm": lambda to: F.group_norm(to(IMAGE), 3),
    "batch_norm": lambda to: F.batch_norm(to(IMAGE), to(torch.zeros(3)), to(torch.ones(3)), training=True),
    "rms_norm": lambda to: F.rms_norm(to(X), (6,)),
    "gelu": lambda to: F.gelu(to(X), approximate="tanh"),
    "silu": lambda to: F.silu(to(X)),
    "conv2d": lambda to: F.conv2d(to(IMAGE), to(numbers(4, 3, 3, 3)), padding=1),
    "conv2d channels last": lambda to: F.conv2d(to(IMAGE).to(memory_format=torch.channels_last), to(numbers(4, 3, 3, 3))),
    "conv_transpose1d": lambda to: F.conv_transpose1d(to(IMAGE)[0], to(numbers(8, 2, 3))),
    "max_pool2d": lambda to: F.max_pool2d(to(IMAGE), 2, return_indices=True),
    "interpolate": lambda to: F.interpolate(to(IMAGE), scale_factor=2, mode="bilinear"),
    "pad": lambda to: F.pad(to(IMAGE), (1, 1, 2, 0), mode="reflect"),
    "embedding": lambda to: F.embedding(to(WORDS), to(SQUARE)),
    "embedding_bag": lambda to: F.embedding_bag(to(WORDS), to(SQUARE), mode="mean"),
    "cross_entropy": lambda to: F.cross_entropy(to(SQUARE), to(torch.tensor([0, 4, 2, -100, 1])), label_smoothing=0.1),
    "cross_entropy of shares": lambda to: F.binary_cross_entropy_with_logits(to(X), to(Y).sigmoid()),
    "kl_div": lambda to: F.kl_div(to(X).log_softmax(1), to(Y).softmax(1), reduction="batchmean"),
    "ctc_loss": lambda to: F.ctc_loss(to(numbers(9, 2, 5)).log_softmax(2), to(torch.tensor([[1, 2, 3], [4, 4, 0]])),
                                      torch.tensor([9, 8]), torch.tensor([3, 2])),
    "gather": lambda to: to(X).gather(0, to(INDEX)),
    "scatter_add": lambda to: to(X).scatter_add(0, to(INDEX), to(Y)),
    "index": lambda to: to(X)[to(torch.tensor([3, 0])), 1:],
    "index with cpu tensor": lambda to: to(X)[torch.tensor([3, 0])],
    "index with None": lambda to: to(IMAGE)[:, to(torch.tensor([2, 0])), :, to(torch.tensor([1, 1]))],
    "index with mask": lambda to: to(X)[to(X) > 0],
    "index_select": lambda to: to(X).index_select(1, to(torch.tensor([5, 0]))),
    "masked_fill": lambda to: to(X).masked_fill(to(Y) > 0, float("-inf")),
    "where": lambda to: torch.where(to(X) > 0, to(Y), 0.0),
    "one_hot": lambda to: F.one_hot(to(WORDS), 5),
    "cat": lambda to: torch.cat([to(X), to(Y)], 1),
    "stack": lambda to: torch.stack([to(X), to(Y)], 1),
    "split and chunk": lambda to: [part.contiguous() for part in to(X).split([1, 5], 1)],
    "tensor_split copies": lambda to: torch.split_copy(to(X), 2, 1),
    "repeat_interleave": lambda to: to(X).repeat_interleave(2, 1),
    "flip and roll": lambda to: to(X).flip(0).roll(2, 1),
    "tril": lambda to: to(SQUARE).tril(-1),
    "clone of a permuted tensor": lambda to: to(IMAGE).permute(0, 3, 1, 2).clone(),
    "complex": lambda to: torch.fft.ifft(torch.fft.fft(to(X)).conj()).real.contiguous(),
    "stft": lambda to: torch.stft(to(numbers(64)), 16, window=to(torch.ones(16)), return_complex=True).abs(),
    "cdist": lambda to: torch.cdist(to(X), to(Y)),
    "solve": lambda to: torch.linalg.solve(to(SQUARE), to(numbers(5, 2))),
    "cholesky": lambda to: torch.linalg.cholesky(to(SQUARE @ SQUARE.t() + 5 * torch.eye(5))),
    "bucketize": lambda to: torch.bucketize(to(X), to(torch.tensor([-1.0, 0.0, 1.0]))),
    "searchsorted": lambda to: torch.searchsorted(to(X).sort(1).values, to(Y)),
    "isfinite": lambda to: torch.isfinite(to(X) / 0),
    "bfloat16": lambda to: to(X).bfloat16() @ to(Y).bfloat16().t(),
    "zeros_like": lambda to: torch.zeros_like(to(X), dtype=torch.int32),
    "new_full": lambda to: to(X).new_full((2, 3), 7),
    "to double": lambda to: to(X).double(),
    "packed sequence": lambda to: torch.nn.utils.rnn.pack_padded_sequence(
        to(numbers(4, 3, 2)), torch.tensor([4, 2, 1]))[0],
    "foreach": lambda to: torch._foreach_mul(torch._foreach_add([to(X), to(Y)], 1.0), [to(Y), to(X)]),
}


@pytest.mark.parametrize("name", CASES)
def test_same_as_cpu(name, same):
    same(CASES[name](lambda tensor: tensor.npu()), CASES[name](lambda tensor: tensor))


FACTORIES = {
    "zeros": lambda **to: torch.zeros(3, 4, **to),
    "full": lambda **to: torch.full((2, 2), 1.5, **to),
    "arange": lambda **to: torch.arange(1, 9, 2, **to),
    "linspace": lambda **to: torch.linspace(0, 1, 7, **to),
    "eye": lambda **to: torch.eye(4, dtype=torch.bool, **to),
    "tensor": lambda **to: torch.tensor([[1, 2], [3, 4]], **to),
    "empty channels last": lambda **to: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, **to).fill_(1),
    "empty of nothing": lambda **to: torch.empty(0, 3, **to),
    "tril_indices": lambda **to: torch.tril_indices(4, 4, **to),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factory(name, same):
    same(FACTORIES[name](device="npu"), FACTORIES[name](device="cpu"))


def test_to_python():
    device = X.npu()
    assert device[1, 2].item() == X[1, 2].item()
    assert device.tolist() == X.tolist()
    assert torch.equal(device, X.npu()) and not torch.equal(device, Y.npu())
    assert bool((device == device).all())
    assert "".join(str(device).split()) == "".join(str(X).split())[:-1] + ",device='npu:0')"


def test_copies_between_devices_types_and_strides(same):
    device = torch.zeros(6, 4, dtype=torch.float64, device="npu").t()
    device.copy_(X)
    same(device, torch.empty(6, 4, dtype=torch.float64).t().copy_(X))
    host = torch.zeros(4, 6, dtype=torch.bfloat16)
    assert host.copy_(X.npu()) is host
    assert torch.equal(host, X.bfloat16())
    assert torch.equal(X.npu().to("cpu", torch.int32), X.to(torch.int32))
    assert X.npu().to("npu").device == torch.device("npu:0")


def test_results_on_another_device_stay_there():
    for tensor in (torch.zeros_like(X.npu(), device="cpu"), X.npu().new_zeros(3, device="cpu")):
        assert tensor.device.type == "cpu" and not tensor.any()
    assert torch.zeros_like(X, device="npu").device.type == "npu"


def test_recurrent_layers(same):
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        torch.manual_seed(3)
        layer = kind(6, 5, num_layers=2, bidirectional=True)
        sequence = numbers(7, 3, 6)
        expected, state = layer(sequence)
        actual, device_state = layer.npu()(sequence.npu())
        # The cells are compositions here: one rounding more or less in each of the steps.
        same(actual.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
        states = zip(state, device_state) if isinstance(state, tuple) else [(state, device_state)]
        for one, other in states:
            same(other.detach(), one.detach(), rtol=1e-5, atol=1e-6)


def test_sparse_results_are_refused_with_a_sentence():
    with pytest.raises(NotImplementedError, match="sparse"):
        X.npu().to_sparse()
    assert torch.equal((X.npu() + 1).cpu(), X + 1)
