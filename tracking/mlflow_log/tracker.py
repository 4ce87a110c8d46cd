"""Logs a run to MLflow from a separate process, so that the search never waits for MLflow.

:class:`MlflowTracker` works in the process of the run. It starts ``python -m
tracking.mlflow_log.tracker DIR``, which reads the journal as it grows. The two communicate through
pipes:

- The first line on standard input is a JSON object, ``{"uri": ..., "experiment": ...}``. They are
  no arguments of the command, since other users can list these.
- A line ``finish`` says that the run has ended. The process then sends the rest and ends the MLflow
  run, even if nobody waits for it. If standard input is closed without this line, the process of
  the run is gone.
- The last line on standard output is a JSON object: ``{"logged": true, "text": ...}``.

The process that logs has its own imports within functions: the run itself does not import MLflow.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from framework.errors import InputError, command, first_line
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

_PATIENCE = 10.0  # seconds that a command waits for MLflow at its end
_INTERVAL = 1.0  # seconds between looks at the journal
_LONGEST_WAIT = 60.0  # seconds between attempts to reach a store that fails
_LONGEST = 300  # characters of an error's first line
_NICE = 10
_OBJECTS = 50_000  # allocated between two garbage collections


class MlflowTracker(Callback):
    """Starts the process that follows the journal, and ends it. It never raises.

    Parameters
    ----------
    run_dir : RunDir
        A directory with ``config.yaml``; the journal may come later.
    uri : str
        Tracking URI. A relative SQLite path is relative to the directory where the run was first
        started.
    experiment : str
        Name of MLflow's experiment, which is made if there is none.

    Notes
    -----
    There is no ``on_batch``, since the process reads the journal. :meth:`on_written` is called
    after the summary, the front and the plots are written, which is after ``on_end``.
    """

    def __init__(self, run_dir: RunDir, uri: str, experiment: str) -> None:
        self.run_dir = run_dir
        self.uri = _resolved(run_dir, uri)
        self.experiment = experiment
        self._process: subprocess.Popen[str] | None = None
        self._problem = ""
        self._again = command("sync", run_dir.path)

    def on_start(self) -> None:
        """Start the process, once."""
        if self._process is not None:
            return
        if without := absent("mlflow"):
            self._problem = str(without)
            return
        place = str(self.run_dir.path.absolute())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tracking.mlflow_log.tracker", place],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment_for(self.uri, self.run_dir.path),
                start_new_session=True,  # it may go on after the run's terminal is closed
            )
            assert self._process.stdin is not None
            request = {"uri": self.uri, "experiment": self.experiment}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            self._problem = str(error)

    def on_written(self, timeout: float = _PATIENCE) -> str:
        """Let the rest be logged, within ``timeout`` seconds; return a line on how it ended."""
        process = self._process
        if process is None and not self._problem:
            return "not logged to MLflow: the run did not start"
        if process is None:
            return self._kept(self._problem)
        self._process = None
        try:
            answers, _ = process.communicate(FINISH + "\n", timeout=timeout)
            answer = json.loads(answers.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return (
                f"logging to MLflow goes on by itself ({public_uri(self.uri)}); {self._again} "
                "waits for it and says how it ended"
            )
        except (OSError, ValueError, IndexError):
            return self._kept(f"the logging process ended with code {process.wait()}")
        if not answer["logged"]:
            return self._kept(answer["text"])
        return f"logged to MLflow: {answer['text']}"

    def _kept(self, why: str) -> str:
        return f"not logged to MLflow ({why}); kept for {self._again}"


def tracker_of(run_dir: RunDir, config: RunConfig) -> MlflowTracker | None:
    """Return the tracker of a run; None if its configuration has no section ``tracking``."""
    if config.tracking is None:
        return None
    return MlflowTracker(run_dir, config.tracking.uri, config.tracking.experiment or config.name)


def _resolved(run_dir: RunDir, uri: str) -> str:
    """Return the absolute URI; a run that is resumed in another folder keeps its SQLite store."""
    state, file = UploadState.load(run_dir), sqlite_file(uri)
    before = sqlite_file(state.uri) if state else None
    if state and before and file and not file.is_absolute() and before.match(str(file)):
        with suppress(InputError):  # a run from somebody else may not name any file
            check_address(state.uri, run_dir.path, "tracking.uri")
            return state.uri
    wanted = absolute_uri(uri, Path.cwd())
    store = sqlite_file(wanted)
    if store is not None:  # grant it also for a resume from another folder
        keep(run_dir.path, [("write", str(store))])
    return wanted


# ------------------------------------------------------------------ the process that logs


class _Inbox:
    """Listens to the process of the run; ``finish`` says whether that has sent ``finish``."""

    def __init__(self, stream: TextIO) -> None:
        self.finish = False
        self._heard = threading.Event()
        self._parent = os.getppid()
        threading.Thread(target=self._listen, args=(stream,), daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until the run has ended, at most ``seconds``; return whether it has."""
        steps = max(1, round(seconds / _INTERVAL))
        # a process that inherited the pipe keeps it open, so check also that the parent lives
        for _ in range(steps):
            if self._heard.wait(seconds / steps) or os.getppid() != self._parent:
                return True
        return False

    def _listen(self, stream: TextIO) -> None:
        self.finish = stream.readline().strip() == FINISH
        self._heard.set()


def _system_monitor(state: UploadState) -> Any:
    """Return MLflow's monitor of processors, memory and disk, which has begun to record them."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(
        state.runs[PARENT].run_id, resume_logging=True, tracking_uri=expanded(state.uri)
    )
    monitor.start()
    return monitor


def _follow(uploader: Uploader, inbox: _Inbox) -> str | None:
    """Upload until the run ends; return why something could not be uploaded, or None."""
    wait, tracking = _INTERVAL, uploader.run_dir.config().tracking
    unrecorded = tracking is not None and tracking.system_metrics
    with ExitStack() as stack:
        while not inbox.wait(wait):
            failure = _attempt(uploader, final=False, over=False)
            wait = _INTERVAL if failure is None else min(2 * wait, _LONGEST_WAIT)
            if failure is None and unrecorded:  # the MLflow run exists from now on
                unrecorded = False
                stack.callback(_system_monitor(uploader.state).finish)
    failure = _attempt(uploader, final=inbox.finish, over=True)
    if failure is None and not inbox.finish:
        return "the run's process is gone"
    return failure


def _attempt(uploader: Uploader, *, final: bool, over: bool) -> str | None:
    """Upload once; mark a run that is ``over`` without a summary as killed. Return the error."""
    try:
        if not uploader.upload(final=final) and over:
            uploader.mark_killed()
    except Exception as error:  # MLflow may raise anything; nothing is lost, as the journal has it
        return first_line(error)[:_LONGEST]
    return None


def main() -> None:
    """Run the process that logs; its argument is the directory of the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the run, which then sends finish
    os.nice(_NICE)
    gc.set_threshold(_OBJECTS)  # saves a tenth of the time: the objects of MLflow's imports stay
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
    except Exception as error:  # whatever it is, the run's process is told why
        failure = first_line(error)[:_LONGEST]
    failure = None if failure is None else redacted(failure, uri)
    answer = {"logged": failure is None, "text": failure or location}
    with suppress(OSError):  # the run's process did not wait for the answer
        answers.write(json.dumps(answer) + "\n")
        answers.close()


if __name__ == "__main__":
    main()
