"""The progress of a build: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

_LINE_EVERY = 5.0  # seconds between plain lines


class BuildProgress(Protocol):
    """Shows the steps of a build."""

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """Called when a model, ``name``, was ``trained`` or ``measured``."""
        ...

    def say(self, line: str) -> None:
        """Show a line."""
        ...


class Lines:
    """A plain line on standard error every few seconds; none when quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._every = float("inf") if quiet else _LINE_EVERY
        self._quiet, self._shown = quiet, time.perf_counter()

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """See :class:`BuildProgress`."""
        if time.perf_counter() - self._shown >= self._every:
            self._shown = time.perf_counter()
            self.say(f"library: {done} of {total} models {what}")

    def say(self, line: str) -> None:
        """See :class:`BuildProgress`."""
        if not self._quiet:
            print(line, file=sys.stderr, flush=True)


class Bar:
    """A bar that fills twice: with models that are trained, then with those that are measured."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, text="reading the data")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """See :class:`BuildProgress`."""
        self._bar.update(self._task, completed=done, total=total, text=f"{what} · {name}")

    def say(self, line: str) -> None:
        """See :class:`BuildProgress`."""
        self._bar.console.print(line, markup=False, highlight=False)
