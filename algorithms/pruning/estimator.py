"""Pruning of classifiers in a few lines, with a proof of how good the choice is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.pruning.diversity import NAMES, PairMeasure, demand_of
from algorithms.pruning.model import PluralityVotingClassifier
from algorithms.pruning.problem import PruningProblem
from framework.arrays import Array
from framework.errors import InputError
from framework.estimators.pool import PoolEstimator
from framework.front import Front
from framework.libraries.library import Library
from framework.problem import Problem

_ITERATIONS, _EVALUATIONS = 200_000, 5_000
_GOALS = ("balanced_accuracy", "accuracy")


@dataclass(eq=False, repr=False, kw_only=True)
class PrunedVoting(PoolEstimator[Any]):
    """The best subset of classifiers that vote, and for two classes its vote threshold.

    For two classes, the ensemble is the best by ``weights``, with a proven bound, or two
    ``objectives`` give an exact front. For several classes, or with soft votes, a search looks for
    the front of accuracy and size.

    Parameters
    ----------
    models
        Classifiers with ``predict_proba`` and the same classes.
    costs
        Each becomes a metric: the sum over the members.
    objectives
        None: the single best ensemble by ``weights``; for several classes or soft votes, the front
        of the metric of ``weights`` and ``members``. Two objectives such as
        ``["balanced_accuracy", "members"]``: the exact front of ``ip_front``.
    best
        By default the metric of ``weights``.
    algorithm
        By default ``ip`` or ``ip_front``; ``pareto_es`` for several classes and soft votes.
    budget
        Simplex iterations of the proof (200,000), or evaluations of other searches (5,000). The
        proof has a bound and a gap with any budget.
    weights : str or four numbers
        ``balanced_accuracy``, ``accuracy``, ``recall``, or the values of a true positive, false
        negative, true negative and false positive.
    voting : {'hard', 'soft'}
        Whether members have a vote each, or their probabilities are added.
    diversity : 'f2', 'f3', (tau, gamma) or None
        Least pairwise failure credit of each member (tau) and on average (gamma).
    pair_measure : {'failure_credit', 'disagreement', 'double_fault', 'q_statistic'}
        The measure that ``diversity`` bounds.
    max_members : int, optional
    threshold : {'free', 'majority'}
        Whether the vote threshold is chosen too, or is half of the members.
    gap : float
        The proof may end when the gap, as a share of the value, is at most this.

    The others are those of :class:`~framework.estimators.pool.PoolEstimator` and
    :class:`~framework.estimators.front.FrontEstimator`.

    Attributes
    ----------
    front_ : pandas.DataFrame
        The solutions; the last columns are ``threshold`` (hard votes of two classes) and
        ``models``, the members.
    model_ : PrunedVotingClassifier, PluralityVotingClassifier or WeightedEnsembleClassifier
        The recommended ensemble, to be deployed.
    members_ : list of str
    threshold_ : int or None
        A record with more votes is positive; None for several classes or soft votes.
    incumbent_ : float
        Weighted sum of the confusion matrix of the records, out-of-fold if models were not fitted.
        It, the bound and the gap exist only for the single best ensemble by ``weights``.
    bound_ : float
        No subset and threshold is worth more.
    gap_ : float
        (bound - incumbent) / |incumbent|; 0 proves that the ensemble is the best.
    classes_ : (C,)

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(600, flip_y=0.1, random_state=0)
    >>> models = [
    ...     (f"tree {seed}", DecisionTreeClassifier(max_features=2, max_depth=5, random_state=seed))
    ...     for seed in range(8)
    ... ]
    >>> for _, model in models:
    ...     _ = model.fit(X[:300], y[:300])
    >>> pruned = PrunedVoting(models, weights="accuracy").fit(X[300:], y[300:])
    >>> bool(pruned.gap_ == 0.0 and pruned.incumbent_ == (pruned.predict(X[300:]) == y[300:]).sum())
    True
    """

    budget: int | Mapping[str, Any] | None = None  # type: ignore[assignment]
    weights: str | Sequence[float] = "balanced_accuracy"
    voting: Literal["hard", "soft"] = "hard"
    diversity: str | tuple[float, float] | None = None
    pair_measure: PairMeasure = "failure_credit"
    max_members: int | None = None
    threshold: Literal["free", "majority"] = "free"
    gap: float = 0.0

    def _search(self, problem: Problem) -> Self:
        try:
            super()._search(problem)
        except InputError as error:  # it names keys of the search, which are parameters here
            if self.algorithm is not None:
                raise
            text = re.sub(r"^algorithm(: |\.)", "", str(error))
            raise InputError(re.sub(r"^iterations:", "budget:", text)) from error
        position = int(np.searchsorted(self._front.ids, self.chosen_))
        self.members_, self.threshold_ = self._members(self._front.X)[position]
        for name in ("incumbent_", "bound_", "gap_"):
            self.__dict__.pop(name, None)
        findings = self.algorithm_.outcome().findings  # type: ignore[union-attr]
        if {"value", "bound", "gap"} <= findings.keys():
            self.incumbent_, self.bound_, self.gap_ = (
                float(findings[name]) for name in ("value", "bound", "gap")
            )
        return self

    def _problem_from(self, library: Library) -> Problem:
        for name, words in (("threshold", ("free", "majority")), ("voting", ("hard", "soft"))):
            if (value := getattr(self, name)) not in words:
                raise InputError(f"{name}: expected {' or '.join(words)}, found {value!r}")
        classes = library.classes or ()
        if self.voting == "hard" and len(classes) <= 2:
            return PruningProblem(
                library,
                threshold="gene" if self.threshold == "free" else "majority",
                pair_measure=self.pair_measure,
                **self._rated,
            )
        of = "soft votes" if self.voting == "soft" else f"{len(classes)} classes"
        if self.weights not in _GOALS:
            raise InputError(
                f"weights: expected {' or '.join(_GOALS)} for {of}, found {self.weights!r}"
            )
        for name, usual in (("diversity", None), ("threshold", "free")):
            if (value := getattr(self, name)) != usual:
                raise InputError(
                    f"{name}: expected hard votes of two classes, found {value!r} for {of}; leave "
                    "it out"
                )
        votes = np.asarray(library.validation)
        if self.voting == "hard":
            said = votes.argmax(axis=2)[:, :, np.newaxis]
            votes = (said == np.arange(len(classes))).astype(np.float32)
        library = replace(library, validation=votes, fingerprint="")
        return EnsembleProblem(library, max_count=1, score=self.weights, **self._rated)

    def _goal(self, problem: Any) -> str:
        goal = self.weights if self.weights in _GOALS else _GOALS[0]
        return "true_positive_rate" if self.weights == "recall" else str(goal)

    def _usual_objectives(self, problem: Any) -> Sequence[str]:
        exact = isinstance(problem, PruningProblem)
        return [self._goal(problem)] if exact else [self._goal(problem), "members"]

    def _asked(self, problem: Any) -> tuple[str | Mapping[str, Any], int | Mapping[str, Any]]:
        usual: str | Mapping[str, Any] = "pareto_es"
        if isinstance(problem, PruningProblem):
            usual = "ip" if self.objectives is None else "ip_front"
        asked = usual if self.algorithm is None else self.algorithm
        section = {"kind": asked} if isinstance(asked, str) else dict(asked)
        if section["kind"] != "ip":
            return section, _EVALUATIONS if self.budget is None else self.budget
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        defaults: dict[str, Any] = {
            "weights": weights,
            "diversity": self.diversity,
            "gap": self.gap,
            "max_members": self.max_members,
        }
        if isinstance(self.budget, Mapping):
            return {**defaults, **section}, self.budget
        defaults["iterations"] = _ITERATIONS if self.budget is None else self.budget
        return {**defaults, **section}, 1  # only the best ensemble is evaluated

    def _bounds(self, problem: Any) -> list[str]:
        bounds = super()._bounds(problem)
        if self._asked(problem)[0]["kind"] == "ip":  # type: ignore[index]
            return bounds
        if self.max_members is not None:
            bounds.append(f"members<={self.max_members}")
        if self.diversity is not None:
            demand, name = demand_of(self.diversity, problem.credit), NAMES[self.pair_measure]
            bounds += [f"{name}_min>={demand.tau}", f"{name}_mean>={demand.gamma}"]  # type: ignore[union-attr]
        return bounds

    def _recommendation(self) -> Mapping[str, Any]:
        return {**super()._recommendation(), "best": self.best or self._goal(None)}

    def _members(self, X: Array) -> list[tuple[list[str], int | None]]:
        """Return the members and the threshold of each genome."""
        ids, problem = self.library_.ids, self.problem_
        picked, thresholds = X, [None] * len(X)
        if isinstance(problem, PruningProblem):
            picked, votes_needed = problem.split(X)
            sizes = (picked > 0).sum(axis=1)
            thresholds = np.minimum(votes_needed, sizes).tolist()
        names = [[ids[i] for i in np.flatnonzero(row)] for row in picked]
        return list(zip(names, thresholds, strict=True))

    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        names, thresholds = zip(*self._members(front.X), strict=True)
        columns = {"threshold": list(thresholds)} if thresholds[0] is not None else {}
        return {**columns, "models": list(names)}

    def _model_of(self, genome: Array, problem: Any) -> Any:
        model = super()._model_of(genome, problem)
        if isinstance(problem, PruningProblem) or self.voting == "soft":
            return model
        members = dict(zip(model.names_, model.models_, strict=True))
        return PluralityVotingClassifier.from_fitted(
            members, model.weights_, model.classes_, costs=model.costs_
        )
