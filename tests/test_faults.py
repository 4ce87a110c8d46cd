"""Whatever befalls a run - death, interruption, a full disk, damage - it ends in the same front."""

import re
import resource
import signal
import sys
import time

import psutil
import pytest

from framework.errors import JournalError
from tests.command import (
    assert_each_row_once,
    call,
    environment,
    rows,
    run_program,
    small,
    start,
    write,
)

GENERATIONS = 6
# every row needs sub-classifiers that were not trained before, by a slow trainer: the search takes
# long enough to be met in its midst
LONG = {
    "problem__dataset": {"sklearn": "breast_cancer"},
    "problem__costs": None,
    "problem__max_stages": 6,
    "problem__classifier": {"kind": "gaussian_nb"},
    "problem__threshold": 0.95,
    "budget": {"generations": GENERATIONS},
}
ENV = {"PARETOLAB_CACHE": "off"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    write(folder / "long.yaml", small(**LONG))
    return folder


@pytest.fixture(scope="module")
def reference(place):
    """Return the front of a run that nothing befalls."""
    call("run", "long.yaml", "--no-plots", "--out", "reference", cwd=place, env=ENV, code=0)
    assert_each_row_once(place / "reference" / "journal.bin")
    return (place / "reference" / "front.csv").read_bytes()


def batches_in(directory):
    try:
        return len(rows(directory / "journal.bin"))
    except JournalError:  # not made yet
        return 0


def wait_for(process, directory, batches):
    """Wait until a run has written so many batches; it must not end before."""
    while batches_in(directory) < batches:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def finish(place, name, *options):
    """Resume a run to its end; return its front. No row may have been evaluated twice."""
    call("resume", name, "--no-plots", *options, cwd=place, env=ENV, code=0)
    journal = place / name / "journal.bin"
    assert_each_row_once(journal)
    assert len(rows(journal)) == GENERATIONS + 1
    return (place / name / "front.csv").read_bytes()


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted(place, reference, number):
    name = f"interrupted by {number}"
    process = start("run", "long.yaml", "--no-plots", "--out", name, cwd=place, env=ENV)
    wait_for(process, place / name, 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("interrupted; go on with: ")
    assert err.splitlines()[-1].endswith(f"paretolab resume '{name}'")
    assert '"status": "interrupted"' in (place / name / "summary.json").read_text()
    assert finish(place, name) == reference
    assert '"status": "done"' in (place / name / "summary.json").read_text()


LOADING = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        try:
            if name == {name!r}:
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass  # as Python drops one where it is in a callback of the import system
sys.meta_path.insert(0, Interrupts())
sys.argv[1:] = ["run", "long.yaml", "--out", "loading"]
from paretolab.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["framework.cli", "framework.security", "framework.cli.run"])
def test_interrupted_while_modules_load(place, name):
    command = [sys.executable, "-P", "-c", LOADING.format(name=name)]
    done = run_program(command, cwd=place, env=environment())
    assert (done.returncode, done.stderr) == (130, "paretolab: interrupted\n")
    assert not (place / "loading").exists()


def test_interrupted_before_anything_is_made(place):
    process = start("run", "long.yaml", "--no-plots", "--out", "early", cwd=place, env=ENV)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    if not (place / "early" / "journal.bin").exists():  # else it was quick
        # the latter code: Python itself started
        assert process.returncode in (130, -signal.SIGINT), said
        assert not (place / "early").exists()


def without_room(size):
    """Return what lets no file of a process that is started grow beyond so many bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.4, 0.7])
def test_full_disk(place, reference, share):
    """No file may grow beyond some bytes: the journal meets that in the midst of the run."""
    room = int(share * (place / "reference" / "journal.bin").stat().st_size)
    name, how = f"full at {room}", {"preexec_fn": without_room(room), "code": 2}
    done = call("run", "long.yaml", "--no-plots", "--out", name, cwd=place, env=ENV, **how)
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1].startswith("paretolab: ")
    assert re.search(f"make room and run `.*paretolab resume '{name}'`$", done.err.rstrip())
    assert 0 < batches_in(place / name) < GENERATIONS
    assert finish(place, name) == reference


@pytest.mark.slow
def test_full_disk_while_the_report_is_written(place):
    """Too little room for the plots; the run is told already."""
    write(place / "short.yaml", small())
    how = {"preexec_fn": without_room(100_000), "code": 2}
    done = call("run", "short.yaml", "--out", "no plots", cwd=place, env=ENV, **how)
    assert "Traceback" not in done.err
    assert re.search("make room and run `.*paretolab resume 'no plots'`$", done.err.rstrip())
    call("resume", "no plots", cwd=place, env=ENV, code=0)
    assert (place / "no plots" / "plots" / "test.png").stat().st_size > 100_000


def test_mlflow_that_cannot_be_reached(place):
    tracking = {"uri": "http://127.0.0.1:9", "experiment": "none"}
    write(place / "tracked.yaml", small(tracking=tracking))
    write(place / "untracked.yaml", small())
    done = call("run", "tracked.yaml", "--no-plots", "--out", "tracked", cwd=place, env=ENV, code=0)
    assert "Front: " in done.out
    assert "paretolab sync" in done.err
    assert "Traceback" not in done.err
    call("run", "untracked.yaml", "--no-plots", "--out", "untracked", cwd=place, env=ENV, code=0)
    fronts = [(place / name / "front.csv").read_bytes() for name in ("tracked", "untracked")]
    assert fronts[0] == fronts[1]


# --- Ray ------------------------------------------------------------------------------------


def ray_workers(process):
    """Return the processes of a driver's Ray actors."""
    return [
        child for child in psutil.Process(process.pid).children(recursive=True) if is_worker(child)
    ]


def is_worker(process):
    try:
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return process.name().startswith("ray::Worker") and not zombie
    except psutil.NoSuchProcess:
        return False


def started_on_ray(place, name, batches):
    """Start the run with two workers; return its process once it has so many batches."""
    words = ("run", "long.yaml", "--no-plots", "--out", name, "--workers", "2")
    process = start(*words, cwd=place, env=ENV)
    wait_for(process, place / name, batches)
    return process


@pytest.mark.slow
def test_ray_workers_killed_and_then_the_driver(place, reference):
    name = "on ray"
    process = started_on_ray(place, name, 3)
    actors = ray_workers(process)
    assert actors
    actors[0].kill()
    wait_for(process, place / name, 6)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, left = psutil.wait_procs(family, timeout=20)
    workers = [child for child in left if is_worker(child)]
    assert workers == []  # no worker outlives its driver
    assert finish(place, name, "--workers", "2") == reference


@pytest.mark.slow
@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
def test_a_server_of_ray_killed(place, reference, server):
    """Ray would end the process without a word, ten or sixty seconds later."""
    name = f"{server} killed"
    process = started_on_ray(place, name, 2)
    for child in psutil.Process(process.pid).children(recursive=True):
        if child.name() == server:
            child.kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("paretolab: Ray's process ")
    assert "go on with `paretolab resume`" in last
    assert '"status": "interrupted"' in (place / name / "summary.json").read_text()
    assert finish(place, name) == reference
