"""The description of a multi-stage classifier in the README of its directory."""

from __future__ import annotations

from algorithms.multistage.cascade import Staged
from framework.data.costs import CostGroups
from framework.models.card import cell
from framework.models.model import Card

_TEXT = """\
It acquires the features of a record stage by stage and answers as soon as it is confident
enough; features of later stages are then neither needed nor paid for. {reject}

| stage | features acquired | cost of the stage | cost so far |
| --- | --- | --- | --- |
{stages}

| class | confidence that an answer needs |
| --- | --- |
{thresholds}"""


def card_of(model: Staged) -> Card:
    """Return the stages with their features and costs, and the thresholds, as tables."""
    reject = (
        "A record that no stage is confident about gets the most likely class."
        if model.reject_label is None
        else f"A record that no stage is confident about is labelled `{model.reject_label}`."
    )
    return Card(
        title="A multi-stage classifier",
        text=_TEXT.format(reject=reject, stages=_stages(model), thresholds=_thresholds(model)),
        answers="the columns `label`, `confidence`, `stage`, `cost` and `missing` (features asked "
        "for that have no value)",
        methods="a scikit-learn estimator: `predict`, `predict_proba`, `stage_of`, "
        "`acquisition_cost`, `next_features`",
    )


def _stages(model: Staged) -> str:
    names, total = model.encoder_.feature_names, model.cumulative_costs()
    g, rows = model.cost_groups or CostGroups.none(len(names)), []
    begun = g.begun_at(model.stages_)
    for j, stage in enumerate(model.stages_):
        features = ", ".join(f"{cell(names[i])} ({model.costs_[i]:g})" for i in stage)
        features += "".join(f", once {cell(g.names[n])} ({g.costs[n]:g})" for n in begun[j])
        rows.append(f"| {j + 1} | {features} | {model.stage_costs()[j]:g} | {total[j]:g} |")
    return "\n".join(rows)


def _thresholds(model: Staged) -> str:
    pairs = zip(model.classes_.tolist(), model.thresholds_.tolist(), strict=True)
    return "\n".join(f"| {cell(label)} | {threshold:g} |" for label, threshold in pairs)
