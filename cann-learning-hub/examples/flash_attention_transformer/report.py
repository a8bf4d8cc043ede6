"""From results.json to the tables of README.md and the picture."""

import re

from attention import ATTENTIONS

TITLES = {"native": "native attention", "tiled": "FlashAttention in PyTorch operations",
          "ops_transformer": "ops_transformer"}
COLOURS = {"native": "#b42318", "tiled": "#c98a2c", "ops_transformer": "#2f6db5"}
MARKERS = {"native": "o", "tiled": "s", "ops_transformer": "."}  # large behind small, where lines lie upon each other
LONG = 4096  # from here on the article's claims are compared
CLAIMED_PERCENT = {"native": 100, "tiled": 120, "ops_transformer": 180}


def by_length(results, work):
    """{length: {attention: row}}, for the lengths that were measured."""
    found = {}
    for row in results["rows"]:
        if row["work"] == work:
            found.setdefault(row["length"], {})[row["attention"]] = row
    return dict(sorted(found.items()))


def markdown(lines):
    head, *body = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body])


def number(value):
    return f"{value:,.0f}".replace(",", " ") if value >= 10 else f"{value:.1f}"


def percent(row, native):
    return 100 * row["tokens_per_second"] / native["tokens_per_second"]


def table(results, work):
    head = ["tokens", "heads"]
    for title in TITLES.values():
        head += [f"{title}: tokens/s", "MiB"]
    lines = [head]
    for length, rows in by_length(results, work).items():
        line = [str(length), str(rows["native"]["heads"])]
        for name in ATTENTIONS:
            row = rows[name]
            speed = number(row["tokens_per_second"])
            if name != "native":
                speed += f" ({percent(row, rows['native']):.0f} %)"
            line += [speed, number(row["peak_mib"])]
        lines.append(line)
    return markdown(lines)


def span(values):
    low, high = round(min(values)), round(max(values))
    return f"{low} %" if low == high else f"{low} to {high} %"


def claims(results):
    """The article's claims beside what was measured."""
    inference = by_length(results, "inference")
    long = {length: rows for length, rows in inference.items() if length >= LONG} or inference
    lines = [["tokens/s, native attention = 100 %", "article", f"here, {min(long)} tokens and more"]]
    for name, title in TITLES.items():
        measured = [percent(rows[name], rows["native"]) for rows in long.values()]
        lines.append([title, f"{CLAIMED_PERCENT[name]} %", span(measured)])
    parts = [markdown(lines)]
    for work, words in (("inference", "the whole model"), ("attention", "attention alone")):
        rows = by_length(results, work)
        if rows:
            length, last = max(rows.items())
            # A tenth of a MiB is the finest that results have.
            ours, native = (max(last[name]["peak_mib"], 0.1) for name in ("ops_transformer", "native"))
            parts.append(f"Memory of {words} at {length} tokens: {number(ours)} MiB beside {number(native)} MiB of "
                         f"native attention, {ratio(ours / native)} (the article: 1/10 at 32K).")
    return "\n\n".join(parts)


def ratio(share):
    return f"1/{1 / share:.0f}" if share < 0.2 else f"{100 * share:.0f} %"


def text(results):
    """What stands between the markers of README.md."""
    device = "npu tensors" if results["device"] == "npu" else "CPU tensors"
    parts = [f"Measured on {results['processor']}, {results['threads']} threads, torch {results['torch']}, "
             f"{results['dtype']}, {device}, one text a pass."]
    if results["load"] > results["threads"] / 2:
        parts.append(f"**Other programs were running** (load average {results['load']:.1f} at the start): speeds are "
                     "too low, their ratios uncertain. Memory does not depend on that.")
    for work, title in (("inference", "Inference"), ("training", "A step of training")):
        if by_length(results, work):
            parts += [f"**{title}**", table(results, work)]
    return "\n\n".join([*parts, "**The article's claims**", claims(results)])


def write_readme(path, results):
    page = path.read_text(encoding="utf-8")
    new, count = re.subn(r"(<!-- results -->\n).*?(\n<!-- end of results -->)",
                         lambda match: f"{match[1]}\n{text(results)}\n{match[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise RuntimeError(f"{path} needs one pair of the markers <!-- results --> and <!-- end of results -->")
    path.write_text(new, encoding="utf-8")


def draw(path, results, digest):
    """Speed and memory of inference over the length. The digest of the results lies in the file, to compare with."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit(f"{path.name} needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    inference = by_length(results, "inference")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for axes, key, title in ((left, "tokens_per_second", "tokens a second"), (right, "peak_mib", "peak memory in MiB")):
        for name, words in TITLES.items():
            for heads in dict.fromkeys(rows[name]["heads"] for rows in inference.values()):  # no line joins two models
                points = [(length, rows[name][key]) for length, rows in inference.items()
                          if rows[name]["heads"] == heads]
                axes.plot(*zip(*points), marker=MARKERS[name], markersize=8, color=COLOURS[name], label=words)
                words = None  # once in the legend
        axes.set(xscale="log", yscale="log", title=title, xlabel="tokens (heads)")
        labels = [f"{length}\n({rows['native']['heads']})" for length, rows in inference.items()]
        axes.set_xticks(list(inference), labels, minor=False)
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.grid(True, which="major", alpha=0.4)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(f"Two-layer Transformer, inference, {results['dtype']}, {results['threads']} threads of "
                    f"{results['processor']}")
    figure.savefig(path, dpi=120, metadata={"Software": None, "Results": digest})
    pyplot.close(figure)
