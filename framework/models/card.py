"""The README of a saved model: what it is, what it costs, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from algorithms.ensembling.model import (
    WeightedEnsemble,
    WeightedEnsembleClassifier,
    WeightedEnsembleRegressor,
)
from algorithms.multistage.model import MultiStageClassifier
from algorithms.multistage.routing import Walk

_STAGES = """\
# A multi-stage classifier

It acquires the features of a record stage by stage and answers as soon as it is confident
enough; features of later stages are then neither needed nor paid for. {reject}

| stage | features acquired | cost of the stage | cost so far |
| --- | --- | --- | --- |
{stages}

| class | confidence that an answer needs |
| --- | --- |
{thresholds}

## Use

From the command line, on a table with the features' columns (order and further columns do not
matter), written out with the columns `label`, `confidence`, `stage` and `cost`:

```
paretolab predict DIR data.csv
```

In Python:

```python
import pandas as pd
from algorithms.multistage.model import predict_table
from framework.models.store import load_model

model = load_model("DIR")
print(predict_table(model, pd.read_csv("data.csv")))
```

`model` is a scikit-learn estimator: `predict`, `predict_proba`, `stage_of`, `acquisition_cost`.
Loading unpickles nothing: `*.json` are JSON, `stage_*.npy` are plain arrays, `stage_*.skops` are
read with scikit-learn's own classes only.
"""

_ENSEMBLE = """\
# A weighted ensemble of {count}

It {answer}, weighted by how often each was picked. {cost}

| {header} |
| {rule} |
{members}

## Use

From the command line, on a table with the features' columns (order and further columns do not
matter), written out with {columns}:

```
paretolab predict DIR data.csv
```

In Python:

```python
import pandas as pd
from framework.models.store import load_model
from algorithms.ensembling.model import predict_table

model = load_model("DIR")
print(predict_table(model, pd.read_csv("data.csv")))
```

`model` is a scikit-learn estimator: {methods}, `predict_cost`. Loading unpickles nothing:
`model.json` is JSON, each member's `model.skops` is read with scikit-learn's and LightGBM's own
classes only.
"""
_WALK = """
## Where records leave

Of {records} validation records, which the search has seen, {rejected} leave without an answer.
Where the mean confidence of a stage's answers is far from the share that is right, its confidences
do not mean what they say; p is of the binomial test that they do. Calibration: {calibration}.

| stage | records that reach it | answered | mean confidence | share right | calibration error | p |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
{warnings}"""


def write_card(
    model: MultiStageClassifier | WeightedEnsembleClassifier | WeightedEnsembleRegressor,
    path: Path,
    about: Mapping[str, Any],
    walk: Walk | None = None,
) -> None:
    """Write the README of a model; ``about`` becomes a table, and so does ``walk``."""
    text = _of_stages(model) if isinstance(model, MultiStageClassifier) else _of_ensemble(model)
    if walk is not None:
        text += _walk(walk)
    if about:
        rows = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in _flat(about))
        text += f"\n## About\n\n| what | value |\n| --- | --- |\n{rows}\n"
    path.write_text(text, encoding="utf-8")


def _of_stages(model: MultiStageClassifier) -> str:
    reject = (
        "A record that no stage is confident about gets the most likely class."
        if model.reject_label is None
        else f"A record that no stage is confident about is labelled `{model.reject_label}`."
    )
    return _STAGES.format(reject=reject, stages=_stages(model), thresholds=_thresholds(model))


def _of_ensemble(model: WeightedEnsemble) -> str:
    classifies = isinstance(model, WeightedEnsembleClassifier)
    sums = [
        f"{_cell(name)} {value:.6g} {model.costs_[name].unit}".rstrip()
        for name, value in model.predict_cost().items()
    ]
    units = [f"{_cell(name)}{f' ({c.unit})' if c.unit else ''}" for name, c in model.costs_.items()]
    header = ["member", "weight", "kind", *units]
    rows = []
    for i, (name, part) in enumerate(zip(model.names_, model.models_, strict=True)):
        costs = [f"{cost.values[i]:.6g}" for cost in model.costs_.values()]
        weight = f"{model.weights_[i] / model.weights_.sum():.4g}"
        rows.append(" | ".join([_cell(name), weight, type(part).__name__, *costs]))
    return _ENSEMBLE.format(
        count=f"{len(rows)} models" if len(rows) > 1 else "one model",
        answer="answers with the likeliest class by the mean of its members' probabilities"
        if classifies
        else "answers with the mean of its members' values",
        cost=f"A prediction runs every member and costs, all of them together: {', '.join(sums)}."
        if sums
        else "A prediction runs every member.",
        header=" | ".join(header),
        rule=" | ".join(["---"] * len(header)),
        members="\n".join(f"| {row} |" for row in rows),
        columns="the columns `label` and `confidence`" if classifies else "the column `value`",
        methods="`predict`, `predict_proba`" if classifies else "`predict`",
    )


def _stages(model: MultiStageClassifier) -> str:
    names, total = model.encoder_.feature_names, model.cumulative_costs()
    rows = []
    for j, stage in enumerate(model.stages_):
        features = ", ".join(f"{_cell(names[i])} ({model.costs_[i]:g})" for i in stage)
        rows.append(f"| {j + 1} | {features} | {model.costs_[stage].sum():g} | {total[j]:g} |")
    return "\n".join(rows)


def _walk(walk: Walk) -> str:
    rows = [
        f"| {number} | {stage.entering:,} | {stage.leaving:,} | {stage.confidence:.3f} | "
        f"{stage.accuracy:.3f} | {stage.calibration_error:.3f} | {stage.p_value:.2g} |"
        for number, stage in enumerate(walk.stages, start=1)
    ]
    warnings = [f"\nBeware, {sentence}.\n" for sentence in walk.warnings()]
    return _WALK.format(
        records=f"{walk.records:,}",
        rows="\n".join(rows),
        rejected=f"{walk.rejected:,}",
        calibration=walk.calibration,
        warnings="".join(warnings),
    )


def _thresholds(model: MultiStageClassifier) -> str:
    pairs = zip(model.classes_.tolist(), model.thresholds_.tolist(), strict=True)
    return "\n".join(f"| {_cell(label)} | {threshold:g} |" for label, threshold in pairs)


def _flat(about: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield keys and values, those of mappings within joined by a space."""
    for key, value in about.items():
        if isinstance(value, Mapping):
            yield from ((f"{key} {inner}", found) for inner, found in _flat(value))
        else:
            yield key, value


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).replace("|", "\\|").replace("\n", " ")
