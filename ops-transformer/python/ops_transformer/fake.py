"""What the operators return, without computing it: shapes for torch.compile, fake tensors and meta tensors. In the order of the schema."""
import torch

_STATISTIC_COPIES = 8


def _check_meta(query, *others):
    """One meta tensor among real ones brings a call here, where nothing is computed: memory without content would come out of it."""
    if query.device.type != "meta" and any(other is not None and other.device.type == "meta" for other in others):
        raise ValueError(f"ops_transformer: a tensor is on meta, query on {query.device}: all of them, cu_seqlens too, have to be real "
                         "or all on meta")


@torch.library.register_fake("ops_transformer::attention_forward")
def forward(query, key, value, pse, atten_mask, sink, cu_seqlens_q, cu_seqlens_k, seed, prefix, scale, keep_prob, pre_tokens,
            next_tokens, layout, sparse_mode, pse_type):
    _check_meta(query, key, value, pse, atten_mask, sink, cu_seqlens_q, cu_seqlens_k, seed)
    rows = list(query.shape[:-1])
    attention = query.new_empty((*rows, value.shape[-1]))
    if layout == "BSND":
        rows[1], rows[2] = rows[2], rows[1]
    maximum, total = (query.new_empty((*rows, _STATISTIC_COPIES), dtype=torch.float32) for _ in range(2))
    return attention, maximum, total


@torch.library.register_fake("ops_transformer::attention_backward")
def backward(grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient, pse, atten_mask, sink, cu_seqlens_q,
             cu_seqlens_k, seed, prefix, scale, keep_prob, pre_tokens, next_tokens, layout, sparse_mode, pse_type):
    def like(tensor):
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    def absent():
        return query.new_empty((0,))

    return (like(query), like(key), like(value), like(pse) if pse_gradient else absent(), absent() if sink is None else like(sink))
