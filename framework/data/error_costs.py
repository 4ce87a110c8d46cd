"""Costs of wrong answers and of no answer, and the answer that is best by them.

From the probabilities of the classes follows the expected cost of each answer. That of the best
answer is its *risk*; where no answer costs less, it is better to give none (Chow 1970).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from framework.arrays import FloatArray, IntArray
from framework.data.columns import Label
from framework.errors import InputError, listed
from framework.registry import class_text, require_known
from framework.settings import Section

SLACK = 1e-9
"""Share of the greatest cost by which equal risks may differ, so that rounding decides no tie."""

Cost = Annotated[float, Field(ge=0)]


class DecisionConfig(Section):
    """Costs that answers are decided by.

    errors : what a wrong answer costs, by the label of the true class: one number for all wrong
        answers, or one by the label that is answered. What is left out costs 1.
    no_answer : what it costs to give no answer.
    """

    errors: dict[Label, Cost | dict[Label, Cost]]
    no_answer: Cost


@dataclass(frozen=True)
class DecisionCosts:
    """Costs of wrong answers and of no answer, by class code.

    Attributes
    ----------
    errors : numpy.ndarray of float64, shape (K, K)
        Cost of answering the class of the column where that of the row is true; 0 on the diagonal.
    no_answer : float
    """

    errors: FloatArray
    no_answer: float

    @property
    def slack(self) -> float:
        """By how much a risk may exceed another one, or a limit, and still count as equal to it."""
        return SLACK * max(float(self.errors.max()), self.no_answer)

    def said(self, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the answer of least expected cost to each record, and that cost.

        Parameters
        ----------
        probabilities : numpy.ndarray of float64, shape (n, K)

        Returns
        -------
        said : numpy.ndarray of int64, shape (n,)
            Class codes; of answers with equal costs the first.
        risk : numpy.ndarray of float64, shape (n,)
            In the unit of the costs.

        Notes
        -----
        Chow 1970, with costs that depend on the error. Costs are added in the order of the classes,
        as in the compiled kernels, so that both have the same sums to the bit.
        """
        expected = np.zeros(probabilities.shape)
        for true, costs in enumerate(self.errors):
            expected += probabilities[:, true, None] * costs
        risk = expected.min(axis=1)
        said = np.argmax(expected <= risk[:, None] + self.slack, axis=1)
        return said, risk

    def to_json(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return the costs as a :class:`DecisionConfig` has them, by the labels of the classes.

        JSON makes texts of labels that are numbers, which :func:`decision_costs` takes, too.
        """
        labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        errors = {
            true: {said: float(self.errors[t, s]) for s, said in enumerate(labels) if s != t}
            for t, true in enumerate(labels)
        }
        return {"errors": errors, "no_answer": self.no_answer}

    def constant(self, shares: FloatArray) -> float:
        """Return the risk of the best answer if it is the same for all, by shares of classes."""
        return float((shares @ self.errors).min())


def decision_costs(
    config: DecisionConfig, classes: Sequence[Any], where: str = "problem.decision"
) -> DecisionCosts:
    """Return the costs in the order of the classes.

    Parameters
    ----------
    config : DecisionConfig
        Labels may be spelled as texts, and whole numbers with a point.
    classes : sequence
        Labels, by class code.
    where : str
        Place of the section, for messages.

    Raises
    ------
    InputError
        An unknown class, a cost of the right answer, or no cost above zero.
    """
    rows = {class_text(label, classes): costs for label, costs in config.errors.items()}
    by_true = {label: 1.0 if isinstance(c, Mapping) else c for label, c in rows.items()}
    usual = per_class(by_true, classes, 1.0, f"{where}.errors")
    errors = np.tile(usual[:, None], len(classes))
    for true, label in enumerate(map(str, classes)):
        costs = rows.get(label)
        if isinstance(costs, Mapping):
            errors[true] = per_class(costs, classes, 1.0, f"{where}.errors.{label}")
            right = {class_text(said, classes): cost for said, cost in costs.items()}.get(label)
            if right:
                raise InputError(
                    f"{where}.errors.{label}: expected costs of wrong answers, found {right:g} for "
                    f"the right one, {label!r}; leave it out"
                )
    np.fill_diagonal(errors, 0.0)
    if not errors.any():
        raise InputError(f"{where}.errors: expected a cost above zero, found none")
    return DecisionCosts(errors, config.no_answer)


def per_class(
    values: Mapping[Any, float], classes: Sequence[Any], default: float, where: str
) -> FloatArray:
    """Return one number per class, shape (K,): ``default`` for classes that are left out.

    Labels may be spelled as texts; raises InputError for an unknown one.
    """
    by_name = {class_text(label, classes): value for label, value in values.items()}
    names = [str(label) for label in classes]
    require_known(by_name, names, f"{where}: expected a class of the data ({listed(names)}),")
    return np.array([by_name.get(name, default) for name in names], dtype=np.float64)
