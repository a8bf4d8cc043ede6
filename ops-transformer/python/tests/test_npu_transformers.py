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


LENGTHS = [5, 20, 12]  # of the sequences that are packed into one row
POSITIONS = torch.cat([torch.arange(length) for length in LENGTHS])[None]
# The last token of a sequence predicts nothing: the next one belongs to another.
PACKED_LABELS = TOKENS[:1].masked_fill(POSITIONS == 0, -100)


def packed_loss_and_gradients(model):
    device = model.device
    # A cache keeps eager and sdpa from looking for sequences in the positions.
    loss = model(input_ids=TOKENS[:1].to(device), position_ids=POSITIONS.to(device), labels=PACKED_LABELS.to(device),
                 use_cache=False).loss
    loss.backward()
    return loss.item(), [parameter.grad.cpu() for parameter in model.parameters()]


def alone_loss_and_gradients(model):
    """The same of the sequences one by one: the mean over all tokens that are predicted."""
    total = 0
    for tokens in TOKENS[0].split(LENGTHS):
        logits = model(input_ids=tokens[None]).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="sum")
    loss = total / (sum(LENGTHS) - len(LENGTHS))
    loss.backward()
    return loss.item(), [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_packed_sequences(model, attention):
    """Several sequences in one row, told apart by their positions, give what they give alone, with gradients."""
    expected, expected_gradients = alone_loss_and_gradients(copy.deepcopy(model))
    actual, gradients = packed_loss_and_gradients(on_npu(model, attention))
    # As above.
    assert actual == pytest.approx(expected, abs=5e-6)
    for one, other in zip(gradients, expected_gradients):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)
