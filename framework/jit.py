"""Numba's ``njit`` behind a typed signature, with the settings that every kernel shares.

:mod:`framework.machine_code` says where the machine code is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.types.misc import unliteral
from numba.np.random.random_methods import random_interval

from framework.arrays import IntArray
from framework.machine_code import KernelCache

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F, **options: Any) -> F:
    """Return a function that is compiled on its first call, without Numba's wrapper for C."""
    kernel = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    kernel.get_call_template = partial(_call_of_any_value, kernel.get_call_template)
    if getattr(sys.modules.get(function.__module__), "__file__", None):
        kernel._cache = KernelCache(function)
    compiled: F = kernel
    return compiled


def _call_of_any_value(
    template: Callable[..., Any], args: Sequence[Any], kws: Mapping[str, Any]
) -> Any:
    """Return how a kernel is called by another: with a plain 0 as with any other whole number.

    Numba would compile it another time for each number that is written in a call.
    """
    return template(tuple(map(unliteral, args)), {k: unliteral(of) for k, of in kws.items()})


def njit(function: F) -> F:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Kernels release the GIL. Fast-math stays off: a result must not depend on the width of the
    vectors of the machine that runs it.
    """
    return _compiled(function)


@njit
def copy(values: Any, out: Any) -> None:
    """Copy a vector into ``out``, entry by entry.

    In a kernel, ``out[:] = values`` would also compile the message of an error about shapes, which
    takes seconds.
    """
    for i in range(len(out)):
        out[i] = values[i]


@njit
def permutation(n: int, rng: np.random.Generator) -> IntArray:
    """Return what ``rng.permutation(n)`` does: that takes four seconds to compile."""
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = np.int64(random_interval(rng.bit_generator, i))
        order[i], order[j] = order[j], order[i]
    return order


def njit_lean(function: F) -> F:
    """Compile as :func:`njit` does, for a function that neither creates nor copies an array.

    Without Numba's runtime, references to arrays are not counted, which otherwise costs a call
    whenever an array is taken out of a tuple. Short functions over a tuple of arrays are 5 to 40
    times faster.
    """
    return _compiled(function, _nrt=False)


def njit_inline(function: F) -> F:
    """Compile as :func:`njit_lean`, but inline into callers: passing a tuple of arrays is slow."""
    return _compiled(function, _nrt=False, forceinline=True)


def njit_sum(function: F) -> F:
    """Compile as :func:`njit` does, but let the compiler reorder sums so that they vectorise.

    Only for sums whose last bits affect no result. Two to three times faster.
    """
    return _compiled(function, fastmath={"reassoc", "nsz"})


def njit_ieee(function: F) -> F:
    """Compile as :func:`njit` does, but divide by zero as IEEE 754 says instead of raising.

    Loops with divisions then vectorise, which makes them ten times faster.
    """
    return _compiled(function, error_model="numpy")
