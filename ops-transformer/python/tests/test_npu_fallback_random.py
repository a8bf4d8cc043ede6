"""Random numbers on npu tensors come from the npu generator: seeds, states and streams of numbers behave as on the device."""
import pytest
import torch
import torch.nn.functional as F

DRAWS = {
    "randn": lambda **to: torch.randn(8, 8, **to),
    "rand": lambda **to: torch.rand(8, 8, **to),
    "randint": lambda **to: torch.randint(100, (50,), **to),
    "randint with a lower bound": lambda **to: torch.randint(-7, 100, (5, 10), **to),
    "rand of another type": lambda **to: torch.rand(8, 8, dtype=torch.float16, **to),
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


def test_numbers_follow_from_seed_and_offset_alone():
    """Whatever was drawn before, by whichever thread, and with a generator that was only just made."""
    from concurrent.futures import ThreadPoolExecutor

    generator = torch.Generator(device="npu").manual_seed(5)
    draw = lambda generator: torch.rand(700, generator=generator, device="npu")
    torch.randn(3, generator=generator, device="npu")
    assert generator.get_offset() == 4
    expected = draw(generator)
    assert generator.get_offset() == 8
    generator.manual_seed(5)
    torch.randperm(5000, generator=generator, device="npu")
    torch.randn(999, device="npu")
    assert torch.equal(draw(generator), expected)
    other = torch.Generator(device="npu").manual_seed(5)
    other.set_offset(4)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(draw, other).result(), expected)
    other.set_offset(8)
    assert not torch.equal(draw(other), expected)


@pytest.mark.parametrize("states", [[(seed, 4) for seed in range(2000)], [(7, 4 * call) for call in range(1, 2001)]],
                         ids=["neighbouring seeds", "neighbouring calls"])
def test_calls_are_unrelated(states):
    """The first numbers of calls whose seed or offset differ by one step: even over the interval, and not correlated."""
    generator = torch.Generator(device="npu")
    rows = []
    for seed, offset in states:
        generator.manual_seed(seed)
        generator.set_offset(offset)
        rows.append(torch.rand(1300, generator=generator, device="npu").cpu())  # also behind the first 624 words
    numbers = torch.stack(rows).double()
    for column in (0, 1, 311, 623, 624, 1299):
        one, next_one = numbers[:-1, column] - 0.5, numbers[1:, column] - 0.5
        # Standard deviations: of a mean of 2000 uniform numbers sqrt(1/12/2000) = 0.0065, of a coefficient of
        # correlation 1/sqrt(2000) = 0.022, of a count of 2000/16 = 125: 11. Five of them.
        assert abs(one.mean()) < 0.033
        assert abs((one * next_one).mean() * 12) < 0.11
        counts = torch.bincount((numbers[:, column] * 16).long(), minlength=16)
        assert (counts - 125).abs().max() < 55
    within = (numbers[:, :-1] - 0.5) * (numbers[:, 1:] - 0.5) * 12
    assert abs(within.mean()) < 5 / within.numel() ** 0.5
