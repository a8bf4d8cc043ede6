"""Tokens a second, and peak memory in a process of its own for every figure.

    python measure.py '{"work": "inference", "attention": "native", ...}'     one memory figure, as JSON
"""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from attention import ATTENTIONS
from model import HEAD_DIM, Transformer, loss, text

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MIB = 2**20
WARM_UP = 128  # tokens; enough to load every kernel, too few to matter for memory


@dataclasses.dataclass(frozen=True)
class Case:
    work: str  # "inference": logits of a text; "training": loss, gradients, AdamW; "attention": one call of it alone
    length: int
    heads: int
    attention: str
    device: str = "cpu"
    dtype: str = "fp32"

    def __str__(self):
        return f"{self.work}, {self.length} tokens, {self.attention}"


def runner(case):
    """A function that does the case's work once on so many tokens."""
    torch.manual_seed(0)
    dtype, attention = DTYPES[case.dtype], ATTENTIONS[case.attention]
    if case.work == "attention":
        def prepare(length):
            return [torch.randn(1, case.heads, length, HEAD_DIM).to(case.device, dtype) for _ in range(3)]
        return prepare, torch.no_grad()(lambda operands: attention(*operands))

    model = Transformer(attention, case.heads).to(case.device, dtype)
    if case.work == "inference":
        return lambda length: text(length).to(case.device), torch.no_grad()(model)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(tokens):
        optimizer.zero_grad()
        loss(model, tokens).backward()
        optimizer.step()
    return lambda length: text(length + 1).to(case.device), step


def seconds(cases, rounds, limit):
    """The best time of each case. The cases run by turns, so that a noisy minute meets them all. New rounds begin until
    `limit` seconds are over: a pass that is as long as that is its own mean."""
    prepared = []
    for case in cases:
        prepare, work = runner(case)
        work(prepare(WARM_UP))
        prepared.append((case, work, prepare(case.length)))
    best = dict.fromkeys(cases, float("inf"))
    begin = time.perf_counter()
    for number in range(rounds):
        if number > 0 and time.perf_counter() - begin > limit:
            break
        for case, work, operands in prepared:
            start = time.perf_counter()
            work(operands)
            if case.device == "npu":
                torch.npu.synchronize()
            best[case] = min(best[case], time.perf_counter() - start)
    return best


def status(name):
    """A line of /proc/self/status that is in kB, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def memory_of_this_process(case):
    """Resident memory before the work (Python, libraries, weights, operands, a warm-up), and what the peak adds."""
    prepare, work = runner(case)
    work(prepare(WARM_UP))
    operands = prepare(case.length)
    baseline = status("VmRSS")
    work(operands)
    return {"baseline_mib": round(baseline / MIB, 1), "peak_mib": round((status("VmHWM") - baseline) / MIB, 1)}


def memory(case):
    # CPU tensors need no torch-npu, whose import takes as long as torch's.
    # Threads that wait without spinning lose no time to other programs.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    if case.device == "cpu":
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    done = subprocess.run([sys.executable, __file__, json.dumps(dataclasses.asdict(case))], env=environment,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"measuring the memory of {case} ended with code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def heads_that_fit(case, limit):
    """The model's heads, or as many of 8, 4, 2, 1 as native attention can have in `limit` bytes; 0 if none."""
    pairs = case.length**2
    item = DTYPES[case.dtype].itemsize
    # Scores and weights at once, and the boolean mask; in training both layers keep weights and mask, and their
    # gradients come on top.
    per_head, shared = (2 * item, 1) if case.work != "training" else (5 * item, 3)
    return max((heads for heads in (case.heads, 8, 4, 2, 1)
                if heads <= case.heads and pairs * (heads * per_head + shared) <= limit), default=0)


if __name__ == "__main__":
    print(json.dumps(memory_of_this_process(Case(**json.loads(sys.argv[1])))))
