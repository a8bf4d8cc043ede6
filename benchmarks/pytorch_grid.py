#!/usr/bin/env python3
"""flash_attention beside PyTorch's scaled_dot_product_attention in every cell of two grids. A summary, and JSON.

    source <prefix>/set_env.sh
    python benchmarks/pytorch_grid.py --long    tokens 512 to 8192, D 64 and 128, with and without causal, forward and backward
    python benchmarks/pytorch_grid.py --short   tokens 1, 16, 64, 128 with 1 to 256 heads, forward
    options: --json FILE, --threads N,N (default 1,2), --dtype fp32,fp16,bf16 (default all), --tokens N,N, --seconds T (a cell, 0.3)

Both compute the same (it is checked before), in this process and by turns; a cell's number is how many times faster this library
is, the median over the rounds. --long has fewer heads where there are more tokens, so that a cell takes seconds at most; forward
and backward are timed together. It takes about a minute for 20 cells.
"""
import argparse
import itertools
import json
import os
import statistics
import sys

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # no npu takes part

from ops_transformer.tools import bench, measure, screen  # noqa: E402
from ops_transformer.tools.contenders import PYTORCH  # noqa: E402
from ops_transformer.tools.measure import Case  # noqa: E402

HEADS = {512: 8, 1024: 8, 2048: 4, 4096: 1, 8192: 1}
SHORT_TOKENS, SHORT_HEADS, MOST_HEADS = (1, 16, 64, 128), (1, 4, 16, 64, 256), 16
ROUNDS = 5


def long_cells(dtypes, threads, tokens):
    for dtype, backward, causal, dim, length, count in itertools.product(dtypes, (False, True), (False, True), (64, 128),
                                                                         tokens or HEADS, threads):
        yield Case(heads=HEADS.get(length, 8), queries=length, keys=length, head_dim=dim, dtype=dtype, causal=causal, backward=backward,
                   threads=count)


def short_cells(dtypes, threads, tokens):
    """Heads beyond 16 are batches of 16."""
    for dtype, causal, length, heads, count in itertools.product(dtypes, (False, True), tokens or SHORT_TOKENS, SHORT_HEADS, threads):
        yield Case(batch=max(1, heads // MOST_HEADS), heads=min(heads, MOST_HEADS), queries=length, keys=length, head_dim=64, dtype=dtype,
                   causal=causal, threads=count)


def measure_cells(cells, seconds):
    import torch

    cells = list(cells)
    with screen.progress(len(cells), "cells") as advance:
        for case in cells:
            torch.set_num_threads(case.threads)
            yield bench.compare(case, ROUNDS, seconds)
            advance()


def name_of(case):
    return (f"{case['dtype']} {case['mask']}, {'forward and backward' if case['backward'] else 'forward'}, D {case['head_dim']}, "
            f"{case['threads']} thread{'s' * (case['threads'] > 1)}")


def show(rows, by):
    """One line for each kind of cell, one column for each size."""
    sizes = dict.fromkeys(by(row["case"]) for row in rows)
    kinds = dict.fromkeys(name_of(row["case"]) for row in rows)
    found = {(name_of(row["case"]), by(row["case"])): row["contenders"][PYTORCH]["faster"] for row in rows}
    lines = [[kind, *(f"{found[kind, size]:.2f}" for size in sizes)] for kind in kinds]
    screen.table(["times faster than SDPA", *sizes], lines, right=range(1, len(sizes) + 1))
    ratios = sorted(found.values())
    print(f"{len(ratios)} cells: faster in {sum(ratio > 1 for ratio in ratios)}, at least 0.95 in "
          f"{sum(ratio >= 0.95 for ratio in ratios)}; smallest {ratios[0]:.2f}, median {statistics.median(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    grid = parser.add_mutually_exclusive_group(required=True)
    grid.add_argument("--long", action="store_true")
    grid.add_argument("--short", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=bench.numbers, default=[1, 2], metavar="N,N")
    parser.add_argument("--dtype", type=bench.types, default=list(measure.TYPES), metavar="TYPE,TYPE")
    parser.add_argument("--tokens", type=bench.numbers, metavar="N,N")
    parser.add_argument("--seconds", type=float, default=0.3, metavar="T")
    options = parser.parse_args()
    cells = (long_cells if options.long else short_cells)(options.dtype, options.threads, options.tokens)
    rows = list(measure_cells(cells, options.seconds))
    show(rows, lambda case: f"S {case['queries']}" if options.long else f"S {case['queries']} x {case['batch'] * case['heads']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": measure.machine(), "load": os.getloadavg()[0], "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
