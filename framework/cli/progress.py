"""The progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from framework.experiment.execute import ProgressDisplay
from framework.preparation import PreparationProgress
from framework.run.driver import Progress as RunProgress
from framework.security import say

_LINE_EVERY = 5.0  # seconds between plain lines


def describe(progress: RunProgress, rate: float) -> str:
    """Return generation, evaluations, rate, front size and hypervolume in 60 characters or so."""
    text = (
        f"gen {progress.generation:,} · {progress.evaluations:,} evals · {rate:,.0f}/s · "
        f"front {progress.front_size:,} · hypervolume {progress.hypervolume:.4f}"
    )
    return text + (f" · {progress.failed:,} failed" if progress.failed else "")


def describe_work(work: PreparationProgress) -> str:
    """Return what is being done, how much of it is done, the rate and the time left at it."""
    text = f"{work.what} · {work.done:,} of {work.total:,}"
    if not work.done or not work.seconds:
        return text
    rate = work.done / work.seconds
    left = timedelta(seconds=round((work.total - work.done) / rate))
    return f"{text} · {rate:,.{1 if rate < 10 else 0}f}/s · {left} left"


class _Rate:
    """Evaluations a second since this session began."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._before = 0

    def __call__(self, progress: RunProgress) -> float:
        if progress.replayed:
            self._start, self._before = time.perf_counter(), progress.evaluations
            return 0.0
        elapsed = max(time.perf_counter() - self._start, 1e-9)
        return (progress.evaluations - self._before) / elapsed


class ProgressBar(ProgressDisplay):
    """A bar that fills with the budget and never goes back; below it one of the work under way."""

    def __init__(self, console: Console) -> None:
        self._rate = _Rate()
        self._bar = Progress(
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
        )
        self._task = self._bar.add_task("", total=1.0, text="waiting for the first answers")
        self._work = self._bar.add_task("", visible=False, text="")
        self._shown = self._share = 0.0

    def on_start(self) -> None:
        self._bar.start()

    def on_preparation(self, work: PreparationProgress) -> None:
        if self._due():
            self._bar.update(
                self._work,
                completed=work.done,
                total=work.total,
                text=describe_work(work),
                visible=True,
            )

    def on_batch(self, progress: RunProgress) -> None:
        if self._due():
            self._show(progress)

    def on_end(self, progress: RunProgress) -> None:
        self._show(progress)
        self.close()

    def close(self) -> None:
        self._bar.stop()

    def _due(self) -> bool:
        now = time.perf_counter()
        due = now - self._shown >= 0.1
        self._shown = now if due else self._shown
        return due

    def _show(self, progress: RunProgress) -> None:
        share = 1.0 if progress.stopped else progress.share
        self._share = max(self._share, share or 0.0)  # patience has a share that shrinks
        text = describe(progress, self._rate(progress))
        total = None if share is None else 1.0
        self._bar.update(self._work, visible=False)
        self._bar.update(self._task, completed=self._share, total=total, text=text)


class ProgressLines(ProgressDisplay):
    """A plain line every few seconds where it has changed, and one at the end; or that alone."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._every = float("inf") if quiet else _LINE_EVERY
        self._rate = _Rate()
        self._shown = time.perf_counter()
        self._last = ""

    def on_preparation(self, work: PreparationProgress) -> None:
        self._line(describe_work(work))

    def on_batch(self, progress: RunProgress) -> None:
        self._line(describe(progress, self._rate(progress)))

    def on_end(self, progress: RunProgress) -> None:
        line = describe(progress, self._rate(progress))
        say(f"{line} · ended by {progress.stopped}", self._stream)

    def _line(self, text: str) -> None:
        if text != self._last and time.perf_counter() - self._shown >= self._every:
            self._shown, self._last = time.perf_counter(), text
            say(text, self._stream)
