"""Problems made from configurations that, together, name every key: the laws run on each.

A key without an instance is a way to score candidates that no law has seen.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, get_args, get_origin

import numpy as np
import pandas as pd
from pydantic import BaseModel

from framework import registry
from framework.problem import Problem

_CLASSES = [f"c{k}" for k in range(9)]  # nine: NumPy adds eight or more in another order
_FEATURES = ["a", "b", "c", "colour"]


@cache
def _folder() -> Path:
    """Write the files that the configurations read; return their folder."""
    folder = Path(mkdtemp(prefix="paretolab-tests-"))
    rng, n = np.random.default_rng(0), 240
    truth = rng.permutation(np.arange(n) % len(_CLASSES))
    a, b = truth + rng.normal(size=n), truth % 3 + rng.normal(size=n)
    pd.DataFrame(
        {
            "a": a,
            "b": b,
            "c": rng.normal(size=n),
            "colour": np.where(truth % 2 == rng.integers(5, size=n) // 4, "red", "blue"),
            "site": rng.choice(["north", "south"], n),
            "patient": np.arange(n) // 2,
            "day": np.arange(n),
            "part": rng.permutation(np.repeat(["train", "validation", "test"], n // 3)),
            "fold": rng.integers(3, size=n),
            "weight": rng.choice([0.25, 1.0, 1.7], n),
            "label": np.array(_CLASSES)[truth],
            "two": np.where(truth > 3, "yes", "no"),
        }
    ).to_csv(folder / "records.csv", index=False)
    costs = pd.DataFrame({"feature": _FEATURES, "cost": [0.1, 0.7, 2.3, 3]})
    costs.to_csv(folder / "costs.csv", index=False)
    for name in ("calls", "calls_test"):
        right = rng.random((60, 3)) < [0.5, 0.7, 0.9]
        calls = pd.DataFrame({"site": ["north", "south", "west"] * 20})
        for m in range(3):
            calls[f"m{m}:correct"] = right[:, m].astype(int)
            calls[f"m{m}:confidence"] = rng.random(60).round(2)
            calls[f"m{m}:latency_ms"] = rng.random(60)
        calls.to_csv(folder / f"{name}.csv", index=False)
    return folder


def _records(target: str = "two", **more: Any) -> dict[str, Any]:
    path = str(_folder() / "records.csv")
    return {"path": path, "target": target, "columns": _FEATURES, **more}


def _library(name: str, **more: Any) -> dict[str, Any]:
    families = ["naive_bayes", "logistic_regression"]
    build = {"dataset": _records(), "models": 4, "families": families, "measured": False}
    return {"path": str(_folder() / name), "build": build | {"name": name} | more}


def configurations() -> dict[str, list[dict[str, Any]]]:
    """Return sections ``problem``, by the kind of problem: few, with many keys each."""
    by_day = {"time": "day", "window": "sliding"}
    by_patient = {"train": 0.4, "validation": 0.4, "test": 0.2, "seed": 1, "stratify": False}
    by_patient |= {"group": "patient", "copies": "apart"}
    by_column = {"part": "part", "fold": "fold"}
    folds = {"kind": "cross_validation", "folds": 3}
    values = dict(zip(_FEATURES, (0.1, 0.7, 2.3), strict=False))
    together = {"blood": {"cost": 0.3, "features": ["a", "c"]}}
    errors = {label: 0.1 + k / 7 for k, label in enumerate(_CLASSES)}
    decision = {"errors": errors, "no_answer": 0.4, "per_stage": True, "thresholds": [0.1, 0.3]}
    magnitude = {"dataset": _records(positive="yes"), "gates": "magnitude", "measure": folds}
    magnitude |= {"training": {"epochs": 3}}
    groups = {"test": 0.2, "seed": 1, "stratify": False, "group": "patient", "copies": "together"}
    both = ["f1:no", "matthews"]
    mine = _records("label")
    return {
        "multistage": [
            {
                "dataset": mine,
                "split": by_patient,
                "costs": {"values": values, "default": 3.1, "panels": together},
                "threshold": {"c1": 0.3, "c2": 0.6},
                "measure": {"kind": "holdout"},
                "max_stages": 2,
                "remove_features": True,
                "error_costs": errors,
                "rates": ["f1:c1", "precision:c8", "matthews"],
                "subgroup": "site",
                "weights": "weight",
                "missing": "ask",
                "classifier": {"kind": "gaussian_nb"},
                "calibration": "sigmoid",
            },
            {
                "dataset": mine,
                "split": by_day,
                "costs": {"classes": [0, 1, 2, 3], "scale": "power", "factor": 2.5},
                "measure": folds,
                "decision": decision,
                "rates": ["recall:c3"],
                "max_stages": 2,
            },
            {
                "dataset": mine,
                "split": by_column,
                "costs": {"by_importance": 3},
                "measure": folds,
                "threshold": [0.3, 0.5, 0.8],
                "threshold_per_stage": True,
                "stage_cost": 0.7,
            },
            {
                "dataset": mine,
                "costs": {"path": str(_folder() / "costs.csv")},
                "measure": folds | {"repeats": 2},
                "error_costs": errors,
            },
        ],
        "rivals": [
            {
                "dataset": mine,
                "costs": {"values": values, "default": 3.1},
                "split": by_patient,
                "threshold": 0.4,
                "methods": ["single_stage"],
            }
        ],
        "network": [
            {
                "dataset": _records(positive="yes"),
                "split": by_patient | {"group": "patient"},
                "distinct": True,
                "hidden": [3],
                "gates": "neurons",
                "measure": {"kind": "holdout"},
                "thresholds": 8,
                "training": {"epochs": 3, "batch": 7, "learning_rate": 0.02, "seed": 3},
                "finetune": 1,
                "rates": both,
                "subgroup": "site",
            },
            magnitude | {"split": by_day},
            magnitude | {"split": by_column},
            magnitude | {"training": {"epochs": 2}, "measure": folds | {"repeats": 2}},
        ],
        "ensemble": [
            {
                "library": _library(
                    "measured", split=groups, balanced=True, keep_models=False, seed=2
                ),
                "measure": folds | {"repeats": 2},
                "max_count": 7,
                "score": ["roc_auc", "log_loss", "brier", "balanced_accuracy", "f1"],
                "positive": "no",
                "rates": both,
                "subgroup": "site",
            },
            {"library": _library("by_day", split=by_day, folds=3), "score": "log_loss"},
            {
                "library": _library(
                    "values",
                    dataset={**_records("a"), "columns": ["b", "c"]},
                    families=None,
                    split={"folds": 4, "fold": 1, "validation": 0.4},
                    task="regression",
                    repeats=1,
                    models=3,
                ),
                "measure": {"kind": "holdout"},
            },
        ],
        "pruning": [
            {
                "library": _library("votes", models=6),
                "measure": {"kind": "holdout"},
                "threshold": "majority",
                "positive": "no",
                "models": 5,
                "pair_measure": "q_statistic",
                "rates": both,
                "subgroup": "site",
            },
            {"library": _library("folds"), "measure": folds | {"repeats": 2}},
        ],
        "cascade": [
            {
                "calls": {
                    "library": _library("calls", measured=True),
                    "models": ["naive_bayes_1", "logistic_regression_1", "logistic_regression_2"],
                },
                "measure": folds | {"repeats": 2},
                "order": "free",
                "abstain": "early",
                "answer": "vote",
                "limit": 0.5,
                "errors": {"yes": {"no": 1.7}, "no": {"yes": 0.3}},
                "no_answer": 0.2,
                "calibrate": "consensus",
                "rates": both,
                "positive": "no",
                "subgroup": "site",
            },
            {
                "subgroup": "site",
                "calls": {
                    "path": str(_folder() / "calls.csv"),
                    "test": str(_folder() / "calls_test.csv"),
                    "layout": "wide",
                    "prices": {"m0": 0.1, "m1": 0.7, "m2": 2.3},
                    "costs": ["latency_ms", "cost"],
                },
            },
        ],
        "function": [{"name": "zdt2", "d": 4, "noise": 0.1}],
    }


WITHOUT_INSTANCE = {
    r"(.+\.)?dataset\..+": "a table before a problem reads it; tests/data has these keys",
    r"(.+\.)?build\.name": "a name",
    r"(ensemble|pruning)\.(costs|library\.build\.measured)": "costs of models: PROBLEMS has them",
    r"(.+\.)?build\.repeats": "measure.repeats sets it",
    r"(.+\.)?build\.latency": "a cost as any other",
    r"(pruning|cascade)\.(.+\.)?build\..+": "ensembles have them: libraries know no problem",
    r"rivals\.(split|costs)\..+": "multi-stage problems have them; one function reads both",
    r"cascade\.measure\.kind": "ensembles and prunings have it: one function reads it",
    r"(.+\.)?measure\.refit": "there is one value",
    r"python\..+": "a function comes from Python: PROBLEMS has one",
    r"(.+\.)?(keep_models)": "what is kept is not scored",
}
"""Keys that need none, as patterns behind the kind of problem, and why."""


@cache
def configured(kind: str, number: int) -> Problem:
    """Return the problem of a configuration."""
    problem: type[Any] = registry.load("problems", kind)
    config = problem.Config.model_validate(configurations()[kind][number])
    made: Problem = problem.from_config(config)
    return made


def keys(section: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a section, without those of the sections within, and defaults."""
    for name, field in section.model_fields.items():
        types = list(_types(field.annotation))
        inner = [] if dict in types else [t for t in types if issubclass(t, BaseModel)]
        if not inner:
            yield f"{before}{name}", field.get_default(call_default_factory=True)
        for part in inner:
            yield from keys(part, f"{before}{name}.")


def named(raw: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys that a configuration names, at all depths, and their values."""
    for name, value in raw.items():
        yield f"{before}{name}", value
        if isinstance(value, Mapping):
            yield from named(value, f"{before}{name}.")


def _types(annotation: Any) -> Iterator[type]:
    plain = get_origin(annotation) or annotation
    if isinstance(plain, type):
        yield plain
    for part in get_args(annotation):
        yield from _types(part)
