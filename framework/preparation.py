"""Preparation: what an algorithm computes before its first batch, with progress and checkpoints.

An algorithm may need expensive work before it can propose anything: shared components, tables, a
proof. :class:`Preparation` gives it workers, a time limit, a place for checkpoints, and a way to
report progress.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from framework.arrays import WordArray
from framework.components import SharedComponents
from framework.errors import JournalError
from framework.files import check_database, opened_database, statements_of

_COMPONENTS_AT_ONCE = 4096  # built in this process between two reports
_OWNER = "owner"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS notes "
    "(key TEXT PRIMARY KEY, content BLOB NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"
)


class Workforce(Protocol):
    """Workers that compute what an algorithm needs before its first batch.

    The results do not depend on which workforce computes them.
    """

    def build(self, keys: WordArray) -> Iterator[int]:
        """Build shared components and add them to the problem.

        Parameters
        ----------
        keys : numpy.ndarray of uint64, shape (m, key words)
            Keys of components that the problem does not have yet. Nothing is built where the
            problem has no shared components.

        Yields
        ------
        int
            How many components were added since the last time.
        """
        ...

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield ``function(shared, piece)`` for each piece, in order.

        ``function`` is pure and defined in a module, so that it, ``shared`` and the pieces can be
        sent to other processes. An exception of the function is raised here.
        """
        ...


class InProcess:
    """A :class:`Workforce` that works in this process.

    Parameters
    ----------
    problem : SharedComponents, optional
        The problem whose components are built.
    """

    def __init__(self, problem: SharedComponents | None = None) -> None:
        self._problem = SharedComponents() if problem is None else problem

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`Workforce.build`."""
        if not self._problem.has_components:
            return
        for start in range(0, len(keys), _COMPONENTS_AT_ONCE):
            built = self._problem.build_components(keys[start : start + _COMPONENTS_AT_ONCE])
            self._problem.add_components(built)
            yield len(built)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`Workforce.map`."""
        for piece in pieces:
            yield function(shared, piece)


class Checkpoints(MutableMapping[str, bytes]):
    """Intermediate results of long work, from which a resumed run continues.

    A mapping of names to bytes that is kept on disk. Each checkpoint is written in one
    transaction: after a crash it has either its old or its new content. A damaged checkpoint
    counts as absent, so its work is done again.

    Parameters
    ----------
    path : path-like, optional
        An SQLite file, made with the first checkpoint; in memory if None.
    owner : str
        Identifies the run that the checkpoints belong to; those of another owner are deleted.

    Raises
    ------
    JournalError
        A checkpoint cannot be written.
    InputError
        The file is a link.
    """

    def __init__(self, path: Path | None = None, owner: str = "") -> None:
        self.path, self._owner = path, owner.encode()
        self._db: sqlite3.Connection | None = None
        if path is not None:
            check_database(path)
        if path is None or path.is_file():
            try:
                self._connect()
                if self._read(_OWNER) != self._owner:
                    self.clear()
            except sqlite3.DatabaseError:  # damaged: it only holds work that can be done again
                self.close()
                if path is not None:
                    path.unlink(missing_ok=True)

    def __getitem__(self, key: str) -> bytes:
        content = self._read(key)
        if content is None or key == _OWNER:
            raise KeyError(key)
        return content

    def __setitem__(self, key: str, content: bytes) -> None:
        try:
            db = self._connect()
            with db:
                for name, value in ((_OWNER, self._owner), (key, content)):
                    row = (name, value, zlib.crc32(value))
                    db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path}: cannot write checkpoints ({error}); what was proven so far is kept: "
                "make room and resume the run"
            ) from error

    def __delitem__(self, key: str) -> None:
        self[key]
        db = self._connect()
        with db:
            db.execute("DELETE FROM notes WHERE key = ?", (key,))

    def __iter__(self) -> Iterator[str]:
        if self._db is None:
            return iter(())
        query = "SELECT key FROM notes WHERE key != ? ORDER BY key"
        return iter([key for (key,) in self._db.execute(query, (_OWNER,)).fetchall()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Delete all checkpoints."""
        if self._db is not None:
            with self._db:
                self._db.execute("DELETE FROM notes")

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = opened_database(":memory:" if self.path is None else self.path)
            if self.path is not None:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
            with self._db:
                self._db.execute(_SCHEMA)
            if statements_of(self._db) != {_SCHEMA.replace("IF NOT EXISTS ", "")}:
                raise sqlite3.DatabaseError("a file of other tables than notes")
        return self._db

    def _read(self, key: str) -> bytes | None:
        """Return a checkpoint; None where it is absent or damaged."""
        if self._db is None:
            return None
        try:
            query = "SELECT content, checksum FROM notes WHERE key = ?"
            row = self._db.execute(query, (key,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        whole = row is not None and isinstance(row[0], bytes) and zlib.crc32(row[0]) == row[1]
        return bytes(row[0]) if whole else None


@dataclass(frozen=True)
class PreparationProgress:
    """Progress of work that comes before the first values, such as training shared components.

    Attributes
    ----------
    what : str
        A description of the work.
    done, total : int
        How many pieces are finished, and how many there are.
    seconds : float
        Time since it began.
    values : mapping of str to float
        Numbers worth following, such as incumbent, bound and gap.
    """

    what: str
    done: int
    total: int
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


def _ignore(progress: PreparationProgress) -> None:
    """Take a report and do nothing."""


@dataclass
class Preparation:
    """Workers, checkpoints, time limit and progress of what an algorithm does before it proposes.

    An algorithm should call :meth:`report` at least every second or so, because interruptions
    take effect there. If its work takes minutes, it should write what it has proven so far to
    ``checkpoints``. If it can stop early with an answer, it should do so when ``out_of_time()``
    returns true.

    Attributes
    ----------
    workers : Workforce
        Builds shared components and computes pieces of the work; the results do not depend on it.
    checkpoints : mutable mapping of str to bytes
        Intermediate results, including those of earlier sessions of the same run.
    out_of_time : callable
        Returns whether the run's budget of seconds is spent.
    on_progress : callable
        Takes each report.
    """

    workers: Workforce = field(default_factory=InProcess)
    checkpoints: MutableMapping[str, bytes] = field(default_factory=Checkpoints)
    out_of_time: Callable[[], bool] = lambda: False
    on_progress: Callable[[PreparationProgress], None] = _ignore

    def report(self, what: str, done: int, total: int, **values: float) -> None:
        """Report the progress of the work; raises KeyboardInterrupt where it is interrupted."""
        self.on_progress(PreparationProgress(what, done, total, values=values))
