"""Work on several cores within this process: kernels do not hold Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_PARTS = 8  # for each thread, so that no thread waits long for the last one


def thread_count() -> int:
    """Return how many threads this process may use.

    It is ``OMP_NUM_THREADS``, as for the libraries that Python calls: Ray sets it to the cores of a
    worker. Without it, it is the number of cores that this process may use.
    """
    text = os.environ.get("OMP_NUM_THREADS", "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    from joblib import cpu_count

    return int(cpu_count())


def in_threads(work: Callable[[slice], T], n: int) -> list[T]:
    """Return what ``work`` returns for consecutive parts of ``n`` items, in their order.

    Parameters
    ----------
    work : callable
        Calls a kernel on the items of a slice. What it returns for an item, or writes, depends on
        this item alone, since parts are of any length.
    n : int
        Number of items.
    """
    threads = min(thread_count(), n)
    if threads < 2:
        return [work(slice(0, n))]
    size = -(-n // (_PARTS * threads))
    parts = [slice(start, start + size) for start in range(0, n, size)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
