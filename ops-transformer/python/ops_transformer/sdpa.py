"""PyTorch's scaled_dot_product_attention on this library: the context manager replace_sdpa.

A call is routed only where both functions mean the same. Everything else goes to PyTorch with its arguments untouched,
so that its results and its errors stay its own; why, says a sentence, and sentences are counted.
"""
import contextlib
import logging
import threading
from collections import Counter
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.overrides import TorchFunctionMode, get_overridable_functions

from ops_transformer.attention import flash_attention

_SDPA = torch._C._nn.scaled_dot_product_attention  # what torch.nn.functional calls by the same name
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_LARGEST_HEAD_DIM = 768
_log = logging.getLogger("ops_transformer.sdpa")


def _when_compiled(function):
    """torch.compile calls the function once, when it compiles, and keeps the result. The mark is that of
    torch.compiler.assume_constant_result, which would load the whole compiler, seconds, for it."""
    function._dynamo_marked_constant = True
    return function


class replace_sdpa(TorchFunctionMode):
    """Inside `with replace_sdpa() as sdpa:`, calls of torch.nn.functional.scaled_dot_product_attention on CPU tensors
    are computed by this library.

    calls     how many calls there were
    routed    how many of them this library computed
    reasons   a Counter of sentences: why the others went to PyTorch
    verbose   true: each reason is logged once, as a warning of the logger "ops_transformer.sdpa"

    It holds for the thread that entered it; several threads may enter one object. Nested: the innermost decides, and
    what it leaves to PyTorch the next one sees too. Code under torch.compile is routed without breaks of its graph; a
    call there is counted when it is compiled, not when it runs. Only torch.nn.MultiheadAttention and layers built on
    it keep PyTorch's function when compiled. Checkpointed layers compute again in backward: keep that inside, too.

    Results differ from PyTorch's by rounding, and in one respect by more: NaN or infinity in hidden keys and values has
    no effect here. Second derivatives are refused; inside torch.nn.attention.sdpa_kernel(SDPBackend.MATH) PyTorch has
    them.
    """

    def __init__(self, verbose: bool = False):
        super().__init__()
        self.verbose = verbose
        self.calls = self.routed = 0
        self.reasons = Counter()
        self._lock = threading.Lock()
        # A compiler that saw the counters would compile again whenever they change. (A bound method takes no mark.)
        self._count = _when_compiled(lambda reason: self._count_one(reason))

    def __enter__(self):
        _patch.enter()
        return super().__enter__()

    def __exit__(self, *exception):
        _patch.leave()
        return super().__exit__(*exception)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is _SDPA:
            return _attend((self,), args, kwargs)
        if not isinstance(func, FunctionType) or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        # A function in Python, for example that of multi-head attention, or backward with checkpoints in it: PyTorch
        # shows a mode the function, but nothing that the function calls.
        with _patch.inside(self):
            return func(*args, **kwargs)

    def _count_one(self, reason):
        with self._lock:
            self.calls += 1
            self.routed += reason is None
            first = reason is not None and reason not in self.reasons
            if reason is not None:
                self.reasons[reason] += 1
        if first and self.verbose:
            _log.warning("a call of scaled_dot_product_attention goes to PyTorch: %s", reason)


def _attend(managers, args, kwargs):
    """By the first manager that finds no reason against it, else by PyTorch."""
    for manager in managers:
        call, reason = _read(args, kwargs)
        manager._count(reason)
        if reason is None:
            return _route(call)
    return _SDPA(*args, **kwargs)


class _Patch:
    """The name in torch.nn.functional, while any manager is entered: for calls inside of functions that hide them."""

    def __init__(self):
        self._lock = threading.Lock()
        self._entered = 0
        self._replaced = None
        self._thread = threading.local()

    def enter(self):
        with self._lock:
            if self._entered == 0:
                self._replaced = functional.scaled_dot_product_attention
                functional.scaled_dot_product_attention = _patched
            self._entered += 1

    def leave(self):
        with self._lock:
            self._entered -= 1
            # Who has put something else there since, keeps it.
            if self._entered == 0 and functional.scaled_dot_product_attention is _patched:
                functional.scaled_dot_product_attention = self._replaced

    @contextlib.contextmanager
    def inside(self, manager):
        before = self.managers()
        self._thread.managers = (*before, manager)  # the innermost is the first that PyTorch shows a function
        try:
            yield
        finally:
            self._thread.managers = before

    def managers(self):
        return getattr(self._thread, "managers", ())


_patch = _Patch()
# PyTorch and its compiler keep the list of the functions that modes are shown, from what the names mean when it is
# first asked for: that has to be before one of them is replaced.
get_overridable_functions()


def _patched(*args, **kwargs):
    managers = () if torch.compiler.is_compiling() else _patch.managers()
    return _attend(managers, args, kwargs) if managers else _SDPA(*args, **kwargs)


@dataclass(frozen=True)
class _Call:
    """The arguments, with PyTorch's names and defaults."""
    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: Any = None
    enable_gqa: bool = False

    def tensors(self):
        names = ("query", "key", "value") if self.attn_mask is None else ("query", "key", "value", "attn_mask")
        return [(name, getattr(self, name)) for name in names]


def _read(args, kwargs):
    """The call, and why PyTorch has to compute it, or None."""
    try:
        call = _Call(*args, **kwargs)
    except TypeError:
        return None, "PyTorch refuses the arguments"
    reason = _surroundings() or _kinds(call)
    if reason is None:
        call = _cast(call)
        reason = _modifiers(call) or _operands(call) or _mask(call)
    return call, reason


@_when_compiled
def _surroundings():
    if torch.jit.is_tracing():
        return "inside torch.jit.trace"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "inside a transform of torch.func"
    if forward_ad._current_level >= 0:
        return "inside forward-mode differentiation"
    # Set by torch.nn.attention.sdpa_kernel, for CPU tensors too.
    return None if torch.backends.cuda.flash_sdp_enabled() else "the flash backend is switched off"


def _kinds(call):
    for name, tensor in call.tensors():
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return f"{name} is a {type(tensor).__name__}"
        if tensor.layout != torch.strided or tensor.is_nested:
            return f"{name} is nested or sparse"
        if tensor.device.type != "cpu":
            return f"{name} is on {tensor.device.type}"
    return None


def _cast(call):
    """What autocast does to PyTorch's function: all operands get its type."""
    if not torch.is_autocast_enabled("cpu"):
        return call
    dtype = torch.get_autocast_dtype("cpu")
    return replace(call, **{name: tensor.to(dtype) for name, tensor in call.tensors() if tensor.dtype in _DTYPES})


def _modifiers(call):
    if call.dropout_p != 0:
        return "dropout_p > 0: PyTorch's random numbers are others"
    if call.is_causal and call.attn_mask is not None:
        return "is_causal together with attn_mask"
    if call.scale is not None and not isinstance(call.scale, (int, float)):
        return f"scale is a {type(call.scale).__name__}"
    return None


def _operands(call):
    query, key, value = call.query, call.key, call.value
    if query.dtype not in _DTYPES:
        return f"element type {query.dtype}"
    if not query.dtype == key.dtype == value.dtype:
        return "element types differ"
    if not query.dim() == key.dim() == value.dim() or query.dim() < 2:
        return "numbers of dimensions differ or are below 2"
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        return "shapes do not fit"
    if not query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        return "batch sizes differ"
    if query.numel() == 0 or key.numel() == 0 or value.numel() == 0:
        return "an operand is empty"
    if value.shape[-1] > query.shape[-1]:
        return "head dim of value above that of query"
    if query.shape[-1] > _LARGEST_HEAD_DIM:
        return f"head dim above {_LARGEST_HEAD_DIM}"
    return _heads(call)


def _heads(call):
    if call.query.dim() == 2:
        return "enable_gqa without heads" if call.enable_gqa else None
    heads, key_heads, value_heads = (tensor.shape[-3] for tensor in (call.query, call.key, call.value))
    if call.enable_gqa:
        return None if key_heads == value_heads and heads % key_heads == 0 else "head counts are no multiples"
    return None if heads == key_heads == value_heads else "head counts differ"


def _mask(call):
    mask, query = call.attn_mask, call.query
    if mask is None:
        return None
    if mask.dtype not in (torch.bool, query.dtype):
        return f"attn_mask is {mask.dtype}, query {query.dtype}"
    if not 2 <= mask.dim() <= query.dim():
        return "attn_mask has fewer than 2 or more dimensions than query"
    scores = (*query.shape[:-1], call.key.shape[-2])
    if any(size not in (1, full) for size, full in zip(mask.shape, scores[-mask.dim():])):
        return "attn_mask does not broadcast to the scores"
    return None


def _route(call):
    query, key, value = (_four_dimensions(tensor) for tensor in (call.query, call.key, call.value))
    options = {"scale": call.scale}
    if call.attn_mask is not None:
        name = "mask" if call.attn_mask.dtype == torch.bool else "bias"
        options[name] = _mask_of_four_dimensions(call.attn_mask, call.query)
    elif call.is_causal:
        # PyTorch's diagonal begins at the first key, ours ends at the last one.
        rows, keys = query.shape[2], key.shape[2]
        key, value = key[:, :, :rows], value[:, :, :rows]  # no row sees the keys behind
        options |= {"window": (None, rows - keys)} if rows > keys else {"causal": True}
    out = flash_attention(query, key, value, **options)
    return out.reshape(*call.query.shape[:-1], value.shape[-1])


def _four_dimensions(tensor):
    """[batch, heads, rows, features]."""
    if tensor.dim() > 4:
        return tensor.flatten(0, -4)
    return tensor[(None,) * (4 - tensor.dim())]


def _mask_of_four_dimensions(mask, query):
    if query.dim() > 4 and any(size != 1 for size in mask.shape[:-3]):
        mask = mask[(None,) * (query.dim() - mask.dim())]
        mask = mask.expand(*query.shape[:-3], *mask.shape[-3:])
    return _four_dimensions(mask)
