"""Tuning the baselines as a problem: a candidate is one cell of their grids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from algorithms.multistage.baselines.grids import (
    METHODS,
    Cell,
    MethodName,
    cells_of,
    estimator_of,
)
from algorithms.multistage.baselines.measure import Measured, measure
from algorithms.multistage.source import Source
from framework.arrays import Array, FloatArray
from framework.data.costs import CostsConfig, feature_costs
from framework.data.datasets import DatasetConfig, load_table
from framework.data.splits import SplitConfig, split_records
from framework.errors import InputError
from framework.problem import Deployable, Problem
from framework.roles import Metric
from framework.settings import Section
from framework.space import Integers
from framework.streams import CandidateStreams

FORMAT = 2  # raise it when a baseline's fits or the grids change


class Records(NamedTuple):
    """Records (n, d) and their labels (n,)."""

    X: pd.DataFrame
    y: Array


class RivalConfig(Section):
    """The ``problem`` section of kind ``rivals``; all keys but ``methods`` as of ``multistage``.

    methods : whose grids to search; all of them unless given.
    """

    dataset: DatasetConfig
    split: SplitConfig = SplitConfig.model_validate({})
    costs: CostsConfig | None = None
    threshold: float | dict[str | int | float | bool, float] = 0.75
    methods: list[MethodName] = Field(list(METHODS), min_length=1)


class RivalProblem(Problem, Deployable):
    """Coverage, accuracy and cost of fitted budgeted classifiers, over the grids they are tuned on.

    A genome is one gene, the number of a cell: a baseline with one choice of its parameters. It is
    fitted on the training records and measured on the validation records. ``grid`` searches every
    cell, and finds the front of all that baselines can do; ``tuned`` returns the one cell that
    a user who tunes a baseline would take.

    Usually made by :meth:`from_config`.

    Parameters
    ----------
    training, validation, test : Records
        ``test`` may be empty.
    costs : float64 (d,)
    threshold : float or mapping of class label to float
    cells : sequence of Cell
        At least one.
    source : Source
        Where the records come from.
    """

    known_metrics = (
        Metric("coverage", "max", text="share of records that get an answer"),
        Metric("accuracy", "max", text="share of the answers that are right"),
        Metric("cost", "min", "ratio", text="mean acquisition cost a record"),
        Metric("aggregate", "max", high=3.0, text="coverage + accuracy + 1 - cost / all costs"),
        Metric("plain_accuracy", "max", text="accuracy, were every record answered"),
        Metric("plain_aggregate", "max", high=2.0, text="plain_accuracy + 1 - cost / all costs"),
    )

    def __init__(
        self,
        training: Records,
        validation: Records,
        test: Records,
        *,
        costs: FloatArray,
        threshold: float | Mapping[Any, float],
        cells: Sequence[Cell],
        source: Source,
    ) -> None:
        self.training, self.validation, self.test = training, validation, test
        self.costs, self.threshold, self.cells = np.asarray(costs), threshold, list(cells)
        self.space: Integers = Integers(np.zeros(1), np.full(1, len(cells) - 1))
        high = float(self.costs.sum())
        self.metrics = tuple(
            m._replace(high=high) if m.name == "cost" else m for m in self.known_metrics
        )
        limits = threshold if isinstance(threshold, float) else sorted(map(str, threshold.items()))
        content = [FORMAT, source.fingerprint, self.costs.tolist(), limits, self.cells]
        self.fingerprint = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        self._about_data, self._example = dict(source.description), dict(source.example)
        self._known: dict[int, Measured] = {}

    Config = RivalConfig

    @classmethod
    def from_config(cls, config: RivalConfig) -> RivalProblem:
        """Load and split the data.

        Raises
        ------
        InputError
            Whatever is wrong with data, costs or the other keys.
        """
        from algorithms.multistage.setup import class_thresholds, source_of

        table = load_table(config.dataset)
        split = split_records(table.labels, config.split)
        classes = np.array(table.classes)
        training, validation, test = (
            Records(table.features.iloc[part], classes[table.labels[part]]) for part in split
        )
        names = [str(name) for name in table.features.columns]
        if config.costs is not None and config.costs.groups:
            raise InputError(
                "problem.costs.groups: rivals pay for each feature alone, found groups; leave them "
                "out, or search with problem multistage"
            )
        costs = feature_costs(
            config.costs, names, training.X, table.labels[split.train], left_out=table.left_out
        )
        thresholds = class_thresholds(config.threshold, table).tolist()
        return cls(
            training,
            validation,
            test,
            costs=costs,
            threshold=dict(zip(classes.tolist(), thresholds, strict=True)),
            cells=cells_of(config.methods),
            source=source_of(table, config.split, split),
        )

    @property
    def gene_names(self) -> tuple[str, ...]:
        return ("cell",)

    def tables(self) -> RivalProblem:
        """Return what ``tuned`` reads: the problem itself."""
        return self

    def describe(self) -> Mapping[str, Any]:
        return self._about_data

    def example(self) -> Mapping[str, list[Any]]:
        return self._example

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}  # workers measure for themselves

    def evaluate(self, X: Array, streams: CandidateStreams | None = None) -> Mapping[str, Array]:
        return _columns([self._measured(int(cell)) for cell in X[:, 0]])

    def evaluate_test(
        self, X: Array, streams: CandidateStreams | None = None
    ) -> Mapping[str, Array] | None:
        if not len(self.test.y):
            return None
        fitted = [self._fitted(self.cells[int(cell)]) for cell in X[:, 0]]
        return _columns([measure(one, *self.test) for one in fitted])

    def decode(self, x: Array) -> Any:
        """Return the fitted baseline of a cell, with the label ``inconclusive`` for rejects."""
        from algorithms.multistage.setup import INCONCLUSIVE

        return self._fitted(self.cells[int(x[0])], reject_label=INCONCLUSIVE)

    def _measured(self, number: int) -> Measured:
        """Return what a cell is worth on validation records; fitted once a process."""
        if number not in self._known:
            self._known[number] = measure(self._fitted(self.cells[number]), *self.validation)
        return self._known[number]

    def _fitted(self, cell: Cell, **common: Any) -> Any:
        estimator = estimator_of(cell, costs=self.costs, threshold=self.threshold, **common)
        return estimator.fit(*self.training)


def _columns(rows: Sequence[Measured]) -> dict[str, FloatArray]:
    """Return measurements column by column."""
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(Measured._fields))
    return dict(zip(Measured._fields, table.T.copy(), strict=True))
