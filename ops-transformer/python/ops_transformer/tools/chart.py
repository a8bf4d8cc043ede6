"""Pictures of measured speeds."""
from ops_transformer.tools import Fault

_INCH = 3.4
_MARKERS = "os^vDP*X<>"


def check():
    """A sentence instead of an error after minutes of measuring."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Fault("--png needs matplotlib: pip install rich matplotlib") from None


def panel_of(row):
    case = row["case"]
    threads = f", {case['threads']} threads" if case["threads"] > 1 else ""
    return f"{case['dtype']}, {case['mask']}{', backward too' if case['backward'] else ''}{threads}"


def speeds(results, path):
    """GFLOP/s over the number of queries: a panel for each type and mask, a line for each contender."""
    panels = {}
    for row in results["rows"]:
        for name, found in row["contenders"].items():
            if "gflops" in found:
                panels.setdefault(panel_of(row), {}).setdefault(name, []).append((row["case"]["queries"], found["gflops"]))
    about = results["machine"]
    draw(panels, "GFLOP/s of visible pairs", f"{about['processor']}, torch {about['torch']}", path)


def draw(panels, axis, title, path, logarithmic=False):
    """`panels`: {title: {contender: [(queries, value)]}}. Contenders keep their colour in all of them."""
    check()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(_INCH * columns + 1.6, _INCH * 0.85 * rows + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row" if not logarithmic else False).flat
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    drawn = {}
    for (heading, lines), place in zip(panels.items(), axes):
        for name, points in lines.items():
            number = names.index(name)
            queries, values = zip(*sorted(points))
            drawn[name], = place.plot(queries, values, marker=_MARKERS[number % len(_MARKERS)], color=f"C{number}", label=name,
                                      linewidth=2.4 if number == 0 else 1.4, zorder=3 if number == 0 else 2)
        ticks = sorted({at for points in lines.values() for at, _ in points})
        place.set_xscale("log", base=2)
        place.set_xticks(ticks, [str(at) for at in ticks])
        place.xaxis.set_minor_locator(NullLocator())
        if logarithmic:
            place.set_yscale("log")
        else:
            place.set_ylim(bottom=0)
        place.set(title=heading, xlabel="queries", ylabel=axis)
        place.grid(alpha=0.3)
    for place in list(axes):  # panels that are left over
        place.set_axis_off()
    figure.suptitle(title)
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=min(len(drawn), 4))
    figure.savefig(path, dpi=120, metadata={"Software": None})
