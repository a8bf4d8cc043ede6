"""What a mask of transformers lets each token see, read from the functions that define it, without the tensor."""
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import masking_utils as masks


class Visibility:
    """What the layers of a model get in place of a mask.

    left, right  the token at position i sees positions i - left to i + right; None: no limit on that side. The last
                 query and the last key are at the same position
    keys         how many keys count; those behind are seen by nobody (a static cache is longer than what it holds)
    key_mask     bool [batch, keys], false: padding; None: there is none
    ends         of packed sequences in [batch * keys] tokens, beginning with 0; None: each row is one sequence
    """

    ndim = 4  # where transformers asks: not a padding mask, which has two

    def __init__(self, left=None, right=None, keys=None, key_mask=None, ends=None):
        self.left, self.right, self.keys, self.key_mask, self.ends = left, right, keys, key_mask, ends

    @property
    def bounded(self):
        return self.left is not None or self.right is not None

    def window(self):
        """The arguments of flash_attention and flash_attention_varlen."""
        if self.right == 0:
            return {"causal": True, "window": None if self.left is None else (self.left, None)}
        return {"window": (self.left, self.right)} if self.bounded else {}

    @cached_property
    def spans(self):
        """[(first, end)] of the keys that are no padding, a pair for each row of the batch; None if a row has gaps."""
        mask = self.key_mask.int()
        counts = mask.sum(1).tolist()
        firsts = mask.argmax(1).tolist()
        ends = [self.keys - behind for behind in mask.flip(1).argmax(1).tolist()]
        spans = [(first, end) if count else (0, 0) for count, first, end in zip(counts, firsts, ends)]
        return spans if all(end - first == count for (first, end), count in zip(spans, counts)) else None


def make_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=masks.causal_mask_function,
              attention_mask=None, **options):
    """The mask function of attn_implementation="ops_transformer": a Visibility or, for rules that it has no words for,
    a bool tensor [batch, 1, queries, keys], true where a key is seen."""
    if isinstance(attention_mask, Visibility):  # generation asked for it before the model does
        return attention_mask
    visibility = _visibility(q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask)
    if visibility is not None:
        return visibility
    options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masks.sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset,
                           kv_offset=kv_offset, mask_function=mask_function, attention_mask=attention_mask, **options)


def _visibility(q_length, kv_length, q_offset, kv_offset, mask_function, padding):
    if torch.compiler.is_compiling() and (padding is not None or isinstance(q_offset, torch.Tensor)):
        return None  # what is in a tensor is not known then
    rule = _rule(mask_function)
    if rule is None or rule.by_position and rule.sequences is None:
        return None
    if rule.sequences is not None and (padding is not None or q_length != kv_length):
        return None
    keys = kv_length
    if rule.left is not None or rule.right is not None:
        end = int(q_offset) + q_length - kv_offset  # of the keys up to that of the last query
        if end != keys and not (rule.right == 0 and 0 < end < keys):
            return None
        keys = end
    if padding is not None:
        padding = masks.prepare_padding_mask(padding, kv_length, kv_offset)[:, kv_offset:kv_offset + keys]
        padding = None if padding.all() else padding.bool()
    ends = None if rule.sequences is None else ends_of(rule.sequences[:, 1:] != rule.sequences[:, :-1])
    return Visibility(rule.left, rule.right, keys, padding, ends)


def ends_of(changes):
    """The ends of packed sequences. changes: bool [batch, tokens - 1], true where another sequence begins."""
    begins = torch.nn.functional.pad(changes, (1, 0), value=True)
    return [*begins.flatten().nonzero().flatten().tolist(), begins.numel()]


# ---- functions of transformers ----


@dataclass(frozen=True)
class _Rule:
    left: Any = None
    right: Any = None
    sequences: Any = None  # [batch, tokens], equal numbers for tokens that may see each other
    by_position: bool = False  # positions are those inside of the sequences: needs sequences


def _code(function):
    return function.__code__


# Functions that transformers makes anew for each mask are told by their code; their parameters are in the closure.
_ALL_OF = _code(masks.and_masks(masks.causal_mask_function))
_WINDOW = _code(masks.sliding_window_overlay(1))
_TWO_SIDED_WINDOW = _code(masks.sliding_window_bidirectional_overlay(1))
_PACKED = _code(masks.packed_sequence_mask_function(None))
_BY_POSITION = _code(masks.remap_positions_for_packed_sequence(masks.causal_mask_function, None))


def _rule(function):
    """None if there is anything in the function that is not known here."""
    if function is masks.causal_mask_function:
        return _Rule(right=0)
    if function is masks.bidirectional_mask_function:
        return _Rule()
    if torch.compiler.is_compiling():
        return None  # the compiler cannot look into closures
    code, closure = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if closure is None:
        return None
    inside = dict(zip(code.co_freevars, (cell.cell_contents for cell in closure)))
    if code is _ALL_OF:
        return _all_of([_rule(part) for part in inside["mask_functions"]])
    if code is _WINDOW:
        return _Rule(left=inside["sliding_window"] - 1)
    if code is _TWO_SIDED_WINDOW:
        return _Rule(left=inside["sliding_window"], right=inside["sliding_window"])
    if code is _PACKED:
        return _Rule(sequences=inside["packed_sequence_mask"])
    if code is _BY_POSITION:
        # Inside a sequence positions grow by one, so that differences are those of indices.
        rule = _rule(inside["mask_function"])
        return rule and _Rule(rule.left, rule.right, rule.sequences, by_position=True)
    return None


def _all_of(rules):
    sequences = [rule.sequences for rule in rules if rule is not None and rule.sequences is not None]
    if None in rules or len(sequences) > 1:
        return None
    return _Rule(_smallest([rule.left for rule in rules]), _smallest([rule.right for rule in rules]),
                 sequences[0] if sequences else None, any([rule.by_position for rule in rules]))


def _smallest(bounds):
    limits = [bound for bound in bounds if bound is not None]
    return min(limits) if limits else None
