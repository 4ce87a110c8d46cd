"""Records that the estimators of all families refuse alike, in one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.estimators.test_front import each, fitted, made, records


@each
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: X[:0], "X: expected records, found 0 of them"),
        (
            lambda X: X.set_axis(["a", "b", "b", "d"], axis=1),
            "X: expected distinct column names, found 'b' more than once; rename one",
        ),
        (lambda X: X.drop(columns="b"), "now missing:\n- b"),
        (lambda X: X.rename(columns={"b": "B"}), "now missing:\n- b"),
        (lambda X: X[["c", "b", "a", "d"]], "must be in the same order"),
    ],
    ids=["empty", "repeated", "missing", "renamed", "shuffled"],
)
def test_odd_records_are_refused(cls, change, sentence):
    for method in ("predict", "predict_proba"):
        with pytest.raises(ValueError, match=sentence):
            getattr(fitted(cls), method)(change(records()[0]))


@each
def test_repeated_names_and_missing_labels_are_refused_by_fit(cls):
    X, y = records(80)
    with pytest.raises(ValueError, match="distinct column names, found 'b' more than once"):
        made(cls).fit(X.set_axis(["a", "b", "b", "d"], axis=1), y)
    y = pd.Series(y).astype(object).where(np.arange(80) % 40 != 3, np.nan)
    with pytest.raises(ValueError, match=r"fit: expected a label in each .* found 2 .* record 4"):
        made(cls).fit(X, y)
