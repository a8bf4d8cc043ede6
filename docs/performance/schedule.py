"""The tables about many cores in docs/performance.md, from what `schedule_plan --standard --json` wrote."""

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results/schedule/plan.json"
LEFT_OUT = ("layout=", "dtype=", "d=", "pass=", "mask=")


def kind(case):
    if "pass=backward" in case:
        return "Backward"
    return "Decode" if "q=1 " in case or "q=1," in case else "Forward"


def short(case):
    """What tells a case from the others of its kind."""
    return " ".join(word for word in case.split() if not word.startswith(LEFT_OUT))


def span(values):
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def table(results, threads):
    lines = [["case", "kernels", "items", *(f"{count} threads" for count in threads)]]
    for result in results:
        names = dict.fromkeys(plan["table"] for plan in result["plans"])
        for name in names:
            plans = [plan for plan in result["plans"] if plan["table"] == name]
            lines.append([f"`{short(result['case'])}`", f"`{name}`", span([plan["items"] for plan in plans]),
                          *(f"{plan['balance']:.2f}" for plan in plans)])
    return lines


def tables(markdown, file=RESULTS):
    """All of them; `markdown` makes text of a table."""
    results = json.loads(Path(file).read_text(encoding="utf-8"))["results"]
    threads = dict.fromkeys(plan["threads"] for plan in results[0]["plans"])
    parts = []
    for name in ("Forward", "Decode", "Backward"):
        chosen = [result for result in results if kind(result["case"]) == name]
        parts.append(f"**{name}.** Balance.\n\n{markdown(table(chosen, threads))}")
    return "\n\n".join(parts)
