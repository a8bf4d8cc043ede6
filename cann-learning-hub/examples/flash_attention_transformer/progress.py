"""A progress bar where rich is installed, else one line for each step; on standard error."""

import sys


def steps(items, title, describe):
    """Goes through the items and shows how far it is; `describe` gives the words for one of them."""
    items = list(items)
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

        with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn(),
                      console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=len(items))
            for item in items:
                bar.update(task, description=f"{title}: {describe(item)}")
                yield item
                bar.advance(task)
    except ImportError:
        for number, item in enumerate(items, 1):
            print(f"{title} {number}/{len(items)}: {describe(item)}", file=sys.stderr, flush=True)
            yield item
