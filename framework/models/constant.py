"""The trivial classifier: one label for every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.models.checks import stored_labels
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel


class ConstantClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Answers every record with the same label and reads none of its features.

    It is the best model to deploy if errors of one kind cost little or are rare, and can be a
    member of a mixture.

    Attributes
    ----------
    classes_ : (C,)
    label_ : one of ``classes_``
        The answer.
    note_ : str
        Why it was chosen, for the README.
    """

    kind = "constant"

    @classmethod
    def from_label(
        cls, label: Any, classes: Sequence[Any] | Array, *, note: str = ""
    ) -> ConstantClassifier:
        """Return the classifier that always answers ``label``, one of the classes.

        Raises
        ------
        InputError
            The label is none of the classes.
        """
        model = cls()
        model.classes_ = np.asarray(classes)
        matches = [c for c in model.classes_.tolist() if c == label and type(c) is type(label)]
        if not matches:
            raise InputError(
                f"label: expected one of the classes {model.classes_.tolist()}, found {label!r}"
            )
        model.label_, model.note_ = matches[0], note
        return model

    def fit(self, X: Any, y: Any = None) -> ConstantClassifier:
        """Raise InputError: there is nothing to train."""
        raise InputError("fit: a constant classifier answers one label, it is not trained")

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label of each record (n,), always the same one."""
        check_is_fitted(self)
        return np.full(len(X), self.label_, dtype=self.classes_.dtype)

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return 1 for the label and 0 for the others, (n, C)."""
        check_is_fitted(self)
        return np.tile((self.classes_ == self.label_).astype(np.float64), (len(X), 1))

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a column ``label`` for the records of any table."""
        return pd.DataFrame({"label": self.predict(frame)}, index=frame.index)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "label": self.label_, "note": self.note_}

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> ConstantClassifier:
        note = description["note"]
        if not isinstance(note, str):
            raise InputError(f"note: expected a text, found {note!r}")
        classes = stored_labels(description["classes"])
        return cls.from_label(description["label"], classes, note=note)

    def card(self) -> Card:
        from framework.models.store import cell

        return Card(
            title=f"Always {cell(self.label_)}",
            text=f"Every record is answered with {cell(self.label_)}; none of its values is read."
            + (f" {cell(self.note_)}" if self.note_ else ""),
            answers="the column `label`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`",
        )
