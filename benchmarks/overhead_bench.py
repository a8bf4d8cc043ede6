#!/usr/bin/env python3
"""What a call of flash_attention costs beside the same call through the C interface. A table and JSON.

    source <prefix>/set_env.sh; python benchmarks/overhead_bench.py [--json file] [--check]

Two heads, 16 queries and keys, head dimension 32, one thread: little arithmetic, so that what surrounds it shows. On the C side stand
the two phases of aclnnFlashAttentionScore, and of aclnnFlashAttentionScoreGrad, on tensor descriptions, results and workspace made
beforehand, called by ctypes; the time that ctypes itself takes, measured with a C function that returns at once, is taken off. All
take turns, and the smallest time of each counts. The difference is what Python, the checks, PyTorch's dispatcher, its autograd engine,
the results' memory and the descriptions take. --check fails above the limits: 30 us for forward, 60 us for forward and
backward. The last lines have no limit: one product of two tensors and its gradients, which is the least that autograd takes
on this machine, and PyTorch's own attention. Run it on a quiet one.
"""
import argparse
import ctypes
import json
import os
import sys
import time

os.environ["ASCEND_CPU_THREADS"] = "1"
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from ops_transformer import flash_attention  # noqa: E402
from ops_transformer.home import library_path  # noqa: E402

BATCH, HEADS, TOKENS, HEAD_DIM = 1, 2, 16, 32
SCALE = HEAD_DIM ** -0.5
LIMITS = {"forward": 30.0, "forward and backward": 60.0}
ROUNDS, CALLS = 300, 20
STATISTICS = 8  # equal numbers for each row of the softmax statistics
NO_LIMIT = 2 ** 31 - 1


class Interface:
    """The operators in C on descriptions that are made once. Keeps what the descriptions point to."""

    def __init__(self):
        self.library = ctypes.CDLL(library_path("libopapi.so"))
        self.base = ctypes.CDLL(library_path("libnnopbase.so"))
        self.base.aclCreateTensor.restype = ctypes.c_void_p
        self.kept = []
        self.workspace_size, self.executor = ctypes.c_uint64(), ctypes.c_void_p()

    def describe(self, tensor):
        """An aclTensor of a contiguous float32 tensor."""
        self.kept.append(tensor)
        dims = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        strides = (ctypes.c_int64 * tensor.dim())(*tensor.stride())
        made = self.base.aclCreateTensor(dims, ctypes.c_uint64(tensor.dim()), 0, strides, ctypes.c_int64(0), 2, dims,
                                         ctypes.c_uint64(tensor.dim()), ctypes.c_void_p(tensor.data_ptr()))
        assert made
        return ctypes.c_void_p(made)

    def numbers(self):
        """scale to sparseMode, which both operators have in this order."""
        return [ctypes.c_double(SCALE), ctypes.c_double(1.0), *map(ctypes.c_int64, (NO_LIMIT, NO_LIMIT, HEADS)),
                ctypes.c_char_p(b"BNSD"), ctypes.c_int64(0), ctypes.c_int64(0)]

    def operator(self, name, arguments):
        """Functions for a call, and for one of the same form that does nothing."""
        plan, execute = getattr(self.library, f"{name}GetWorkspaceSize"), getattr(self.library, name)
        size, executor = self.workspace_size, self.executor
        arguments = [*arguments, ctypes.byref(size), ctypes.byref(executor)]
        assert plan(*arguments) == 0
        workspace = torch.empty(max(size.value, 1), dtype=torch.uint8)
        self.kept.append(workspace)
        address = ctypes.c_void_p(workspace.data_ptr())
        nothing = ctypes.CDLL(None).labs  # leaves alone what it does not know

        def call():
            assert plan(*arguments) == 0
            assert execute(address, size, executor, None) == 0

        def empty():
            nothing(*arguments)
            nothing(address, size, executor, None)

        call.memory = self.kept
        return call, empty


def contenders():
    """{name: (function of Python, functions of C with their empty ones)}, after a look that both sides compute the same."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, gradient = (torch.randn(BATCH, HEADS, TOKENS, HEAD_DIM, generator=generator) for _ in range(4))
    out, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
    maximum, total = (torch.empty(BATCH, HEADS, TOKENS, STATISTICS) for _ in range(2))
    c = Interface()
    query, key, value, dy, attention = map(c.describe, (q, k, v, gradient, out))
    statistics = [c.describe(maximum), c.describe(total)]
    gradients = list(map(c.describe, (dq, dk, dv)))
    forward = c.operator("aclnnFlashAttentionScore", [query, key, value, *[None] * 5, *c.numbers(), *statistics, None, attention])
    backward = c.operator("aclnnFlashAttentionScoreGrad",
                          [query, key, value, dy, *[None] * 4, *statistics, None, attention, None, *c.numbers(), *gradients, None])
    forward[0]()
    backward[0]()
    learning = [tensor.clone().requires_grad_() for tensor in (q, k, v)]

    def python_forward():
        return flash_attention(q, k, v)

    def python_both():
        return torch.autograd.grad(flash_attention(*learning), learning, gradient)

    for mine, theirs in zip((python_forward(), *python_both()), (out, dq, dk, dv)):
        assert torch.equal(mine, theirs), "both sides have to compute the same"
    product = learning[:2]
    return {"forward": (python_forward, [forward]),
            "forward and backward": (python_both, [forward, backward]),
            "q * k and backward": (lambda: torch.autograd.grad(product[0] * product[1], product, gradient), []),
            "SDPA, forward": (lambda: scaled_dot_product_attention(q, k, v), []),
            "SDPA, forward and backward": (lambda: torch.autograd.grad(scaled_dot_product_attention(*learning), learning, gradient), [])}


def microseconds(function):
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - start) / CALLS * 1e6


def rows():
    for name, (python, in_c) in contenders().items():
        functions = [python, *(function for pair in in_c for function in pair)]
        rounds = [[microseconds(function) for function in functions] for _ in range(ROUNDS)]
        total, *parts = (min(times) for times in zip(*rounds))
        empty = sum(parts[1::2])
        interface = sum(parts[::2]) - empty
        yield {"call": name, "python_us": total, "c_us": interface, "ctypes_us": empty, "over_us": total - interface,
               "limit_us": LIMITS.get(name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    print(f"{'call':26} {'python us':>10} {'C us':>8} {'over us':>8} {'limit':>6}")
    for row in rows():
        results.append(row)
        print("{call:26} {python_us:10.1f} {c_us:8.1f} {over_us:8.1f}".format(**row), f"{row['limit_us'] or '':>6}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    failed = [row["call"] for row in results if row["limit_us"] is not None and row["over_us"] > row["limit_us"]]
    if options.check and failed:
        sys.exit(f"above the limit: {', '.join(failed)}")


if __name__ == "__main__":
    main()
