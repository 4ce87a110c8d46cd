"""Many independent tasks, here and on Ray."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from framework.errors import ClusterError
from framework.parallel import executor as module
from framework.parallel.executor import Executor
from tests.ray_toys import hunted


def add(shared, number):
    """Return a sum; refuse odd numbers."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return shared + number


def flaky(folder, number):
    """Fail at the first attempt at 2, as a machine may."""
    mark = Path(folder, str(number))
    if number == 2 and not mark.exists():
        mark.touch()
        raise OSError("once")
    return number


def deadly(shared, number):
    """Kill the worker at 1."""
    if number == 1:
        os._exit(1)
    return shared["base"] + number


def pairs(ended):
    return [(one.key, one.answer, one.error and str(one.error)) for one in ended]


def test_here_tasks_end_in_order_and_errors_are_kept():
    with Executor(add, workers="serial") as executor:
        found = pairs(executor.run([0, 1, 2], lambda key: (10, key)))
    assert found == [(0, 10, None), (1, None, "1 is odd"), (2, 12, None)]
    assert not executor.incidents()


def test_what_failed_is_tried_again_after_all_others(tmp_path):
    with Executor(flaky, workers="serial") as executor:
        found = [
            (one.key, one.answer, one.again)
            for one in executor.run([2, 4, 6], lambda key: (tmp_path, key), attempts=2)
        ]
    assert found == [(2, None, True), (4, 4, False), (6, 6, False), (2, 2, False)]


def test_a_task_that_cannot_be_prepared_has_failed_alone():
    prepared = []

    def prepare(key):
        prepared.append(key)
        if key == 2:
            raise ValueError("no data")
        return 0, key

    with Executor(add, workers="serial") as executor:
        tasks = executor.run([0, 2, 4], prepare)
        assert next(tasks).key == 0
        assert prepared == [0]  # one at a time, as they are run
        assert pairs(tasks) == [(2, None, "no data"), (4, 4, None)]


def test_tasks_are_chosen_by_the_results_of_others():
    with Executor(add, workers="serial") as executor:
        executor.submit("a", 0, 2)
        executor.submit("b", 5, 4)
        assert executor.collect().answer == 2
        executor.submit("c", 1, 6)
        assert [executor.collect().answer for _ in range(2)] == [9, 7]
        assert executor.seconds_left(3) >= 0


def nap(shared, number):
    time.sleep(0.05)
    return os.getpid()


@pytest.mark.slow
def test_long_task_moves_to_ray_when_that_pays(monkeypatch):
    monkeypatch.setattr(module, "_TRIED_SECONDS", 0.1)
    monkeypatch.setattr(module, "ray_pays", lambda workers, left: workers == "auto" and left > 0.1)
    told = []
    with Executor(nap, workers="auto", started=told.append) as executor:
        ended = list(executor.run(range(8), lambda key: (None, key)))
    assert sorted(one.key for one in ended) == list(range(8))
    here = [one.key for one in ended if one.answer == os.getpid()]
    assert 2 <= len(here) <= 4  # the first ones
    assert len(told) == 1
    assert "Ray" in told[0]


@pytest.mark.slow
def test_a_task_whose_workers_are_killed_by_others_is_done_all_the_same():
    with Executor(hunted, workers=2) as executor:
        ended = {one.key: one for one in executor.run(range(5), lambda key: (os.getpid(), key))}
        assert executor.incidents()["workers_lost"] >= 3
    assert {key: (one.answer, one.error) for key, one in ended.items()} == {
        key: (key**2, None) for key in range(5)
    }


@pytest.mark.slow
def test_a_task_that_kills_its_workers_fails_alone():
    with Executor(deadly, workers=2) as executor:
        shared = {"base": 100}
        ended = {one.key: one for one in executor.run(range(6), lambda key: (shared, key))}
    assert isinstance(ended.pop(1).error, ClusterError)
    assert {key: one.answer for key, one in ended.items()} == {k: 100 + k for k in (0, 2, 3, 4, 5)}
    assert executor.incidents()["workers_lost"] >= 3
