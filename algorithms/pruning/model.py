"""Deployable pruned ensembles: a record with more votes than a threshold is positive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from algorithms.ensembling.model import WeightedEnsembleClassifier
from framework.arrays import Array, FloatArray, IntArray
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost
from framework.models.files import ModelFiles
from framework.models.model import Card
from framework.models.store import cell

_TEXT = """\
A record is {positive} if more than {threshold} of the {members} classifiers say so, else \
{negative}. A classifier says so if its probability of {positive} is above 1/2. A prediction runs \
all of them{cost}.

{rows}"""


class PrunedVotingClassifier(WeightedEnsembleClassifier):
    """A classifier of two classes by votes: positive with more than ``threshold`` positive votes.

    ``from_votes`` makes an ensemble of fitted classifiers; ``fit`` trains the members.

    Parameters
    ----------
    estimators : sequence of (str, classifier with ``predict_proba``), optional
        The members; a logistic regression if None.
    threshold : int, optional
        Greatest number of votes of a negative record, from 0 to the number of members; half of
        that, rounded down, if None: a tie is negative.

    Attributes
    ----------
    threshold_ : int
    positive_ : int
        Position of the positive class in ``classes_``.

    The others are those of :class:`~algorithms.ensembling.model.WeightedEnsembleClassifier`.
    """

    kind = "pruned_vote"
    weights: None = None  # every member has one vote

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]] | None = None,
        threshold: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.threshold = threshold

    def fit(self, X: pd.DataFrame | Array, y: Array) -> Any:
        """Fit a clone of each member; of the two classes the second one is positive."""
        super().fit(X, y)
        size = len(self.models_)
        self._vote(size // 2 if self.threshold is None else self.threshold, 1)
        return self

    @classmethod
    def from_votes(
        cls,
        models: Mapping[str, Any],
        threshold: int,
        classes: Sequence[Any] | Array,
        *,
        positive: int = 1,
        costs: Mapping[str, Cost] | None = None,
        encoder: Encoder | None = None,
    ) -> Self:
        """Return an ensemble of fitted classifiers, without training.

        Parameters
        ----------
        models : mapping of str to classifier
            The members; each has classes of ``classes``, or positions in ``classes``.
        threshold : int
        classes : sequence, length 2
        positive : int
            Position of the positive class.
        costs : mapping of str to Cost, optional
            One value per member.
        encoder : Encoder, optional
            Turns records into the features of the members.

        Raises
        ------
        InputError
            The parts do not fit together.
        """
        ensemble = cls.from_fitted(
            models, np.ones(len(models)), classes, costs=costs, encoder=encoder
        )
        ensemble._vote(threshold, positive)
        return ensemble

    def votes(self, X: pd.DataFrame | Array) -> IntArray:
        """Return the number of positive votes, shape (n,), for records (n, d)."""
        return self._counted(self._records(X))

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        return {
            **super().save_into(files),
            "threshold": self.threshold_,
            "positive": self.positive_,
        }

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> Any:
        ensemble = super().load_from(files, description)
        if not (ensemble.weights_ == 1).all():
            raise InputError("weights: expected one vote per member, found other weights")
        ensemble._vote(description["threshold"], description["positive"])
        return ensemble

    def card(self) -> Card:
        labels = [cell(str(label)) for label in self.classes_]
        count, costs = len(self.names_), self.cost_text()
        text = _TEXT.format(
            positive=labels[self.positive_],
            negative=labels[1 - self.positive_],
            threshold=self.threshold_,
            members=count,
            cost=f" and costs: {costs}" if costs else "",
            rows=self.member_table(),
        )
        several = f"{count} classifiers" if count > 1 else "one classifier"
        return Card(
            title=f"A vote of {several}, positive above {self.threshold_}",
            text=text,
            answers=self._columns,
            methods="a scikit-learn estimator: `predict`, `predict_proba`, `votes`, `predict_cost`",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _targets(self, y: Array) -> Array:
        from sklearn.utils.multiclass import type_of_target

        targets = super()._targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise ValueError(
                "Only binary classification is supported. The type of the target is " + str(kind)
            )
        if len(self.classes_) < 2:
            raise ValueError("expected two classes in y, found one class")
        return targets

    def _vote(self, threshold: Any, positive: Any) -> None:
        """Check a threshold and a positive class, and set them."""
        size = len(self.models_)
        whole = all(
            isinstance(v, int | np.integer) and not isinstance(v, bool)
            for v in (threshold, positive)
        )
        if len(self.classes_) != 2 or not whole or positive not in (0, 1):
            raise InputError(
                f"classes: expected two, one of them positive, found {list(self.classes_)} and "
                f"{positive!r}"
            )
        if not 0 <= threshold <= size:
            raise InputError(
                f"threshold: expected a number of votes from 0 to {size}, found {threshold}"
            )
        self.threshold_, self.positive_ = int(threshold), int(positive)

    def _counted(self, records: Any) -> IntArray:
        votes = np.zeros(len(records), dtype=np.int64)
        for both in self._of_members(records):
            # as in a library: the probability of the second class in float32
            second = both[:, 1].astype(np.float32)
            votes += second > 0.5 if self.positive_ == 1 else second < 0.5
        return votes

    def _probabilities(self, records: Any) -> FloatArray:
        """Return shares of votes, stretched so that 1/2 lies between the threshold and one more."""
        votes, middle = self._counted(records), self.threshold_ + 0.5
        above = (votes - middle) / max(len(self.models_) - middle, 0.5)
        share = np.where(votes < middle, 0.5 * votes / middle, 0.5 + 0.5 * above)
        probabilities = np.empty((len(share), 2))
        probabilities[:, self.positive_], probabilities[:, 1 - self.positive_] = share, 1.0 - share
        return probabilities


class PluralityVotingClassifier(WeightedEnsembleClassifier):
    """A classifier of several classes by votes: the class with most votes, of equals the first.

    ``from_fitted`` makes an ensemble of fitted classifiers; ``fit`` trains the members. Parameters
    and attributes are those of :class:`~algorithms.ensembling.model.WeightedEnsembleClassifier`;
    its probabilities are shares of votes.
    """

    kind = "plurality_vote"
    _answer = "answers with the class that most of its members vote for"

    def _probabilities(self, records: Any) -> FloatArray:
        """Return the shares of the votes (n, C)."""
        members = (each.astype(np.float32) for each in self._of_members(records))
        return self._mean([np.eye(len(self.classes_))[each.argmax(axis=1)] for each in members])
