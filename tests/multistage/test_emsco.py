"""EMSCO: its two properties, its elite, its ends, what it finds."""

import copy
import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.moves import partitions
from algorithms.moves.partitions import neighbourhood_size, neighbours
from algorithms.multistage.emsco import EMSCO
from framework.front import Archive
from framework.pareto import pareto_layers
from framework.roles import Constraint
from framework.run.evaluator import evaluate_candidates
from framework.testing import check_algorithm
from framework.testing.tools import BrokenProblem
from tests import oracles
from tests.conftest import roles_of
from tests.landscape import Landscape, emsco, generations
from tests.searching import searched
from tests.toys import StagesToy

# --- selection ------------------------------------------------------------------------------


def losses_of(algorithm, batch):
    return algorithm.roles.losses(batch.values)


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(
            st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=n, max_size=n
        )
    ),
    st.sampled_from([0.01, 1.0]),
)
def test_property_2_fitness_grows_with_rank_first_and_length_second(rows, epsilon):
    gains = np.array(rows)
    layers = pareto_layers(-gains, np.zeros(len(gains)))
    fitness = partitions.log_fitness(gains, layers, epsilon)
    length = np.maximum(np.sqrt((gains**2).sum(axis=1)), 1e-12)
    assert np.isfinite(fitness).all()
    for i in range(len(rows)):
        for j in range(len(rows)):
            longer = layers[i] == layers[j] and length[i] > length[j] * (1 + 1e-9)
            if layers[i] < layers[j] or longer:
                assert fitness[i] > fitness[j]


def test_property_2_holds_for_300_layers_far_apart():
    """gamma is 1000 here: gamma ** 300 is no float."""
    gains = np.linspace(0.001, 1.0, 300)[:, None].repeat(3, axis=1) / math.sqrt(3)
    layers = pareto_layers(-gains, np.zeros(300))
    assert layers.max() == 299
    fitness = partitions.log_fitness(gains, layers, 0.01)
    assert np.isfinite(fitness).all()
    assert (np.diff(fitness) > 0).all()
    assert math.isclose(
        fitness[1] - fitness[0],
        math.log(1000.01) + math.log(gains[1, 0] / gains[0, 0]),
        rel_tol=1e-9,
    )


def test_fitness_is_equation_9():
    gains = np.array([[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.25]])
    gamma = 1.0 / 0.25 + 0.01
    want = [gamma**1 * 1.0, gamma**0 * 0.5, gamma**1 * 0.25]
    fitness = partitions.log_fitness(gains, np.array([0, 1, 0]), 0.01)
    assert np.allclose(np.exp(fitness), want, rtol=1e-12)


def test_g3_is_the_least_cost_of_the_generation_over_the_own():
    problem = Landscape()
    algorithm = emsco(problem)
    losses = np.array([[-0.5, -1.0, 20.0], [-1.0, 0.0, 50.0], [0.0, -0.25, 100.0]])
    want = [[0.5, 1.0, 1.0], [1.0, 0.0, 0.4], [0.0, 0.25, 0.2]]
    assert np.allclose(algorithm._gains(losses), want, rtol=1e-12)


def test_g3_of_a_free_row_is_1_and_that_of_the_others_0():
    losses = np.array([[-0.5, -1.0, 0.0], [-1.0, 0.0, 50.0]])
    assert emsco(Landscape())._gains(losses)[:, 2].tolist() == [1.0, 0.0]


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 6, 1000]),
    st.sampled_from(["objectives", "chromosome"]),
)
def test_property_1_what_was_ever_best_stays_in_the_elite(seed, levels, unique):
    problem = Landscape(seed, n=6, k=4, levels=levels)
    algorithm = emsco(problem, seed=seed, population=80, unique=unique)
    archive = Archive(algorithm.roles)
    for batch in generations(algorithm, problem, 8):
        archive.update(batch)
        if len(algorithm.elite) == algorithm.population:
            return  # full: the paper's condition is not met any more
        elite = {tuple(row) for row in losses_of(algorithm, algorithm.elite).tolist()}
        assert elite >= {tuple(row) for row in archive.losses.tolist()}


@pytest.mark.parametrize("elitism", [0.0, 0.2, 0.37, 1.0])
def test_size_of_the_elite(elitism):
    """max(ceil(b * distinct), distinct rows of the best layer), at most the population."""
    problem = Landscape(3, n=6, k=4, levels=1000)
    algorithm = emsco(problem, elitism=elitism, population=50)
    kept = None
    for batch in generations(algorithm, problem, 3):
        rows = losses_of(algorithm, batch)
        everyone = rows if kept is None else np.concatenate([kept, rows])
        distinct = np.unique(everyone, axis=0)
        best = sum(1 for layer in oracles.peel(distinct, np.zeros(len(distinct))) if layer == 0)
        want = min(max(math.ceil(elitism * len(distinct) - 1e-9), best), 50)
        assert len(algorithm.elite) == want
        kept = losses_of(algorithm, algorithm.elite)
        assert len(np.unique(kept, axis=0)) == len(kept)


def test_each_generation_is_filled_up_by_children():
    problem = Landscape(levels=1000)
    algorithm = emsco(problem, population=50)
    kept = 0
    for batch in generations(algorithm, problem, 5):
        assert len(batch) == 50 - kept
        kept = len(algorithm.elite)


# --- ends -----------------------------------------------------------------------------------


def end_of(algorithm, problem, count=60):
    told = list(generations(algorithm, problem, count))
    return len(told), algorithm.done, algorithm.reason


def test_distinct_chromosomes_of_equal_worth_fill_the_elite_and_end_the_search():
    problem = Landscape(levels=1, n=8, k=4)
    told, done, reason = end_of(emsco(problem, unique="chromosome", population=20), problem)
    assert done
    assert told < 60
    assert reason == "elite fills the population; raise algorithm.population"


def test_by_objectives_they_do_not():
    problem = Landscape(levels=1, n=8, k=4)
    ended = end_of(emsco(problem, unique="objectives", population=20), problem)
    assert ended == (60, False, "")  # and without convergence the same fittest genome ends nothing


@pytest.mark.parametrize("g", [1, 4])
def test_convergence_is_g_generations_with_the_same_fittest_genome(g):
    problem = Landscape(levels=1)  # all rows tie: the first one stays the fittest
    told, done, reason = end_of(emsco(problem, convergence=g), problem)
    assert (told, done, reason) == (g + 1, True, "convergence")


def test_convergence_starts_again_where_the_fittest_genome_changes():
    problem = Landscape(7, n=8, k=4, levels=1000)
    algorithm = emsco(problem, convergence=5, population=20)
    fittest, ends = [], None
    for number, _ in enumerate(generations(algorithm, problem, 200)):
        fittest.append(tuple(algorithm.fittest.tolist()))
        if algorithm.done:
            ends = number
    assert algorithm.reason == "convergence"
    assert len(set(fittest[ends - 5 :])) == 1
    assert len(set(fittest)) > 1
    longest = max(sum(1 for _ in group) for _, group in itertools.groupby(fittest[:ends]))
    assert longest <= 5


# --- the whole search -----------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "problem",
    [StagesToy(5, 3), StagesToy(5, 3, removal=True), Landscape(1, 5, 3, 9)],
    ids=lambda problem: problem.fingerprint,
)
def test_the_exact_front_of_a_small_problem_is_found(problem):
    everything = np.array(oracles.ordered_partitions(5, 3, problem.space.removal), dtype=np.int8)
    roles = roles_of(problem)
    values = evaluate_candidates(problem, 0, np.arange(len(everything)), everything).values
    losses = roles.losses(values)
    exact = {tuple(row) for row in losses[oracles.nondominated(losses)].tolist()}
    setting = {"population": 200, "mutation_rate": 0.3}
    algorithm, front, _ = searched(EMSCO, problem, roles, generations=300, **setting)
    assert {tuple(row) for row in front.losses.tolist()} == exact
    # what Algorithm 3 returns: all of it (Property 1), the longest vector of objectives first
    rows = np.searchsorted(front.ids, algorithm.outcome().findings["by_fitness"])
    assert {tuple(row) for row in front.losses[rows].tolist()} == exact
    values = {name: front.rows.values[name][rows] for name in ("coverage", "accuracy", "cost")}
    inverse = np.array([values["cost"].min() / cost if cost else 1.0 for cost in values["cost"]])
    lengths = values["coverage"] ** 2 + values["accuracy"] ** 2 + inverse**2
    assert (np.diff(lengths) <= 1e-12).all()
    assert len(set(lengths.round(6))) > 1


def test_among_infeasible_rows_the_least_violation_is_the_fittest():
    problem = Landscape(2, levels=1000)
    algorithm = emsco(problem, Constraint("coverage", at_least=2.0))
    seen = list(generations(algorithm, problem, 4))
    coverage = np.concatenate([batch.values["coverage"] for batch in seen])
    genomes = np.concatenate([batch.X for batch in seen])
    assert algorithm.fittest.tolist() == genomes[coverage.argmax()].tolist()


class Moody(Landscape):
    """Some rows fail."""

    def evaluate(self, X, streams):
        values = dict(super().evaluate(X, streams))
        values["cost"] = np.where(X[:, 0] == 1, np.nan, values["cost"])
        return values


def test_failed_rows_leave_the_generation():
    problem = Moody(n=6, k=3)
    algorithm = emsco(problem, mutation_rate=0.3)
    failed = 0
    for batch in generations(algorithm, problem, 6):
        failed += len(batch.errors)
        assert (algorithm._generation[:, 0] != 1).all()
        assert np.isfinite(algorithm._weights).all()
    assert failed > 0


def test_a_first_generation_of_failures_is_drawn_again():
    problem = BrokenProblem(Landscape())
    told, done, _ = end_of(emsco(problem, population=10), problem, 4)
    assert (told, done) == (4, False)


def test_a_single_feature():
    problem = Landscape(n=1, k=1)
    told, _, _ = end_of(emsco(problem, population=5), problem, 3)
    assert told >= 1


# --- memetic --------------------------------------------------------------------------------


@pytest.mark.parametrize("removal", [False, True])
def test_moved_children_are_new_and_next_to_the_elite(removal):
    problem = Landscape(levels=1000, n=9, k=4, removal=removal)
    algorithm = emsco(problem, memetic=0.5)
    space, asked = problem.space, set()
    room = np.empty((neighbourhood_size(space.d, space.k), space.d), dtype=space.dtype)
    for batch in generations(algorithm, problem, 8):
        asked |= {row.tobytes() for row in batch.X.astype(space.dtype)}
        moved = [row.tobytes() for row in copy.deepcopy(algorithm)._moved(20)]
        beside = {
            row.tobytes()
            for x in algorithm.elite.X.astype(space.dtype)
            for row in room[: neighbours(x, space.k, space.removal, room)]
        }
        assert 0 < len(set(moved)) == len(moved) <= 20
        assert set(moved) <= beside - asked


def test_memetic_keeps_the_laws():
    problem = StagesToy()
    make = partial(EMSCO, population=20, memetic=0.5)
    check_algorithm(make, problem, roles_of(problem))
