"""The SQLite file under a journal: making it, checking it, saving what is whole of a torn one."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from framework.files import write_whole

_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE batches ("
    "batch INTEGER PRIMARY KEY, first_id INTEGER NOT NULL UNIQUE, rows INTEGER NOT NULL, "
    "genomes BLOB NOT NULL, metrics BLOB NOT NULL, errors TEXT NOT NULL, "
    "seconds REAL NOT NULL, checksum INTEGER NOT NULL)",
)
_COLUMNS = "first_id, rows, genomes, metrics, errors, seconds, checksum"
# What says nothing about the file itself; any other error of SQLite's is damage.
_TROUBLE = {
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


def connect(path: Path) -> sqlite3.Connection:
    """Open a journal for writing, or make an empty file."""
    db = sqlite3.connect(path, timeout=30, isolation_level="IMMEDIATE")
    # In WAL mode a commit survives the death of the process, readers never block the writer, and
    # synchronous=NORMAL keeps the file consistent (at most the last batches go) if power fails.
    db.execute("PRAGMA trusted_schema=OFF")  # the file may be anyone's
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def connect_reading(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, also in a directory that cannot be written."""
    uri = path.absolute().as_uri()
    db = sqlite3.connect(f"{uri}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA trusted_schema=OFF")  # the file may be anyone's
        db.execute("SELECT name FROM sqlite_master")
    except sqlite3.OperationalError:
        # SQLite wants to put the index of the log beside the file; with no log there is no need
        if path.with_name(path.name + "-wal").exists():
            raise
        db.close()
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True)
    return db


def has_tables(db: sqlite3.Connection) -> bool:
    """Tell whether the file is a journal."""
    return _tables(db) == {"meta", "batches"}


def _tables(db: sqlite3.Connection) -> set[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in found}


def create(db: sqlite3.Connection, meta: Mapping[str, Any]) -> None:
    """Make the tables of a journal with no batch."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        rows = [(key, json.dumps(value)) for key, value in meta.items()]
        rows.append(("checksum", str(meta_checksum(meta))))
        db.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def read_meta(db: sqlite3.Connection) -> dict[str, Any] | None:
    """Return what :func:`create` wrote; None if it is damaged."""
    try:
        rows = db.execute("SELECT key, value FROM meta").fetchall()
        meta: dict[str, Any] = {key: json.loads(value) for key, value in rows}
        intact = meta.pop("checksum", None) == meta_checksum(meta)
    except (sqlite3.Error, TypeError, ValueError) as error:
        if not _is_damage(error):
            raise
        return None
    return meta if intact else None


def insert(db: sqlite3.Connection, rows: Iterable[BatchRow]) -> None:
    """Add the rows of batches."""
    db.executemany(f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def select(db: sqlite3.Connection, start: int = 0) -> Iterator[BatchRow]:
    """Yield the rows of the batches from number ``start`` (from 0) on."""
    query = f"SELECT {_COLUMNS} FROM batches WHERE batch > ? ORDER BY batch"
    return iter(db.execute(query, (start,)))


def is_whole(row: BatchRow, run: int) -> bool:
    """Tell whether a row is as it was written."""
    try:
        return row[-1] == checksum(run, *row[:-1])
    except (TypeError, AttributeError):  # a column of another type
        return False


def checksum(
    run: int,
    first: int,
    n: int,
    genomes: bytes,
    metrics: bytes,
    errors: str,
    seconds: float,
) -> int:
    """Return the CRC-32 over a batch and over ``run``, the :func:`meta_checksum` of its run."""
    value = zlib.crc32(f"{run} {first} {n} {seconds!r}".encode())
    for piece in (genomes, metrics, errors.encode()):
        value = zlib.crc32(piece, value)
    return value


def is_sound(path: Path) -> bool:
    """Tell whether every batch of the file can be read and is whole.

    Raises
    ------
    sqlite3.Error
        The file cannot be judged: no permission, locked.
    """
    db = sqlite3.connect(path)
    try:
        if db.execute("PRAGMA quick_check").fetchone() != ("ok",):
            return False
        if not _tables(db):
            return True
        meta = read_meta(db)
        n = db.execute("SELECT COUNT(*) FROM batches").fetchone()[0]
        return meta is not None and sum(1 for _ in _leading(db, meta)) == n
    except FileError as error:
        if not _is_damage(error):
            raise
        return False
    finally:
        db.close()


def salvage(path: Path, ours: Mapping[str, Any]) -> int:
    """Rewrite a damaged journal with its whole leading batches; keep the damaged file beside.

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
    """Write the whole leading batches of a damaged journal to a fresh one; return how many."""
    fresh.unlink(missing_ok=True)
    old = sqlite3.connect(source)
    # SQLite refuses a file with fewer pages than its header says, but for whoever repairs schemas
    old.execute("PRAGMA writable_schema=ON")
    meta = read_meta(old) or ours
    new = sqlite3.connect(fresh)
    create(new, meta)
    kept = 0
    with new:
        for row in _leading(old, meta):
            insert(new, [row])
            kept += 1
    new.close()
    old.close()
    return kept


def _with_first_page_of(fresh: Path, damaged: bytes) -> bytes:
    """Return a journal with another's first page: what describes the file is alike in all.

    What it then holds is judged by the checksums of its batches, as ever.
    """
    content = fresh.read_bytes()
    size = int.from_bytes(content[16:18], "big")  # of a page; see SQLite's file format
    pages = len(damaged) // size
    return content[:28] + pages.to_bytes(4, "big") + content[32:size] + damaged[size:]


def _leading(db: sqlite3.Connection, meta: Mapping[str, Any]) -> Iterator[BatchRow]:
    """Yield the leading batches that are readable and whole, up to a number that is missing."""
    run = meta_checksum(meta)
    query = f"SELECT batch, {_COLUMNS} FROM batches ORDER BY batch"
    try:
        for follows, (number, *row) in enumerate(db.execute(query), start=1):
            if number != follows or not is_whole(tuple(row), run):
                return
            yield tuple(row)
    except FileError as error:
        if not _is_damage(error):
            raise


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _TROUBLE


def is_torn(error: Exception) -> bool:
    """Tell whether SQLite found a file of its own with pages missing or overwritten."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def meta_checksum(meta: Mapping[str, Any]) -> int:
    """Return the CRC-32 over the description of a run."""
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())
