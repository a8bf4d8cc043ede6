"""HuggingFace transformers on this library.

    import ops_transformer.huggingface                                   # registers the name
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="ops_transformer")

On cpu and npu, for training and generation. What a model lets each token see (causal, sliding windows, padding, packed
sequences, growing and static caches) becomes arguments of flash_attention and flash_attention_varlen. A mask of all
pairs is made only for rules that these have no words for, and in compiled code for windows, padding and packed
sequences. Sinks, position biases, grouped heads and dropout are supported; softcap is refused. Rows of padding give 0.

Sequences packed into one row are told apart by cu_seq_lens_q and cu_seq_lens_k, or by position_ids that begin again at
0: also while a cache is filled, where "eager" and "sdpa" mix them.
"""
from itertools import accumulate

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.utils import logging

from ops_transformer.attention import flash_attention, flash_attention_varlen
from ops_transformer.huggingface_masks import Visibility, ends_of, make_mask

NAME = "ops_transformer"
_log = logging.get_logger(__name__)


def register():
    """Makes attn_implementation="ops_transformer" known to transformers. The import of this module has done it."""
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, make_mask)


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                      softcap=None, s_aux=None, position_bias=None, position_ids=None, cu_seq_lens_q=None,
                      cu_seq_lens_k=None, **kwargs):
    """The attention function: query [batch, heads, queries, head dim], result [batch, queries, heads, head dim]."""
    if softcap is not None:
        raise ValueError(f'softcap {softcap} is not supported by attn_implementation="{NAME}": choose "eager"')
    if kwargs.get("output_attentions"):
        _log.warning_once(f'attn_implementation="{NAME}" returns no weights: choose "eager" for output_attentions')
    options = {"scale": scaling, "dropout_p": dropout, "sink": None if s_aux is None else s_aux.float()}
    if isinstance(attention_mask, torch.Tensor):
        return _dense(query, key, value, options | _mask_and_bias(attention_mask, position_bias, query.dtype)), None
    visible = attention_mask
    if visible is None:  # of a model that makes no masks
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        visible = Visibility(right=0 if causal else None, keys=key.shape[2])
    key, value = key[:, :, :visible.keys], value[:, :, :visible.keys]
    options |= visible.window()
    ends = _packed_ends(visible, query, key, position_ids, cu_seq_lens_q, cu_seq_lens_k)
    if position_bias is not None:
        if ends is not None:
            raise ValueError(f'position_bias of packed sequences is not supported by attn_implementation="{NAME}": '
                             'choose "eager"')
        key_mask = None if visible.key_mask is None else visible.key_mask[:, None, None]
        position_bias = position_bias[..., :key.shape[2]]
        return _dense(query, key, value, options | _mask_and_bias(key_mask, position_bias, query.dtype)), None
    if visible.key_mask is not None:
        return _padded(query, key, value, visible, options), None
    return _dense(query, key, value, options) if ends is None else _packed(query, key, value, *ends, options), None


def _mask_and_bias(mask, position_bias, dtype):
    bias = position_bias
    if mask is not None and mask.dtype != torch.bool:
        mask, bias = None, mask if bias is None else mask + bias
    return {"mask": mask, "bias": None if bias is None else bias.to(dtype)}


def _dense(query, key, value, options):
    return flash_attention(*(tensor.transpose(1, 2) for tensor in (query, key, value)), layout="BSND", **options)


# ---- packed sequences ----


def _packed_ends(visible, query, key, position_ids, cu_seq_lens_q, cu_seq_lens_k):
    """The ends of the sequences in query and key, or None if each row is one or padding tells them apart."""
    if visible.key_mask is not None:
        return None
    if cu_seq_lens_q is not None and cu_seq_lens_k is not None:
        return cu_seq_lens_q, cu_seq_lens_k
    ends = visible.ends
    if ends is None and visible.right == 0 and 1 < query.shape[2] == key.shape[2]:
        ends = _ends_of_positions(position_ids, query)
    return None if ends is None else (ends, ends)


def _ends_of_positions(position_ids, query):
    if position_ids is None or position_ids.dim() != 2 or torch.compiler.is_compiling():
        return None
    begins = position_ids[:, 1:] == 0
    return ends_of(begins.expand(query.shape[0], -1)) if begins.any() else None


def _packed(query, key, value, ends_q, ends_k, options):
    tokens = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value))
    out = flash_attention_varlen(*tokens, ends_q, ends_k, **options)
    return out.unflatten(0, (query.shape[0], -1))


# ---- padding ----


def _padded(query, key, value, visible, options):
    """Without the padded keys and, where queries and keys are the same tokens, the padded queries, which give 0."""
    rows = query.shape[2]
    same_tokens = visible.bounded and rows == visible.keys
    if rows == 1 or visible.spans is None or visible.bounded and not same_tokens:
        return _dense(query, key, value, options | {"mask": visible.key_mask[:, None, None]})
    spans = visible.spans
    query_spans = spans if same_tokens else [(0, rows)] * len(spans)
    out = flash_attention_varlen(_without_padding(query, query_spans), _without_padding(key, spans),
                                 _without_padding(value, spans), _ends(query_spans), _ends(spans), **options)
    return _with_padding(out, query_spans, rows)


def _ends(spans):
    return [0, *accumulate(end - first for first, end in spans)]


def _without_padding(tensor, spans):
    return torch.cat([row[:, first:end].transpose(0, 1) for row, (first, end) in zip(tensor, spans)])


def _with_padding(out, spans, rows):
    parts = out.split([end - first for first, end in spans])
    return torch.stack([torch.nn.functional.pad(part, (0, 0, 0, 0, first, rows - end))
                        for part, (first, end) in zip(parts, spans)])


register()
