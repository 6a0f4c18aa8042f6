"""Tables of results as Markdown, and the places in a page where they belong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cpu_rows import Row
from interleaved import Spread, geometric_mean, ratio

Pair = tuple[str, str]
"""A way and the one that it is compared with."""
NOT_MEASURED = "Not measured yet."


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def spread_text(spread: Spread | None) -> str:
    """The median, and the quartiles behind it; every way is tried, so none is a failure."""
    if spread is None:
        return "failed"
    return f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def ratios(rows: Sequence[Row], pairs: Sequence[Pair], base: str, unit: float, name: str) -> str:
    """A line a row: its labels, the median time of ``base`` in ``name`` (``unit`` of them a second), and ratios by pair."""
    if not rows:
        return NOT_MEASURED
    heading = [*map(str, rows[0].labels), f"{base}, {name}", *(f"{way} / {other}" for way, other in pairs)]
    return table(heading, ([*_labels(row), _base(row, base, unit), *_pairs(row, pairs)] for row in rows))


def _labels(row: Row) -> list[str]:
    return [str(label) for label in row.labels.values()]


def _base(row: Row, base: str, unit: float) -> str:
    return f"{Spread.of(row.times[base]).median * unit:.4g}" if base in row.times else "failed"


def _pairs(row: Row, pairs: Sequence[Pair]) -> list[str]:
    return [spread_text(ratio(row.times, *pair)) for pair in pairs]


def summary(rows: Sequence[Row], pairs: Sequence[Pair], by: Sequence[str]) -> str:
    """For each pair, and for rows that have the labels ``by`` in common: geometric mean and worst of the median ratios."""
    groups = dict[tuple[Any, ...], list[Row]]()
    for row in rows:
        groups.setdefault(tuple(row.labels[label] for label in by), []).append(row)
    lines = list[list[str]]()
    for pair in pairs:
        for group, members in groups.items():
            found = {_place(row, by): spread.median for row in members if (spread := ratio(row.times, *pair))}
            counts = str(len(found)), str(len(members) - len(found))
            lines.append([" / ".join(pair), *map(str, group), *counts, *_mean_and_worst(found)])
    heading = ["ratio", *by, "rows", "failed", "geometric mean", "worst", "where"]
    return table(heading, lines) if lines else NOT_MEASURED


def _mean_and_worst(found: Mapping[str, float]) -> list[str]:
    if not found:
        return ["", "", ""]
    worst = max(found, key=lambda place: found[place])
    return [f"{geometric_mean(list(found.values())):.2f}", f"{found[worst]:.2f}", worst]


def _place(row: Row, by: Sequence[str]) -> str:
    return ", ".join(
        f"{label} {value}" if isinstance(value, int) else str(value) for label, value in row.labels.items() if label not in by
    )


def across(rows: Sequence[Row], label: str, pair: Pair) -> str:
    """One pair's ratios, with the values of ``label`` as columns."""
    columns = sorted({row.labels[label] for row in rows}, key=lambda value: (isinstance(value, str), value))
    lines = dict[tuple[str, ...], dict[Any, str]]()
    for row in rows:
        rest = tuple(str(value) for name, value in row.labels.items() if name != label)
        lines.setdefault(rest, {})[row.labels[label]] = spread_text(ratio(row.times, *pair))
    heading = [*(name for name in rows[0].labels if name != label), *(f"{column:,}" for column in columns)]
    return table(heading, ([*rest, *(cells.get(column, "") for column in columns)] for rest, cells in lines.items()))


def medians(rows: Sequence[Row], form: Callable[[float], str]) -> str:
    """A line a row with the median time of each way."""
    timed = [
        Row(row.labels, facts={"time": {way: Spread.of(times).median for way, times in row.times.items()}}) for row in rows
    ]
    return facts(timed, "time", form)


def facts(rows: Sequence[Row], fact: str, form: Callable[[float], str]) -> str:
    """A line a row with the fact of each way."""
    ways = list(dict.fromkeys(way for row in rows for way in row.facts.get(fact, {})))
    if not ways:
        return NOT_MEASURED
    found = ([*_labels(row), *(_fact(row, fact, way, form) for way in ways)] for row in rows)
    return table([*map(str, rows[0].labels), *ways], found)


def _fact(row: Row, fact: str, way: str, form: Callable[[float], str]) -> str:
    value = row.facts.get(fact, {}).get(way)
    return "" if value is None else form(value)


def facts_as_times(rows: Sequence[Row], fact: str) -> list[Row]:
    """Rows whose ratios are those of a fact that is not 0."""
    return [replace(row, times={way: [value] for way, value in row.facts.get(fact, {}).items() if value}) for row in rows]


def better_name(ways: Sequence[str]) -> str:
    return f"better of {' and '.join(ways)}"


def with_better(rows: Sequence[Row], ways: Sequence[str]) -> list[Row]:
    """Rows with one way more, where they have all of ``ways``: the one that took the least in each round."""
    found = list[Row]()
    for row in rows:
        if row.times.keys() >= set(ways):
            least = [min(times) for times in zip(*(row.times[way] for way in ways), strict=False)]
            row = replace(row, times={**row.times, better_name(ways): least})
        found.append(row)
    return found


def largest_facts(rows: Sequence[Row], fact: str, by: Sequence[str], form: Callable[[float], str]) -> str:
    """As ``facts``, the largest of all rows that have the labels ``by`` in common."""
    merged = dict[tuple[Any, ...], Row]()
    for row in rows:
        key = tuple(row.labels[label] for label in by)
        into = merged.setdefault(key, Row(dict(zip(by, key, strict=True)), facts={fact: {}})).facts[fact]
        for way, value in row.facts.get(fact, {}).items():
            into[way] = max(value, into.get(way, value))
    return facts(list(merged.values()), fact, form)


def failures(rows: Sequence[Row]) -> str:
    """A list of what failed and why; nothing where nothing did."""
    return "\n".join(f"- {_place(row, ())}: {way}: {why}" for row in rows for way, why in row.failed.items())


def folded(title: str, text: str) -> str:
    """Shown where a reader asks for it."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def with_section(page: str, name: str, text: str) -> str:
    """``page`` with ``text`` between the markers of ``name``. ValueError where it does not have them once."""
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have <!-- {name} --> and <!-- end of {name} --> once")
    return pattern.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", page)


def by_columns(columns: Mapping[str, Mapping[str, str]], corner: str) -> str:
    """A table of named columns, a line for each name in them, in the order of the column that has most."""
    longest = max(columns.values(), key=len)
    names = dict.fromkeys([*longest, *(name for column in columns.values() for name in column)])
    return table([corner, *columns], ([name, *(column.get(name, "") for column in columns.values())] for name in names))
