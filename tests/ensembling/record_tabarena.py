"""Record what TabArena's simulation passes to an ensembler, into ``tabarena_calls.json``.

To be run where ``tabarena`` is installed, which wants other versions than this package's tests::

    python -m venv there && there/bin/pip install tabarena==0.1.0
    PYTHONPATH=. there/bin/python -m tests.ensembling.record_tabarena

The simulation is TabArena's own ``EnsembleScorer.evaluate_task``, on a repository that holds
made-up predictions. :class:`Recorder` stands in the place of the ensembler, and writes down each
call.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

CALLS = Path(__file__).with_name("tabarena_calls.json")
TASKS = {  # name of the metric, type of the problem, number of classes
    "binary log loss": ("log_loss", "binary", 2),
    "multi-class log loss": ("log_loss", "multiclass", 3),
    "binary AUC": ("roc_auc", "binary", 2),
    "multi-class AUC": ("roc_auc_ovr", "multiclass", 3),
    "accuracy": ("accuracy", "multiclass", 3),
    "RMSE": ("root_mean_squared_error", "regression", 0),
}
ATTRIBUTES = ("name", "optimum", "needs_pred", "needs_proba", "needs_threshold", "needs_quantile")
MODELS, RECORDS = 5, 24


class Repository:
    """The part of TabArena's repository that the simulation asks: one task's predictions."""

    def __init__(self, classes: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.classes = classes
        self.y = {
            split: rng.permutation(np.arange(RECORDS) % classes)
            if classes
            else rng.normal(size=RECORDS)
            for split in ("val", "test")
        }
        self.predictions = {split: self._guesses(y, rng) for split, y in self.y.items()}

    def _guesses(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return float32 (K, N), or (K, N, C) of several classes: models that know a part each."""
        if not self.classes:
            return (y + rng.normal(size=(MODELS, len(y)))).astype(np.float32)
        skill = rng.uniform(-0.5, 2.5, (MODELS, self.classes, 1))
        scores = rng.normal(size=(MODELS, len(y), self.classes))
        scores += np.swapaxes(skill * (np.arange(self.classes)[:, None] == y), 1, 2)
        p = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        return (p[:, :, 1] if self.classes == 2 else p).astype(np.float32)

    def labels_val(self, dataset: str, fold: int) -> np.ndarray:
        return self.y["val"]

    def labels_test(self, dataset: str, fold: int) -> np.ndarray:
        return self.y["test"]

    def predict_val_multi(
        self, dataset: str, fold: int, configs: list[str], **_: Any
    ) -> np.ndarray:
        return self.predictions["val"][[int(name) for name in configs]]

    def predict_test_multi(
        self, dataset: str, fold: int, configs: list[str], **_: Any
    ) -> np.ndarray:
        return self.predictions["test"][[int(name) for name in configs]]


def simulate(task: str, ensembler: type, *, fast: bool, **options: Any) -> dict[str, Any]:
    """Return what TabArena's simulation says of an ensembler on a task of ``TASKS``."""
    from tabarena.simulation.ensemble_selection_config_scorer import EnsembleScorer

    metric, problem_type, classes = TASKS[task]
    scorer = EnsembleScorer(
        Repository(classes),
        {"made up": {"metric": metric, "problem_type": problem_type}},
        ensembler_cls=ensembler,
        ensembler_kwargs=options,
        use_fast_metrics=fast,
    )
    return dict(scorer.evaluate_task("made up", 0, [str(j) for j in range(MODELS)]))


class Recorder:
    """An ensembler that averages, and writes down what it is given."""

    linear = True
    calls: dict[str, Any] = {}  # noqa: RUF012 - of the ensembler made last

    def __init__(self, *, problem_type: str, metric: Any) -> None:
        self.metric = metric
        about = {name: getattr(metric, name) for name in ATTRIBUTES}
        about["post_problem_type"] = getattr(metric, "post_problem_type", None)
        type(self).calls = {"problem_type": problem_type, "metric": about, "asked": []}

    def fit(self, *, predictions: Any, labels: Any, time_limit: float | None = None) -> Recorder:
        by_class = self.metric.needs_pred and self.calls["problem_type"] != "regression"
        given = [p.argmax(axis=-1) if by_class else p for p in predictions]
        self.calls["fit"] = {
            "predictions": _described(predictions),
            "labels": _described(labels),
            "time_limit": time_limit,
            "errors": [float(self.metric.error(labels, p)) for p in given],
        }
        return self

    def predict_proba(self, predictions: Any) -> Any:
        self.calls["asked"].append(["predict_proba", _described(predictions, values=False)])
        return np.mean(predictions, axis=0)

    def predict(self, predictions: Any, *, problem_type: str | None = None) -> Any:
        self.calls["asked"].append(["predict", _described(predictions, values=False), problem_type])
        mean = np.mean(predictions, axis=0)
        return mean if problem_type == "regression" else mean.argmax(axis=-1)

    def model_weights(self) -> None:
        return None

    def models_used(self) -> Any:
        return np.ones(MODELS, dtype=bool)

    def info(self) -> dict[str, Any]:
        return {}


def _described(array: Any, *, values: bool = True) -> dict[str, Any]:
    about = {"type": type(array).__name__, "dtype": str(array.dtype), "shape": list(array.shape)}
    return about | ({"values": np.asarray(array, dtype=float).round(7).tolist()} if values else {})


def main() -> None:
    found: dict[str, Any] = {
        "recorded with": {name: version(name) for name in ("tabarena", "autogluon.core", "numpy")},
        "calls": [],
    }
    for task in TASKS:
        for fast in (True, False):
            simulate(task, Recorder, fast=fast)
            found["calls"].append({"task": task, "fast": fast, **Recorder.calls})
    text = json.dumps(found, separators=(",", ":"))
    CALLS.write_text(text.replace('{"task"', '\n{"task"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
