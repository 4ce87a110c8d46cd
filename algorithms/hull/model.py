"""The deployable model of a network problem: the network without its pruned connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from algorithms.hull.kernels import network as kernels
from framework.arrays import Array, BoolArray, FloatArray, IntArray, frozen
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.models.checks import checked_answers, named_records, records_for, stored_labels
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.models.store import cell, markdown_table

_WEIGHTS, _BIASES, _MASK = "weights.npy", "biases.npy", "mask.npy"


class SparseNetworkClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """A sigmoid network some of whose connections are pruned; these cost nothing.

    ``from_fitted`` makes one of trained weights; there is no training here.

    Attributes
    ----------
    classes_ : (2,)
        The negative and the positive label.
    encoder_ : Encoder
    sizes_ : int64 (layers,)
    weights_, biases_ : float32, flat
    mask_ : int8, flat
        1 for each connection that is kept.
    threshold_ : float
        A record is positive if the second output's value before the sigmoid exceeds the first one's
        by more than this.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if the features have names
    """

    kind = "sparse_network"

    @classmethod
    def from_fitted(
        cls,
        *,
        encoder: Encoder,
        sizes: Sequence[int] | IntArray,
        weights: FloatArray,
        biases: FloatArray,
        mask: Array,
        classes: Sequence[Any] | Array,
        threshold: float = 0.0,
    ) -> SparseNetworkClassifier:
        """Return a network with trained weights (see :mod:`algorithms.hull.kernels.network`).

        Raises
        ------
        InputError
            The parts do not fit together.
        """
        model = cls()
        model.encoder_ = encoder
        layers, ones = np.asarray(sizes), np.asarray(mask)
        if layers.dtype.kind not in "iu":
            raise InputError(f"sizes: expected whole numbers, found {layers.tolist()}")
        if not np.isin(ones, (0, 1)).all():
            raise InputError("mask: expected 0 and 1, found other numbers")
        model.sizes_ = layers.astype(np.int64)
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            model.weights_ = np.ascontiguousarray(weights, dtype=np.float32)
            model.biases_ = np.ascontiguousarray(biases, dtype=np.float32)
        model.mask_ = np.ascontiguousarray(ones, dtype=np.int8)
        model.classes_ = np.asarray(classes)
        model.threshold_ = threshold
        model._check()
        model.n_features_in_ = len(encoder.feature_names)
        if encoder.named:
            model.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
        return model

    def _check(self) -> None:
        sizes = self.sizes_
        plain = sizes.ndim == 1 and len(sizes) >= 2 and (sizes > 0).all() and sizes[-1] == 2
        if not plain or sizes[0] != self.encoder_.width or len(self.classes_) != 2:
            raise InputError(
                f"sizes: expected layers from {self.encoder_.width} inputs to 2 outputs and two "
                f"classes, found {sizes.tolist()} and {len(self.classes_)} classes"
            )
        layers: list[int] = sizes.tolist()  # forged ones would overflow 64 bits
        wanted = (sum(n * m for n, m in pairwise(layers)),), (sum(layers[1:]),)
        shapes = self.weights_.shape, self.biases_.shape
        if shapes != wanted or self.mask_.shape != wanted[0]:
            raise InputError(
                f"weights: expected {wanted[0][0]} of them, as long a mask and {wanted[1][0]} "
                f"biases, found shapes {shapes[0]}, {self.mask_.shape} and {shapes[1]}"
            )
        if not (np.isfinite(self.weights_).all() and np.isfinite(self.biases_).all()):
            raise InputError("weights: expected finite numbers, found others")
        if isinstance(self.threshold_, bool) or not isinstance(self.threshold_, (int, float)):
            raise InputError(f"threshold: expected a number, found {self.threshold_!r}")
        if not np.isfinite(self.threshold_):
            raise InputError(f"threshold: expected a finite number, found {self.threshold_}")

    @property
    def connections_(self) -> int:
        """Number of connections that are kept."""
        return int(self.mask_.sum())

    def fit(self, X: Any, y: Any = None) -> SparseNetworkClassifier:
        """Raise InputError: only a run on a network problem trains and prunes a network."""
        raise InputError(
            "fit: a sparse network comes from a run on a network problem, it is not trained here"
        )

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the sigmoids of both outputs, scaled to add up to 1 for each record, (n, 2)."""
        return _shares(self._outputs(self._encoded(X)))

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,) of each record, by its outputs and the threshold.

        With a threshold of 0, equal outputs mean the negative label.
        """
        return self._labels(self._outputs(self._encoded(X)))

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label`` and ``confidence`` for the records of a table.

        The confidence is the probability of the label, which may be below 1/2 with a threshold.
        """
        design = self.encoder_.transform(_features(frame, self.encoder_))
        with named_records(frame.index):
            outputs = self._outputs(design)
        proba, answered = _shares(outputs), self._answered(outputs)
        confidence = np.where(answered, proba[:, 1], proba[:, 0])
        labels = self.classes_[answered.astype(np.int64)]
        return pd.DataFrame({"label": labels, "confidence": confidence}, index=frame.index)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        files.write_array(_WEIGHTS, np.where(self.mask_ != 0, self.weights_, np.float32(0)))
        files.write_array(_BIASES, self.biases_)
        files.write_array(_MASK, self.mask_)
        return {
            "classes": self.classes_.tolist(),
            "sizes": self.sizes_.tolist(),
            "encoder": self.encoder_.to_json(),
            **({"threshold": self.threshold_} if self.threshold_ else {}),
        }

    @classmethod
    def load_from(
        cls, files: ModelFiles, description: Mapping[str, Any]
    ) -> SparseNetworkClassifier:
        return cls.from_fitted(
            encoder=Encoder.from_json(description["encoder"]),
            sizes=description["sizes"],
            weights=files.read_array(_WEIGHTS),
            biases=files.read_array(_BIASES),
            mask=files.read_array(_MASK),
            classes=stored_labels(description["classes"]),
            threshold=description.get("threshold", 0.0),
        )

    def card(self) -> Card:
        sizes = "-".join(map(str, self.sizes_.tolist()))
        rows, start = [], 0
        for layer, (n, m) in enumerate(zip(self.sizes_[:-1], self.sizes_[1:], strict=True)):
            connected = int(self.mask_[start : start + n * m].sum())
            share = f"{connected / (n * m):.1%}"
            rows.append((f"{layer + 1}", f"{n} x {m}", f"{connected}", share))
            start += int(n * m)
        total = len(self.mask_)
        return Card(
            title=f"A sparse network of {self.connections_} connections",
            text=(
                f"A network of {sizes} sigmoid units, of whose {total} connections "
                f"{self.connections_} are kept ({self.connections_ / total:.1%}); pruned ones are "
                f"skipped.{self._about_threshold()}\n\n"
                f"{markdown_table(('layer', 'connections', 'kept', 'share'), rows)}"
            ),
            answers="the columns `label` and `confidence`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`",
        )

    def _about_threshold(self) -> str:
        if not self.threshold_:
            return ""
        return (
            f" A record is answered with {cell(self.classes_[1])} where the second output is above "
            f"the first one by more than {self.threshold_:.6g} before the sigmoid."
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _encoded(self, X: pd.DataFrame | Array) -> FloatArray:
        return np.asarray(self.encoder_.transform(records_for(self, X)))

    def _outputs(self, design: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # values beyond float32
            columns = frozen(np.ascontiguousarray(design.T, dtype=np.float32))  # as in a search
        network = self.weights_, self.biases_, frozen(self.sizes_), frozen(self.mask_)
        outputs = kernels.outputs(columns, len(design), *network).T.astype(np.float64)
        return checked_answers(outputs, "network")

    def _labels(self, outputs: FloatArray) -> Array:
        return np.asarray(self.classes_[self._answered(outputs).astype(np.int64)])

    def _answered(self, outputs: FloatArray) -> BoolArray:
        """Return which records (n,) are positive; the difference is rounded as in the search."""
        values = outputs.astype(np.float32)
        return np.asarray(values[:, 1] - values[:, 0] > np.float32(self.threshold_))


def _shares(outputs: FloatArray) -> FloatArray:
    """Return sigmoid(a) / (sigmoid(a) + sigmoid(b)) of outputs (n, 2), without overflow."""
    rises = np.logaddexp(0.0, -outputs)
    positive = 1.0 / (1.0 + np.exp(np.clip(rises[:, 1] - rises[:, 0], -700, 700)))
    return np.column_stack([1.0 - positive, positive])


def _features(frame: pd.DataFrame, encoder: Encoder) -> pd.DataFrame:
    """Return the columns of a table that are features, in their order."""
    if not encoder.named:
        return frame.set_axis(list(encoder.feature_names), axis=1)
    return frame[list(encoder.feature_names)]
