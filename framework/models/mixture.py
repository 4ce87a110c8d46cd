"""A randomised mixture of models: a point between solutions of a front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.models.store import cell
from framework.registry import load


class MixtureClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Answers each record by one of its members, drawn by lot: a point between them on a hull.

    Its expected rates are the members' rates, weighted (Provost and Fawcett 2001). The lots of a
    call are drawn from ``seed`` in the order of the records: the same table gets the same answers.

    Attributes
    ----------
    members_ : list of deployable classifiers
    weights_ : float64 (members,)
        Chances, summing to 1.
    seed_ : int
    expected_ : mapping of str to float
        Metrics that a mixture has in expectation, for the card.
    classes_ : (C,)
    """

    kind = "mixture"

    @classmethod
    def from_fitted(
        cls,
        members: Sequence[Any],
        weights: Sequence[float] | Array,
        *,
        seed: int = 0,
        expected: Mapping[str, float] | None = None,
    ) -> MixtureClassifier:
        """Return a mixture of deployable classifiers.

        Raises
        ------
        InputError
            Members that are none or differ in their classes or features; weights that are no
            chances.
        """
        model = cls()
        chances = np.asarray(weights, dtype=np.float64)
        if not members or chances.shape != (len(members),):
            raise InputError(
                f"weights: expected one a member, found {chances.size} for {len(members)} members"
            )
        if not (np.isfinite(chances).all() and (chances >= 0).all() and chances.sum() > 0):
            raise InputError(
                f"weights: expected chances from 0, one above it, found {chances.tolist()}"
            )
        if isinstance(seed, bool) or int(seed) != seed or seed < 0:
            raise InputError(f"seed: expected a whole number from 0, found {seed}")
        for member in members:
            if not isinstance(member, DeployableModel) or not hasattr(member, "predict_proba"):
                raise InputError(
                    "members: expected deployable classifiers with predict_proba, found "
                    f"{type(member).__name__}"
                )
            if isinstance(member, MixtureClassifier):
                raise InputError("members: expected plain models, found a mixture; mix its members")
        model.members_ = list(members)
        model.weights_ = chances / chances.sum()
        model.seed_ = int(seed)
        model.expected_ = {name: float(value) for name, value in (expected or {}).items()}
        model.classes_ = np.asarray(members[0].classes_)
        model.n_features_in_ = members[0].n_features_in_
        if hasattr(members[0], "feature_names_in_"):
            model.feature_names_in_ = members[0].feature_names_in_
        for member in members[1:]:
            same = member.n_features_in_ == model.n_features_in_
            if not same or member.classes_.tolist() != model.classes_.tolist():
                raise InputError("members: expected the same classes and features, found others")
        return model

    def fit(self, X: Any, y: Any = None) -> MixtureClassifier:
        """Refuse: the members come from a run."""
        raise InputError("fit: a mixture is made of models of a run, it is not trained here")

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,) that each record's member gives."""
        check_is_fitted(self)
        drawn = self._drawn(len(X))
        answers = np.array([member.predict(X) for member in self.members_])
        return np.asarray(answers[drawn, np.arange(len(drawn))])

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the chances of each label (n, C), the lots not drawn yet."""
        check_is_fitted(self)
        total: FloatArray = np.zeros((len(X), len(self.classes_)))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            answers = member.predict(X)
            total += weight * (answers[:, np.newaxis] == self.classes_)
        return total

    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label``, ``confidence`` (the chance of that label) and ``member``."""
        check_is_fitted(self)
        drawn = self._drawn(len(frame))
        answers = np.array([m.predict_table(frame)["label"].to_numpy() for m in self.members_])
        labels = answers[drawn, np.arange(len(drawn))]
        chance = np.zeros(len(frame))
        for weight, answer in zip(self.weights_, answers, strict=True):
            chance += weight * (answer == labels)
        return pd.DataFrame(
            {"label": labels, "confidence": np.minimum(chance, 1.0), "member": drawn},
            index=frame.index,
        )

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        """Write each member into a folder of its own."""
        members = []
        for number, member in enumerate(self.members_):
            description = member.save_into(_Folder(files, f"members/{number}"))
            members.append({"kind": member.kind, "model": description})
        return {
            "members": members,
            "weights": self.weights_.tolist(),
            "seed": self.seed_,
            "expected": self.expected_,
        }

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> MixtureClassifier:
        """Return the mixture that ``save_into`` wrote."""
        members = []
        for number, plain in enumerate(description["members"]):
            if plain["kind"] == cls.kind:
                raise InputError("members: expected plain models, found a mixture")
            kind = load("models", str(plain["kind"]))
            members.append(kind.load_from(_Folder(files, f"members/{number}"), plain["model"]))
        return cls.from_fitted(
            members,
            description["weights"],
            seed=description["seed"],
            expected=description["expected"],
        )

    def card(self) -> Card:
        """Return what the README says of the model."""
        rows = [
            f"| {number} | {weight:.4f} | {cell(member.card().title)} |"
            for number, (weight, member) in enumerate(
                zip(self.weights_, self.members_, strict=True)
            )
        ]
        expected = ", ".join(f"{cell(name)} {value:.6g}" for name, value in self.expected_.items())
        return Card(
            title=f"A randomised mixture of {len(rows)} model{'s' * (len(rows) > 1)}",
            text=(
                "Each record is answered by one member, drawn by lot with the chances below from "
                f"seed {self.seed_}."
                + (f" Expected: {expected}." if expected else "")
                + "\n\n| member | chance | what |\n| --- | --- | --- |\n"
                + "\n".join(rows)
            ),
            answers="the columns `label`, `confidence` and `member`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`",
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def _drawn(self, n: int) -> IntArray:
        draws = np.random.default_rng(self.seed_).random(n)
        places = np.searchsorted(np.cumsum(self.weights_), draws, side="right")
        return np.minimum(places, len(self.weights_) - 1).astype(np.int64)


class _Folder(ModelFiles):
    """The files of a member, below those of the mixture."""

    def __init__(self, files: ModelFiles, prefix: str) -> None:
        self.files, self.prefix = files, prefix

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}/{name}" in self.files

    def write(self, name: str, content: bytes) -> None:
        self.files.write(f"{self.prefix}/{name}", content)

    def read(self, name: str) -> bytes:
        return self.files.read(f"{self.prefix}/{name}")
