"""The journal of a run: every told batch, append-only and crash-safe. It is the truth.

One SQLite file. ``meta`` says what the run is; ``batches`` has a row a batch, whose columns are
plain little-endian arrays, so that any program can read them::

    genomes   n * d values of meta['dtype'], row by row
    metrics   n * m float64, row by row, metrics in the order of meta['metrics']
    errors    JSON object, row id -> error
    checksum  CRC-32 over all of it and meta; see framework/journal_file.py

A batch has consecutive rows. Batches stand in the order of writing, which is that of their rows
but in searches that tell rows in pieces of generations (:class:`~framework.algorithm.Algorithm`):
there it is the order in which values arrived.

What is appended is one transaction: after a crash it is there whole or not at all. A file that was
cut or damaged is salvaged up to the last whole batch; what was lost is evaluated again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from framework import journal_file
from framework.arrays import row_codes
from framework.batch import Evaluated
from framework.errors import JournalError
from framework.files import check_database
from framework.plain_files import damaged

FORMAT = 1
_DAMAGED = "expected a whole journal, found damage; `paretolab resume` keeps what is whole"


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
        self.salvaged: int | None = None
        if identity is None and not self.path.exists():
            raise JournalError(f"{self.path}: expected the journal of a run, found no such file")
        try:
            if identity is None:
                self._db = journal_file.connect_reading(self.path)
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
        except (*journal_file.FileError, OSError) as error:
            torn = identity is None and journal_file.is_torn(error)
            advice = "; `paretolab resume` keeps what is whole" if torn else ""
            raise JournalError(f"{self.path}: cannot use the journal: {error}{advice}") from error
        with damaged(self.path, "the journal of a run"):
            self._check(identity)
            self._run = journal_file.meta_checksum(self.meta)
            self.metric_names: tuple[str, ...] = tuple(map(str, self.meta["metrics"]))
            self.d = int(self.meta["d"])
            self.dtype = np.dtype(str(self.meta["dtype"]))

    def _open_to_write(self, meta: Mapping[str, Any]) -> sqlite3.Connection:
        """Open the file, after repairing it where it is damaged; make it where there is none."""
        check_database(self.path)
        if self.path.exists() and not journal_file.is_sound(self.path):
            self.salvaged = journal_file.salvage(self.path, meta)
        db = journal_file.connect(self.path)
        if not journal_file.has_tables(db):
            journal_file.create(db, meta)
        return db

    def _read_meta(self) -> dict[str, Any]:
        if not journal_file.has_tables(self._db):
            raise JournalError(f"{self.path}: expected the journal of a run, found another file")
        meta = journal_file.read_meta(self._db)
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

    def append(self, rows: Evaluated, seconds: float) -> None:
        """Write rows in one transaction, as a batch; where ids have gaps, as one for each run.

        Parameters
        ----------
        rows : Evaluated
            Rows that are not there yet, ids ascending.
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
                journal_file.insert(self._db, self._batches_of(rows, float(seconds)))
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

    def _batches_of(self, rows: Evaluated, seconds: float) -> list[journal_file.BatchRow]:
        """Return a batch for each run of consecutive ids."""
        X = np.ascontiguousarray(rows.X, dtype=self.dtype)
        table = np.column_stack([rows.values[name] for name in self.metric_names])
        table = np.ascontiguousarray(table, dtype="<f8")
        starts = [0]
        if rows.ids[-1] - rows.ids[0] >= len(rows):  # there are gaps
            starts += (np.flatnonzero(np.diff(rows.ids) != 1) + 1).tolist()
        batches: list[journal_file.BatchRow] = []
        for start, stop in pairwise([*starts, len(rows)]):
            ids = rows.ids[start:stop].tolist() if rows.errors else []
            errors = json.dumps({str(id): rows.errors[id] for id in ids if id in rows.errors})
            parts = X[start:stop].tobytes(), table[start:stop].tobytes(), errors, seconds
            batch = (int(rows.ids[start]), stop - start, *parts)
            batches.append((*batch, journal_file.checksum(self._run, *batch)))
        return batches

    def batches(self, start: int = 0) -> Iterator[tuple[Evaluated, float]]:
        """Yield the batches from number ``start`` (from 0) on, each with its seconds.

        Raises
        ------
        JournalError
            The file cannot be read, or a batch is damaged.
        """
        try:
            for row in journal_file.select(self._db, start):
                if not journal_file.is_whole(row, self._run):
                    raise JournalError(f"{self.path}: {_DAMAGED}")
                with damaged(self.path, "the journal of a run"):
                    batch = self._batch_of(row)
                yield batch, row[-2]
        except journal_file.FileError as error:
            raise JournalError(f"{self.path}: cannot read the journal: {error}") from error

    def _batch_of(self, row: journal_file.BatchRow) -> Evaluated:
        first, n, genomes, metrics, errors, _, _ = row
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
        """Number of rows written."""
        return int(self._value("SELECT SUM(rows) FROM batches") or 0)

    def distinct_genomes(self) -> int:
        """Count the different genomes among all rows, by 64-bit codes.

        Two different ones share a code with probability 2^-64. O(rows d), 8 bytes a row.
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
        except journal_file.FileError as error:
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
