"""What wrong answers cost, and no answer; which answer that makes the best.

Of the probabilities of the classes follows what each answer is expected to cost. The best one has
the least, its *risk*; where that is more than no answer costs, none is better (Chow 1970).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from framework.arrays import FloatArray, IntArray
from framework.errors import InputError, listed
from framework.registry import nearest
from framework.settings import Section

SLACK = 1e-9
"""Share of the greatest cost by which two risks may differ and count as the same: a tie does not
hang on rounding."""

Cost = Annotated[float, Field(ge=0)]
Label = str | int | float | bool


class DecisionConfig(Section):
    """Costs that answers are decided by.

    errors : what a wrong answer costs, by the label of the true class: one number for all wrong
        answers, or one by the label that is said. What is left out costs 1.
    no_answer : what it costs to give none.
    """

    errors: dict[Label, Cost | dict[Label, Cost]]
    no_answer: Cost


@dataclass(frozen=True)
class DecisionCosts:
    """Costs of wrong answers and of none, by class code.

    Attributes
    ----------
    errors : numpy.ndarray of float64, shape (K, K)
        Of saying the class of the column where that of the row is true; 0 on the diagonal.
    no_answer : float
    """

    errors: FloatArray
    no_answer: float

    @property
    def slack(self) -> float:
        """How far above a limit a risk may be."""
        return SLACK * max(float(self.errors.max()), self.no_answer)

    def said(self, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the answer of least expected cost to each record, and that cost.

        Parameters
        ----------
        probabilities : numpy.ndarray of float64, shape (n, K)

        Returns
        -------
        said : numpy.ndarray of int64, shape (n,)
            Class codes, the first of equals.
        risk : numpy.ndarray of float64, shape (n,)
            In the unit of the costs.

        Notes
        -----
        Chow 1970, with costs that depend on the error. Sums are taken in the order of the classes,
        as compiled kernels do.
        """
        expected = np.zeros(probabilities.shape)
        for true, costs in enumerate(self.errors):
            expected += probabilities[:, true, None] * costs
        risk = expected.min(axis=1)
        said = np.argmax(expected <= risk[:, None] + self.slack, axis=1)
        return said, risk

    def to_json(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return what a :class:`DecisionConfig` would say, by the labels ``classes`` of the codes.

        Raises nothing for labels that JSON knows as keys; numbers become texts there, as
        :func:`decision_costs` allows.
        """
        labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        errors = {
            true: {said: float(self.errors[t, s]) for s, said in enumerate(labels) if s != t}
            for t, true in enumerate(labels)
        }
        return {"errors": errors, "no_answer": self.no_answer}

    def constant(self, shares: FloatArray) -> float:
        """Return the risk of the best answer that is the same for all, by shares of classes."""
        return float((shares @ self.errors).min())


def decision_costs(
    config: DecisionConfig, classes: Sequence[Any], where: str = "problem.decision"
) -> DecisionCosts:
    """Return the costs in the order of the classes.

    Parameters
    ----------
    config : DecisionConfig
        Labels may be spelled as texts.
    classes : sequence
        Labels, by class code.
    where : str
        Place of the section, for messages.

    Raises
    ------
    InputError
        An unknown class, a cost of the right answer, or no cost above zero.
    """
    rows = {str(label): costs for label, costs in config.errors.items()}
    by_true = {label: 1.0 if isinstance(c, Mapping) else c for label, c in rows.items()}
    usual = per_class(by_true, classes, 1.0, f"{where}.errors")
    errors = np.tile(usual[:, None], len(classes))
    for true, label in enumerate(map(str, classes)):
        costs = rows.get(label)
        if isinstance(costs, Mapping):
            errors[true] = per_class(costs, classes, 1.0, f"{where}.errors.{label}")
            right = {str(said): cost for said, cost in costs.items()}.get(label)
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
    """Return one number per class, shape (K,), ``default`` for those left out.

    Parameters
    ----------
    values : mapping of label to float
        Labels may be spelled as texts.
    classes : sequence
        Labels, by class code.
    default : float
    where : str
        Place of the key, for messages.

    Raises
    ------
    InputError
        An unknown class.
    """
    by_name = {str(label): value for label, value in values.items()}
    names = [str(label) for label in classes]
    for label in by_name:
        if label not in names:
            raise InputError(
                f"{where}: expected a class of the data ({listed(names)}), found "
                f"{label!r}{nearest(label, names)}"
            )
    return np.array([by_name.get(name, default) for name in names], dtype=np.float64)
