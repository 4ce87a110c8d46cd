"""Pareto local search: its neighbourhoods, what it never does twice, where it ends."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paretolab
from algorithms.general.local_search import ParetoLocalSearch
from algorithms.moves.partitions import neighbourhood_size, neighbours, wander
from algorithms.moves.seen import Seen
from algorithms.moves.variation import moved
from algorithms.multistage.emsco import EMSCO
from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import Front
from framework.roles import Constraint
from framework.space import Partition
from framework.streams import CandidateStreams
from tests import oracles
from tests.conftest import roles_of
from tests.landscape import generations
from tests.searching import searched
from tests.toys import EnsembleToy, StagesToy


@st.composite
def genomes(draw):
    n = draw(st.integers(1, 7))
    k = draw(st.integers(1, n))
    removal = draw(st.booleans())
    seed = draw(st.integers(0, 1000))
    return Partition(n, k, removal).sample(np.random.default_rng(seed), 1)[0], k, removal


def around(x, k, removal):
    room = np.empty((neighbourhood_size(len(x), k), len(x)), dtype=x.dtype)
    return room[: neighbours(x, k, removal, room)]


@given(genomes())
def test_the_neighbourhood_is_every_move_and_no_other(case):
    x, k, removal = case
    found = {tuple(row) for row in around(x, k, removal).tolist()}
    itself = tuple(x.tolist())
    assert found - {itself} == oracles.ordered_neighbours(x.tolist(), k, removal) - {itself}


@given(st.integers(2, 12), st.data())
def test_a_neighbourhood_has_room(n, data):
    k = data.draw(st.integers(1, n))
    x = np.arange(n) % k
    assert len(around(x.astype(np.int8), k, True)) <= neighbourhood_size(n, k)


def test_neighbourhoods_of_many_stages_do_not_overflow():
    x = np.arange(127, dtype=np.int8)
    assert Partition(127, 127).contains(around(x, 127, False)).all()


@given(genomes(), st.integers(0, 1000))
def test_walks_stay_in_the_space(case, seed):
    x, k, removal = case
    rows = np.repeat(x[np.newaxis], 30, axis=0)
    wander(rows, k, removal, 2, 9, np.random.default_rng(seed))
    assert Partition(len(x), k, removal).contains(rows).all()


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 3000))
def test_seen_tells_what_a_set_tells(seed, d, n):
    rng = np.random.default_rng(seed)
    seen, known = Seen(), set()
    for _ in range(4):
        rows = rng.integers(-1, 4, size=(n, d), dtype=np.int8)
        expected = []
        for row in map(tuple, rows.tolist()):
            expected.append(row not in known)
            known.add(row)
        assert seen.add(rows).tolist() == expected
    assert len(seen) == len(known)


def test_seen_tells_vectors_of_few_bits_apart():
    grid = np.array(list(itertools.product(np.arange(40) / 4, repeat=3)))
    assert Seen().add(grid.view(np.int64)).all()


def exact(problem, roles):
    space = problem.space
    X = np.array(oracles.ordered_partitions(space.n, space.k, space.removal), dtype=space.dtype)
    values = problem.evaluate(X, CandidateStreams(0, np.arange(len(X))))
    return Front.of([Evaluated(np.arange(len(X)), X, values)], roles, problem.gene_names)


def vectors(front):
    return {tuple(row) for row in front.losses.tolist()}


@pytest.mark.parametrize("removal", [False, True])
def test_it_asks_for_no_genome_twice_and_ends_with_the_space(removal):
    problem = StagesToy(5, 3, removal)
    algorithm, front, record = searched(
        ParetoLocalSearch, problem, roles_of(problem), 10_000, batch=40
    )
    assert len(np.unique(record.X, axis=0)) == len(record.X)
    assert len(record.X) > 0.99 * problem.space.size
    assert algorithm.done
    assert "led to no new candidate" in algorithm.reason
    assert vectors(front) == vectors(exact(problem, roles_of(problem)))


def test_very_large_neighbourhoods_are_not_listed(monkeypatch):
    monkeypatch.setattr("algorithms.general.local_search._LISTED", 0)
    monkeypatch.setattr("algorithms.moves.variation._Partitions.neighbours", None)
    problem = StagesToy(5, 3)
    _, front, record = searched(ParetoLocalSearch, problem, roles_of(problem), 10_000, batch=40)
    assert len(np.unique(record.X, axis=0)) == len(record.X)
    assert vectors(front) == vectors(exact(problem, roles_of(problem)))


def test_where_nothing_can_be_evaluated_the_whole_space_is_tried():
    problem = EnsembleToy(4, 3)
    algorithm = ParetoLocalSearch(problem, roles_of(problem), seed=0, batch=20)
    total = 0
    while (X := algorithm.ask()) is not None:
        ids = np.arange(total, total + len(X))
        values = {name: np.full(len(X), np.nan) for name in problem.metric_names}
        algorithm.tell(Evaluated(ids, X, values, errors=dict.fromkeys(ids.tolist(), "refused")))
        total += len(X)
    assert total > 0.95 * problem.space.size


@pytest.mark.parametrize("batch", [1, 10, 20])
def test_no_more_candidates_are_pending_than_may_be(batch):
    problem = StagesToy(7, 4)
    limits = {"batch": batch, "max_pending": 512, "crossover_rate": 0.0}
    algorithm = ParetoLocalSearch(problem, roles_of(problem), seed=0, **limits)
    sizes = list(iter(lambda: len(X) if (X := algorithm.ask()) is not None else 0, 0))
    assert sum(sizes) == 512
    assert len(set(sizes)) == 1


def test_a_walk_has_a_thousand_steps_at_most():
    with pytest.raises(InputError, match=r"perturbation: expected .*1,?000"):
        paretolab.minimize(
            abs, {"x": (0, 9)}, "y", algorithm={"kind": "local_search", "perturbation": 10**30}
        )


def test_a_space_of_one_genome_ends():
    problem = StagesToy(3, 1)
    algorithm, front, record = searched(ParetoLocalSearch, problem, roles_of(problem), 10_000)
    assert (len(record.X), len(front), algorithm.done) == (1, 1, True)


def test_only_the_last_neighbourhood_exceeds_a_batch():
    problem = StagesToy()
    algorithm = ParetoLocalSearch(problem, roles_of(problem), seed=0, batch=50, neighbours=None)
    most = neighbourhood_size(problem.space.d, problem.space.k)
    sizes = [len(batch) for batch in generations(algorithm, problem, 20)]
    assert len(sizes) == 20
    assert 50 <= min(sizes) <= max(sizes) < 50 + most


def first_of_a_batch(count, **parameters):
    """Return the front after four batches, the first rows of the next one, and neighbours."""
    problem = EnsembleToy(10, 4)
    search = ParetoLocalSearch(problem, roles_of(problem), seed=0, batch=40, **parameters)
    batches = list(generations(search, problem, 4))
    front = Front.of(batches, search.roles, problem.gene_names)
    return front, search.ask()[:count], moved(problem.space, front.rows.X)


def test_children_have_each_gene_from_one_of_two_front_members():
    front, rows, _ = first_of_a_batch(5, crossover_rate=0.5)
    genes = front.rows.X[:, np.newaxis] == rows  # members x rows x genes
    pairs = (genes[:, np.newaxis] | genes).all(axis=3).any(axis=(0, 1))
    assert pairs.all()
    assert not genes.all(axis=2).any()


def test_without_crossover_a_batch_is_neighbours_of_the_front():
    _, rows, around_front = first_of_a_batch(10, crossover_rate=0.0, neighbours=3)
    assert (around_front == rows[:, np.newaxis]).all(axis=2).any(axis=1).all()


def test_parents_are_alike_in_their_objectives():
    problem = EnsembleToy(10, 4)
    search = ParetoLocalSearch(problem, roles_of(problem), seed=0)
    pairs = []

    def crossed(A, B, rng):
        pairs.append((A, B))
        return A

    search._moves.crossed = crossed
    search._X = np.repeat(np.arange(5, dtype=np.int32)[:, np.newaxis], 10, axis=1)
    search._layer = np.array([0, 0, 0, 0, 1])
    search._losses = np.array([[0, 1e6], [0.1, 9e5], [9, 1e5], [10, 0], [5, 5e5]])  # two pairs
    search._children(4000)
    ((A, B),) = pairs
    first, second = A[:, 0], B[:, 0]
    assert (first != second).mean() > 0.98  # unless four draws gave none but itself
    assert set(first.tolist()) == {0, 1, 2, 3}
    assert (first // 2 == second // 2).mean() == pytest.approx(1 - 0.75**4, abs=0.03)


def test_the_archive_keeps_the_front_and_its_bound():
    problem = StagesToy()
    roles = roles_of(problem)
    for archive in (1, 30):  # whole batches: all of them are told
        algorithm, front, _ = searched(
            ParetoLocalSearch, problem, roles, generations=8, archive=archive
        )
        algorithm._take_in()  # of the last batch
        kept = {tuple(row) for row in algorithm._losses.tolist()}
        assert vectors(front) <= kept
        assert len(kept) == len(algorithm._losses) == max(archive, len(front))


def test_infeasible_rows_lead_to_feasible_ones():
    problem = StagesToy()
    roles = roles_of(problem, Constraint("cost", at_most=2.0), Constraint("coverage", at_least=0.3))
    _, front, _ = searched(ParetoLocalSearch, problem, roles, 4000, batch=20)
    assert vectors(front) == vectors(exact(problem, roles))


def test_it_finds_more_of_the_exact_front_than_emsco_at_equal_evaluations():
    problem = StagesToy(8, 4)
    roles = roles_of(problem)
    wanted = vectors(exact(problem, roles))
    shares = {}
    for cls in (ParetoLocalSearch, EMSCO):
        fronts = [searched(cls, problem, roles, 3000, seed)[1] for seed in range(5)]
        shares[cls] = np.mean([len(vectors(front) & wanted) / len(wanted) for front in fronts])
    assert shares[ParetoLocalSearch] > shares[EMSCO]
