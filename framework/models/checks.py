"""Shared checks of classifiers with feature costs and reject labels: arguments and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import CellsError, InputError, RecordsError, in_record
from framework.machine import machine_memory
from framework.registry import require_columns, require_known, require_labels, spelled_as
from framework.security import CONFIG_TEXT

Threshold = float | Mapping[Any, float]

_DEFAULT_THRESHOLD = 0.5  # of a class that a mapping of thresholds leaves out
_SLACK = 1e-6  # by which rounding may put a probability beyond 0 and 1


def native(values: Any) -> Any:
    """Return an array, series or frame in the machine's order of bytes, others unchanged."""
    if isinstance(values, pd.DataFrame):
        kinds = {name: kind for name, kind in values.dtypes.items() if _is_foreign(kind)}
        turned = {name: kind.newbyteorder("=") for name, kind in kinds.items()}
        return values.astype(turned) if turned else values
    kind: Any = getattr(values, "dtype", None)
    return values.astype(kind.newbyteorder("=")) if _is_foreign(kind) else values


def _is_foreign(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and not kind.isnative  # pandas' own kinds have no such order


def as_frame(X: Any) -> Any:
    """Return a data frame of another library, such as polars, as one of pandas.

    It needs names of columns and, for each column, a method ``to_numpy``. Anything else is returned
    as it is, but in the machine's order of bytes.

    Raises
    ------
    RecordsError
        Two columns have the same name, but for blanks around it.
    InputError
        The frame is lazy: it has a method ``collect``.
    """
    if isinstance(X, pd.DataFrame):
        bare = X.columns.map(lambda name: name.strip() if isinstance(name, str) else name)
        if not bare.is_unique:
            name = bare[bare.duplicated()][0]
            raise RecordsError(
                f"X: expected distinct column names, found {name!r} more than once; rename one"
            )
        return native(X)
    if hasattr(X, "collect"):
        raise InputError(f"X: expected a data frame, found a {type(X).__name__}; collect() it")
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if not isinstance(names, list | tuple):
        return native(X)
    return pd.DataFrame({name: X[name].to_numpy() for name in names})


def named_as(estimator: Any, X: Any) -> Any:
    """Return a frame whose columns are called as ``estimator`` calls its features.

    Only blanks around names may differ; anything else is returned unchanged.
    """
    if not isinstance(X, pd.DataFrame):
        return X
    names = spelled_as(getattr(estimator, "feature_names_in_", ()), X.columns)
    return X if names == X.columns.tolist() else X.set_axis(names, axis=1)


def training_records(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return training records (n, d) and labels (n,), checked as by :func:`records_and_targets`.

    Raises
    ------
    ValueError
        Also if the labels are not those of classes, or some are missing.
    """
    X, y = records_and_targets(estimator, X, y)
    check_labels(y)
    return X, y


def check_labels(y: Any) -> None:
    """Check that each record has a label, and that labels are classes.

    Raises
    ------
    ValueError
        Labels are missing, or are values of a regression.
    """
    require_labels(pd.isna(np.asarray(y)), "y", "fit")
    check_classification_targets(y)


def records_and_targets(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return checked training records (n, d) and labels or values (n,).

    The attributes ``n_features_in_`` and, for a frame, ``feature_names_in_`` of the estimator are
    set. A frame stays a frame, and its values are not checked; an array may have missing values
    (NaN).

    Raises
    ------
    ValueError
        scikit-learn refuses the records or targets.
    """
    X = as_frame(X)
    if isinstance(X, pd.DataFrame):
        validate_data(estimator, X, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
    else:
        X, y = validate_data(estimator, X, y, ensure_all_finite="allow-nan")
    return X, y


def records_as_taken(X: Any, *, missing: bool) -> Any:
    """Return records for models of any kind: numbers as an array, frames and texts unchanged.

    An array of numbers may have missing values (NaN) if ``missing``.

    Raises
    ------
    ValueError
        There are no records, the numbers are no table, or the matrix is sparse.
    """
    if issparse(X):
        raise RecordsError(
            f"X: expected an array or a data frame, found a sparse {type(X).__name__}; "
            "X.toarray() makes an array"
        )
    X = as_frame(X)
    if isinstance(X, pd.DataFrame | pd.Series):
        if not len(X):
            raise RecordsError("X: expected records, found 0 of them")
        return X
    array = np.asarray(X)
    if array.size and array.dtype.kind not in "biufc":
        return X if isinstance(X, list | tuple) else array
    finite = "allow-nan" if missing else True
    return check_array(array, dtype=None, ensure_all_finite=finite, allow_nd=True, input_name="X")


def targets_as_taken(y: Any, *, classes: bool) -> Array:
    """Return labels, if ``classes``, or else values, shape (n,).

    Raises
    ------
    ValueError
        scikit-learn refuses them, there is only one record, or all labels are of the same class.
    """
    targets: Array = column_or_1d(y, warn=True)
    if len(targets) == 1:
        raise RecordsError("y: expected two records or more, found one sample")
    if targets.dtype.kind in "fc":
        assert_all_finite(targets, input_name="y")
    if classes:
        check_labels(targets)
        if len(pd.unique(pd.Series(targets))) < 2:
            raise RecordsError("y: expected labels of two classes or more, found one class")
    return targets


def records_for(estimator: Any, X: Any) -> Any:
    """Return records (n, d) checked against those that ``estimator`` was fitted on.

    Further columns of a frame with features are left out: those that ``fit`` dropped, such as
    constant ones and the column of a group, come with new records too.

    Raises
    ------
    ValueError
        The features are others than those of ``fit``, or the estimator is not fitted.
    """
    check_is_fitted(estimator)
    X = named_as(estimator, as_frame(X))
    if isinstance(X, pd.DataFrame):
        names = dict.fromkeys(getattr(estimator, "feature_names_in_", X.columns))
        is_feature = np.array([name in names for name in X.columns], dtype=bool)
        if 0 < is_feature.sum() < len(X.columns):
            require_columns(names, X.columns)
            X = X.loc[:, is_feature]
        validate_data(estimator, X, reset=False, skip_check_array=True)
        if not len(X):
            raise RecordsError("X: expected records, found 0 of them")
        return X
    return validate_data(estimator, X, reset=False, ensure_all_finite=False)


def weights_for(sample_weight: Any, y: Any) -> FloatArray:
    """Return the weight of each record of y (n,), 1 each if None.

    Raises
    ------
    ValueError
        Their number is not n.
    InputError
        A weight is negative or not finite.
    """
    if sample_weight is None:
        return np.ones(len(y))
    weights = np.asarray(column_or_1d(sample_weight), dtype=np.float64)
    check_consistent_length(y, weights)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("sample_weight: expected finite numbers from 0, found others")
    return weights


def copies_for(sample_weight: Any, y: Any, record_bytes: int) -> IntArray | None:
    """Return how often each record of y (n,) counts, int64 (n,); None if each counts once.

    Parameters
    ----------
    sample_weight : array_like (n,) or None
        Whole numbers from 0, as integers or as floats.
    y : array_like (n,)
    record_bytes : int
        Bytes of a record, of which copies will be made.

    Raises
    ------
    ValueError
        The number of weights is not n, or all of them are 0.
    InputError
        A weight is not whole, or there are too many copies for the memory of this machine.
    """
    if sample_weight is None:
        return None
    weights = weights_for(sample_weight, y)
    fractions = weights[weights != np.rint(weights)]
    if len(fractions):
        raise InputError(
            "sample_weight: expected whole numbers, how often each record counts, found "
            f"{fractions[0]:g}; np.round(w / w[w > 0].min()) makes weights w whole"
        )
    total = float(weights.sum())
    if not total:
        raise ValueError("sample_weight: expected a record that counts, found weights all zero")
    room = machine_memory()
    if total * record_bytes > room:
        raise InputError(
            f"sample_weight: expected copies of records that fit into the {room / 1e9:,.1f} GB of "
            f"this machine, found {total:,.0f}, about {total * record_bytes / 1e9:,.1f} GB; divide "
            "the weights and round them"
        )
    return None if (weights == 1).all() else weights.astype(np.int64)


def costs_for(costs: Sequence[float] | FloatArray | None, count: int) -> FloatArray:
    """Return the cost of each of ``count`` features, 1 each if None.

    Raises
    ------
    InputError
        The number of costs is not ``count``, or a cost is negative or not finite.
    """
    if costs is None:
        return np.ones(count)
    amounts = np.asarray(costs, dtype=np.float64)
    if amounts.shape != (count,):
        raise InputError(f"costs: expected shape ({count},), one a feature, found {amounts.shape}")
    if not (np.isfinite(amounts).all() and (amounts >= 0).all()):
        raise InputError("costs: expected finite numbers from 0, found others")
    return amounts


def thresholds_for(threshold: Threshold, classes: Array) -> FloatArray:
    """Return the confidence that an answer of each class (K,) needs, by default 0.5.

    Raises
    ------
    InputError
        A class is unknown, or a threshold is no probability.
    """
    if isinstance(threshold, Mapping):
        labels = classes.tolist()
        require_known(threshold, labels, f"threshold: expected classes among {labels},")
        thresholds = np.array([float(threshold.get(c, _DEFAULT_THRESHOLD)) for c in labels])
    else:
        thresholds = np.full(len(classes), float(threshold))
    if not ((thresholds >= 0) & (thresholds <= 1)).all():
        raise InputError(f"threshold: expected probabilities from 0 to 1, found {threshold}")
    return thresholds


def stored_labels(values: Any) -> Array:
    """Return the class labels (K,) that a saved model lists.

    Raises
    ------
    InputError
        They are not a list of different texts, different numbers, or true and false.
    """
    plain = isinstance(values, list) and all(map(is_label, values))
    if not plain or not values or len({type(label) for label in values}) > 1:
        raise InputError(
            "classes: expected a list of labels of one kind, of at most "
            f"{CONFIG_TEXT:,} characters, found others"
        )
    if len(set(values)) < len(values):
        raise InputError("classes: expected different labels, found one twice")
    labels = np.array(values)
    # integers beyond 64 bits, texts that end in zero bytes
    if labels.dtype.kind not in "Uibf" or labels.tolist() != values:
        raise InputError(
            "classes: expected labels of at most 64 bits that end in no zero byte, found others"
        )
    return labels


def total_weight(weights: FloatArray) -> float:
    """Return the sum of the weights of members (M,).

    Raises
    ------
    InputError
        A weight is below 0 or no number, none is above 0, or the sum is not finite.
    """
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not (np.isfinite(total) and (weights >= 0).all() and total > 0):
        raise InputError(
            "weights: expected finite numbers from 0, one above it, whose sum is finite, found "
            f"{weights.tolist()}"
        )
    return total


def checked_answers(answers: Array, name: str, *, probabilities: bool = False) -> Array:
    """Return what a model answers to records, (n,) or (n, k): finite numbers, or probabilities.

    Raises
    ------
    CellsError
        Some are others: by the position of the record.
    """
    fits = np.abs(answers - 0.5) <= 0.5 + _SLACK if probabilities else np.isfinite(answers)
    rows = np.flatnonzero(~fits.all(axis=tuple(range(1, fits.ndim))))
    if len(rows):
        what = "probabilities from 0 to 1" if probabilities else "a finite answer"
        sentence = f"{name}: expected {what}, found others"
        raise CellsError(dict.fromkeys(rows.tolist(), sentence))
    return answers


@contextmanager
def named_records(index: Any) -> Iterator[None]:
    """Turn the positions of records in a CellsError into their labels in the index of a table."""
    try:
        yield
    except CellsError as error:
        by_label = {index[row]: sentence for row, sentence in error.sentences.items()}
        raise CellsError(
            {label: f"{sentence}{in_record(label)}" for label, sentence in by_label.items()}
        ) from error


def is_label(value: Any) -> bool:
    """Return whether a JSON value can be a class label; answers repeat it for each record."""
    plain = isinstance(value, str | int | float) and value == value
    return plain and len(str(value)) <= CONFIG_TEXT


def with_rejects(labels: Array, conclusive: BoolArray, reject_label: Any) -> Array:
    """Return labels (n,) with ``reject_label``, unless it is None, for inconclusive records."""
    if reject_label is None:
        return np.asarray(labels)
    reject = np.asarray(reject_label)
    same_kind = reject.dtype.kind in ("iuf" if labels.dtype.kind == "f" else labels.dtype.kind)
    wide = np.result_type(reject, labels) if same_kind else np.dtype(object)
    labels = labels.astype(wide)
    labels[~conclusive] = reject_label
    return np.asarray(labels)
