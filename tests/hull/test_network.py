"""Networks under masks: against a plain forward pass, training against finite differences."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from algorithms.hull.data import NetworkConfig, Records
from algorithms.hull.kernels import network as kernels
from algorithms.hull.network import NetworkProblem
from framework.arrays import frozen
from framework.errors import InputError
from tests.conftest import network


def plain_pass(records, weights, biases, sizes):
    """Return the values before the last sigmoid, layer by layer, in float64."""
    values, w, b = records, 0, 0
    for layer, (n, m) in enumerate(pairwise(sizes)):
        if layer:
            values = 1.0 / (1.0 + np.exp(-values))
        values = values @ weights[w : w + n * m].reshape(n, m) + biases[b : b + m]
        w, b = w + n * m, b + m
    return values


def a_network(seed, sizes=(7, 10, 6, 2)):
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = rng.normal(size=sum(n * m for n, m in pairs)) * 2
    return np.array(sizes), weights, rng.normal(size=sum(sizes[1:]))


@pytest.mark.quick(6)
@pytest.mark.parametrize("n", [1, 127, 128, 129, 400])
@pytest.mark.parametrize("sizes", [(7, 10, 6, 2), (3, 2), (5, 1, 2), (300, 10, 6, 2)])
def test_masks_score_as_a_plain_pass(n, sizes):
    sizes, weights, biases = a_network(n, sizes)
    rng = np.random.default_rng(n)
    records = rng.normal(size=(n, sizes[0])).astype(np.float32)
    # from full to nearly empty: units that no kept connection leads on from, or to
    masks = (rng.random((30, len(weights))) < rng.random((30, 1))).astype(np.int8)
    masks[0], masks[1] = 0, 1
    columns = frozen(np.ascontiguousarray(records.T))  # types as in a search
    w32, b32 = weights.astype(np.float32), biases.astype(np.float32)
    margins = kernels.margins(columns, n, w32[None], b32[None], frozen(sizes), frozen(masks))
    for mask, margin in zip(masks, margins, strict=True):
        values = plain_pass(
            records.astype(float), w32 * mask.astype(float), b32.astype(float), sizes
        )
        close = np.abs(values[:, 1] - values[:, 0]) < 1e-4 * (1 + np.abs(values).max())
        assert ((margin > 0) == (values[:, 1] > values[:, 0]))[~close].all()
        outputs = kernels.outputs(columns, n, w32, b32, frozen(sizes), frozen(mask))
        assert (outputs[1] - outputs[0] == margin).all()
        np.testing.assert_allclose(outputs.T, values, rtol=1e-4, atol=1e-4 * len(weights) ** 0.5)


def test_large_values_do_not_tie():
    """After the sigmoid both outputs would be 1."""
    sizes, weights, biases = np.array([1, 2]), np.array([50, 60.0]), np.zeros(2)
    columns = frozen(np.array([[1.0, -1.0]], dtype=np.float32))
    mask = np.ones(2, dtype=np.int8)
    network = weights[None].astype(np.float32), biases[None].astype(np.float32)
    margins = kernels.margins(columns, 2, *network, frozen(sizes), frozen(mask[None]))
    assert (margins > 0).tolist() == [[True, False]]


def loss(records, positive, weights, biases, sizes):
    """Return the summed cross-entropy of both output units."""
    values = plain_pass(records, weights, biases, sizes)
    targets = np.column_stack([~positive, positive])
    return (np.logaddexp(0, values) - targets * values).sum()


def step_of(parameters, p, cost):
    """Return Adam's first step of one parameter, by finite differences of the cost."""
    high, low = parameters.copy(), parameters.copy()
    high[p] += 1e-5
    low[p] -= 1e-5
    slope = (cost(high) - cost(low)) / 2e-5 / 6
    return -0.01 * slope / (abs(slope) + 1e-8)


def test_a_step_of_training_is_adams_on_the_slope():
    """One step moves each weight by rate x slope / (|slope| + 1e-8), by finite differences."""
    sizes, weights, biases = a_network(0, (4, 3, 5, 2))
    weights /= 4
    rng = np.random.default_rng(1)
    records, positive = rng.normal(size=(6, 4)), rng.random(6) < 0.5
    mask = rng.integers(0, 2, size=len(weights), dtype=np.int8)
    used = weights * mask
    new, new_biases = weights.copy(), biases.copy()
    shape = frozen(sizes), frozen(mask)  # types as in a search
    of_records = frozen(records), frozen(positive)
    kernels.train(*of_records, new, new_biases, *shape, np.arange(6)[None], 6, 0.01)
    for p in range(len(weights)):
        step = mask[p] * step_of(used, p, lambda w: loss(records, positive, w, biases, sizes))
        assert new[p] - weights[p] == pytest.approx(step, abs=1e-5)
    for p in range(len(biases)):
        step = step_of(biases, p, lambda b: loss(records, positive, used, b, sizes))
        assert new_biases[p] - biases[p] == pytest.approx(step, abs=1e-5)


def test_training_learns_and_its_seed_decides():
    config = NetworkConfig.model_validate({"dataset": {"sklearn": "breast_cancer"}})
    problem = NetworkProblem.from_config(config)
    full = np.ones((1, problem.space.d), dtype=np.int8)
    assert problem.evaluate(full, None)["accuracy"][0] > 0.93
    assert problem.evaluate_test(full, None)["accuracy"][0] > 0.93
    one, other = network(), network(training={"epochs": 20, "seed": 1})
    assert (network().network()[0] == one.network()[0]).all()
    assert (other.network()[0] != one.network()[0]).any()


@pytest.fixture
def trainings(monkeypatch):
    """Return a list that has an entry for every network trained."""
    done = []
    train = NetworkProblem._pretrained

    def counted(self):
        done.append(self.sizes)
        return train(self)

    monkeypatch.setattr(NetworkProblem, "_pretrained", counted)
    return done


def test_a_network_is_trained_once_and_kept(tmp_path, monkeypatch, trainings):
    monkeypatch.setenv("PARETOLAB_CACHE", str(tmp_path))
    first = network()
    X = first.space.sample(np.random.default_rng(0), 20)
    values = first.evaluate(X, None)
    for again in (network(), network(split={"train": 0.25, "validation": 0.75, "test": 0})):
        again.evaluate(X, None)
    assert len(trainings) == 1  # by the training records, whatever the validation records are
    again = network()
    again.open_store()
    for name, column in again.evaluate(X, None).items():
        assert (column == values[name]).all()
    network(training={"epochs": 21}).evaluate(X, None)
    network(hidden=[4, 2]).network()
    assert len(trainings) == 3


@pytest.mark.slow
def test_workers_are_sent_the_network(trainings):
    driver = network()
    X = driver.space.sample(np.random.default_rng(0), 20)
    worker, other = pickle.loads(pickle.dumps((driver, driver)))
    driver.add_components(worker.build_components(driver.missing_components(X)))
    other.add_components(driver.components_since(0))
    for name, column in driver.evaluate(X, None).items():
        assert (column == other.evaluate(X, None)[name]).all()
    assert len(trainings) == 1
    assert len(driver.components_since(1)) == 0
    lost = pickle.loads(pickle.dumps(driver))
    lost.add_components(lost.failed_components(lost.missing_components(X), "out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        lost.evaluate(X, None)
    told = network()
    told.add_components(lost.components_since(0))
    assert len(told.missing_components(X)) == 0


def test_another_seed_leaves_the_papers_shares():
    section = {"dataset": {"sklearn": "breast_cancer"}, "split": {"seed": 3}}
    split = NetworkConfig.model_validate(section).split
    assert (split.train, split.validation, split.test, split.seed) == (0.25, 0.25, 0.5, 3)


def test_equal_records_may_count_once(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["target"] = (table["a"] > 0).astype(int)
    twice = pd.concat([table, table.head(40)])
    twice.to_csv(tmp_path / "twice.csv", index=False)
    section = {"dataset": {"path": str(tmp_path / "twice.csv")}, "hidden": [2]}
    as_is, distinct = network(**section), network(**section, distinct=True)
    assert (as_is.describe()["records"], distinct.describe()["records"]) == (100, 60)
    asked = [part.columns[:, : len(part)] for part in (distinct.validation, distinct.test)]
    records = np.concatenate([distinct.design.T, *asked], axis=1, dtype=np.float32).T
    assert len(np.unique(records, axis=0)) == 60


def test_gates_of_units_keep_whole_rows_of_connections():
    problem = network(gates="neurons", hidden=[3, 2])
    X = np.ones((2, problem.space.d), dtype=np.int8)
    X[1, 0], X[1, 6] = 0, 0  # an input and the second unit of the first hidden layer
    masks = problem.masks(X)
    assert masks[0].all()
    first = masks[1][:15].reshape(5, 3)
    assert not first[0].any()
    assert not first[:, 1].any()
    assert first[1:, [0, 2]].all()
    assert masks[1][15:21].reshape(3, 2)[1].tolist() == [0, 0]
    assert len(problem.gene_names) == problem.space.d == 5 + 3 + 2


def test_finetuning_is_a_function_of_the_genome():
    problem = network(finetune=3)
    X = problem.space.sample(np.random.default_rng(0), 6)
    masks = problem.masks(X)
    weights, _ = problem.tuned(X, masks)
    again, _ = problem.tuned(X[::-1].copy(), masks[::-1].copy())
    assert (weights[::-1] == again).all()
    base = problem.network()[0].astype(np.float32)
    assert (weights[masks == 0] == np.broadcast_to(base, weights.shape)[masks == 0]).all()
    assert (weights[masks == 1] != np.broadcast_to(base, weights.shape)[masks == 1]).mean() > 0.5


def test_metrics_lie_on_their_steps_and_agree():
    problem = network()
    X = problem.space.sample(np.random.default_rng(1), 50)
    values = problem.evaluate(X, None)
    for metric in problem.metrics:
        onto = values[metric.name] * metric.steps / (metric.high - metric.low)
        np.testing.assert_allclose(onto, np.rint(onto), atol=1e-9)
    negatives, positives = problem.metrics[0].steps, problem.metrics[1].steps
    wrong = values["false_positive_rate"] * negatives + values["false_negative_rate"] * positives
    np.testing.assert_allclose(values["accuracy"], 1 - wrong / (negatives + positives))
    np.testing.assert_allclose(values["connections"], X.sum(axis=1))


def test_a_network_with_no_connection_answers_one_class():
    problem = network()
    values = problem.evaluate(np.zeros((1, problem.space.d), dtype=np.int8), None)
    rates = values["false_positive_rate"][0], values["false_negative_rate"][0]
    assert sorted(rates) == [0.0, 1.0]
    assert values["complexity"][0] == 0.0


def test_anchors_follow_the_order_of_the_objectives():
    problem = network()
    points = problem.anchors(["complexity", "false_positive_rate", "false_negative_rate"])
    assert sorted(map(tuple, points)) == [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)]
    assert problem.anchors(["complexity", "accuracy", "false_negative_rate"]) is None


def test_data_that_cannot_be_pruned_on_are_said():
    config = {"dataset": {"sklearn": "wine"}}
    with pytest.raises(InputError, match="expected two classes, found 3"):
        NetworkProblem.from_config(NetworkConfig.model_validate(config))
    with pytest.raises(InputError, match="expected validation records of both classes"):
        network(
            dataset={"synthetic": {"samples": 60, "features": 5, "informative": 4, "redundant": 0}},
            split={"train": 0.96, "validation": 0.02, "test": 0.02, "stratify": False},
        )


@pytest.mark.parametrize("section", [{}, {"thresholds": 16}, {"gates": "magnitude"}], ids=str)
def test_alternatives_are_the_unpruned_network_and_the_largest_class(section):
    problem = network(**section)
    plain, largest = problem.alternatives()
    weights = np.random.default_rng(0).integers(0, 3, (len(problem.validation), 2))
    found = plain.outcomes.metrics(weights)
    assert (found["complexity"] == 1).all()
    assert len(plain.points) == (1 if not problem.thresholds.count else len(found["accuracy"]))
    if problem.thresholds.count:
        starts = problem.outcomes(problem.starts()[1:-3]).metrics(weights)
        assert all(row in starts["accuracy"].tolist() for row in found["accuracy"].tolist())
        assert (np.diff(found["false_positive_rate"], axis=0) <= 0).all()
    positive = problem.validation.positive
    right = positive == (2 * positive.sum() > len(positive))
    found = largest.outcomes.metrics(weights)
    share = (weights * right[:, None]).sum(axis=0) / weights.sum(axis=0)
    np.testing.assert_allclose(found["accuracy"][0], share)
    assert not found["complexity"].any()
    for one in (plain, largest):
        assert one.outcomes.refitted == bool(problem.folds)
        assert (one.test is not None) == bool(len(problem.test))


def test_whole_weights_are_records_repeated():
    problem = network()
    part, rng = problem.validation, np.random.default_rng(1)
    X = problem.space.sample(rng, 30)
    weights = rng.integers(0, 4, (len(part), 2))
    found = problem.outcomes(X).metrics(weights)
    for b in range(2):
        twin = copy.copy(problem)
        rows = np.repeat(np.arange(len(part)), weights[:, b])
        twin.validation = Records(part.columns[:, rows].T, part.positive[rows])
        for name, column in twin.evaluate(X, None).items():
            assert np.array_equal(found[name][:, b], column), name


def test_a_class_without_weight_has_no_errors():
    problem = network()
    weights = problem.validation.positive[:, np.newaxis].astype(np.float32)
    found = problem.outcomes(problem.space.sample(np.random.default_rng(2), 5)).metrics(weights)
    assert not found["false_positive_rate"].any()
    np.testing.assert_array_equal(found["accuracy"], 1 - found["false_negative_rate"])
