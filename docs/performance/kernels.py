"""The numbers of the attention kernels, read from their source, so that pictures and tables cannot go stale."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "ops-transformer/ops/flash_attention/kernels"
NUMBER = r"(\d+)(?:\.0F)?\b"
# A fact of the instruction sets: how many vector registers there are.
REGISTERS = {"portable": 16, "avx2": 16, "avx512": 32}


def constants(file, *patterns):
    """What the patterns, each with `#` for one number, find in a file: exactly one place each."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    numbers = []
    for pattern in patterns:
        found = re.findall(re.escape(pattern).replace(r"\#", NUMBER), text)
        if len(found) != 1:
            raise LookupError(f'{file}: "{pattern}" is there {len(found)} times instead of once')
        numbers += map(int, [found[0]] if isinstance(found[0], str) else found[0])
    return numbers


KEY_BLOCK, = constants("key_block.h", "kKeyBlock = #;")
GROUP_BLOCKS, STRIPS = constants("forward.h", "kKeyGroup = # * kKeyBlock;", "kStrips = #;")
BACKWARD_STRIPS, = constants("query_panels.h", "kBackwardRows = # * Softmax<V>::kColumns;")
GRADIENT_KEYS, = constants("gradient_panels.h", "kGradientKeys = #;")
BACKWARD_KEYS, = constants("dispatch.h", "kBackwardKeys = #;")
KEY_CHAIN, = constants("tile.h", "kChain = # / V::depth;")
TREE_LEVELS, = constants("feature_tree.h", "kFloats = # * Sums::kFloats;")
RISE_LIMIT, = constants("softmax.h", "kRiseLimit = #;")
EXP_DEGREE, = constants("elements.h", "int exp_degree = #;")
PAIR_DEPTH, PAIR_EXP_DEGREE = constants("vec_avx512.h", "int depth = #;", "int exp_degree = #;")
ELEMENT_BYTES = 4  # an fp32 value, or a pair of bf16


@dataclass(frozen=True)
class Kernel:
    """The forward kernel of one table, or of one type of it. Sizes are in bytes, for D features a head."""
    table: str
    type: str
    lanes: int
    tile_rows: int
    tile_vecs: int
    feature_chain: int
    depth: int = 1
    exp_degree: int = EXP_DEGREE

    @property
    def vectors(self):
        """The instruction set that it shares its vectors with."""
        return self.table.removesuffix("_bf16")

    @property
    def columns(self):
        """Query rows of a strip."""
        return self.lanes * self.tile_vecs

    @property
    def gradient_bytes(self):
        """Backward: weights, or gradients of scores, of a block of query rows and a block of keys."""
        return BACKWARD_STRIPS * self.columns * GRADIENT_KEYS // self.depth * ELEMENT_BYTES

    @property
    def query_block(self):
        return self.columns * STRIPS

    @property
    def sums(self):
        """Registers that a tile's sums take."""
        return self.tile_rows * self.tile_vecs

    @property
    def line_bytes(self):
        """Of the right operand that a step of a tile reads."""
        return self.columns * ELEMENT_BYTES

    def query_bytes(self, features):
        """The transposed query of a strip."""
        return self.line_bytes * features // self.depth

    def output_bytes(self, features):
        """What a strip sums up for the present group of key blocks."""
        return self.line_bytes * features

    @property
    def weights_bytes(self):
        """The weights of a strip for a block of keys."""
        return self.line_bytes * KEY_BLOCK // self.depth

    @property
    def tree_bytes(self):
        """Room for partial sums over features."""
        return TREE_LEVELS * self.line_bytes * self.tile_rows

    def block_bytes(self, features):
        """Keys of a block, or their values, as the products read them."""
        return KEY_BLOCK * features * ELEMENT_BYTES // self.depth


def _kernels():
    fields = ("lanes", "tile_rows", "tile_vecs", "feature_chain")
    for table in ("portable", "avx2", "avx512"):
        vectors = constants(f"vec_{table}.h", *(f"static constexpr int {field} = #;" for field in fields))
        yield Kernel(table, "fp32, fp16, bf16", *vectors)
    yield Kernel("avx512_bf16", "bf16", *vectors, PAIR_DEPTH, PAIR_EXP_DEGREE)


KERNELS = list(_kernels())


def kernel(table, kind):
    (found,) = [k for k in KERNELS if k.table == table and kind in k.type]
    return found


def amount(count):
    """Bytes as people read them."""
    return f"{count / 1024:g} KiB" if count >= 1024 else f"{count} bytes"
