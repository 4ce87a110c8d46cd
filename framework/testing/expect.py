"""Comparisons that laws are made of; each raises AssertionError with what it found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from framework.batch import Evaluated
from framework.front import Front


def expect(holds: object, message: str) -> None:
    """Raise AssertionError with ``message`` unless ``holds``."""
    if not holds:
        raise AssertionError(message)


def shortened(items: Sequence[object]) -> str:
    """Show the first items of a long list."""
    shown = ", ".join(map(str, items[:12]))
    return f"[{shown}]" if len(items) <= 12 else f"[{shown}, ...] ({len(items)} in all)"


def same_rows(a: Evaluated, b: Evaluated, where: str) -> None:
    """Expect two batches to be equal to the bit, NaN included."""
    expect(np.array_equal(a.ids, b.ids), f"{where}: expected rows {a.ids}, found {b.ids}")
    expect(np.array_equal(a.X, b.X), f"{where}: expected the same genomes, found others")
    expect(
        list(a.values) == list(b.values),
        f"{where}: expected the metrics {list(a.values)}, found {list(b.values)}",
    )
    for name, column in a.values.items():
        unequal = np.flatnonzero(column.view(np.int64) != b.values[name].view(np.int64))
        unequal = unequal[~(np.isnan(column) & np.isnan(b.values[name]))[unequal]]
        expect(
            len(unequal) == 0,
            f"{where}: expected the same {name} to the bit, found a difference in the rows "
            f"{shortened(a.ids[unequal].tolist())}",
        )
    expect(
        dict(a.errors) == dict(b.errors),
        f"{where}: expected the errors {dict(a.errors)}, found {dict(b.errors)}",
    )


def same_batches(a: Sequence[Evaluated], b: Sequence[Evaluated], where: str) -> None:
    """Expect two runs to have had the same batches: ids, genomes, values and errors."""
    expect(len(a) == len(b), f"{where}: expected {len(a)} batches, found {len(b)}")
    for i, (left, right) in enumerate(zip(a, b, strict=True)):
        same_rows(left, right, f"{where}, batch {i}")


def same_front(a: Front, b: Front, where: str) -> None:
    """Expect two fronts to be equal to the bit."""
    same_rows(a.rows, b.rows, f"{where}, front")


@contextmanager
def same_global_random_state(who: str) -> Iterator[None]:
    """Expect what runs inside to leave the global random generators alone."""
    before = random.getstate(), _numpy_state()
    yield
    expect(
        before == (random.getstate(), _numpy_state()),
        f"law 6: expected {who} to leave the global random state alone, found it changed; draw "
        "from the generator that was given",
    )


def _numpy_state() -> tuple[object, ...]:
    return tuple(map(str, np.random.get_state()))  # noqa: NPY002
