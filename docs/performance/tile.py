"""The register tile in both products of the forward kernel: what lies in registers, what streams past, and how large
it is."""

from dataclasses import dataclass

from kernels import KEY_BLOCK, KEY_CHAIN, REGISTERS, RISE_LIMIT, Kernel, amount
from svg import LINE, lines, path, picture, rect, text

FEATURES = 128
PANEL, GAP, ROW = 450, 24, 16  # width of a product; between both; height of a vector
INDENT = 92                    # where vectors begin


@dataclass(frozen=True)
class Product:
    """One of the two products, in words."""
    title: str
    sums: str
    right: str
    left: str
    right_panel: list
    left_block: list
    steps: str  # what the tile goes along


def products(k):
    line, block, query = map(amount, (k.line_bytes, k.block_bytes(FEATURES), k.query_bytes(FEATURES)))
    scores = Product(
        "1. scores: S\N{MODIFIER LETTER CAPITAL T} = K Q\N{MODIFIER LETTER CAPITAL T}",
        f"scores of {k.tile_rows} keys and {k.columns} query rows", "query", "keys",
        [f"transposed query: {FEATURES} features \N{MULTIPLICATION SIGN} {k.columns} rows = {query};",
         f"a step reads a line of {line}"],
        [f"key block: {KEY_BLOCK} keys \N{MULTIPLICATION SIGN} {FEATURES} features = {block};",
         f"a tile goes along {k.tile_rows} rows of {amount(FEATURES * 4)}, one value of each a step"],
        f"along the features, in chains of {k.feature_chain}")
    output = Product(
        "2. output: O\N{MODIFIER LETTER CAPITAL T} += V\N{MODIFIER LETTER CAPITAL T} P\N{MODIFIER LETTER CAPITAL T}",
        f"{k.tile_rows} features of the output of {k.columns} query rows", "weights", "values",
        [f"weights: {KEY_BLOCK} keys \N{MULTIPLICATION SIGN} {k.columns} rows = {amount(k.weights_bytes)};",
         f"a step reads a line of {line}"],
        [f"value block: {KEY_BLOCK} keys \N{MULTIPLICATION SIGN} {FEATURES} features = {block};",
         f"a tile goes down {k.tile_rows} columns, {amount(k.tile_rows * 4)} of one row a step;",
         f"its sums join the strip's output ({amount(k.output_bytes(FEATURES))}) after each chain"],
        f"along the keys, in chains of {KEY_CHAIN}")
    return scores, output


def vector(kind, x, y, lanes, cell):
    """A register, lane by lane."""
    height, width = ROW - 4, cell - 1
    return [path(kind, "".join(f"M{x + i * cell} {y}h{width}v{height}h-{width}z" for i in range(lanes)))]


def draw_registers(k, product, x, y, cell):
    height = 62 + (k.tile_rows + 1) * ROW + 30
    parts = [rect("registers", x, y, PANEL, height, ' rx="4"'), text(x + 10, y + 20, "registers", "part")]
    parts.append(text(x + PANEL - 10, y + 20, product.sums, "label end"))
    top = y + 40
    width = k.lanes * cell + 6
    parts.append(text(x + 10, top + 11, product.right, "label"))
    for v in range(k.tile_vecs):
        parts += vector("right", x + INDENT + v * width, top, k.lanes, cell)
    parts.append(text(x + INDENT + k.tile_vecs * width + 4, top + 11, "right operand", "label"))
    top += ROW + 6
    parts.append(text(x + 10, top + k.tile_rows * ROW / 2 + 2, product.left, "label"))
    for r in range(k.tile_rows):
        parts.append(rect("left", x + INDENT - 24, top + r * ROW, 10, ROW - 4))
        for v in range(k.tile_vecs):
            parts += vector("sum", x + INDENT + v * width, top + r * ROW, k.lanes, cell)
    parts.append(text(x + INDENT + k.tile_vecs * width + 4, top + k.tile_rows * ROW / 2 + 2, f"{k.sums} sums", "label"))
    bottom = top + k.tile_rows * ROW
    registers = f"{k.sums + k.tile_vecs + 1} of {REGISTERS[k.vectors]} registers"
    parts += lines(x + 10, bottom + 16, [
        f"{k.sums} sums + {k.tile_vecs} right operand + 1 broadcast = {registers}",
        f"a step: {k.sums} multiply-adds for {k.tile_vecs} vector loads and {k.tile_rows} broadcasts"])
    return parts, height + 4


def draw_store(kind, title, words, x, y, width, shape):
    """A zone of memory with its content drawn in it, `shape` wide, and what it says."""
    left, inner, inner_height = shape
    height = 30 + inner_height + 12 + LINE * len(words)
    return [rect(kind, x, y, width, height, ' rx="4"'), text(x + 10, y + 20, title, "part"), *inner(left, y + 30),
            *lines(x + 10, y + 30 + inner_height + 18, words, "label")], height


def draw_product(k, product, x, y):
    cell = 216 // k.columns if k.columns <= 24 else 5
    wide = k.tile_vecs * (k.lanes * cell + 6) - 6
    parts = [text(x, y, product.title, "part"), text(x + PANEL, y, product.steps, "label end")]
    registers, height = draw_registers(k, product, x, y + 12, cell)
    registers_end = y + 12 + height
    left = x + INDENT

    def panel(px, py):  # the line that a step reads, in the middle of the others
        return [rect("store", px, py, wide, 44), rect("right", px, py + 18, wide, 5)]

    def block(px, py):
        strokes = [(px, py + 10 + 4 * r, wide, 2) if product.left == "keys" else (px + 40 + 4 * r, py, 2, 56)
                   for r in range(k.tile_rows)]
        return [rect("store", px, py, wide, 56), *(rect("left", *stroke) for stroke in strokes)]

    near_y = registers_end + 26
    near, height = draw_store("near", "meant for L1", product.right_panel, left - 10, near_y, PANEL - INDENT + 10,
                              (left, panel, 44))
    far_y = near_y + height + 26
    far, height = draw_store("far", "meant for L2", product.left_block, x, far_y, PANEL, (left, block, 56))
    arrows = [path("arrow", f"M{left + wide / 2:g} {near_y:g}V{registers_end:g}"),
              path("arrow", f"M{left - 19} {far_y:g}V{registers_end:g}")]
    return parts + registers + near + far + arrows, far_y + height


def draw(k: Kernel):
    scores, output = products(k)
    left, left_end = draw_product(k, scores, 18, 64)
    right, right_end = draw_product(k, output, 18 + PANEL + GAP, 64)
    words = [
        "Between the products, in registers: bias, hidden pairs, the largest score of each query row, weights.",
        f"weight = 2^(score \N{MINUS SIGN} maximum in use), a polynomial of degree {k.exp_degree}. "
        "Weights are stored, scores never are.",
        f"The maximum moves, and what was summed is rescaled, only when a weight would be more than 2^{RISE_LIMIT}.",
        f"Partial sums over the features, a binary tree, are kept in {amount(k.tree_bytes)} of scratch memory."]
    bottom = max(left_end, right_end)
    return picture(f"The register tile: table {k.table}, {k.type}, D = {FEATURES}", 2 * PANEL + GAP + 36,
                   bottom + 26 + LINE * len(words), [*left, *right, *lines(18, bottom + 26, words)])
