"""The journal of a run: every told batch, append-only and crash-safe. It is the truth.

One SQLite file. ``meta`` says what the run is; ``batches`` has a row a batch, whose columns are
plain little-endian arrays, so that any program can read them::

    genomes   n * d values of meta['dtype'], row by row
    metrics   n * m float64, row by row, metrics in the order of meta['metrics']
    errors    JSON object, row id -> error
    checksum  CRC-32 over genomes, metrics and errors

A batch is one transaction: after a crash it is there whole or not at all. A file that was cut or
damaged is salvaged up to the last whole batch; what was lost is evaluated again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.batch import Evaluated
from framework.errors import JournalError

FORMAT = 1

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
    batch INTEGER PRIMARY KEY, first_id INTEGER NOT NULL, rows INTEGER NOT NULL,
    genomes BLOB NOT NULL, metrics BLOB NOT NULL, errors TEXT NOT NULL,
    seconds REAL NOT NULL, checksum INTEGER NOT NULL);
"""


class Journal:
    """Open the journal at ``path``, or make it.

    Parameters
    ----------
    path : path-like
    identity : mapping of str to JSON value, optional
        What the run is (resolved configuration, fingerprint, seed), flat. A journal that exists
        must have the same. Without it the journal is opened for reading, never repaired, also
        while another process writes to it.
    metrics : sequence of str, d, dtype
        Shape of the rows; needed to make a new journal.

    Raises
    ------
    JournalError
        The file belongs to another run (the differing keys are named), is not a journal, or
        cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: Mapping[str, Any] | None = None,
        *,
        metrics: tuple[str, ...] = (),
        d: int = 0,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.salvaged = 0
        exists = self.path.exists() and self.path.stat().st_size > 0
        if not exists and identity is None:
            raise JournalError(f"{self.path}: expected the journal of a run, found no such file")
        try:
            self._open(exists, identity, metrics, d, dtype)
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: cannot use the journal: {error}") from error
        self._check(identity)
        self.metrics: tuple[str, ...] = tuple(self.meta["metrics"])
        self.d: int = self.meta["d"]
        self.dtype = np.dtype(self.meta["dtype"])

    def _open(
        self,
        exists: bool,
        identity: Mapping[str, Any] | None,
        metrics: tuple[str, ...],
        d: int,
        dtype: np.dtype[Any] | None,
    ) -> None:
        if identity is None:
            self._db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            if not _has_tables(self._db):
                raise JournalError(
                    f"{self.path}: expected the journal of a run, found another file"
                )
        else:
            if exists and not _sound(self.path):
                self.salvaged = _salvage(self.path)
            self._db = _connect(self.path)
        if identity is not None and not _has_tables(self._db):
            meta = {
                "format": FORMAT, "metrics": list(metrics), "d": d,
                "dtype": np.dtype(dtype).newbyteorder("<").str, "identity": dict(identity),
            }  # fmt: skip
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.strip().split(";\n"):
                    self._db.execute(statement.rstrip(";"))
                rows = [(key, json.dumps(value)) for key, value in meta.items()]
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        rows = self._db.execute("SELECT key, value FROM meta").fetchall()
        self.meta: dict[str, Any] = {key: json.loads(value) for key, value in rows}

    def _check(self, identity: Mapping[str, Any] | None) -> None:
        if self.meta.get("format") != FORMAT:
            raise JournalError(
                f"{self.path}: expected journal format {FORMAT}, found {self.meta.get('format')}; "
                "use the version of paretolab that wrote it"
            )
        if identity is None:
            return
        theirs, ours = self.meta["identity"], json.loads(json.dumps(dict(identity)))
        differ = sorted(k for k in {*theirs, *ours} if theirs.get(k) != ours.get(k))
        if differ:
            shown = "; ".join(
                f"{key} is {theirs.get(key, 'absent')!r} there and {ours.get(key, 'absent')!r} here"
                for key in differ
            )
            raise JournalError(
                f"{self.path}: expected the journal of this configuration, found another's: "
                f"{shown}; give another --out or the old configuration"
            )

    def append(self, batch: Evaluated, seconds: float) -> None:
        """Write a batch in one transaction.

        Parameters
        ----------
        batch : Evaluated
            The rows that follow those already there.
        seconds : float
            Seconds of searching so far, all sessions together.

        Raises
        ------
        JournalError
            It could not be written (disk full, say); the journal is as before.
        """
        genomes = np.ascontiguousarray(batch.X, dtype=self.dtype).tobytes()
        table = np.column_stack([batch.values[name] for name in self.metrics])
        metrics = np.ascontiguousarray(table, dtype="<f8").tobytes()
        errors = json.dumps({str(id): error for id, error in batch.errors.items()})
        row = (
            int(batch.ids[0]), len(batch), genomes, metrics, errors, seconds,
            _checksum(genomes, metrics, errors),
        )  # fmt: skip
        try:
            with self._db:
                self._db.execute(
                    "INSERT INTO batches (first_id, rows, genomes, metrics, errors, seconds, "
                    "checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path}: cannot write the journal ({error}); nothing that was told is lost: "
                f"make room and run `paretolab resume {self.path.parent}`"
            ) from error

    def batches(self, start: int = 0) -> Iterator[tuple[Evaluated, float]]:
        """Yield the batches from number ``start`` (from 0) on, each with its seconds."""
        query = (
            "SELECT first_id, rows, genomes, metrics, errors, seconds FROM batches "
            "WHERE batch > ? ORDER BY batch"
        )
        try:
            for first, n, genomes, metrics, errors, seconds in self._db.execute(query, (start,)):
                X = np.frombuffer(genomes, dtype=self.dtype).reshape(n, self.d)
                table = np.frombuffer(metrics, dtype="<f8").reshape(n, len(self.metrics))
                values = {name: table[:, j] for j, name in enumerate(self.metrics)}
                messages = {int(id): error for id, error in json.loads(errors).items()}
                yield Evaluated(np.arange(first, first + n), X, values, messages), seconds
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: cannot read the journal: {error}") from error

    @property
    def n_batches(self) -> int:
        """Number of batches written."""
        return int(self._db.execute("SELECT COUNT(*) FROM batches").fetchone()[0])

    @property
    def seconds(self) -> float:
        """Seconds of searching up to the last batch."""
        row = self._db.execute("SELECT MAX(seconds) FROM batches").fetchone()
        return float(row[0] or 0.0)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30, isolation_level="IMMEDIATE")
    # In WAL mode a commit survives the death of the process, readers never block the writer, and
    # synchronous=NORMAL keeps the file consistent (at most the last batches go) if power fails.
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _has_tables(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {("meta",), ("batches",)} <= set(found)


def _checksum(genomes: bytes, metrics: bytes, errors: str) -> int:
    return zlib.crc32(errors.encode(), zlib.crc32(metrics, zlib.crc32(genomes)))


def _whole_batches(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the leading batches that are readable, gapless and match their checksums."""
    follows = 0
    try:
        for row in db.execute("SELECT * FROM batches ORDER BY batch"):
            _, first, n, genomes, metrics, errors, _, checksum = row
            if first != follows or _checksum(genomes, metrics, errors) != checksum:
                return
            follows = first + n
            yield row
    except (sqlite3.Error, TypeError, AttributeError):
        return


def _sound(path: Path) -> bool:
    """Tell whether every batch of the file can be read and is whole."""
    try:
        db = _connect(path)
        try:
            if not _has_tables(db):
                return bool(db.execute("PRAGMA quick_check").fetchone() == ("ok",))
            n = db.execute("SELECT COUNT(*) FROM batches").fetchone()[0]
            return (
                db.execute("PRAGMA quick_check").fetchone() == ("ok",)
                and sum(1 for _ in _whole_batches(db)) == n
            )
        finally:
            db.close()
    except sqlite3.Error:
        return False


def _salvage(path: Path) -> int:
    """Rewrite a damaged journal with its whole leading batches; keep the damaged file beside.

    Returns the number of batches kept.
    """
    torn = path.with_name(path.name + ".torn")
    fresh = path.with_name(path.name + ".fresh")
    fresh.unlink(missing_ok=True)
    old = sqlite3.connect(path)
    kept = 0
    try:
        meta = old.execute("SELECT key, value FROM meta").fetchall()
    except sqlite3.Error:
        meta = []
    new = sqlite3.connect(fresh)
    with new:
        if meta:
            new.executescript(_SCHEMA)
            new.executemany("INSERT INTO meta VALUES (?, ?)", meta)
            for row in _whole_batches(old):
                new.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                kept += 1
    new.close()
    old.close()
    os.replace(path, torn)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.replace(fresh, path)
    return kept
