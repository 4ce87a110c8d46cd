"""Ends a process at its n-th step that can be seen from outside: what power failures do.

A step is a statement of SQLite's, a batch of a journal that is about to be written, or a file that
is opened to be written, renamed or removed.
With ``environment(n)`` an installed command does so from its very start.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_FILES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


class Steps:
    """Counts the steps of this process from now on, and kills it at the ``last``-th.

    Parameters
    ----------
    last : int, optional
        None counts only.
    """

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self._last = last
        connect = sqlite3.connect

        def watched(*args: Any, **more: Any) -> sqlite3.Connection:
            connection = connect(*args, **more)
            connection.set_trace_callback(lambda statement: self._step())
            return connection

        sqlite3.connect = sqlite3.dbapi2.connect = watched
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if writes or event in _FILES:
            self._step()

    def _step(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def environment(last: int) -> dict[str, str]:
    """Return the variables with which a Python process is killed at its ``last``-th step."""
    path = os.pathsep.join([str(_HERE), str(_HERE.parent.parent)])
    return {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TEST_KILL_AT": str(last)}
