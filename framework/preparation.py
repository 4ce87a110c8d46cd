"""Preparation: what an algorithm computes before its first batch, with progress and checkpoints.

An algorithm may need expensive work before it can propose anything: shared components, tables, a
proof. :class:`Preparation` gives it workers, a time limit, a place for checkpoints, and a way to
report progress.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from framework.arrays import WordArray
from framework.components import SharedComponents
from framework.errors import JournalError, remedy_of
from framework.store import KeyValue

_COMPONENTS_AT_ONCE = 4096  # built in this process between two reports


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
        self.problem = SharedComponents() if problem is None else problem

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`Workforce.build`."""
        if not self.problem.has_components:
            return
        for start in range(0, len(keys), _COMPONENTS_AT_ONCE):
            built = self.problem.build_components(keys[start : start + _COMPONENTS_AT_ONCE])
            self.problem.add_components(built)
            yield len(built)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`Workforce.map`."""
        for piece in pieces:
            yield function(shared, piece)


class Checkpoints(Mapping[str, bytes]):
    """Intermediate results of long work, from which a resumed run continues.

    A mapping of names to bytes that is kept on disk. After a crash a checkpoint has either its old
    or its new content. A damaged checkpoint counts as absent, so its work is done again.

    Parameters
    ----------
    path : pathlib.Path, optional
        A file of a :class:`~framework.store.KeyValue`, created with the first checkpoint. If None,
        checkpoints are kept in memory only.
    owner : str
        Identifies the run that the checkpoints belong to; those of another owner are ignored.

    Raises
    ------
    JournalError
        The checkpoints cannot be read or written.
    InputError
        The file is a link.
    """

    def __init__(self, path: Path | None = None, owner: str = "") -> None:
        self.path = path
        self._content: dict[str, bytes] = {}
        self._store: KeyValue | None = None
        if path is not None:
            with self._on_disk("read"):
                self._store = KeyValue(path, f"checkpoints of {owner}")
                content = self._store.get(self._store.keys())
            self._content = {key.decode(errors="replace"): content[key] for key in sorted(content)}

    def __getitem__(self, key: str) -> bytes:
        return self._content[key]

    def __setitem__(self, key: str, content: bytes) -> None:
        if self._store is not None:
            with self._on_disk("write"):
                self._store.put({key.encode(): content})
        self._content[key] = content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    @contextmanager
    def _on_disk(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(
                f"{self.path}: cannot {verb} checkpoints ({error.strerror or error}); what was "
                f"proven so far is kept: {remedy_of(error)} and resume the run"
            ) from error


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


@dataclass
class Preparation:
    """Workers, checkpoints, time limit and progress reports for work before the first batch.

    An algorithm should call :meth:`report` at least every second or so, because interruptions
    take effect there. If its work takes minutes, it should write what it has proven so far to
    ``checkpoints``. If it can stop early with an answer, it should do so when ``out_of_time()``
    returns true.

    Attributes
    ----------
    workers : Workforce
        Builds shared components and computes pieces of the work; the results do not depend on it.
    checkpoints : Checkpoints
        Intermediate results, including those of earlier sessions of the same run.
    out_of_time : callable
        Returns whether the run's budget of seconds is spent.
    on_progress : callable
        Takes each report.
    """

    workers: Workforce = field(default_factory=InProcess)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    out_of_time: Callable[[], bool] = lambda: False
    on_progress: Callable[[PreparationProgress], None] = lambda progress: None

    def report(self, what: str, done: int, total: int, **values: float) -> None:
        """Report the progress of the work; raises KeyboardInterrupt where it is interrupted."""
        self.on_progress(PreparationProgress(what, done, total, values=values))

    def map(
        self,
        what: str,
        function: Callable[[Any, Any], Any],
        shared: Any,
        pieces: Sequence[Any],
        *,
        read: Callable[[Any], Any],
        write: Callable[[Any], Any],
    ) -> list[Any]:
        """Return ``function(shared, piece)`` of each piece, those of earlier sessions as they were.

        Parameters
        ----------
        what : str
            The plural of a piece, in progress reports and as the name of the checkpoints.
        function, shared, pieces
            As for :meth:`Workforce.map`; no result is None.
        read, write : callable
            ``write`` makes a result JSON values, ``read`` a result of these. What ``read`` raises
            TypeError or ValueError for is computed again.
        """
        results: list[Any] = [None] * len(pieces)
        for i in range(len(pieces)):
            with suppress(TypeError, ValueError):
                results[i] = read(json.loads(self.checkpoints.get(f"{what} {i}", b"null")))
        left = [i for i, result in enumerate(results) if result is None]
        solved = self.workers.map(function, shared, [pieces[i] for i in left])
        for done, (i, result) in enumerate(zip(left, solved, strict=True), 1):
            self.checkpoints[f"{what} {i}"] = json.dumps(write(result)).encode()
            results[i] = result
            self.report(what, len(pieces) - len(left) + done, len(pieces))
        return results
