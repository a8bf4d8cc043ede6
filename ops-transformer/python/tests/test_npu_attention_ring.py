"""Ring attention: parts of the keys, merged by npu_ring_attention_update, and gradients of the parts that add up."""
import pytest
import torch
import torch_npu
from attention_reference import LARGEST, assert_within, hidden_pairs, rounded
from npu_attention import DTYPES, Problem, call, check_results, expected_gradients, reference

PARTS = 3
DENSE = [(33, 96)] * 2
PACKED = [(7, 30), (33, 96), (1, 9)]


def parts_of(problem):
    """The problem with a third of the keys of each sequence, three times."""
    for index in range(PARTS):
        part = Problem(problem.layout, problem.dtype, [(rows, keys // PARTS) for rows, keys in problem.lengths], problem.heads,
                       problem.key_heads, problem.dim, scale=problem.scale)
        part.sequences = {"query": problem.sequences["query"]} | {
            name: [each.chunk(PARTS, 1)[index] for each in problem.sequences[name]] for name in ("key", "value")}
        yield part


def operands_of(problem):
    return {name: problem.pack(each).npu() for name, each in problem.sequences.items()}


def ends_of(problem):
    return problem.ends() if problem.layout == "TND" else {}


def attend(problem, **options):
    return call(1, operands_of(problem), problem.heads, problem.layout, scale=problem.scale, **ends_of(problem), **options)


def merge(problem, previous, current, softmax_layout=""):
    extra = {}
    if problem.layout == "TND":
        extra = {"actual_seq_qlen": torch.tensor([0, *problem.ends()["actual_seq_qlen"]]).npu(),
                 "input_softmax_layout": softmax_layout}
    return torch_npu.npu_ring_attention_update(*previous, *current, input_layout=problem.layout, **extra)


def run_ring(problem, softmax_layout=""):
    merged = None
    for part in parts_of(problem):
        results = attend(part, softmax_layout=softmax_layout)[:3]
        merged = results if merged is None else merge(problem, merged, results, softmax_layout)
    return merged


def check_ring(problem, parts, results, token_order=False):
    """Each update rounds a result once more, to the type of the output."""
    reserved = torch.empty(0, dtype=problem.dtype).npu()
    check_results(problem, (*results, reserved), parts, token_order, steps=PARTS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_parts_make_the_whole(layout, dtype):
    problem = Problem(layout, dtype, PACKED if layout == "TND" else DENSE)
    check_ring(problem, reference(problem)[0], run_ring(problem))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_statistics_in_token_order(dtype):
    problem = Problem("TND", dtype, PACKED)
    check_ring(problem, reference(problem)[0], run_ring(problem, "TND"), token_order=True)


def test_lengths_without_a_leading_zero():
    problem = Problem("TND", lengths=PACKED)
    first, second = (attend(part)[:3] for part in list(parts_of(problem))[:2])
    ends = torch.tensor(problem.ends()["actual_seq_qlen"]).npu()
    for one, other in zip(torch_npu.npu_ring_attention_update(*first, *second, input_layout="TND", actual_seq_qlen=ends),
                          merge(problem, first, second)):
        assert torch.equal(one.cpu(), other.cpu())


def test_parts_that_a_row_does_not_see():
    """Causal parts: the first rows see nothing of later keys, whose part counts for nothing."""
    problem = Problem("SBH", lengths=[(32, 32)], heads=2, key_heads=2)
    merged = None
    for index in range(2):
        part = Problem("SBH", lengths=[(32, 16)], heads=2, key_heads=2, scale=problem.scale)
        part.sequences = {"query": problem.sequences["query"]} | {
            name: [each.chunk(2, 1)[index] for each in problem.sequences[name]] for name in ("key", "value")}
        hidden = hidden_pairs(2, 32, 32)[:, index * 16:index * 16 + 16]
        results = attend(part, atten_mask=hidden.npu(), sparse_mode=1)[:3]
        merged = results if merged is None else merge(problem, merged, results)
    check_ring(problem, reference(problem, [hidden_pairs(2, 32, 32)])[0], merged)
    nothing = [torch.zeros(2, 1, 4).npu(), torch.full((1, 2, 2, 8), -LARGEST).npu(), torch.full((1, 2, 2, 8), LARGEST).npu()]
    for one, other in zip(merge(problem, nothing, nothing), nothing):
        assert torch.equal(one.cpu(), other.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_gradients_of_a_ring(layout, dtype):
    """The gradient operator, given a part of the keys with output and statistics of the whole, adds its share."""
    problem = Problem(layout, dtype, PACKED if layout == "TND" else DENSE)
    parts, leaves, _ = reference(problem)
    merged = run_ring(problem)
    dy = problem.pack(problem.dy).npu()
    shares = []
    for part in parts_of(problem):
        operands = operands_of(part)
        shares.append([gradient.cpu().double() for gradient in torch_npu.npu_fusion_attention_grad(
            *operands.values(), dy, problem.heads, layout, softmax_max=merged[1], softmax_sum=merged[2],
            attention_in=merged[0], scale_value=problem.scale, **ends_of(part))[:3]])
    expected = expected_gradients(problem, parts, leaves, None, problem.dy)
    query = sum(share[0] for share in shares)
    # Every share of the gradient of the queries is rounded to the type, none of those of keys and values is a sum.
    bound = PARTS * rounded(expected["query"][1], sum(share[0].abs() for share in shares), dtype)
    assert_within("gradient of query", query, expected["query"][0], bound)
    for index, name in ((1, "key"), (2, "value")):
        wanted, bound = expected[name]
        whole = join_keys(problem, [share[index] for share in shares])
        assert_within(f"gradient of {name}", whole, wanted, PARTS * rounded(bound, wanted, dtype))


def join_keys(problem, shares):
    """One tensor of the keys of all parts."""
    if problem.layout == "SBH":
        return torch.cat(shares)
    lengths = [keys // PARTS for _, keys in problem.lengths]
    return torch.cat([piece for pieces in zip(*(share.split(lengths) for share in shares)) for piece in pieces])


def test_inputs_keep_their_numbers():
    problem = Problem("SBH", lengths=DENSE)
    first, second = (attend(part)[:3] for part in list(parts_of(problem))[:2])
    before = [tensor.cpu() for tensor in first]
    results = merge(problem, first, second)
    assert all(torch.equal(tensor.cpu(), old) for tensor, old in zip(first, before))
    assert not {tensor.data_ptr() for tensor in results} & {tensor.data_ptr() for tensor in (*first, *second)}
