#!/usr/bin/env python3
"""The memory that a call of attention adds at its peak, of this process, which does nothing else; compare_pytorch.py starts it.

    python benchmarks/peak_memory.py '{"contender": "PyTorch SDPA", "case": {"heads": 8, …}}'

Resident memory at its highest (VmHWM of Linux) less what was resident before the call: results, gradients and everything in between,
not the inputs. The second call is the one that counts, so that libraries, threads and compiling do not; what the first one left free
in the allocator is given back in between.
"""
import ctypes
import json
import os
import sys

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from compare_pytorch import CONTENDERS  # noqa: E402
from ops_transformer.tools import contenders  # noqa: E402
from ops_transformer.tools.measure import Case  # noqa: E402


def resident(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:"))


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def main(name, case):
    import torch

    torch.set_num_threads(case.threads)
    tensors = contenders.Tensors(case)
    run = contenders.timed(case, tensors, CONTENDERS[name](case, tensors))
    run()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS")
    forget_peak()
    run()
    print(json.dumps({"bytes": max(0, resident("VmHWM") - before)}))


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    main(request["contender"], Case(**request["case"]))
