"""What is timed in this process: functions that make a call out of a case and its tensors. torch is imported on use."""
import time

from ops_transformer.tools import Fault
from ops_transformer.tools.measure import TYPES

OURS, PYTORCH = "ops_transformer", "PyTorch SDPA"
_PRODUCT_SIZE = 768
# Of results for normally distributed inputs; the largest are about 4.
_LARGEST_DIFFERENCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 6e-2}


class Tensors:
    """Query, key and value of a case, those of `arrays` if given, and the gradient that comes in; the same for the same case."""

    def __init__(self, case, arrays=None):
        import torch

        dtype = getattr(torch, TYPES[case.dtype])
        generator = torch.Generator().manual_seed(0)

        def normal(heads, tokens):
            return torch.randn(case.batch, heads, tokens, case.head_dim, generator=generator).to(dtype)

        self.gradient = normal(case.heads, case.queries)
        if arrays is None:
            self.inputs = normal(case.heads, case.queries), *(normal(case.kv_heads, case.keys) for _ in range(2))
        else:
            self.inputs = tuple(torch.from_numpy(array).to(dtype) for array in arrays)
        for tensor in self.inputs:
            tensor.requires_grad_(case.backward)


def seen_mask(case):
    """True where the query of the row sees the key of the column."""
    import torch

    here = torch.arange(case.queries)[:, None] + case.keys - case.queries
    keys = torch.arange(case.keys)
    left, right = case.window or (None, None)
    right = 0 if case.causal else right
    seen = torch.ones(case.queries, case.keys, dtype=torch.bool)
    if left is not None:
        seen &= keys >= here - left
    if right is not None:
        seen &= keys <= here + right
    return seen


def ours(case, tensors):
    from ops_transformer import flash_attention

    return lambda: flash_attention(*tensors.inputs, causal=case.causal, window=case.window)


def pytorch(case, tensors):
    """Its own flag where it means the same; else a mask, made beforehand."""
    from torch.nn.functional import scaled_dot_product_attention

    options = {"enable_gqa": True} if case.kv_heads != case.heads else {}
    if case.causal and case.window is None and case.queries == case.keys:
        options["is_causal"] = True
    elif case.causal or case.window is not None:
        options["attn_mask"] = seen_mask(case)
    return lambda: scaled_dot_product_attention(*tensors.inputs, **options)


def timed(case, tensors, call):
    """The function that runs a call once, with its backward if the case has one, and gives the seconds."""
    import torch

    def forward():
        with torch.no_grad():
            begin = time.perf_counter()
            call()
            return time.perf_counter() - begin

    def both():
        begin = time.perf_counter()
        torch.autograd.grad(call(), tensors.inputs, tensors.gradient)
        return time.perf_counter() - begin

    return both if case.backward else forward


def matrix_product():
    """A product of two float32 matrices by PyTorch: what a well-known library reaches here. The function, and its operations."""
    import torch

    left, right = torch.randn(_PRODUCT_SIZE, _PRODUCT_SIZE), torch.randn(_PRODUCT_SIZE, _PRODUCT_SIZE)

    def run():
        begin = time.perf_counter()
        torch.mm(left, right)
        return time.perf_counter() - begin

    return run, 2 * _PRODUCT_SIZE ** 3


def check_alike(case, name, expected, result):
    """The largest difference; a Fault if it is too large for both to be right. PyTorch may give NaN where no key is seen."""
    difference = (expected.float() - result.float().nan_to_num(0.0)).abs().max().item()
    if not difference <= _LARGEST_DIFFERENCE[case.dtype]:
        raise Fault(f"{name} gives another result than {OURS}: largest difference {difference:.3g}")
    return difference
