#!/usr/bin/env python3
"""What a call costs on npu tensors: operators over the same ones on CPU tensors, and attention. A table and JSON.

    source <prefix>/set_env.sh; python benchmarks/npu_fallback_bench.py [--json file] [--check]

Tensors are tiny, so that the difference is what it takes to get to the CPU kernel and back, and the time of attention is what
a call takes beside the arithmetic. --check fails above the limits: 1.5 us for a call and 0.3 us for each tensor of a list, given
or returned, both over the CPU's time, and 40 us for attention.
"""
import argparse
import json
import sys
import time

import torch
import torch_npu

CALL_LIMIT, LIST_LIMIT, ATTENTION_LIMIT, LIST_SIZE = 1.5, 0.3, 40.0, 400
ROUNDS, SECONDS = 150, 0.001
# Operators on lists, with the number of tensors that they get and give.
LISTS = {"_foreach_add_": LIST_SIZE, "_foreach_sqrt": 2 * LIST_SIZE, "cat": LIST_SIZE}


def cases(device):
    x, y, out = (torch.ones(2, 2, device=device) for _ in range(3))
    total = x.sum()
    many = [torch.ones(2, device=device) for _ in range(LIST_SIZE)]
    index = torch.tensor([1, 0], device=device)
    return {
        "add": lambda: torch.add(x, y),
        "add_ in place": lambda: y.add_(x),
        "add out=": lambda: torch.add(x, y, out=out),
        "mul by number": lambda: x * 2.0,
        "sum": lambda: x.sum(),
        "max of a dimension": lambda: torch.max(x, 1),
        "matmul": lambda: torch.mm(x, y),
        "copy_": lambda: y.copy_(x),
        "index": lambda: x[index],
        "zeros": lambda: torch.zeros(2, 2, device=device),
        "item": lambda: total.item(),
        "view": lambda: x.view(4),
        "empty": lambda: torch.empty(2, 2, device=device),
        "to float64": lambda: x.double(),
        "_foreach_add_": lambda: torch._foreach_add_(many, 0.0),
        "_foreach_sqrt": lambda: torch._foreach_sqrt(many),
        "cat": lambda: torch.cat(many),
        "randn": lambda: torch.randn(2, 2, device=device),
        "randint": lambda: torch.randint(0, 9, (2, 2), device=device),
        "randperm": lambda: torch.randperm(5, device=device),
        "bernoulli_": lambda: y.bernoulli_(0.5),
    }


def attention():
    """Two heads, 16 queries and keys, head dimension 32."""
    q, k, v = (torch.ones(1, 2, 16, 32, dtype=torch.float16, device="npu") for _ in range(3))
    return lambda: torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD")


def microseconds(function, count):
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count * 1e6


def measure(*functions):
    """The smallest times: other programs can only add. Turn by turn, so that all get the same machine."""
    for function in functions:
        microseconds(function, 10)
    count = max(2, int(SECONDS * 1e6 / microseconds(functions[0], 10)))
    rounds = [[microseconds(function, count) for function in functions] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds)]


def rows():
    """For each case: operator, what a number is per, microseconds on both devices, what the limit holds for, the limit."""
    on_cpu, on_npu = cases("cpu"), cases("npu")
    for name in on_cpu:
        cpu, npu = measure(on_cpu[name], on_npu[name])
        share, per, limit = (LISTS[name], "tensor", LIST_LIMIT) if name in LISTS else (1, "call", CALL_LIMIT)
        yield {"operator": name, "per": per, "cpu_us": cpu / share, "npu_us": npu / share, "over_us": (npu - cpu) / share,
               "limit_us": limit}
    (npu,) = measure(attention())
    yield {"operator": "npu_fusion_attention", "per": "call", "cpu_us": 0.0, "npu_us": npu, "over_us": npu,
           "limit_us": ATTENTION_LIMIT}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)

    tensor = torch.ones(2, 2, device="npu")
    address = tensor.data_ptr()
    assert tensor.add_(1).data_ptr() == address, "an operator in place moved its tensor"

    results = []
    print(f"{'operator':22} {'per':6} {'cpu us':>8} {'npu us':>8} {'over us':>8} {'limit':>6}")
    with torch.no_grad():
        for row in rows():
            results.append(row)
            print("{operator:22} {per:6} {cpu_us:8.3f} {npu_us:8.3f} {over_us:8.3f} {limit_us:6}".format(**row))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    failed = [row["operator"] for row in results if row["over_us"] > row["limit_us"]]
    if options.check and failed:
        sys.exit(f"above the limit: {', '.join(failed)}")


if __name__ == "__main__":
    main()
