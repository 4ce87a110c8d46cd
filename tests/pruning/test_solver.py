"""Branch and bound against every ensemble with every threshold."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.pruning.branch_and_bound import relaxation
from algorithms.pruning.branch_and_bound.cuts import (
    Box,
    broken_counts,
    conflicts,
    constants,
    counts,
)
from algorithms.pruning.branch_and_bound.instance import (
    Budget,
    Cap,
    Instance,
    Requirements,
    best_threshold,
)
from algorithms.pruning.branch_and_bound.local_search import first_members, improve
from algorithms.pruning.branch_and_bound.relaxation import Relaxation, closure_bound, implications
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, share_of_gap
from algorithms.pruning.diversity import Demand, demand_of, pair_table
from algorithms.pruning.votes import VoteTable, Weights, rates_of, weights_of
from tests.conftest import examples


def pool(k: int, n: int, seed: int, skill: float = 0.7):
    """Return votes (K, N) and classes (N,) of classifiers that are right so often."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    y[:2] = [True, False]
    hard = rng.random(n) < 0.3
    right = rng.random((k, n)) < np.where(hard, 0.45, skill)
    return np.where(right, y, ~y), y


def every_ensemble(k: int):
    return np.array(list(itertools.product([0, 1], repeat=k)))[1:]


def brute_force(votes, y, weights, allowed=lambda x: True, majority=False, caps=()):
    """Return the greatest weighted sum over all members and thresholds, by counting records."""
    best = -np.inf
    for x in every_ensemble(len(votes)):
        if not allowed(x):
            continue
        counted = votes[x == 1].sum(axis=0)
        for threshold in [x.sum() // 2] if majority else range(len(votes) + 1):
            called = counted > threshold
            cells = [
                (called & y).sum(),
                (~called & y).sum(),
                (~called & ~y).sum(),
                (called & ~y).sum(),
            ]
            if all(np.dot(cap.weights, cells) <= cap.limit for cap in caps):
                best = max(best, float(np.dot(weights, cells)))
    return best


def solved(instance, **more):
    """Solve to the end; the bound never lies below the final value."""
    solver = BranchAndBound(instance, **{"looks": 5, **more})
    bounds = [solver.bound]
    while not solver.done:
        solver.step()
        bounds.append(solver.bound)
        assert solver.programs < 5000
    assert (np.diff(bounds) <= 1e-9).all()
    return solver, bounds


WEIGHTS = [
    Weights(1, 0, 1, 0),
    Weights(1, 0, 0, 0),
    Weights(3, -2, 1, -4),
    Weights(0.3, 1.7, 0.25, -0.4),
    Weights(-1, 2, 0.5, 1.5),
    Weights(0, 0, 0, 1),
]


def some_demands(votes, y, rng):
    """Return random requirements: rates, sizes, costs of tiny units, diversity, majority or not."""
    k, (n0, n1) = len(votes), (int((~y).sum()), int(y.sum()))
    caps = []
    for _ in range(int(rng.integers(0, 4))):
        rate = list(rates_of(n0, n1).values())[rng.integers(6)]
        sign, part = int(rng.choice([-1, 1])), rng.choice([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
        caps.append(Cap(Weights(*(sign * w for w in rate.weights)), sign * round(part * rate.of)))
    unit, budgets = float(rng.choice([1e-7, 1.0])), []
    for sign in rng.permutation([1, -1])[: rng.integers(0, 3)]:
        costs = sign * rng.integers(1, 9, k) * unit
        budgets.append(Budget(costs, float(sign * rng.integers(2, 20) * unit)))
    fewest = int(rng.integers(1, max(2, k // 2)))
    credit, tau = pair_table(votes != y), float(rng.uniform(0, 0.6))
    two = Demand(tau, min(1.0, tau + float(rng.uniform(0, 0.3))))
    demand = [None, demand_of("f2", credit), demand_of("f3", credit), two][rng.integers(4)]
    return Requirements(
        bool(rng.integers(2)),
        int(rng.integers(max(fewest, 1 if demand is None else 2), k + 1)),
        tuple(budgets),
        credit,
        demand,
        tuple(caps),
        fewest,
    )


def best_by_counting(votes, y, weights, must):
    """Return the greatest weighted sum of all that meets the requirements, by counting records."""

    def allowed(x):
        return (
            must.fewest <= x.sum() <= must.max_members
            and all(
                sum(c for c, m in zip(costs, x, strict=True) if m) <= limit
                for costs, limit in must.budgets
            )
            and (must.demand is None or must.demand.met(must.credit, x))
        )

    return brute_force(votes, y, weights, allowed, must.majority, must.caps)


def assert_best(votes, y, weights, must):
    """Assert that what is found is the best of all, or that there is proven to be none."""
    best = best_by_counting(votes, y, weights, must)
    solver, bounds = solved(Instance.of(VoteTable.of(votes, y), weights, must))
    assert min(bounds) >= best - 1e-9
    if best == -np.inf:
        assert solver.incumbent is None
        assert solver.bound == -np.inf
        return
    found = solver.incumbent
    assert found.value == pytest.approx(best, abs=1e-9)
    assert must.admits(found.x)
    table = VoteTable.of(votes, y)
    assert table.value(found.x, found.threshold, weights) == pytest.approx(best, abs=1e-9)
    for cap in must.caps:
        assert table.value(found.x, found.threshold, cap.weights) <= cap.limit


@examples(60)
@given(st.integers(2, 6), st.integers(4, 30), st.integers(0, 100_000), st.sampled_from(WEIGHTS))
def test_bounds_of_rates_are_kept_and_what_cannot_be_is_proven(k, n, seed, weights):
    votes, y = pool(k, n, seed)
    assert_best(votes, y, weights, some_demands(votes, y, np.random.default_rng(seed)))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(2, 6), st.integers(6, 30), st.integers(0, 10_000), st.booleans())
def test_demands_of_diversity_are_kept_to(k, n, seed, majority):
    votes, y = pool(k, n, seed)
    credit, rng = pair_table(votes != y), np.random.default_rng(seed)
    weights = weights_of("balanced_accuracy", int((~y).sum()), int(y.sum()))
    tau = float(rng.uniform(0, 0.7))
    two = Demand(tau, min(1.0, tau + float(rng.uniform(0, 0.3))))
    for demand in (demand_of("f2", credit), demand_of("f3", credit), two):
        budget = Budget(rng.integers(1, 9, k).astype(float), float(rng.integers(6, 20)))
        must = Requirements(majority, int(rng.integers(2, k + 1)), (budget,), credit, demand)
        assert_best(votes, y, weights, must)


def test_members_are_found_where_nothing_may_be_called_positive():
    # each negative record is voted positive by all, so only calling nothing positive keeps to the
    # cap, and no classifier alone, pair or all of them are admitted
    votes, y = pool(6, 20, 0)
    votes[:, ~y] = True
    costs = np.array([1.0, 1, 1, 5, 5, 5])
    budgets = (Budget(costs, 3.0), Budget(-np.array([2.0, 1, 0, 9, 9, 9]), -3.0))
    must = Requirements(budgets=budgets, caps=(Cap(Weights(0, 0, 0, 1), 0),))
    instance = Instance.of(VoteTable.of(votes, y), Weights(), must)
    assert first_members(instance) is None
    solver, _ = solved(instance)
    assert solver.incumbent.x.tolist()[:2] == [1, 1]
    assert solver.incumbent.value == (~y).sum() == solver.bound
    none = replace(must, budgets=(Budget(costs, 3.0), Budget(-costs, -4.0)))
    solver, _ = solved(Instance.of(VoteTable.of(votes, y), Weights(), none))
    assert solver.incumbent is None


@given(st.integers(2, 7), st.integers(4, 40), st.integers(0, 10_000), st.sampled_from(WEIGHTS))
def test_closure_bounds_every_ensemble(k, n, seed, weights):
    votes, y = pool(k, n, seed)
    instance = Instance.of(VoteTable.of(votes, y), weights)
    assert closure_bound(instance).bound >= brute_force(votes, y, weights) - 1e-9


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.integers(1, 300))
def test_blocks_of_patterns_choose_the_same_cuts_and_pairs(seed, block):
    votes, y = pool(9, 80, seed)
    instance = Instance.of(VoteTable.of(votes, y), Weights())
    rng = np.random.default_rng(seed)
    one = Relaxation(instance)
    x, z = rng.choice([0, 0.25, 0.5, 1], 9), rng.choice([0, 0.5, 1], one.p)
    whole = one._broken_conflicts(x, z, one.patterns @ x), implications(instance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relaxation, "_BLOCK", block)
        parts = one._broken_conflicts(x, z, one.patterns @ x), implications(instance)
        assert np.array_equal(whole[0][0], parts[0][0])
        assert np.array_equal(whole[0][1], parts[0][1])
        assert np.array_equal(whole[1], parts[1])
        patch.setattr(relaxation, "_MOST_PAIRS", block // 4)
        fewer = implications(instance)
        assert np.array_equal(fewer, whole[1][: block // 4])
        assert closure_bound(instance).bound >= brute_force(votes, y, Weights())


def some_box(k, patterns, rng, majority):
    """Return a box of which members and a third of the calls are decided; None if it is empty."""
    sa, la = int(rng.integers(1, k + 1)), int(rng.integers(0, k))
    decided = rng.choice([-1, -1, -1, -1, 0, 1], patterns).astype(np.int8)
    return Box(
        rng.choice([-1, -1, 0, 1], k).astype(np.int8),
        decided if rng.random() < 0.5 else np.full(patterns, -1, dtype=np.int8),
        (sa, int(rng.integers(sa, k + 1))),
        (la, int(rng.integers(la, k))),
    ).tightened(majority)


def ensembles_of(box, patterns, majority):
    """Yield members, thresholds and which patterns are called positive, all that a box holds."""
    for x in every_ensemble(len(box.x)):
        if not ((box.x == x) | (box.x < 0)).all() or not box.sizes[0] <= x.sum() <= box.sizes[1]:
            continue
        for threshold in range(box.thresholds[0], box.thresholds[1] + 1):
            above = x @ patterns.T > threshold
            right = ((box.calls == above) | (box.calls < 0)).all()
            if right and threshold < x.sum() and (not majority or threshold == x.sum() // 2):
                yield x, threshold, above


@examples(30)
@given(st.integers(2, 6), st.integers(4, 30), st.integers(0, 10_000), st.booleans())
def test_every_ensemble_of_a_box_keeps_to_all_of_its_rows(k, n, seed, majority):
    votes, y = pool(k, n, seed)
    rng = np.random.default_rng(seed)
    instance = Instance.of(VoteTable.of(votes, y), Weights(1, 0, 1, 0), Requirements(majority))
    program = Relaxation(instance)
    p, u, d = program.p, program.u, program.d
    box = some_box(k, p, rng, majority)
    if box is None:
        return
    # each conflict, each count by its own votes, and counts by any set of either call
    which, negative = np.tile(np.arange(p), 6), np.arange(6 * p) >= 3 * p
    sets = rng.random((6 * p, k)) < 0.5
    sets[:p], sets[3 * p : 4 * p] = program.patterns, program.patterns
    cuts = np.concatenate(
        [conflicts(np.argwhere(np.ones((u, d))), d, k), counts(which, negative, sets)]
    )
    apart, free = constants(box, program.patterns[which], negative, sets)
    limits = box.limits(program.ints)
    found = program.solve(box, cuts, None, None)
    values = [-np.inf]
    for x, threshold, above in ensembles_of(box, program.ints, majority):
        assert not (above & limits.never).any()
        assert (above | ~limits.always).all()
        called, inside = above[which], sets @ x
        positive = inside >= threshold + 1 - apart - free * ~called
        assert np.where(negative, inside <= threshold + apart + free * called, positive).all()
        values.append(instance.constant + instance.gains[above].sum())
    assert found.bound >= max(values) - 1e-6


def test_a_count_over_fewer_classifiers_sees_what_the_votes_alone_do_not():
    # two members of three voters are in: the row of all voters lets z be 2 / 4, with x <= z alone
    # not even half of four votes is there
    votes = np.array([[True] * 4 + [False] * 4])
    box = Box(np.full(8, -1, np.int8), np.full(1, -1, np.int8), (4, 4), (3, 3))
    x, z = np.array([1.0, 1, 0, 0, 0.5, 0.5, 0.5, 0.5]), np.array([0.5])
    own = np.array([False])
    apart, free = constants(box, votes, own, votes)
    assert votes @ x == pytest.approx(3 + 1 - apart - free * (1 - z))  # not broken
    cuts, by = broken_counts(box, (np.array([0]), votes, own), x, z, 3.0)
    assert by == pytest.approx([1.0])  # x(C) >= 2 z of the two that are out
    assert len(cuts) == 1


@given(st.integers(1, 8), st.integers(1, 30), st.integers(0, 999), st.booleans())
def test_the_best_threshold_is_that_of_all(k, n, seed, majority):
    rng = np.random.default_rng(seed)
    votes, gains = rng.integers(0, k + 1, n), rng.normal(size=n)
    rows = int(rng.integers(0, 3))
    takes = rng.integers(-2, 3, (rows, n)).astype(float)
    caps = rng.integers(-2, n + 1, rows).astype(float)
    worths, shorts = {}, {}
    for threshold in [k // 2] if majority else range(k + 1):
        above = votes > threshold
        shorts[threshold] = np.maximum(takes[:, above].sum(axis=1) - caps, 0).sum()
        worths[threshold] = gains[above].sum()
    value, threshold, short = best_threshold(votes, gains, takes, caps, k, majority)
    assert short == min(shorts.values())
    assert value == pytest.approx(max(worths[t] for t in worths if shorts[t] == short))
    assert worths[threshold] == pytest.approx(value)


def test_local_search_keeps_count_of_votes():
    votes, y = pool(12, 80, 3)
    instance = Instance.of(VoteTable.of(votes, y), Weights(1, 0, 1, 0))
    found = improve(instance, np.eye(12)[0], 3000, np.random.default_rng(0))
    value = VoteTable.of(votes, y).value(found.x, found.threshold, Weights(1, 0, 1, 0))
    assert found.value == value
    assert value > brute_force(votes[:3], y, Weights(1, 0, 1, 0))


@pytest.mark.parametrize("looks", [1, 3, 50])
def test_several_climbers_share_the_looks_and_the_best_is_kept(monkeypatch, looks):
    votes, y = pool(12, 80, 3)
    instance = Instance.of(VoteTable.of(votes, y), Weights(1, 0, 1, 0))
    given_to: list[int] = []
    values: list[float] = []

    def noted(instance, x, looks, rng):
        found = improve(instance, x, looks, rng)
        given_to.append(looks)
        values.append(found.value)
        return found

    monkeypatch.setattr("algorithms.pruning.branch_and_bound.solver.improve", noted)
    search = BranchAndBound(instance, looks=looks)
    assert sum(given_to) == looks
    assert max(given_to) - min(given_to) <= 1
    assert search.incumbent.value == max(values)


def test_gaps_are_shares_of_the_value():
    assert share_of_gap(11.0, 10.0) == pytest.approx(0.1)
    assert share_of_gap(-9.0, -10.0) == pytest.approx(0.1)
    assert share_of_gap(3.0, 3.0) == share_of_gap(0.0, 0.0) == 0.0
    assert share_of_gap(1.0, 0.0) == float("inf")
