"""Answers and measures, beside scikit-learn and one record at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from framework.answers import AnswerOutcomes, Answers, Records, Size, measured
from framework.errors import InputError
from framework.measures import OverClasses, Ratio, Tables, rates, samples_of
from framework.roles import Metric

COST = Metric("cost", "min", "ratio", high=9.0)


def drawn(seed, n=5, records=40, classes=3, alike=()):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, records)
    about = Records(
        labels, tuple("abc"[:classes]), 1, rng.integers(0, 3, records), rng.integers(0, 2, records)
    )
    codes = rng.integers(-1, classes, (n, records))
    paid = {"cost": rng.integers(0, 9, (n, records)), "call": rng.integers(0, 9, (n, 1))}
    failed = np.arange(n) == 2
    return Answers(about, codes, paid, {"size": rng.random(n)}, {"cost": 0.5}, failed, alike)


def measures(classes=3):
    tables, every = Tables(classes), np.ones(classes, dtype=bool)
    recalls = [tables.ratio(Metric("recall", "max"), "recall", k) for k in range(classes)]
    return (
        tables.ratio(Metric("accuracy", "max"), "accuracy"),
        tables.ratio(Metric("precision", "max"), "precision", 1),
        OverClasses(Metric("balanced", "max"), recalls),
        OverClasses(Metric("worst", "max"), recalls, least=True),
        Ratio(COST, 0 * tables.everyone, tables.everyone, every, ("cost",), per=2),
        Size(Metric("size", "min")),
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.sampled_from([2, 3]))
def test_metrics_are_those_of_the_records_that_get_an_answer(seed, classes):
    answers = drawn(seed, classes=classes)
    about, weights = answers.records, answers.records.weights
    values = measured(answers, measures(classes))
    for i, said in enumerate(answers.codes):
        some = (said >= 0) & (weights > 0)
        if i == 2:
            assert all(np.isnan(column[i, 0]) for column in values.values())
            continue
        if not some.any():
            continue
        true, called, w = about.labels[some], said[some], weights[some]
        expected = {
            "accuracy": metrics.accuracy_score(true, called, sample_weight=w),
            "precision": metrics.precision_score(
                true == 1, called == 1, sample_weight=w, zero_division=0.0
            ),
            "cost": 0.5 * (answers.paid["cost"][i] @ weights) / (2 * weights.sum()),
            "size": answers.sizes["size"][i],
        }
        recalls = []
        for k in np.unique(about.labels[weights > 0]):
            of = weights * (said >= 0) * (about.labels == k)
            recalls.append((of @ (said == k)) / max(of.sum(), 1))
        expected |= {"balanced": np.mean(recalls), "worst": np.min(recalls)}
        for name, value in expected.items():
            assert values[name][i, 0] == pytest.approx(value, abs=1e-12), name


def test_blocks_candidates_and_names_are_looked_at_alone(monkeypatch):
    answers, of = drawn(1), measures()
    whole = measured(answers, of, np.ones((40, 3)))
    monkeypatch.setattr("framework.answers._CELLS", 1)
    for name, column in measured(answers, of, np.ones((40, 3))).items():
        assert np.array_equal(column, whole[name], equal_nan=True)
    outcomes = AnswerOutcomes.of(of, answers)
    some = outcomes.metrics(np.ones((40, 1)), np.array([3, 0]), ["cost"])
    assert list(some) == ["cost"]
    assert np.array_equal(some["cost"][:, 0], whole["cost"][[3, 0], 0])
    monkeypatch.setattr("framework.answers._TOGETHER", 80)  # two candidates at a time
    once = np.ones((40, 1))
    for name, column in outcomes.metrics(once).items():
        assert np.array_equal(column[:, 0], whole[name][:, 0], equal_nan=True)
    assert [len(share) for share in outcomes.figures(once)[1].values()] == [5] * 5
    assert all(len(end) == 5 for ends in outcomes.ends().values() for end in ends)


def test_it_matters_which_class_was_said_only_where_a_measure_asks():
    answers = drawn(2, alike=(0, 2))
    assert measured(answers, measures()[:1])["accuracy"].shape == (5, 1)
    assert measured(answers, rates(["precision:b", "recall:a"], "abc"))
    for name in ("precision:a", "matthews"):
        with pytest.raises(ValueError, match="expected answers that name their class"):
            measured(answers, rates([name], "abc"))


def test_sums_that_would_be_rounded_are_refused():
    answers = drawn(3)
    tables, every = Tables(3), np.ones(3, dtype=bool)
    dear = Ratio(COST, 10**15 * tables.everyone, tables.everyone, every)
    with pytest.raises(InputError, match=r"expected sums below 2\^53 units"):
        measured(answers, [dear])


def test_means_over_records_can_be_certified_and_others_not():
    answers = drawn(4).take(np.array([0]))
    found = samples_of(measures(), answers, {"cost": 8.0})
    assert set(found) == {"accuracy", "precision", "worst", "cost"}
    assert len(found["worst"]) == 3
    (cost,) = found["cost"]
    assert (cost.records, cost.high, cost.share) == (40, 4.0, False)
