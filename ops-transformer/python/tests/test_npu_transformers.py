"""HuggingFace transformers, unmodified, with tiny random weights: npu tensors give what CPU tensors give."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import PADDED, SIZES, TOKENS, assert_same_training, loss_and_gradients, make_model  # noqa: E402

KINDS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen": lambda: transformers.Qwen2Config(**SIZES, use_sliding_window=False),
}
ATTENTIONS = ["eager", "sdpa", "flash_attention_2"]


@pytest.fixture(params=KINDS)
def model(request):
    return make_model(KINDS[request.param]())


def on_npu(model, attention, dtype=torch.float32):
    model = copy.deepcopy(model).to("npu", dtype)
    model.set_attn_implementation(attention)
    return model


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_loss_and_gradients(model, attention, padded):
    mask = PADDED if padded else torch.ones_like(TOKENS)
    expected = loss_and_gradients(copy.deepcopy(model), mask)
    assert_same_training(loss_and_gradients(on_npu(model, attention), mask), expected)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_bfloat16_logits(model, attention):
    with torch.no_grad():
        expected = model(input_ids=TOKENS).logits
        actual = on_npu(model, attention, torch.bfloat16)(input_ids=TOKENS.npu()).logits
    # Two layers of roundings to 2^-8, of logits below 1.
    torch.testing.assert_close(actual.float().cpu(), expected, rtol=0, atol=0.03)


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_greedy_generation(model, attention, padded):
    options = dict(max_new_tokens=12, do_sample=False)
    mask = PADDED if padded else torch.ones_like(TOKENS)
    expected = model.generate(input_ids=TOKENS, attention_mask=mask, **options)
    actual = on_npu(model, attention).generate(input_ids=TOKENS.npu(), attention_mask=mask.npu(), **options)
    assert actual.device.type == "npu" and torch.equal(actual.cpu(), expected)


def test_packed_sequences(model, attention="flash_attention_2"):
    """Several sequences in one row, told apart by their positions, give each what it gives alone."""
    lengths = [5, 20, 12]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    device = on_npu(model, attention)
    with torch.no_grad():
        packed = device(input_ids=TOKENS[:1].npu(), position_ids=positions.npu()).logits.cpu()
        begin = 0
        for length in lengths:
            alone = model(input_ids=TOKENS[:1, begin:begin + length]).logits
            torch.testing.assert_close(packed[:, begin:begin + length], alone, rtol=1e-4, atol=1e-5)
            begin += length
