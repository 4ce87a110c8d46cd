"""How records go through the stages of a fitted multi-stage classifier.

:func:`route` sends many records at once. :func:`next_step` serves one record whose features are
acquired step by step. :func:`walk_records` computes statistics for each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from algorithms.moves.bits import pack
from algorithms.multistage.config import MissingPolicy
from algorithms.multistage.records import StageData
from algorithms.multistage.stage_classifiers import Recipe, out_of_fold
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.data.costs import Panels
from framework.data.encoding import Categorical, Encoder
from framework.data.error_costs import DecisionCosts
from framework.libraries.checks import probabilities_of
from framework.models.calibration import decide
from framework.models.walk import StageWalk, Walk
from framework.registry import require_known, spelled_as

_BINS = 10


class Staged(Protocol):
    """What routing, files and cards read of a fitted multi-stage classifier.

    The attributes are those of :class:`~algorithms.multistage.model.MultiStageClassifier`, which
    imports these modules.
    """

    reject_label: Any
    panels: Panels | None
    stage_cost: float
    missing: MissingPolicy
    encoder_: Encoder
    stages_: Sequence[IntArray]
    classifiers_: list[Any]
    classes_: Array
    thresholds_: FloatArray
    decision_: DecisionCosts | None
    stops_: FloatArray
    costs_: FloatArray

    def stage_costs(self) -> FloatArray:
        """Return the cost of each stage, shape (stages,)."""
        ...

    def cumulative_costs(self) -> FloatArray:
        """Return the cost of each stage and those before it, shape (stages,)."""
        ...


class RoutedRecords(NamedTuple):
    """How n records went through the stages.

    probabilities : float64 (n, K), those of the stage where each record left.
    best : int64 (n,), code of the class that is the answer: the most likely one, or that of least
        expected cost.
    stage : int64 (n,), the stage where each record left, from 1.
    conclusive : bool (n,), whether it left with enough confidence.
    """

    probabilities: FloatArray
    best: IntArray
    stage: IntArray
    conclusive: BoolArray

    @property
    def confidence(self) -> FloatArray:
        """Probability of the answer, float64 (n,)."""
        highest: FloatArray = self.probabilities[np.arange(len(self.best)), self.best]
        return highest


def stated_at(model: Staged, number: int, encoded: FloatArray) -> FloatArray:
    """Return the probabilities (n, K) of stage ``number``, from 1, for encoded records."""
    said = model.classifiers_[number - 1].predict_proba(encoded)
    return probabilities_of(said, (len(encoded), len(model.classes_)))


def answer_at(model: Staged, number: int, P: FloatArray) -> tuple[IntArray, BoolArray]:
    """Return the class codes that stage ``number``, from 1, picks, and which records it answers.

    ``P`` has the stage's probabilities for n records, shape (n, K).
    """
    if model.decision_ is None:
        return decide(P, model.thresholds_[number - 1])
    said, risk = model.decision_.said(P)
    return said, risk <= model.stops_[number - 1] + model.decision_.slack


def acquired(model: Staged, number: int) -> IntArray:
    """Return the features (m,) acquired by the end of a stage, from 1, in ascending order."""
    return np.sort(np.concatenate(model.stages_[:number]))


def route(model: Staged, X: pd.DataFrame | Array, *, stop: bool = False) -> RoutedRecords:
    """Send records (n, d) through the stages, reading only the features that are acquired.

    The columns of a frame may be in any order, and there may be further ones. Columns of features
    that no record has to acquire may be missing. With ``stop``, a record ends at the first stage
    for which it lacks a value, with the probabilities of the stage before it, or zeros.
    """
    n, encoder = len(X), model.encoder_
    probabilities = np.zeros((n, len(model.classes_)))
    best, stage = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    conclusive = np.zeros(n, dtype=bool)
    undecided = np.arange(n)
    encoded = np.empty((n, encoder.width))
    for number, features in enumerate(model.stages_, start=1):
        if len(undecided) == 0:
            break
        if stop:
            complete = ~encoder.missing(X, features, undecided).any(axis=1)
            stage[undecided[~complete]] = number
            undecided, encoded = undecided[complete], encoded[complete]
            if len(undecided) == 0:  # the columns of the further features may be missing
                break
        read, columns = encoder.columns_of(features), encoder.columns_of(acquired(model, number))
        encoded[:, read] = encoder.transform_features(X, features, undecided)
        stated = stated_at(model, number, encoded[:, columns])
        likely, confident = answer_at(model, number, stated)
        probabilities[undecided], best[undecided] = stated, likely
        stage[undecided], conclusive[undecided] = number, confident
        undecided, encoded = undecided[~confident], encoded[~confident]
    return RoutedRecords(probabilities, best, stage, conclusive)


def next_step(model: Staged, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a record, or which features to acquire next and what they cost.

    Parameters
    ----------
    record : mapping of feature name to value
        What is known of the record. A feature that is absent can still be acquired. One whose value
        is None cannot: the policy ``missing`` of the model decides (``ask`` asks for it again).

    Returns
    -------
    dict of JSON values
        ``status`` is ``answer``, ``inconclusive`` (no stage is sure, or a value cannot be had) or
        ``acquire``. ``label``, ``confidence`` and, with costs of errors, ``risk`` are those of the
        last stage that was complete (None if none was). ``stage``, from 1, is where the record is.
        ``cost`` is that of the known features of the model and of the stages that were asked.
        ``missing`` names the features without a value. With ``acquire`` there are also ``next``,
        the features to acquire with the cost of each; ``next_cost``, the cost of all of them, with
        panels paid once, and of asking the stage then; and ``choices``, their categories, if any.

    Raises
    ------
    InputError
        A name is not a feature of the model, or a value cannot be used.
    """
    names = model.encoder_.feature_names
    record = dict(zip(spelled_as(names, record), record.values(), strict=True))
    require_known(record, names, "record: expected features,")
    frame = pd.DataFrame({name: [record.get(name)] for name in names})
    filled = np.flatnonzero(~model.encoder_.missing(frame, range(len(names)))[0]).tolist()
    step: dict[str, Any] = {"label": None, "confidence": None, "missing": []}
    cost = _cost(model, filled)
    for number, features in enumerate(model.stages_, start=1):
        gaps = model.encoder_.missing(frame, features)[0]
        unknown = [int(i) for i in features[gaps]]
        wanted = [i for i in unknown if names[i] not in record or model.missing == "ask"]
        step |= {"stage": number, "cost": cost + (number - 1) * model.stage_cost}
        if wanted:
            model.encoder_.transform_features(frame, features[~gaps])  # refuses unusable values
            more = _cost(model, [*filled, *wanted]) - cost
            prices = {names[i]: float(model.costs_[i]) for i in wanted}
            kinds = {names[i]: model.encoder_.features[i] for i in wanted}
            choices = {n: [*k.categories] for n, k in kinds.items() if isinstance(k, Categorical)}
            step |= {"next": prices, "next_cost": more + model.stage_cost, "choices": choices}
            return {"status": "acquire", **step}
        step["missing"] = [*step["missing"], *(names[i] for i in unknown)]
        if unknown and model.missing == "inconclusive":
            break
        # its classifier takes the features acquired so far in their order
        encoded = model.encoder_.transform_features(frame, acquired(model, number))
        probabilities = stated_at(model, number, encoded)
        step["cost"] = cost + number * model.stage_cost
        best, sure = answer_at(model, number, probabilities)
        label = model.classes_[best[0]]
        step |= {"label": label.item(), "confidence": float(probabilities[0, best[0]])}
        if model.decision_ is not None:
            step["risk"] = float(model.decision_.said(probabilities)[1][0])
        if sure[0]:
            return {"status": "answer", **step}
    return {"status": "inconclusive", **step}


def _cost(model: Staged, features: Sequence[int]) -> float:
    """Return the cost of those ``features`` that some stage acquires, with panels paid once."""
    asked = set(np.concatenate(model.stages_).tolist())
    wanted = [i for i in features if i in asked]
    panels = model.panels or Panels.none(len(model.costs_))
    (begun,) = panels.begun_at([wanted])
    return sum(float(model.costs_[i]) for i in wanted) + float(panels.costs[begun].sum())


def walk_held_records(model: Staged, data: StageData, recipe: Recipe) -> Walk:
    """Return how the records of the search go through a model, and its answers to the test records.

    In a cross-validation, the records of the search are answered by classifiers fitted on the other
    folds. Test records are always answered by those of the model.

    Parameters
    ----------
    model : MultiStageClassifier
    data : StageData
    recipe : Recipe
        Of its classifiers.
    """
    n, about = data.n_validation, (recipe.calibration, len(data.y))
    answers: list[Answers]
    if data.folds:
        features = np.arange(data.n_features)
        keys = [pack(np.isin(features, acquired(model, j + 1))) for j in range(len(model.stages_))]
        tables = [out_of_fold(data, recipe, key, model.classes_.tolist()) for key in keys]
        answers = [partial(np.take, P, axis=0) for P in tables]
    else:
        answers = answers_of(model, data.held[:-1, :n].T)
    walk = walk_records(model, answers, data.y_held[:n], data.unknown[:, :n], *about)
    weighted = data.sample_weights is not None
    walk = replace(walk, out_of_fold=len(data.folds) > 0, weighted=weighted)
    if data.n_test == 0:
        return walk
    test = data.held[:-1, -data.n_test :].T
    of_test = answers_of(model, test), data.y_held[n:], data.unknown[:, n:]
    unseen = walk_records(model, *of_test, *about)
    return replace(walk, confusions={**walk.confusions, "test": unseen.confusions["validation"]})


Answers = Callable[[IntArray], FloatArray]
"""The probabilities (m, classes) of one stage for the records at given positions (m,)."""


def answers_of(model: Staged, encoded: FloatArray) -> list[Answers]:
    """Return the answers of each stage of a model to ``encoded`` records (n, all columns)."""

    def answer(j: int, records: IntArray) -> FloatArray:
        columns = model.encoder_.columns_of(acquired(model, j + 1))
        return stated_at(model, j + 1, encoded[np.ix_(records, columns)])

    return [partial(answer, j) for j in range(len(model.stages_))]


def walk_records(
    model: Staged,
    answers: Sequence[Answers],
    truth: IntArray,
    unknown: BoolArray,
    calibration: str,
    training_records: int,
) -> Walk:
    """Send records through a model and count what happens at each stage.

    Parameters
    ----------
    model : MultiStageClassifier
    answers : sequence of callables
        Probabilities of each stage, for records at given positions.
    truth : numpy.ndarray of int64, shape (n,)
        Class codes, in the order of ``model.classes_``.
    unknown : numpy.ndarray of bool, shape (features or 0, n)
        Whether a record lacks a feature, at which it stops.
    calibration, training_records
        See :class:`Walk`.
    """
    n = len(truth)
    names, waiting = model.encoder_.feature_names, np.arange(n)
    costs, stages = model.cumulative_costs(), []
    answers_of_all = np.full(n, len(model.classes_))  # the last column: no answer
    for j, features in enumerate(model.stages_):
        if len(unknown):
            waiting = waiting[~unknown[np.ix_(features, waiting)].any(axis=0)]
        entering = len(waiting)
        stated = np.zeros((0, len(model.classes_)))
        if entering:
            stated = answers[j](waiting)
        best, sure = answer_at(model, j + 1, stated)
        answers_here = best[sure]
        confidence = stated[sure, answers_here]
        right = answers_here == truth[waiting[sure]]
        counts = np.bincount(answers_here, minlength=len(model.classes_)).tolist()
        stages.append(
            StageWalk(
                features=tuple(str(names[i]) for i in features),
                cost=float(model.stage_costs()[j]),
                cost_so_far=float(costs[j]),
                entering=entering,
                answers=dict(zip(map(str, model.classes_.tolist()), counts, strict=True)),
                right=int(right.sum()),
                confidence=float(confidence.mean()) if len(confidence) else 0.0,
                calibration_error=calibration_error(confidence, right),
                p_value=_p_value(confidence, right),
            )
        )
        answers_of_all[waiting[sure]] = answers_here
        waiting = waiting[~sure]
    # by true class the number of answers of each class, and last that of no answers
    classes, columns = len(model.classes_), len(model.classes_) + 1
    pairs = np.bincount(truth * columns + answers_of_all, minlength=classes * columns)
    confusion = tuple(map(tuple, pairs.reshape(classes, columns).tolist()))
    by_cost = model.decision_ is not None
    about = training_records, calibration, tuple(stages), {"validation": confusion}
    return Walk(n, *about, by_cost=by_cost)


def calibration_error(confidence: FloatArray, right: Array) -> float:
    """Return the expected calibration error over ten equal bins; 0 without records.

    Both arrays are (n,). See Naeini, Cooper and Hauskrecht 2015.
    """
    if not len(confidence):
        return 0.0
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def _p_value(confidence: FloatArray, right: Array) -> float:
    """Test whether the share of right answers is the mean confidence (binomial test)."""
    if not len(confidence):
        return 1.0
    from scipy.stats import binomtest

    claimed = min(float(confidence.mean()), 1.0)
    return float(binomtest(int(right.sum()), len(right), claimed).pvalue)
