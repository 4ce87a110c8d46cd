"""Sub-classifiers: each is built once, for all, and kept on disk."""

from multiprocessing import get_context

import numpy as np
import pytest

from algorithms.multistage.problem import MultiStageProblem
from framework.data.datasets import load_table
from tests import oracles
from tests.multistage.data import config_of, genomes, problem_of, stored

pytestmark = pytest.mark.usefixtures("cache")

# --- parts: each is built once, for all -----------------------------------------------------


def counting(monkeypatch):
    """Count the feature sets that are trained from now on."""
    built = []
    train = MultiStageProblem.build_components

    def build(self, keys):
        built.extend(key.tobytes() for key in keys)
        return train(self, keys)

    monkeypatch.setattr(MultiStageProblem, "build_components", build)
    return built


def test_each_sub_classifier_is_trained_once(table_file, monkeypatch):
    built = counting(monkeypatch)
    problem = problem_of(table_file)
    X = genomes(problem, 30)
    for start in range(0, 30, 10):
        problem.evaluate(X[start : start + 10])
    problem.evaluate_test(X)
    problem.decode(X[3])
    needed = {f for x in X.tolist() for f in oracles.feature_sets(x)}
    assert len(built) == len(set(built)) == len(needed)


@pytest.mark.parametrize("kind", ["logistic_regression", "gaussian_nb"])
def test_a_reopened_cache_trains_nothing(table_file, monkeypatch, kind):
    first = problem_of(table_file, classifier={"kind": kind})
    X = genomes(first)
    before, before_test = first.evaluate(X), first.evaluate_test(X)
    built = counting(monkeypatch)
    again = problem_of(table_file, classifier={"kind": kind})
    after, after_test = again.evaluate(X), again.evaluate_test(X)
    records = load_table(config_of(table_file).dataset).features
    assert np.array_equal(again.decode(X[0]).predict(records), first.decode(X[0]).predict(records))
    assert built == []
    for name in first.metric_names:
        assert np.array_equal(before[name], after[name])
        assert np.array_equal(before_test[name], after_test[name])


@pytest.mark.parametrize(
    ("more", "shares"),
    [
        ({"threshold": 0.71}, False),
        ({"classifier": {"kind": "logistic_regression", "C": 1.5}}, False),
        ({"split": {"seed": 1}}, False),
        ({"costs": None}, True),
        ({"max_stages": 5}, True),
    ],
    ids=str,
)
def test_the_cache_is_shared_where_sub_classifiers_are_alike(table_file, monkeypatch, more, shares):
    X = genomes(problem_of(table_file))
    problem_of(table_file).evaluate(X)
    built = counting(monkeypatch)
    problem_of(table_file, **more).evaluate(X)
    assert (built == []) == shares


def test_caching_can_be_switched_off(table_file, monkeypatch, tmp_path):
    monkeypatch.setenv("PARETOLAB_CACHE", "off")
    problem = problem_of(table_file)
    problem.evaluate(genomes(problem))
    assert not (tmp_path / "cache").exists()


def _evaluate(arguments):
    path, start = arguments
    problem = problem_of(path)
    return problem.evaluate(genomes(problem, 60)[start : start + 40])["cost"].tolist()


@pytest.mark.slow
def test_two_processes_share_a_cache_at_once(table_file, cache):
    X = genomes(problem_of(table_file), 60)
    want = problem_of(table_file).evaluate(X)["cost"].tolist()
    for file in cache.iterdir():
        file.unlink()
    with get_context("spawn").Pool(2) as pool:
        found = pool.map(_evaluate, [(table_file, 0), (table_file, 20)], chunksize=1)
    assert found == [want[:40], want[20:]]
    assert stored(cache) == len({f for x in X.tolist() for f in oracles.feature_sets(x)})


@pytest.mark.parametrize("damage", ["garbage", "cut", "changed", "a folder"])
def test_a_damaged_cache_does_not_change_a_run(table_file, cache, damage):
    problem = problem_of(table_file)
    X = genomes(problem)
    want = problem.evaluate(X)
    (file,) = cache.glob("*.bin")
    content = file.read_bytes()
    if damage == "garbage":
        file.write_bytes(b"not a store" * 1000)
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        keys = problem.components_since(0).keys
        bits = problem.sub_classifiers.store.get(keys).bits[0].astype("<u8").tobytes()
        assert bits in content
        file.write_bytes(content.replace(bits, bytes(len(bits))))
    else:
        file.unlink()
        file.mkdir()
    again = problem_of(table_file)
    found = again.evaluate(X)
    for name in problem.metric_names:
        assert np.array_equal(found[name], want[name])
    if damage != "a folder":  # and is mended
        store = problem_of(table_file).sub_classifiers.store
        assert len(store.get(problem.components_since(0).keys)) == problem.n_components
