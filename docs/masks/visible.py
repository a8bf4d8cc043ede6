"""Asks the attention operator itself which keys each query row sees.

All scores are zero, so that every visible key has the same weight, and the value rows are those of a unit matrix, so
that column j of the output is the weight of key j: above zero where the key is visible. Needs the environment of
set_env.sh.
"""

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import Optional

NO_LIMIT = 2**31 - 1
ACL_FLOAT, ACL_UINT8, ACL_FORMAT_ND = 0, 4, 2  # of acl_base.h
COMPRESSED = {2: (2048, 2048), 3: (2048, 2048), 4: (2048, 2048), 6: (3072, 2048), 7: (2048, 2048), 8: (2048, 2048)}


@dataclass
class Call:
    """Sequences of (Sq, Skv); one alone is a dense batch, except for the modes that packed sequences have alone."""

    mode: int
    sequences: list
    pre: int = NO_LIMIT
    next: int = NO_LIMIT
    prefix: Optional[int] = None
    mask: Optional[list] = None  # rows of "0" and "1", 1 = hidden; None: nothing is hidden

    @property
    def packed(self):
        return len(self.sequences) > 1 or self.mode > 6


class Operator:
    """The two operators of the C interface, with one head."""

    def __init__(self):
        self.library = ctypes.CDLL("libopapi.so")
        for name in ("aclCreateTensor", "aclCreateIntArray"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.kept = []  # data and handles of a call, which must outlive it

    def tensor(self, shape, values=None, dtype=ACL_FLOAT):
        count, element = 1, ctypes.c_float if dtype == ACL_FLOAT else ctypes.c_uint8
        for size in shape:
            count *= size
        data = (element * count)(*(values or ()))
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        handle = self.library.aclCreateTensor(sizes, ctypes.c_uint64(len(shape)), dtype, None, ctypes.c_int64(0),
                                              ACL_FORMAT_ND, sizes, ctypes.c_uint64(len(shape)), data)
        self.kept.append((data, ctypes.c_void_p(handle)))
        return self.kept[-1]

    def int_array(self, values):
        data = (ctypes.c_int64 * len(values))(*values)
        return ctypes.c_void_p(self.library.aclCreateIntArray(data, ctypes.c_uint64(len(values))))

    def check(self, status):
        if status != 0:
            text = self.library.aclGetRecentErrMsg()
            raise RuntimeError(f"code {status}: {text.decode() if text else 'no text'}")

    def mask(self, call):
        if call.mode in COMPRESSED:
            shape = COMPRESSED[call.mode]
            return self.tensor(shape, dtype=ACL_UINT8)  # stands for the pattern; its content is not read
        rows = call.mask or ["0" * call.sequences[0][1]] * call.sequences[0][0]
        return self.tensor((len(rows), len(rows[0])), [int(cell) for row in rows for cell in row], ACL_UINT8)

    def weights(self, call):
        """For each sequence a list of rows, for each row the weights of the sequence's keys."""
        rows, keys = (sum(lengths) for lengths in zip(*call.sequences))
        width = max(kv_len for _, kv_len in call.sequences)
        units = [float(d == j) for _, kv_len in call.sequences for j in range(kv_len) for d in range(width)]
        lead, layout = ((), b"TND") if call.packed else ((1,), b"BSND")
        query, key = self.tensor((*lead, rows, 1, width)), self.tensor((*lead, keys, 1, width))
        value, out = self.tensor((*lead, keys, 1, width), units), self.tensor((*lead, rows, 1, width))
        statistics = (rows, 1, 8) if call.packed else (1, 1, rows, 8)
        maxima, sums = self.tensor(statistics), self.tensor(statistics)

        lists = []
        if call.packed:
            lists = [self.int_array(list(itertools.accumulate(lengths))) for lengths in zip(*call.sequences)]
        prefix = None if call.prefix is None else self.int_array([call.prefix] * len(call.sequences))
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        name = "aclnnFlashAttentionVarLenScore" if call.packed else "aclnnFlashAttentionScore"
        self.check(getattr(self.library, name + "GetWorkspaceSize")(
            query[1], key[1], value[1], None, None, None, self.mask(call)[1], prefix, *lists, ctypes.c_double(1),
            ctypes.c_double(1), ctypes.c_int64(call.pre), ctypes.c_int64(call.next), ctypes.c_int64(1),
            ctypes.create_string_buffer(layout), ctypes.c_int64(0), ctypes.c_int64(call.mode), maxima[1], sums[1], None,
            out[1], ctypes.byref(size), ctypes.byref(executor)))
        workspace = (ctypes.c_uint8 * max(size.value, 1))()
        self.check(getattr(self.library, name)(workspace, size, executor, None))

        lines = iter([list(out[0][row * width:(row + 1) * width]) for row in range(rows)])
        result = [[next(lines)[:kv_len] for _ in range(q_len)] for q_len, kv_len in call.sequences]
        for _, handle in self.kept:
            self.library.aclDestroyTensor(handle)
        for handle in filter(None, [*lists, prefix]):
            self.library.aclDestroyIntArray(handle)
        self.kept.clear()
        return result


@functools.lru_cache
def operator():
    return Operator()


def grids(call):
    """For each sequence of the call a grid: for each row a text with one character a key, 1 = visible."""
    return [["".join("01"[weight > 0] for weight in row) for row in rows] for rows in operator().weights(call)]
