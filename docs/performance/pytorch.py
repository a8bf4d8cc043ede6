#!/usr/bin/env python3
"""Makes the tables of docs/comparison.md, and its pictures, from what benchmarks/compare_pytorch.py measured.

    python3 docs/performance/pytorch.py [comparison.json]                 prints the tables
    python3 docs/performance/pytorch.py --write [comparison.json]         puts them into the page, and draws (needs matplotlib)
    python3 docs/performance/pytorch.py --draw FOLDER [comparison.json]   only draws
    python3 docs/performance/pytorch.py --fill PAGE [comparison.json]     only fills a page
"""
import json
import sys
from pathlib import Path

from table import fill, markdown

FOLDER = Path(__file__).resolve().parent
PAGE, RESULTS = FOLDER.parent / "comparison.md", FOLDER / "results/pytorch/comparison.json"
OURS = "ops_transformer"
SHORT = {"PyTorch SDPA": "SDPA", "FlexAttention": "Flex"}


def mask_of(case):
    if case["window"] and case["causal"]:
        return f"window of {case['window'][0] + 1}"
    return case["mask"]


def others(rows):
    return [name for name in dict.fromkeys(name for row in rows for name in row["contenders"]) if name != OURS]


def faster(found):
    """How many times faster this library is; bold where the other one is."""
    if found is None or "faster" not in found:
        return "–"
    ratio = f"{found['faster']:.2f}"
    return ratio if found["faster"] >= 1 else f"**{ratio}**"


def speeds(results):
    rows = results["rows"]
    names = others(rows)
    head = ["type", "mask", "S", "pass", "threads", "ms", "GFLOP/s", "of mm", *(SHORT.get(name, name) for name in names)]
    lines = []
    for row in rows:
        case, mine = row["case"], row["contenders"][OURS]
        lines.append([case["dtype"], mask_of(case), case["queries"], "forward, backward" if case["backward"] else "forward",
                      case["threads"], f"{mine['best_ms']:.3g}", f"{mine['gflops']:.0f}",
                      f"{100 * mine['gflops'] / row['mm_gflops']:.0f} %", *(faster(row["contenders"].get(name)) for name in names)])
    return markdown([head, *lines])


def mebibytes(found):
    if found is None or "bytes" not in found:
        return "–"
    return f"{found['bytes'] / 2 ** 20:.1f}" if found["bytes"] < 100 * 2 ** 20 else f"{found['bytes'] / 2 ** 20:.0f}"


def memory(results):
    rows = results["memory"]
    names = [OURS, *others(rows)]
    return markdown([["S", "pass", *names],
                     *([row["case"]["queries"], "forward, backward" if row["case"]["backward"] else "forward",
                        *(mebibytes(row["contenders"].get(name)) for name in names)] for row in rows)])


def overhead(results):
    return markdown([["call", "Python, µs", "C, µs", "difference, µs", "limit, µs"],
                     *([row["call"], f"{row['python_us']:.1f}", f"{row['c_us']:.1f}", f"{row['over_us']:.1f}", row["limit_us"] or ""]
                       for row in results["overhead"])])


def missing(results):
    """Who is not in a table, and why, each reason once."""
    reasons = {name: [about["absent"]] for name, about in results["peers"].items() if "absent" in about}
    for row in [*results["rows"], *results["memory"]]:
        for name, found in row["contenders"].items():
            known = reasons.setdefault(name, [])
            if "absent" in found and found["absent"] not in known:
                known.append(found["absent"])
    return [f"* {name}: {'; '.join(texts)}." for name, texts in reasons.items() if texts]


def tables(results):
    machine = results["machine"]
    versions = [f"torch {machine['torch']}", *(f"{name} {about['version']}" for name, about in results["peers"].items()
                                              if "version" in about)]
    parts = [f"{machine['processor']}, {machine['processors']} processors, kernels `{machine['kernels']}`; {', '.join(versions)}. "
             f"Load of the machine when it began: {results['load']:.1f}.",
             "**Speed.** What this library reaches, and how many times faster it is than each other one. Bold: the other one is faster.",
             speeds(results), "**Memory.** MiB that a call adds at its peak: float32, causal, 8 heads, D = 64, one thread.",
             memory(results), "**Overhead** of a call from Python over the C interface, on tiny tensors.", overhead(results)]
    gaps = missing(results)
    return "\n\n".join([*parts, *(["**Not measured:**", "\n".join(gaps)] if gaps else [])])


def draw(results, folder):
    sys.path.insert(0, str(FOLDER.parent.parent / "ops-transformer/python"))
    from ops_transformer.tools import chart

    # A case that stands alone is no line: it is in the table only.
    rows = [row | {"case": row["case"] | {"mask": mask_of(row["case"])}} for row in results["rows"] if row["case"]["threads"] == 1]
    chart.speeds(results | {"rows": rows}, folder / "pytorch-speed.png")
    panels = {}
    for row in results["memory"]:
        for name, found in row["contenders"].items():
            if "bytes" in found:
                panel = panels.setdefault("forward and backward" if row["case"]["backward"] else "forward", {})
                panel.setdefault(name, []).append((row["case"]["queries"], max(found["bytes"], 1) / 2 ** 20))
    chart.draw(panels, "MiB beside the inputs", "memory at its peak: fp32, causal, 8 heads, D = 64", folder / "pytorch-memory.png",
               logarithmic=True)


def main(words):
    option = words.pop(0) if words[:1] and words[0].startswith("--") else None
    if option not in (None, "--write", "--draw", "--fill"):
        raise SystemExit(__doc__)
    place = Path(words.pop(0)) if option in ("--draw", "--fill") else None
    results = json.loads(Path(words[0] if words else RESULTS).read_text(encoding="utf-8"))
    if option is None:
        print(tables(results))
    if option in ("--fill", "--write"):
        page = place or PAGE
        page.write_text(fill(page.read_text(encoding="utf-8"), comparison=tables(results)), encoding="utf-8")
    if option in ("--draw", "--write"):
        draw(results, place or FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
