"""``tracking.json``: what was logged of a run directory so far."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.files import locked, write_whole

PARENT = "experiment"


@dataclass
class RunState:
    """One MLflow run.

    Attributes
    ----------
    run_id : str
    status : str
        As MLflow has it: RUNNING, FINISHED, FAILED or KILLED.
    batches : int
        Batches of the journal whose metrics are there.
    artifacts : dict of str to JSON value
        By file, or by what else is sent once (``end``, ``points``, ``results``, ...), what tells
        whether it has changed since: size and time of the file as it was sent, mostly.
    """

    run_id: str
    status: str = "RUNNING"
    batches: int = 0
    artifacts: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """What ``tracking.json`` holds: all MLflow runs of a directory, and what they have.

    Attributes
    ----------
    uri : str
        Absolute tracking URI.
    experiment : str
    started : float
        Seconds since the epoch; metrics are dated from here.
    tags : dict of str to str
        Versions of packages, and the revision of the working tree, at the first start.
    runs : dict of str to RunState
        ``experiment`` is the directory's own; the others are its repeats and trials by number,
        its cells by their place (``CASE/METHOD/NNN``).
    """

    uri: str
    experiment: str
    started: float
    tags: dict[str, str] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: RunDir) -> State | None:
        """Return what was kept; None where there is nothing or nothing readable."""
        try:
            raw = json.loads(run_dir.tracking_file.read_text(encoding="utf-8"))
            runs = {name: RunState(**run) for name, run in raw.pop("runs").items()}
            return cls(**raw, runs=runs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # runs are found again by their uid

    def save(self, run_dir: RunDir) -> None:
        """Write ``tracking.json``, readable by its owner alone."""
        runs = {name: vars(run) for name, run in self.runs.items()}
        write_whole(run_dir.tracking_file, json.dumps(vars(self) | {"runs": runs}))
        run_dir.tracking_file.chmod(0o600)  # where one logs is nobody's business


@contextmanager
def sole_uploader(run_dir: RunDir, *, wait: bool) -> Iterator[None]:
    """Hold the directory's lock, which ends with the process.

    Parameters
    ----------
    run_dir : RunDir
    wait : bool
        Whether to wait for another process that is uploading this directory.

    Raises
    ------
    InputError
        There is one, and it is not to be waited for.
    """

    def busy() -> None:
        if not wait:
            raise InputError(
                f"{run_dir.path}: expected a run that nobody is logging, found that another "
                "process is; it keeps MLflow up to date by itself"
            )

    with locked(run_dir.path / "tracking.lock", busy):
        yield
