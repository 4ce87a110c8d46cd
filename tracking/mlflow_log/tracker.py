"""Logs a run to MLflow from a process of its own, so that the search never waits for it.

:class:`MlflowTracker` is the side of the run: it starts ``python -m tracking.mlflow_log.tracker
DIR``, which reads the journal as it grows. The two talk through pipes:

- The first line on standard input is a JSON object, ``{"uri": ..., "experiment": ...}``: the table
  of processes is public.
- A line ``finish`` says that the run has ended: the rest is sent and the MLflow run ended, also
  where nobody waits for that. Standard input that closes without it means that the run's process is
  gone.
- The last line on standard output is a JSON object: ``{"logged": true, "text": ...}``.

What only the process needs is imported in its functions: a run that is tracked imports no MLflow.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.extras import absent
from framework.run.driver import Callback
from framework.security import (
    check_address,
    environment_for,
    expanded,
    keep,
    public_uri,
    redacted,
)
from tracking.mlflow_log.store import (
    PARENT,
    UploadState,
    absolute_uri,
    sole_uploader,
    sqlite_file,
)

if TYPE_CHECKING:
    from tracking.mlflow_log.uploader import Uploader

FINISH = "finish"

_PATIENCE = 10.0  # seconds that a user's prompt waits for MLflow
_INTERVAL = 1.0  # seconds between looks at the journal
_LONGEST_WAIT = 60.0  # between attempts to reach a store that fails
_NICE = 10
_OBJECTS = 50_000  # allocated between two garbage collections


class LoggingOutcome(NamedTuple):
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
        if without := absent("mlflow"):
            self._problem = str(without)
            return
        place = str(self.run_dir.path.absolute())
        command = [sys.executable, "-m", "tracking.mlflow_log.tracker", place]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment_for(self.uri, self.run_dir.path),
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

    def finish(self, timeout: float = _PATIENCE) -> LoggingOutcome:
        """Have the rest logged; wait at most ``timeout`` seconds, then leave it to go on alone."""
        process = self._process
        if process is None and not self._problem:
            return LoggingOutcome(False, "not logged to MLflow: the run did not start")
        if process is None:
            return self._kept(self._problem)
        self._process = None
        try:
            answers, _ = process.communicate(FINISH + "\n", timeout=timeout)
            answer = json.loads(answers.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return LoggingOutcome(
                False,
                f"logging to MLflow goes on by itself ({public_uri(self.uri)}); `paretolab sync "
                f"{self.run_dir.path}` waits for it and says how it ended",
            )
        except (OSError, ValueError, IndexError):
            return self._kept(f"the logging process ended with code {process.wait()}")
        if not answer["logged"]:
            return self._kept(answer["text"])
        return LoggingOutcome(True, f"logged to MLflow: {answer['text']}")

    def _kept(self, why: str) -> LoggingOutcome:
        again = f"paretolab sync {self.run_dir.path}"
        return LoggingOutcome(False, f"not logged to MLflow ({why}); kept for `{again}`")


def tracker_of(run_dir: RunDir, config: RunConfig) -> MlflowTracker | None:
    """Return what logs a run to MLflow; None where its configuration has no ``tracking``."""
    if config.tracking is None:
        return None
    return MlflowTracker(run_dir, config.tracking.uri, config.tracking.experiment or config.name)


def first_line(error: BaseException) -> str:
    """Return the first line of what went wrong, short enough for a message."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:300]


def _resolved(run_dir: RunDir, uri: str) -> str:
    """Return the absolute URI; a run that is resumed elsewhere keeps the store it had."""
    state, file = UploadState.load(run_dir), sqlite_file(uri)
    before = sqlite_file(state.uri) if state else None
    if state and before and file and not file.is_absolute() and before.match(str(file)):
        with suppress(InputError):  # of a run that someone sent: its store is no business of ours
            check_address(state.uri, run_dir.path, "tracking.uri")
            return state.uri
    wanted = absolute_uri(uri, Path.cwd())
    store = sqlite_file(wanted)
    if store is not None:  # the run may go on from another folder, and logs to the same store
        keep(run_dir.path, [("write", str(store))])
    return wanted


# ------------------------------------------------------------------ the process that logs


class _Inbox:
    """What the run's process has said: nothing yet, ``finish``, or that it is gone."""

    def __init__(self, stream: TextIO) -> None:
        self.finish = False
        self._heard = threading.Event()
        self._parent = os.getppid()
        threading.Thread(target=self._listen, args=(stream,), daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait so long or until something is heard; return whether the run has ended."""
        steps = max(1, round(seconds / _INTERVAL))
        # a process that inherited the pipe keeps it open, so the parent is looked for as well
        for _ in range(steps):
            if self._heard.wait(seconds / steps) or os.getppid() != self._parent:
                return True
        return False

    def _listen(self, stream: TextIO) -> None:
        self.finish = stream.readline().strip() == FINISH
        self._heard.set()


class _SystemMetrics:
    """Has MLflow record processors, memory and disk, where ``tracking.system_metrics`` asks."""

    def __init__(self, uploader: Uploader) -> None:
        self._uploader = uploader
        tracking = uploader.run_dir.config().tracking
        self._wanted = tracking is not None and tracking.system_metrics
        self._monitor: Any = None

    def start(self) -> None:
        """Begin, once; the MLflow run is there."""
        if self._monitor is not None or not self._wanted:
            return
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        state = self._uploader.state
        self._monitor = SystemMetricsMonitor(
            state.runs[PARENT].run_id, resume_logging=True, tracking_uri=expanded(state.uri)
        )
        self._monitor.start()

    def close(self) -> None:
        """End it."""
        if self._monitor is not None:
            self._monitor.finish()


def _follow(uploader: Uploader, inbox: _Inbox) -> str | None:
    """Upload until the run ends; return why something is missing, or None."""
    wait = _INTERVAL
    with closing(_SystemMetrics(uploader)) as system_metrics:
        while not inbox.wait(wait):
            failure = _attempt(uploader, final=False, over=False)
            wait = _INTERVAL if failure is None else min(2 * wait, _LONGEST_WAIT)
            if failure is None:
                system_metrics.start()
    failure = _attempt(uploader, final=inbox.finish, over=True)
    if failure is None and not inbox.finish:
        return "the run's process is gone"
    return failure


def _attempt(uploader: Uploader, *, final: bool, over: bool) -> str | None:
    """Upload once; where the run is ``over`` without a summary, it was killed."""
    try:
        if not uploader.upload(final=final) and over:
            uploader.mark_killed()
    except Exception as error:  # MLflow may raise anything; the journal keeps it all
        return first_line(error)
    return None


def main() -> None:
    """Run the process that logs; its argument is the directory of the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then says finish
    os.nice(_NICE)
    gc.set_threshold(_OBJECTS)  # what MLflow imports stays: it takes a tenth less time
    from tracking.mlflow_log.run_content import start_tags
    from tracking.mlflow_log.uploader import Uploader

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    run_dir = RunDir(Path(sys.argv[1]))
    location, uri = "", ""
    try:
        request = json.loads(sys.stdin.readline())
        uri = request["uri"]
        with sole_uploader(run_dir, wait=True):
            uploader = Uploader(run_dir, uri, request["experiment"], start_tags(Path.cwd()))
            location = uploader.location
            failure = _follow(uploader, _Inbox(sys.stdin))
    except Exception as error:  # the last resort: say why
        failure = first_line(error)
    failure = None if failure is None else redacted(failure, uri)
    answer = {"logged": failure is None, "text": failure or location}
    with suppress(OSError):  # the run's process did not wait for the answer
        answers.write(json.dumps(answer) + "\n")
        answers.close()


if __name__ == "__main__":
    main()
