"""The journal of a run: every evaluation, append-only and crash-safe.

It is a framed file (:mod:`framework.store`). Its title is a JSON object that describes the run.
Each frame after it is a batch, in plain little-endian values, so that any program can read it::

    rows      int64, n
    seconds   float64: time spent searching so far
    ids       n int64, ascending
    metrics   m * n float64, metric by metric in the order of ``metrics`` in the title
    genomes   n * d values of ``dtype`` in the title, row by row
    errors    JSON object, id of a candidate -> error; no bytes if nothing failed

Batches are in the order of writing. In searches whose batches are pieces of generations
(``Algorithm.evaluations_per_generation``) that is the order in which values arrived.

A batch is appended as one frame: after a crash it is there completely or not at all. A file that
was cut or damaged is salvaged up to the last complete batch; the rest is evaluated again.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from framework.arrays import are_finite, row_codes
from framework.batch import Evaluated
from framework.errors import JournalError, command, damaged, remedy_of
from framework.files import write_whole
from framework.reading import open_regular, open_to_append
from framework.store import DamagedFrame, Framing, append, title_of

FORMAT = 2
_DAMAGED = "expected a whole journal, found damage; `paretolab resume` keeps what is whole"
_BATCH = struct.Struct("<qd")  # the beginning of a batch: rows, seconds
_MOST_ID = 2**62  # readers add to ids
_TO_DISK = 1.0  # seconds between two calls of fsync, at least


class Journal:
    """The journal of a run: open the file at ``path``, or create it.

    Parameters
    ----------
    path : path-like
    identity : mapping of str to JSON value, optional
        What the run is (resolved configuration, fingerprint, seed), flat. A journal that exists
        must have the same identity. If None, the journal is opened for reading only and never
        repaired; another process may write to it meanwhile.
    metrics : sequence of str, d, dtype
        Names of the metrics, length and type of the genomes; needed to create a journal.

    Raises
    ------
    JournalError
        The file belongs to another run (the differing keys are named), is not a journal, or
        cannot be read or written.
    InputError
        The file is forged, or a link.
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
        self._file: BinaryIO | None = None
        self._end, self._synced = 0, time.monotonic()
        if identity is None and not self.path.exists():
            raise JournalError(f"{self.path}: expected the journal of a run, found no such file")
        meta = {
            "format": FORMAT,
            "metrics": list(metrics),
            "d": d,
            "dtype": np.dtype(dtype).newbyteorder("<").str,
            "identity": dict(identity or {}),
        }
        ours = json.dumps(meta, sort_keys=True).encode()
        try:
            if not self.path.exists():
                write_whole(self.path, Framing(ours).beginning)
            title = self._title(required=identity is None)
            with damaged(self.path, "the journal of a run"):
                self._describe(title or ours, None if identity is None else ours)
            if identity is not None:
                self._open_to_write(is_whole=title is not None)
        except OSError as error:
            raise JournalError(
                f"{self.path}: cannot use the journal ({error.strerror or error}); "
                f"{remedy_of(error)} and try again"
            ) from error

    def _title(self, *, required: bool) -> bytes | None:
        """Return the title of the file; if it is not ``required``, None where it is damaged."""
        try:
            with open_regular(self.path) as file:
                title = title_of(file)
            reason = "expected the journal of a run, found another file"
        except DamagedFrame:
            title, reason = None, _DAMAGED
        if title is None and required:
            raise JournalError(f"{self.path}: {reason}")
        return title

    def _describe(self, title: bytes, ours: bytes | None) -> None:
        """Set the shape of the rows from a title, which must match ``ours`` unless that is None."""
        self._framing = Framing(title)
        meta = json.loads(title)
        if meta.get("format") != FORMAT:
            raise JournalError(
                f"{self.path}: expected journal format {FORMAT}, found {meta.get('format')}; "
                "use the version of paretolab that wrote it"
            )
        theirs = meta | dict(meta["identity"], identity=None)
        if ours is not None:
            description = json.loads(ours)
            self._check_same(theirs, description | dict(description["identity"], identity=None))
        self.metric_names: tuple[str, ...] = tuple(map(str, meta["metrics"]))
        self.d, self.dtype = int(meta["d"]), np.dtype(str(meta["dtype"]))
        if self.d < 1 or not self.metric_names or self.dtype.kind not in "iuf":
            raise ValueError(f"rows of {self.d} genes of type {self.dtype}")
        self._row_bytes = 8 + 8 * len(self.metric_names) + self.d * self.dtype.itemsize

    def _check_same(self, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
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

    def _open_to_write(self, *, is_whole: bool) -> None:
        """Open the file for appending; repair it first if it is damaged.

        A damaged file is copied to ``*.torn``, and the whole batches at its beginning are kept.
        These are recognised even if the title is damaged, since checksums depend on the title.
        """
        self._file = open_to_append(self.path)
        start = len(self._framing.beginning)
        self._end, n_batches = start, 0
        with open_regular(self.path) as file:
            try:
                for frame in self._framing.frames(file):
                    self._framing.content(file, frame)
                    self._end, n_batches = frame.stop, n_batches + 1
            except DamagedFrame:
                is_whole = False
            if is_whole and os.fstat(file.fileno()).st_size == self._end:
                return
            file.seek(start)
            batches = file.read(self._end - start)
        self._file.close()
        torn = self.path.with_name(f"{self.path.name}.torn")
        torn.unlink(missing_ok=True)  # in a folder from others it may be a link to another file
        shutil.copyfile(self.path, torn)
        write_whole(self.path, self._framing.beginning + batches)
        self._file = open_to_append(self.path)
        self.salvaged = n_batches

    def append(self, rows: Evaluated, seconds: float) -> None:
        """Write evaluations as one batch, whole or not at all.

        The batch survives the death of the process. It is also forced to the disk (fsync), unless
        that was done less than a second ago; a power failure may cost the batches after that.

        Parameters
        ----------
        rows : Evaluated
            Evaluations that the journal does not have yet, ids ascending.
        seconds : float
            Seconds of searching so far, over all sessions.

        Raises
        ------
        JournalError
            The batch could not be written (disk full, say); the journal is as before.
        """
        if self._file is None:
            raise JournalError(f"{self.path}: expected a journal to write, found one for reading")
        errors = {int(id): error for id, error in rows.errors.items()}
        try:
            frame = self._framing.framed(
                _BATCH.pack(len(rows), seconds),
                rows.ids.astype("<i8").tobytes(),
                np.array([rows.values[name] for name in self.metric_names], dtype="<f8").tobytes(),
                np.ascontiguousarray(rows.X, dtype=self.dtype).tobytes(),
                json.dumps(errors).encode() if errors else b"",
            )
            if os.fstat(self._file.fileno()).st_size != self._end:
                raise JournalError(
                    f"{self.path}: expected to write row {rows.ids[0]} next, found rows after the "
                    "last: another process runs this journal; stop one of them and resume"
                )
            self._end = append(self._file, self._end, frame)
            if time.monotonic() - self._synced > _TO_DISK:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except (OSError, ValueError) as error:
            raise JournalError(
                f"{self.path}: cannot write the journal ({error}); earlier evaluations are kept: "
                f"make room and run {command('resume', self.path.parent)}"
            ) from error

    def batches(self, start: int = 0) -> Iterator[tuple[Evaluated, float]]:
        """Yield the batches from number ``start`` on (the first is 0), each with its seconds.

        Raises
        ------
        JournalError
            The file cannot be read, or a batch is damaged.
        InputError
            A batch is forged.
        """
        with damaged(self.path, "the journal of a run"):
            for content in self._contents(start):
                yield self._batch_of(content)

    def evaluations(self) -> Iterator[Evaluated]:
        """Yield the evaluations of each batch; see :meth:`batches`."""
        return (batch for batch, _ in self.batches())

    def _contents(self, start: int = 0, *, whole: bool = True) -> Iterator[bytes]:
        """Yield the contents of batches; if not ``whole``, only rows and seconds, unchecked."""
        try:
            with open_regular(self.path) as file:
                for frame in islice(self._framing.frames(file), start, None):
                    if frame.length < _BATCH.size:
                        raise DamagedFrame("a batch of no rows")
                    yield self._framing.content(file, frame) if whole else file.read(_BATCH.size)
        except DamagedFrame as error:
            raise JournalError(f"{self.path}: {_DAMAGED}") from error
        except OSError as error:
            raise JournalError(f"{self.path}: cannot read the journal: {error}") from error

    def _batch_of(self, content: bytes) -> tuple[Evaluated, float]:
        n, seconds = _BATCH.unpack_from(content)
        m = len(self.metric_names)
        stop = _BATCH.size + n * self._row_bytes
        if n < 1 or stop > len(content) or not 0 <= seconds < np.inf:
            raise ValueError(f"a batch of {n} rows in {len(content)} bytes")
        ids = np.frombuffer(content, "<i8", n, _BATCH.size)
        if ids[0] < 0 or ids[-1] > _MOST_ID or (n > 1 and (ids[1:] <= ids[:-1]).any()):
            raise ValueError(f"a batch whose ids do not ascend from 0 to {_MOST_ID:,} at most")
        table = np.frombuffer(content, "<f8", m * n, _BATCH.size + 8 * n).reshape(m, n)
        place = _BATCH.size + 8 * n * (1 + m)
        X = np.frombuffer(content, self.dtype, n * self.d, place).reshape(n, self.d)
        errors = json.loads(content[stop:]) if stop < len(content) else {}
        if not all(isinstance(error, str) for error in errors.values()):
            raise ValueError("an error that is no text")
        values = dict(zip(self.metric_names, table, strict=True))
        rows = Evaluated(ids, X, values, {int(id): e for id, e in errors.items()})
        if not are_finite(table[:, rows.ok] if errors else table):
            raise ValueError("a value that is NaN or infinite")
        return rows, seconds

    def _outline(self) -> list[tuple[int, float]]:
        """Return rows and seconds of each batch without reading the rest."""
        return [_BATCH.unpack(start) for start in self._contents(whole=False)]

    @property
    def n_batches(self) -> int:
        """Number of batches written."""
        return len(self._outline())

    @property
    def n_rows(self) -> int:
        """Number of evaluations written."""
        return sum(n for n, _ in self._outline())

    @property
    def seconds(self) -> float:
        """Seconds of searching up to the last batch."""
        return max((seconds for _, seconds in self._outline()), default=0.0)

    def distinct_genomes(self) -> int:
        """Count the different genomes among all candidates, by 64-bit codes.

        Two different genomes have the same code with probability 2^-64. O(n d) time, 8 n bytes.
        """
        codes = [row_codes(batch.X) for batch in self.evaluations()]
        return len(np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *codes])))

    def close(self) -> None:
        """Force everything to the disk and close the file."""
        if self._file is not None:
            with suppress(OSError):  # everything is written; only a power failure could lose it
                os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
