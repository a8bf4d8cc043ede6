#!/usr/bin/env python3
"""flash_attention beside PyTorch and other libraries: speed, memory, and what a call costs. Writes JSON, pictures and a page.

    source <prefix>/set_env.sh
    python benchmarks/compare_pytorch.py [--peers] [--venv NAME=FOLDER]... --write    everything, and docs/comparison.md
    python benchmarks/compare_pytorch.py --json results.json [--quick]                only measures

In this process: this library, PyTorch's scaled_dot_product_attention, FlexAttention (compiled), and the naive way, on
the same tensors. --peers adds the libraries of peer.py, each in a process of its own environment, build/peers/NAME unless
--venv says where. All take turns in each round. Results are compared before, and who gives another one than this library
and PyTorch is not timed. Memory is measured in a process for each number (peak_memory.py); overhead by overhead_bench.py.
What cannot run is in the results with the reason. It takes about ten minutes on two cores; leave the machine alone.
"""
import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # no npu takes part

import other_attention  # noqa: E402
import peer  # noqa: E402
from ops_transformer.tools import Fault, bench, contenders, measure  # noqa: E402
from ops_transformer.tools.contenders import OURS, PYTORCH  # noqa: E402
from ops_transformer.tools.measure import Case  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/performance/results/pytorch/comparison.json"
CONTENDERS = {OURS: contenders.ours, PYTORCH: contenders.pytorch, other_attention.FLEX: other_attention.flex,
              other_attention.NAIVE: other_attention.naive}
SLOWEST = 4.0  # seconds of a call that is still worth repeating
SETTLE = 0.02  # after a call of several threads, until those of other libraries have stopped spinning


@dataclasses.dataclass
class Effort:
    rounds: int
    seconds: float  # for a case, at least
    limit: float  # for a case, about


class Peer:
    """A library in a process of its own. `about` is its version, or why it is not there."""

    def __init__(self, name, folder):
        self.name, self.process = name, None
        python = Path(folder) / "bin/python"
        if not python.exists():
            self.about = {"absent": "not installed here: there is no environment for it"}
            return
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        self.process = subprocess.Popen([python, ROOT / "benchmarks/peer.py", name], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables)
        hello = self.read()
        self.about = {"absent": hello["error"]} if "error" in hello else hello
        if "error" in hello:
            self.close()

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"its process ended with code {self.process.wait()}"}

    def ask(self, request):
        if self.process is None:
            raise NotImplementedError(self.about["absent"])
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # what it ended with is the answer
        reply = self.read()
        if "error" in reply:
            raise NotImplementedError(reply["error"])
        return reply

    def prepare(self, case, expected):
        """Makes the call and compares samples of its result; gives the largest difference."""
        import torch

        if case.backward:
            raise NotImplementedError("only forward is compared")
        found = torch.tensor(self.ask({"case": vars(case)})["samples"])
        wanted = torch.tensor(peer.samples(expected.float().numpy()))
        return contenders.check_alike(case, self.name, wanted, found)

    def run(self):
        return self.ask({"run": True})["seconds"]

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            self.process = None


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))


def check_wanted(name, case, without):
    if name in without:
        raise NotImplementedError("left out by --without")
    if name == other_attention.NAIVE and other_attention.naive_needs(case) > available_bytes() / 2:
        raise NotImplementedError(f"takes about {other_attention.naive_needs(case) / 2 ** 30:.0f} GiB, too much for this machine")


# ---- Speed -----------------------------------------------------------------------------------------------------------


def prepare(case, peers, without=()):
    """For each contender the function that gives seconds; differences from our result; reasons of those that cannot."""
    import torch

    tensors = contenders.Tensors(case, peer.inputs(vars(case)))
    runs, differences, absent = {}, {}, {}
    expected = None
    for name, make in CONTENDERS.items():
        try:
            check_wanted(name, case, without)
            call = make(case, tensors)
            with torch.no_grad():
                result = call()
            if expected is None:
                expected = result
            else:
                differences[name] = contenders.check_alike(case, name, expected, result)
            runs[name] = contenders.timed(case, tensors, call)
        except Exception as error:  # PyTorch's compiler has many; ours has to work
            if name in (OURS, PYTORCH):
                raise
            absent[name] = reason(error)
    for other in peers:
        try:
            differences[other.name] = other.prepare(case, expected)
            runs[other.name] = other.run
        except (NotImplementedError, Fault) as error:
            absent[other.name] = reason(error)
    return runs, differences, absent


def reason(error):
    text = str(error).strip().splitlines()
    return text[0][:200] if text and isinstance(error, (NotImplementedError, Fault)) else f"{type(error).__name__}: {' '.join(text)[:200]}"


def settled(run, threads):
    def rested():
        if threads > 1:
            time.sleep(SETTLE)
        return run()
    return rested


def measure_speed(case, peers, effort, without):
    import torch

    torch.set_num_threads(case.threads)
    runs, differences, absent = prepare(case, peers, without)
    for name in list(runs):
        once = runs[name]()
        if once > SLOWEST and name != OURS:
            del runs[name]
            absent[name] = f"a call takes {once:.1f} s: not timed further"
    product, product_flops = contenders.matrix_product()
    runs = {name: settled(run, case.threads) for name, run in (runs | {bench.PRODUCT: product}).items()}
    times = measure.by_turns(runs, effort.rounds, effort.seconds, effort.limit)
    row = bench.row(case, times, differences, product_flops)
    row["contenders"] |= {name: {"absent": text} for name, text in absent.items()}
    return row


def speed_cases(quick):
    """One thread over S for masks and types; two threads; forward and backward together."""
    if quick:
        yield Case(heads=2, queries=64, keys=64, head_dim=32, causal=True, window=(15, None))
        yield Case(heads=2, queries=64, keys=64, head_dim=32, causal=True, backward=True, threads=2)
        return
    masks = {"no mask": {}, "causal": {"causal": True}, "window": {"causal": True, "window": (255, None)}}
    lengths = [512, 1024, 2048]
    for dtype, mask in [*(("fp32", mask) for mask in masks), ("bf16", "no mask"), ("bf16", "causal"), ("fp16", "causal")]:
        for tokens in lengths + [4096] * (dtype == "fp32" and mask == "causal"):
            yield Case(heads=8, queries=tokens, keys=tokens, head_dim=64, dtype=dtype, **masks[mask])
    for mask in masks:
        yield Case(heads=8, queries=2048, keys=2048, head_dim=64, threads=2, **masks[mask])
    for dtype, several in [("fp32", lengths), ("bf16", [256, 512, 1024])]:
        for tokens in several:
            yield Case(heads=8, queries=tokens, keys=tokens, head_dim=64, dtype=dtype, backward=True, causal=True)


# ---- Memory ----------------------------------------------------------------------------------------------------------


def memory_cases(quick):
    for backward in (False, True):
        for tokens in [512] if quick else [2048, 4096, 8192]:
            yield Case(heads=2 if quick else 8, head_dim=64, queries=tokens, keys=tokens, causal=True, backward=backward)


def measure_memory(case, without):
    found = {}
    for name in CONTENDERS:
        try:
            check_wanted(name, case, without)
            if name == other_attention.FLEX and case.backward:
                raise NotImplementedError("no backward on CPU")
        except NotImplementedError as error:
            found[name] = {"absent": str(error)}
            continue
        request = json.dumps({"contender": name, "case": vars(case)})
        done = subprocess.run([sys.executable, ROOT / "benchmarks/peak_memory.py", request], capture_output=True, text=True)
        if done.returncode == 0:
            found[name] = json.loads(done.stdout)
        else:
            found[name] = {"absent": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]}
    return {"case": vars(case) | {"mask": case.mask}, "contenders": found}


# ---- All -------------------------------------------------------------------------------------------------------------


def measure_overhead():
    """Its own process: it has settings of its own."""
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"overhead-{os.getpid()}.json"
    subprocess.run([sys.executable, ROOT / "benchmarks/overhead_bench.py", "--json", file], check=True, stdout=subprocess.DEVNULL)
    rows = json.loads(file.read_text())
    file.unlink()
    return rows


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure_all(peers, quick, without):
    effort = Effort(2, 0, 20) if quick else Effort(5, 1.0, 10)
    results = {"machine": measure.machine(), "load": os.getloadavg()[0], "peers": {other.name: other.about for other in peers},
               "overhead": measure_overhead(), "rows": [], "memory": []}
    begin = time.perf_counter()
    for case in speed_cases(quick):
        say(f"{time.perf_counter() - begin:4.0f} s  speed of {case}")
        results["rows"].append(measure_speed(case, peers, effort, without))
    for case in memory_cases(quick):
        say(f"{time.perf_counter() - begin:4.0f} s  memory of {case}")
        results["memory"].append(measure_memory(case, without))
    say(f"{time.perf_counter() - begin:4.0f} s  measured")
    return results


def start_peers(arguments):
    folders = {name: ROOT / "build/peers" / name for name in peer.PEERS}
    for text in arguments.venv:
        name, _, folder = text.partition("=")
        if name not in folders or not folder:
            sys.exit(f"error: --venv is {text!r}, but has to be NAME=FOLDER with a NAME of {', '.join(folders)}")
        folders[name] = folder
    return [Peer(name, folder) for name, folder in folders.items()] if arguments.peers or arguments.venv else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    parser.add_argument("--write", action="store_true", help=f"results to {RESULTS.relative_to(ROOT)}, then pictures and page")
    parser.add_argument("--quick", action="store_true", help="a few tiny cases, to see that everything works")
    parser.add_argument("--peers", action="store_true", help=f"with {', '.join(peer.PEERS)}")
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER", help="environment of a peer; implies --peers")
    parser.add_argument("--without", action="append", default=[], choices=[*CONTENDERS][1:], help="leave one out, to save time")
    arguments = parser.parse_args()
    if not arguments.json and not arguments.write:
        parser.error("say where results go: --json FILE or --write")
    peers = start_peers(arguments)
    try:
        results = measure_all(peers, arguments.quick, arguments.without)
    finally:
        for other in peers:
            other.close()
    for file in filter(None, [arguments.json, RESULTS if arguments.write else None]):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if arguments.write:
        subprocess.run([sys.executable, ROOT / "docs/performance/pytorch.py", "--write"], check=True)


if __name__ == "__main__":
    main()
