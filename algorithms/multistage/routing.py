"""How records go through a multi-stage classifier: where they leave, and whether to believe it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.models.confidence import decide

_BINS = 10
_ALPHA = 0.01  # of a false alarm, all stages of a system together
_GAP = 0.01  # smaller differences are of no consequence, however significant
_MANY = 1000  # records from which isotonic calibration is safe (Niculescu-Mizil and Caruana 2005)


@dataclass(frozen=True)
class StageWalk:
    """What happens at one stage.

    Attributes
    ----------
    features : tuple of str
        Acquired here.
    cost, cost_so_far : float
        Of those, and of all features acquired by the end of the stage.
    entering : int
        Records that reach the stage.
    answers : mapping of str to int
        Records that leave here, by answer, in the order of the classes.
    right : int
        How many of them are answered rightly.
    confidence : float
        Mean confidence of the answers; 0 without any.
    calibration_error : float
        Expected calibration error of the answers: mean distance of confidence and share right
        over ten bins of confidence, weighted by answers.
    p_value : float
        Of the exact binomial test that the answers are right with probability ``confidence``.
    """

    features: tuple[str, ...]
    cost: float
    cost_so_far: float
    entering: int
    answers: Mapping[str, int]
    right: int
    confidence: float
    calibration_error: float
    p_value: float

    @property
    def leaving(self) -> int:
        return sum(self.answers.values())

    @property
    def accuracy(self) -> float:
        """Share of the answers that are right; 0 without any."""
        return self.right / max(self.leaving, 1)


@dataclass(frozen=True)
class Walk:
    """How validation records go through a system.

    Attributes
    ----------
    records : int
    training_records : int
    calibration : str
        As configured; it decides what a warning advises.
    stages : tuple of StageWalk
    """

    records: int
    training_records: int
    calibration: str
    stages: tuple[StageWalk, ...]

    @property
    def rejected(self) -> int:
        """Records that no stage answers."""
        return self.records - sum(stage.leaving for stage in self.stages)

    def warnings(self) -> list[str]:
        """Return a sentence for each stage whose confidences do not mean what they say.

        A stage counts where the share of right answers differs from their mean confidence by
        0.01 or more, and the binomial test's p-value is below 0.01 divided by the number of
        stages with answers (Bonferroni). Taking the confidences as one probability makes the test
        a little slow to warn.
        """
        answering = [stage for stage in self.stages if stage.leaving]
        return [
            f"stage {number}: answers claim {stage.confidence:.2f} and are right in "
            f"{stage.accuracy:.2f} of {stage.leaving:,} cases (p = {stage.p_value:.1g}); "
            + self._advice(stage)
            for number, stage in enumerate(self.stages, start=1)
            if stage.leaving
            and abs(stage.confidence - stage.accuracy) >= _GAP
            and stage.p_value < _ALPHA / len(answering)
        ]

    def _advice(self, stage: StageWalk) -> str:
        if self.calibration == "none":
            method = "isotonic" if self.training_records >= _MANY else "sigmoid"
            return f"set problem.calibration: {method}"
        if stage.confidence < stage.accuracy:
            return "a lower problem.threshold would let it answer more"
        return "raise problem.threshold, or try another problem.calibration"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Walk:
        """Return what ``to_json`` wrote."""
        stages = [
            StageWalk(**{**stage, "features": tuple(stage["features"])})
            for stage in plain["stages"]
        ]
        return cls(**{**plain, "stages": tuple(stages)})


@dataclass(frozen=True)
class Chosen:
    """What a model directory says of the solution in it."""

    solution: int
    walk: Walk

    @classmethod
    def read(cls, directory: Path) -> Chosen | None:
        """Return it; None where there is no such model, or one made before there were walks."""
        try:
            plain = json.loads((directory / "model.json").read_text(encoding="utf-8"))
            return cls(int(plain["about"]["solution"]), Walk.from_json(plain["walk"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def walk_records(
    model: Any, encoded: FloatArray, truth: IntArray, calibration: str, training_records: int
) -> Walk:
    """Send encoded records through a model and note what happens at each stage.

    Parameters
    ----------
    model : MultiStageClassifier
    encoded : numpy.ndarray of float64, shape (n, columns of the encoder)
    truth : numpy.ndarray of int64, shape (n,)
        Class codes, in the order of ``model.classes_``.
    calibration, training_records
        See :class:`Walk`.
    """
    names, waiting = model.encoder_.feature_names, np.arange(len(encoded))
    costs, stages = model.cumulative_costs(), []
    for j, features in enumerate(model.stages_):
        columns = model.encoder_.columns_of(np.sort(np.concatenate(model.stages_[: j + 1])))
        entering = len(waiting)
        found = np.zeros((0, len(model.classes_)))
        if entering:
            found = model.classifiers_[j].predict_proba(encoded[np.ix_(waiting, columns)])
        best, sure = decide(found, model.thresholds_)
        answers, confidence = best[sure], found[sure].max(axis=1, initial=0.0)
        right = answers == truth[waiting[sure]]
        counts = np.bincount(answers, minlength=len(model.classes_)).tolist()
        stages.append(
            StageWalk(
                features=tuple(str(names[i]) for i in features),
                cost=float(model.costs_[features].sum()),
                cost_so_far=float(costs[j]),
                entering=entering,
                answers=dict(zip(map(str, model.classes_.tolist()), counts, strict=True)),
                right=int(right.sum()),
                confidence=float(confidence.mean()) if len(confidence) else 0.0,
                calibration_error=calibration_error(confidence, right),
                p_value=_p_value(confidence, right),
            )
        )
        waiting = waiting[~sure]
    return Walk(len(encoded), training_records, calibration, tuple(stages))


def calibration_error(confidence: FloatArray, right: Array) -> float:
    """Return the expected calibration error over ten equal bins of confidence; 0 without any.

    Parameters
    ----------
    confidence : numpy.ndarray of float64, shape (n,)
    right : numpy.ndarray of bool, shape (n,)

    References
    ----------
    Naeini, Cooper and Hauskrecht 2015.
    """
    if not len(confidence):
        return 0.0
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def _p_value(confidence: FloatArray, right: Array) -> float:
    if not len(confidence):
        return 1.0
    from scipy.stats import binomtest

    claimed = min(float(confidence.mean()), 1.0)
    return float(binomtest(int(right.sum()), len(right), claimed).pvalue)


def shares(walk: Walk, most: int) -> tuple[list[str], list[list[float]]]:
    """Return the answers' names and for each stage the share of all records leaving with each.

    Of more than ``most`` classes the rarest answers are put together as ``others``.

    Parameters
    ----------
    walk : Walk
    most : int
        Names to return, at most.
    """
    names = list(walk.stages[0].answers)
    total: dict[str, int] = {n: sum(s.answers[n] for s in walk.stages) for n in names}
    kept: Sequence[str] = names
    if len(names) > most:
        frequent = sorted(names, key=lambda name: -total[name])[: most - 1]
        kept = [name for name in names if name in frequent]
    rows = []
    for stage in walk.stages:
        row = [stage.answers[name] / walk.records for name in kept]
        if len(kept) < len(names):
            row.append(stage.leaving / walk.records - sum(row))
        rows.append(row)
    return [*kept, *(["others"] if len(kept) < len(names) else [])], rows
