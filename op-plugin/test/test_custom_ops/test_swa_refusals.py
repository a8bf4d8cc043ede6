"""What swa_forward and swa_backward refuse, and that the process works on after it."""

import pytest
import torch
import torch_npu
from swa_case import DENSE, Case, check, lengths

BAD_MODES = [1, 2, 3, 5, 6, 7, 8, -1, 9]


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
@pytest.mark.parametrize("mode", BAD_MODES)
def test_other_modes_are_refused(layout, mode):
    case = Case(layout, **lengths(layout))
    results = case.forward()
    for call in (lambda: case.forward(sparse_mode=mode), lambda: case.backward(results, sparse_mode=mode)):
        with pytest.raises(RuntimeError) as error:
            call()
        first, second = str(error.value).split("\n")[:2]
        assert first == f"The sparse_mode value should be 0 or 4, but got {mode}"
        assert second.startswith("[ERROR] ") and second.endswith("ERR01001 OPS invalid parameter")
    assert torch.equal(case.forward()[0].cpu(), results[0].cpu())


def test_a_long_batch_does_not_save_a_wrong_mode():
    case = Case("TND", (16385,), (16,), heads=1, kv_heads=1)
    with pytest.raises(RuntimeError, match="The sparse_mode value should be 0 or 4, but got 3"):
        case.forward(sparse_mode=3)


SHARED_REFUSALS = {
    "keep_prob 0": {"keep_prob": 0.0},
    "keep_prob above 1": {"keep_prob": 1.5},
    "softmax_layout of dense batches": {"softmax_layout": "TND"},
    "unknown softmax_layout": {"softmax_layout": "SBH"},
    "head_num": {"head_num": 0},
    "layout": {"input_layout": "XYZ"},
    "no lists": {"input_layout": "TND", "axes": 3},
    "lists of two lengths": {"input_layout": "TND", "axes": 3, "actual_seq_qlen": [4], "actual_seq_kvlen": [2, 4]},
    "five axes": {"axes": 5},
}


@pytest.mark.parametrize("options", SHARED_REFUSALS.values(), ids=SHARED_REFUSALS.keys())
def test_texts_are_those_of_npu_fusion_attention(options):
    options = {"head_num": 1, "input_layout": "BNSD"} | options
    axes = options.pop("axes", 4)
    tensors = [torch.zeros([4, 1, 4, 16, 1][:axes]).npu() for _ in range(3)]
    texts = []
    for function in (torch_npu.swa_forward, torch_npu.npu_fusion_attention):
        with pytest.raises(RuntimeError) as error:
            function(*tensors, **options)
        texts.append(str(error.value).split("\n")[0])
    assert texts[0] == texts[1]


def test_the_operators_sentence_is_in_the_exception():
    """A refusal that only the operator knows: code and sentence arrive, and the process works on."""
    case = Case("BNSD", **DENSE, mode=4, mask=torch.zeros(7, 7, dtype=torch.bool))
    with pytest.raises(RuntimeError) as error:
        case.forward()
    text = str(error.value)
    assert "aclnnFlashAttentionScore" in text and "161002" in text and "attenMask" in text
    check(Case("BNSD", **DENSE))


def test_backward_needs_the_results_of_forward():
    case = Case("BNSD", **DENSE)
    with pytest.raises(RuntimeError, match="aclnnFlashAttentionScoreGrad"):
        case.backward(case.forward(), softmax_max=None)
    check(case)


def test_both_bounds_negative_are_refused():
    """RING-08: -1 is not "no limit"."""
    with pytest.raises(RuntimeError):
        Case("BNSD", (16,), (16,), mode=4, pre=-1, next=-1, mask="compressed").forward()


def test_tensors_of_two_devices():
    case = Case("BNSD", **DENSE)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        case.forward(atten_mask=torch.zeros(33, 40, dtype=torch.bool))
