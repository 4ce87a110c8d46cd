"""Weighted ensembles of a library's models, as a problem (HAPEns, Section 3).

A candidate says how often each model is picked; its prediction is the mean of the members'
predictions, weighted by these counts (Equation 1). Models are never called: everything is computed
from the predictions in the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from algorithms.ensembling.outcomes import LOSS_CORRELATION, EnsembleScore, LossCorrelation
from algorithms.ensembling.scores import MEANS_OF_LOSSES, Scores, Truth, check_names, default_score
from algorithms.ensembling.traits import (
    config_similarity,
    fixed_similarities,
    loss_correlation,
    loss_vectors,
    traits,
)
from framework.answering import alternative_of
from framework.answers import NO_ANSWER, AnswerOutcomes, Answers, Measure, Part, Size
from framework.arrays import Array, BoolArray, FloatArray, digest_of
from framework.capabilities import Alternative, TrivialClassifier
from framework.libraries.library import Library
from framework.libraries.members import load_members
from framework.libraries.problem import LibraryKeys, LibraryProblem, Names, describe
from framework.measures import Tables, each_once
from framework.roles import Metric
from framework.space import Counts

VERSION = 2  # to be raised when a value changes for the same library

_MEMBERS = Metric("members", "min", "ratio", text="number of different models", size=True)
_PICKS = Metric("picks", "min", "ratio", text="number of picks, repeated ones too")
_CORRELATION = Metric(
    LOSS_CORRELATION, "min", text="mean |correlation| of the members' losses, pair by pair"
)
_SIMILARITY = Metric(
    "config_similarity", "min", text="mean likeness of the members' configurations (Gower)"
)


class EnsembleConfig(LibraryKeys):
    """The ``problem`` section of kind ``ensemble``.

    max_count : greatest number of times that one model is picked.
    score : one or more of ``roc_auc``, ``log_loss``, ``accuracy``, ``balanced_accuracy`` and
        ``brier`` (classification), ``rmse``, ``mae`` and ``r2`` (regression), or of scikit-learn's
        scorers; ``roc_auc`` or ``rmse`` by default.
    """

    max_count: int = Field(default=50, ge=1, le=100_000)
    score: Names | None = None


class EnsembleProblem(LibraryProblem):
    """Score, costs and diversity of weighted ensembles from a library of models.

    Metrics, in natural sign:

    the scores
        ``roc_auc`` (the mean of one class versus the rest, if there are several) or ``rmse`` by
        default. On the records that are searched on, AUC is within 1e-5 of its exact value,
        whatever the predictions (see :func:`algorithms.ensembling.ranks.auc`); on test records it
        is exact.
    each cost of the library, under its name
        Sum over the members, the models with a count above 0 (the paper's b2 and C(w)).
    ``members``, ``picks``
        Number of different models, and sum of the counts.
    ``loss_correlation``
        Mean |Pearson correlation| of the members' loss vectors over unordered pairs; 1 for a
        single model (the paper's b1, absolute as in QDO-ES's code). A loss is one minus the
        probability of the true class; for regression the squared error.
    ``config_similarity``
        Mean Gower similarity of the members' configurations; 1 for a single model. Only if the
        library has configurations.

    Parameters
    ----------
    library : Library
    max_count : int
        Greatest count of a model.
    score : str or sequence of str, optional
    **asked
        ``positive`` (which also decides the class of scores such as ``f1``), ``costs``, ``rates``
        and ``subgroups`` of :class:`LibraryProblem`.

    Raises
    ------
    InputError
        A score or cost is unknown, or has the name of another metric.
    """

    known_metrics = (
        Metric("roc_auc", "max", text="or any other score, of the validation records"),
        Metric("inference_time", "min", "ratio", text="or any other cost, summed over members"),
        _MEMBERS,
        _PICKS,
        _CORRELATION,
        _SIMILARITY,
    )

    def __init__(
        self,
        library: Library,
        *,
        max_count: int = 50,
        score: str | Sequence[str] | None = None,
        **asked: Any,
    ) -> None:
        super().__init__(library, **asked)
        self.max_count = max_count
        self.space: Counts = Counts(len(library), max_count, empty=False)
        self._classes = len(library.classes or ())
        names = (score,) if isinstance(score, str) else score
        self.score = (default_score(self._classes),) if names is None else tuple(names)
        check_names(self.score)
        self._validation = self._scores(library.validation, library.y_validation)
        self._test: Scores | None = None
        self._alike = self._similarities()
        self._own = self._own_metrics()
        self._own_names = tuple(metric.name for metric in self._own)
        self.measures = self._measures(self.scores, self._losses)
        content = [VERSION, fingerprint_of(library), max_count, self.score, self.costs]
        if not self.positive:  # not said of the second class, so that older fingerprints hold
            content.append("positive: first")
        if set(self.score) & MEANS_OF_LOSSES:
            content.append("losses: in order")  # older runs may differ in the last bits
        content += self.asked
        self.fingerprint = digest_of(content)

    Config = EnsembleConfig

    @classmethod
    def from_config(cls, config: EnsembleConfig) -> EnsembleProblem:
        return cls.of_section(config, max_count=config.max_count, score=config.score)

    @property
    def gene_names(self) -> tuple[str, ...]:
        return self.library.ids

    def describe(self) -> Mapping[str, Any]:
        return describe(self.library, fingerprint_of(self.library))

    def answers(self, X: Array, part: Part = "search") -> Answers:
        """Return the likeliest class of each record, and the costs and sizes of ensembles."""
        records, scores = self.records(part), self.scores(part)
        assert records is not None
        counts, empty = self._filled(X)
        codes = np.full((len(X), len(records)), NO_ANSWER, dtype=np.int16)
        if self._classes and len(X):
            codes[:] = scores.said(counts)
        names = self._own_names[len(self.score) :]
        sizes = dict(zip(names, self._traits(counts), strict=True))
        return Answers(records, codes, sizes=sizes, failed=empty, X=X)

    def scores(self, part: Part) -> Scores:
        """Return the scores of the records of a part."""
        if part == "search":
            return self._validation
        library = self.library
        if self._test is None and library.test is not None and library.y_test is not None:
            self._test = self._scores(library.test, library.y_test, exact=True)
        assert self._test is not None
        return self._test

    def _losses(self) -> FloatArray:
        """Return the loss of each model on each record that is searched on, (K, N)."""
        library = self.library
        return loss_vectors(library.validation, library.y_validation, bool(self._classes))

    def outcomes(self, X: Array) -> AnswerOutcomes | None:
        """Return how genomes do on each record; None with a scorer that cannot be weighted.

        Of scikit-learn's scorers, ``f1``, ``precision`` and ``recall`` of two classes can be.
        """
        return super().outcomes(X) if self._validation.weighable else None

    @property
    def certifiable(self) -> Sequence[Measure]:
        """Accuracy and recall as ratios of counts, and the rates asked for."""
        tables = Tables(self._classes)
        shares = [
            tables.ratio(metric, metric.name, self.positive_code())
            for metric in self._own
            if self._classes and metric.name in ("accuracy", "recall")
        ]
        return [*shares, *self.rates]

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return none: a constant class has no probabilities to score."""
        return ()

    def alternatives(self) -> Sequence[Alternative]:
        """Return all models with equal weights, the single best one, and a constant answer.

        There are none if scores cannot be weighted.
        """
        if not self._validation.weighable:
            return []
        ids = self.library.ids
        every = np.ones((1, len(ids)), dtype=self.space.dtype)
        singles = np.eye(len(ids), dtype=self.space.dtype)
        name = f"all {len(ids)} models with equal weights"
        return [
            Alternative.of_genomes(self, name, ["each once"], every),
            Alternative.of_genomes(self, "the single best model", ids, singles, self.score),
            self._same_answer(),
        ]

    def _same_answer(self) -> Alternative:
        """Return a free model that always answers the shares of the classes, or the mean."""
        library = self.library
        y, classes = library.y_validation, library.classes
        if classes is None:
            answer, name, point = y.mean(keepdims=True), "the mean", "of all records"
        else:
            shares = np.bincount(y, minlength=len(classes)) / len(y)
            name, point = "the largest class", str(classes[int(shares.argmax())])
            answer = shares[1:] if len(classes) == 2 else shares
        one = np.ones((1, 1), dtype=np.int32)

        def predicted(n: int) -> Array:
            shape = (1, n) if len(answer) == 1 else (1, n, len(answer))
            return np.ascontiguousarray(np.broadcast_to(answer, shape), dtype=np.float32)

        def of(part: Part, y: Array) -> tuple[Scores, Answers]:
            scores = self._scores(predicted(len(y)), y, exact=part == "test")
            records = self.records(part)
            assert records is not None
            codes = np.full((1, len(y)), NO_ANSWER, dtype=np.int64)
            if classes is not None:
                codes[:] = scores.said(one)
            sizes = dict.fromkeys(self._own_names, np.zeros(1))
            sizes |= dict.fromkeys((_CORRELATION.name, _SIMILARITY.name), np.ones(1))
            return scores, Answers(records, codes, sizes=sizes, X=one)

        scores: dict[Part, Scores] = {}
        scores["search"], searched = of("search", y)
        tested = None
        if library.test is not None and library.y_test is not None:
            scores["test"], tested = of("test", library.y_test)
        losses = loss_vectors(predicted(len(y)), y, bool(self._classes))
        measures = self._measures(scores.__getitem__, lambda: losses)
        return alternative_of(name, [point], measures, searched, tested)

    def explain(self, x: Array) -> str | None:
        return None if (x > 0).any() else "expected a model picked at least once, found none"

    def decode(self, x: Array) -> Any:
        from algorithms.ensembling.model import (
            WeightedEnsembleClassifier,
            WeightedEnsembleRegressor,
        )

        members = np.flatnonzero(x).tolist()
        models, costs, encoder = load_members(self.library, members, self.costs)
        if self.library.classes is None:
            return WeightedEnsembleRegressor.from_fitted(
                models, x[members], costs=costs, encoder=encoder
            )
        return WeightedEnsembleClassifier.from_fitted(
            models, x[members], self.library.classes, costs=costs, encoder=encoder
        )

    def __getstate__(self) -> dict[str, Any]:
        # Scores are made again from the library, which may be mapped from disk.
        return {**self.__dict__, "_validation": None, "_test": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._validation = self._scores(self.library.validation, self.library.y_validation)

    def _scores(self, P: Array, y: Array, exact: bool = False) -> Scores:
        return Scores(self.score, P, Truth(y, self._classes, self.positive), exact=exact)

    def _similarities(self) -> Array:
        library, losses = self.library, self._losses()
        alike = [loss_correlation(losses)]
        if library.configs is not None:
            alike.append(config_similarity(library.configs))
        return np.stack([fixed_similarities(table) for table in alike])

    def _own_metrics(self) -> tuple[Metric, ...]:
        k = len(self.library)
        highs = traits(np.ones((1, k), dtype=np.int32), self.cost_table, self._alike)[1][0]
        costs = self.cost_metrics(highs)
        sizes = [_MEMBERS._replace(high=float(k)), _PICKS._replace(high=float(k * self.max_count))]
        alike = [_CORRELATION, _SIMILARITY][: len(self._alike)]
        return *self._validation.metrics(), *costs, *sizes, *alike

    def _measures(
        self, scores: Callable[[Part], Scores], losses: Callable[[], FloatArray]
    ) -> tuple[Measure, ...]:
        """Return the measures of the metrics for models with these scores and losses."""
        count = len(self.score)
        measures: list[Measure] = [EnsembleScore(metric, scores) for metric in self._own[:count]]
        measures += [
            LossCorrelation(metric, losses) if metric.name == LOSS_CORRELATION else Size(metric)
            for metric in self._own[count:]
        ]
        return each_once(measures, self.rates)

    def direct(self, X: Array, part: Part) -> Mapping[str, FloatArray]:
        counts, empty = self._filled(X)
        columns = [*self.scores(part)(counts).values(), *self._traits(counts)]
        if empty.any():
            columns = [np.where(empty, np.nan, column) for column in columns]
        return dict(zip(self._own_names, columns, strict=True))

    def _filled(self, X: Array) -> tuple[Array, BoolArray]:
        """Return genomes in which empty ones have all models instead, and which were empty."""
        if X.ndim != 2 or X.shape[1] != self.space.d:
            raise ValueError(f"expected genomes of shape (n, {self.space.d}), found {X.shape}")
        if X.size and (X.min() < 0 or X.max() > self.max_count):
            raise ValueError(
                f"expected counts from 0 to {self.max_count}, found {X.min()} to {X.max()}"
            )
        empty: BoolArray = np.logical_not((X > 0).any(axis=1))
        return np.where(empty[:, np.newaxis], np.int32(1), X), empty

    def _traits(self, X: Array) -> list[FloatArray]:
        """Return the costs, sizes and similarities, (n,) each, in the order of the metrics."""
        sizes, sums, means = traits(X, self.cost_table, self._alike)
        return [*sums.T, *sizes.T, *means.T]


def fingerprint_of(library: Library) -> str:
    """Return the library's fingerprint, or a digest of its content if it has none."""
    if library.fingerprint:
        return library.fingerprint
    plain = [library.ids, list(map(str, library.classes or ())), sorted(library.costs)]
    arrays = [library.validation, library.y_validation, library.test, library.y_test]
    arrays += [library.costs[name].values for name in sorted(library.costs)]
    return digest_of(plain, arrays)
