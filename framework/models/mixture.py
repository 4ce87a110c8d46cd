"""A randomised mixture of models, which realises a point between solutions of a front."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray, IntArray
from framework.data.columns import to_texts
from framework.errors import InputError
from framework.models.checks import named_as, total_weight
from framework.models.files import ModelFiles, SubFolder
from framework.models.model import Card, DeployableModel
from framework.models.store import cell, markdown_table
from framework.registry import load


class MixtureClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Answers each record by one of its members, drawn at random.

    Its expected rates are the weighted means of the members' rates: a point between them on the
    hull (Provost and Fawcett 2001). The draw is a hash of the record's values, as the members read
    them, with ``seed`` as the key. So a record has the same answer alone and in any table, and
    records that the members cannot tell apart have the same answer. Over many different records
    each member answers the share that is its probability.

    Attributes
    ----------
    members_ : list of deployable classifiers
    weights_ : float64 (members,)
        Probabilities of the members, summing to 1.
    seed_ : int
    expected_ : mapping of str to float
        Expected metrics of the mixture, for the README.
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
            There is no member, a member cannot be used, members differ in their classes or
            features, or weights are no probabilities.
        """
        model = cls()
        chances = np.asarray(weights, dtype=np.float64)
        if not members or chances.shape != (len(members),):
            raise InputError(
                f"weights: expected one a member, found {chances.size} for {len(members)} members"
            )
        total = total_weight(chances)
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
        model.weights_ = chances / total
        model.seed_ = int(seed)
        model.expected_ = {name: float(value) for name, value in (expected or {}).items()}
        model.classes_ = np.asarray(members[0].classes_)
        readers = [member for member in members if hasattr(member, "n_features_in_")]
        if readers:  # constant classifiers read no features
            model.n_features_in_ = readers[0].n_features_in_
            if hasattr(readers[0], "feature_names_in_"):
                model.feature_names_in_ = readers[0].feature_names_in_
        for member in members:
            same = member not in readers or member.n_features_in_ == model.n_features_in_
            if not same or member.classes_.tolist() != model.classes_.tolist():
                raise InputError("members: expected the same classes and features, found others")
        return model

    def fit(self, X: Any, y: Any = None) -> MixtureClassifier:
        """Raise InputError: the members come from a run."""
        raise InputError("fit: a mixture is made of models of a run, it is not trained here")

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,) that the drawn member answers for each record, or None."""
        check_is_fitted(self)
        X = X if isinstance(X, pd.DataFrame) else np.asarray(X)
        drawn = self._drawn(X)
        labels = np.empty(len(drawn), dtype=object)
        for number, rows in self._rows_by_member(drawn):
            records = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
            labels[rows] = self.members_[number].predict(records)
        return self._labels(labels)

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the probability of each label (n, C) before the draw; all members are asked."""
        check_is_fitted(self)
        total: FloatArray = np.zeros((len(X), len(self.classes_)))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            answers = member.predict(X)
            total += weight * (answers[:, np.newaxis] == self.classes_)
        return total

    def _labels(self, labels: Array) -> Array:
        """Return labels with the dtype of the classes, unless some records have no answer."""
        return labels if pd.isna(labels).any() else labels.astype(self.classes_.dtype)

    def failures(self) -> Mapping[str, int]:
        return sum((Counter(member.failures()) for member in self.members_), Counter())

    def check_columns(self, names: Collection[str]) -> None:
        for member in self.members_:
            member.check_columns(names)

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the drawn ``member`` of each record, and its ``label`` and ``confidence``."""
        drawn = self._drawn(frame)
        labels = np.empty(len(drawn), dtype=object)
        confidences = np.full(len(drawn), np.nan)
        for number, rows in self._rows_by_member(drawn):
            answers = self.members_[number].predict_table(frame.iloc[rows])
            labels[rows] = answers["label"].to_numpy()
            if "confidence" in answers:
                confidences[rows] = answers["confidence"].to_numpy()
        labels = self._labels(labels)
        return pd.DataFrame(
            {"label": labels, "confidence": confidences, "member": drawn}, index=frame.index
        )

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        members = []
        for number, member in enumerate(self.members_):
            description = member.save_into(SubFolder(files, f"members/{number}"))
            members.append({"kind": member.kind, "model": description})
        return {
            "members": members,
            "weights": self.weights_.tolist(),
            "seed": self.seed_,
            "expected": self.expected_,
        }

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> MixtureClassifier:
        members = []
        for number, plain in enumerate(description["members"]):
            if plain["kind"] == cls.kind:
                raise InputError("members: expected plain models, found a mixture")
            kind = load("models", str(plain["kind"]))
            members.append(kind.load_from(SubFolder(files, f"members/{number}"), plain["model"]))
        return cls.from_fitted(
            members,
            description["weights"],
            seed=description["seed"],
            expected=description["expected"],
        )

    def card(self) -> Card:
        rows = [
            (f"{number}", f"{weight:.4f}", cell(member.card().title))
            for number, (weight, member) in enumerate(
                zip(self.weights_, self.members_, strict=True)
            )
        ]
        expected = ", ".join(f"{cell(name)} {value:.6g}" for name, value in self.expected_.items())
        return Card(
            title=f"A randomised mixture of {len(rows)} model{'s' * (len(rows) > 1)}",
            text=(
                "Each record is answered by one member, drawn by lot with the chances below: a "
                f"hash of the record's values decides, with the key {self.seed_}. So a record has "
                "the same answer each time it is asked, alone or among others, and copies of a "
                "record have one answer; over many different records the members' shares are "
                "their chances. No other member than the one drawn is asked."
                + (f" Expected: {expected}." if expected else "")
                + f"\n\n{markdown_table(('member', 'chance', 'what'), rows)}"
            ),
            answers="the columns `label` and `confidence`, both of the member drawn, and `member`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`",
        )

    def _rows_by_member(self, drawn: IntArray) -> Iterator[tuple[int, IntArray]]:
        """Yield the number of each member that was drawn, and the rows of its records."""
        for number in np.unique(drawn).tolist():
            yield number, np.flatnonzero(drawn == number)

    def _drawn(self, X: pd.DataFrame | Array) -> IntArray:
        """Return the number of the member that is drawn for each record, int64 (n,)."""
        key = hashlib.blake2b(str(self.seed_).encode()).digest()
        numbers = [
            int.from_bytes(hashlib.blake2b(record, digest_size=8, key=key).digest(), "little")
            for record in self._identities(X)
        ]
        draws = np.array(numbers, dtype=np.uint64) / 2.0**64
        places: IntArray = np.searchsorted(np.cumsum(self.weights_), draws, side="right")
        # the weights may sum to less than 1 by rounding: then take the last member of weight > 0
        last = int(np.flatnonzero(self.weights_)[-1])
        return np.asarray(np.minimum(places, last), dtype=np.int64)

    @property
    def texts(self) -> Mapping[str, Collection[str]]:
        return {name: of for member in self.members_ for name, of in member.texts.items()}

    def _identities(self, X: pd.DataFrame | Array) -> list[bytes]:
        """Return the bytes to hash of each record: its encoded features, or else all its values."""
        X, encoders = named_as(self, X), (getattr(m, "encoder_", None) for m in self.members_)
        encoder = next((encoder for encoder in encoders if encoder is not None), None)
        if encoder is not None:
            return [row.tobytes() for row in encoder.identities(X).astype("<f8")]
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and set(names) <= set(frame.columns):
            frame = frame[list(names)]
        columns = [to_texts(frame.iloc[:, i]) for i in range(frame.shape[1])]
        return [
            json.dumps([None if gaps[i] else texts[i] for texts, gaps in columns]).encode()
            for i in range(len(frame))
        ]
