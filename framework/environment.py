"""Which failures are the machine's, and not of the work it was given."""

from __future__ import annotations

import errno
import sqlite3

from framework.errors import ClusterError, EnvironmentFailure

_AT_FAULT = frozenset(
    {
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
    }
)
_OF_SQLITE = frozenset(  # a disk without room is any of these, by what it had no room for
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)


def environmental(error: BaseException | None) -> bool:
    """Tell whether a failure, or what caused it, is the machine's: full disk, missing library.

    Such a failure says nothing about the work. It is never a result: the same work succeeds on
    another machine, or on this one once it is repaired. Memory is not counted: work that needs
    too much of it fails everywhere.
    """
    if error is None:
        return False
    if isinstance(error, EnvironmentFailure | ImportError):
        return True
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_SQLITE
    if isinstance(error, OSError) and error.errno in _AT_FAULT:
        return True
    return environmental(error.__cause__)


def no_result(error: BaseException) -> bool:
    """Tell whether work that ended so is still to be done: a machine or a cluster was at fault."""
    return isinstance(error, ClusterError) or environmental(error)


def reason_of(error: BaseException) -> str:
    """Return the class of an exception and the first line of what it says, bounded."""
    if isinstance(error, EnvironmentFailure):
        return error.reason
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:300] if lines else type(error).__name__
