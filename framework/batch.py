"""Evaluated candidates, columnar and read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray, are_finite, frozen
from framework.errors import ContractError


class Candidate(NamedTuple):
    """One evaluated candidate; ``error`` is None where the evaluation succeeded."""

    id: int
    x: Array
    values: Mapping[str, float]
    error: str | None


@dataclass(frozen=True)
class Evaluated:
    """A batch of evaluated candidates.

    Attributes
    ----------
    ids : numpy.ndarray of int64, shape (n,)
        Numbers of the candidates: 0, 1, 2, ... in the order in which they were proposed.
    X : numpy.ndarray, shape (n, d)
        Genomes.
    values : mapping of str to numpy.ndarray of float64, shape (n,)
        Metrics in natural sign and unit; NaN where an evaluation failed.
    errors : mapping of int to str
        Why evaluations failed, by id; candidates without an entry succeeded.
    """

    ids: IntArray
    X: Array
    values: Mapping[str, Array]
    errors: Mapping[int, str] = field(default_factory=dict)
    # metrics that were already checked for NaN
    _checked: Sequence[str] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = self.__dict__  # the quickest way to set attributes of a frozen class
        columns["ids"], columns["X"] = frozen(self.ids), frozen(self.X)
        columns["values"] = {name: frozen(column) for name, column in self.values.items()}

    @classmethod
    def of_table(
        cls,
        ids: IntArray,
        X: Array,
        metrics: tuple[str, ...],
        table: FloatArray,
        errors: Mapping[int, str],
    ) -> Evaluated:
        """Return evaluations from a table (metrics, n) that has NaN only for failed candidates."""
        table = frozen(table)
        rows = cls(ids, X, dict(zip(metrics, table, strict=True)), errors)
        rows.__dict__["_checked"] = metrics
        return rows

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Candidate]:
        for i, id in enumerate(self.ids.tolist()):
            values = {name: float(column[i]) for name, column in self.values.items()}
            yield Candidate(id, self.X[i], values, self.errors.get(id))

    @property
    def ok(self) -> BoolArray:
        """Whether each evaluation succeeded, shape (n,)."""
        mask = np.ones(len(self), dtype=bool)
        if self.errors:
            mask[np.isin(self.ids, list(self.errors))] = False
        return mask

    def take(self, rows: Array) -> Evaluated:
        """Return the evaluations at some positions, or where a mask is true."""
        ids = self.ids[rows]
        chosen = set(ids.tolist()) if self.errors else set()
        return Evaluated(
            ids,
            self.X[rows],
            {name: column[rows] for name, column in self.values.items()},
            {id: error for id, error in self.errors.items() if id in chosen},
        )

    def counts_from(self, first: int, n: int) -> bool:
        """Return whether the ids are ``first``, ``first + 1``, ..., ``first + n - 1``."""
        ids = self.ids
        if len(ids) != n or (n and ids[0] != first):
            return False
        return n < 2 or bool((ids[1:] - ids[:-1] == 1).all())

    def check_answers(self, first: int, X: Array, metrics: Sequence[str], place: str) -> None:
        """Check that these are the complete evaluations of a batch that was proposed.

        Parameters
        ----------
        first : int
            Id of the first candidate of the batch.
        X : numpy.ndarray, shape (n, d)
            Genomes of the batch.
        metrics : sequence of str
            Metrics that every candidate must have; finite unless its evaluation failed.
        place : str
            Name of the receiver, for the message.

        Raises
        ------
        ContractError
            Candidates are unknown, missing or in another order, genomes differ, or a metric is
            missing.
        """
        if not self.counts_from(first, len(X)):
            raise ContractError(
                f"{place}: expected the rows {first}..{first + len(X) - 1} in order, found "
                f"{len(self)} rows {self.ids[:3].tolist()}..."
            )
        self.check_values(X, metrics, place)

    def check_values(self, X: Array, metrics: Sequence[str], place: str) -> None:
        """Check that these are evaluations of genomes ``X``, shape (n, d), with every metric.

        Raises
        ------
        ContractError
            Genomes differ, or a metric is missing.
        """
        if self.X is not X and not np.array_equal(self.X, X):
            raise ContractError(f"{place}: expected the genomes that were asked for, found others")
        if metrics == self._checked:
            return
        ok = self.ok if self.errors else slice(None)
        for name in metrics:
            if name not in self.values or self.values[name].shape != (len(X),):
                raise ContractError(f"{place}: expected metric {name!r} with shape ({len(X)},)")
            if not are_finite(self.values[name][ok]):
                raise ContractError(f"{place}: expected finite {name!r} outside failed rows")
        self.__dict__["_checked"] = metrics

    @staticmethod
    def concat(pieces: Sequence[Evaluated]) -> Evaluated:
        """Join pieces into one batch, in the order of the ids."""
        ids = np.concatenate([piece.ids for piece in pieces])
        ascending = (ids[1:] > ids[:-1]).all()
        if len(pieces) == 1 and ascending:
            return pieces[0]
        X = np.concatenate([piece.X for piece in pieces])
        values = {
            name: np.concatenate([piece.values[name] for piece in pieces])
            for name in pieces[0].values
        }
        errors: dict[int, str] = {}
        for piece in pieces:
            errors.update(piece.errors)
        if not ascending:
            order = np.argsort(ids, kind="stable")
            ids, X = ids[order], X[order]
            values = {name: column[order] for name, column in values.items()}
        return Evaluated(ids, X, values, errors)
