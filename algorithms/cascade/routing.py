"""What a router says of the records of a table of calls: where to begin, before a model is asked.

A router tells of a record how probable it is that a model is right about it. A cascade that begins
with a cheap model leaves it out for records that score too low: they begin with the next one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pydantic import Field

from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.libraries.calls import CallTable, whole_cost
from framework.settings import Section

_DIGITS = 6  # of a score that tell routers apart


class RouterConfig(Section):
    """A router before the first model: a logistic regression of where each model is right.

    cost : what a score costs, as the first cost counts.
    columns : of a table of calls: what the router reads, numbers as they are and texts by TF-IDF.
        None for a library that is built here, whose features it reads.
    folds : a record is scored by a router that was fitted on the other folds.
    seed : of the folds.
    """

    cost: float = Field(ge=0)
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    folds: int = Field(default=5, ge=2)
    seed: int = Field(default=0, ge=0)


class Routing(NamedTuple):
    """What a router says of the records of a table, and what that costs.

    Attributes
    ----------
    scores : mapping of str to numpy.ndarray of float64, shape (N,)
        By model: of a router that was not fitted on the record.
    costs : mapping of str to float
        Of one score, by the name of the cost; 0 where there is none.
    test : mapping of str to numpy.ndarray of float64, shape (M,), or None
        The same of test records, by a router fitted on all others.
    """

    scores: Mapping[str, FloatArray]
    costs: Mapping[str, float]
    test: Mapping[str, FloatArray] | None = None


class Routes(NamedTuple):
    """A router's scores as levels, as genes name them; models in the order of the table.

    Attributes
    ----------
    ids : tuple of str
    cuts : tuple of numpy.ndarray of float64
        The different scores of each model on the tuning records, ascending.
    scores : mapping of str to numpy.ndarray of float64
    test : mapping of str to numpy.ndarray of float64, or None
    costs : list of int
        Of one score, in 1e-9, by cost of the table.
    """

    ids: tuple[str, ...]
    cuts: tuple[FloatArray, ...]
    scores: Mapping[str, FloatArray]
    test: Mapping[str, FloatArray] | None
    costs: list[int]

    @classmethod
    def of(cls, routing: Routing, table: CallTable, costs: Sequence[str], answer: str) -> Routes:
        """Return the levels of a router's scores of the records of a table.

        Raises
        ------
        InputError
            An answer rule that needs all models before, scores that do not fit or are NaN.
        """
        if answer != "own":
            raise InputError(
                f"router: expected with answer: own, found {answer}; what was asked before differs "
                "from record to record, so a stage has no one state"
            )
        for name in table.ids:
            found = routing.scores.get(name)
            if found is None or found.shape != (table.n,) or np.isnan(found).any():
                raise InputError(
                    f"router: expected a score of {name!r} for each of {table.n} records, found "
                    f"{'none' if found is None else found.shape} or NaN"
                )
        cuts = tuple(np.unique(routing.scores[name]) for name in table.ids)
        scored = len(table.ids) * table.n
        each = [whole_cost(routing.costs.get(name, 0.0), scored, "router.cost") for name in costs]
        return cls(table.ids, cuts, routing.scores, routing.test, each)

    def levels(self, tuning: bool) -> IntArray:
        """Return how many of a model's cuts each record reaches, shape (K, N)."""
        known = self.scores if tuning else self.test
        if known is None:
            raise InputError("router: expected its scores of the test records, found none")
        return np.stack(
            [
                np.searchsorted(cuts, known[name], side="right").astype(np.int64)
                for name, cuts in zip(self.ids, self.cuts, strict=True)
            ]
        )

    def stacked(self) -> FloatArray:
        """Return the scores of the tuning records, shape (K, N)."""
        return np.stack([self.scores[name] for name in self.ids])

    def digest(self) -> str:
        """Return a digest of the scores and costs."""
        known = hashlib.sha256(json.dumps([self.ids, self.costs]).encode())
        for part in (self.scores, self.test or {}):
            for name in self.ids:
                scores = np.round(part.get(name, np.zeros(0)), _DIGITS)  # fitted anew elsewhere
                known.update(np.ascontiguousarray(scores).tobytes())
        return known.hexdigest()
