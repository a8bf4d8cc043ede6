"""The few shapes that the pictures of docs/performance.md are made of."""

from html import escape

CHARACTER, LINE = 6.6, 17  # about the width of a character; a line of text
# Colours with an opaque ground of their own, so that pictures look the same on light and dark pages.
STYLE = """\
text{font:13px "Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif;fill:#1f2328}
.head{font-size:15px;font-weight:bold}.part{font-weight:bold}.label{fill:#59636e;font-size:12px}
.mid{text-anchor:middle}.end{text-anchor:end}
.ground{fill:#fff;stroke:#c3cad3}.seen,.cut,.never{shape-rendering:crispEdges}
.seen{fill:#2f6db5}.cut{fill:#f3b36b}.never{fill:#e6eaef}
.line{fill:none;stroke:#fff;stroke-width:1}.outline{fill:none;stroke:#1f2328;stroke-width:1.5}
.group{fill:none;stroke:#b42318;stroke-width:2;stroke-dasharray:5 3}
.block{fill:none;stroke:#59636e;stroke-dasharray:3 3}
.zoom{fill:#c3cad3;fill-opacity:.35;stroke:none}.arrow{fill:none;stroke:#1f2328;stroke-width:1.5;marker-end:url(#tip)}
.registers{fill:#eef4fb;stroke:#2f6db5}.near{fill:#f3f7ee;stroke:#6a9a3a}.far{fill:#fbf5ea;stroke:#c98a2c}
.sum{fill:#2f6db5}.right{fill:#6a9a3a}.left{fill:#c98a2c}.store{fill:#fff;stroke:#59636e}"""
TIP = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
       '<path d="M0 0L8 4L0 8z" fill="#1f2328"/></marker></defs>')


def text(x, y, words, kind=""):
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def lines(x, y, words, kind=""):
    """Several lines below each other."""
    return [text(x, y + LINE * n, line, kind) for n, line in enumerate(words)]


def sideways(x, y, words, kind="label mid"):
    return f'<text class="{kind}" transform="translate({x:g} {y:g}) rotate(-90)">{escape(words)}</text>'


def rect(kind, x, y, width, height, more=""):
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{more}/>'


def path(kind, d):
    return f'<path class="{kind}" d="{d}"/>'


def legend(x, y, entries):
    """Coloured squares with words, in a row."""
    parts = []
    for kind, words in entries:
        parts += [rect(kind, x, y, 12, 12), text(x + 18, y + 11, words)]
        x += 38 + int(len(words) * CHARACTER)
    return parts


def picture(heading, width, height, parts):
    """The text of an SVG file."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(heading)}</title>", f"<style>\n{STYLE}\n</style>", TIP,
        rect("ground", 0.5, 0.5, width - 1, height - 1, ' rx="6"'), text(18, 32, heading, "head"), *parts, "</svg>\n"])
