"""Causal attention in three ways that compute the same: what the model calls on [batch, heads, tokens, head_dim]."""

import torch

# Rows and keys of a tile of `tiled`. The kernels of a tile cost some 10 us to launch, whatever they do; larger tiles
# waste less on that, until half of a tile on the diagonal is computed in vain. 256 was the fastest of 64 to 1024 here.
TILE = 256


def native(q, k, v):
    """As the formula reads. The scores of all pairs are in memory, twice: before and after softmax."""
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    scores.masked_fill_(hidden_pairs(q.size(-2), k.size(-2), q.device), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


def tiled(q, k, v):
    """FlashAttention as one writes it in PyTorch: tile by tile, so that memory grows with the tokens alone."""
    return TiledAttention.apply(q, k, v)


def ops_transformer(q, k, v):
    """The library. Imported here, so that the other two run without it."""
    from ops_transformer import flash_attention

    return flash_attention(q, k, v, causal=True)


ATTENTIONS = {"native": native, "tiled": tiled, "ops_transformer": ops_transformer}


def hidden_pairs(rows, keys, device):
    """True where a query must not look: at keys behind its own."""
    return torch.ones(rows, keys, dtype=torch.bool, device=device).triu(1)


class TiledAttention(torch.autograd.Function):
    """Online softmax: a row keeps its maximum and sum so far and corrects what it has when the maximum rises. Backward
    computes the weights of a tile again from the logarithm of the sum. Sums are float32 for every element type."""

    @staticmethod
    def forward(ctx, q, k, v):
        out = torch.empty(*q.shape[:-1], v.size(-1), dtype=q.dtype, device=q.device)
        log_sum = torch.empty(*q.shape[:-1], 1, dtype=torch.float32, device=q.device)
        for rows in tiles(q):
            maximum = torch.full_like(log_sum[..., rows, :], float("-inf"))
            total = torch.zeros_like(maximum)
            result = torch.zeros(out[..., rows, :].shape, dtype=torch.float32, device=q.device)
            for keys in tiles(k, end=rows.stop):
                scores = tile_scores(q, k, rows, keys)
                risen = torch.maximum(maximum, scores.amax(-1, keepdim=True))
                weights = torch.exp(scores - risen)
                correction = torch.exp(maximum - risen)
                total = total * correction + weights.sum(-1, keepdim=True)
                result = result * correction + weights.to(v.dtype) @ v[..., keys, :]
                maximum = risen
            out[..., rows, :] = result / total
            log_sum[..., rows, :] = maximum + total.log()
        ctx.save_for_backward(q, k, v, out, log_sum)
        return out

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, out, log_sum = ctx.saved_tensors
        dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (q, k, v))
        common = (gradient.float() * out.float()).sum(-1, keepdim=True)
        scale = q.size(-1) ** -0.5
        for rows in tiles(q):
            q_tile, gradient_tile = q[..., rows, :], gradient[..., rows, :]
            for keys in tiles(k, end=rows.stop):
                weights = torch.exp(tile_scores(q, k, rows, keys) - log_sum[..., rows, :])
                dv[..., keys, :] += weights.to(v.dtype).transpose(-1, -2) @ gradient_tile
                of_weights = (gradient_tile @ v[..., keys, :].transpose(-1, -2)).float()
                of_scores = (weights * (of_weights - common[..., rows, :]) * scale).to(q.dtype)
                dq[..., rows, :] += of_scores @ k[..., keys, :]
                dk[..., keys, :] += of_scores.transpose(-1, -2) @ q_tile
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def tiles(tensor, end=None):
    """The slices of the tokens of a tensor, up to the one that holds `end` - 1."""
    tokens = tensor.size(-2)
    return [slice(first, min(first + TILE, tokens)) for first in range(0, tokens if end is None else end, TILE)]


def tile_scores(q, k, rows, keys):
    scores = ((q[..., rows, :] * q.size(-1) ** -0.5) @ k[..., keys, :].transpose(-1, -2)).float()
    if keys.stop > rows.start + 1:  # the diagonal goes through
        scores.masked_fill_(hidden_pairs(*scores.shape[-2:], q.device), float("-inf"))
    return scores
