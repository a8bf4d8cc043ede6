"""Every sparse mode of npu_fusion_attention, and every shape and type of a mask."""
import pytest
import torch
from attention_reference import LARGEST, hidden_pairs
from npu_attention import COMPRESSED, COMPRESSED_PREFIX, DTYPES, Problem, call, check, statistic_sequences

MORE_KEYS, MORE_ROWS, SQUARE = (37, 53), (53, 37), (41, 41)
SHAPES = [MORE_KEYS, MORE_ROWS, SQUARE]


def hide(problem, mode, *, prefix=None, **window):
    return [hidden_pairs(mode, *lengths, prefix=prefix[b] if prefix else 0, **window)
            for b, lengths in enumerate(problem.lengths)]


# Mode, window and lists of prefixes that are legal for all shapes above.
COMPRESSED_MODES = [(2, {}), (3, {}), (4, {"pre": 20, "next": 0}), (4, {"pre": 30, "next": 17}),
                    (4, {"pre": 2**31 - 1, "next": 40}), (4, {"pre": 0, "next": 0})]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode, window", COMPRESSED_MODES, ids=str)
def test_compressed_masks(mode, window, version):
    for lengths in SHAPES:
        problem = Problem("BSND", torch.float16, [lengths] * 2)
        check(problem, version, hidden=hide(problem, mode, **window), sparse_mode=mode, atten_mask=COMPRESSED, **window)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", ["pairs", "one matrix", "a matrix a batch", "a matrix a head"])
@pytest.mark.parametrize("mode", [0, 1])
def test_shapes_of_full_masks(mode, shape, dtype):
    problem = Problem(lengths=[MORE_KEYS] * 3)
    leading = {"pairs": (), "one matrix": (1, 1), "a matrix a batch": (3, 1), "a matrix a head": (3, 4)}[shape]
    mask = torch.rand(*leading, *MORE_KEYS, generator=problem.generator) < 0.4
    mask[..., 5, :] = True  # a row that sees nothing
    hidden = list(mask) if len(leading) and leading[0] == 3 else [mask.view(MORE_KEYS)] * 3
    results = check(problem, sparse_mode=mode, atten_mask=mask.to(dtype), hidden=hidden)
    assert not results[0].cpu()[:, :, 5].any()
    for statistic, value in zip(results[1:3], (-LARGEST, LARGEST)):
        assert all((each[:, 5] == value).all() for each in statistic_sequences(statistic, problem))


WINDOWS = [{"pre": 9, "next": 4}, {"pre": 64, "next": 0}, {"pre": 20, "next": -3}, {"pre": -3, "next": 20}]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_window_of_mode_0(window):
    """Mask and window describe the same region, as the operator demands; it counts from the first row and key."""
    for lengths in SHAPES:
        problem = Problem("SBH", torch.bfloat16, [lengths])
        mask = hidden_pairs(0, *lengths, mask=torch.tensor(False), **window)
        check(problem, sparse_mode=0, atten_mask=mask, hidden=[mask], **window)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_mask_means_no_window(version):
    check(Problem(), version, sparse_mode=3, pre=3, next=0)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", [5, 6])
def test_prefixes(mode, version):
    for lengths, prefix in ((MORE_KEYS, [20, 53]), (MORE_ROWS, [0, 11]), (SQUARE, [4, 5])):
        problem = Problem("BNSD", torch.float32, [lengths] * 2)
        mask = torch.zeros(2, 1, *lengths, dtype=torch.bool)
        for b, matrix in enumerate(mask):
            matrix |= hidden_pairs(6, *lengths, prefix=prefix[b])
        check(problem, version, hidden=hide(problem, 6, prefix=prefix), sparse_mode=mode, prefix=prefix,
              atten_mask=mask if mode == 5 else COMPRESSED_PREFIX)


# ---- packed sequences ----

PACKED = [(5, 9), (0, 3), (33, 70), (1, 1), (20, 20)]


def packed_mask(problem, masks, whole):
    """The full mask of a packed call: of the longest lengths, its first part for each, or of all tokens at once."""
    if whole:
        return torch.block_diag(*masks).bool()
    rows, keys = (max(each) for each in zip(*problem.lengths))
    mask = torch.zeros(rows, keys, dtype=torch.bool)
    for each in masks:
        mask[:each.shape[0], :each.shape[1]] |= each
    return mask


@pytest.mark.parametrize("whole", [False, True], ids=["longest", "all tokens"])
@pytest.mark.parametrize("mode", [0, 1])
def test_full_masks_of_packed_sequences(mode, whole):
    problem = Problem("TND", lengths=PACKED)
    longest = torch.rand(33, 70, generator=problem.generator) < 0.3
    masks = [longest[:rows, :keys] for rows, keys in PACKED]
    check(problem, sparse_mode=mode, atten_mask=packed_mask(problem, masks, whole), hidden=masks)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode, window", [(2, {}), (3, {}), (4, {"pre": 6, "next": 0}), (4, {"pre": 2, "next": 3})], ids=str)
def test_compressed_masks_of_packed_sequences(mode, window, dtype, version):
    problem = Problem("TND", dtype, PACKED)
    check(problem, version, hidden=hide(problem, mode, **window), sparse_mode=mode, atten_mask=COMPRESSED, **window)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_prefixes_of_packed_sequences(version):
    prefix = [4, 3, 50, 1, 7]
    problem = Problem("TND", lengths=PACKED)
    check(problem, version, hidden=hide(problem, 6, prefix=prefix), sparse_mode=6, prefix=prefix,
          atten_mask=COMPRESSED_PREFIX)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode, band, window", [(7, -1, {"pre": 30, "next": -2}), (8, 0, {"pre": 30, "next": 1})])
def test_split_packed_sequences(mode, band, window, version):
    """Only the sequence where the rows were cut is a band: the last one in mode 7, the first one in mode 8."""
    problem = Problem("TND", lengths=[(3, 6), (7, 9), (5, 12)] if mode == 7 else [(3, 4), (5, 5), (4, 4)])
    hidden = hide(problem, 3 if mode == 7 else 2)
    hidden[band] = hidden_pairs(4, *problem.lengths[band], **window)
    check(problem, version, hidden=hidden, sparse_mode=mode, atten_mask=COMPRESSED, **window)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_behind_the_last_sequence(version):
    """Padding, which trailing zeros in the lists announce, is no sequence: its results and gradients are 0."""
    problem = Problem("TND", lengths=[(5, 9), (12, 20)])
    ends = {name: each + [0] for name, each in problem.ends().items()}
    padding = 6
    operands = {name: torch.cat([problem.pack(each), torch.full((padding, *problem.pack(each).shape[1:]), 3.0)])
                for name, each in problem.sequences.items()}
    inputs = {name: tensor.npu().requires_grad_() for name, tensor in operands.items()}
    out = call(version, inputs, problem.heads, "TND", scale=problem.scale, **ends)[0]
    alone = call(version, {name: problem.pack(each).npu() for name, each in problem.sequences.items()}, problem.heads, "TND",
                 scale=problem.scale, **problem.ends())[0]
    assert torch.equal(out[:-padding].cpu(), alone.cpu()) and not out[-padding:].cpu().any()
    for gradient in torch.autograd.grad(out, list(inputs.values()), torch.ones(out.shape).npu()):
        assert not gradient[-padding:].cpu().any() and gradient[:-padding].cpu().any()
