"""Models that are functions, for example behind a network, where calls are slow and may fail."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.libraries.checks import probabilities_of
from framework.machine import reason_of


class CalledModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is a function, called with a timeout and retries.

    A record whose calls all fail has NaN as probabilities: a cascade asks the next model about it.

    Parameters
    ----------
    call : callable or async function
        Takes records, (n, d), in the form they were passed in, and returns their probabilities
        (n, C).
    classes : sequence, optional
        Labels in the order of the probabilities; those of ``fit``, ascending, if None.
    timeout : float
        Seconds for one call. A function that is not async runs on in its thread after that, and
        its result is dropped.
    retries : int
        How often a call is repeated that failed or took too long.
    batch : int
        Greatest number of records in one call.
    at_once : int
        Greatest number of calls that are waited for at the same time; a function that is not async
        and took too long runs on beside them.

    Attributes
    ----------
    classes_ : (C,)
    """

    def __init__(
        self,
        call: Callable[[Any], Any],
        classes: Sequence[Any] | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 1,
        batch: int = 32,
        at_once: int = 8,
    ) -> None:
        self.call = call
        self.classes = classes
        self.timeout = timeout
        self.retries = retries
        self.batch = batch
        self.at_once = at_once

    def fit(self, X: Any, y: Array) -> CalledModel:
        """Check the parameters and store the classes; the function is not called."""
        for name, value, least in (
            ("timeout", self.timeout, 1e-9),
            ("retries", self.retries, 0),
            ("batch", self.batch, 1),
            ("at_once", self.at_once, 1),
        ):
            whole = name != "timeout"
            number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
            if not number or not value >= least:
                kind = "a whole number of at least" if whole else "seconds, at least"
                raise InputError(f"{name}: expected {kind} {least:g}, found {value!r}")
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if isinstance(X, pd.DataFrame):  # the function then gets frames, too
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities (n, C); NaN for the records whose calls all failed."""
        return self._probabilities(X, complete=False)

    def complete_proba(self, X: Any) -> FloatArray:
        """Return probabilities (n, C), for a fit, which cannot do without any.

        Raises
        ------
        ValueError
            All calls for a record failed; those that were not made yet are not made.
        """
        return self._probabilities(X, complete=True)

    def _probabilities(self, X: Any, *, complete: bool) -> FloatArray:
        count = len(X)
        if not hasattr(self, "classes_"):
            self.fit(X, np.zeros(0))
        starts = range(0, count, self.batch)
        pieces = [rows_of(X, slice(start, start + self.batch)) for start in starts]
        if not pieces:
            return np.zeros((0, len(self.classes_)))
        # in a separate thread: the caller may have a running event loop, as a notebook has
        parts = _begun(lambda: asyncio.run(self._all(pieces, complete))).result()
        return np.concatenate(parts)

    def predict(self, X: Any) -> Array:
        """Return the likeliest class (n,).

        Raises
        ------
        InputError
            All calls for a record failed.
        """
        probabilities = self.predict_proba(X)
        failed = int(np.isnan(probabilities).any(axis=1).sum())
        if failed:
            raise InputError(
                f"model: expected answers to {len(probabilities)} records, {failed} failed"
            )
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    async def _all(self, pieces: Sequence[Any], complete: bool) -> list[FloatArray]:
        gate = asyncio.Semaphore(self.at_once)
        return list(await asyncio.gather(*(self._one(gate, piece, complete) for piece in pieces)))

    async def _one(self, gate: asyncio.Semaphore, piece: Any, complete: bool) -> FloatArray:
        shape, reason = (len(piece), len(self.classes_)), ""
        async with gate:
            for _ in range(1 + self.retries):
                try:
                    answer = await asyncio.wait_for(self._answer(piece), self.timeout)
                    return probabilities_of(answer, shape)
                except (Exception, asyncio.CancelledError) as error:  # it is repeated
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():  # since another call has failed
                        raise
                    late = isinstance(error, TimeoutError) and not str(error)
                    reason = f"no answer in {self.timeout:g} s" if late else reason_of(error)
        if complete:
            times = f"{1 + self.retries} times, at last" if self.retries else "once,"
            raise ValueError(f"a call failed {times} by: {reason}")
        return np.full(shape, np.nan)

    async def _answer(self, piece: Any) -> Any:
        if inspect.iscoroutinefunction(self.call):
            return await self.call(piece)
        answer = await asyncio.wrap_future(_begun(lambda: self.call(piece)))
        return await answer if inspect.isawaitable(answer) else answer


def _begun(function: Callable[[], Any]) -> Future[Any]:
    """Start a function in a thread that nobody has to wait for, as a loop does for its own."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # after a timeout the thread goes on

    def work() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # such as SystemExit: only the call ends
            future.set_exception(RuntimeError(repr(error)))

    threading.Thread(target=work, daemon=True).start()
    return future


def called(model: Any) -> Any:
    """Wrap a bare function as a model; return anything else unchanged."""
    return CalledModel(model) if callable(model) and not hasattr(model, "fit") else model


def rows_of(X: Any, rows: slice | Array) -> Any:
    """Return some of the records of a frame or an array."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
