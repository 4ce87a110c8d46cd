"""Helpers of benchmarks: CPU time of this process, and tables of ratios."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from framework.algorithm import Algorithm
from framework.arrays import Array

_LEAST_SECONDS = 0.3  # in a measurement, so that the clock's resolution does not matter


def rate(work: Callable[[], object], n: int, repeats: int = 1) -> float:
    """Return the best rate per second of ``work``, which does ``n`` things per call."""
    work()  # compile, fill caches
    best = 0.0
    for _ in range(repeats):
        start, done = time.process_time(), 0
        while (seconds := time.process_time() - start) < _LEAST_SECONDS:
            work()
            done += n
        best = max(best, done / seconds)
    return best


def count(text: str) -> int:
    """Return a number of things, one or more, that an option gives."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)


def fastest(repeats: int, measure: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    """Return the seconds and the result of the fastest of several measurements."""
    return min((measure() for _ in range(repeats)), key=lambda pair: pair[0])


def print_table(title: str, heads: str, rows: Iterable[Sequence[str]], words: int = 1) -> None:
    """Print a table; the first ``words`` columns are texts, the others numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(heads.split(",")):
        table.add_column(name, justify="left" if i < words else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=130).print(table)


def print_rates(title: str, rates: Sequence[tuple[str, float]]) -> None:
    """Print rates per second, and their ratios to that of the first row."""
    first = rates[0][1]
    rows = ((name, f"{value:,.3g}", f"{value / first:,.1f}") for name, value in rates)
    print_table(title, ",a second,times the first", rows)


def asked(algorithm: Algorithm) -> Array:
    """Return the candidates that a search proposes, which must not have ended."""
    X = algorithm.ask()
    assert X is not None
    return X
