"""The data sets of ``promises.py``, and what a front of one split promises and is worth."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import choose, parse_condition
from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.estimators.search import roles_for
from framework.experiment.expected import (
    Evidence,
    evidence,
    expectation,
    sure_front,
    tightened,
    with_expected,
)
from framework.experiment.single_run import tested
from framework.front import Front
from framework.journal import Journal
from framework.registry import load
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

ROOT = Path(__file__).resolve().parents[1]
OBJECTIVES = ("coverage", "accuracy", "cost")
MEASURES = ("holdout", "cross_validation")
COVERAGES = (0.7, 0.8, 0.9)  # at which accuracies are compared
LIMITS = np.arange(0.5, 0.99, 0.02)  # on coverage, of the picks that they are read between
SURE = 90
DRAWN = 200  # designs of a first generation: what they claim in excess is the luck of a split

Row = dict[str, Any]


class Case(NamedTuple):
    """A data set: its problem, the accuracy that the cheapest pick must have, many test records."""

    problem: Mapping[str, Any]
    accuracy: float
    large: bool


def _of_paper(name: str) -> Mapping[str, Any]:
    raw = yaml.safe_load((ROOT / f"configs/emsco/{name}.yaml").read_text("utf-8"))["problem"]
    return {key: value for key, value in raw.items() if key not in ("kind", "measure", "split")}


def _few(records: int) -> Mapping[str, float]:
    """Return a split with 400 records to train on and 200 to search on."""
    return {"train": 400 / records, "validation": 200 / records, "test": 1 - 600 / records}


CASES: Mapping[str, Case] = {
    "pima": Case(_of_paper("pima"), 0.77, large=False),
    "heart": Case(_of_paper("heart"), 0.85, large=False),
    "credit": Case(_of_paper("credit"), 0.88, large=False),
    "default credit": Case(
        {
            "dataset": {
                "name": "default_credit",
                "columns": [
                    "LIMIT_BAL", "EDUCATION", "AGE", "PAY_0", "PAY_2", "PAY_3", "BILL_AMT1",
                    "PAY_AMT1", "PAY_AMT2",
                ],
            },
            "split": _few(30_000),
            "max_stages": 4,
        },
        0.82,
        large=True,
    ),
    "synthetic": Case(
        {
            "dataset": {
                "synthetic": {
                    "samples": 20_600, "features": 8, "informative": 5, "class_sep": 1.5, "seed": 1
                }
            },
            "split": _few(20_600),
            "max_stages": 4,
        },
        0.87,
        large=True,
    ),
}  # fmt: skip


def rules_of(case: Case) -> dict[str, dict[str, Any]]:
    """Return what ``choose`` is asked for, by name."""
    return {
        "best accuracy": {"where": ["coverage>=0.85"], "best": "accuracy"},
        "least cost": {
            "where": [f"accuracy>={case.accuracy:g}", "coverage>=0.8"],
            "best": "cost",
        },
        "knee": {},
        "sum": {"weights": dict.fromkeys(OBJECTIVES, 1.0)},
    }


def problem_of(case: Case, split: int, measure: str) -> MultiStageProblem:
    plain = dict(case.problem)
    plain |= {"split": {**plain.get("split", {}), "seed": split}, "measure": {"kind": measure}}
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(plain))


def measured(name: str, split: int, measure: str, evaluations: int) -> Row:
    """Search one split, let each rule pick, and look at the test records."""
    case = CASES[name]
    problem = problem_of(case, split, measure)
    roles = roles_for(problem, OBJECTIVES)
    searched = load("algorithms", "emsco")(problem, roles, seed=split, population=DRAWN)
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(
            Path(folder) / "journal.bin",
            {"split": split},
            metrics=problem.metric_names,
            d=problem.space.d,
            dtype=problem.space.dtype,
        ) as journal,
    ):
        budget = Budget(evaluations=evaluations)
        evaluator = SerialEvaluator(problem, split)
        front = search(problem, searched, evaluator, budget=budget, journal=journal)
        front = tested(front, problem, split)
        between = time.perf_counter()
        found = evidence(journal, problem, split)
        assert found is not None
        front, _ = with_expected(front, found)
        ended = time.perf_counter()
    true = problem.evaluate_test(found.X)
    assert true is not None
    records = found.resamples.outcomes.records
    row: Row = {"set": name, "split": split, "measure": measure, "evaluations": evaluations}
    row |= {"seconds": between - started, "resampling": ended - between, "records": records}
    row |= {"designs": len(found.ids), "front": len(front), "tested": problem.data.n_test}
    rules = rules_of(case)
    row["rules"] = {key: picked(rule, front, found, true, row) for key, rule in rules.items()}
    row["equal"] = accuracies_at(front)
    row["members"] = members(front, found, row)
    drawn = found.ids < DRAWN
    row["luck"] = {
        metric: float(np.nanmean(found.values[metric][drawn] - true[metric][drawn]))
        for metric in OBJECTIVES
    }
    return row


def picked(
    rule: Mapping[str, Any],
    front: Front,
    found: Evidence,
    true: Mapping[str, FloatArray],
    row: Row,
) -> Row:
    """Return what a rule's pick promises and is worth, with and without ``--sure``.

    None stands for no pick. ``reachable`` says whether a design that was evaluated meets the limits
    on the test records, where all have the figures ``true``.
    """
    where = [parse_condition(text) for text in rule.get("where", ())]
    answer: Row = {}
    try:
        answer["pick"] = worth(choose(front, **rule), rule, front, found, row)
    except InputError:  # nothing on the front claims to meet the limits
        answer["pick"] = None
    if not where:
        return answer
    met = np.all([condition.holds(true[condition.metric]) for condition in where], axis=0)
    answer["reachable"] = bool(met.any())
    try:
        sure = sure_front(found, front, where, SURE)
        id = sure.front.ids[choose(sure.front, **rule)]
        guarded = {**rule, "where": tightened(sure, where)}
        answer["sure"] = worth(int(np.searchsorted(front.ids, id)), guarded, front, found, row)
    except InputError:
        answer["sure"] = None
    for key in ("pick", "sure"):
        values = answer[key]
        broken = values and not all(c.holds(np.array(values[c.metric][2])) for c in where)
        answer[f"{key} broken"] = bool(broken)
    return answer


def worth(
    position: int, rule: Mapping[str, Any], front: Front, found: Evidence, row: Row
) -> dict[str, list[float]]:
    """Return of each objective: claimed, expected, true, low, high, standard error of true.

    The last is that of so many test records, by the spread over resamples of the records searched.
    """
    known = expectation(found, front, position, **rule).of
    errors = test_errors(found, front.ids[position : position + 1], row)
    assert front.test is not None
    return {
        metric: [
            *known[metric][:2],
            float(front.test[metric][position]),
            known[metric].low,
            known[metric].high,
            float(errors[metric][0]),
        ]
        for metric in OBJECTIVES
    }


def test_errors(found: Evidence, ids: IntArray, row: Row) -> dict[str, FloatArray]:
    """Return the standard errors of designs on the test records, by their spread over resamples."""
    over = found.resamples.outcomes.metrics(found.resamples.weights, found.positions(ids))
    fewer = math.sqrt(row["records"] / row["tested"])
    return {metric: over[metric].std(axis=1) * fewer for metric in OBJECTIVES}


def members(front: Front, found: Evidence, row: Row) -> dict[str, list[float]]:
    """Return of each objective what :func:`worth` says, as means over all solutions of a front.

    To the six figures come the shares of the ranges that hold the truth, without and with the noise
    of the test records.
    """
    errors = test_errors(found, front.ids, row)
    assert front.test is not None
    assert front.expected is not None
    means = {}
    for metric in OBJECTIVES:
        known = [
            front.expected[name]
            for name in (f"expected_{metric}", f"{metric}_low", f"{metric}_high")
        ]
        claimed, true = front.rows.values[metric], front.test[metric]
        values = np.column_stack([claimed, known[0], true, *known[1:], errors[metric]])
        values = values[~np.isnan(true)]  # an accuracy without an answer is none
        held = [holds(values, noise) for noise in (False, True)]
        means[metric] = [float(column.mean()) for column in (*values.T, *held)]
    return means


def holds(values: FloatArray, noise: bool) -> FloatArray:
    """Return which ranges hold the truth, with the noise of the test records where asked."""
    _, expected, true, low, high, error = values.T
    more = (1.96 * error) ** 2 if noise else 0.0
    low = expected - np.sqrt((expected - low) ** 2 + more)
    high = expected + np.sqrt((high - expected) ** 2 + more)
    return np.asarray((low - 1e-12 <= true) & (true <= high + 1e-12), dtype=np.float64)


def accuracies_at(front: Front) -> list[float | None]:
    """Return the true accuracy of picks at each of ``COVERAGES``; None where none covers so much.

    The rule for the best accuracy is asked with many limits on coverage. Between two of its picks
    lots are drawn, so that the share of right answers is linear in the coverage. Where all cover
    more than is asked for, it is that of the pick that covers least.
    """
    picks = set()
    for limit in LIMITS:
        try:
            picks.add(int(choose(front, where=[f"coverage>={limit:g}"], best="accuracy")))
        except InputError:
            break
    if not picks or front.test is None:
        return [None] * len(COVERAGES)
    at = sorted(picks)
    coverage, accuracy = front.test["coverage"][at], front.test["accuracy"][at]
    order = np.argsort(coverage, kind="stable")
    coverage, right = coverage[order], (accuracy * coverage)[order]
    at_least = np.maximum(COVERAGES, coverage[0])
    found = np.interp(at_least, coverage, right) / at_least
    known = at_least <= coverage[-1]
    return [float(a) if k else None for a, k in zip(found, known, strict=True)]
