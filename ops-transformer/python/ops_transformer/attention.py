"""flash_attention and flash_attention_varlen: fused attention with gradients, on cpu and npu tensors.

Both are thin: they check and translate, and call torch.ops.ops_transformer.attention_forward, which torch.compile takes into its
graphs. Nothing of the size queries x keys is ever in memory, but for masks and biases that the caller gives. Results have the
same bits for any number of threads, and a sequence gives the same bits alone, in a batch and packed with others. Threads:
torch.set_num_threads; ASCEND_CPU_THREADS, if set, is an upper limit. Autocast casts q, k, v and bias. Second derivatives, forward
mode and torch.vmap are refused with NotImplementedError.
"""
import torch

from ops_transformer import _library
from ops_transformer.arguments import (check_alibi, check_bias, check_cu_seqlens, check_dropout, check_layout, check_operands,
                                       check_scale, check_sink, check_type)
from ops_transformer.visibility import dense_visibility, packed_visibility

_library.load()
_forward = torch.ops.ops_transformer.attention_forward.default

# The operator's pseType.
_NO_BIAS, _ADDED_TO_SCALED_SCORES, _SLOPES = 1, 0, 2


def flash_attention(q, k, v, scale=None, *, causal=False, window=None, mask=None, bias=None, alibi_slopes=None, dropout_p=0.0,
                    sink=None, layout="BNSD", return_softmax_stats=False, atten_mask=None, sparse_mode=None, pre_tokens=None,
                    next_tokens=None, prefix=None):
    """softmax(scale * q k^T + bias, over the keys that each query sees) v, for each head.

    q       [B, Nq, Sq, D], float32, float16 or bfloat16, on cpu or npu; any strides, any lengths.
    k, v    [B, Nkv, Skv, D] and [B, Nkv, Skv, Dv], dtype and device of q. Nq is a multiple of Nkv: consecutive query heads share a
            key head (grouped-query attention). 1 <= Dv <= D <= 768.
    scale   a finite number; default D ** -0.5.
    causal  query i sees the keys j <= i + Skv - Sq: the last query sees the last key.
    window  (left, right): query i sees the keys from i + Skv - Sq - left to i + Skv - Sq + right, both included; None is no limit
            on that side. A window of W tokens that ends with the token itself is (W - 1, 0). With causal, right is None or 0.
    mask    bool, True = this query sees this key, as in torch's scaled_dot_product_attention; broadcasts to [B, Nq, Sq, Skv].
            With causal or window, a key is seen when all of them allow it.
    bias    dtype of q, added to the scaled scores; broadcasts to [B, Nq, Sq, Skv]. -inf hides a key. Has a gradient.
    alibi_slopes
            float32 [Nq] or [B, Nq]: adds -slope * |i - j|. Needs Sq = Skv, and no bias beside it. No gradient.
    dropout_p
            probability to drop a weight, 0 <= p < 1. The seed comes from torch's CPU generator (torch.manual_seed).
    sink    float32 [Nq]: a score of each head that takes part in the softmax and has no value. Has a gradient.
    layout  "BNSD", or "BSND" for q [B, Sq, Nq, D] and so on. [B, S, N * D] becomes BSND by .unflatten(-1, (N, D)).

    Ascend's own words, instead of causal, window and mask: atten_mask (bool or uint8, True = hidden), sparse_mode 0 to 6, pre_tokens,
    next_tokens (no limit by default) and prefix (a list of B lengths), as in npu_fusion_attention. The mask that only stands for a
    pattern may be left out: sparse_mode alone says it.

    Returns the attention, [B, Nq, Sq, Dv] in the layout and dtype of q, contiguous; 0 for queries that see no key. With
    return_softmax_stats, (attention, maximum, sum): float32 [B, Nq, Sq], so that log-sum-exp is maximum + log(sum). No gradient
    goes through the two; queries that see no key have -FLT_MAX and FLT_MAX there (with a sink: the sink and 1), or 0 and 0
    when there are no keys at all.

    Raises ValueError or TypeError, which name the argument, its value and the rule, before anything is computed.
    """
    check_layout(layout)
    q, k, v, bias = _autocast(q, k, v, bias)
    shape = check_operands(q, k, v, layout)
    visible = dense_visibility(shape, q.device, causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix)
    pse, pse_type = _pse(q, shape, bias, alibi_slopes)
    return _call(q, k, v, layout, scale, visible, pse, pse_type, sink, shape, dropout_p, None, None, return_softmax_stats)


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, scale=None, *, causal=False, window=None, mask=None, alibi_slopes=None,
                           dropout_p=0.0, sink=None, return_softmax_stats=False, atten_mask=None, sparse_mode=None, pre_tokens=None,
                           next_tokens=None, prefix=None):
    """flash_attention for sequences of different lengths that lie one after another: each attends to itself only.

    q       [Tq, Nq, D]; k, v [Tkv, Nkv, D] and [Tkv, Nkv, Dv].
    cu_seqlens_q, cu_seqlens_k
            running totals of the lengths: a list of ints or an integer tensor [sequences + 1], first 0, never decreasing, and not
            above Tq and Tkv. Lengths of 0 are legal; tokens behind the last total get 0 (and 0 gradients).
    causal, window
            as in flash_attention, within each sequence: its last query sees its last key. A sequence with more queries than keys is
            refused with them, as the operator does.
    mask    bool [longest Sq, longest Skv], True = seen: one for all sequences, shorter ones use its top left part. Not with causal or
            window.
    alibi_slopes
            float32 [Nq] or [sequences, Nq]; each sequence has as many queries as keys.
    sparse_mode
            0 to 8, as for TND in npu_fusion_attention; prefix has a length for each sequence.

    All else as in flash_attention. Returns [Tq, Nq, Dv]; statistics are [Tq, Nq].
    """
    q, k, v, _ = _autocast(q, k, v, None)
    shape = check_operands(q, k, v, "TND")
    cu_seqlens_q, cu_seqlens_k = check_cu_seqlens(cu_seqlens_q, cu_seqlens_k)
    shape = shape._replace(batch=cu_seqlens_q.shape[0] - 1)
    visible = packed_visibility(shape, q.device, causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix)
    pse, pse_type = _pse(q, shape, None, alibi_slopes)
    return _call(q, k, v, "TND", scale, visible, pse, pse_type, sink, shape, dropout_p, cu_seqlens_q, cu_seqlens_k, return_softmax_stats)


def _autocast(q, k, v, bias):
    """Within torch.autocast: in its dtype, as torch's own attention."""
    device = q.device.type if isinstance(q, torch.Tensor) else None
    if device not in ("cpu", "npu") or not torch.is_autocast_enabled(device):
        return q, k, v, bias
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype != torch.float64 else t
                 for t in (q, k, v, bias))


def _pse(q, shape, bias, alibi_slopes):
    if alibi_slopes is None:
        return (None, _NO_BIAS) if bias is None else (check_bias(bias, q, shape), _ADDED_TO_SCALED_SCORES)
    if bias is not None:
        raise ValueError("bias and alibi_slopes are both given: the operator adds one of them; add the slopes' distances to bias")
    return check_alibi(alibi_slopes, q, shape), _SLOPES


def _call(q, k, v, layout, scale, visible, pse, pse_type, sink, shape, dropout_p, cu_seqlens_q, cu_seqlens_k, return_softmax_stats):
    scale = shape.head_dim ** -0.5 if scale is None else check_scale(scale)
    check_type("return_softmax_stats", return_softmax_stats, bool)
    if sink is not None:
        check_sink(sink, q, shape)
    seed = None
    if check_dropout(dropout_p):
        seed = torch.randint(-2**63, 2**63 - 1, (1,), dtype=torch.int64, device="cpu")
    out, maximum, total = _forward(q, k, v, pse, visible.atten_mask, sink, cu_seqlens_q, cu_seqlens_k, seed, visible.prefix, scale,
                                   1.0 - dropout_p, visible.pre_tokens, visible.next_tokens, layout, visible.sparse_mode, pse_type)
    # The operator stores each number eight times.
    return (out, maximum[..., 0], total[..., 0]) if return_softmax_stats else out
