"""Whole programs: a small transformer trains on npu tensors as it does on CPU tensors."""
import copy
import io
import math

import pytest
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    """Two blocks of plain PyTorch, with the attention that the device has."""

    def __init__(self, words=50, width=32, activation="relu"):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, activation=activation, batch_first=True,
                                             norm_first=True)
            for _ in range(2))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Model()


TOKENS = torch.randint(0, 50, (3, 17), generator=torch.Generator().manual_seed(2))


def loss_of(model, device):
    tokens = TOKENS.to(device)
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def train(model, device, steps=4, **options):
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_adamw_steps_equal_the_cpu(model, options):
    expected, expected_losses = train(model, "cpu", **options)
    actual, losses = train(model, "npu", **options)
    # Attention sums in another order; Adam divides by the root of a small second moment: a step of 1e-3 may differ by
    # some percent where a gradient is nearly zero.
    assert losses == pytest.approx(expected_losses, abs=1e-5)
    for (name, one), other in zip(actual.named_parameters(), expected.parameters()):
        if name.endswith("in_proj_bias"):
            # A bias of the keys moves all scores of a row alike and changes nothing: its gradient is rounding, which Adam
            # makes steps of full length of.
            one, other = (torch.cat([bias.detach()[:32], bias.detach()[64:]]) for bias in (one, other))
        assert one.device.type == "npu"
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=0, atol=5e-5)


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"momentum": 0.9, "fused": True}], ids=str)
def test_sgd_steps_equal_the_cpu(options):
    results = []
    for device in ("cpu", "npu"):
        parameter = torch.nn.Parameter(torch.linspace(-1, 1, 7, device="cpu").to(device))
        optimizer = torch.optim.SGD([parameter], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            parameter.pow(3).sum().backward()
            optimizer.step()
        results.append(parameter.detach().cpu())
    assert torch.equal(*results)


def train_in_half_precision(model, device, steps):
    """What each step leaves: loss, scale, largest true gradient, parameters."""
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24, growth_interval=3)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = loss_of(model, device)
        scaler.scale(loss).backward()
        largest = max(parameter.grad.abs().max().item() for parameter in model.parameters()) / scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        yield loss.item(), scaler.get_scale(), largest, [parameter.detach().cpu().clone() for parameter in model.parameters()]


def test_autocast_and_grad_scaler():
    """Step by step. The first scale is too large: steps are skipped until it is not, and again when it has grown. The
    activation is a smooth one: a unit of ReLU may be on with one rounding and off with another."""
    torch.manual_seed(1)
    model = Model(activation="gelu")
    on_cpu, on_npu = (list(train_in_half_precision(model, device, 10)) for device in ("cpu", "npu"))
    taken = [math.isfinite(largest) for _, _, largest, _ in on_cpu]
    assert taken.count(True) >= 4 and not taken[0] and taken.index(False, taken.index(True))
    assert [scale for _, scale, _, _ in on_npu] == [scale for _, scale, _, _ in on_cpu]
    rounding = 2.0**-11
    velocity = bound = 0.0
    for (loss, _, largest, parameters), (expected_loss, _, _, expected), step in zip(on_npu, on_cpu, taken):
        # Logits below 2 are rounded to half precision, behind layers that are.
        assert loss == pytest.approx(expected_loss, abs=4 * rounding)
        if step:
            # A gradient is wrong by some roundings of the largest ones, which it is summed up with; four allow for the
            # layers. What it changes goes on with the momentum.
            velocity = 0.9 * velocity + 4 * rounding * largest
            bound += 0.1 * velocity
        for one, other in zip(parameters, expected):
            torch.testing.assert_close(one, other, rtol=0, atol=bound)
    assert on_npu[-1][0] < on_npu[0][0] - 0.3


def test_autocast_computes_in_half_precision_and_an_infinite_gradient_skips_the_step(model):
    model = model.npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("npu", init_scale=2.0**10)
    with torch.autocast("npu", torch.float16):
        assert F.linear(torch.ones(2, 3, device="npu"), torch.ones(4, 3, device="npu")).dtype == torch.float16
        loss = loss_of(model, "npu")
    scaler.scale(loss).backward()
    before = model.head.weight.detach().clone()
    model.head.weight.grad[0, 0] = torch.inf
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**9 and torch.equal(model.head.weight.detach(), before)


def test_bfloat16_autocast(model):
    with torch.autocast("npu", torch.bfloat16):
        on_device = loss_of(copy.deepcopy(model).npu(), "npu").item()
    assert on_device == pytest.approx(loss_of(model, "cpu").item(), rel=0.02)


def test_save_and_load(model):
    model = model.npu()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "view": model.head.weight[0]}, file)
    for location, device in ((None, "npu"), ("cpu", "cpu"), ("npu:0", "npu")):
        file.seek(0)
        loaded = torch.load(file, map_location=location, weights_only=True)
        assert loaded["view"].device.type == device
        assert torch.equal(loaded["model"]["head.weight"].cpu(), model.head.weight.detach().cpu())
        assert loaded["view"].untyped_storage().data_ptr() == loaded["model"]["head.weight"].untyped_storage().data_ptr()


def test_data_loader_with_workers_and_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)
    total = sum((x.to("npu", non_blocking=True) * y.npu()[:, None]).sum().item() for x, y in loader)
    assert total == sum((x * y).sum().item() for x, y in data)


def test_threads():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        x = torch.full((20, 20), 1.0 + seed, device="npu", requires_grad=True)
        for _ in range(20):
            (x @ x).mean().backward()
        return x.grad.mean().item()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    # d mean(x x) / dx at a constant c: 2 c / 20 for each element; 20 times.
    assert results == pytest.approx([2.0 * (1 + seed) for seed in range(4)], rel=1e-5)
