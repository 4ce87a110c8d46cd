"""Multi-stage classifiers as files: each stage's classifier, ONNX graphs, and the README."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from algorithms.multistage.config import MissingPolicy
from algorithms.multistage.routing import Staged, acquired
from framework.arrays import Array, FloatArray
from framework.data.costs import Panels
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.extras import needed
from framework.files import write_whole
from framework.models.checks import is_label, stored_labels
from framework.models.classifiers import LinearProbability, read_classifier, write_classifier
from framework.models.files import ModelFiles
from framework.models.model import Card
from framework.models.store import cell, markdown_table

_ROUNDING = 1e-6  # rounding of probabilities in float32 may move one below its threshold
_TEXT = """\
It acquires the features of a record stage by stage and answers as soon as it is confident
enough; features of later stages are then neither needed nor paid for. {reject}

{stages}

{rule}"""
_BY_COST = """\
It picks the class of least expected cost, and answers where that cost, its risk, is low enough:

{stops}

No answer costs {no_answer:g}; a wrong one, by the true class (rows) and the one said (columns):

| |{labels}
| --- |{lines}
{errors}"""


def write_model(model: Staged, files: ModelFiles) -> dict[str, Any]:
    """Write the classifiers and return the description of the rest, plain JSON values."""
    numbered = enumerate(model.classifiers_, start=1)
    names = [write_classifier(files, f"stage_{number}", c) for number, c in numbered]
    return {
        "classes": model.classes_.tolist(),
        "reject_label": model.reject_label,
        "thresholds": _alike(model.thresholds_).tolist(),
        "costs": model.costs_.tolist(),
        "missing": model.missing,
        "panels": None if model.panels is None else model.panels.to_json(),
        "stages": [stage.tolist() for stage in model.stages_],
        "classifiers": names,
        "encoder": model.encoder_.to_json(),
        "decision": _decision(model),
        "stage_cost": model.stage_cost,
    }


def _alike(thresholds: FloatArray) -> FloatArray:
    """Return thresholds (stages, K), or those of all stages (K,) where they are the same."""
    return thresholds[0] if (thresholds == thresholds[0]).all() else thresholds


def _decision(model: Staged) -> dict[str, Any] | None:
    """Return the costs by which stages decide, in the order of the classes, as JSON values."""
    costs = model.decision_
    if costs is None:
        return None
    stops = {"thresholds": model.stops_[:-1].tolist()}
    return {"errors": costs.errors.tolist(), "no_answer": costs.no_answer, **stops}


def _stored_decision(plain: Any, classes: Array) -> dict[str, Any] | None:
    """Return what :func:`_decision` wrote, as a parameter of the model.

    Raises InputError if the table of errors has not a row and a column for each class.
    """
    if plain is None:
        return None
    errors, labels = np.asarray(plain["errors"], dtype=np.float64), classes.tolist()
    if errors.shape != (len(labels), len(labels)):
        raise InputError(
            f"decision.errors: expected {len(labels)} rows and columns, one for each class, found "
            f"{' x '.join(map(str, errors.shape))}"
        )
    rows = zip(labels, errors.tolist(), strict=True)
    by_label = {true: dict(zip(labels, row, strict=True)) for true, row in rows}
    return {**plain, "errors": by_label}


def read_model(cls: Any, files: ModelFiles, plain: Mapping[str, Any]) -> Any:
    """Return the model, of class ``cls``, that :func:`write_model` described.

    Raises
    ------
    InputError
        The description is damaged or does not fit together.
    """
    classes = stored_labels(plain["classes"])
    reject_label, panels = plain["reject_label"], plain.get("panels")
    if reject_label is not None and not is_label(reject_label):
        raise InputError(f"reject_label: expected a label or null, found {reject_label!r}")
    return cls.from_fitted(
        Encoder.from_json(plain["encoder"]),
        plain["stages"],
        [read_classifier(files, str(name), classes) for name in plain["classifiers"]],
        classes,
        plain["costs"],
        _stored_thresholds(plain),
        reject_label,
        Panels.from_json(panels, len(plain["costs"])) if panels else None,
        _policy(plain.get("missing", "impute")),
        _stored_decision(plain.get("decision"), classes),
        float(plain["stage_cost"]),
    )


def _stored_thresholds(plain: Mapping[str, Any]) -> Any:
    """Return the thresholds that :func:`write_model` wrote, as a parameter of the model."""
    rows, classes = plain["thresholds"], plain["classes"]
    if np.ndim(rows) == 1:
        return dict(zip(classes, rows, strict=True))
    return [dict(zip(classes, row, strict=True)) for row in rows]


def _policy(value: Any) -> MissingPolicy:
    policies: tuple[MissingPolicy, ...] = get_args(MissingPolicy)
    for policy in policies:
        if value == policy:
            return policy
    raise InputError(f"missing: expected one of {', '.join(policies)}, found {value!r}")


def card_of(model: Staged) -> Card:
    """Return the stages with their features and costs, and the thresholds, as tables."""
    plain = cell(model.reject_label).replace("`", "'")
    reject = (
        "A record that no stage is confident about gets the most likely class."
        if model.reject_label is None
        else f"A record that no stage is confident about is labelled `{plain}`."
    )
    return Card(
        title="A multi-stage classifier",
        text=_TEXT.format(reject=reject, stages=_stages(model), rule=_rule(model)),
        answers="the columns `label`, `confidence`, `stage`, `cost` and `missing` (features asked "
        "for that have no value)" + (", and `risk`" if model.decision_ is not None else ""),
        methods="a scikit-learn estimator: `predict`, `predict_proba`, `stage_of`, "
        "`acquisition_cost`, `next_features`",
    )


def _stages(model: Staged) -> str:
    names, total = model.encoder_.feature_names, model.cumulative_costs()
    panels, rows = model.panels or Panels.none(len(names)), []
    begun = panels.begun_at(model.stages_)
    for j, stage in enumerate(model.stages_):
        features = ", ".join(f"{cell(names[i])} ({model.costs_[i]:g})" for i in stage)
        features += "".join(
            f", once {cell(panels.names[n])} ({panels.costs[n]:g})" for n in begun[j]
        )
        features += f", its classifier ({model.stage_cost:g})" if model.stage_cost else ""
        rows.append((f"{j + 1}", features, f"{model.stage_costs()[j]:g}", f"{total[j]:g}"))
    headings = ("stage", "features acquired", "cost of the stage", "cost so far")
    return markdown_table(headings, rows)


def _rule(model: Staged) -> str:
    """Return the condition for an answer, as tables."""
    labels = [cell(label) for label in model.classes_.tolist()]
    costs = model.decision_
    if costs is None:
        limits = np.atleast_2d(_alike(model.thresholds_))
        stages = [f" at stage {j}" if len(limits) > 1 else "" for j in range(1, len(limits) + 1)]
        heads = (f"confidence that an answer needs{stage}" for stage in stages)
        rows = (
            [label, *(f"{threshold:g}" for threshold in column)]
            for label, column in zip(labels, limits.T, strict=True)
        )
        return markdown_table(["class", *heads], rows)
    stops = ((f"{number}", f"{stop:g}") for number, stop in enumerate(model.stops_, start=1))
    errors = (
        f"| {label} | " + " | ".join(f"{cost:g}" for cost in row) + " |"
        for label, row in zip(labels, costs.errors, strict=True)
    )
    return _BY_COST.format(
        stops=markdown_table(("stage", "risk of an answer at most"), stops),
        no_answer=costs.no_answer,
        labels="".join(f" {label} |" for label in labels),
        lines=" --- |" * len(labels),
        errors="\n".join(errors),
    )


def write_onnx(model: Staged, folder: Path) -> list[Path]:
    """Write each stage's classifier as ONNX; see ``MultiStageClassifier.save_onnx``."""
    graphs = [
        _graph(classifier, model.classes_, number)
        for number, classifier in enumerate(model.classifiers_, start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    names, costs = model.encoder_.feature_names, model.cumulative_costs().tolist()
    files: list[Path] = []
    stages: list[dict[str, Any]] = []
    for number, graph in enumerate(graphs, start=1):
        files.append(folder / f"stage_{number}.onnx")
        write_whole(files[-1], graph)
        stage = {
            "file": files[-1].name,
            "acquires": [names[i] for i in model.stages_[number - 1]],
            "reads": [names[i] for i in acquired(model, number)],
            "cost_so_far": costs[number - 1],
        }
        stages.append(stage)
    about = {
        "classes": model.classes_.tolist(),
        "thresholds": (_alike(model.thresholds_) - _ROUNDING).tolist(),
        "stages": stages,
        "encoder": model.encoder_.to_json(),
    }
    if (decision := _decision(model)) is not None:  # costs decide, not the thresholds
        about |= {"thresholds": None, "decision": decision}
    write_whole(folder / "stages.json", json.dumps(about, indent=1))
    return files


def _graph(classifier: Any, classes: Array, number: int) -> bytes:
    """Return the ONNX graph of one stage: float32 columns in, probabilities out."""
    needed("skl2onnx")
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    model = _as_scikit_learn(classifier, classes)
    width = int(model.n_features_in_)
    try:
        graph = to_onnx(
            model,
            initial_types=[("columns", FloatTensorType([None, width]))],
            options={id(model): {"zipmap": False}},
        )
    except Exception as error:  # whatever a converter raises says that it cannot
        raise InputError(
            f"onnx: expected classifiers that skl2onnx converts, found {type(model).__name__} in "
            f"stage {number}; take another classifier, without calibration"
        ) from error
    return bytes(graph.SerializeToString())


def _as_scikit_learn(classifier: Any, classes: Array) -> Any:
    """Return a scikit-learn logistic regression if the classifier is ours, else the classifier."""
    if not isinstance(classifier, LinearProbability):
        return classifier
    from sklearn.linear_model import LogisticRegression

    estimator = LogisticRegression()
    estimator.classes_ = np.arange(len(classes))
    estimator.coef_, estimator.intercept_ = classifier.coef_, classifier.intercept_
    estimator.n_features_in_ = classifier.n_features_in_
    return estimator
