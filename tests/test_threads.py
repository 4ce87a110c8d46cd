"""Work in threads: what it returns, and how many threads there are."""

from __future__ import annotations

import os
import threading

import pytest

from framework.machine import in_threads, thread_count


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


@pytest.mark.parametrize("text", ["", "0", "-1", "many"])
def test_without_a_number_there_is_a_thread_for_each_core(monkeypatch, text):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert thread_count() == 1
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT")
    assert 1 <= thread_count() <= (os.cpu_count() or 1)
