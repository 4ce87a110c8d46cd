"""Words for a disk that does not take what a run writes: full, or closed to this user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framework.errors import ParetolabError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def refuses(error: OSError) -> bool:
    """Tell whether the disk is full, or something may not be read or written."""
    return error.errno in (*_FULL, *_CLOSED)


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn what the disk refuses while a run or sweep goes on into one sentence.

    Raises
    ------
    ParetolabError
        The disk is full, or something cannot be written; other errors go on as they are.
    """
    try:
        yield
    except OSError as error:
        if not refuses(error):
            raise
        remedy = "make room" if error.errno in _FULL else "let it be written"
        where = place if error.filename is None else error.filename
        raise ParetolabError(
            f"{where}: cannot write ({error.strerror}); nothing that was told is lost: {remedy} "
            f"and run `paretolab resume {place}`"
        ) from error
