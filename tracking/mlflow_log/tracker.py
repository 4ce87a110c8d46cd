"""Logs a run to MLflow from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.run.driver import Callback
from framework.uris import public_uri
from tracking.mlflow_log.follower import FINISH
from tracking.mlflow_log.state import State
from tracking.mlflow_log.store import absolute_uri, sqlite_file

_PATIENCE = 10.0  # seconds that a user's prompt waits for MLflow


class Outcome(NamedTuple):
    """How logging ended, or that it goes on; ``text`` is a line for the user."""

    logged: bool
    text: str


class MlflowTracker(Callback):
    """Starts the process that follows the journal, and ends it. It never raises.

    Parameters
    ----------
    run_dir : RunDir
        Its ``config.yaml`` is there; its journal may come later.
    uri : str
        Tracking URI. A relative SQLite path counts from the directory where the run was first
        started.
    experiment : str
        Name of MLflow's experiment; made where there is none.

    Notes
    -----
    ``on_batch`` does nothing: the journal says it all. :meth:`finish` is called after the
    summary, the front and the plots are written, which is after ``on_end``.
    """

    def __init__(self, run_dir: RunDir, uri: str, experiment: str) -> None:
        self.run_dir = run_dir
        self.uri = _resolved(run_dir, uri)
        self.experiment = experiment
        self._process: subprocess.Popen[str] | None = None
        self._problem = ""

    def on_start(self) -> None:
        """Start the process, once."""
        if self._process is not None:
            return
        # -P: a file of the user's called like a module of ours is not taken for it
        command = [sys.executable, "-P", "-m", "tracking.mlflow_log.follower"]
        command.append(str(self.run_dir.path.absolute()))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # it outlives the run's terminal where MLflow is slow
            )
            assert self._process.stdin is not None
            request = {"uri": self.uri, "experiment": self.experiment}
            self._process.stdin.write(json.dumps(request) + "\n")  # not for other users to see
            self._process.stdin.flush()
        except OSError as error:
            self._problem = str(error)

    def on_written(self) -> str:
        return self.finish().text

    def finish(self, timeout: float = _PATIENCE) -> Outcome:
        """Have the rest logged; wait at most ``timeout`` seconds, then leave it to go on alone."""
        process = self._process
        if process is None and not self._problem:
            return Outcome(False, "not logged to MLflow: the run did not start")
        if process is None:
            return self._kept(self._problem)
        self._process = None
        try:
            answers, _ = process.communicate(FINISH + "\n", timeout=timeout)
            answer = json.loads(answers.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return Outcome(
                False,
                f"logging to MLflow goes on by itself ({public_uri(self.uri)}); `paretolab sync "
                f"{self.run_dir.path}` waits for it and says how it ended",
            )
        except (OSError, ValueError, IndexError):
            return self._kept(f"the logging process ended with code {process.wait()}")
        if not answer["logged"]:
            return self._kept(answer["text"])
        return Outcome(True, f"logged to MLflow: {answer['text']}")

    def _kept(self, why: str) -> Outcome:
        again = f"paretolab sync {self.run_dir.path}"
        return Outcome(False, f"not logged to MLflow ({why}); kept for `{again}`")


def follow(run_dir: RunDir, config: RunConfig) -> MlflowTracker | None:
    """Return what logs a run to MLflow; None where its configuration has no ``tracking``."""
    if config.tracking is None:
        return None
    return MlflowTracker(run_dir, config.tracking.uri, config.tracking.experiment or config.name)


def _resolved(run_dir: RunDir, uri: str) -> str:
    """Return the absolute URI; a run that is resumed elsewhere keeps the store it had."""
    known, file = State.load(run_dir), sqlite_file(uri)
    before = sqlite_file(known.uri) if known else None
    if known and before and file and not file.is_absolute() and before.match(str(file)):
        return known.uri
    return absolute_uri(uri, Path.cwd())
