"""Tables and progress bars: by rich where it is installed and the output is a terminal, else plain text."""
import contextlib
import sys
import textwrap

WITHOUT_RICH = 100  # columns of a plain table


def _rich():
    """The package, or None where it is missing."""
    try:
        import rich.progress
        import rich.table
        return rich
    except ImportError:
        return None


def table(headings, rows, title=None, right=()):
    """Prints a table; `right` are the numbers of columns that are aligned to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and _rich():
        _rich_table(headings, rows, title, right)
    else:
        _plain_table(headings, rows, title, right)


def _rich_table(headings, rows, title, right):
    import rich.box
    import rich.console
    import rich.table
    import rich.text

    made = rich.table.Table(title=title, title_justify="left", title_style="bold", box=rich.box.SIMPLE_HEAD,
                            show_header=any(headings))
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(rich.text.Text, row))
    rich.console.Console().print(made)


def _plain_table(headings, rows, title, right):
    widths = [max(map(len, column)) for column in zip(headings, *rows)]
    # The last column is the one that may be long: what does not fit goes on below.
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = max(WITHOUT_RICH - before, 30)

    def line(cells):
        first, *others = textwrap.wrap(cells[-1], room, break_on_hyphens=False) or [""]
        padded = [cell.rjust(width) if number in right else cell.ljust(width)
                  for number, (cell, width) in enumerate(zip(cells, widths))]
        last = first.rjust(widths[-1]) if len(widths) - 1 in right else first
        return "\n".join([("  ".join([*padded[:-1], last])).rstrip(), *(" " * before + text for text in others)])

    if title:
        print(title)
    if any(headings):
        print(line(headings))
        print(line(["-" * min(width, room) for width in widths]))
    for row in rows:
        print(line(row))
    print()


@contextlib.contextmanager
def progress(total, what):
    """Gives a function to be called after each of `total` steps. The bar is on standard error, and only on a terminal."""
    rich = _rich() if sys.stderr.isatty() else None
    if rich is None:
        yield lambda: None
        return
    import rich.console

    columns = [*rich.progress.Progress.get_default_columns(), rich.progress.MofNCompleteColumn()]
    with rich.progress.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
