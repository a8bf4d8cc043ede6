"""A grid of what each query sees, as characters and as PNG."""
import os
import shutil
import sys

from ops_transformer.tools import Fault

# ---- Characters ----------------------------------------------------------------------------------------------------------

_MOST_ROWS = 64
_SIGNS = {"all": "█", "some": "▒", "none": "·"}
_PLAIN_SIGNS = {"all": "#", "some": "+", "none": "."}  # for outputs that have no other
_COLOURS = {"all": "\033[34m", "some": "\033[36m", "none": "\033[90m"}
_NO_COLOUR = "\033[0m"


def _signs():
    try:
        "".join(_SIGNS.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN_SIGNS
    return _SIGNS


def _coloured():
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def reduce(visible, side):
    """For each square of `side` x `side` pairs "all", "some" or "none", as rows; at the edges a square may be a part of one."""
    rows, keys = visible.shape
    grid = []
    for i in range(0, rows, side):
        strip = visible[i:i + side]
        squares = [strip[:, j:j + side] for j in range(0, keys, side)]
        grid.append(["all" if square.all() else "some" if square.any() else "none" for square in squares])
    return grid


def _starts(lengths):
    """Where sequences behind the first one begin; those without rows or keys begin nothing."""
    starts, at = set(), 0
    for length in lengths:
        starts.add(at)
        at += length
    return starts - {0, at}


def _ruler(count, side):
    """Numbers of keys above every tenth column, for `count` columns."""
    line = ""
    for column in range(0, count, 10):
        line = line.ljust(column) + str(column * side)
    return line


def _text_rows(grid, side, row_starts, key_starts):
    signs, coloured = _signs(), _coloured()
    width = len(str((len(grid) - 1) * side))
    gap = " " * (width + 3)
    yield f"{gap}keys"
    yield gap + _with_gaps(_ruler(len(grid[0]), side).ljust(len(grid[0])), key_starts).rstrip()
    for i, row in enumerate(grid):
        if i in row_starts:
            yield ""
        cells = [f"{_COLOURS[cell]}{signs[cell]}{_NO_COLOUR}" if coloured else signs[cell] for cell in row]
        yield f"{i * side:{width + 1}}  {_with_gaps(cells, key_starts)}"


def _with_gaps(cells, starts):
    return "".join((" " if j in starts else "") + cell for j, cell in enumerate(cells))


def print_grid(visible, sequences, title):
    """Characters for pairs, or for squares of pairs when there are more than the terminal has room for."""
    rows, keys = visible.shape
    columns = max(shutil.get_terminal_size((100, 40)).columns - 10, 20)
    side = max(-(-keys // columns), -(-rows // _MOST_ROWS))
    starts = [_starts(lengths) for lengths in zip(*sequences)] if side == 1 else [set(), set()]
    signs = _signs()
    print(title)
    if side > 1:
        print(f"one character stands for {side} x {side} pairs: {signs['all']} all visible, {signs['some']} some, {signs['none']} none")
    print()
    for line in _text_rows(reduce(visible, side), side, *starts):
        print(line)
    seen, blind = int(visible.sum()), int((~visible.any(dim=1)).sum())
    print(f"\n{signs['all']} visible: {seen} of {rows * keys} pairs ({100 * seen / (rows * keys):.1f} %)" +
          (f"; {blind} queries see nothing" if blind else ""))


# ---- PNG -----------------------------------------------------------------------------------------------------------------

LEFT, TOP, RIGHT, BOTTOM = 70, 80, 24, 24  # pixels around the grid
VISIBLE, HIDDEN = (47, 109, 181), (230, 234, 239)
_EDGE = "#b42318"  # between sequences
_GRID_PIXELS, _LARGEST_CELL = 960, 24
_TITLE_CHARACTER = 10  # pixels, about
_DPI = 100


def require():
    """Before any work."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise Fault("--png needs matplotlib: pip install rich matplotlib") from None


def cell_pixels(rows, keys):
    """The side of a cell."""
    return max(1, min(_LARGEST_CELL, _GRID_PIXELS // max(rows, keys)))


def save(visible, sequences, title, path):
    """One cell a pair: the middle of (i, j) is at pixel (LEFT + (j + 0.5) * cell, TOP + (i + 0.5) * cell)."""
    import matplotlib.figure
    import matplotlib.ticker
    import numpy

    rows, keys = visible.shape
    cell = cell_pixels(rows, keys)
    # A narrow grid leaves room for the title on the right.
    width = LEFT + RIGHT + max(keys * cell, _TITLE_CHARACTER * len(title))
    height = TOP + rows * cell + BOTTOM
    figure = matplotlib.figure.Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    axes = figure.add_axes((LEFT / width, BOTTOM / height, keys * cell / width, rows * cell / height))
    colours = numpy.where(visible.numpy()[:, :, None], VISIBLE, HIDDEN).astype(numpy.uint8)
    axes.imshow(colours, interpolation="nearest", aspect="auto", extent=(-0.5, keys - 0.5, rows - 0.5, -0.5))
    axes.spines[:].set_visible(False)  # a frame would cover a part of the outer cells, which may be pixels
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("keys")
    axes.set_ylabel("query rows")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(matplotlib.ticker.MaxNLocator(nbins=10, integer=True))
    if cell >= 8:
        _lines(axes, range(1, rows), range(1, keys), color="white", linewidth=1)
    _lines(axes, *(_starts(lengths) for lengths in zip(*sequences)), color=_EDGE, linewidth=1.5)
    figure.text(LEFT / width, 1 - 16 / height, title, va="top", fontsize=11, fontweight="bold")
    figure.savefig(path, format="png", dpi=_DPI)


def _lines(axes, rows, keys, **style):
    for row in rows:
        axes.axhline(row - 0.5, **style)
    for key in keys:
        axes.axvline(key - 0.5, **style)
