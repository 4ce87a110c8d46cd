"""The journal of a run: every evaluation, append-only and crash-safe.

It is one SQLite file. The table ``meta`` describes the run. The table ``batches`` has one row per
batch, whose columns are plain little-endian arrays, so that any program can read them::

    genomes   n * d values of meta['dtype'], row by row
    metrics   n * m float64, row by row, metrics in the order of meta['metrics']
    errors    JSON object, id of a candidate -> error
    checksum  CRC-32 over all of it and meta; see :func:`_checksum`

The ids within a batch are consecutive. Batches are in the order of writing, which is that of
their ids, except in searches whose batches are pieces of generations
(``Algorithm.evaluations_per_generation``): there it is the order in which values arrived.

What is appended is one transaction: after a crash it is there completely or not at all. A file
that was cut or damaged is salvaged up to the last complete batch; the rest is evaluated again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from framework.arrays import row_codes
from framework.batch import Evaluated
from framework.errors import JournalError, damaged
from framework.files import check_database, opened_database, statements_of, write_whole
from framework.reading import open_regular

FORMAT = 1
_DAMAGED = "expected a whole journal, found damage; `paretolab resume` keeps what is whole"
_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE batches ("
    "batch INTEGER PRIMARY KEY, first_id INTEGER NOT NULL UNIQUE, rows INTEGER NOT NULL, "
    "genomes BLOB NOT NULL, metrics BLOB NOT NULL, errors TEXT NOT NULL, "
    "seconds REAL NOT NULL, checksum INTEGER NOT NULL)",
)
_COLUMNS = "first_id, rows, genomes, metrics, errors, seconds, checksum"
# Errors that say nothing about the file itself; any other error of SQLite's means damage.
_NOT_DAMAGE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_AUTH,
}

# A damaged file may hold text that is not UTF-8, in its columns and in what SQLite says of it.
FileError = (sqlite3.Error, UnicodeError)

BatchRow = tuple[int, int, bytes, bytes, str, float, int]


class Journal:
    """The journal of a run: open the one at ``path``, or make it.

    Parameters
    ----------
    path : path-like
    identity : mapping of str to JSON value, optional
        What the run is (resolved configuration, fingerprint, seed), flat. A journal that exists
        must have the same. Without it the journal is opened for reading, never repaired, also
        while another process writes to it.
    metrics : sequence of str, d, dtype
        Shape of the evaluations; needed to make a new journal.

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
        self.salvaged: int | None = None
        if identity is None and not self.path.exists():
            raise JournalError(f"{self.path}: expected the journal of a run, found no such file")
        try:
            if identity is None:
                self._db = _connect_reading(self.path)
            else:
                meta = {
                    "format": FORMAT,
                    "metrics": list(metrics),
                    "d": d,
                    "dtype": np.dtype(dtype).newbyteorder("<").str,
                    "identity": json.loads(json.dumps(dict(identity))),
                }
                self._db = self._open_to_write(meta)
            self.meta = self._read_meta()
        except (*FileError, OSError) as error:
            torn = identity is None and _is_torn(error)
            advice = "; `paretolab resume` keeps what is whole" if torn else ""
            raise JournalError(f"{self.path}: cannot use the journal: {error}{advice}") from error
        with damaged(self.path, "the journal of a run"):
            self._check(identity)
            self._run = _meta_checksum(self.meta)
            self.metric_names: tuple[str, ...] = tuple(map(str, self.meta["metrics"]))
            self.d = int(self.meta["d"])
            self.dtype = np.dtype(str(self.meta["dtype"]))

    def _open_to_write(self, meta: Mapping[str, Any]) -> sqlite3.Connection:
        """Open the file, after repairing it where it is damaged; make it where there is none."""
        check_database(self.path)
        if self.path.exists() and not _is_sound(self.path):
            self.salvaged = _salvage(self.path, meta)
        db = _connect(self.path)
        if not _has_tables(db):
            _create(db, meta)
        return db

    def _read_meta(self) -> dict[str, Any]:
        if not _has_tables(self._db):
            raise JournalError(f"{self.path}: expected the journal of a run, found another file")
        meta = _read_meta(self._db)
        if meta is None:
            raise JournalError(f"{self.path}: {_DAMAGED}")
        return meta

    def _check(self, identity: Mapping[str, Any] | None) -> None:
        if self.meta.get("format") != FORMAT:
            raise JournalError(
                f"{self.path}: expected journal format {FORMAT}, found {self.meta.get('format')}; "
                "use the version of paretolab that wrote it"
            )
        if identity is None:
            return
        ours = json.loads(json.dumps(dict(identity)))
        theirs = self.meta["identity"]
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

    def append(self, rows: Evaluated, seconds: float) -> None:
        """Write evaluations in one transaction, as one batch for each range of consecutive ids.

        Parameters
        ----------
        rows : Evaluated
            Evaluations that are not there yet, ids ascending.
        seconds : float
            Seconds of searching so far, all sessions together.

        Raises
        ------
        JournalError
            It could not be written (disk full, say); the journal is as before.
        """
        first = int(rows.ids[0])
        try:
            with self._db:
                _insert(self._db, self._batches_of(rows, float(seconds)))
        except sqlite3.IntegrityError as error:
            raise JournalError(
                f"{self.path}: expected to write row {first} next, found it written: another "
                "process runs this journal; stop one of them and resume"
            ) from error
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path}: cannot write the journal ({error}); nothing that was told is lost: "
                f"make room and run `paretolab resume {self.path.parent}`"
            ) from error

    def _batches_of(self, rows: Evaluated, seconds: float) -> list[BatchRow]:
        """Return one batch for each range of consecutive ids."""
        X = np.ascontiguousarray(rows.X, dtype=self.dtype)
        table = np.column_stack([rows.values[name] for name in self.metric_names])
        table = np.ascontiguousarray(table, dtype="<f8")
        starts = [0]
        if rows.ids[-1] - rows.ids[0] >= len(rows):  # there are gaps
            starts += (np.flatnonzero(np.diff(rows.ids) != 1) + 1).tolist()
        batches: list[BatchRow] = []
        for start, stop in pairwise([*starts, len(rows)]):
            ids = rows.ids[start:stop].tolist() if rows.errors else []
            errors = json.dumps({str(id): rows.errors[id] for id in ids if id in rows.errors})
            parts = X[start:stop].tobytes(), table[start:stop].tobytes(), errors, seconds
            batch = (int(rows.ids[start]), stop - start, *parts)
            batches.append((*batch, _checksum(self._run, *batch)))
        return batches

    def batches(self, start: int = 0) -> Iterator[tuple[Evaluated, float]]:
        """Yield the batches from number ``start`` (from 0) on, each with its seconds.

        Raises
        ------
        JournalError
            The file cannot be read, or a batch is damaged.
        """
        try:
            for row in _select(self._db, start):
                if not _is_complete(row, self._run):
                    raise JournalError(f"{self.path}: {_DAMAGED}")
                with damaged(self.path, "the journal of a run"):
                    batch = self._batch_of(row)
                yield batch, row[-2]
        except FileError as error:
            raise JournalError(f"{self.path}: cannot read the journal: {error}") from error

    def _batch_of(self, row: BatchRow) -> Evaluated:
        first, n, genomes, metrics, errors, _, _ = row
        if first < 0 or not 0 <= n <= len(genomes):  # a row takes a byte at least
            raise ValueError(f"a batch of {n} rows from {first} on in {len(genomes)} bytes")
        X = np.frombuffer(genomes, dtype=self.dtype).reshape(n, self.d)
        table = np.frombuffer(metrics, dtype="<f8").reshape(n, len(self.metric_names))
        values = {name: table[:, j] for j, name in enumerate(self.metric_names)}
        messages = {int(id): error for id, error in json.loads(errors).items()}
        return Evaluated(np.arange(first, first + n), X, values, messages)

    @property
    def n_batches(self) -> int:
        """Number of batches written."""
        return int(self._value("SELECT COUNT(*) FROM batches"))

    @property
    def n_rows(self) -> int:
        """Number of evaluations written."""
        return int(self._value("SELECT SUM(rows) FROM batches") or 0)

    def distinct_genomes(self) -> int:
        """Count the different genomes among all candidates, by 64-bit codes.

        Two different ones share a code with probability 2^-64. O(n d) time, 8 n bytes.
        """
        codes = [np.zeros(0, dtype=np.uint64), *(row_codes(batch.X) for batch, _ in self.batches())]
        return len(np.unique(np.concatenate(codes)))

    @property
    def seconds(self) -> float:
        """Seconds of searching up to the last batch."""
        return float(self._value("SELECT MAX(seconds) FROM batches") or 0.0)

    def _value(self, query: str) -> Any:
        try:
            return self._db.execute(query).fetchone()[0]
        except FileError as error:
            raise JournalError(f"{self.path}: cannot read the journal: {error}") from error

    def close(self) -> None:
        """Move everything into the one file, where no reader is in the way, and close it."""
        with suppress(sqlite3.Error):  # what stays in the log beside the file is not lost
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# The SQLite file: making, reading and checking it, and saving what is complete of a damaged one


def _connect(path: Path) -> sqlite3.Connection:
    """Open a journal for writing, or make an empty file."""
    db = opened_database(path, isolation_level="IMMEDIATE")
    # In WAL mode a commit survives the death of the process, readers never block the writer, and
    # synchronous=NORMAL keeps the file consistent (at most the last batches go) if power fails.
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _connect_reading(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, also in a directory that cannot be written."""
    open_regular(path).close()  # SQLite would wait for a pipe
    uri = path.absolute().as_uri()
    db = opened_database(f"{uri}?mode=ro")
    try:
        db.execute("SELECT name FROM sqlite_master")
    except sqlite3.OperationalError:
        # SQLite wants to put the index of the log beside the file; with no log there is no need
        if path.with_name(path.name + "-wal").exists():
            raise
        db.close()
        db = opened_database(f"{uri}?immutable=1")
    return db


def _has_tables(db: sqlite3.Connection) -> bool:
    """Return whether the file is a journal: with our tables, and nothing that acts by itself."""
    return statements_of(db) == set(_SCHEMA)


def _tables(db: sqlite3.Connection) -> set[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in found}


def _create(db: sqlite3.Connection, meta: Mapping[str, Any]) -> None:
    """Make the tables of a journal with no batch."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        rows = [(key, json.dumps(value)) for key, value in meta.items()]
        rows.append(("checksum", str(_meta_checksum(meta))))
        db.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def _read_meta(db: sqlite3.Connection) -> dict[str, Any] | None:
    """Return what :func:`_create` wrote; None if it is damaged."""
    try:
        rows = db.execute("SELECT key, value FROM meta").fetchall()
        meta: dict[str, Any] = {key: json.loads(value) for key, value in rows}
        intact = meta.pop("checksum", None) == _meta_checksum(meta)
    except (sqlite3.Error, TypeError, ValueError) as error:
        if not _is_damage(error):
            raise
        return None
    return meta if intact else None


def _insert(db: sqlite3.Connection, rows: Iterable[BatchRow]) -> None:
    """Add the rows of batches."""
    db.executemany(f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _select(db: sqlite3.Connection, start: int = 0) -> Iterator[BatchRow]:
    """Yield the rows of the batches from number ``start`` (from 0) on."""
    query = f"SELECT {_COLUMNS} FROM batches WHERE batch > ? ORDER BY batch"
    return iter(db.execute(query, (start,)))


def _is_complete(row: BatchRow, run: int) -> bool:
    """Return whether a batch is as it was written."""
    try:
        return row[-1] == _checksum(run, *row[:-1])
    except (TypeError, AttributeError):  # a column of another type
        return False


def _checksum(
    run: int,
    first: int,
    n: int,
    genomes: bytes,
    metrics: bytes,
    errors: str,
    seconds: float,
) -> int:
    """Return the CRC-32 over a batch and over ``run``, the :func:`_meta_checksum` of its run."""
    value = zlib.crc32(f"{run} {first} {n} {seconds!r}".encode())
    for piece in (genomes, metrics, errors.encode()):
        value = zlib.crc32(piece, value)
    return value


def _is_sound(path: Path) -> bool:
    """Return whether every batch of the file can be read and is complete.

    Raises
    ------
    sqlite3.Error
        The file cannot be judged: no permission, locked.
    """
    db = opened_database(path)
    try:
        db.execute("BEGIN")  # a reader may look while another process writes: all of one moment
        if db.execute("PRAGMA quick_check").fetchone() != ("ok",):
            return False
        if not _tables(db):
            return True
        if not _has_tables(db):
            raise JournalError(f"{path}: expected the journal of a run, found another file")
        meta = _read_meta(db)
        n = db.execute("SELECT COUNT(*) FROM batches").fetchone()[0]
        return meta is not None and sum(1 for _ in _leading(db, meta)) == n
    except FileError as error:
        if not _is_damage(error):
            raise
        return False
    finally:
        db.close()


def _salvage(path: Path, ours: Mapping[str, Any]) -> int:
    """Rewrite a damaged journal with its complete leading batches; keep the damaged file beside.

    Where its description is damaged too, the batches that belong to the description ``ours`` (a
    batch's checksum tells) are kept.

    Returns
    -------
    int
        Number of batches kept.
    """
    torn = path.with_name(path.name + ".torn")
    fresh = path.with_name(path.name + ".fresh")
    kept = _rescue(path, fresh, ours)
    if not kept:
        mended = path.with_name(path.name + ".mended")
        write_whole(mended, _with_first_page_of(fresh, path.read_bytes()))
        kept = _rescue(mended, fresh, ours)
        mended.unlink()
    os.replace(path, torn)
    for suffix in ("-wal", "-shm"):  # a log left beside would be applied to the fresh file
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            os.replace(beside, torn.with_name(torn.name + suffix))
    os.replace(fresh, path)
    return kept


def _rescue(source: Path, fresh: Path, ours: Mapping[str, Any]) -> int:
    """Write the complete leading batches of a damaged journal to a fresh one; return how many."""
    fresh.unlink(missing_ok=True)
    old = opened_database(source)
    # SQLite refuses a file with fewer pages than its header says, but for whoever repairs schemas
    old.execute("PRAGMA writable_schema=ON")
    meta = _read_meta(old) or ours
    new = opened_database(fresh)
    _create(new, meta)
    kept = 0
    with new:
        for row in _leading(old, meta):
            _insert(new, [row])
            kept += 1
    new.close()
    old.close()
    return kept


def _with_first_page_of(fresh: Path, damaged: bytes) -> bytes:
    """Return a journal with the first page of another: the page that describes the file.

    It is the same in all journals. Whether the batches are valid is decided by their checksums.
    """
    content = fresh.read_bytes()
    size = int.from_bytes(content[16:18], "big")  # of a page; see SQLite's file format
    pages = len(damaged) // size
    return content[:28] + pages.to_bytes(4, "big") + content[32:size] + damaged[size:]


def _leading(db: sqlite3.Connection, meta: Mapping[str, Any]) -> Iterator[BatchRow]:
    """Yield the leading batches that are readable and complete, up to the first that is not."""
    run = _meta_checksum(meta)
    query = f"SELECT batch, {_COLUMNS} FROM batches ORDER BY batch"
    try:
        for follows, (number, *row) in enumerate(db.execute(query), start=1):
            if number != follows or not _is_complete(tuple(row), run):
                return
            yield tuple(row)
    except FileError as error:
        if not _is_damage(error):
            raise


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _NOT_DAMAGE


def _is_torn(error: Exception) -> bool:
    """Return whether SQLite found a database with pages missing or overwritten."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _meta_checksum(meta: Mapping[str, Any]) -> int:
    """Return the CRC-32 over the description of a run."""
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())
