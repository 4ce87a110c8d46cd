"""Ctrl-C and SIGTERM end a search between two batches, or within seconds."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from framework.preparation import PreparationProgress
from framework.run.driver import Callback, Progress
from framework.run.signals import SIGNALS, note_handled

_PATIENCE = 10.0  # seconds that a batch may go on


class Interruption(Callback):
    """Ends a search after the current batch at a first signal, and at once at a second one.

    Before the first batch it ends at the next report of the work that precedes it. Between batches
    nothing is half done; a batch or a piece of work that takes longer than some seconds is given
    up as at a second signal, and done again by whoever goes on with the run.

    Parameters
    ----------
    report : callable
        Takes a line for the user.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._asked = False
        self._again: threading.Timer | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_start(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # signals go to the main thread, and are its own affair
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._ask)

    def on_preparation(self, work: PreparationProgress) -> None:
        """Raise KeyboardInterrupt where a signal has come."""
        self._note_handled()

    def on_batch(self, progress: Progress) -> None:
        """Raise KeyboardInterrupt where a signal has come."""
        self._note_handled()

    def on_end(self, progress: Progress) -> None:
        self.close()

    def close(self) -> None:
        """Restore the handlers of the signals; may be called again."""
        if self._again is not None:
            self._again.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _note_handled(self) -> None:
        if self._asked:
            self.close()
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        note_handled()
        if self._asked:
            self.close()
            raise KeyboardInterrupt
        self._asked = True
        self._again = threading.Timer(_PATIENCE, os.kill, (os.getpid(), number))
        self._again.daemon = True
        self._again.start()
        self._report(
            f"stopping after this batch, in {_PATIENCE:g} s at the latest; once more stops at once"
        )
