"""Tables on stderr: drawn by rich on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fxc.driver.statistics import Statistics
from fxc.driver.timing import Timer


def print_timing(timer: Timer) -> None:
    rows = [
        (name, f"{wall:.1f}", f"{share:.0%}", f"{cpu:.1f}", str(calls) if calls else "")
        for name, wall, share, cpu, calls in timer.rows()
    ]
    print_table("timing", ("", "wall ms", "share", "cpu ms", "calls"), rows, numbers=(1, 2, 3, 4))


def print_statistics(statistics: Statistics) -> None:
    print_table("statistics", ("pass", "ops before", "ops after", "counters"), statistics.rows(), numbers=(1, 2))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> None:
    """``numbers`` are the columns to align on the right."""
    if sys.stderr.isatty():
        _print_rich(title, header, rows, numbers)
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f"=== {title} ===", file=sys.stderr)
    for row in (header, *rows):
        cells = (
            text.rjust(width) if column in numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip(), file=sys.stderr)


def _print_rich(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column, name in enumerate(header):
        table.add_column(name, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    Console(stderr=True).print(table)
