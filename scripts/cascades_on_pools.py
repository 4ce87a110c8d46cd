"""Cascades beside ensembles of the same scikit-learn models at equal time per record.

    python scripts/cascades_on_pools.py --splits 10 [--rows FILE]

needs the data that PARETOLAB_DATA names. Ten sets (two of scikit-learn's own), nine models each,
from a small tree to forests; three quarters of the records to fit on and to choose, out-of-fold,
the rest to test. What a model takes is processor time of one thread for a batch of 1,000 records,
in microseconds a record; a cascade takes, for each of its models, what any call takes, and the rest
for the records that come to it. At each of seven budgets between the quickest and the slowest model
every method hands out what is most accurate out-of-fold among what it promises to take no longer,
and the figure is its test accuracy, mean of the budgets:

- ``single``: one model;
- ``weighted``: every weighted ensemble with counts of 0, 1 and 2;
- ``pruned``: every subset by majority vote (of two classes);
- ``cascade``: at most three models, a stage answers with the mean of all asked so far, the hull
  by calibrated outcomes, as in configs/cascade/quickstart.yaml;
- ``pairs``: ``ParetoCascade`` as it is by default: pairs in which the last model asked answers;
- ``routed``: as ``pairs``, each also behind a router, a logistic regression on the features;
- ``whole``: as ``cascade``, but the whole front by raw outcomes;
- ``consensus``: the whole front by outcomes that are calibrated by the consensus of all models.

Printed are the means of the splits, and of each kind of cascade against each other method: by how
much it is ahead (mean and standard error over sets), on how many sets and splits, the range of the
splits, and what is left without the set that gives most. ``best`` is whichever of the others turns
out best on a set, which nobody can choose beforehand. Splits that FILE has are not run again.

With ``--lazy`` the cascades that were handed out predict batches of 1,000 test records, and what
this takes is set beside what was promised, and beside what the calls made add up to.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from algorithms.cascade.exact import ExactCascades
from algorithms.cascade.model import CascadeClassifier
from algorithms.cascade.problem import CascadeProblem
from algorithms.cascade.router import Router, cross_fitted_scores
from algorithms.cascade.routing import Routing
from algorithms.ensembling.problem import EnsembleProblem
from algorithms.pruning.problem import PruningProblem
from framework.arrays import Array, FloatArray
from framework.data.datasets import DatasetConfig, load_table
from framework.estimators.search import roles_for
from framework.libraries.calls import CallTable
from framework.libraries.library import Library
from framework.problem import Problem
from framework.streams import CandidateStreams

SETS = (
    "breast_cancer", "digits", "spambase", "default_credit", "bank_marketing", "messidor_drd",
    "qsar_biodeg", "german", "pima", "hill_valley",
)  # fmt: skip
CASCADES: Mapping[str, Mapping[str, Any]] = {
    "cascade": {"answer": "cumulative_mean", "max_models": 3},
    "pairs": {},
    "routed": {},
    "whole": {
        "answer": "cumulative_mean", "max_models": 3, "outcomes": "raw", "front": "whole"
    },
    "consensus": {
        "answer": "cumulative_mean", "max_models": 3, "calibrate": "consensus", "front": "whole"
    },
}  # fmt: skip
METHODS = ("single", "weighted", "pruned", *CASCADES)
BUDGETS, BATCH = 7, 1000
TEST = 0.25  # of the records
_MOST = 4000  # records of a set
_REPEATS = 5
_PARTS = 10  # of a batch: a small one tells what any call takes


def pool() -> dict[str, Any]:
    """Return the models, none of them fitted."""
    return {
        "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
        "linear": LogisticRegression(max_iter=500),
        "bayes": GaussianNB(var_smoothing=1e-6),
        "lda": LinearDiscriminantAnalysis(),
        "network": MLPClassifier((32,), max_iter=150, random_state=0),
        "neighbours": KNeighborsClassifier(15),
        "boosted": HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "forest": RandomForestClassifier(100, min_samples_leaf=2, random_state=0),
        "extra": ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0),
    }


def data_of(name: str) -> tuple[FloatArray, Array]:
    """Return features and labels, at most 4,000 records."""
    own = name in ("breast_cancer", "digits")  # scikit-learn's
    table = load_table(DatasetConfig.model_validate({"sklearn" if own else "name": name}))
    X = table.fit_encoder(table.features).transform(table.features)
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    keep = np.random.default_rng(0).permutation(len(X))[:_MOST]
    return X[keep], table.labels[keep]


def taken(call: Callable[[], Any]) -> float:
    """Return the processor time of a call in seconds: the median of several, after one."""
    call()
    found = []
    for _ in range(_REPEATS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return float(np.median(found))


def times_of(models: Mapping[str, Any], records: FloatArray) -> FloatArray:
    """Return the time of each model for some records, in microseconds a record of a batch."""
    return np.array(
        [1e6 / BATCH * taken(partial(m.predict_proba, records)) for m in models.values()]
    )


class Split(NamedTuple):
    """The library of a split, the models fitted on all its records, the test records, a router."""

    library: Library
    models: Mapping[str, Any]
    X_test: FloatArray
    routing: Routing


def split_of(X: FloatArray, y: Array, seed: int) -> Split:
    """Return a split of a data set."""
    X_fit, X_test, y_fit, y_test = train_test_split(
        X, y, test_size=TEST, random_state=seed, stratify=y
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that have not converged, collinear features
        told = [
            cross_val_predict(model, X_fit, y_fit, cv=5, method="predict_proba")
            for model in pool().values()
        ]
        models = {name: clone(model).fit(X_fit, y_fit) for name, model in pool().items()}
    batch = X_fit[np.resize(np.arange(len(X_fit)), BATCH)]
    whole, part = (times_of(models, rows) for rows in (batch, batch[: BATCH // _PARTS]))
    fixed = np.clip((_PARTS * part - whole) / (_PARTS - 1), 0.0, whole)
    tested = np.stack([model.predict_proba(X_test) for model in models.values()])
    library = Library.from_arrays(
        list(models),
        np.stack(told),
        y_fit,
        np.unique(y).tolist(),
        {"time": whole, "call": fixed},
        test=tested,
        y_test=y_test,
    )
    right = dict(zip(library.ids, CallTable.of(library).right, strict=True))
    router = Router()
    scores = cross_fitted_scores(router, X_fit, right, 5, seed)
    router.fit(X_fit, right)
    one = 1e6 / BATCH * taken(partial(router.scores, batch, ["forest"]))
    routing = Routing(scores, {"time": one}, router.scores(X_test, list(models)))
    return Split(library, models, X_test, routing)


def fronts_of(split: Split) -> Iterator[tuple[str, Problem, Array, str]]:
    """Yield of each method its problem, what it chooses from, and the metric it chooses by."""
    library = split.library
    k = len(library)
    counts = np.array(list(itertools.product(range(3), repeat=k)))[1:]
    weighted = EnsembleProblem(library, max_count=2, score="accuracy")
    alone = np.eye(k, dtype=weighted.space.dtype)
    yield "single", weighted, alone, "accuracy"
    yield "weighted", weighted, counts.astype(weighted.space.dtype), "accuracy"
    if len(library.classes or ()) == 2:
        pruned = PruningProblem(library, threshold="majority")
        subsets = counts[counts.max(axis=1) == 1].astype(pruned.space.dtype)
        yield "pruned", pruned, subsets, "accuracy"
    fixed = {"time": library.costs["call"].values}
    calls = [CallTable.of(library, part, ["time"], fixed) for part in ("validation", "test")]
    for name, options in CASCADES.items():
        known = dict(options)
        problem = CascadeProblem(
            calls[0],
            test=calls[1],
            answer=known.pop("answer", "own"),
            calibrate=known.pop("calibrate", "confidences"),
            routing=split.routing if name == "routed" else None,
        )
        roles = roles_for(problem, ["calibrated_accuracy", "accuracy", "time"])
        search = ExactCascades(problem, roles, seed=0, **known)
        X = search.propose()
        assert X is not None
        yield name, problem, X, search.metric


def rows_of(name: str, seed: int, lazy: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each method and budget of one split."""
    X, y = data_of(name)
    split = split_of(X, y, seed)
    times = split.library.costs["time"].values
    budgets = np.geomspace(times.min(), times.max(), BUDGETS)
    for method, problem, genomes, metric in fronts_of(split):
        streams = CandidateStreams(seed, np.arange(len(genomes)))
        values = problem.evaluate(genomes, streams)
        for number, budget in enumerate(budgets):
            best = picked(values, metric, budget)
            tested = problem.evaluate_test(genomes[best : best + 1], streams)
            assert tested is not None
            row = {
                "set": name,
                "split": seed,
                "method": method,
                "budget": number,
                "promised": values[metric][best],
                "accuracy": tested["accuracy"][0],
                "time": values["time"][best],
                "test time": tested["time"][0],
            }
            if lazy and isinstance(problem, CascadeProblem) and problem.routes is None:
                row |= lazily(problem, genomes[best], split)
            yield row


def picked(values: Mapping[str, Array], metric: str, budget: float) -> int:
    """Return the position of what is best by a metric within a time, of two alike the quicker."""
    within = values["time"] <= budget * (1 + 1e-9)
    return int(np.lexsort((values["time"], -np.where(within, values[metric], -1)))[0])


def lazily(problem: CascadeProblem, x: Array, split: Split) -> dict[str, float]:
    """Return what a cascade takes for a batch, and what its calls add up to, a record."""
    policy, library, X = problem.policy(x).policy, split.library, split.X_test
    asked = {name: split.models[name] for name in policy.models}
    model = CascadeClassifier.of_policy(asked, policy, library.classes or ())
    batch = X[np.resize(np.arange(len(X)), BATCH)]
    rows = [library.ids.index(name) for name in policy.models]
    whole, fixed = (library.costs[name].values[rows] for name in ("time", "call"))
    asked_of = np.concatenate([[0.0], np.cumsum(whole - fixed)])[model.calls(batch)]
    calls = fixed.sum() + asked_of.mean()
    return {
        "lazy": 1e6 / BATCH * taken(lambda: model.predict_proba(batch)),
        "calls": float(calls),
        "models": len(rows),
    }


def main() -> None:
    """Print the accuracy of each method on each set, and how often cascades are ahead."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first split's number")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--rows", help="a CSV file of every split, method and budget; it goes on")
    args = parser.parse_args()
    wanted = range(args.first, args.first + args.splits)
    path = None if args.rows is None else Path(args.rows)
    frame = pd.read_csv(path) if path is not None and path.exists() else pd.DataFrame()
    for seed in wanted:
        if len(frame) and (frame["split"] == seed).any():
            continue
        rows = [row for name in args.sets for row in rows_of(name, seed, args.lazy)]
        frame = pd.concat([frame, pd.DataFrame(rows)], ignore_index=True)
        if path is not None:
            frame.to_csv(path, index=False)
        print(f"split {seed} is done", flush=True)
    _report(frame[frame["split"].isin(wanted)])


def accuracies(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the test accuracy of each method, mean of the budgets, by set and split."""
    found = frame.groupby(["set", "split", "method"])["accuracy"].mean().unstack()
    return found[[m for m in METHODS if m in found]]


def ahead(found: pd.DataFrame) -> pd.DataFrame:
    """Return by how much cascades are ahead of the other methods, from :func:`accuracies`."""
    others = [m for m in ("single", "weighted", "pruned") if m in found]
    rows = {}
    for method, other in itertools.product([m for m in CASCADES if m in found], [*others, "best"]):
        if other == "best":
            means = found[others].groupby("set").mean()
            best = means.idxmax(axis=1)
            rival = pd.Series([found.loc[at, best[at[0]]] for at in found.index], found.index)
        else:
            rival = found[other]
        gains = (found[method] - rival).dropna()
        by_set, by_split = gains.groupby("set").mean(), gains.groupby("split").mean()
        rows[method, other] = {
            "gain": by_set.mean(),
            "error": by_set.std() / np.sqrt(len(by_set)),
            "sets ahead": f"{(by_set > 0).sum()} of {len(by_set)}",
            "splits ahead": f"{(by_split > 0).sum()} of {len(by_split)}",
            "worst split": by_split.min(),
            "best split": by_split.max(),
            "most by": by_set.idxmax(),
            "without it": by_set.drop(by_set.idxmax()).mean(),
        }
    return pd.DataFrame(rows).T


def _report(frame: pd.DataFrame) -> None:
    found = accuracies(frame)
    print(f"{frame['split'].nunique()} splits")
    print(found.groupby("set").mean().to_string(float_format="{:.4f}".format))
    print(ahead(found).to_string(float_format="{:+.4f}".format))
    by_set = (found["consensus"] - found["weighted"]).groupby("set")
    print("consensus against weighted ensembles, by set")
    told = by_set.agg(["mean", "min", "max"]).assign(ahead=by_set.agg(lambda g: (g > 0).sum()))
    print(told.to_string(float_format="{:+.4f}".format))
    own = frame[frame["method"].isin(CASCADES)]
    print("test time / promised:", (own["test time"] / own["time"]).describe().round(3).to_dict())
    if "lazy" in own:
        chains = own[own["models"] > 1]
        sizes = np.array(["0 to 1", "1 to 3", "3 to 10", "from 10"])
        size = sizes[np.digitize(chains["time"], (1, 3, 10))]
        for what in ("time", "calls"):
            ratio = (chains["lazy"] / chains[what]).groupby(size)
            print(f"measured / {'promised' if what == 'time' else 'its calls'}, by microseconds")
            print(ratio.describe()[["count", "25%", "50%", "75%"]].round(3).to_string())


if __name__ == "__main__":
    main()
