"""The score matrix of a head as the kernels cut it: query blocks, strips, key blocks, and pieces at the band's edge."""

from dataclasses import dataclass
from typing import Optional

from kernels import GROUP_BLOCKS, KEY_BLOCK, STRIPS, Kernel
from svg import legend, lines, path, picture, rect, sideways, text

HEAD, ZOOM = 312, 430  # width of the whole matrix; of the enlarged query block
X0, X1, Y0 = 52, 452, 112
LEGEND = [("seen", "all visible"), ("cut", "touched by the band's edge"), ("never", "never computed")]


@dataclass(frozen=True)
class Example:
    kernel: Kernel
    heading: str
    length: int            # rows and keys
    window: Optional[int]  # keys that a row sees, itself included; None: all up to itself
    query_block: int       # the one that is enlarged
    key_blocks: int        # of it, the last ones, are shown

    def keys(self, row_begin, row_end):
        """The keys that any of the rows sees."""
        return max(0, row_begin - self.window + 1 if self.window else 0), min(row_end, self.length)

    def sees(self, row, key):
        begin, end = self.keys(row, row + 1)
        return begin <= key < end


def pieces(example, first_row, keys):
    """The pieces of a strip in a block of keys, as kernels/piece.h cuts them: keys, vectors, whether it hides pairs."""
    k = example.kernel
    begin, end = keys
    bands = []
    for v in range(k.tile_vecs):
        row = first_row + v * k.lanes
        low = row - example.window + 1 if example.window else -k.lanes
        enter, inside = (low, low + k.lanes) if low + k.lanes > 1 else (0, 0)
        edge, leave = (row, row + k.lanes) if row < example.length - 1 else (example.length, example.length)
        bands.append((enter, inside, edge, leave))
    while begin < end:
        cut = min([c for band in bands for c in band if c > begin] + [end])
        used = [v for v, band in enumerate(bands) if band[0] <= begin < band[3]]
        if used:
            hides = any(not bands[v][1] <= begin < bands[v][2] for v in used)
            yield (begin, cut), (used[0], used[-1] + 1), hides
        begin = cut


def visited_blocks(example, row_begin, row_end):
    """The blocks of keys that a query block goes through."""
    begin, end = example.keys(row_begin, row_end)
    for block in range(begin // KEY_BLOCK * KEY_BLOCK, end, KEY_BLOCK):
        yield max(block, begin), min(block + KEY_BLOCK, end)


def draw_head(example):
    """Left: the whole matrix in query blocks and key blocks."""
    k, n = example.kernel, example.length
    scale = HEAD / n
    parts = [text(X0, 60, "the score matrix of a head", "part"),
             text(X0, 77, f"query blocks of {k.query_block} rows, key blocks of {KEY_BLOCK} keys")]
    parts += [text(X0 + HEAD / 2, Y0 - 10, f"{n} keys", "label mid"),
              sideways(X0 - 14, Y0 + HEAD / 2, f"{n} query rows"), rect("never", X0, Y0, HEAD, HEAD)]
    for row in range(0, n, k.query_block):
        row_end = min(row + k.query_block, n)
        for begin, end in visited_blocks(example, row, row_end):
            whole = all(example.sees(r, c) for r in (row, row_end - 1) for c in (begin, end - 1))
            parts.append(rect("seen" if whole else "cut", X0 + begin * scale + .5, Y0 + row * scale + .5,
                              (end - begin) * scale - 1, (row_end - row) * scale - 1))
    group = GROUP_BLOCKS * KEY_BLOCK
    for key in range(group, n, group):
        parts.append(path("group", f"M{X0 + key * scale:g} {Y0 - 4}V{Y0 + HEAD + 4}"))
    top, height = Y0 + example.query_block * k.query_block * scale, k.query_block * scale
    parts.append(rect("outline", X0 - 1, top, HEAD + 2, height))
    parts += lines(X0, Y0 + HEAD + 24, [f"red: a group of {GROUP_BLOCKS} key blocks ends, {group} keys;",
                                        "its sums go into the total",
                                        "framed: the query block on the right"])
    return parts, top, height


def draw_query_block(example):
    """Right, above: one query block in strips and pieces."""
    k = example.kernel
    row_begin = example.query_block * k.query_block
    shown_end = -(-example.keys(row_begin, row_begin + k.query_block)[1] // KEY_BLOCK) * KEY_BLOCK
    shown = shown_end - example.key_blocks * KEY_BLOCK
    scale = ZOOM / (shown_end - shown)
    height = k.query_block * scale
    parts = [text(X1, 60, f"a query block: {STRIPS} strips of {k.columns} rows", "part"),
             text(X1, 77, "a block of keys, once loaded, serves all strips"),
             rect("never", X1, Y0, ZOOM, height)]
    for s in range(STRIPS):
        row, y = row_begin + s * k.columns, Y0 + s * k.columns * scale
        for keys in visited_blocks(example, row_begin, row_begin + k.query_block):
            for (begin, end), (vec, vec_end), hides in pieces(example, row, keys):
                if end > shown:
                    parts.append(rect("cut" if hides else "seen", X1 + (begin - shown) * scale + .25,
                                      y + vec * k.lanes * scale + .25, (end - begin) * scale - .5,
                                      (vec_end - vec) * k.lanes * scale - .5))
        parts.append(path("outline", f"M{X1 - 6} {y:g}h6"))
    for key in range(shown, shown_end + 1, KEY_BLOCK):
        x = X1 + (key - shown) * scale
        parts += [path("block", f"M{x:g} {Y0 - 4}v{height + 8:g}"), text(x, Y0 - 10, str(key), "label mid")]
    parts.append(sideways(X1 - 14, Y0 + height / 2, f"rows {row_begin} to {row_begin + k.query_block - 1}"))
    return parts, height


def draw_pieces(example, top):
    """Right, below: the second strip around the diagonal, pair by pair."""
    k = example.kernel
    row = example.query_block * k.query_block + k.columns
    first, last = row - k.lanes, row + k.columns
    side = 192
    cell, width = side / k.columns, side / k.columns * (last - first)
    x0, y0 = X1, top + 44

    def cells(kind, begin, end, r, r_end):
        """Keys from begin to end, rows of the strip from r to r_end."""
        return rect(kind, x0 + (begin - first) * cell, y0 + r * cell, (end - begin) * cell, (r_end - r) * cell)

    parts = [text(X1, top, "the second strip where it meets the diagonal", "part"),
             text(x0, y0 - 10, str(first), "label"), text(x0 + width, y0 - 10, f"keys to {last - 1}", "label end"),
             sideways(x0 - 14, y0 + side / 2, f"rows {row} to {row + k.columns - 1}"), rect("never", x0, y0, width, side)]
    tiles, frames = [], []
    for (begin, end), (vec, vec_end), _ in pieces(example, row, (row // KEY_BLOCK * KEY_BLOCK, last)):
        begin = max(begin, first)
        for r in range(vec * k.lanes, vec_end * k.lanes):
            edge = max(begin, min(end, example.keys(row + r, row + r + 1)[1]))
            parts += [cells(kind, a, b, r, r + 1) for kind, a, b in (("seen", begin, edge), ("cut", edge, end)) if a < b]
        for v in range(vec, vec_end):
            for key in range(begin, end, k.tile_rows):
                tiles.append(cells("line", key, min(key + k.tile_rows, end), v * k.lanes, (v + 1) * k.lanes))
        frames.append(cells("outline", begin, end, vec * k.lanes, vec_end * k.lanes))
    words = ["framed: pieces,", "whole vectors", f"of {k.lanes} rows", "", "white lines: tiles", f"of {k.tile_rows} keys",
             "", "orange: computed,", "then hidden"]
    return [*parts, *tiles, *frames, *lines(x0 + width + 14, y0 + 10, words, "label")], y0 + side


def draw(example):
    head, framed, framed_height = draw_head(example)
    block, height = draw_query_block(example)
    detail, bottom = draw_pieces(example, Y0 + height + 44)
    bottom = max(bottom, Y0 + HEAD + 63)
    x = X0 + HEAD + 1
    zoom = path("zoom", f"M{x} {framed:g}L{X1 - 30} {Y0}v{height:g}L{x} {framed + framed_height:g}z")
    return picture(example.heading, X1 + ZOOM + 30, bottom + 48,
                   [zoom, *head, *block, *detail, *legend(X0, bottom + 18, LEGEND)])
