"""Numba's ``njit`` behind a typed signature, with the settings that every kernel shares.

Machine code is kept beside the source. Packages that travel to a node lie in a folder of Ray's
session, which is another one each time: theirs is kept in the cache of the node's user, by the
content of all that travelled, so that a node compiles once for each version and processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.caching import CacheImpl, InTreeCacheLocator

from framework.machine import cache_dir

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
"""Of all kernels. None is called by a library in C, for which Numba would compile it again."""

SHIPPED = "PARETOLAB_SHIPPED"
"""Variable of a worker: the digest of the packages that travelled there, and their names."""


class ShippedKernels(InTreeCacheLocator):  # type: ignore[misc]  # Numba has no types
    """Where Numba keeps the machine code of packages that travelled: see the module."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        digest = os.environ[SHIPPED].split()[0]
        self._cache_path = os.path.join(str(cache_dir()), "kernels", digest, function.__module__)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        """Return a locator for a function of these packages, or None for others."""
        package = function.__module__.partition(".")[0]
        if cache_dir() is None or package not in os.environ.get(SHIPPED, "").split()[1:]:
            return None
        return super().from_function(function, file)  # None where the folder cannot be written


if SHIPPED in os.environ:
    CacheImpl._locator_classes.insert(0, ShippedKernels)


def njit(function: F) -> F:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Kernels release the GIL. Fast-math stays off: a result must not depend on the width of the
    vectors of the machine that runs it.
    """
    compiled: F = numba.njit(**OPTIONS)(function)
    return compiled


@njit
def copy(values: Any, out: Any) -> None:
    """Copy a vector into ``out``, entry by entry.

    In a kernel, ``out[:] = values`` would bring the sentence of an error on shapes along, which
    takes seconds to compile.
    """
    for i in range(len(out)):
        out[i] = values[i]


def njit_lean(function: F) -> F:
    """Compile as :func:`njit` does, for a function that makes no array, nor a copy of one.

    Without Numba's runtime, the references to arrays are not counted, which otherwise costs a call
    each time that one is taken out of a tuple. Short functions over a tuple of arrays are 5 to 40
    times faster.
    """
    compiled: F = numba.njit(**OPTIONS, _nrt=False)(function)
    return compiled


def njit_sum(function: F) -> F:
    """Compile as :func:`njit` does, but let the compiler reorder sums so that they vectorise.

    For sums whose last bits decide nothing: two to three times faster.
    """
    compiled: F = numba.njit(**OPTIONS, fastmath={"reassoc", "nsz"})(function)
    return compiled


def njit_ieee(function: F) -> F:
    """Compile as :func:`njit` does, but divide by zero as IEEE 754 says instead of raising.

    Loops that divide then vectorise: ten times faster.
    """
    compiled: F = numba.njit(**OPTIONS, error_model="numpy")(function)
    return compiled
