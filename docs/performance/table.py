#!/usr/bin/env python3
"""Makes the tables of docs/performance.md from what `attention_bench --json` wrote.

    python3 docs/performance/table.py [results.json]...                   prints the tables of the results
    python3 docs/performance/table.py --write <page> [results.json]...    puts them into a page, beside the sizes that the
                                                                          kernels' source has; default: results/*.json
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import schedule
from kernels import (BACKWARD_KEYS, BACKWARD_STRIPS, GRADIENT_KEYS, GROUP_BLOCKS, KEY_BLOCK, KERNELS, REGISTERS, STRIPS,
                     amount)

TYPES = ["fp32", "fp16", "bf16"]
FEATURES = (64, 128)


class Case:
    """A result with its problem string taken apart."""

    def __init__(self, result):
        self.result = result
        self.words = [word for word in result["case"].split() if not word.startswith("dtype=")]
        self.keys = dict(word.split("=", 1) for word in result["case"].split())
        self.type = self.keys.get("dtype")

    def mask(self):
        """In words, for the masks that the standard cases have; None for any other."""
        masks = {"": "no mask", "mode=3 mask=compressed": "causal"}
        named = " ".join(word for word in self.words if word.split("=")[0] in ("mode", "pre", "next", "mask"))
        if self.keys.get("mode") == "4" and self.keys.get("next") == "0" and self.keys.get("mask") == "compressed":
            return f"window of {int(self.keys['pre']) + 1}"
        return masks.get(named)

    def suite(self):
        """Where the result belongs, by what was measured."""
        if "operator" in self.keys:
            return self.keys["operator"]
        if "gigabytes_per_second" in self.result:
            return "decode"
        backward = self.keys.get("pass") == "backward"
        if "partner" in self.result:
            name = "threads" if self.result["threads"] != self.result["partner"]["threads"] else "shares"
            return f"backward-{name}" if backward else name
        known = {"layout", "dtype", "pass", "n", "d", "q", "kv", "mode", "pre", "next", "mask"}
        if self.mask() and set(self.keys) <= known and self.keys["q"] == self.keys["kv"]:
            return "backward" if backward else "plain"
        return "other"


def speed(case):
    return f"{case.result['gflops']:.0f} ({case.result['percent_of_peak']:.0f} %)"


def share(case):
    value, floor = case.result["share"], case.result["floor"]
    return f"{value:.2f}" if value >= floor else f"**{value:.2f}**"


def about_floors(cases):
    return " Bold: below the floor." if any(c.result["share"] < c.result["floor"] for c in cases) else ""


def reading(case):
    return f"{case.result['gigabytes_per_second']:.1f} ({case.result['percent_of_reading']:.0f} %)"


def summing(case):
    return f"{case.result['gigabytes_per_second']:.1f} ({case.result['share_of_sum'] * 100:.0f} %)"


def random_numbers(case):
    """Of each thread, since the floor is one of a thread."""
    value, floor = case.result["gigabytes_per_second"] / case.result["threads"], case.result["floor_of_thread"]
    return f"{value:.1f}" if value >= floor else f"**{value:.1f}**"


def by_type(name):
    return TYPES.index(name) if name in TYPES else len(TYPES)


def grid(cases, corner, row, column, cell):
    """A table: `corner` stands above what `row` gives, `column` above what `cell` gives; both in their first order."""
    rows, columns = dict.fromkeys(map(row, cases)), dict.fromkeys(map(column, cases))
    cells = {}
    for case in cases:
        place = row(case), column(case)
        if place in cells:
            raise SystemExit(f"measured twice: {case.result['case']}")
        cells[place] = cell(case)
    return [[*corner, *columns], *([*r, *(cells.get((r, c), "") for c in columns)] for r in rows)]


def markdown(table):
    head, *body = table
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *body])


def plain(cases):
    """GFLOP/s and percent of the peak."""
    cases.sort(key=lambda c: (by_type(c.type), int(c.keys["d"]), c.mask() != "no mask", c.mask(), int(c.keys["q"])))
    heads = " or ".join(sorted({c.keys["n"] for c in cases}, key=len))
    return ("Plain shapes", f"GFLOP/s and percent of the peak; {heads} heads.",
            grid(cases, ["type", "D", "mask"],
                 lambda c: (c.type, c.keys["d"], c.mask()), lambda c: f"S = {c.keys['q']}", speed))


def shares(cases):
    """Speed as a part of the partner's."""
    def partner(case):
        return Case({"case": case.result["partner"]["case"]})

    base, _ = Counter(" ".join(partner(case).words) for case in cases).most_common(1)[0]

    def difference(case):
        words = [word for word in case.words if word not in base.split()]
        return f"`{' '.join(words)}`" if words else ""

    cases.sort(key=lambda c: by_type(c.type))
    head = f"Speed as a part of that of a plain case with as much useful work. Both are `{base}` but for what is listed."
    return ("Other shapes, layouts and modifiers", head + about_floors(cases),
            grid(cases, ["case", "beside", "floor"],
                 lambda c: (difference(c), difference(partner(c)), f"{c.result['floor']:.2f}"), lambda c: c.type, share))


def threads(cases):
    """Speed on several threads beside one."""
    cases.sort(key=lambda c: by_type(c.type))
    floors = ", ".join(f"{floor:.2f}" for floor in sorted({c.result["floor"] for c in cases}))

    def shape(case):
        return tuple(case.keys[key] for key in ("n", "q"))

    several = len({shape(c) for c in cases}) > 1
    return ("Threads", f"Times faster than one thread; floor {floors}." + about_floors(cases),
            grid(cases, ["type", *(["heads", "S"] if several else [])],
                 lambda c: (c.type, *(shape(c) if several else ())),
                 lambda c: f"{c.result['threads']} threads, {c.mask() or ' '.join(c.words)}", share))


def decode(cases):
    """Speed of reading key and value."""
    cases.sort(key=lambda c: (by_type(c.type), int(c.keys["q"])))
    keys = cases[0].keys
    shape = f"{keys['kv']} keys, D = {keys['d']}, n = {keys['n']}"
    return ("Decode", f"GB/s of key and value, and percent of a plain sum over both; {shape}.",
            grid(cases, ["type"], lambda c: (c.type,), lambda c: f"query rows: {c.keys['q']}", reading))


def backward(tables):
    """The same of backward."""
    def named(cases):
        title, head, lines = tables(cases)
        return f"Backward: {title[0].lower()}{title[1:]}", head, lines
    return named


def ring(cases):
    """Bytes read and written by the ring update."""
    cases.sort(key=lambda c: (by_type(c.type), int(c.keys["d"])))
    keys = cases[0].keys
    head = "GB/s read and written, and percent of a plain sum of two arrays over as many bytes"
    return ("Ring update", f"{head}; S = {keys['q']}, n = {keys['n']}.",
            grid(cases, ["type", "threads"], lambda c: (c.type, c.result["threads"]), lambda c: f"D = {c.keys['d']}",
                 summing))


def dropout(cases):
    """Random numbers behind the bits of dropout masks."""
    floors = sorted({c.result["floor_of_thread"] for c in cases})
    return ("Dropout masks", "GB/s of random numbers, 32 bits for each bit of the mask, of each thread; floor "
            f"{', '.join(f'{floor:.1f}' for floor in floors)}.",
            grid(cases, ["threads"], lambda c: (c.result["threads"],),
                 lambda c: f"bits: {int(c.keys['bits']):,}".replace(",", " "), random_numbers))


def other(cases):
    table = [["case", "speed"], *([f"`{c.result['case']}`", speed(c)] for c in cases)]
    return "Other cases", "GFLOP/s and percent of the peak.", table


SUITES = {"plain": plain, "shares": shares, "threads": threads, "decode": decode, "backward": backward(plain),
          "backward-shares": backward(shares), "backward-threads": backward(threads), "ring": ring, "dropout": dropout,
          "other": other}


def peaks(cases):
    """The highest peak of one thread, for each type."""
    best = {}
    for c in cases:
        if "peak_gflops" not in c.result:
            continue
        best[c.type] = max(best.get(c.type, 0), c.result["peak_gflops"] / c.result["threads"])
    return ", ".join(f"{name} {best[name]:.0f}" for name in sorted(best, key=by_type))


def results(files):
    """All tables, as Markdown."""
    machines = {}
    for file in files:
        try:
            read = json.loads(Path(file).read_text(encoding="utf-8"))
            machine = read["processor"], read["table"], read["compiler"]
        except (ValueError, KeyError) as error:
            raise SystemExit(f"{file}: not a file that attention_bench --json has finished: {error}") from None
        machines.setdefault(machine, []).extend(Case(result) for result in read["results"])
    parts = []
    for (processor, table, compiler), cases in machines.items():
        parts.append(f"### {processor}, kernels `{table}`, {compiler}")
        if peaks(cases):
            parts.append(f"Peak of a thread in GFLOP/s: {peaks(cases)}.")
        for suite, tables in SUITES.items():
            chosen = [case for case in cases if case.suite() == suite]
            if chosen:
                title, head, lines = tables(chosen)
                parts += [f"**{title}.** {head}", markdown(lines)]
    return "\n\n".join(parts)


def sizes():
    """The numbers of every table, as Markdown."""
    tables = {}
    for k in KERNELS:
        tables.setdefault(k.table, []).append(k)

    def line(words, value):
        return [words, *(value(kernels[0]) for kernels in tables.values())]

    def bytes_at(size):
        return lambda k: ", ".join(amount(size(k, features)) for features in FEATURES)

    def registers(k):
        return f"{k.sums} + {k.tile_vecs} + 1 of {REGISTERS[k.vectors]}"

    return markdown([
        ["", *(f"`{table}`{' (bf16)' * (kernels[0].type == 'bf16')}" for table, kernels in tables.items())],
        line("floats in a vector", lambda k: k.lanes),
        line("tile: keys × query rows", lambda k: f"{k.tile_rows} × {k.columns}"),
        line("its registers: sums + right operand + broadcast", registers),
        line("query block: strips × rows", lambda k: f"{STRIPS} × {k.columns} = {k.query_block}"),
        line("key block; group of key blocks", lambda k: f"{KEY_BLOCK}; {GROUP_BLOCKS * KEY_BLOCK}"),
        line("features summed in one chain", lambda k: k.feature_chain),
        line("degree of the exponential", lambda k: k.exp_degree),
        line("transposed query of a strip, D = 64, 128", bytes_at(lambda k, d: k.query_bytes(d))),
        line("weights of a strip for a key block", lambda k: amount(k.weights_bytes)),
        line("output of a strip, D = 64, 128", bytes_at(lambda k, d: k.output_bytes(d))),
        line("key block (value block), D = 64, 128", bytes_at(lambda k, d: k.block_bytes(d))),
        line("backward: query block; key block; part of the keys",
             lambda k: f"{BACKWARD_STRIPS * k.columns}; {GRADIENT_KEYS}; {BACKWARD_KEYS}"),
        line("backward: weights of a query block and a key block", lambda k: amount(k.gradient_bytes)),
    ])


def fill(page, **parts):
    """The page with each part between its two marks."""
    for name, content in parts.items():
        page, count = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
                              lambda marks: f"{marks[1]}\n{content}\n\n{marks[2]}", page, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"the page has {count} places for {name} instead of one")
    return page


def main(arguments):
    page = None
    if arguments[:1] in (["-h"], ["--help"]):
        raise SystemExit(__doc__)
    if arguments[:1] == ["--write"]:
        page, arguments = Path(arguments[1]), arguments[2:]
    files = arguments or sorted((Path(__file__).parent / "results").glob("*.json"))
    if page is None:
        print(results(files))
    else:
        page.write_text(fill(page.read_text(encoding="utf-8"), sizes=sizes(), results=results(files),
                             schedule=schedule.tables(markdown)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
