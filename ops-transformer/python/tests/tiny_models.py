"""Language models of transformers with tiny random weights, tokens for them, and what training gives."""
import torch
import transformers

SIZES = dict(vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=None)
TOKENS = torch.randint(2, 61, (2, 37), generator=torch.Generator().manual_seed(4))
# The first sequence is padded on the left, as for generation.
PADDED = torch.ones_like(TOKENS)
PADDED[0, :16] = 0


def make_model(config):
    torch.manual_seed(6)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def loss_and_gradients(model, mask):
    device = model.device
    # No label of padding, nor of the token behind it, which is predicted from padding: what such a row holds is open.
    seen = mask.bool() & mask.roll(1, 1).bool() if not mask.all() else mask.bool()
    labels = TOKENS.masked_fill(~seen, -100)
    loss = model(input_ids=TOKENS.to(device), attention_mask=mask.to(device), labels=labels.to(device)).loss
    loss.backward()
    return loss.item(), [parameter.grad.cpu() for parameter in model.parameters()]


def assert_same_training(actual, expected):
    """fp32 sums in other orders: some units in the last place of a loss near 4, and of gradients below 1."""
    assert abs(actual[0] - expected[0]) <= 5e-6
    for one, other in zip(actual[1], expected[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)
