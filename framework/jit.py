"""Numba's ``njit`` behind a typed signature, with the settings that every kernel shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Kernels release the GIL. Fast-math stays off: a sum must not depend on the width of the
    vectors of the machine that runs it.
    """
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled
