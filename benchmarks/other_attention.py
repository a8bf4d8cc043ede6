"""Other ways to attention in PyTorch, in the form of ops_transformer.tools.contenders: naive and FlexAttention."""
import math

from ops_transformer.tools.contenders import seen_mask

FLEX, NAIVE = "FlexAttention", "naive"
# Bytes of the naive way for a pair of a query and a key: scores, masked, float32 weights; about twice as many with gradients.
_NAIVE_BYTES = 12


def naive(case, tensors):
    """As in a textbook: the matrix of all scores, softmax in float32, a product."""
    query, key, value = tensors.inputs
    scale, group = 1 / math.sqrt(case.head_dim), case.heads // case.kv_heads
    hidden = None if case.mask == "no mask" else ~seen_mask(case)

    def call():
        scores = query @ key.repeat_interleave(group, 1).transpose(-2, -1) * scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        return scores.float().softmax(-1).to(query.dtype) @ value.repeat_interleave(group, 1)

    return call


def naive_needs(case):
    """About how many bytes it takes at its peak."""
    return _NAIVE_BYTES * (2 if case.backward else 1) * case.batch * case.heads * case.queries * case.keys


def flex(case, tensors):
    """FlexAttention, compiled for exactly this case: it skips blocks of hidden pairs. On CPUs it has no backward."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.backward:
        raise NotImplementedError("no backward on CPU")
    torch._dynamo.reset()  # it compiles a function for a few shapes only
    options = {"enable_gqa": case.kv_heads != case.heads}
    if case.mask != "no mask":
        options["block_mask"] = create_block_mask(rule(case), None, None, case.queries, case.keys, device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(*tensors.inputs, **options)


def rule(case):
    """Which pairs are seen, in operations that a compiler turns into comparisons of numbers."""
    left, right = case.window or (None, None)
    right = 0 if case.causal else right
    offset = case.keys - case.queries

    def seen(batch, head, query, key):
        shown = query >= 0
        if left is not None:
            shown = shown & (key >= query + offset - left)
        if right is not None:
            shown = shown & (key <= query + offset + right)
        return shown

    return seen
