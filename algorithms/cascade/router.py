"""A router: where models are right, learned from the records alone."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from algorithms.cascade.routing import RouterConfig, Routing
from framework.arrays import Array, BoolArray, FloatArray
from framework.data.splits import MeasureConfig
from framework.errors import InputError, damaged
from framework.libraries.call_files import read_inputs
from framework.libraries.calls import CallTable
from framework.libraries.config import CallsSection, measured_as
from framework.libraries.importing import measured_costs
from framework.libraries.measure import BATCH
from framework.libraries.training import prepare
from framework.models.files import ModelFiles

_FILE, _PLAIN_FILE = "router_{}.skops", "router_{}.json"
_REPEATS = 7  # of a batch whose time is measured
_WORDS = re.compile(r"(?u)\b\w\w+\b")  # as scikit-learn's TF-IDF divides texts


@dataclass(frozen=True)
class PlainRegression:
    """A logistic regression on columns of numbers and of texts (by TF-IDF), in plain numbers.

    Attributes
    ----------
    bias : float
    numbers : mapping of str to (float, float)
        Of a column its weight, and what stands for a number that is missing.
    texts : mapping of str to mapping of str to (float, float)
        Of a column's words their inverse document frequencies and weights.
    """

    bias: float
    numbers: Mapping[str, Sequence[float]]
    texts: Mapping[str, Mapping[str, Sequence[float]]]

    @property
    def classes_(self) -> BoolArray:
        """Wrong and right, as classifiers have them."""
        return np.array([False, True])

    @classmethod
    def of(cls, fitted: Any) -> PlainRegression:
        """Return the pipeline of :func:`_regression`, fitted on a frame, as plain numbers."""
        encoder, regression = fitted[0], fitted[1]
        weights, bias = regression.coef_[0], float(regression.intercept_[0])
        numbers: dict[str, Sequence[float]] = {}
        texts: dict[str, Mapping[str, Sequence[float]]] = {}
        start = 0
        for _, made, columns in encoder.transformers_:
            if isinstance(columns, str):
                idf = made.idf_
                own = weights[start : start + len(idf)]
                words = sorted(made.vocabulary_.items(), key=lambda item: item[1])
                texts[columns] = {w: (float(idf[i]), float(own[i])) for w, i in words}
                start += len(idf)
            elif made != "drop" and len(columns):
                imputer, scaler = made[0], made[1]
                slopes = weights[start : start + len(columns)] / scaler.scale_
                bias -= float(slopes @ scaler.mean_)
                for name, slope, fill in zip(columns, slopes, imputer.statistics_, strict=True):
                    numbers[name] = (float(slope), float(np.nan_to_num(fill)))
                start += len(columns)
        return cls(bias, numbers, texts)

    @classmethod
    def from_json(cls, plain: Any) -> PlainRegression:
        """Return what :func:`write_router` wrote as JSON.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is something else.
        """
        numbers = {str(name): _finite(pair) for name, pair in dict(plain["numbers"]).items()}
        texts = {
            str(name): {str(word): _finite(pair) for word, pair in dict(words).items()}
            for name, words in dict(plain["texts"]).items()
        }
        return cls(_finite([plain["bias"], 0.0])[0], numbers, texts)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n, 2) of being wrong and right about records, a frame."""
        z = np.full(len(X), self.bias)
        for name, (weight, fill) in self.numbers.items():
            values = np.asarray(X[name], dtype=np.float64)
            z += weight * np.where(np.isnan(values), fill, values)
        for name, words in self.texts.items():
            z += np.array([_of_text(str(text), words) for text in X[name]])
        right = 1.0 / (1.0 + np.exp(-np.clip(z, -700, 700)))
        return np.column_stack([1.0 - right, right])


def _of_text(text: str, words: Mapping[str, Sequence[float]]) -> float:
    """Return the sum of a text's weights, each word's by its share of the text's length."""
    total = length = 0.0
    for word, count in Counter(_WORDS.findall(text.lower())).items():
        if word in words:
            idf, weight = words[word]
            total += count * idf * weight
            length += (count * idf) ** 2
    return total / math.sqrt(length) if length else 0.0


def _finite(pair: Any) -> tuple[float, float]:
    first, second = (float(value) for value in pair)
    if not (math.isfinite(first) and math.isfinite(second)):
        raise ValueError("a number that is not finite")
    return first, second


class Router(BaseEstimator):  # type: ignore[misc]
    """How probable it is that each model is right, from the records alone.

    Parameters
    ----------
    classifier : classifier with ``predict_proba``, optional
        Fitted for each model to say where it is right. None: a logistic regression, on columns of
        texts by TF-IDF.

    Attributes
    ----------
    classifiers_ : dict of str to classifier or float
        By model; a number where the model was always right, or never.
    """

    def __init__(self, classifier: Any = None) -> None:
        self.classifier = classifier

    def fit(self, X: Any, right: Mapping[str, BoolArray]) -> Router:
        """Learn where models are right, (n,) each, on records (n, d)."""
        made = _regression(X) if self.classifier is None else self.classifier
        if not hasattr(made, "predict_proba"):
            raise InputError(
                f"router: expected a classifier with predict_proba, found {type(made).__name__}"
            )
        self.classifiers_ = {
            name: clone(made).fit(X, y) if 0 < y.sum() < len(y) else float(y[0])
            for name, y in right.items()
        }
        if self.classifier is None and isinstance(X, pd.DataFrame):  # texts are in no skops file
            self.classifiers_ = {
                name: c if isinstance(c, float) else PlainRegression.of(c)
                for name, c in self.classifiers_.items()
            }
        return self

    def scores(self, X: Any, names: Sequence[str]) -> dict[str, FloatArray]:
        """Return the probabilities (n,) that some models are right about records (n, d)."""
        return {name: score_of(self.classifiers_[name], X) for name in names}


def score_of(classifier: Any, X: Any) -> FloatArray:
    """Return the probability (n,) of being right, of a router's classifier or constant."""
    if isinstance(classifier, float):
        return np.full(len(X), classifier)
    try:
        found = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        return found[:, list(classifier.classes_).index(True)]
    except Exception as error:  # of records of another kind, or a classifier that someone changed
        raise InputError(
            f"router: expected records that it can score, found {type(error).__name__}: {error}"
        ) from error


def milliseconds(classifier: Any, X: Any) -> float:
    """Return the processor time of scoring 1,000 records, as that of models is measured."""
    if not isinstance(classifier, PlainRegression):
        return float(measured_costs({"router": classifier}, X)["inference_time"].values[0])
    batch, found = _rows(X, np.resize(np.arange(len(X)), BATCH)), []
    for _ in range(_REPEATS):
        start = time.process_time()
        classifier.predict_proba(batch)
        found.append(time.process_time() - start)
    return 1000 * min(found)


def write_router(files: ModelFiles, router: Mapping[str, Any]) -> dict[str, float]:
    """Write the classifiers of a router by model; return those that are constants."""
    constants = {}
    for i, (name, classifier) in enumerate(router.items()):
        if isinstance(classifier, float):
            constants[name] = classifier
        elif isinstance(classifier, PlainRegression):
            files.write_json(_PLAIN_FILE.format(i), asdict(classifier))
        else:
            files.write_estimator(_FILE.format(i), classifier)
    return constants


def read_router(files: ModelFiles, constants: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the router that :func:`write_router` wrote for some models.

    Raises
    ------
    InputError, KeyError, TypeError, ValueError
        A classifier is not there, was changed, or is something else.
    """
    known = {str(k): float(v) for k, v in dict(constants).items()}
    found: dict[str, Any] = {}
    for i, name in enumerate(names):
        if name in known:
            found[name] = known[name]
        elif (file := _PLAIN_FILE.format(i)) in files:
            with damaged(file, "the weights of a router"):
                found[name] = PlainRegression.from_json(files.read_json(file))
        else:
            found[name] = files.read_estimator(_FILE.format(i))
    return found


def cross_fitted_scores(
    router: Router, X: Any, right: Mapping[str, BoolArray], folds: int, seed: int
) -> dict[str, FloatArray]:
    """Return the scores (n,) of each model by routers that were fitted on the other folds."""
    from sklearn.model_selection import KFold

    found = {name: np.zeros(len(y)) for name, y in right.items()}
    for train, held in KFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(X))):
        fitted = clone(router).fit(_rows(X, train), {name: y[train] for name, y in right.items()})
        for name, scores in fitted.scores(_rows(X, held), list(right)).items():
            found[name][held] = scores
    return found


def configured(
    config: RouterConfig, section: CallsSection, measure: MeasureConfig | None, calls: CallTable
) -> tuple[Router, Routing, Any]:
    """Return the router that a configuration asks for, what it says, and what it reads.

    Of each tuning record it says what routers fitted on other folds do.

    Raises
    ------
    InputError
        There is nothing that it can read, or records belong together.
    """
    inputs, tests = _inputs_of(config, section, measure)
    if calls.groups is not None:
        raise InputError(
            "problem.router: expected records without groups and measured once, found some that "
            "belong together, which folds would divide"
        )
    if calls.n < config.folds:
        raise InputError(
            f"problem.router.folds: expected at most one for each of {calls.n} records, found "
            f"{config.folds}"
        )
    right = dict(zip(calls.ids, calls.right, strict=True))
    try:
        scores = cross_fitted_scores(Router(), inputs, right, config.folds, config.seed)
        router = Router().fit(inputs, right)
    except ValueError as error:  # texts without words, numbers that are infinite
        raise InputError(
            f"problem.router: expected columns that tell records apart, found: {error}"
        ) from error
    told = None if tests is None else router.scores(tests, calls.ids)
    cost = {next(iter(calls.costs)): config.cost}
    return router, Routing(scores, cost, told), inputs


def _inputs_of(
    config: RouterConfig, section: CallsSection, measure: MeasureConfig | None
) -> tuple[Any, Any]:
    """Return what a router reads of the tuning records, and of the test records or None."""
    if section.path is not None:
        if config.columns is None:
            raise InputError(
                "problem.router: expected columns beside problem.calls.path, found none; name "
                "those of the table that describe its records, such as the question"
            )
        read = partial(read_inputs, columns=config.columns, layout=section.layout)
        return read(section.path), None if section.test is None else read(section.test)
    assert section.library is not None  # the section says so
    build = measured_as(section.library, measure).build
    if build is None or config.columns is not None:
        found = "a library that is read" if build is None else "columns beside a library"
        raise InputError(
            "problem.router: expected a table of calls with columns, or a library that is built "
            f"here and no columns, found {found}"
        )
    data = prepare(build, "problem.calls.library.build").data
    inputs = data.design[data.rows] if data.validation is None else data.validation
    return inputs, data.test if len(data.test) else None


def _regression(X: Any) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    encoder: Any = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    if isinstance(X, pd.DataFrame):
        numbers = X.select_dtypes(["number", "bool"]).columns.tolist()
        texts = [(TfidfVectorizer(), name) for name in X.columns if name not in numbers]
        encoder = make_column_transformer((encoder, numbers), *texts)
    return make_pipeline(encoder, LogisticRegression(max_iter=500))


def _rows(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else np.asarray(X)[rows]
