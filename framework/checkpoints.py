"""Checkpoints: intermediate results of long work, from which a resumed run continues."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from framework.errors import JournalError
from framework.files import check_database

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS notes "
    "(key TEXT PRIMARY KEY, content BLOB NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"
)
_OWNER = "owner"


class Checkpoints(MutableMapping[str, bytes]):
    """A mapping of names to bytes that is kept on the disk and survives a crash.

    A note is written in one transaction: after a crash it has either its old or its new content.
    A damaged note counts as absent, so that its work is done again.

    Parameters
    ----------
    path : path-like, optional
        An SQLite file, made with the first note; in memory if None.
    owner : str
        Identifies the run that the notes belong to; notes of another owner are deleted.

    Raises
    ------
    JournalError
        A note cannot be written.
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
            except sqlite3.DatabaseError:  # damaged: nothing but work that can be done again
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
                f"{self.path}: cannot write notes ({error}); what was proven so far is kept: make "
                "room and resume the run"
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
        """Drop all notes."""
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
            db = sqlite3.connect(":memory:" if self.path is None else self.path, timeout=30)
            self._db = db
            if self.path is not None:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=NORMAL")
            with db:
                db.execute(_SCHEMA)
        return self._db

    def _read(self, key: str) -> bytes | None:
        """Return a note; None where it is absent or damaged."""
        if self._db is None:
            return None
        try:
            query = "SELECT content, checksum FROM notes WHERE key = ?"
            row = self._db.execute(query, (key,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        return bytes(row[0]) if row is not None and zlib.crc32(row[0]) == row[1] else None
