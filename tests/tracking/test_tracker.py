import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.command import run_program, until
from tests.tracking import made_up
from tracking.mlflow_log.store import PARENT, UploadState, sqlite_file
from tracking.mlflow_log.sync import sync
from tracking.mlflow_log.tracker import MlflowTracker

NOBODY = "http://127.0.0.1:9"  # a port that nothing listens on


def tracked(folder, uri, experiment):
    """Start a run that is logged, with three batches; return its directory and its tracker."""
    run_dir = made_up.start(folder / "out")
    tracker = MlflowTracker(run_dir, uri, experiment)
    tracker.on_start()
    made_up.search(run_dir, 0, 3)
    return run_dir, tracker


def test_a_run_is_logged_while_it_goes_on(tmp_path, store):
    run_dir, tracker = tracked(tmp_path, store.uri, "live")
    until(lambda: (state := UploadState.load(run_dir)) and PARENT in state.runs)
    until(lambda: UploadState.load(run_dir).runs[PARENT].batches == 3)
    made_up.search(run_dir, 3, 5)
    made_up.end(run_dir)
    text = tracker.on_written(timeout=240)
    assert text == f"logged to MLflow: {store.uri}, experiment 'live'"
    state = UploadState.load(run_dir)
    assert (state.runs[PARENT].batches, state.runs[PARENT].status) == (5, "FINISHED")
    assert (sqlite_file(store.uri).parent / "mlruns" / "live").is_dir()


def test_a_store_that_is_away_never_stops_a_run(tmp_path, store):
    run_dir, tracker = tracked(tmp_path, NOBODY, "away")
    made_up.end(run_dir)
    text = tracker.on_written(timeout=240)
    assert NOBODY in text
    assert f"paretolab sync {run_dir.path}" in text

    assert "logged to" in sync(str(run_dir.path), store.uri)
    assert UploadState.load(run_dir).runs[PARENT].batches == 3


@pytest.mark.slow
def test_a_store_that_is_slow_is_not_waited_for(tmp_path, store):
    run_dir, tracker = tracked(tmp_path, store.uri, "slow")
    made_up.end(run_dir)
    begun = time.monotonic()
    text = tracker.on_written(timeout=0.1)
    assert time.monotonic() - begun < 5
    assert "goes on by itself" in text

    def status():
        state = UploadState.load(run_dir)
        return state and PARENT in state.runs and state.runs[PARENT].status

    until(lambda: status() == "FINISHED")
    assert "logged to" in sync(str(run_dir.path))  # waits where it is not quite done
    run_id = UploadState.load(run_dir).runs[PARENT].run_id
    assert store.client.get_run(run_id).info.status == "FINISHED"


def test_a_run_resumed_elsewhere_keeps_its_store(tmp_path, monkeypatch):
    run_dir = made_up.start(tmp_path / "out")
    UploadState(f"sqlite:///{tmp_path}/first/mlflow.db", "e", 0.0).save(run_dir)
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "second")
    kept = MlflowTracker(run_dir, "sqlite:///mlflow.db", "e")
    other = MlflowTracker(run_dir, "sqlite:///other.db", "e")
    assert kept.uri == f"sqlite:///{tmp_path}/first/mlflow.db"
    assert other.uri == f"sqlite:///{tmp_path}/second/other.db"


def test_a_run_that_did_not_start_asks_for_no_sync(tmp_path):
    tracker = MlflowTracker(made_up.start(tmp_path / "out"), NOBODY, "none")
    assert tracker.on_written() == "not logged to MLflow: the run did not start"


@pytest.mark.quick(1)
@pytest.mark.parametrize("reachable", [True, False])
def test_the_logging_process_ends_with_its_run(tmp_path, store, reachable):
    uri = store.uri if reachable else NOBODY
    run_dir = made_up.start(tmp_path / "out")
    made_up.search(run_dir, 0, 3)
    program = (
        "import time; from framework.experiment.run_dir import RunDir\n"
        "from tracking.mlflow_log.tracker import MlflowTracker\n"
        f"tracker = MlflowTracker(RunDir({str(run_dir.path)!r}), {uri!r}, 'dies')\n"
        "tracker.on_start(); print(tracker._process.pid, flush=True); time.sleep(100)"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    logging = psutil.Process(int(run.stdout.readline()))
    until(run_dir.tracking_file.exists)
    if reachable:
        until(lambda: PARENT in UploadState.load(run_dir).runs)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    until(lambda: not logging.is_running() or logging.status() == psutil.STATUS_ZOMBIE)
    if reachable:
        assert UploadState.load(run_dir).runs[PARENT].status == "KILLED"


@pytest.mark.slow
def test_ctrl_c_is_left_to_the_run(tmp_path):
    run_dir = made_up.start(tmp_path / "out")
    tracker = MlflowTracker(run_dir, NOBODY, "interrupted")
    tracker.on_start()
    until(run_dir.tracking_file.exists)
    tracker._process.send_signal(signal.SIGINT)
    assert "kept for" in tracker.on_written(timeout=240)


def test_importing_is_cheap():
    program = (
        "import sys, tracking.figures.run_report, tracking.mlflow_log.sync\n"
        "import tracking.mlflow_log.tracker, tracking.mlflow_log.deploy\n"
        "print([m for m in ('mlflow', 'plotly', 'matplotlib', 'ray') if m in sys.modules])"
    )
    done = run_program([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)
    assert done.stdout.strip() == "[]"
