"""Where a Ray of our own keeps its logs and sockets: a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from framework.files import locked

_PREFIX = "paretolab-ray-"
_LOCK = ".lock"
_YOUNG = 60.0  # seconds in which a folder may have no owner yet


class _InUse(Exception):
    """A folder's owner lives."""


@contextmanager
def session_folder() -> Iterator[Path]:
    """Make a folder for one Ray; on exit remove it. Those that killed processes left go first."""
    base = _base()
    _remove_orphans(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        with locked(folder / _LOCK):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _base() -> str:
    """Return where Ray itself would put its folder: sockets need a short path."""
    return os.environ.get("RAY_TMPDIR") or (
        tempfile.gettempdir() if sys.platform == "linux" else "/tmp"
    )


def _remove_orphans(base: str) -> None:
    for folder in Path(base).glob(f"{_PREFIX}*"):
        with suppress(OSError, _InUse):
            status = folder.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG:
                with locked(folder / _LOCK, _refuse):
                    shutil.rmtree(folder)


def _refuse() -> None:
    raise _InUse
