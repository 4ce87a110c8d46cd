"""Models that are functions, for example behind a network, where calls are slow and may fail."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from framework.arrays import Array, FloatArray
from framework.errors import InputError


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
        Greatest number of calls at the same time.

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
            if not value >= least:
                raise InputError(f"{name}: expected at least {least:g}, found {value!r}")
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if isinstance(X, pd.DataFrame):  # the function then gets frames, too
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities (n, C); NaN for the records whose calls all failed."""
        count = len(X)
        if not hasattr(self, "classes_"):
            self.fit(X, np.zeros(0))
        starts = range(0, count, self.batch)
        pieces = [rows_of(X, slice(start, start + self.batch)) for start in starts]
        if not pieces:
            return np.zeros((0, len(self.classes_)))
        parts: list[FloatArray] = []
        # in a separate thread: the caller may have a running event loop, as a notebook has
        worker = threading.Thread(target=lambda: parts.extend(asyncio.run(self._all(pieces))))
        worker.start()
        worker.join()
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

    async def _all(self, pieces: Sequence[Any]) -> list[FloatArray]:
        gate = asyncio.Semaphore(self.at_once)
        return list(await asyncio.gather(*(self._one(gate, piece) for piece in pieces)))

    async def _one(self, gate: asyncio.Semaphore, piece: Any) -> FloatArray:
        shape = len(piece), len(self.classes_)
        async with gate:
            for _ in range(1 + self.retries):
                try:
                    answer = await asyncio.wait_for(self._answer(piece), self.timeout)
                    probabilities = np.asarray(answer, dtype=np.float64)
                except Exception:  # whatever a call raises, it is repeated
                    continue
                if (
                    probabilities.shape == shape
                    and ((probabilities >= 0) & (probabilities <= 1)).all()
                ):
                    return probabilities
        return np.full(shape, np.nan)

    async def _answer(self, piece: Any) -> Any:
        if inspect.iscoroutinefunction(self.call):
            return await self.call(piece)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # after a timeout the thread goes on

        def work() -> None:
            try:
                future.set_result(self.call(piece))
            except Exception as error:
                future.set_exception(error)

        # not asyncio.to_thread: a loop waits for its threads at its end, but not for a daemon
        threading.Thread(target=work, daemon=True).start()
        return await asyncio.wrap_future(future)


def called(model: Any) -> Any:
    """Wrap a bare function as a model; return anything else unchanged."""
    return CalledModel(model) if callable(model) and not hasattr(model, "fit") else model


def rows_of(X: Any, rows: slice | Array) -> Any:
    """Return some of the records of a frame or an array."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
