"""Execution of several whole runs: one after the other in this process, or on Ray workers.

Each run has a directory of its own and evaluates serially.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from framework.errors import EnvironmentFailure
from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.files import write_whole
from framework.machine import reason_of
from framework.parallel.config import ClusterConfig
from framework.parallel.each import Each
from framework.problem import Problem

Work = Callable[..., object]  # of configuration, problem, directory, and whatever is submitted
Ended = tuple[RunDir, Exception | None]

_TOKEN = ".token"  # tells a worker whether it sees the driver's disk


class RunPool(Protocol):
    """Executes runs and returns them when they have ended, in any order."""

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir, *more: Any) -> None:
        """Add a run, whose directory exists; ``more`` goes to the work, and has to be pickled."""
        ...

    def collect(self) -> Ended:
        """Wait for the next run that ends; return its directory and its exception or None."""
        ...

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted."""
        ...


class SerialPool:
    """Executes runs in this process, in the order in which they were added.

    Parameters
    ----------
    work : callable
        Does a run: configuration, problem, directory; a function of a module.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._queue: deque[tuple[Any, ...]] = deque()

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir, *more: Any) -> None:
        """See :meth:`RunPool.submit`."""
        self._queue.append((config, problem, run_dir, *more))

    def collect(self) -> Ended:
        """See :meth:`RunPool.collect`."""
        config, problem, run_dir, *more = self._queue.popleft()
        try:
            self._work(config, problem, run_dir, *more)
        except Exception as error:  # the caller decides what it means
            return run_dir, error
        return run_dir, None

    def incidents(self) -> Mapping[str, int]:
        """See :meth:`RunPool.incidents`."""
        return {}


class RayPool:
    """Executes runs on Ray workers, which are replaced where they die.

    A worker that cannot access the driver's disk uses a directory of its own, whose files are sent
    back at the end.

    Parameters
    ----------
    work : callable
        Does a run: configuration, problem, directory; a function of a module, since it travels.
    home : pathlib.Path
        A directory of the driver's.
    token : str
        What ``home`` holds in :data:`_TOKEN`.
    workers, config
        See :class:`framework.parallel.pool.WorkerPool`.
    """

    def __init__(
        self, work: Work, home: Path, token: str, workers: int | None, config: ClusterConfig
    ) -> None:
        import ray

        self._put: Any = ray.put
        seen = str((home / _TOKEN).absolute())
        self._each = Each(Runner(work, seen, token), "run", workers=workers, config=config)
        self._shared: list[tuple[Problem, Any]] = []

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir, *more: Any) -> None:
        """See :meth:`RunPool.submit`."""
        path = str(run_dir.path.absolute())
        self._each.submit(run_dir, config.model_dump(), [self._place(problem)], path, more)

    def collect(self) -> Ended:
        """See :meth:`RunPool.collect`."""
        run_dir, answer = self._each.collect()
        if isinstance(answer, Exception):
            return run_dir, answer
        for name, content in answer.items():
            path = run_dir.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        return run_dir, None

    def incidents(self) -> Mapping[str, int]:
        """See :meth:`RunPool.incidents`."""
        return self._each.incidents()

    def close(self) -> None:
        """End the workers."""
        self._each.close()

    def _place(self, problem: Problem) -> Any:
        """Return the problem's place in the object store; the same problem is sent once."""
        for known, place in self._shared:
            if known is problem:
                return place
        self._shared = [*self._shared[-3:], (problem, self._put(problem))]
        return self._shared[-1][1]


@contextmanager
def ray_pool(
    work: Work,
    home: RunDir,
    workers: int | None,
    address: str | None,
    config: ClusterConfig | None = None,
) -> Iterator[tuple[RayPool, str]]:
    """Start or join Ray; yield a pool on it and a description of where it runs.

    Raises
    ------
    ClusterError
        See :func:`framework.parallel.cluster.cluster`.
    """
    from framework.parallel.cluster import cluster

    with cluster(workers, address, config) as joined, _token(home.path) as token:
        pool = RayPool(work, home.path, token, joined.workers, config or ClusterConfig())
        with closing(pool):
            yield pool, joined.description


class Runner:
    """What a worker holds: how to do a run.

    Parameters
    ----------
    work : callable
    seen : str
        A file of the driver's disk.
    token : str
        What it holds.
    """

    def __init__(self, work: Work, seen: str, token: str) -> None:
        self._work, self._seen, self._token = work, seen, token

    def run(
        self, config: dict[str, Any], box: list[Any], path: str, more: tuple[Any, ...]
    ) -> dict[str, bytes]:
        """Do a run; return its files where the driver's disk is not in sight.

        Parameters
        ----------
        config : dict
            A :class:`RunConfig`, dumped.
        box : list
            A reference to the problem.
        path : str
            The directory on the driver's disk.
        more : tuple
            What else the work takes.

        Raises
        ------
        EnvironmentFailure
            This node cannot load the problem, or its disk is full.
        """
        import ray

        try:
            problem: Problem = ray.get(box[0])
        except Exception as error:  # code or data that this node lacks
            raise EnvironmentFailure(reason_of(error)) from error
        problem.open_store()
        run_config = RunConfig.model_validate(config)
        seen = Path(self._seen)
        if seen.is_file() and seen.read_text(encoding="utf-8") == self._token:
            self._work(run_config, problem, RunDir(path), *more)
            return {}
        with TemporaryDirectory() as folder:
            self._work(run_config, problem, RunDir(folder), *more)
            files = (file for file in Path(folder).rglob("*") if file.is_file())
            return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@contextmanager
def _token(home: Path) -> Iterator[str]:
    token, file = uuid.uuid4().hex, home / _TOKEN
    file.write_text(token, encoding="utf-8")
    try:
        yield token
    finally:
        file.unlink(missing_ok=True)
