"""The progress of ``fit`` as a bar of tqdm's: in a notebook, in a terminal, else not at all."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from framework.preparation import PreparationProgress
from framework.run.driver import Callback, Progress

_FORMAT = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


class FitProgress(Callback):
    """A bar that fills with the budget and never goes back."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets a notebook has a bar of text
            from tqdm.auto import tqdm
        shown = "ipykernel" in sys.modules or sys.stderr.isatty()
        self._bar: Any = tqdm(total=1.0, bar_format=_FORMAT, disable=not shown)

    def on_preparation(self, work: PreparationProgress) -> None:
        self._bar.set_postfix_str(f"{work.what}: {work.done:,} of {work.total:,}")

    def on_batch(self, progress: Progress) -> None:
        self._show(progress, progress.share or 0.0)

    def on_end(self, progress: Progress) -> None:
        self._show(progress, 1.0)
        self._bar.refresh()
        self.close()

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()

    def _show(self, progress: Progress, share: float) -> None:
        text = f"{progress.evaluations:,} evaluations, {progress.front_size:,} on the front"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(max(0.0, share - self._bar.n))
