"""Thresholds as genes, networks by magnitude, and what a hull has in any case."""

import numpy as np
import pytest

from algorithms.hull.data import NetworkConfig
from algorithms.hull.kernels.network import margins
from algorithms.hull.network import _SHARES
from algorithms.hull.searches import CHEMOA, FCHEMOA, NDFCHEMOA
from algorithms.hull.thresholds import Thresholds
from framework.arrays import frozen
from tests.conftest import network, roles_of
from tests.landscape import generations

RATES = ("false_positive_rate", "false_negative_rate", "complexity")


@pytest.mark.parametrize("coded", [True, False])
def test_genes_are_numbers_in_order(coded):
    thresholds = Thresholds(32, coded=coded)
    rows = thresholds.rows()
    assert rows.shape == (32, 5 if coded else 1)
    assert thresholds.numbers(rows).tolist() == list(range(32))
    if coded:
        assert (np.abs(np.diff(rows, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.parametrize("records", [1, 5, 31, 32, 100])
def test_thresholds_call_as_many_negative_as_their_rank_says(records):
    rng, thresholds = np.random.default_rng(records), Thresholds(16, coded=False)
    of_records = rng.permuted(
        np.tile(np.arange(records, dtype=np.float32), (16, 1)) - np.float32(records / 2), axis=1
    )
    cuts = thresholds.cuts(thresholds.rows(), of_records)
    called = (of_records > cuts[:, None]).sum(axis=1)
    wanted = [records - int(j * records / 15 + 0.5) for j in range(16)]
    assert called.tolist() == wanted
    far = np.float32([[-1e30, 1e30]])
    assert (far > cuts[0]).all()
    assert not (far > cuts[-1]).any()


def test_of_equal_margins_none_is_above_their_threshold():
    thresholds = Thresholds(8, coded=False)
    cuts = thresholds.cuts(thresholds.rows()[1:-1], np.ones((6, 9), dtype=np.float32))
    assert (cuts == 1).all()


def plain_curve(problem):
    """Return the rates of the whole network at each threshold there can be, by its margins."""
    weights, biases = (part[None].astype(np.float32) for part in problem.network())
    part = problem.validation
    whole = frozen(np.ones((1, problem.connections), dtype=np.int8))  # as in a search
    found = margins(part.columns, len(part), weights, biases, problem.sizes, whole)[0]
    cuts = np.concatenate([[-np.inf], np.unique(found)])
    called = found[None] > cuts[:, None]
    missed = ~called[:, part.positive]
    return called[:, ~part.positive].mean(axis=1), missed.mean(axis=1)


@pytest.mark.quick(2)
@pytest.mark.parametrize("search", [FCHEMOA, CHEMOA, NDFCHEMOA])
@pytest.mark.parametrize("more", [{}, {"max_pending": 5}], ids=["waits", "does not"])
def test_a_search_has_the_whole_network_at_every_threshold(search, more):
    """More thresholds than records: no point of the network's curve is missing."""
    problem = network(thresholds=64)
    assert len(problem.validation) < 64
    algorithm = search(problem, roles_of(problem, metrics=RATES), seed=0, population=10, **more)
    points = set()
    for batch in generations(algorithm, problem, rows=80):
        points |= set(zip(*(batch.values[name].tolist() for name in RATES), strict=True))
    for false_positive, false_negative in zip(*plain_curve(problem), strict=True):
        assert (false_positive, false_negative, 1.0) in points
    assert {(0.0, 1.0, 0.0), (1.0, 0.0, 0.0)} <= points  # the trivial classifiers


def test_without_thresholds_a_search_starts_as_in_the_paper():
    assert len(network().starts()) == 0


def test_levels_keep_the_largest_weights_in_each_fold():
    problem = network(gates="magnitude", thresholds=16)
    assert problem.space.size == len(_SHARES) * 16
    networks = problem._networks()
    assert len(networks) == 6  # five folds, and what is handed out
    for own in networks:
        for level, mask in enumerate(own.masks):
            assert mask.sum() == round(_SHARES[level] * len(mask))
            weights = np.abs(own.weights[0])
            if 0 < mask.sum() < len(mask):
                assert weights[mask == 1].min() >= weights[mask == 0].max()
            moved = own.weights[level] != own.weights[0]
            assert not moved[mask == 0].any()
            assert level != 1 or moved.any()  # at last nothing may lead to the output
    levels = np.array([[0, 3], [4, 3], [len(_SHARES) - 1, 3]])
    kept = problem.evaluate(levels, None)["connections"]
    assert kept.tolist() == networks[-1].masks[levels[:, 0]].sum(axis=1).tolist()


def test_each_record_is_scored_by_a_network_that_has_not_seen_it():
    """A network of another fold, or of all records, would answer otherwise."""
    problem = network(gates="magnitude", thresholds=0, training={"epochs": 30})
    answers, start = problem._answers(np.array([[2]]), problem.validation)[0], 0
    for own, fold in zip(problem._networks(), problem.folds, strict=False):
        held, level = fold.held, slice(2, 3)
        of_level = own.weights[level], own.biases[level], own.sizes, frozen(own.masks[level])
        found = margins(held.columns, len(held), *of_level)[0]
        assert (answers[start : start + len(held)] == (found > 0)).all()
        seen = {row.tobytes() for row in fold.design.astype(np.float32)}
        assert not any(row.tobytes() in seen for row in held.columns[:, : len(held)].T.copy())
        start += len(held)
    assert start == len(problem.validation) == problem.describe()["out_of_fold"]


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"thresholds": 100}, "expected 0 or a power of two, such as 128, found 100"),
        ({"thresholds": 1}, "expected 0 or a power of two"),
        ({"measure": {"kind": "cross_validation"}}, "a mask belongs to one trained network"),
    ],
)
def test_what_does_not_fit_is_said(section, sentence):
    with pytest.raises(ValueError, match=sentence):
        NetworkConfig.model_validate({"dataset": {"sklearn": "breast_cancer"}, **section})
