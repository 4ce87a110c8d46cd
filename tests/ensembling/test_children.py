"""How HAPEns makes new ensembles: crossover, mutation, parents, rejection, brake."""

from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ensembling.searches import children
from algorithms.ensembling.searches.children import Store
from algorithms.ensembling.searches.evolution import OperatorProbabilities
from algorithms.moves.seen import Seen

D, MOST = 8, 9


def plan(**changes):
    usual = children.BatchPlan(0.5, 0.5, 0.5, children.DYNAMIC, False, False, 50, MOST)
    return usual._replace(**changes)


def bred(X, number=20, seed=0, seen=(), ranked=None, **changes):
    """Return children of the elites ``X``, best first, and their marks."""
    X = np.array(X, dtype=np.int32)
    store, table = Store(), Seen()
    store.add(X)
    for known in seen:
        children.add_shares(table.reserve(1), np.array([known]))
        table.added(1)
    out, marks = np.zeros((number, X.shape[1]), np.int32), np.zeros((number, 4), np.int64)
    made = children.breed(
        store.rows,
        np.arange(len(X)) if ranked is None else ranked,
        np.array([[0, 1] if X.shape[1] > 1 else [0]]),
        plan(**changes),
        table.reserve(number),
        np.random.default_rng(seed),
        out,
        marks,
    )
    return out[:made], marks[:made]


def shares(x):
    return tuple((x // gcd(*x.tolist())).tolist())


counts = st.lists(st.integers(0, MOST), min_size=D, max_size=D).filter(any)


def crossed(a, b, points):
    """Return what two parents' crossing gives, given the two points."""
    store = Store()
    store.add(np.array([a, b], dtype=np.int32))
    union = np.empty((3, D), dtype=np.int64)
    size = children.merge(store.rows, 0, 1, np.zeros((1, 1), np.int64), union)
    found = []
    for which in range(2):
        child = np.empty((2, D), dtype=np.int64)
        low, high = points(size)
        members = children.inherit(union, size, True, low, high, which, child)
        dense = np.zeros(D, dtype=int)
        dense[child[0, :members]] = child[1, :members]
        found.append(dense)
    return found, size


@given(counts, counts, st.integers(0, 1000))
def test_two_point_crossover_swaps_a_segment_of_the_members_of_either(a, b, seed):
    rng = np.random.default_rng(seed)
    union = np.empty((3, D), dtype=np.int64)
    points = {}

    def draw(size):
        return points.setdefault(size, children.crossing(union, size, False, rng))

    (first, second), size = crossed(a, b, draw)
    members = np.flatnonzero(np.array(a) + np.array(b))
    assert size == len(members)
    low, high = points[size]
    mean = (np.array(a) + np.array(b) + 1) // 2
    if size < 3:
        assert (low, high) == (0, 0)
        assert first.tolist() == second.tolist() == mean.tolist()
        return
    assert 0 <= low < high < size
    swapped = members[low:high]
    for child, mine, other in ((first, a, b), (second, b, a)):
        expected = np.array(mine)
        expected[swapped] = np.array(other)[swapped]
        assert child.tolist() == (expected if expected.any() else mean).tolist()


@given(counts, counts)
def test_average_crossover_rounds_up_and_drops_no_member(a, b):
    (child, again), _ = crossed(a, b, lambda size: (0, 0))
    assert child.tolist() == again.tolist() == [-(-(x + y) // 2) for x, y in zip(a, b, strict=True)]


def test_both_points_and_all_pairs_of_them_are_drawn():
    rng = np.random.default_rng(0)
    union = np.empty((3, D), dtype=np.int64)
    drawn = {children.crossing(union, 4, False, rng) for _ in range(300)}
    assert drawn == {(a, b) for a in range(4) for b in range(a + 1, 4)}


@given(counts, st.integers(1, 3), st.integers(0, 1000))
def test_mutation_adds_picks_of_one_model(x, step, seed):
    x = np.array(x)
    child = np.empty((2, D), dtype=np.int64)
    members = np.count_nonzero(x)
    child[:, :members] = np.flatnonzero(x), x[x > 0]
    after = children.mutate(child, members, step, MOST, D, np.random.default_rng(seed))
    if after == 0:
        assert x.max() + step > MOST
        return
    dense = np.zeros(D, dtype=int)
    dense[child[0, :after]] = child[1, :after]
    assert sorted((dense - x).tolist()) == [0] * (D - 1) + [step]
    assert (np.diff(child[0, :after]) > 0).all()
    assert members > 1 or np.count_nonzero(dense) == 2  # a single model is not added to itself


@given(st.lists(counts, min_size=1, max_size=6), st.integers(0, 1000), st.booleans())
def test_children_are_new_and_never_empty(elites, seed, average):
    X, marks = bred(elites, 30, seed, average=average)
    assert (X.sum(axis=1) > 0).all()
    assert X.max(initial=0) <= MOST
    assert len({shares(x) for x in X}) == len(X)
    assert np.array_equal(
        marks[:, children.MUTATED] >= 1 - marks[:, children.CROSSED], marks[:, 0] >= 0
    )


@given(st.lists(counts, min_size=2, max_size=6), st.integers(0, 1000))
def test_crosses_that_are_not_mutated_have_members_of_the_elites_alone(elites, seed):
    X, marks = bred(elites, 30, seed, crossover=1.0)
    pure = X[marks[:, children.MUTATED] == 0]
    outside = ~np.any(elites, axis=0)
    assert not pure[:, outside].any()


def test_multiples_are_the_same_ensemble():
    X, _ = bred([[2, 2, 0]], 3, seen=[[3, 2, 0]], crossover=0.0)
    assert (3, 2, 0) not in {shares(x) for x in X}
    X, _ = bred([[2, 1, 0]], 30, seen=[[1, 1, 0]], crossover=0.0)
    assert [2, 2, 0] not in X.tolist()


def test_the_brake_lengthens_the_step_of_mutation():
    """Every mutant by one step is known: two steps are taken."""
    known = [[2, 1, 0], [1, 2, 0], [1, 1, 1]]
    X, _ = bred([[1, 1, 0]], 3, seen=known, crossover=0.0, retries=10)
    assert sorted(X.tolist()) == [[1, 1, 2], [1, 3, 0], [3, 1, 0]]


def test_the_brake_mutates_all_crosses():
    """One elite twice: its crosses are itself, which is known."""
    elite = [1, 1, 1]
    X, marks = bred([elite, elite], 2, seen=[elite], crossover=1.0, mutation=0.0, retries=5)
    assert len(X) == 2
    assert marks[:, children.MUTATED].all()


@pytest.mark.parametrize("whole_batch", [False, True])
def test_where_nothing_is_left_a_batch_is_short(whole_batch):
    X, _ = bred([[1]], 5, seen=[[1]], whole_batch=whole_batch, ranked=np.zeros(0, np.int64))
    assert len(X) == 0
    X, _ = bred([[1, 1]], 500, max_count=3, whole_batch=whole_batch, crossover=0.0)
    assert {tuple(x) for x in X} <= {(2, 1), (1, 2), (3, 1), (1, 3)}


def picks(n, two, number=4000, **changes):
    rng = np.random.default_rng(0)
    ranked = np.arange(100, 100 + n)
    return [children.parents(ranked, 5, two, plan(**changes), rng) for _ in range(number)]


def test_deterministic_parents_are_the_best():
    assert set(picks(4, False, 20, method=children.DETERMINISTIC)) == {(100, 100, (0, 0))}
    assert set(picks(4, True, 20, method=children.DETERMINISTIC)) == {(100, 101, (0, 0))}


def test_the_start_population_helps_out():
    for first, second, _ in picks(1, True, 50):
        assert first == 100
        assert -5 <= second <= -1
    for first, second, _ in picks(0, True, 50):
        assert -5 <= first <= -1
        assert -5 <= second <= -1


def test_dynamic_parents_are_random_or_best():
    found = picks(3, True, random_parent=0.25)
    assert {sum(drawn) for _, _, drawn in found} == {2}
    best = np.mean([first == 100 for first, _, _ in found])
    assert abs(best - (0.75 + 0.25 / 3)) < 0.04
    assert abs(np.mean([drawn[0] for _, _, drawn in found]) - 0.5) < 0.05


def test_tournaments_favour_the_best():
    rng = np.random.default_rng(0)
    won = np.array([children.tournament(3, 1, rng)[0] for _ in range(4000)])
    chances = np.bincount(won, minlength=3) / 4000
    assert np.allclose(chances, np.array([1, 0.2, 0.04]) / 1.24, atol=0.04)
    pairs = [children.tournament(30, 2, rng) for _ in range(200)]
    assert all(i != j for i, j in pairs)


def test_rates_are_the_other_sides_share_of_the_loss():
    rates = OperatorProbabilities(every=2)
    marks = np.array([[1, 1, 2, 0], [1, 0, 0, 2], [0, 1, 1, 0]] * 2)
    loss = np.array([0.1, 0.3, 0.2] * 2)
    rates.learn(marks, loss)
    assert rates.values.tolist() == [0.5, 0.5, 0.5]
    rates.learn(marks, loss)
    random, best = (2 * 0.1 + 0.2) / 3, 0.3
    cross, alone, mutant, plain = 0.2, 0.2, 0.1, 0.3
    expected = [best / (random + best), alone / (cross + alone), plain / (mutant + plain)]
    assert np.allclose(rates.values, expected)


def test_a_cross_of_mixed_parents_counts_on_both_sides_or_on_neither():
    # crosses of two random parents, of one and the best one, of the best one with itself
    marks = np.array([[1, 1, 2, 0], [1, 1, 1, 1], [1, 1, 0, 2], [0, 1, 1, 0]] * 3)
    loss = np.array([0.1, 0.9, 0.3, 0.4] * 3)
    by_parent, by_child = OperatorProbabilities(every=1), OperatorProbabilities(1, by_child=True)
    for rates in (by_parent, by_child):
        rates.learn(marks, loss)
    random, best = (2 * 0.1 + 0.9 + 0.4) / 4, (0.9 + 2 * 0.3) / 3
    assert by_parent.values[0] == pytest.approx(best / (random + best))
    random, best = (0.1 + 0.4) / 2, 0.3
    assert by_child.values[0] == pytest.approx(best / (random + best))
    assert (by_child.values[1:] == by_parent.values[1:]).all()


def test_rates_stay_within_limits_and_need_samples():
    rates = OperatorProbabilities(every=1)
    few = np.array([[1, 1, 1, 0], [0, 1, 0, 1]])
    rates.learn(few, np.array([0.1, 0.2]))
    assert rates.values.tolist() == [0.5, 0.5, 0.5]
    many = np.repeat(few, 3, axis=0)
    rates.learn(many, np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    assert rates.values.tolist() == pytest.approx([0.95, 0.9, 0.5])
    for _ in range(10):
        rates.learn(many, np.zeros(6))
    assert rates.values.tolist() == [0.5, 0.5, 0.5]
