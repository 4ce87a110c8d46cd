"""A multi-stage problem on a made-up table, with a cache of its own."""

import numpy as np
import pandas as pd

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from framework.data.datasets import load_table
from framework.data.splits import measure_folds, split_records
from framework.experiment.config import check
from framework.store import KeyValue, title_of

COSTS = {"a": 0.1, "b": 3, "c": 2.5, "colour": 7, "d": 0}
NAMES = list(COSTS)
FOLDS = {"kind": "cross_validation", "folds": 4}


def config_of(table_file, positive=None, **more):
    raw = {
        "dataset": {"path": str(table_file), "target": "label", "positive": positive},
        "costs": {"values": COSTS},
        "measure": {"kind": "holdout"},
        "threshold": 0.7,
        "max_stages": 4,
        **more,
    }
    return check(MultiStageConfig, raw, "problem")


def problem_of(table_file, **more):
    return MultiStageProblem.from_config(config_of(table_file, **more))


def parts_of(config):
    """Return the table, the records of the folds, those to test on, and each one's fold."""
    table = load_table(config.dataset)
    split = split_records(table.labels, config.split)
    pooled = np.sort(np.concatenate([split.train, split.validation]))
    seed = config.split.seed
    fold_of = measure_folds(table.labels[pooled], config.measure, seed, table.classes)
    return table, pooled, split.test, fold_of


def patients(n=400, seed=0):
    """Return records of three features and their classes, of which the last is rare."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    z = X.sum(axis=1) + rng.normal(size=n)
    return X, np.where(z > 2.6, "shock", np.where(z > 1.2, "sepsis", "ok"))


def genomes(problem, size=12):
    return problem.space.sample(np.random.default_rng(1), size)


def stored(cache):
    (file,) = cache.glob("*.bin")
    with file.open("rb") as opened:
        title = title_of(opened).decode()
    return len(KeyValue(file, title).keys())
