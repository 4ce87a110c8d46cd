"""The process that logs to MLflow while a run goes on, so that the search never waits for it.

``python -m tracking.mlflow_log.follower DIR`` reads the journal as it grows. The first line on
standard input is a JSON object, ``{"uri": ..., "experiment": ...}``: the table of processes is
public. A line ``finish`` says that the run has ended: the rest is sent and the MLflow run ended,
also where nobody waits for that. Standard input that closes without it means that the run's process
is gone. The last line on standard output is a JSON object: ``{"logged": true, "text": ...}``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TextIO

from framework.experiment.run_dir import RunDir
from framework.uris import expanded, redacted
from tracking.mlflow_log.describe import start_tags
from tracking.mlflow_log.state import PARENT, sole_uploader
from tracking.mlflow_log.uploader import Uploader

FINISH = "finish"

_INTERVAL = 1.0  # seconds between looks at the journal
_LONGEST_WAIT = 60.0  # between attempts to reach a store that fails
_NICE = 10


class Inbox:
    """What the run's process has said: nothing yet, ``finish``, or that it is gone."""

    def __init__(self, stream: TextIO) -> None:
        self.finish = False
        self._heard = threading.Event()
        self._parent = os.getppid()
        threading.Thread(target=self._listen, args=(stream,), daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait so long or until something is heard; tell whether the run has ended."""
        steps = max(1, round(seconds / _INTERVAL))
        # a process that inherited the pipe keeps it open, so the parent is looked for as well
        for _ in range(steps):
            if self._heard.wait(seconds / steps) or os.getppid() != self._parent:
                return True
        return False

    def _listen(self, stream: TextIO) -> None:
        self.finish = stream.readline().strip() == FINISH
        self._heard.set()


def follow(uploader: Uploader, inbox: Inbox) -> str | None:
    """Upload until the run ends; return why something is missing, or None."""
    wait = _INTERVAL
    with closing(Machine(uploader)) as machine:
        while not inbox.wait(wait):
            failure = _attempt(uploader, final=False, over=False)
            wait = _INTERVAL if failure is None else min(2 * wait, _LONGEST_WAIT)
            if failure is None:
                machine.watch()
    failure = _attempt(uploader, final=inbox.finish, over=True)
    if failure is None and not inbox.finish:
        return "the run's process is gone"
    return failure


class Machine:
    """Has MLflow note processors, memory and disk, where ``tracking.system_metrics`` says so."""

    def __init__(self, uploader: Uploader) -> None:
        self._uploader = uploader
        tracking = uploader.run_dir.config().tracking
        self._wanted = tracking is not None and tracking.system_metrics
        self._monitor: Any = None

    def watch(self) -> None:
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


def _attempt(uploader: Uploader, *, final: bool, over: bool) -> str | None:
    """Upload once; where the run is ``over`` without a summary, it was killed."""
    try:
        if not uploader.upload(final=final) and over:
            uploader.mark_killed()
    except Exception as error:  # MLflow may raise anything; the journal keeps it all
        return reason(error)
    return None


def reason(error: BaseException) -> str:
    """Return the first line of what went wrong, short enough for a message."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:300]


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then says finish
    os.nice(_NICE)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    run_dir = RunDir(Path(sys.argv[1]))
    place, uri = "", ""
    try:
        request = json.loads(sys.stdin.readline())
        uri = request["uri"]
        with sole_uploader(run_dir, wait=True):
            uploader = Uploader(run_dir, uri, request["experiment"], start_tags(Path.cwd()))
            place = uploader.place
            failure = follow(uploader, Inbox(sys.stdin))
    except Exception as error:  # the last resort: say why
        failure = reason(error)
    failure = None if failure is None else redacted(failure, uri)
    answer = {"logged": failure is None, "text": failure or place}
    with suppress(OSError):  # the run's process did not wait for the answer
        answers.write(json.dumps(answer) + "\n")
        answers.close()


if __name__ == "__main__":
    main()
