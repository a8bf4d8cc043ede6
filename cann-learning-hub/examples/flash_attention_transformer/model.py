"""A decoder of two layers that takes its attention as an argument."""

import torch
from torch import nn

HEAD_DIM = 64
VOCABULARY = 256  # bytes


class Layer(nn.Module):
    """Pre-norm: what a part computes from the normalised stream is added to the stream."""

    def __init__(self, heads, attention):
        super().__init__()
        width = heads * HEAD_DIM
        self.heads, self.attention = heads, attention
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, stream):
        batch, tokens, width = stream.shape
        joined = self.query_key_value(self.before_attention(stream))
        # Views in the order [batch, heads, tokens, head_dim]; nothing is copied.
        q, k, v = joined.view(batch, tokens, 3, self.heads, HEAD_DIM).permute(2, 0, 3, 1, 4).unbind()
        attended = self.attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        stream = stream + self.output(attended)
        return stream + self.mlp(self.before_mlp(stream))


class Transformer(nn.Module):
    """Tokens [batch, length] to logits [batch, length, VOCABULARY]. Without position encoding: what a token may see
    tells a causal decoder where it is, and so nothing stands between this file and attention."""

    def __init__(self, attention, heads=8, layers=2):
        super().__init__()
        width = heads * HEAD_DIM
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.Sequential(*(Layer(heads, attention) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.logits(self.norm(self.layers(self.embedding(tokens))))


def loss(model, tokens):
    """How badly the model foretells each next token."""
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def text(length):
    """One text [1, length] to learn, on the CPU: the same 32 different tokens, again and again."""
    pattern = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))[:32]
    return pattern.repeat(length // 32 + 1)[None, :length]
