#!/usr/bin/env python3
"""Draws the pictures of docs/performance.md from the numbers in the kernels' source.

    python3 docs/performance/draw.py [folder]     writes all pictures into the folder; default: this one
"""

import sys
from pathlib import Path

import tile
import tiling
from kernels import kernel
from tiling import Example

PICTURES = {
    "tiling-avx2": lambda: tiling.draw(Example(
        kernel("avx2", "fp32"), "Tiling: table avx2, causal",
        length=2048, window=None, query_block=5, key_blocks=2)),
    "tiling-avx512": lambda: tiling.draw(Example(
        kernel("avx512", "fp16"), "Tiling: table avx512, causal window of 512 keys",
        length=4096, window=512, query_block=5, key_blocks=5)),
    "tile-avx2": lambda: tile.draw(kernel("avx2", "fp32")),
    "tile-avx512": lambda: tile.draw(kernel("avx512", "fp32")),
}


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
