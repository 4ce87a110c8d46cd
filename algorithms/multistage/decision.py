"""How stages decide: by costs of errors or by confidence, with thresholds that genes may choose.

A stage that decides by costs answers with the class of least expected cost. It stops where this
cost, the risk, is at most a threshold; the last stage stops where it is at most the cost of no
answer (Chow 1970). A gene chooses a threshold as a position on a grid. There is one gene for all
stages or one for each stage, except the last one where costs decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from algorithms.multistage.kernels import scoring
from algorithms.multistage.kernels.decisions import RiskRule
from framework.arrays import Array, FloatArray, IntArray, frozen
from framework.data.error_costs import DecisionConfig, DecisionCosts, decision_costs
from framework.errors import InputError
from framework.experiment.config import check
from framework.models.checks import Threshold, thresholds_for

_CONFIDENCES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
_HALVINGS = 7  # number of thresholds of risk if none are given, each half of the next
_APART = 2**0.5  # ratio between the nearest threshold and the risk of the best constant answer


def confidences_of(classes: int) -> FloatArray:
    """Return the thresholds of confidence that a candidate may have unless others are given.

    Ascending, shape (G,). At the least, 1 / classes, each record has an answer; up to 0.5, each is
    at least half of the next.
    """
    below = np.geomspace(1 / classes, 0.5, 1 + math.ceil(math.log2(classes / 2)))[:-1]
    thousandths = np.floor(1000 * below + 1e-9)  # not above 1 / classes
    return np.unique([*np.maximum(thousandths, 1) / 1000, *_CONFIDENCES])


class StageDecisionConfig(DecisionConfig):
    """How stages decide by costs.

    errors : cost of a wrong answer, by the label of the true class: one number for all wrong
        answers, or one by the label of the answer. Those left out cost 1.
    no_answer : cost of giving no answer; after the last stage it is the threshold.
    thresholds : grid of greatest risks at which a stage may stop; unless given, seven values, each
        half of the one before. The greatest is 1.41 times the risk of the best answer that needs
        no feature. If no answer costs less than that, it is the lesser of no_answer and .71 times
        that risk. None is near that risk itself, which all records have, about, at a stage that
        knows little: small changes of its classifier would decide whether they leave.
    per_stage : whether each stage but the last has a threshold of its own.
    """

    thresholds: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        default=None, min_length=1, max_length=127
    )
    per_stage: bool = False


@dataclass(frozen=True)
class StageDecision:
    """How stages decide by costs, with the costs in fixed point.

    Attributes
    ----------
    thresholds : numpy.ndarray of float64, shape (G,)
        The grid, ascending.
    units : numpy.ndarray of int64, shape (K, K)
        Costs of errors, by true class and answer: the real ones are ``units / scale``, with the
        scale of the costs of features.
    no_answer : int
        Cost of a record without an answer, on the same scale.
    """

    costs: DecisionCosts
    thresholds: FloatArray
    per_stage: bool
    units: IntArray
    no_answer: int

    @cached_property
    def weights(self) -> IntArray:
        """The cost of a bit in each plane of errors, ascending.

        The planes are the distinct costs of errors, or the binary digits of costs if these are
        fewer.
        """
        values = np.unique(self.units[self.units > 0])
        shift = int(np.bitwise_or.reduce(values)).bit_length()
        return values if len(values) <= shift else np.int64(1) << np.arange(shift, dtype=np.int64)

    def risk_rule(self) -> RiskRule:
        """Return the rule that turns probabilities into bits."""
        limits = np.concatenate([[self.costs.no_answer], self.thresholds]) + self.costs.slack
        units = self.units[:, :, None]
        whole = len(np.unique(self.units[self.units > 0])) == len(self.weights)
        parts = units == self.weights if whole else (units & self.weights) > 0
        arrays = frozen(self.costs.errors), self.costs.slack, frozen(limits), frozen(parts)
        return RiskRule(*arrays)

    def rule(self, items: int, planes: int) -> scoring.Rule:
        """Return the rule that sends records through stages.

        ``items`` genes are features; ``planes`` is the number of planes before those of errors.
        """
        sure = planes + len(self.weights)
        costs = frozen(self.weights), np.int64(self.no_answer)
        return scoring.Rule(*costs, planes, sure, items, last=False)

    def genes(self, max_stages: int) -> tuple[int, int, bool]:
        """Return the arguments of :class:`~framework.space.Partition` on genes of thresholds."""
        values = len(self.thresholds)
        if values == 1 or max_stages == 1:
            return 0, 1, False
        return (max_stages - 1 if self.per_stage else 1), values, False

    def stops(self, levels: IntArray, stages: int) -> FloatArray:
        """Return the threshold of each stage but the last, from the genes of a design."""
        return self.thresholds[_of_stages(levels, stages - 1)]


@dataclass(frozen=True)
class Confidences:
    """Thresholds of confidence that a search chooses from, for each design or each stage.

    Attributes
    ----------
    thresholds : numpy.ndarray of float64, shape (G,)
        Ascending, two or more.
    per_stage : bool
    """

    thresholds: FloatArray
    per_stage: bool

    def rule(self, items: int, planes: int) -> scoring.Rule:
        """Return the rule that sends records through stages; see :meth:`StageDecision.rule`."""
        return scoring.by_confidence(items, planes)

    def genes(self, max_stages: int) -> tuple[int, int, bool]:
        """Return the arguments of :class:`~framework.space.Partition` on genes of thresholds."""
        return (max_stages if self.per_stage else 1), len(self.thresholds), True

    def of_model(self, levels: IntArray, stages: int) -> Threshold | list[float]:
        """Return the threshold of a design: one number if all stages share it, else one each."""
        each: list[float] = self.thresholds[_of_stages(levels, stages)].tolist()
        return each[0] if len(set(each)) == 1 else each


def _of_stages(levels: IntArray, stages: int) -> IntArray:
    """Return the level of each stage; the last gene is that of all further stages."""
    if not len(levels):
        return np.zeros(stages, dtype=np.int64)
    return np.asarray(levels[np.minimum(np.arange(stages), len(levels) - 1)], dtype=np.int64)


def class_threshold(thresholds: FloatArray, classes: Sequence[Any]) -> Threshold:
    """Return the threshold: one number if all classes share it, else one by label."""
    each: list[float] = thresholds.tolist()
    return each[0] if len(set(each)) == 1 else dict(zip(classes, each, strict=True))


def stage_thresholds(
    threshold: Threshold | Sequence[float], classes: Array, stages: int
) -> FloatArray:
    """Return the confidence that each class needs at each stage of a model, (stages, K).

    Raises
    ------
    InputError
        There are more or fewer thresholds than stages, or one is not a probability.
    """
    if not isinstance(threshold, Sequence):
        return np.tile(thresholds_for(threshold, classes), (stages, 1))
    if len(threshold) != stages:
        raise InputError(
            f"threshold: expected one, or {stages}, one for each stage, found {len(threshold)}"
        )
    return np.stack([thresholds_for(each, classes) for each in threshold])


def decision_for(
    section: Mapping[str, Any] | None, classes: Sequence[Any], stages: int
) -> tuple[DecisionCosts | None, FloatArray]:
    """Return a model's costs of decisions and the greatest risk of an answer at each stage.

    Without a section they are None and empty.

    Parameters
    ----------
    section : mapping or None
        ``errors``, ``no_answer`` and ``thresholds``: one, or one for each stage but the last.
    classes : sequence
        Labels, by class code.
    stages : int

    Raises
    ------
    InputError
        The section has other content.
    """
    if section is None:
        return None, np.zeros(0)
    raw = dict(section)
    thresholds = np.asarray(raw.pop("thresholds", raw.get("no_answer")))
    if thresholds.dtype.kind not in "iuf" and thresholds.size:
        raise InputError(f"decision.thresholds: expected numbers, found {thresholds.tolist()}")
    costs = decision_costs(check(DecisionConfig, raw, "decision"), classes, "decision")
    if thresholds.shape not in ((), (stages - 1,)):
        raise InputError(
            f"decision.thresholds: expected one, or {stages - 1}, one for each stage but the last, "
            f"found {thresholds.size}"
        )
    stops = np.full(stages, costs.no_answer)
    stops[:-1] = thresholds
    if not (np.isfinite(stops).all() and (stops >= 0).all()):
        raise InputError("decision.thresholds: expected finite numbers from 0, found others")
    return costs, stops


def decision_of(
    config: StageDecisionConfig,
    classes: Sequence[Any],
    y: IntArray,
    where: str,
    weights: FloatArray | None = None,
) -> tuple[DecisionCosts, FloatArray]:
    """Return the costs of decisions and the grid of thresholds of risk.

    Parameters
    ----------
    config : StageDecisionConfig
    classes : sequence
        Labels, by class code.
    y : numpy.ndarray of int64, shape (n,)
        Class codes of the training records.
    where : str
        Place of the section, for messages.
    weights : numpy.ndarray of float64, shape (n,), optional
        How much each of these records counts.

    Raises
    ------
    InputError
        The costs do not fit the classes, or a threshold is above the cost of no answer.
    """
    costs = decision_costs(config, classes, where)
    if config.thresholds is None:
        shares = np.bincount(y, weights, minlength=len(classes))
        shares = shares / shares.sum()
        risk = costs.constant(shares)
        top = _APART * risk
        if costs.no_answer < top:
            top = min(costs.no_answer, risk / _APART)
        return costs, np.unique(top * 0.5 ** np.arange(_HALVINGS))
    grid = np.unique(np.array(config.thresholds, dtype=np.float64))
    if grid[-1] > costs.no_answer:
        raise InputError(
            f"{where}.thresholds: expected risks of at most {costs.no_answer:g}, what no answer "
            f"costs, found {grid[-1]:g}: a stage would answer where no answer is better"
        )
    return costs, grid
