"""Tunes the baselines: their grids, one measure for all of them, the problem, and the search.

A candidate of the problem is one point of the grids. The search :class:`Tuned` tries every point
and returns the best one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from algorithms.general.baselines import GridSearch
from algorithms.multistage.config import DataConfig, Label, RecordsConfig
from algorithms.multistage.data import INCONCLUSIVE, class_thresholds, source_of
from algorithms.multistage.papers.budgeted import CostOrdered, SingleStage
from algorithms.multistage.papers.cact_lasso import CaCTLasso
from algorithms.multistage.papers.cegb import CEGB
from algorithms.multistage.papers.cstc import CSTC
from algorithms.multistage.papers.greedy_miser import GreedyMiser
from algorithms.multistage.records import Source
from framework.algorithm import Outcome
from framework.arrays import Array, FloatArray, digest_of
from framework.batch import Evaluated
from framework.data.costs import feature_costs
from framework.data.datasets import load_table
from framework.data.divisions import divide
from framework.errors import InputError
from framework.problem import Deployable, Problem
from framework.roles import Metric, Roles
from framework.space import Integers
from framework.streams import CandidateStreams

FORMAT = 2  # raise it when a baseline's fits or the grids change
MethodName = Literal["single_stage", "cost_ordered", "cact_lasso", "greedy_miser", "cstc", "cegb"]
Criterion = Literal["aggregate", "plain_aggregate", "asking_aggregate"]
"""What tuning maximises: a metric, or the aggregate among points that acquire a feature and answer
a record (all others are worth less than these)."""


class Method(NamedTuple):
    """A baseline and how it is tuned.

    estimator : class
    grid : the values of each tuned parameter; all combinations are tried.
    tuned_by : what is maximised on validation records. The paper says so for CaCT LASSO only;
        GreedyMiser and CSTC "are not optimized with respect to coverage". Accuracy without
        rejection and cost therefore choose their parameters, and those of CEGB, as in their papers.
    """

    estimator: type[Any]
    grid: Mapping[str, Sequence[Any]]
    tuned_by: Criterion = "aggregate"


class GridPoint(NamedTuple):
    """A baseline with one choice of its tuned parameters."""

    method: MethodName
    parameters: Mapping[str, Any]


def _geometric(least: float, greatest: float, count: int) -> list[float]:
    """Return 0 and ``count`` values at equal ratios, rounded to three digits."""
    return [0.0, *(float(f"{value:.3g}") for value in np.geomspace(least, greatest, count))]


METHODS: dict[MethodName, Method] = {
    "single_stage": Method(SingleStage, {}),
    "cost_ordered": Method(CostOrdered, {}),
    # the paper's grid: 0, 0.1, ..., 100
    "cact_lasso": Method(CaCTLasso, {"penalty": [tenths / 10 for tenths in range(1001)]}),
    # "grid search on a large discretized set", which the paper does not give
    "greedy_miser": Method(
        GreedyMiser,
        {"tradeoff": _geometric(1e-3, 1.0, 11), "depth": [1, 2, 3], "rounds": [25, 100]},
        "plain_aggregate",
    ),
    "cstc": Method(
        CSTC,
        {
            "tradeoff": _geometric(0.01, 10.0, 10),
            "depth": [1, 2, 3],
            "inner_weight": [1.0, 0.1, 0.03, 0.0],  # 1 is the paper's
            "starts": [4],
        },
        "plain_aggregate",
    ),
    "cegb": Method(
        CEGB,
        {"tradeoff": _geometric(0.01, 1.0, 9), "leaves": [2, 4, 8], "rounds": [20, 80]},
        "plain_aggregate",
    ),
}


def grid_points(methods: Iterable[MethodName]) -> list[GridPoint]:
    """Return all points of the grids of some methods; the last parameter changes fastest.

    Examples
    --------
    >>> len(grid_points(["cact_lasso"])), grid_points(["cact_lasso"])[1].parameters
    (1001, {'penalty': 0.1})
    """
    return [
        GridPoint(name, dict(zip(METHODS[name].grid, values, strict=True)))
        for name in methods
        for values in itertools.product(*METHODS[name].grid.values())
    ]


def estimator_of(point: GridPoint, **common: Any) -> Any:
    """Return the unfitted estimator of a grid point.

    Parameters
    ----------
    point : GridPoint
    **common
        Further parameters, such as ``costs``, ``threshold`` and ``reject_label``. Those that a
        baseline does not have are left out.
    """
    kind = METHODS[point.method].estimator
    accepted = kind().get_params()
    return kind(
        **point.parameters, **{key: value for key, value in common.items() if key in accepted}
    )


class Measured(NamedTuple):
    """The metrics of a classifier on some records.

    coverage : share of records that get an answer (EMSCO, Equation 3, g1).
    accuracy : share of the answers that are right (Equation 4, g2); 0 without any answer.
    cost : mean acquisition cost per record, rejected ones included (g3*).
    aggregate : ``g1 + g2 + 1 - g3* / sum of all costs`` (Section 4.3), from 0 to 3.
    plain_accuracy : share of records whose most likely class is right, rejected or not.
    plain_aggregate : ``plain accuracy + 1 - g3* / sum of all costs``, from 0 to 2, by which methods
        without rejection are tuned.
    """

    coverage: float
    accuracy: float
    cost: float
    aggregate: float
    plain_accuracy: float
    plain_aggregate: float


def measure(classifier: Any, X: pd.DataFrame | Array, y: Array) -> Measured:
    """Measure a fitted classifier with its own thresholds and costs.

    Parameters
    ----------
    classifier : BudgetedClassifier or MultiStageClassifier
    X : DataFrame or array (n, d), n >= 1
    y : (n,)
        Labels as in ``fit``.
    """
    answered = classifier.conclusive(X)
    best = classifier.classes_[classifier.predict_proba(X).argmax(axis=1)]
    right = best == np.asarray(y)
    coverage = float(answered.mean())
    accuracy = int((answered & right).sum()) / max(int(answered.sum()), 1)
    plain = float(right.mean())
    mean, total = float(classifier.acquisition_cost(X).mean()), float(classifier.costs_.sum())
    cost = min(mean, total)  # rounding may lift the mean above the cost of all features
    saved = 1.0 - (cost / total if total else 0.0)
    return Measured(coverage, accuracy, cost, coverage + accuracy + saved, plain, plain + saved)


class Records(NamedTuple):
    """Records (n, d) and their labels (n,)."""

    X: pd.DataFrame
    y: Array


class BaselineConfig(RecordsConfig, DataConfig):
    """The ``problem`` section of kind ``rivals``; other keys are those of ``multistage``.

    threshold : confidence that an answer needs, for all classes or by label; labels left out need
        0.5.
    methods : baselines to search; all of them unless given.
    """

    threshold: float | dict[Label, float] = 0.75
    methods: list[MethodName] = Field(list(METHODS), min_length=1)


class BaselineProblem(Problem, Deployable):
    """Coverage, accuracy and cost of fitted budgeted classifiers, over the grids of the baselines.

    A genome is one gene, the number of a grid point: a baseline with one choice of its parameters.
    It is fitted on the training records and measured on the validation records. ``grid`` evaluates
    every point and so finds the front of the baselines; ``tuned`` returns the one point that a user
    who tunes a baseline would take.

    Usually made by :meth:`from_config`.

    Parameters
    ----------
    training, validation, test : Records
        ``test`` may be empty.
    costs : float64 (d,)
    threshold : float or mapping of class label to float
    points : sequence of GridPoint
        At least one.
    source : Source
        Where the records come from.
    """

    known_metrics = (
        Metric("coverage", "max", text="share of records that get an answer"),
        Metric("accuracy", "max", text="share of the answers that are right"),
        Metric("cost", "min", "ratio", text="mean acquisition cost per record"),
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
        points: Sequence[GridPoint],
        source: Source,
    ) -> None:
        self.training, self.validation, self.test = training, validation, test
        self.costs, self.threshold, self.points = np.asarray(costs), threshold, list(points)
        self.space: Integers = Integers(np.zeros(1), np.full(1, len(points) - 1))
        high = float(self.costs.sum())
        self.metrics = tuple(
            m._replace(high=high) if m.name == "cost" else m for m in self.known_metrics
        )
        limits = threshold if isinstance(threshold, float) else sorted(map(str, threshold.items()))
        content = [FORMAT, source.fingerprint, self.costs.tolist(), limits, self.points]
        self.fingerprint = digest_of(content)
        self._about_data, self._example = dict(source.description), dict(source.example)
        self._measurements: dict[int, Measured] = {}

    Config = BaselineConfig

    @classmethod
    def from_config(cls, config: BaselineConfig) -> BaselineProblem:
        table = load_table(config.dataset, aside=config.split.columns)
        division = divide(table, config.split)
        split = division.split
        classes = np.array(table.classes)
        training, validation, test = (
            Records(table.features.iloc[part], classes[table.labels[part]]) for part in split
        )
        names = [str(name) for name in table.features.columns]
        if config.costs is not None and config.costs.panels:
            raise InputError(
                "problem.costs.panels: baselines pay for each feature alone, found panels; leave "
                "them out, or search with problem multistage"
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
            points=grid_points(config.methods),
            source=source_of(table, config.split, division),
        )

    @property
    def gene_names(self) -> tuple[str, ...]:
        return ("cell",)

    def describe(self) -> Mapping[str, Any]:
        return self._about_data

    def example(self) -> Mapping[str, list[Any]]:
        return self._example

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_measurements": {}}  # each worker measures again

    def evaluate(self, X: Array, streams: CandidateStreams | None = None) -> Mapping[str, Array]:
        return _columns([self._measured(int(number)) for number in X[:, 0]])

    def evaluate_test(
        self, X: Array, streams: CandidateStreams | None = None
    ) -> Mapping[str, Array] | None:
        if not len(self.test.y):
            return None
        fitted = [self._fitted(self.points[int(number)]) for number in X[:, 0]]
        return _columns([measure(classifier, *self.test) for classifier in fitted])

    def decode(self, x: Array) -> Any:
        """Return the fitted baseline of a point, with the label ``inconclusive`` for rejects."""
        return self._fitted(self.points[int(x[0])], reject_label=INCONCLUSIVE)

    def _measured(self, number: int) -> Measured:
        """Return the metrics of a point on validation records; it is fitted once per process."""
        if number not in self._measurements:
            classifier = self._fitted(self.points[number])
            self._measurements[number] = measure(classifier, *self.validation)
        return self._measurements[number]

    def _fitted(self, point: GridPoint, **common: Any) -> Any:
        estimator = estimator_of(point, costs=self.costs, threshold=self.threshold, **common)
        return estimator.fit(*self.training)


def _columns(rows: Sequence[Measured]) -> dict[str, FloatArray]:
    """Return measurements as columns by metric."""
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(Measured._fields))
    return dict(zip(Measured._fields, table.T.copy(), strict=True))


class Tuned(GridSearch):
    """Evaluate every point of a grid; return the feasible one that is best on validation records.

    Among equals, the point of greater aggregate wins, and then the first one. Otherwise, criteria
    that ignore confidence would prefer trees of few rounds, which are tried first.

    Parameters
    ----------
    problem : Problem
        Of kind ``rivals``, with one baseline.
    roles : Roles
    seed : int
        Not used, as nothing is random.
    by : {'aggregate', 'plain_aggregate', 'asking_aggregate'}
        What is maximised: a metric, or the aggregate among points that acquire a feature and answer
        a record.
    batch : int
        Points in a batch.

    Raises
    ------
    Unfit
        The problem is of another kind.
    """

    reads = BaselineProblem

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        by: Criterion = "aggregate",
        batch: Annotated[int, Field(ge=1)] = 300,
    ) -> None:
        super().__init__(problem, roles, seed=seed, batch=batch)
        self.by = by
        self._best: tuple[float, float] | None = None
        self._returned = -1

    def learn(self, batch: Evaluated) -> None:
        feasible = batch.ok & (self.roles.violation(batch.values) == 0.0)
        batch = batch.take(feasible)
        for i, number in enumerate(batch.ids.tolist()):
            row = {name: float(column[i]) for name, column in batch.values.items()}
            merit = worth(row, self.by), row["aggregate"]
            if self._best is None or merit > self._best:
                self._best, self._returned = merit, number

    def outcome(self) -> Outcome:
        if self._best is None:
            return Outcome({"tuned_by": self.by})
        return Outcome({"tuned_by": self.by}, returned=np.array([self._returned]))


def worth(row: Mapping[str, float], by: Criterion) -> float:
    """Return the value that tuning maximises, given the metrics of a point; NaN if it failed."""
    if by != "asking_aggregate":
        return row[by]
    asks = not (row["cost"] == 0 or row["coverage"] == 0)
    return row["aggregate"] if asks else -1.0
