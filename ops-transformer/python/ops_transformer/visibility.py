"""Which keys a query sees: causal, window and mask in the operator's words, which callers may also use themselves."""
from typing import NamedTuple

import torch

from ops_transformer.arguments import broadcast, check_int64, check_strided, check_type

NO_LIMIT = 2**31 - 1  # the operator's own value for it

_BAND, _CAUSAL, _EVERYTHING_OR_MASK = 4, 3, 0
_WITH_TOKENS = (0, 4, 7, 8)  # modes in which pre_tokens and next_tokens count
_WITH_PREFIX = (5, 6)
_WITH_MASK = (0, 1, 5)  # modes that look at the mask's content
_COMPRESSED = {2: 2048, 3: 2048, 4: 2048, 6: 3072, 7: 2048, 8: 2048}  # rows of the mask that stands for a pattern


class Visibility(NamedTuple):
    atten_mask: torch.Tensor | None = None
    sparse_mode: int = 0
    pre_tokens: int = NO_LIMIT
    next_tokens: int = NO_LIMIT
    prefix: tuple = ()


_EVERYTHING = Visibility()


def dense_visibility(shape, device, causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix):
    if not _uses_ascend_words(causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix):
        left, right = _window(causal, window)
        if mask is None:
            return _pattern(left, right)
        # Of the modes that read a mask, the one with a window measures it from the first query and key.
        shift = shape.keys - shape.queries
        return Visibility(_dense_mask(mask, shape, device), _EVERYTHING_OR_MASK, NO_LIMIT if left is None else left - shift,
                          NO_LIMIT if right is None else right + shift)
    return _ascend(shape, device, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix, last_mode=6)


def packed_visibility(shape, device, causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix):
    if not _uses_ascend_words(causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix):
        left, right = _window(causal, window)
        if mask is None:
            return _pattern(left, right)
        if left is not None or right is not None:
            raise ValueError("mask is given together with causal or window: packed sequences take one of them; put the pattern into the mask")
        _check_mask("mask", mask, (torch.bool,), device)
        if mask.dim() != 2:
            raise ValueError(f"mask has shape {tuple(mask.shape)}: it has to be [longest Sq, longest Skv]")
        return Visibility(mask.logical_not(), sparse_mode=1)
    return _ascend(shape, device, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix, last_mode=8)


def _window(causal, window):
    """(left, right) limits, None where there is none."""
    check_type("causal", causal, bool)
    if window is None:
        return None, 0 if causal else None
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise TypeError(f"window is {window!r}: it has to be a pair (left, right)")
    for side in window:
        if side is not None:
            check_type("a side of window", side, int)
            if side < 0:
                raise ValueError(f"window is {tuple(window)}: its sides count keys from 0; None is no limit")
    left, right = (side if side is None or side < NO_LIMIT else None for side in window)
    if causal and right:
        raise ValueError(f"window is {tuple(window)} and causal is True: with causal a query sees no key to the right, so that the window's "
                         "right side has to be None or 0")
    return left, 0 if causal else right


def _pattern(left, right):
    if left is None and right is None:
        return _EVERYTHING
    if left is None and right == 0:
        return Visibility(sparse_mode=_CAUSAL)
    return Visibility(None, _BAND, NO_LIMIT if left is None else left, NO_LIMIT if right is None else right)


def _check_mask(name, mask, dtypes, device):
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"{name} is a {type(mask).__name__}: it has to be a tensor")
    check_strided(name, mask)
    if mask.dtype not in dtypes:
        hint = "; numbers that are added to the scores go to bias" if mask.is_floating_point() else ""
        raise TypeError(f"{name} is {mask.dtype}: it has to be {' or '.join(map(str, dtypes))}{hint}")
    if mask.device != device:
        raise ValueError(f"{name} is on {mask.device}, q on {device}: all tensors have to be on one device")


def _dense_mask(mask, shape, device):
    """Where hidden, in one of the forms that the operator takes."""
    _check_mask("mask", mask, (torch.bool,), device)
    hidden = broadcast("mask", mask, shape).logical_not()  # small as it is given; only then as a view of the whole
    heads = 1 if hidden.shape[1] == 1 else shape.heads
    batch = 1 if heads == 1 and hidden.shape[0] == 1 else shape.batch
    return hidden.expand(batch, heads, shape.queries, shape.keys)


def _uses_ascend_words(causal, window, mask, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix):
    if atten_mask is None and sparse_mode is None and pre_tokens is None and next_tokens is None and prefix is None:
        return False
    if causal is not False or window is not None or mask is not None:
        words = {"atten_mask": atten_mask, "sparse_mode": sparse_mode, "pre_tokens": pre_tokens, "next_tokens": next_tokens, "prefix": prefix}
        given = ", ".join(name for name, value in words.items() if value is not None)
        raise ValueError(f"{given} together with causal, window or mask: say which keys are seen in one way or in the other")
    return True


def _ascend(shape, device, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix, last_mode):
    mode = 0 if sparse_mode is None else sparse_mode
    check_type("sparse_mode", mode, int)
    if not 0 <= mode <= last_mode or (last_mode == 8 and mode == 5):
        raise ValueError(f"sparse_mode is {mode}: it has to be from 0 to {last_mode}"
                         f"{', but not 5' if last_mode == 8 else '; 7 and 8 are for packed sequences'}")
    for name, tokens in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        if tokens is None:
            continue
        check_int64(name, tokens)
        if mode not in _WITH_TOKENS or (mode == 0 and atten_mask is None):
            raise ValueError(f"{name} is {tokens}, but sparse_mode {mode}{' without atten_mask' if mode == 0 else ''} does not look at it; "
                             "modes 4, 7 and 8 do, and 0 with atten_mask")
    if mode in (1, 5) and atten_mask is None:
        raise ValueError(f"sparse_mode is {mode}, which needs atten_mask")
    if atten_mask is not None:
        _check_mask("atten_mask", atten_mask, (torch.bool, torch.uint8), device)
        rows = _COMPRESSED.get(mode)
        if rows is not None and tuple(atten_mask.shape) not in ((rows, 2048), (1, 1, rows, 2048)):
            raise ValueError(f"atten_mask has shape {tuple(atten_mask.shape)}: with sparse_mode {mode} it stands for a pattern and has to be "
                             f"({rows}, 2048), or absent")
    return Visibility(atten_mask, mode, NO_LIMIT if pre_tokens is None else pre_tokens, NO_LIMIT if next_tokens is None else next_tokens,
                      _prefix(prefix, mode, shape.batch))


def _prefix(prefix, mode, batch):
    if prefix is None:
        if mode in _WITH_PREFIX:
            raise ValueError(f"sparse_mode is {mode}, which needs prefix: a list of {batch} lengths")
        return ()
    if mode not in _WITH_PREFIX:
        raise ValueError(f"prefix is {prefix!r}, but sparse_mode {mode} does not look at it; modes 5 and 6 do")
    if not isinstance(prefix, (tuple, list)):
        raise TypeError(f"prefix is {prefix!r}: it has to be a list of ints")
    for length in prefix:
        check_int64("an entry of prefix", length)
    if len(prefix) != batch:
        raise ValueError(f"prefix has {len(prefix)} lengths: it has to have {batch}, one for each sequence")
    return tuple(prefix)
