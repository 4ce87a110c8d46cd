"""A Ray that dies while this process waits for it: a sentence, whatever Ray makes of it."""

from __future__ import annotations

import threading
import time

import pytest

from framework.errors import ClusterError
from framework.parallel.guard import guarded, heeding_signals


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("framework.parallel.guard._EVERY", 0.01)


def test_a_death_ends_a_wait(quick):
    with pytest.raises(ClusterError, match=r"^it died; what was told is kept"), guarded(died):
        time.sleep(20)


def test_a_death_ends_a_question_that_hangs(quick):
    """Ray's compiled code hears no signal, so another thread is left waiting in it."""
    never = threading.Event()
    with pytest.raises(ClusterError, match=r"^it died"), guarded(died):
        heeding_signals(never.wait)
    never.set()


def test_what_ray_makes_of_the_signal_is_said_as_what_it_is(quick):
    def compiled():
        try:
            time.sleep(20)
        except ClusterError as error:
            raise SystemError("returned a result with an exception set") from error

    with pytest.raises(ClusterError, match=r"^it died"), guarded(died):
        compiled()


def test_other_errors_stay_what_they_are(quick):
    with pytest.raises(SystemError, match="another"), guarded(lambda: ""):
        raise SystemError("another")
    with pytest.raises(ValueError, match="none of ours"), guarded(lambda: ""):
        heeding_signals(int_of_nothing)
    with guarded(lambda: ""):
        assert heeding_signals(lambda: 7) == 7


def died() -> str:
    return "it died"


def int_of_nothing() -> int:
    raise ValueError("none of ours")
