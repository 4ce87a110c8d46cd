"""The errors that paretolab raises on purpose: all are subclasses of ``ParetolabError``.

A message is one sentence: the place (file, key), what was expected, what was found, and what to
do about it. The command prints the message unchanged and ends with ``exit_code``.
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class ParetolabError(Exception):
    """Root of all errors raised on purpose."""

    exit_code = 2


class InputError(ParetolabError):
    """A configuration, a data set or an argument cannot be used."""


class NoneFeasible(InputError):
    """A search that ended without a candidate that meets all constraints: its front is empty."""

    exit_code = 3  # the same for any run whose front is empty


class RecordsError(InputError, ValueError):
    """Records or targets that an estimator cannot use: a ``ValueError`` to scikit-learn."""


class CellsError(InputError):
    """Values in some records of a table cannot be used; the other records can be.

    Attributes
    ----------
    sentences : mapping
        What is wrong with each unusable record, by its label in the index of the table.
    """

    def __init__(self, sentences: Mapping[Any, str]) -> None:
        super().__init__(sentences)
        self.sentences = sentences

    def __str__(self) -> str:
        return next(iter(self.sentences.values()))


def in_record(label: object) -> str:
    """Return where a record stands, for a message: by its number from 1, if its label is one."""
    return f" in record {label + 1}" if isinstance(label, int) else ""


class ContractError(ParetolabError):
    """A component broke a contract of the framework (a law of ``framework.testing``)."""


class JournalError(ParetolabError):
    """The journal cannot be opened, read or written."""


class ClusterError(ParetolabError):
    """Ray cannot be started or reached, or its workers keep dying."""


class EnvironmentFailure(ParetolabError):
    """A machine cannot do its work, for lack of disk space or a library; the work is not at fault.

    Attributes
    ----------
    reason : str
        What was missing or full.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"this machine cannot do its work ({self.reason}); put that right, then go on with "
            "`paretolab resume`"
        )


class NotBuiltError(ParetolabError):
    """Something expensive has not been built yet, and must not be built now.

    ``notes`` are sentences for the user on the data that it would be built of.
    """

    def __init__(self, message: str, notes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.notes = notes


class Unfit(InputError):
    """An algorithm cannot search this problem; another algorithm may."""


DAMAGED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a value of the wrong type or shape may raise."""


@contextmanager
def damaged(where: object, what: str) -> Iterator[None]:
    """Turn any error of reading forged or torn content into an InputError of one sentence.

    Parameters
    ----------
    where : path or str
    what : str
        What was expected there.

    Raises
    ------
    InputError
    """
    try:
        yield
    except DAMAGED as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise InputError(f"{where}: expected {what}, found it damaged ({reason})") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; without a message, the name of its class."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
TAKEN = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)


def remedy_of(error: OSError) -> str:
    """Return what to do where the system refuses to read or write a file."""
    if error.errno in FULL:
        return "make room"
    return "let it be read and written" if error.errno in CLOSED else "move what is there"


def command(verb: str, place: object) -> str:
    """Return a command on a file or a directory, in backquotes, as a shell takes it."""
    return f"`paretolab {verb} {shlex.quote(str(place))}`"


def listed(labels: Iterable[Any]) -> str:
    """Return labels separated by commas; labels with blanks or commas in them are quoted."""
    return ", ".join(map(quoted, labels))


def quoted(label: Any) -> str:
    """Return a label as a text, in quotes if it is empty or has blanks or commas in it."""
    text = str(label)
    return repr(text) if re.search(r"[\s,]", text) or not text else text


def first_few(texts: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """Return up to ``most`` texts in a line, and the number of the others."""
    more = f"{between}and {len(texts) - most:,} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more
