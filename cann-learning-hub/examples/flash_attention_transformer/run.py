"""A two-layer Transformer with three attentions: checks that they agree, and measures speed and memory.

    python run.py [--device npu] [--dtype bf16]     the check: logits, gradients, learning
    python run.py --table                           speed and memory over the length: results.json, .png, README.md
"""

import argparse
import dataclasses
import hashlib
import json
import os
import platform
import re
import sys
from pathlib import Path

import torch

import check
import report
from attention import ATTENTIONS
from measure import DTYPES, Case, heads_that_fit, memory, seconds
from progress import steps

HERE = Path(__file__).resolve().parent
# Attention alone is measured at the last length only, and its memory only.
LENGTHS = {"inference": [1024, 2048, 4096, 8192, 16384, 32768], "training": [1024, 2048, 4096], "attention": [32768]}
ROUNDS, SECONDS = 5, 6  # rounds at most of a length, begun before so many seconds are over


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "npu"], default="cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--heads", type=int, default=None, help="of 64 features each; 4 in the check, 8 in the table")
    parser.add_argument("--length", type=int, default=513, help="tokens of the check; any number, 513 unless you say")
    parser.add_argument("--table", action="store_true", help="measure, and write the results")
    parser.add_argument("--report", action="store_true", help="write README.md and results.png again from results.json")
    parser.add_argument("--longest", type=int, default=32768, help="leave out longer texts of the table")
    parser.add_argument("--folder", type=Path, default=HERE,
                        help="where the table's files go; README.md is written if it is there")
    arguments = parser.parse_args()
    for name in ("heads", "length", "longest"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be positive: got {value}")
    if arguments.report:
        write_report(arguments.folder)
        return 0
    return run_table(arguments) if arguments.table else run_check(arguments)


def run_check(arguments):
    heads = arguments.heads or 4
    found = check.errors(arguments.device, DTYPES[arguments.dtype], heads, arguments.length)
    print(f"{arguments.length} tokens, {heads} heads, {arguments.dtype} on {arguments.device}; "
          "largest errors against double precision")
    for name, (logits, gradients) in found.items():
        print(f"  {name:16} logits {logits:.1e}  gradients {gradients:.1e}")
    wrong = check.too_far(found)
    if wrong:
        print(f"not within {check.ALLOWED:g} times the errors of native attention: {', '.join(wrong)}")
        return 1
    print("training in fp32: first and last loss of 30 steps, and right ones of the next 16 tokens")
    for name in ATTENTIONS:
        losses, right = check.train(name, arguments.device, heads, length=96, rounds=30)
        print(f"  {name:16} {losses[0]:.4f} {losses[-1]:.4f}  {right} of 16")
    return 0


def run_table(arguments):
    results = {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__.split("+")[0],
               "device": arguments.device, "dtype": arguments.dtype, "load": round(os.getloadavg()[0], 1),
               "rows": []}
    plan = cases_of_table(arguments)
    for cases in steps(plan, "speed", lambda cases: str(cases[0]).rpartition(",")[0]):
        best = seconds(cases, ROUNDS, SECONDS) if cases[0].work != "attention" else {}
        for case in cases:
            row = {"work": case.work, "length": case.length, "heads": case.heads, "attention": case.attention}
            if case in best:
                row["tokens_per_second"] = round(case.length / best[case], 1)
            results["rows"].append(row)
    all_cases = [case for cases in plan for case in cases]
    for case, row in steps(zip(all_cases, results["rows"]), "memory", lambda pair: str(pair[0])):
        row.update(memory(case))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_report(arguments.folder)
    return 0


def cases_of_table(arguments):
    """For each work and length one case of each attention."""
    # Native attention shall fit beside everything else that runs.
    limit = min(12 * 2**30, available_memory() // 2)
    plan = []
    for work, lengths in LENGTHS.items():
        for length in [length for length in lengths if length <= arguments.longest] or [arguments.longest]:
            case = Case(work, length, arguments.heads or 8, "native", arguments.device, arguments.dtype)
            heads = heads_that_fit(case, limit)
            if heads:
                plan.append([dataclasses.replace(case, heads=heads, attention=name) for name in ATTENTIONS])
            else:
                print(f"left out: {work} of {length} tokens, for which native attention needs more than "
                      f"{limit >> 20} MiB with one head", file=sys.stderr)
    return plan


def write_report(folder):
    written = (folder / "results.json").read_text(encoding="utf-8")
    results = json.loads(written)
    if (folder / "README.md").exists():
        report.write_readme(folder / "README.md", results)
    report.draw(folder / "results.png", results, hashlib.sha256(written.encode()).hexdigest())
    print(report.text(results))


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def available_memory():
    """What new programs can have without swapping, in bytes."""
    (kib,) = re.findall(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(kib) * 1024


if __name__ == "__main__":
    sys.exit(main())
