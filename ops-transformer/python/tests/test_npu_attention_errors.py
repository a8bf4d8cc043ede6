"""Wrong calls: the sentence in the exception, the wheel's or ours, and a process that works on as if nothing had been."""
import functools

import pytest
import torch
import torch_npu
from npu_attention import COMPRESSED, Problem, call

VERSIONS = [1, 2, 3]


def operands(layout="BNSD", lengths=((9, 9),), **options):
    problem = Problem(layout, lengths=lengths, **options)
    return {name: problem.pack(each).npu() for name, each in problem.sequences.items()}


good = functools.cache(operands)
packed = functools.cache(lambda: operands("TND", ((4, 4), (5, 5))))
ENDS = {"actual_seq_qlen": [4, 9], "actual_seq_kvlen": [4, 9]}


def good_call():
    return [result.cpu() for result in call(1, good(), 4, "BNSD", scale=0.125)[:3]]


@pytest.fixture(autouse=True)
def works_on():
    """The same call before and after has the same result."""
    before = good_call()
    yield
    torch.npu.synchronize()
    assert all(torch.equal(*pair) for pair in zip(before, good_call()))


def refused(*fragments, function):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        function()
    text = str(caught.value)
    for fragment in fragments:
        assert fragment in text, f"{fragment!r} is not in: {text}"
    return text


# ---- what the wheel refuses ----


def attention(version, tensors=None, heads=4, layout="BNSD", **options):
    return lambda: call(version, tensors if tensors is not None else good(), heads, layout, **options)


def flat(name):
    """The operands, one of them with two dimensions."""
    return good() | {name: good()[name].flatten(0, 2)}


WHEEL = {
    **{f"{name} of two dimensions": (lambda version, name=name: attention(version, flat(name)),
                                     f"The shapes of the input {name} should be 3 or 4 dimensional, but got 2-dimensional")
       for name in ("query", "key", "value")},
    "keep_prob 0": (lambda version: attention(version, keep_prob=0.0),
                    "The keep_prob value must be in range of (0, 1], but got 0"),
    "keep_prob above 1": (lambda version: attention(version, keep_prob=1.5),
                          "The keep_prob value must be in range of (0, 1], but got 1.5"),
    "sparse_mode 9": (lambda version: attention(version, sparse_mode=9),
                      "The sparse_mode value must be in range of [0,6], but got 9"),
    "sparse_mode -1": (lambda version: attention(version, sparse_mode=-1),
                       "The sparse_mode value must be in range of [0,6], but got -1"),
    "sparse_mode 5, packed": (lambda version: attention(version, packed(), layout="TND", sparse_mode=5, **ENDS),
                              "The sparse_mode value must be in range of [0,5) or (5,8], but got 5"),
    "no heads": (lambda version: attention(version, heads=0), "head_num must > 0, but got 0"),
    "no layout": (lambda version: attention(version, layout=""), "input_layout is empty"),
    "unknown layout": (lambda version: attention(version, layout="XYZ"),
                       "The input_layout should be BSH/SBH/BNSD/BSND/TND(case-insensitive), but got XYZ"),
    "no lengths": (lambda version: attention(version, packed(), layout="TND"),
                   "the size of actual_seq_qlen and actual_seq_kvlen must be the same and cannot be empty."),
    "lists of different lengths": (
        lambda version: attention(version, packed(), layout="TND", actual_seq_qlen=[4, 9], actual_seq_kvlen=[9]),
        "the size of actual_seq_qlen and actual_seq_kvlen must be the same and cannot be empty."),
    "a mask on the CPU": (lambda version: attention(version, atten_mask=COMPRESSED, sparse_mode=3),
                          # Version 3 does not say which.
                          "Expected all tensors to be on the same device"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", WHEEL)
def test_texts_of_the_wheel(case, version):
    make, text = WHEEL[case]
    refused(text, function=make(version))


@pytest.mark.parametrize("version", [1, 3])
def test_order_of_statistics(version):
    refused("softmax_layout=TND only supported when input_layout_str=TND", function=attention(version, softmax_layout="TND"))
    refused("only supported softmax_layout=TND",
            function=attention(version, packed(), layout="TND", softmax_layout="SBH", **ENDS))


def test_drop_probability():
    like = torch.ones(1).npu()
    for function in (lambda: torch_npu._npu_dropout_gen_mask(like, [64], 1.5, 1, 2),
                     lambda: torch_npu.npu_dropout_gen_mask([64], -0.5, dtype=torch.float32, device="npu")):
        refused("dropout probability has to be between 0 and 1, but got", function=function)


@pytest.mark.parametrize("name, function", [
    ("PromptFlashAttention", lambda: torch_npu.npu_prompt_flash_attention(*good().values(), num_heads=4)),
    ("IncreFlashAttention", lambda: torch_npu.npu_incre_flash_attention(*good().values(), num_heads=4)),
])
def test_operators_that_are_not_here(name, function):
    refused(f"aclnn{name}", "not in libopapi.so", function=function)


# ---- what our operators refuse, in their first phase ----


def mask(*shape, dtype=torch.bool):
    return torch.zeros(*shape, dtype=dtype).npu()


DIM, ROWS = 64, 9
OURS = {
    "head dimension": (lambda: attention(1, operands(dim=769)), ["head dimension 769 exceeds 768"]),
    "value wider than key": (lambda: attention(1, operands(dim=16, value_dim=24)), ["value", "24", "16"]),
    "head_num of another query": (lambda: attention(1, heads=8), ["headNum is 8", "4"]),
    "heads that are no multiple": (lambda: attention(1, operands(heads=4, key_heads=3)), ["4 heads", "3"]),
    "types": (lambda: attention(1, good() | {"key": good()["key"].half()}), ["same dtype", "FLOAT, FLOAT16, FLOAT"]),
    "type": (lambda: attention(1, {name: each.double() for name, each in good().items()}), ["query dtype DOUBLE"]),
    "dimensions": (lambda: attention(1, layout="BSH"), ["query", '"BSH"', "3"]),
    "lengths of key and value": (lambda: attention(1, good() | {"value": good()["value"][:, :, :5]}), ["key", "value", "5"]),
    "a mask of floats": (lambda: attention(1, atten_mask=mask(ROWS, ROWS, dtype=torch.float32)),
                         ["attenMaskOptional dtype FLOAT"]),
    "a mask of three dimensions": (lambda: attention(1, atten_mask=mask(1, ROWS, ROWS)),
                                   ["attenMaskOptional", "2 or 4 dimensions"]),
    "a padding mask": (lambda: attention(1, atten_mask=mask(1, 1, 1, ROWS)), ["attenMaskOptional shape [1, 1, 1, 9]"]),
    "a full mask for a mode": (lambda: attention(1, atten_mask=mask(ROWS, ROWS), sparse_mode=3),
                               ["sparseMode 3", "[2048, 2048]", "[9, 9]"]),
    "a window without keys": (lambda: attention(1, atten_mask=mask(2048, 2048), sparse_mode=4, pre=-4, next=2),
                              ["preTokens -4", "nextTokens 2"]),
    "type of a bias": (lambda: attention(1, pse=torch.zeros(1, 4, ROWS, ROWS).half().npu()),
                       ["realShiftOptional dtype FLOAT16"]),
    "shape of a bias": (lambda: attention(1, pse=torch.zeros(1, 1, ROWS, ROWS).npu()),
                        ["realShiftOptional shape [1, 1, 9, 9]"]),
    "kind of a bias": (lambda: attention(2, pse=torch.zeros(1, 4, ROWS, ROWS).npu(), pse_type=4), ["pseType 4"]),
    "slopes that are missing": (lambda: attention(2, pse_type=2), ["realShiftOptional", "pseType is 2"]),
    "sink": (lambda: attention(1, sink=torch.zeros(3).npu()), ["sinkOptional", "[4]", "[3]"]),
    "prefix": (lambda: attention(1, atten_mask=mask(3072, 2048), sparse_mode=6, prefix=[10]), ["prefixOptional[0] is 10"]),
    "lengths that decrease": (lambda: attention(1, packed(), layout="TND", actual_seq_qlen=[9, 4], actual_seq_kvlen=[4, 9]),
                              ["actualSeqQLenOptional", "4 after 9"]),
    "more than all tokens": (lambda: attention(1, packed(), layout="TND", actual_seq_qlen=[4, 12], actual_seq_kvlen=[4, 9]),
                             ["query is 9", "12"]),
}


@pytest.mark.parametrize("case", OURS)
def test_first_phase(case):
    make, fragments = OURS[case]
    refused("161002", "EZ1001", "aclnnFlashAttention", *fragments, function=make())


def test_first_phase_of_a_gradient():
    results = call(1, good(), 4, "BNSD")
    dy, (out, largest, total) = torch.ones(results[0].shape).npu(), results[:3]

    def gradient(**changed):
        arguments = {"softmax_max": largest, "softmax_sum": total, "attention_in": out} | changed
        return lambda: torch_npu.npu_fusion_attention_grad(*good().values(), dy, 4, "BNSD", **arguments)

    refused("161002", "softmaxMaxOptional", "[1, 4, 9, 8]", function=gradient(softmax_max=largest[:, :, :5]))
    refused("161001", "attentionInOptional cannot be nullptr", function=gradient(attention_in=None))
    refused("161001", "softmaxSumOptional cannot be nullptr", function=gradient(softmax_sum=None))
    refused("161002", "dropMaskOptional", "keepProb", function=gradient(keep_prob=0.5, numels=0))


def test_an_error_in_a_backward_pass():
    """It is raised on another thread than the one that called backward()."""
    query = good()["query"].clone().requires_grad_()
    out = call(1, good() | {"query": query}, 4, "BNSD")[0]

    class Refused(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.view_as(x)

        @staticmethod
        def backward(context, gradient):
            call(1, good(), 8, "BNSD")
            return gradient

    with pytest.raises(RuntimeError, match="headNum is 8"):
        Refused.apply(out).sum().backward()
    out.sum().backward()
    assert query.grad.cpu().abs().sum() > 0


# ---- what they refuse in their second phase, when device memory can be read ----


@pytest.mark.parametrize("ends", [[0, 3, 99], [0, 5, 3, 9], [4, 8]])
def test_second_phase(ends):
    out, statistic = torch.ones(9, 2, 8).npu(), torch.ones(9, 2, 8).npu()
    part = (out, statistic, statistic)
    refused("561000", "EZ9999", "actualSeqQlenOptional", function=lambda: torch_npu.npu_ring_attention_update(
        *part, *part, actual_seq_qlen=torch.tensor(ends).npu(), input_layout="TND"))


def test_ring_update():
    out, statistic = torch.ones(9, 2, 8).npu(), torch.ones(9, 2, 8).npu()
    part, shorter = (out, statistic, statistic), (out[:5], statistic, statistic)

    def update(previous, current, **options):
        return lambda: torch_npu.npu_ring_attention_update(*previous, *current, **options)

    refused("actual_seq_qlen is required when input_layout is 'TND'.", function=update(part, part, input_layout="TND"))
    refused("input_layout", "BSH", function=update(part, part, input_layout="BSH"))
    refused("softmax tensors must be 4D when input_layout is 'SBH'.", function=update(part, part))
    refused("prev_attn_out and cur_attn_out must have the same shape.",
            function=update(part, shorter, input_layout="TND", actual_seq_qlen=torch.tensor([0, 9]).npu()))
