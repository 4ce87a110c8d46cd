"""Prune fitted classifiers in a few lines, with a proof of how good the choice is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from algorithms.pruning.branch_and_bound.instance import Instance, Requirements
from algorithms.pruning.branch_and_bound.solver import BranchAndBound
from algorithms.pruning.diversity import PairMeasure, demand_of
from algorithms.pruning.model import PrunedVotingClassifier
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import weights_of
from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.libraries.importing import copy_bytes, cross_fitted, from_models
from framework.libraries.members import KeepsModels, named_models
from framework.models.checks import copies_for


class PrunedVoting(KeepsModels, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The best subset of classifiers and its vote threshold, with a bound.

    Fitted classifiers are asked about records that are new to them. Classifiers that are not
    fitted vote out-of-fold: on each record those that were fitted on the other folds; the members
    are fitted on all records.

    Parameters
    ----------
    models : mapping of str to classifier, or sequence of classifiers or (str, classifier)
        All fitted or none, with ``predict_proba`` of the same two classes.
    weights : str or four numbers
        ``balanced_accuracy``, ``accuracy``, ``recall``, or what a true positive, false negative,
        true negative and false positive are worth.
    diversity : 'f2', 'f3', (tau, gamma) or None
        Least pairwise failure credit of each member (tau) and on average (gamma).
    pair_measure : {'failure_credit', 'disagreement', 'double_fault', 'q_statistic'}
        What ``diversity`` is measured by.
    max_members : int, optional
    threshold : {'free', 'majority'}
        Whether the vote threshold is chosen too.
    positive : optional
        Label of the positive class; the second in sorted order if None.
    gap : float
        Share of the value at which the proof is good enough.
    budget : int
        Simplex iterations, at most; a bound and a gap are known whatever it is.
    folds : int
        Of the cross-validation of classifiers that are not fitted.
    random_state : int
        Seed of the local searches, and of the folds.

    Attributes
    ----------
    model_ : PrunedVotingClassifier
        The members with their threshold: what to deploy.
    members_ : list of str
    threshold_ : int
        A record is positive with more than so many votes.
    incumbent_ : float
        Weighted sum of the confusion matrix of the records, out-of-fold if models were not fitted.
    bound_ : float
        No subset and threshold is worth more.
    gap_ : float
        (bound - incumbent) / |incumbent|; 0 is a proof.
    classes_ : (2,)

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

    def __init__(
        self,
        models: Mapping[str, Any] | Sequence[Any],
        *,
        weights: str | Sequence[float] = "balanced_accuracy",
        diversity: str | tuple[float, float] | None = None,
        pair_measure: PairMeasure = "failure_credit",
        max_members: int | None = None,
        threshold: Literal["free", "majority"] = "free",
        positive: Any = None,
        gap: float = 0.0,
        budget: int = 200_000,
        folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.models = models
        self.weights = weights
        self.diversity = diversity
        self.pair_measure = pair_measure
        self.max_members = max_members
        self.threshold = threshold
        self.positive = positive
        self.gap = gap
        self.budget = budget
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Array, sample_weight: Any = None) -> PrunedVoting:
        """Choose. Fitted models are only asked; others are fitted ``folds`` + 1 times.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Records that no model was fitted on.
        y : (n,)
        sample_weight : array (n,), optional
            How often each record counts: whole numbers, 0 leaves it out.

        Raises
        ------
        InputError
            Models, weights or parameters that cannot be used, or demands that no ensemble meets.
        """
        self._check()
        given = named_models(self.models)
        copies = copies_for(sample_weight, y, copy_bytes(given))
        models, out_of_fold = cross_fitted(
            given, X, y, folds=self.folds, seed=self.random_state, copies=copies
        )
        library = from_models(models, X, y, copies=copies, out_of_fold=out_of_fold)
        problem = PruningProblem(library, positive=self.positive, pair_measure=self.pair_measure)
        weights = weights_of(self.weights, *problem.votes.totals, where="weights")
        demand = demand_of(self.diversity, problem.credit, "diversity")
        requirements = Requirements(
            self.threshold == "majority", self.max_members, credit=problem.credit, demand=demand
        )
        instance = Instance.of(problem.votes, weights, requirements)
        solver = BranchAndBound(instance, seed=self.random_state)
        while not solver.done and solver.gap > self.gap and solver.iterations < self.budget:
            solver.step()
        best = solver.incumbent
        if best is None:
            raise InputError(
                "diversity: expected demands that some ensemble meets, "
                + ("proved that none does" if solver.done else "found none within the budget")
                + "; lower tau or gamma"
            )
        kept = np.flatnonzero(best.x).tolist()
        assert library.classes is not None
        self.model_ = PrunedVotingClassifier.from_votes(
            {library.ids[i]: models[library.ids[i]] for i in kept},
            best.threshold,
            library.classes,
            positive=problem.positive,
        )
        self.members_ = [library.ids[i] for i in kept]
        self.threshold_ = best.threshold
        self.incumbent_, self.bound_, self.gap_ = best.value, solver.bound, solver.gap
        self.classes_ = self.model_.classes_
        return self

    def _check(self) -> None:
        """Refuse parameters that mean nothing."""
        if self.threshold not in ("free", "majority"):
            raise InputError(f"threshold: expected free or majority, found {self.threshold!r}")
        for name in ("max_members", "budget", "random_state"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or value < 0):
                raise InputError(f"{name}: expected a whole number, 0 or more, found {value!r}")
        if not self.gap >= 0:
            raise InputError(f"gap: expected a share, 0 or more, found {self.gap!r}")

    def predict(self, X: Any) -> Array:
        """Return the class (n,) of records (n, d): positive above ``threshold_`` votes."""
        check_is_fitted(self)
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return shares of votes (n, 2), 1/2 lying between the threshold and one vote more."""
        check_is_fitted(self)
        return self.model_.predict_proba(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")
