"""Ends a process whose main thread does not come to its signals, held by compiled code.

Python runs the handlers of signals in the main thread, between two of its own instructions. While
a library fits a model in one call, Ctrl-C and SIGTERM therefore do nothing. A thread hears of them
at once; where no handler has run some seconds later, it ends the process. Nothing is lost by that:
a run may be killed at any moment.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_PATIENCE = 5.0  # seconds
_INTERRUPTED = 130
_SENTENCE = (
    b"paretolab: interrupted within a computation that does not stop by itself; what was evaluated "
    b"is kept, `paretolab resume` goes on with it\n"
)

_heeded = threading.Event()


def note_handled() -> None:
    """Note that a handler of a signal runs; each has to."""
    _heeded.set()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise KeyboardInterrupt."""
    note_handled()
    raise KeyboardInterrupt


@contextmanager
def interruptible(patience: float = _PATIENCE) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM raise KeyboardInterrupt, or end the process after some seconds.

    Parameters
    ----------
    patience : float
        Seconds that a signal waits for its handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread, and are its own affair
        return
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    ears, mouth = socket.socketpair()
    mouth.setblocking(False)
    known = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ears, patience), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(known)
        mouth.close()  # which ends the thread
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(ears: socket.socket, patience: float) -> None:
    with ears:
        while heard := ears.recv(64):
            if not set(heard) & set(SIGNALS):
                continue
            if not _heeded.wait(patience):
                os.write(2, _SENTENCE)
                os._exit(_INTERRUPTED)
            _heeded.clear()
