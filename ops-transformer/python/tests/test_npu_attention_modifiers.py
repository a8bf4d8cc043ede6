"""Bias, sink, rope parts and the order of the statistics, in every version that has them, with their gradients."""
import pytest
import torch
from attention_reference import hidden_pairs
from npu_attention import COMPRESSED, DTYPES, Problem, call, check

DENSE = [(37, 53)] * 2
PACKED = [(5, 9), (33, 70), (1, 4), (20, 20)]


def causal(problem):
    return {"sparse_mode": 3, "atten_mask": COMPRESSED, "hidden": [hidden_pairs(3, *each) for each in problem.lengths]}


# ---- bias ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batches, rows", [(2, 37), (1, 37), (2, 1), (1, 1)])
@pytest.mark.parametrize("version, pse_type", [(1, 1), (2, 1), (2, 0), (3, 1)])
def test_bias(version, pse_type, batches, rows, dtype):
    """Type 1, the only one of versions 1 and 3, is scaled with the score, type 0 is not."""
    problem = Problem("BNSD", dtype, DENSE)
    options = {"pse_type": pse_type} if version == 2 else {}
    check(problem, version, pse=problem.random(batches, problem.heads, rows, 53),
          bias=lambda pse: list(pse.expand(2, problem.heads, 37, 53)), **options, **causal(problem))


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND"])
def test_bias_in_other_layouts(layout):
    problem = Problem(layout, lengths=DENSE)
    check(problem, pse=problem.random(2, problem.heads, 37, 53), bias=list)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("version, pse_type", [(1, 1), (2, 1), (2, 0), (3, 1)])
def test_bias_of_packed_sequences(version, pse_type, dtype):
    """One flat array, a matrix for each head of each sequence."""
    problem = Problem("TND", dtype, PACKED)
    options = {"pse_type": pse_type} if version == 2 else {}
    check(problem, version, pse=problem.random(sum(problem.pairs())), bias=problem.matrices, **options, **causal(problem))


def distances(rows, keys, start, root):
    """-|j - i - start|, or minus its root: what a slope is multiplied by."""
    distance = (torch.arange(keys) - torch.arange(rows)[:, None] - start).abs().double()
    return -(distance.sqrt() if root else distance)


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
@pytest.mark.parametrize("starts", [None, (0, 3), (5, 0)])
@pytest.mark.parametrize("pse_type", [2, 3])
def test_slopes(pse_type, starts, shape):
    problem = Problem("BNSD", torch.float16, [(41, 41)] * 2)
    options = {"q_start_idx": [starts[0]], "kv_start_idx": [starts[1]]} if starts else {}
    distance = distances(41, 41, starts[0] - starts[1] if starts else 0, pse_type == 3)
    check(problem, 2, pse=torch.rand(shape, generator=problem.generator), pse_type=pse_type,
          bias=lambda slopes: list(slopes.expand(2, 4)[..., None, None] * distance), **options, **causal(problem))


def test_compressed_bias():
    """Of a bias that depends on the distance alone, the last 1024 rows tell everything."""
    length, heads = 1100, 2
    slopes = torch.tensor([0.05, 0.01])
    problem = Problem("BNSD", lengths=[(length, length)], heads=heads, key_heads=1, dim=16)
    full = slopes[:, None, None] * distances(length, length, 0, False)
    options = {"sparse_mode": 2, "atten_mask": COMPRESSED, "hidden": [hidden_pairs(2, length, length)]}
    check(problem, pse=full[None, :, -1024:].float(), bias=lambda pse: [full + 0 * pse.sum()], **options)


# ---- sink ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["BNSD", "BSH", "TND"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_sink(version, layout, dtype):
    problem = Problem(layout, dtype, PACKED if layout == "TND" else DENSE)
    # Far above the scores, far below, and between.
    check(problem, version, sink=torch.tensor([9.0, -20.0, 0.5, 1.5]), **causal(problem))


def test_sink_and_a_row_without_keys():
    problem = Problem(lengths=[(9, 5)])
    check(problem, sink=torch.randn(4, generator=problem.generator), **causal(problem))


# ---- rope ----


@pytest.mark.parametrize("rope_dim", [16, 32])
def test_rope(rope_dim):
    problem = Problem("TND", torch.bfloat16, PACKED, dim=32, rope_dim=rope_dim)
    check(problem, 2, **causal(problem))


def test_rope_with_values_narrower_than_keys():
    problem = Problem("TND", torch.bfloat16, PACKED, dim=32, rope_dim=16, value_dim=24)
    check(problem, 2, **causal(problem))


# ---- order of the statistics ----


@pytest.mark.parametrize("sink", [False, True], ids=["", "sink"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("version", [1, 3])
def test_statistics_in_token_order(version, dtype, sink):
    problem = Problem("TND", dtype, PACKED)
    options = {"sink": torch.randn(4, generator=problem.generator)} if sink else {}
    check(problem, version, softmax_layout="TND", token_order=True, **options, **causal(problem))


def test_statistics_of_version_2():
    """The wheel passes the wish on only when there is a sink."""
    problem = Problem("TND", lengths=PACKED)
    check(problem, 2, softmax_layout="TND", token_order=False)
    check(problem, 2, softmax_layout="TND", token_order=True, sink=torch.zeros(4))


# ---- together ----


def test_everything_at_once():
    problem = Problem("TND", torch.bfloat16, PACKED, heads=6, key_heads=2, dim=24, value_dim=20)
    check(problem, 2, pse=problem.random(sum(problem.pairs())), bias=problem.matrices, pse_type=0,
          sink=torch.randn(6, generator=problem.generator), softmax_layout="TND", token_order=True, **causal(problem))


@pytest.mark.parametrize("argument", ["scale", "pse", "sink", "atten_mask", "pre", "sparse_mode"])
def test_no_argument_is_ignored(argument):
    problem = Problem(lengths=[(20, 20)])
    operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}
    options = {"scale": 0.1, "pse": torch.zeros(1, 4, 20, 20), "sink": torch.zeros(4), "sparse_mode": 4, "pre": 15, "next": 3,
               "atten_mask": COMPRESSED}
    changed = {"scale": 0.2, "pse": torch.randn(1, 4, 20, 20, generator=problem.generator), "sink": torch.ones(4),
               "atten_mask": None, "pre": 4, "sparse_mode": 3}

    def out(options):
        options = {name: each.npu() if isinstance(each, torch.Tensor) else each for name, each in options.items()}
        return call(1, operands, 4, "BNSD", **options)[0].cpu()

    assert not torch.equal(out(options), out(options | {argument: changed[argument]}))
