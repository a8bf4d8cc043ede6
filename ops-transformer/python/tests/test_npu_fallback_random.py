"""Random numbers on npu tensors come from the npu generator: seeds, states and streams of numbers behave as on the device."""
import pytest
import torch
import torch.nn.functional as F

DRAWS = {
    "randn": lambda **to: torch.randn(8, 8, **to),
    "rand": lambda **to: torch.rand(8, 8, **to),
    "randint": lambda **to: torch.randint(0, 100, (50,), **to),
    "randperm": lambda **to: torch.randperm(50, **to),
    "normal_": lambda **to: torch.empty(20, **to).normal_(2, 3),
    "uniform_": lambda **to: torch.empty(20, **to).uniform_(-1, 1),
    "exponential_": lambda **to: torch.empty(20, **to).exponential_(),
    "bernoulli": lambda **to: torch.bernoulli(torch.full((50,), 0.5, **to)),
    "multinomial": lambda **to: torch.multinomial(torch.arange(1.0, 9, **to), 20, replacement=True),
    "rand_like": lambda **to: torch.rand_like(torch.ones(20, **to)),
    "dropout": lambda **to: F.dropout(torch.ones(50, **to), 0.3),
    "feature dropout": lambda **to: F.dropout2d(torch.ones(5, 9, 2, 2, **to), 0.3),
    "rrelu": lambda **to: F.rrelu(-torch.ones(50, **to), training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_first_numbers_after_a_seed_are_those_of_the_cpu(name, same):
    torch.manual_seed(11)
    expected = DRAWS[name](device="cpu")
    torch.manual_seed(11)
    same(DRAWS[name](device="npu"), expected)


@pytest.mark.parametrize("name", DRAWS)
def test_states_and_streams(name):
    draw = DRAWS[name]
    torch.npu.manual_seed(3)
    first, second = draw(device="npu"), draw(device="npu")
    assert not torch.equal(first, second)
    state = torch.npu.get_rng_state()
    third = draw(device="npu")
    torch.rand(5)  # the CPU's numbers are another stream
    torch.npu.set_rng_state(state)
    assert torch.equal(draw(device="npu"), third)
    torch.npu.manual_seed(3)
    assert torch.equal(draw(device="npu"), first)


@pytest.mark.parametrize("name", DRAWS)
def test_the_cpu_generator_is_left_alone(name):
    before = torch.get_rng_state()
    DRAWS[name](device="npu")
    assert torch.equal(torch.get_rng_state(), before)


def test_generator_argument():
    one, other = (torch.Generator(device="npu").manual_seed(7) for _ in range(2))
    assert torch.equal(torch.randn(9, generator=one, device="npu"), torch.randn(9, generator=other, device="npu"))
    torch.randn(9, device="npu")
    assert torch.equal(torch.randperm(9, generator=one, device="npu"), torch.randperm(9, generator=other, device="npu"))


def test_dropout_drops_its_share_and_scales_the_rest():
    result = F.dropout(torch.ones(100000, device="npu"), 0.25)
    # Standard deviation of the share: sqrt(0.25 * 0.75 / 100000) = 0.0014; six of them.
    assert abs((result == 0).float().mean().item() - 0.25) < 0.0084
    assert result[result != 0].unique().tolist() == pytest.approx([1 / 0.75])
    assert torch.equal(F.dropout(result, 0.5, training=False), result)
    assert not F.dropout(result, 1.0).any()
