"""The progress of runs, fits, libraries, experiments and sweeps: a bar, lines, or nothing."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Self

from framework.compiling import COMPILING
from framework.preparation import PreparationProgress
from framework.run.driver import Callback, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from framework.run.terminal import PlainConsole

_BAR_EVERY = 0.1  # seconds between two states of a bar
_LINE_EVERY = 5.0  # seconds between two plain lines


def describe(progress: Progress, rate: float) -> str:
    """Return generation, evaluations, rate, front size and hypervolume in about 60 characters."""
    text = (
        f"gen {progress.generation:,} · {progress.evaluations:,} evals · {rate:,.0f}/s · "
        f"front {progress.front_size:,} · hypervolume {progress.hypervolume:.4f}"
    )
    return text + (f" · {progress.failed:,} failed" if progress.failed else "")


def describe_work(work: PreparationProgress) -> str:
    """Return the kind of work, how much of it is done, the rate and the estimated time left."""
    text = f"{work.what} · {work.done:,} of {work.total:,}"
    if not work.done or not work.seconds:
        return text
    rate = work.done / work.seconds
    left = timedelta(seconds=round((work.total - work.done) / rate))
    return f"{text} · {rate:,.{1 if rate < 10 else 0}f}/s · {left} left"


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which claims to be a terminal."""
    return "ipykernel" in sys.modules


class Display(Callback):
    """Shows progress: a bar on a terminal, plain lines elsewhere.

    It follows a search as a callback of its driver; other work calls :meth:`step`.

    Parameters
    ----------
    quiet : bool
        Whether nothing is shown.
    console : PlainConsole, optional
        Where progress is shown; the standard error stream by default.
    delay : float
        Seconds after which a bar appears, if the work still goes on.
    transient : bool
        Whether the bar is removed at the end.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        console: PlainConsole | None = None,
        delay: float = 0.0,
        transient: bool = False,
    ) -> None:
        self._begun = self._shown = self._searching = time.perf_counter()
        self.quiet, self._delay = quiet, delay
        self._every, self._line = inf, ""
        self._share, self._replayed = 0.0, 0
        self._bar: Bar | None = None
        if quiet:
            return
        from framework.run.terminal import console as make

        self._console = make(stderr=True) if console is None else console
        self._every = _LINE_EVERY
        COMPILING.watched_by(self.message)
        if self._console.is_interactive and not in_notebook():
            self._make_bar(transient)

    def _make_bar(self, transient: bool) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        text = TextColumn("{task.fields[text]}", markup=False)
        columns = (BarColumn(bar_width=12), TaskProgressColumn(), text)
        self._bar = Progress(*columns, console=self._console, transient=transient)
        self._task = self._bar.add_task("", total=None, text="starting")
        self._work = self._bar.add_task("", total=None, text="", visible=False)
        self._every = _BAR_EVERY

    def __enter__(self) -> Self:
        self.on_start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def step(self, text: str, done: float, total: float | None, line: str | None = None) -> None:
        """Show the progress of some work.

        Parameters
        ----------
        text : str
            Shown beside the bar or, without a bar, as a line every few seconds if it has changed.
        done, total : float
            The amount of work done, and in all; None if the total is unknown.
        line : str, optional
            Without a bar, a line that is always shown, in place of ``text``.
        """
        if self._bar is not None:
            self._start()
            text = self._console.words(text)
            self._bar.update(self._work, visible=False)
            self._bar.update(self._task, completed=done, total=total, text=text)
        elif line is not None or (self._due() and text != self._line):
            self._line = text
            self.message(line or text)
        else:
            return
        self._shown = time.perf_counter()

    def message(self, line: str) -> None:
        """Show a line, above a bar."""
        if not self.quiet:
            self._console.say(line)

    def on_start(self) -> None:
        """Show the bar, unless there is a delay."""
        if self._bar is not None:
            self._start()

    def on_preparation(self, work: PreparationProgress) -> None:
        """Show work that batches wait for, below the bar or in a line."""
        if not self._due():
            return
        text = describe_work(work)
        if self._bar is None:
            self.step(text, work.done, work.total)
            return
        self._start()
        text = self._console.words(text)
        self._bar.update(self._work, completed=work.done, total=work.total, text=text, visible=True)
        self._shown = time.perf_counter()

    def on_batch(self, progress: Progress) -> None:
        """Show what the search has found so far."""
        if progress.replayed:
            self._searching, self._replayed = time.perf_counter(), progress.evaluations
        if self._due():
            self._follow(progress)

    def on_end(self, progress: Progress) -> None:
        """Show what the search has found, and why it ended."""
        self._follow(progress, f"{self._described(progress)} · ended by {progress.stopped}")
        self.close()

    def close(self) -> None:
        """Leave the bar as it stands; may be called again."""
        if self._bar is not None:
            self._bar.stop()

    def _start(self) -> None:
        assert self._bar is not None
        if time.perf_counter() - self._begun >= self._delay:
            self._bar.start()

    def _due(self) -> bool:
        return time.perf_counter() - self._shown >= self._every

    def _described(self, progress: Progress) -> str:
        seconds = max(time.perf_counter() - self._searching, 1e-9)
        return describe(progress, (progress.evaluations - self._replayed) / seconds)

    def _follow(self, progress: Progress, line: str | None = None) -> None:
        share = 1.0 if progress.stopped else progress.share
        self._share = max(self._share, share or 0.0)  # patience has a share that shrinks
        total = None if share is None else 1.0
        self.step(self._described(progress), self._share, total, line)
