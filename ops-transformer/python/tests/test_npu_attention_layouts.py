"""npu_fusion_attention, v2 and v3 in every layout and element type: output, statistics, gradients of query, key and value."""
import pytest
import torch
import torch_npu
from attention_reference import hidden_pairs
from npu_attention import COMPRESSED, DTYPES, LAYOUTS, Problem, call, check

# Packed sequences, one of them without rows, one of a single row, one without keys, and one longer than a block of rows.
PACKED = [(5, 9), (0, 3), (70, 133), (1, 64), (2, 0), (33, 33)]
DENSE = [(37, 53)] * 2


def lengths(layout, dense=DENSE):
    return PACKED if layout == "TND" else dense


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_forward_and_backward(layout, dtype, version):
    check(Problem(layout, dtype, lengths(layout)), version)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_causal(layout, dtype):
    """More keys than rows: the last row sees the last key."""
    sizes = [(5, 9), (70, 133), (1, 64)] if layout == "TND" else DENSE
    check(Problem(layout, dtype, sizes), sparse_mode=3, atten_mask=COMPRESSED,
          hidden=[hidden_pairs(3, *each) for each in sizes])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_narrower_than_keys(layout):
    check(Problem(layout, lengths=lengths(layout), dim=40, value_dim=24))


@pytest.mark.parametrize("heads, key_heads", [(1, 1), (6, 6), (6, 3), (6, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_of_heads(layout, heads, key_heads):
    check(Problem(layout, torch.float16, lengths(layout), heads, key_heads, dim=16))


@pytest.mark.parametrize("dim", [1, 3, 80, 128, 200])
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_head_dimensions(layout, dim):
    check(Problem(layout, torch.bfloat16, lengths(layout, [(9, 17)]), dim=dim))


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_lengths_around_blocks(layout):
    """Nothing has to be a multiple of anything."""
    for length in (1, 15, 16, 17, 127, 128, 129, 513):
        check(Problem(layout, lengths=[(length, length)], heads=2, key_heads=1, dim=32))


@pytest.mark.parametrize("scale", [-0.3, 0.0, 2.5])
def test_any_scale(scale):
    check(Problem(dtype=torch.float16, scale=scale))


def test_scores_of_hundreds():
    problem = Problem(dim=128)
    problem.sequences["query"] = [each * 40 for each in problem.sequences["query"]]
    check(problem)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_returned(version):
    """Without dropout seed and offset are 0 (version 3 leaves its tensors unwritten); the number of pairs is told anyway."""
    for layout, sizes in (("BNSD", DENSE), ("TND", [(5, 9), (33, 64)])):
        problem = Problem(layout, lengths=sizes)
        extra = problem.ends() if layout == "TND" else {}
        operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}
        results = call(version, operands, problem.heads, layout, **extra)
        assert len(results) == (6 if version == 3 else 7)
        if version == 3:
            assert all(tensor.dtype == torch.int64 and tensor.shape == (1,) for tensor in results[4:])
        else:
            assert results[4:] == (0, 0, sum(problem.pairs()))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_gradient_operators_called_directly(layout, version):
    """What a caller passes by hand is what autograd passes."""
    problem = Problem(layout, torch.float16, [(5, 9), (33, 64)] if layout == "TND" else DENSE)
    ends = problem.ends() if layout == "TND" else {}
    inputs = {name: problem.pack(each).npu().requires_grad_() for name, each in problem.sequences.items()}
    results = call(version, inputs, problem.heads, layout, scale=problem.scale, **ends)
    dy = problem.pack(problem.dy).npu()
    expected = torch.autograd.grad(results[0], list(inputs.values()), dy)
    if version == 3:
        ends = {name: torch.tensor(each) for name, each in ends.items()}
    gradients = getattr(torch_npu, f"npu_fusion_attention_grad{['', '_v2', '_v3'][version - 1]}")(
        *(tensor.detach() for tensor in inputs.values()), dy, problem.heads, layout, softmax_max=results[1].detach(),
        softmax_sum=results[2].detach(), softmax_in=results[3].detach(), attention_in=results[0].detach(),
        scale_value=problem.scale, **ends)
    assert len(gradients) == (7 if version == 2 else 5)
    assert all(torch.equal(*pair) for pair in zip(gradients, expected))


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shapes_without_computing(layout, version):
    """The wheel's meta kernels, which compiled code plans with, tell the shapes and types of the results."""
    problem = Problem(layout, torch.bfloat16, [(5, 9), (33, 64)] if layout == "TND" else DENSE, dim=40, value_dim=24)
    ends = problem.ends() if layout == "TND" else {}
    operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}
    real = call(version, operands, problem.heads, layout, **ends)
    planned = call(version, {name: tensor.to("meta") for name, tensor in operands.items()}, problem.heads, layout, **ends)
    for one, other in zip(real[:4], planned):
        assert one.shape == other.shape and one.dtype == other.dtype


@pytest.mark.parametrize("layout", ["bnsd", "Bsnd", "bsh", "sbH", "tnd"])
def test_lower_case_layouts(layout):
    problem = Problem(layout.upper(), lengths=[(7, 7)])
    extra = problem.ends() if layout == "tnd" else {}
    operands = {name: problem.pack(each).npu() for name, each in problem.sequences.items()}
    lower, upper = (call(1, operands, problem.heads, name, **extra) for name in (layout, layout.upper()))
    assert torch.equal(lower[0].cpu(), upper[0].cpu())


@pytest.mark.parametrize("sizes, heads", [([(0, 5)], 2), ([(4, 0)], 2), ([], 2)])
def test_nothing_to_attend_to(sizes, heads):
    """No rows, no keys, no batch: empty or zero results, gradients too."""
    rows, keys = sizes[0] if sizes else (4, 5)
    shapes = [(len(sizes), heads, length, 8) for length in (rows, keys, keys)]
    query, key, value = (torch.ones(shape).npu().requires_grad_() for shape in shapes)
    results = call(1, {"query": query, "key": key, "value": value}, heads, "BNSD")
    assert results[0].shape == query.shape and not results[0].cpu().any()
    for gradient, operand in zip(torch.autograd.grad(results[0], [query, key, value], torch.ones(shapes[0]).npu()),
                                 (query, key, value)):
        assert gradient.shape == operand.shape and not gradient.cpu().any()
