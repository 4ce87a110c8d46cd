"""Shared parts on disk, so that none is built twice: an SQLite file for each fingerprint.

Several processes may use a file at once. Where it cannot be read or written, the run says so once
and continues without it.
"""

from __future__ import annotations

import sqlite3
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from framework.arrays import WordArray
from framework.components import Components

_PATIENCE = 10.0  # seconds to wait for another process
_CHUNK = 500  # keys a query: SQLite's limit on variables is 999 where it is least


class ComponentStore:
    """The parts of one fingerprint on disk.

    Parameters
    ----------
    folder : pathlib.Path
    fingerprint : str
    planes, words : int
        Shape of a part's bits.
    name : str
        What the parts are called, in the plural.
    """

    def __init__(
        self, folder: Path, fingerprint: str, planes: int, words: int, name: str = "parts"
    ) -> None:
        self._name = name
        self.path = folder / f"parts-{fingerprint[:32]}.sqlite"
        self._shape = (planes, words)
        self._db: sqlite3.Connection | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = _connect(self.path)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def get(self, keys: WordArray) -> Components:
        """Return those of the keys, shape (m, key words), that are stored."""
        found: list[tuple[bytes, bytes, bytes, int]] = []
        names = _names(keys)
        try:
            for start in range(0, len(names) if self._db else 0, _CHUNK):
                some = names[start : start + _CHUNK]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, bits, model, checksum FROM parts WHERE key IN ({marks})"
                found += self._db.execute(query, some)  # type: ignore[union-attr]
        except sqlite3.Error as error:
            self._give_up(error)
        found = [row for row in found if row[3] == _checksum(*row[:3])]
        bits = np.frombuffer(b"".join(row[1] for row in found), dtype="<u8")
        return Components(
            np.frombuffer(b"".join(row[0] for row in found), "<u8").reshape(-1, keys.shape[1]),
            bits.reshape(-1, *self._shape),
            [row[2] for row in found],
        )

    def put(self, parts: Components) -> None:
        """Store parts; failed ones are left out."""
        if self._db is None:
            return
        rows = []
        for i, name in enumerate(_names(parts.keys)):
            if i not in parts.errors:
                row = name, parts.bits[i].astype("<u8").tobytes(), parts.models[i]
                rows.append((*row, _checksum(*row)))
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        remedy = "; delete that file, it only saves time" if damaged else ""
        print(
            f"paretolab: {self._name} are not kept on disk: {self.path}: {error}{remedy}",
            file=sys.stderr,
        )
        self._db = None


def _connect(path: Path) -> sqlite3.Connection:
    """Open a store, or make it.

    SQLite does not wait where another process makes the same file at this moment; we do.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        db = sqlite3.connect(path, timeout=_PATIENCE)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=OFF")  # a lost part is trained again
            db.execute(
                "CREATE TABLE IF NOT EXISTS parts "
                "(key BLOB PRIMARY KEY, bits BLOB NOT NULL, model BLOB NOT NULL, "
                "checksum INTEGER NOT NULL) WITHOUT ROWID"
            )
            return db
        except sqlite3.OperationalError as error:
            db.close()
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _names(keys: WordArray) -> Sequence[bytes]:
    return [row.tobytes() for row in keys.astype("<u8")]


def _checksum(*columns: bytes) -> int:
    value = 0
    for column in columns:
        value = zlib.crc32(column, value)
    return value
