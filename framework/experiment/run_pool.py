"""Execution of several whole runs: one after the other in this process, or as Ray tasks.

Each run has a directory of its own and evaluates serially.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.files import write_whole
from framework.problem import Problem

Work = Callable[[RunConfig, Problem, RunDir], object]  # a function of a module: it may travel
Ended = tuple[RunDir, Exception | None]

_TOKEN = ".token"  # tells a worker whether it sees the driver's disk


class RunPool(Protocol):
    """Executes runs and returns them when they have ended, in any order."""

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir) -> None:
        """Add a run, whose directory exists."""
        ...

    def collect(self) -> Ended:
        """Wait for the next run that ends; return its directory and its exception or None."""
        ...


class SerialPool:
    """Executes runs in this process, in the order in which they were added.

    Parameters
    ----------
    work : callable
        Does a run: configuration, problem, directory.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._queue: deque[tuple[RunConfig, Problem, RunDir]] = deque()

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir) -> None:
        """See :meth:`RunPool.submit`."""
        self._queue.append((config, problem, run_dir))

    def collect(self) -> Ended:
        """See :meth:`RunPool.collect`."""
        config, problem, run_dir = self._queue.popleft()
        try:
            self._work(config, problem, run_dir)
        except Exception as error:  # the caller decides what it means
            return run_dir, error
        return run_dir, None


class RayPool:
    """Executes runs as Ray tasks of one CPU each.

    A worker that cannot access the driver's disk uses a directory of its own, whose files are sent
    back at the end.

    Parameters
    ----------
    work : callable
        Does a run: configuration, problem, directory.
    home : pathlib.Path
        A directory of the driver's.
    token : str
        What ``home`` holds in :data:`_TOKEN`.
    """

    def __init__(self, work: Work, home: Path, token: str) -> None:
        import ray

        self._ray: Any = ray
        self._task: Any = ray.remote(num_cpus=1)(_remote)
        self._work, self._seen, self._token = work, str((home / _TOKEN).absolute()), token
        self._shared: list[tuple[Problem, Any]] = []
        self._waiting: dict[Any, RunDir] = {}

    def submit(self, config: RunConfig, problem: Problem, run_dir: RunDir) -> None:
        """See :meth:`RunPool.submit`."""
        path = str(run_dir.path.absolute())
        future = self._task.remote(
            self._work, config.model_dump(), self._put(problem), path, self._seen, self._token
        )
        self._waiting[future] = run_dir

    def collect(self) -> Ended:
        """See :meth:`RunPool.collect`."""
        ready, _ = self._ray.wait(list(self._waiting), num_returns=1)
        run_dir = self._waiting.pop(ready[0])
        try:
            files = self._ray.get(ready[0])
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            return run_dir, cause if isinstance(cause, Exception) else error
        except self._ray.exceptions.RayError as error:
            return run_dir, error
        for name, content in files.items():
            path = run_dir.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        return run_dir, None

    def _put(self, problem: Problem) -> Any:
        """Return the problem's place in the object store; the same problem is sent once."""
        for known, place in self._shared:
            if known is problem:
                return place
        self._shared = [*self._shared[-3:], (problem, self._ray.put(problem))]
        return self._shared[-1][1]


@contextmanager
def ray_pool(
    work: Work, home: RunDir, workers: int | None, address: str | None
) -> Iterator[tuple[RayPool, str]]:
    """Start or join Ray; yield a pool on it and a description of where it runs.

    Raises
    ------
    ClusterError
        See :func:`framework.parallel.cluster.cluster`.
    """
    from framework.parallel.cluster import cluster

    with cluster(workers, address) as joined, _token(home.path) as token:
        yield RayPool(work, home.path, token), joined.description


def _remote(
    work: Work, config: dict[str, Any], problem: Problem, path: str, seen: str, token: str
) -> dict[str, bytes]:
    """Do a run in a Ray task; return its files where the driver's disk is not in sight."""
    problem.open_store()
    run_config = RunConfig.model_validate(config)
    if Path(seen).is_file() and Path(seen).read_text(encoding="utf-8") == token:
        work(run_config, problem, RunDir(path))
        return {}
    with TemporaryDirectory() as folder:
        work(run_config, problem, RunDir(folder))
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
