"""Dropout in attention: the bits that a seed and an offset stand for, forward and backward, and who moves the generator."""
import pytest
import torch
import torch_npu
from attention_reference import hidden_pairs
from npu_attention import COMPRESSED, DTYPES, LAYOUTS, Problem, call, check

DENSE = [(33, 45)] * 2
PACKED = [(5, 9), (33, 70), (0, 3), (20, 20)]
KEEP = 0.8
# What the operator makes of KEEP; floats differ by it at one number in ten millions.
DROP = (torch.tensor(1.0) - torch.tensor(KEEP)).item()


def bits(tensor):
    """A packed mask as zeros and ones, least significant bit first."""
    return (tensor.cpu()[:, None] >> torch.arange(8) & 1).flatten()


def mask_of(problem, seed, offset, **switches):
    like = torch.empty(1, dtype=problem.dtype).npu()  # its type decides in which precision numbers are compared
    return torch_npu._npu_dropout_gen_mask(like, [sum(problem.pairs())], DROP, seed, offset, **switches)


def factors(problem, mask):
    """What each probability is multiplied by, a sequence an entry."""
    return problem.matrices(bits(mask).double() / KEEP)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_of_seed_and_offset(layout, dtype, version):
    problem = Problem(layout, dtype, PACKED if layout == "TND" else DENSE)
    torch.npu.manual_seed(7)
    for offset in (0, 12, 24):
        results = check(problem, version, keep=factors(problem, mask_of(problem, 7, offset)), keep_prob=KEEP)
        seed_and_offset = [each.item() for each in results[4:]] if version == 3 else list(results[4:6])
        assert seed_and_offset == [7, offset]
        assert version == 3 or results[6] == sum(problem.pairs())


def test_with_a_mask_and_a_bias():
    problem = Problem(dtype=torch.float16, lengths=DENSE)
    torch.npu.manual_seed(3)
    check(problem, keep=factors(problem, mask_of(problem, 3, 0)), keep_prob=KEEP, sparse_mode=3, atten_mask=COMPRESSED,
          hidden=[hidden_pairs(3, *each) for each in DENSE], pse=problem.random(1, 4, 33, 45),
          bias=lambda pse: list(pse.expand(2, 4, 33, 45)))


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_where_the_mask_is_made_makes_no_difference(layout):
    problem = Problem(layout, lengths=PACKED if layout == "TND" else DENSE)
    switches = [(parallel, sync) for parallel in (True, False) for sync in (True, False)]
    masks = [mask_of(problem, 5, 8, parallel=parallel, sync=sync).cpu() for parallel, sync in switches]
    assert all(torch.equal(mask, masks[0]) for mask in masks[1:])
    for parallel, sync in switches:
        torch.npu.manual_seed(5)
        check(problem, keep=factors(problem, mask_of(problem, 5, 0)), keep_prob=KEEP, gen_mask_parallel=parallel, sync=sync)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_state_of_the_generator(version):
    problem = Problem(lengths=DENSE)
    operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}

    def run(keep_prob=KEEP):
        return call(version, operands, 4, "BNSD", keep_prob=keep_prob)[0].cpu()

    torch.npu.manual_seed(11)
    first = run()
    state = torch.npu.get_rng_state()
    second = run()
    assert not torch.equal(first, second)
    torch.npu.set_rng_state(state)
    assert torch.equal(run(), second)
    torch.npu.manual_seed(11)
    assert torch.equal(run(), first)
    state = torch.npu.get_rng_state()
    run(keep_prob=1.0)
    assert torch.equal(torch.npu.get_rng_state(), state), "nothing is drawn without dropout"


@pytest.mark.parametrize("version", [1, 2])
def test_a_mask_of_the_caller(version):
    """Nothing is drawn then, and seed and offset of the caller are for the gradient, which makes the mask again."""
    problem = Problem(dtype=torch.float16, lengths=DENSE)
    torch.npu.manual_seed(1)
    state = torch.npu.get_rng_state()
    mask = mask_of(problem, 9, 24)
    operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}
    out = call(version, operands, 4, "BNSD", scale=problem.scale, keep_prob=KEEP, dropout_mask=mask, seed=9, offset=24)
    assert torch.equal(torch.npu.get_rng_state(), state)
    torch.npu.set_rng_state(torch.tensor([9, 24]).view(torch.uint8))
    drawn = call(version, operands, 4, "BNSD", scale=problem.scale, keep_prob=KEEP)
    assert all(torch.equal(*pair) for pair in zip(out[:3], drawn[:3])) and out[4:6] == (9, 24)
    for wrong in (mask[:-16], mask.bool()):
        with pytest.raises(RuntimeError, match="161002.*\n.*\n.*dropMaskOptional"):
            call(version, operands, 4, "BNSD", keep_prob=KEEP, dropout_mask=wrong, seed=9, offset=24)


def test_a_mask_of_ones_scales_only():
    """keep_prob so near to 1 that 16-bit types keep everything: what is left of dropout is its factor."""
    problem = Problem(dtype=torch.bfloat16, lengths=DENSE)
    keep_prob = 1 - 2.0**-12
    torch.npu.manual_seed(1)
    like = torch.empty(1, dtype=problem.dtype).npu()
    mask = torch_npu._npu_dropout_gen_mask(like, [sum(problem.pairs())], 1 - keep_prob, 1, 0)
    check(problem, keep=problem.matrices(bits(mask).double() / keep_prob), keep_prob=keep_prob)


def test_share_of_what_is_kept():
    problem = Problem(lengths=[(400, 400)], heads=4)
    share = bits(mask_of(problem, 2024, 0))[:sum(problem.pairs())].double().mean().item()
    # Standard deviation sqrt(0.8 * 0.2 / 640000) = 0.0005; six of them.
    assert abs(share - KEEP) < 0.003


# ---- the mask operators ----

# 128 bits each: seed, offset, drop probability and what the published generator gives.
KNOWN = {
    torch.float32: {(2, 0, 0.1): "fffbfb7fffffff93edff79eefefcffff", (2, 0, 0.5): "9b1ab91c341f9f938974212256301f75",
                    (0, 0, 0.1): "f7ffffff7ff7fffffffffffefffdefeb", (2, 12, 0.1): "ff7ddef7fefdffffffbbffffefffeff7"},
    torch.float16: {(2, 0, 0.1): "ffefffffffdfffbbffdbfdffffffbfff", (2, 0, 0.5): "2bcf45d2d59b04132f19f5cfc472aae3"},
    torch.bfloat16: {(2, 0, 0.1): "7f7fbf9dddfeeb7bffff67ffffffffff", (2, 0, 0.5): "2f072e1459440912f42d6484da77d985"},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_known_masks(dtype):
    like = torch.empty(1, dtype=dtype).npu()
    for (seed, offset, drop), expected in KNOWN[dtype].items():
        mask = torch_npu._npu_dropout_gen_mask(like, [128], drop, seed, offset)
        assert mask.dtype == torch.uint8 and bytes(mask.cpu().tolist()).hex() == expected


def test_size_of_a_mask():
    like = torch.empty(1).npu()
    for size in ([1], [128], [129], [3, 5, 77], [0]):
        numel = torch.Size(size).numel()
        mask = torch_npu._npu_dropout_gen_mask(like, size, 0.5, 1, 2)
        assert mask.shape == (-(-numel // 128) * 16,) and mask.device.type == "npu"
    for drop, byte in ((0.0, 255), (1.0, 0)):
        assert (torch_npu._npu_dropout_gen_mask(like, [200], drop, 1, 2).cpu() == byte).all()


def test_mask_of_the_generator():
    """npu_dropout_gen_mask takes seed and offset from the generator and moves it."""
    like = torch.empty(1).npu()
    torch.npu.manual_seed(2)
    masks = [torch_npu.npu_dropout_gen_mask([128], 0.1, dtype=torch.float32, device="npu").cpu() for _ in range(2)]
    assert bytes(masks[0].tolist()).hex() == KNOWN[torch.float32][2, 0, 0.1]
    assert torch.equal(masks[1], torch_npu._npu_dropout_gen_mask(like, [128], 0.1, 2, 12).cpu())
