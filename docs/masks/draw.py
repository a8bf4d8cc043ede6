#!/usr/bin/env python3
"""Draws the pictures of docs/masks.md from what the attention operator really does.

    source install/set_env.sh
    python3 docs/masks/draw.py [folder]     writes all pictures into the folder; default: this one
"""

import sys
from html import escape
from pathlib import Path

import visible
from pictures import PICTURES

CELL, GAP, MARGIN = 24, 2, 18  # of a cell, between cells, around everything
MIDDLE = (CELL - GAP) // 2
LEFT, CHARACTER, LINE = 52, 6.9, 17  # room for the row labels; about the width of a character; a line of text
# Colours with an opaque ground of their own, so that pictures look the same on light and dark pages.
STYLE = """\
text{font:13px "Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif;fill:#1f2328}
.head{font-size:15px;font-weight:bold}.label{fill:#59636e;font-size:12px}.mid{text-anchor:middle}
.ground{fill:#fff;stroke:#c3cad3}.visible{fill:#2f6db5}.hidden{fill:#e6eaef}.masked{fill:#f3b36b}
.diagonal{fill:#fff;stroke:#1f2328;stroke-width:1.5}.prefix{stroke:#b42318;stroke-width:2;stroke-dasharray:5 3}
.nothing{fill:#b42318;font-size:12px;font-style:italic}.plate{fill:#fff}"""
LEGEND = {"visible": "row sees key", "hidden": "hidden by the mode", "masked": "hidden by a 1 in the mask",
          "diagonal": "diagonal: distance 0", "prefix": "end of the prefix"}


def text(x, y, words, kind=""):
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def squares(kind, cells):
    side = CELL - GAP
    path = " ".join(f"M{x} {y}h{side}v{side}h-{side}z" for x, y in cells)
    return [f'<path class="{kind}" d="{path}"/>'] if cells else []


def dot(x, y):
    return f'<circle class="diagonal" cx="{x:g}" cy="{y:g}" r="4"/>'


def kinds_of_cells(panel):
    """For each row the kind of each cell."""
    mask = panel.call.mask
    return [["visible" if cell == "1" else "masked" if mask and mask[i][j] == "1" else "hidden"
             for j, cell in enumerate(row)] for i, row in enumerate(visible.grids(panel.call)[panel.sequence])]


def panel_width(panel):
    keys = panel.call.sequences[panel.sequence][1]
    return int(max(LEFT + keys * CELL, *(len(line) * CHARACTER for line in panel.caption)))


def frame(panel, left, top, x0, y0, rows, keys):
    """Caption and axes."""
    parts = [text(left, top + 12 + LINE * n, line) for n, line in enumerate(panel.caption)]
    parts.append(text(x0 + keys * CELL // 2, y0 - 24, "keys", "label mid"))
    parts.append(f'<text class="label mid" transform="translate({left + 12} {y0 + rows * CELL // 2}) rotate(-90)">'
                 "query rows</text>")
    parts += [text(x0 + j * CELL + MIDDLE, y0 - 6, str(j), "label mid") for j in range(keys)]
    return parts + [text(x0 - 14, y0 + i * CELL + MIDDLE + 4, str(i), "label mid") for i in range(rows)]


def draw_panel(panel, left, top, caption_lines):
    """The elements of a panel, the kinds of things that it shows, and where it ends."""
    rows = kinds_of_cells(panel)
    keys = len(rows[0])
    x0, y0 = left + LEFT, top + caption_lines * LINE + 44
    end = y0 + len(rows) * CELL
    parts, used = frame(panel, left, top, x0, y0, len(rows), keys), set()
    cells = {(i, j): kind for i, row in enumerate(rows) for j, kind in enumerate(row)}
    for kind in ("visible", "hidden", "masked"):
        places = [(x0 + j * CELL, y0 + i * CELL) for (i, j), cell in cells.items() if cell == kind]
        parts += squares(kind, places)
        used |= {kind} if places else set()
    for (i, j), kind in cells.items():
        x, y = x0 + j * CELL + MIDDLE, y0 + i * CELL + MIDDLE
        if kind == "masked" and "visible" in rows[i]:
            parts.append(text(x, y + 5, "1", "mid"))
        elif kind != "masked" and panel.diagonal is not None and j == i + panel.diagonal:
            parts.append(dot(x, y))
            used.add("diagonal")
    if panel.call.prefix is not None:
        x = x0 + panel.call.prefix * CELL - GAP // 2
        parts.append(f'<path class="prefix" d="M{x} {y0 - 4}V{end + 4}"/>')
        used.add("prefix")
    for i in (i for i, row in enumerate(rows) if "visible" not in row):
        x, y = x0 + keys * CELL // 2, y0 + i * CELL
        parts.append(f'<rect class="plate" x="{x - 40}" y="{y + 3}" width="80" height="16" rx="4"/>')
        parts.append(text(x, y + MIDDLE + 4, "sees nothing", "nothing mid"))
    return parts, used, end


def draw_legend(used, top):
    parts, x = [], MARGIN
    for kind in (kind for kind in LEGEND if kind in used):
        if kind == "diagonal":
            parts.append(dot(x + 6, top + 6))
        elif kind == "prefix":
            parts.append(f'<path class="prefix" d="M{x + 6} {top - 2}V{top + 14}"/>')
        else:
            parts.append(f'<rect class="{kind}" x="{x}" y="{top}" width="12" height="12"/>')
        parts.append(text(x + 18, top + 11, LEGEND[kind]))
        x += 36 + int(len(LEGEND[kind]) * CHARACTER)
    return parts, x


def draw(heading, panels):
    """The text of an SVG file."""
    caption_lines = max(len(panel.caption) for panel in panels)
    parts, used, left, bottom = [text(MARGIN, MARGIN + 14, heading, "head")], set(), MARGIN, 0
    for panel in panels:
        drawn, kinds, end = draw_panel(panel, left, MARGIN + 30, caption_lines)
        parts += drawn
        used |= kinds
        left += panel_width(panel) + 28
        bottom = max(bottom, end)
    legend, legend_end = draw_legend(used, bottom + 18)
    width = max(left - 28 + MARGIN, legend_end, MARGIN * 2 + int(len(heading) * 8.4))
    height = bottom + 18 + 12 + MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(heading)}</title>", f"<style>\n{STYLE}\n</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>', *parts, *legend,
        "</svg>\n"])


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for name, (heading, panels) in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(heading, panels), encoding="utf-8")


if __name__ == "__main__":
    main()
