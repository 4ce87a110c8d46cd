"""What experiments and sweeps, which are many runs, have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.experiment import followers
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.files import locked
from framework.problem import Problem

_MOST = 8  # problems kept in memory

Ended = TypeVar("Ended")


@dataclass(frozen=True)
class Options(Generic[Ended]):
    """How to run, as opposed to what.

    Attributes
    ----------
    address : str or None
        A running Ray cluster.
    track : bool
        Whether to log to MLflow.
    ended : callable
        Takes every run that has ended.
    report : callable
        Takes lines for the user.
    """

    address: str | None
    track: bool
    ended: Callable[[Ended], None]
    report: Callable[[str], None]


class Problems:
    """The problems of the latest configurations, data loaded: runs on one problem load it once."""

    def __init__(self) -> None:
        self._known: dict[str, Problem] = {}

    def of(self, config: RunConfig) -> Problem:
        """Return the problem of a configuration.

        Raises
        ------
        InputError
            Whatever is wrong with it.
        """
        key = json.dumps(config.problem, sort_keys=True)
        problem = self._known.pop(key) if key in self._known else make_problem(config)
        self._known[key] = problem  # the latest one comes last
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return problem


@contextmanager
def alone(out: RunDir, kind: str) -> Iterator[None]:
    """Hold the lock of a directory of some kind (``experiment``, ``sweep``).

    Raises
    ------
    InputError
        Another process holds it.
    """

    def refuse() -> None:
        raise InputError(
            f"{out.path}: expected {'an' if kind[0] in 'aeiou' else 'a'} {kind} that nobody runs, "
            "found that another process does; wait for it or stop it"
        )

    with locked(out.path / f"{kind}.lock", refuse):
        yield


@contextmanager
def followed(config: RunConfig, out: RunDir, options: Options[Ended]) -> Iterator[None]:
    """Have all of it followed while it goes on, by whatever wants to (MLflow, say)."""
    callbacks = followers(config, out, options.track)
    for follower in callbacks:
        follower.on_start()
    try:
        yield
    finally:
        for line in [follower.on_written() for follower in callbacks]:
            if line:
                options.report(line)
