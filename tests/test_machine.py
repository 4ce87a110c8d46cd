"""Which failures are the machine's and say nothing about the work; work in its threads."""

import errno
import os
import resource
import signal
import sqlite3
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

from framework.errors import ClusterError, EnvironmentFailure, InputError, JournalError
from framework.journal import Journal
from framework.machine import cache_dir, in_threads, is_machine_failure, no_result, thread_count


def _journal_error(path: str) -> tuple[bool, str]:
    """Make a journal where no file may have more than 20 kB; tell what comes of it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        Journal(path, {"key": "x" * 100_000}, metrics=("f",), d=1, dtype="f8")  # type: ignore[arg-type]
    except JournalError as error:
        return is_machine_failure(error), str(error)
    return False, "nothing was raised"


def test_a_journal_without_room_is_the_machines(tmp_path: Path) -> None:
    with get_context("spawn").Pool(1) as pool:  # the limit is for the rest of the process
        found, text = pool.apply(_journal_error, (str(tmp_path / "journal.bin"),))
    assert found, text


def test_a_journal_that_cannot_be_made_is_the_machines(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as raised:
        Journal(tmp_path / "nowhere" / "journal.bin", {}, metrics=("f",), d=1)
    assert is_machine_failure(raised.value)


def test_what_is_and_what_is_not() -> None:
    for error in (
        ModuleNotFoundError("xgboost"),
        OSError(errno.ENOSPC, "No space left on device"),
        EnvironmentFailure("full"),
    ):
        assert is_machine_failure(error)
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect(":memory:").execute("nonsense")
    for other in (raised.value, ValueError("database or disk is full"), InputError("no"), None):
        assert not is_machine_failure(other)
    assert no_result(ClusterError("lost"))


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PARETOLAB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "")
    assert cache_dir() is None
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_dir() == Path("/home/someone/.cache/paretolab")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_parts_are_in_order_and_none_is_left_out(monkeypatch, threads, n):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    parts = in_threads(lambda part: list(range(n)[part]), n)
    assert [i for part in parts for i in part] == list(range(n))
    assert len(parts) >= min(threads, n)


def test_several_threads_work_at_a_time(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    meeting = threading.Barrier(3, timeout=60)
    in_threads(lambda part: meeting.wait(), 3)


def test_an_error_ends_the_work(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda part: 1 // part.start, 100)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    wanted = in_threads(lambda part: (part.start, part.stop), 100)
    child = os.fork()
    if child == 0:  # with its parent's threads it would wait for ever
        os._exit(0 if in_threads(lambda part: (part.start, part.stop), 100) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("text", ["", "0", "-1", "many"])
def test_without_a_number_there_is_a_thread_for_each_core(monkeypatch, text):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert thread_count() == 1
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT")
    assert 1 <= thread_count() <= (os.cpu_count() or 1)
