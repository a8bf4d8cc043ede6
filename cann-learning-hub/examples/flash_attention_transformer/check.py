"""Whether all attentions give the same model: its logits, its loss, its gradients, and what it learns."""

import copy

import torch

from attention import ATTENTIONS
from model import Transformer, loss, text

# All three round in places of their own, mostly in the linear layers, which are the same. So native PyTorch's distance
# to double precision is the measure, and the largest of some thousand errors varies by less than this factor.
ALLOWED = 3.0


def models(device, dtype, heads):
    """The same weights with each attention."""
    torch.manual_seed(0)
    first = Transformer(None, heads)
    return {name: with_attention(first, attention).to(device, dtype) for name, attention in ATTENTIONS.items()}


def with_attention(model, attention):
    other = copy.deepcopy(model)
    for layer in other.layers:
        layer.attention = attention
    return other


def outcome(model, tokens):
    """Logits, and the gradients of the loss one behind the other, in double precision on the CPU."""
    with torch.no_grad():
        logits = model(tokens[:, :-1]).cpu().double()
    gradients = torch.autograd.grad(loss(model, tokens), list(model.parameters()))
    return logits, torch.cat([gradient.flatten().cpu().double() for gradient in gradients])


def errors(device, dtype, heads, length):
    """For each attention the largest errors of logits and gradients, against the native one in double precision."""
    tokens = text(length + 1)
    candidates = models(device, dtype, heads)
    exact = outcome(copy.deepcopy(candidates["native"]).cpu().double(), tokens)
    found = {}
    for name, model in candidates.items():
        values = outcome(model, tokens.to(device))
        found[name] = [(value - wanted).abs().max().item() for value, wanted in zip(values, exact)]
    return found


def too_far(found):
    """The attentions whose errors are not within ALLOWED times those of the native one (NaN is not within)."""
    return [name for name, values in found.items()
            if not all(value <= ALLOWED * limit for value, limit in zip(values, found["native"]))]


def train(name, device, heads, length, rounds):
    """The losses of some steps of AdamW, and how many of the next 16 tokens the model then foretells."""
    tokens = text(length + 1).to(device)
    model = models(device, torch.float32, heads)[name]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(rounds):
        step_loss = loss(model, tokens)
        optimizer.zero_grad()
        step_loss.backward()
        optimizer.step()
        losses.append(step_loss.item())
    return losses, (continued(model, tokens, 16) == text(length + 17)[:, length + 1:]).sum().item()


@torch.no_grad()
def continued(model, tokens, count):
    """The next tokens, each from all before it."""
    for _ in range(count):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], dim=1)
    return tokens[:, -count:].cpu()
