"""Ctrl-C, SIGTERM and a closed terminal end a search between two batches, or within seconds.

Python runs signal handlers in the main thread, between two of its own instructions. While a library
fits a model in one call, signals therefore have no effect. So a separate thread also receives the
signals, at once. If no handler has run a few seconds later, the thread ends the process. Nothing is
lost by that, since a run may be killed at any moment.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from framework.preparation import PreparationProgress
from framework.run.driver import Callback, Progress

SIGNALS = [signal.SIGINT, signal.SIGTERM]
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
    SIGNALS.append(signal.SIGHUP)

_HANDLER_SECONDS = 5.0  # time for a handler to run before the process is ended
_BATCH_SECONDS = 10.0  # time that a batch may go on after a signal
_AGAIN_SECONDS = 0.1  # delay before a signal is sent again, if its exception was lost
_INTERRUPTED = 130
_MESSAGE = (
    b"paretolab: interrupted within a computation that does not stop by itself; what was evaluated "
    b"is kept, `paretolab resume` goes on with it\n"
)

_handled = threading.Event()  # every handler sets it


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise KeyboardInterrupt."""
    _handled.set()
    raise KeyboardInterrupt


@contextmanager
def interruptible(patience: float = _HANDLER_SECONDS) -> Iterator[None]:
    """Have Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt within the block.

    If no handler has run ``patience`` seconds after a signal, the process is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    unraisable = sys.unraisablehook
    sys.unraisablehook = partial(_send_again, unraisable)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(receiver, patience), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        sender.close()  # which ends the thread
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _send_again(
    others: Callable[[sys.UnraisableHookArgs], object], lost: sys.UnraisableHookArgs
) -> None:
    """Send SIGINT again if Python lost its exception, as it does in callbacks and destructors."""
    if lost.exc_type is KeyboardInterrupt:
        _send_later(_AGAIN_SECONDS, signal.SIGINT)
    else:
        others(lost)


def _send_later(seconds: float, number: int) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()
    return timer


def _watch_signals(receiver: socket.socket, patience: float) -> None:
    with receiver:
        while received := receiver.recv(64):
            if not set(received) & set(SIGNALS):
                continue
            if not _handled.wait(patience):
                os.write(2, _MESSAGE)
                os._exit(_INTERRUPTED)
            _handled.clear()


class Interruption(Callback):
    """Ends a search after the current batch at a first signal, and at once at a second one.

    During the preparation it ends at the next progress report. If the batch, or the piece of work,
    takes longer than ten seconds, it is abandoned as at a second signal, and is done again when the
    run is resumed.

    Parameters
    ----------
    report : callable
        Takes a line for the user.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._signalled = False
        self._timer: threading.Timer | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_start(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread receives signals
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)

    def on_batch(self, progress: PreparationProgress | Progress) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self._signalled:
            self.close()
            raise KeyboardInterrupt

    on_preparation = on_batch

    def on_end(self, progress: Progress) -> None:
        self.close()

    def close(self) -> None:
        """Restore the handlers of the signals; may be called again."""
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        _handled.set()
        if self._signalled or number == signal.SIGHUP:  # then nobody can be told
            self.close()
            raise KeyboardInterrupt
        self._signalled = True
        self._timer = _send_later(_BATCH_SECONDS, number)
        self._report(
            f"stopping after this batch, in {_BATCH_SECONDS:g} s at the latest; once more stops at "
            "once"
        )
