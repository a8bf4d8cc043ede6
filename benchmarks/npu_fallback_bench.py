#!/usr/bin/env python3
"""What an operator on npu tensors costs over the same operator on CPU tensors. Prints a table, writes JSON.

    source <prefix>/set_env.sh; python benchmarks/npu_fallback_bench.py [--json file] [--check]

Tensors are tiny, so that the difference is what it takes to get to the CPU kernel and back. --check fails above the limits:
1.5 us for a call, 0.3 us for each tensor of a list. Random numbers cost more, the seeding of a generator, and have no limit.
"""
import argparse
import json
import sys
import time

import torch
import torch_npu  # noqa: F401

CALL_LIMIT, LIST_LIMIT, LIST_SIZE = 1.5, 0.3, 400
ROUNDS, SECONDS = 15, 0.004


def cases(device):
    x, y, out = (torch.ones(2, 2, device=device) for _ in range(3))
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
        "item": lambda: out[0, 0].item(),
        "list: _foreach_add_": lambda: torch._foreach_add_(many, 0.0),
        "list: _foreach_sqrt": lambda: torch._foreach_sqrt(many),
        "list: cat": lambda: torch.cat(many),
        "randn (seeds a generator)": lambda: torch.randn(2, 2, device=device),
    }


def microseconds(function, count):
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count * 1e6


def measure(on_cpu, on_npu):
    """The smallest times of both: other programs can only add. Turn by turn, so that they get the same machine."""
    for function in (on_cpu, on_npu):
        microseconds(function, 10)
    count = max(2, int(SECONDS * 1e6 / microseconds(on_cpu, 10)))
    times = [(microseconds(on_cpu, count), microseconds(on_npu, count)) for _ in range(ROUNDS)]
    return min(cpu for cpu, _ in times), min(npu for _, npu in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)

    tensor = torch.ones(2, 2, device="npu")
    address = tensor.data_ptr()
    assert tensor.add_(1).data_ptr() == address, "an operator in place moved its tensor"

    rows, failed = [], []
    on_cpu, on_npu = cases("cpu"), cases("npu")
    print(f"{'operator':28} {'cpu us':>8} {'npu us':>8} {'over us':>8}  limit")
    with torch.no_grad():
        for name in on_cpu:
            cpu, npu = measure(on_cpu[name], on_npu[name])
            share = LIST_SIZE if name.startswith("list") else 1
            limit = None if "seeds" in name else LIST_LIMIT if share > 1 else CALL_LIMIT
            cpu, npu = cpu / share, npu / share
            rows.append({"operator": name, "per": "tensor" if share > 1 else "call", "cpu_us": cpu, "npu_us": npu,
                         "limit_us": limit})
            print(f"{name:28} {cpu:8.3f} {npu:8.3f} {npu - cpu:8.3f}  {limit or '-'}"
                  f"{' per tensor' if share > 1 else ''}")
            if limit is not None and npu - cpu > limit:
                failed.append(name)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    if options.check and failed:
        sys.exit(f"above the limit: {', '.join(failed)}")


if __name__ == "__main__":
    main()
