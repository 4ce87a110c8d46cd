"""The means over records that a certificate is about, counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.multistage.metrics import COST, METRICS, RISKS, measures_of
from framework.answers import Answers, Records
from framework.measures import samples_of


def test_metrics_are_counted_one_by_one():
    rng = np.random.default_rng(3)
    codes, given = rng.integers(0, 2, 200), rng.integers(-1, 2, 200)
    paid = rng.uniform(0, 10, 200)
    reported = [metric for metric in METRICS if metric not in RISKS]
    measures = measures_of(reported, 3, 1, 10, np.array([1.0, 4.0, 2.0]))
    records = Records(codes, ("a", "b", "c"), 1)
    answers = Answers(records, given[np.newaxis], {COST: 10 * paid[np.newaxis]})
    found = samples_of(measures, answers, {COST: 100.0})
    answered = [(y, a) for y, a in zip(codes.tolist(), given.tolist(), strict=True) if a >= 0]
    negatives = [a for y, a in answered if y == 0]
    positives = [a for y, a in answered if y == 1]

    def only(name):
        (sample,) = found[name]
        return sample.mean, sample.records

    assert only("coverage") == (len(answered) / 200, 200)
    assert only("inconclusive_rate")[0] == pytest.approx(1 - len(answered) / 200)
    right = sum(y == a for y, a in answered)
    assert only("accuracy") == (right / len(answered), len(answered))
    assert only("false_positive_rate") == (negatives.count(1) / len(negatives), len(negatives))
    assert only("false_negative_rate") == (positives.count(0) / len(positives), len(positives))
    assert only("recall") == (positives.count(1) / len(positives), len(positives))
    assert only("cost")[0] == pytest.approx(paid.mean())
    wrong = sum(4.0 if y else 1.0 for y, a in answered if a != y)
    assert only("error_cost")[0] == pytest.approx(wrong / 200)
    recalls = [negatives.count(0) / len(negatives), positives.count(1) / len(positives), 0.0]
    assert [s.mean for s in found["worst_recall"]] == recalls
    assert found["worst_recall"][2].records == 0  # of a class that is not there nothing is proven
    assert not found["cost"][0].share
    assert found["cost"][0].high == 10
    assert found["error_cost"][0].high == 4
