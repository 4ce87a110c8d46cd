"""Votes, confusion matrices, diversity and costs of pruned ensembles, record by record."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.moves.bits import pack, unpack
from algorithms.pruning import votes as kernels
from algorithms.pruning.diversity import NAMES, Demand, demand_of, pair_table, weighted_pair_tables
from algorithms.pruning.problem import PruningConfig, PruningProblem
from algorithms.pruning.votes import VoteTable, Weights, weights_of
from framework.errors import InputError
from framework.libraries.library import Library
from tests.made_up_libraries import checked, made_up


def slow_metrics(problem, members, threshold, P, y, failures):
    """Count one ensemble's votes record by record."""
    picked = [k for k in range(len(members)) if members[k]]
    cells = Counter()  # by what a record is and what it is called
    for record, label in enumerate(y):
        p = [float(P[k, record]) for k in picked]
        votes = sum(v > 0.5 if problem.positive == 1 else v < 0.5 for v in p)
        cells[bool(label == problem.positive), bool(votes > threshold)] += 1
    tp, fn = cells[True, True], cells[True, False]
    fp, tn = cells[False, True], cells[False, False]
    credits = []
    for k in picked:
        own = Fraction(0)
        for other in picked:
            if other != k:
                one = int((failures[k] != failures[other]).sum())
                total = int(failures[k].sum() + failures[other].sum())
                own += Fraction(one, total) if total else 0
        credits.append(own / max(len(picked) - 1, 1))
    single = len(picked) == 1
    return {
        "accuracy": Fraction(tp + tn, len(y)),
        "balanced_accuracy": (Fraction(tp, tp + fn) + Fraction(tn, tn + fp)) / 2,
        "true_positive_rate": Fraction(tp, tp + fn),
        "true_negative_rate": Fraction(tn, tn + fp),
        "false_positive_rate": Fraction(fp, tn + fp),
        "false_negative_rate": Fraction(fn, tp + fn),
        "members": len(picked),
        "pfc_min": 0 if single else min(credits),
        "pfc_mean": 0 if single else sum(credits) / len(picked),
        **{
            name: sum(problem.library.costs[name].values[k] for k in picked)
            for name in problem.costs
        },
    }


@pytest.mark.parametrize("threshold", ["gene", "majority"])
@pytest.mark.parametrize("positive", [None, "no"])
@pytest.mark.parametrize("k", [5, 70])
def test_metrics_are_those_counted_record_by_record(threshold, positive, k):
    library = made_up(k=k)
    problem = PruningProblem(library, threshold=threshold, positive=positive)
    X = problem.space.sample(np.random.default_rng(1), 12)
    members, thresholds = problem.split(X)
    votes, truth = problem._votes(library.validation, library.y_validation)
    failures = votes != truth
    tables = [
        (problem.evaluate(X), library.validation, library.y_validation),
        (problem.evaluate_test(X), library.test, library.y_test),
    ]
    for found, P, y in tables:
        for row in range(len(X)):
            slow = slow_metrics(problem, members[row], thresholds[row], P, y, failures)
            for name, value in slow.items():
                assert found[name][row] == pytest.approx(float(value), rel=1e-12), name


def test_a_tie_of_probabilities_is_a_negative_vote():
    P = np.array([[0.5, 0.5, 0.9, 0.1], [0.4, 0.6, 0.5, 0.5]])
    library = Library.from_arrays(["a", "b"], P, ["x", "y", "y", "x"], ["x", "y"])
    for positive, expected in (
        ("y", [[0, 0, 1, 0], [0, 1, 0, 0]]),
        ("x", [[0, 0, 0, 1], [1, 0, 0, 0]]),
    ):
        problem = PruningProblem(library, positive=positive)
        votes, _ = problem._votes(library.validation, library.y_validation)
        assert votes.astype(int).tolist() == expected


def test_majority_is_the_threshold_at_half_of_the_members():
    library = made_up(k=9)
    free, fixed = PruningProblem(library), PruningProblem(library, threshold="majority")
    members = fixed.space.sample(np.random.default_rng(0), 30)
    genomes = np.column_stack([members, members.sum(axis=1) // 2])
    a, b = free.evaluate(genomes), fixed.evaluate(members)
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_class_missing_from_the_test_records_has_rates_of_zero():
    library = made_up()
    only = library.y_test == 1
    labels = np.array(library.classes)[library.y_test[only]]
    problem = PruningProblem(checked(library, test=library.test[:, only], y_test=labels))
    found = problem.evaluate_test(problem.space.sample(np.random.default_rng(0), 5))
    assert (found["true_negative_rate"] == 0).all()
    assert np.array_equal(found["balanced_accuracy"], found["true_positive_rate"])
    assert all(np.isfinite(column).all() for column in found.values())


@given(st.integers(1, 130), st.integers(1, 20), st.integers(0, 99))
def test_bits_are_packed_and_unpacked(k, n, seed):
    rows = np.random.default_rng(seed).random((n, k)) < 0.5
    assert np.array_equal(unpack(pack(rows), k), rows)


@given(st.integers(1, 70), st.integers(1, 30), st.integers(0, 99))
def test_histograms_count_votes(k, n, seed):
    rng = np.random.default_rng(seed)
    votes, y = rng.random((k, n)) < 0.5, rng.random(n) < 0.5
    table, X = VoteTable.of(votes, y), rng.random((3, k)) < 0.4
    found = table.histograms(X)
    for r in range(3):
        counted = (votes & X[r][:, None]).sum(axis=0)
        for c in (0, 1):
            assert np.array_equal(found[r, c], np.bincount(counted[y == c], minlength=k + 1))


def test_the_papers_example_of_failure_credit():
    a, b = "0011011101", "0110001110"  # 0: failed
    credit = pair_table(np.array([[digit == "0" for digit in row] for row in (a, b)]))
    assert credit[0, 1] == credit[1, 0] == 5 / 9
    assert credit[0, 0] == 0


def test_failure_credit_of_classifiers_that_never_fail_is_zero():
    credit = pair_table(np.array([[False, False], [False, False], [True, False]]))
    assert credit[0, 1] == 0
    assert credit[0, 2] == 1


@given(st.integers(2, 9), st.integers(2, 30), st.integers(0, 99))
def test_mean_credit_of_members_is_the_mean_over_pairs(k, n, seed):
    rng = np.random.default_rng(seed)
    credit = pair_table(rng.random((k, n)) < 0.4)
    members = np.flatnonzero(rng.random(k) < 0.7)
    X = np.isin(np.arange(k), members)[np.newaxis].astype(np.int8)
    least, mean = kernels.pair_credits(credit, X)[0]
    if len(members) < 2:
        assert (least, mean) == (0, 0)
        return
    pairs = [credit[i, j] for i in members for j in members if j < i]
    own = [np.mean([credit[i, j] for j in members if j != i]) for i in members]
    assert mean == pytest.approx(np.mean(pairs), abs=1e-12)
    assert least == pytest.approx(min(own), abs=1e-12)


@given(st.integers(2, 6), st.integers(2, 20), st.integers(0, 99))
def test_pair_measures_are_those_counted_pair_by_pair(k, n, seed):
    failures = np.random.default_rng(seed).random((k, n)) < 0.4
    for i in range(k):
        for j in range(i):
            a, b = failures[i], failures[j]
            both, neither = int((a & b).sum()), int((~a & ~b).sum())
            x, y = int((a & ~b).sum()), int((~a & b).sum())
            up, down = both * neither - x * y, both * neither + x * y
            expected = {
                "disagreement": (x + y) / n,
                "double_fault": 1 - both / n,
                "q_statistic": (1 - up / down) / 2 if down else 0.5,
            }
            for name, value in expected.items():
                assert pair_table(failures, name)[i, j] == pytest.approx(value)


@pytest.mark.parametrize("name", NAMES)
def test_weighted_pairs_are_those_of_repeated_records(name):
    rng = np.random.default_rng(1)
    failures, weights = rng.random((5, 30)) < 0.3, rng.integers(0, 4, (30, 3))
    tables = weighted_pair_tables(failures, weights, name)
    for table, column in zip(tables, weights.T, strict=True):
        assert (table == pair_table(np.repeat(failures, column, axis=1), name)).all()
    many = weighted_pair_tables(failures, weights * 9_999_991, name)  # beyond 2^24 in all
    np.testing.assert_allclose(many, tables, rtol=1e-14, atol=1e-15)


def test_f2_and_f3_ask_for_what_the_full_pool_has():
    credit = PruningProblem(made_up()).credit
    own = credit.sum(axis=1) / 7
    f2, f3 = demand_of("f2", credit), demand_of("f3", credit)
    assert f2 == Demand(0.0, pytest.approx((own.min() + own.mean()) / 2))
    assert f3 == Demand(pytest.approx(own.min()), f2.gamma)
    assert f3.met(credit, np.ones(8))
    assert not f3.met(credit, np.eye(8)[0])


def test_values_of_confusion_matrices_are_weighted_sums():
    problem = PruningProblem(made_up())
    n0, n1 = problem.votes.totals
    for genome in problem.space.sample(np.random.default_rng(2), 20):
        x, threshold = genome[:-1], int(genome[-1])
        fp, tp = problem.votes.positives(x[None], [threshold])[0]
        for weights in (Weights(1, 0, 1, 0), Weights(2, -1, 0.5, 3), weights_of("recall", n0, n1)):
            expected = np.dot(weights, [tp, n1 - tp, n0 - fp, fp])
            assert problem.votes.value(x, threshold, weights) == pytest.approx(expected)


def test_theta_weights_order_as_balanced_accuracy_does():
    """Theorem 1."""
    problem = PruningProblem(made_up(n=61))
    X = problem.space.sample(np.random.default_rng(0), 400)
    weights = weights_of("balanced_accuracy", *problem.votes.totals)
    values = np.array([problem.votes.value(x[:-1], x[-1], weights) for x in X])
    balanced = problem.evaluate(X)["balanced_accuracy"]
    assert np.array_equal(np.sign(values[:, None] - values), np.sign(balanced[:, None] - balanced))


ALIKE = Library.from_arrays(list("abc"), np.tile([0.9, 0.1, 0.8], (3, 1)), [1, 0, 1], [0, 1])
ONE_CLASS = Library.from_arrays(
    list("abc"), np.random.default_rng(0).random((3, 9)), [0] * 9, [0, 1], every_class=False
)


@pytest.mark.parametrize(
    ("library", "more", "message"),
    [
        (ALIKE, {}, "all 3 vote alike"),
        (ONE_CLASS, {}, "expected validation records of both classes, found 0"),
        (made_up(classes=0), {}, "found models for regression"),
        (made_up(classes=3), {}, "expected two classes, found 3"),
        (made_up(k=1), {}, "two classifiers or more, found 1"),
        (made_up(), {"positive": "yess"}, "did you mean 'yes'"),
        (made_up(), {"costs": ["memor"]}, "did you mean 'memory'"),
    ],
)
def test_libraries_that_cannot_be_pruned_are_refused(library, more, message):
    with pytest.raises(InputError, match=message):
        PruningProblem(library, **more)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("accurracy", "expected accuracy, balanced_accuracy, recall or four numbers"),
        ((1, 0, 1), "four finite numbers"),
        ((1, 0, float("nan"), 0), "four finite numbers"),
        ((0, 0, 0, 0), "worth the same"),
        ((2, 2, 1, 1), "worth the same"),
    ],
)
def test_weights_that_mean_nothing_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        weights_of(given, 3, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [("f4", "f2, f3 or two"), ((0.5, 0.2), "tau <= gamma"), ((0.1, 1.5), "within 0 and 1")],
)
def test_demands_that_cannot_be_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        demand_of(given, np.zeros((3, 3)))


def test_a_smaller_pool_is_the_beginning_of_a_larger_one(tmp_path):
    checked(made_up(k=8)).save(tmp_path / "pool")
    section = {"library": {"path": tmp_path / "pool"}}
    make = lambda **more: PruningProblem.from_config(  # noqa: E731
        PruningConfig.model_validate({**section, **more})
    )
    few, whole = make(models=5), make()
    assert few.gene_names == (*whole.gene_names[:5], "threshold")
    assert few.fingerprint != whole.fingerprint
    small, large = np.array([[1, 0, 1, 1, 0, 2]]), np.array([[1, 0, 1, 1, 0, 0, 0, 0, 2]])
    for name, values in few.evaluate(small).items():
        assert values == whole.evaluate(large)[name]
    assert few.evaluate_test(small) == whole.evaluate_test(large)
    with pytest.raises(InputError, match="expected 1 to 8, the models of the library"):
        make(models=9)


@pytest.mark.parametrize("threshold", ["gene", "majority"])
def test_alternatives_are_the_whole_pool_its_best_and_the_largest_class(threshold):
    library = made_up(k=6, n=50, classes=2)
    problem = PruningProblem(library, threshold=threshold)
    pool, best, largest = problem.alternatives()
    weights = np.random.default_rng(0).integers(0, 3, (50, 4))
    votes, truth = library.validation > 0.5, library.y_validation == 1

    def accuracies(called):
        return (weights * (called == truth)[:, None]).sum(axis=0) / weights.sum(axis=0)

    found = pool.outcomes.metrics(weights)
    np.testing.assert_allclose(found["accuracy"][0], accuracies(votes.sum(axis=0) > 3))
    assert (found["members"] == 6).all()
    found = best.outcomes.metrics(weights)
    assert best.points == library.ids
    assert best.best[0] == "balanced_accuracy"
    for row, vote in zip(found["accuracy"], votes, strict=True):
        np.testing.assert_allclose(row, accuracies(vote))
    code = 2 * truth.sum() > 50
    found = largest.outcomes.metrics(weights)
    np.testing.assert_allclose(found["accuracy"][0], accuracies(np.full(50, code)))
    assert (found["balanced_accuracy"] == 0.5).all()
    assert (found["members"] == 0).all()
    for one in (pool, best, largest):
        assert one.outcomes.names == problem.metric_names
        assert set(one.test) == set(problem.metric_names)
    tested = (library.test[2] > 0.5) == (library.y_test == 1)
    assert best.test["accuracy"][2] == pytest.approx(tested.mean())
    always = (library.y_test == code).mean()
    assert largest.test["accuracy"][0] == pytest.approx(always)
