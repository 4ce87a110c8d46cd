"""Numba's ``njit`` behind a typed signature, with the settings that every kernel shares.

:mod:`framework.machine_code` says where the machine code is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral
from numba.np.random.random_methods import random_interval

from framework.arrays import IntArray
from framework.machine_code import KernelCache

F = TypeVar("F", bound=Callable[..., Any])


class _Bitcode(JITCodeLibrary):  # type: ignore[misc]  # Numba has no types
    """A kernel for other kernels: the compiler optimises it and writes its code in theirs."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _ToBitcode(Compiler):  # type: ignore[misc]
    """Compile a kernel for other kernels."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, _Bitcode(target.codegen(), "bitcode"), *rest)
        self.state.flags.no_compile = self.state.flags.no_cpython_wrapper = True


class _Callee(CPUDispatcher):  # type: ignore[misc]
    """A kernel as other kernels call it."""

    def add_overload(self, result: Any) -> None:
        result = result._replace(entry_point=object())  # the key by which it is looked up
        self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled on its first call.

    Where other kernels call it, it is compiled as a part of them. Numba would also write machine
    code and an entry for Python for each kernel that another one calls, which takes a quarter of
    the time of a first search.

    Attributes
    ----------
    callee : numba.core.dispatcher.Dispatcher
        The kernel as other kernels call it.
    """

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals, targetoptions)
        self.callee = _Callee(py_func, locals, targetoptions, _ToBitcode)

    def get_call_template(self, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        """Return how a kernel is called by another: with a plain 0 as with any other whole number.

        Numba would compile it another time for each number that is written in a call.
        """
        plain = tuple(map(unliteral, args)), {name: unliteral(of) for name, of in kws.items()}
        return self.callee.get_call_template(*plain)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which a kernel finds the one that it calls."""
        return self.callee.get_overload(sig)

    def add_overload(self, result: Any) -> None:
        """Make machine code callable, with the constants of the kernels that it calls."""
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        super().add_overload(result)


def _compiled(function: F, **options: Any) -> F:
    """Return a function that is compiled on its first call, without Numba's wrapper for C."""
    options |= {"nopython": True, "nogil": True, "no_cfunc_wrapper": True}
    kernel = Kernel(function, targetoptions=options)
    if getattr(sys.modules.get(function.__module__), "__file__", None):
        kernel._cache = KernelCache(function)
    compiled: F = kernel
    return compiled


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
