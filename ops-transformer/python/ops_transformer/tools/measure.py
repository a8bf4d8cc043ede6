"""What speed is measured by: the work that a case needs, timing by turns, and what the machine is. Needs no torch."""
import dataclasses
import os
import statistics
import time

TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_BACKWARD_FIRST, _BACKWARD_SECOND = 3, 2  # products over D (scores again, dQ, dK) and over Dv (gradient of the weights, dV)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of attention on tensors [batch, heads, tokens, head_dim]."""

    heads: int
    queries: int
    keys: int
    head_dim: int
    batch: int = 1
    kv_heads: int = 0  # 0: as many as heads
    dtype: str = "fp32"
    causal: bool = False
    window: tuple = None  # (left, right), None is no limit on that side
    backward: bool = False  # forward and backward together
    threads: int = 1

    def __post_init__(self):
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "window", tuple(self.window) if self.window else None)

    @property
    def mask(self):
        if self.window is None:
            return "causal" if self.causal else "no mask"
        left, right = (("" if side is None else side) for side in self.window)
        return f"window {left},{0 if self.causal else right}"

    def seen(self, query):
        """The keys that a query sees, as a range. The last query is beside the last key."""
        left, right = self.window or (None, None)
        right = 0 if self.causal else right
        here = query + self.keys - self.queries
        first = 0 if left is None else max(0, here - left)
        end = self.keys if right is None else min(self.keys, here + right + 1)
        return range(first, max(first, end))

    def pairs(self):
        """Pairs of a query and a key that it sees, of one head."""
        if not self.causal and self.window is None:
            return self.queries * self.keys
        return sum(len(self.seen(query)) for query in range(self.queries))

    def flops(self):
        """Of the products that cannot be left out: nothing for hidden pairs, for softmax, for what is computed again by choice."""
        products = 2 + (_BACKWARD_FIRST + _BACKWARD_SECOND if self.backward else 0)
        return 2 * products * self.pairs() * self.batch * self.heads * self.head_dim


def by_turns(runs, rounds, seconds, limit=None, advance=lambda: None):
    """Times of functions that give their seconds: at least `rounds` of each, and until `seconds` have gone by; none of the rounds
    begins after `limit` seconds, except the first. All take turns, every second round backwards, so that other programs and
    changes of the clock meet all of them alike. Gives the list of times of each."""
    names, times = list(runs), {name: [] for name in runs}
    begin = time.perf_counter()
    for number in range(10 ** 6):
        gone = time.perf_counter() - begin
        if number and (gone >= limit if limit is not None else False) or number >= rounds and gone >= seconds:
            break
        for name in names if number % 2 == 0 else reversed(names):
            times[name].append(runs[name]())
        advance()
    return times


def summary(times, flops):
    """Best and median; the speed is of the best, because other programs only ever make a run slower."""
    best = min(times)
    return {"best_ms": best * 1e3, "median_ms": statistics.median(times) * 1e3, "gflops": flops / best * 1e-9, "rounds": len(times)}


def times_faster(ours, other):
    """How many times faster: the median over the rounds, since both of a round met the same machine."""
    return statistics.median(theirs / mine for mine, theirs in zip(ours, other))


def machine():
    """What results depend on, and nothing else about the machine."""
    import torch

    return {"processor": _processor(), "processors": len(os.sched_getaffinity(0)), "kernels": _kernels(), "torch": torch.__version__}


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()


def _kernels():
    from ops_transformer.tools import Fault, info

    try:
        return info.ask_library()["chosen"]
    except Fault:
        return None
