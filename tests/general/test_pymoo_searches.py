"""Our NSGA-II, and NSGA-III and SMS-EMOA: pymoo behind our contracts, with EMSCO's operators.

And NSGA-II as pymoo and Optuna have it, and what searches of their kind refuse.
"""

import warnings

import numpy as np
import optuna
import pytest

from algorithms.general.baselines import RandomSearch
from algorithms.general.local_search import ParetoLocalSearch
from algorithms.general.nsga2 import NSGAII
from algorithms.general.optuna_search import OptunaNSGAII
from algorithms.general.pymoo_searches import (
    NSGAIII,
    RVEA,
    SMSEMOA,
    PymooNSGAII,
    _dominating,
    _less_infeasible,
)
from algorithms.hull.papers.archive_peers import ARMOEA, TwoArch2
from algorithms.hull.papers.decomposition_peers import MOEADD
from algorithms.multistage.emsco import EMSCO
from framework.algorithm import name_of
from framework.batch import Evaluated
from framework.errors import InputError
from framework.problems.functions import FunctionProblem
from framework.roles import Constraint, Metric, Objective, Roles
from framework.streams import CandidateStreams, algorithm_stream
from tests.conftest import roles_of
from tests.landscape import generations
from tests.searching import searched
from tests.toys import EnsembleToy, OddSpace, StagesToy

PEERS = [NSGAII, NSGAIII, SMSEMOA]


@pytest.mark.parametrize("cls", [PymooNSGAII, OptunaNSGAII])
def test_the_peers_beat_random_search(cls):
    problem = StagesToy(24, 8)
    roles = roles_of(problem)
    verbosity = optuna.logging.get_verbosity()
    _, front, _ = searched(cls, problem, roles, 600)
    _, baseline, _ = searched(RandomSearch, problem, roles, 600)
    assert front.hypervolume() > baseline.hypervolume()
    assert optuna.logging.get_verbosity() == verbosity


@pytest.mark.parametrize("constraints", [[], [Constraint("coverage", at_least=0.9)]], ids=len)
def test_optunas_candidates_are_those_of_a_study(constraints):
    problem, generation = StagesToy(6, 3, removal=True), 8
    roles = Roles(problem.metrics, roles_of(problem).objectives, constraints)
    streams = CandidateStreams(0, np.arange(generation))
    algorithm = OptunaNSGAII(problem, roles, seed=5, population=generation)
    seed = int(algorithm_stream(5).integers(2**32))
    sampler = optuna.samplers.NSGAIISampler(population_size=generation, seed=seed)
    study = optuna.create_study(directions=["minimize"] * 3, sampler=sampler)
    for first in range(0, 10 * generation, generation):
        trials = [study.ask() for _ in range(generation)]
        rows = [[trial.suggest_int(f"gene {j}", -1, 2) for j in range(6)] for trial in trials]
        X = algorithm.ask()
        assert np.array_equal(X, problem.space.repaired(np.array(rows)))
        values = problem.evaluate(X, streams)
        violations = roles.violation(values).tolist()
        for trial, losses, violation in zip(trials, roles.losses(values), violations, strict=True):
            if constraints:
                trial.set_constraint("coverage", violation)
            study.tell(trial, losses.tolist())
        algorithm.tell(Evaluated(first + np.arange(generation), X, values))


@pytest.mark.quick(1)
@pytest.mark.parametrize("cls", PEERS)
@pytest.mark.parametrize(
    ("problem", "lead"),
    [
        (StagesToy(24, 8), 1.0),
        (FunctionProblem("zdt1", 20), 1.05),
        (FunctionProblem("lotz", 20), 1.05),
        (EnsembleToy(20, 10), 1.0),
    ],
    ids=["partitions", "boxes", "subsets", "counts"],
)
def test_it_beats_random_search(cls, problem, lead):
    _, found, _ = searched(cls, problem, roles_of(problem), 2000, population=50)
    _, baseline, _ = searched(RandomSearch, problem, roles_of(problem), 2000)
    assert found.hypervolume() > lead * baseline.hypervolume()


@pytest.mark.parametrize("cls", PEERS)
def test_two_runs_in_one_process_are_one(cls):
    """Violations tie: pymoo's own tournament would ask the operating system."""
    problem = StagesToy()
    roles = roles_of(problem, Constraint("cost", at_most=0.0))
    fronts = []
    for _ in range(2):
        algorithm = cls(problem, roles, seed=3, population=20)
        fronts.append(np.concatenate([b.X for b in generations(algorithm, problem, 6)]))
    assert np.array_equal(*fronts)


@pytest.mark.quick(1)
@pytest.mark.parametrize("cls", PEERS)
def test_constraints_hold_in_the_end(cls):
    problem = StagesToy()
    roles = roles_of(problem, Constraint("cost", at_most=5.0))
    _, front, _ = searched(cls, problem, roles, 2000, population=30)
    assert len(front) > 5
    assert front.rows.values["cost"].max() <= 5.0


@pytest.mark.parametrize("cls", PEERS)
@pytest.mark.parametrize("more", [{}, {"max_pending": 8}], ids=["generations", "max_pending"])
def test_no_genome_is_proposed_twice_and_a_small_space_ends_the_run(cls, more):
    problem = StagesToy(6, 3) if cls is NSGAII else StagesToy(3, 2)
    algorithm = cls(problem, roles_of(problem), seed=0, population=10, **more)
    X = np.concatenate([batch.X for batch in generations(algorithm, problem, 10_000)])
    assert algorithm.done
    assert algorithm.reason == "no new genome from mating"
    assert len(np.unique(X, axis=0)) == len(X)


@pytest.mark.parametrize("cls", PEERS)
def test_warnings_stay_as_they_were(cls):
    before = list(warnings.filters)
    problem = StagesToy()
    searched(cls, problem, roles_of(problem), 200, population=20)
    assert warnings.filters == before


class Flat(StagesToy):
    """One objective is constant, another has no upper bound."""

    def __init__(self):
        super().__init__()
        self.metrics = (*self.metrics[:2], Metric("cost", "min", "ratio", high=np.inf))

    def evaluate(self, X, streams):
        return {**super().evaluate(X, streams), "coverage": np.ones(len(X))}


@pytest.mark.parametrize("cls", PEERS)
def test_constant_and_unbounded_objectives_do_no_harm(cls):
    problem = Flat()
    algorithm = cls(problem, roles_of(problem), seed=0, population=20)
    assert len(list(generations(algorithm, problem, 8))) == 8
    losses = algorithm.losses if cls is NSGAII else algorithm._search.pop.get("F")
    assert len(np.unique(losses, axis=0)) > 3


@pytest.mark.parametrize("cls", [NSGAIII, SMSEMOA, TwoArch2, MOEADD, ARMOEA])
def test_a_single_objective_is_refused(cls):
    problem = FunctionProblem("zed1")
    one = Roles(problem.metrics, [Objective("f1", "min")])
    with pytest.raises(InputError, match="at least two"):
        cls(problem, one, seed=0)


def test_nsga3_takes_the_finest_lattice_that_the_population_covers():
    problem = StagesToy()
    for population, directions in ((3, 3), (5, 3), (6, 6), (299, 276), (300, 300)):
        algorithm = NSGAIII(problem, roles_of(problem), seed=0, population=population)
        assert len(algorithm._search.ref_dirs) == directions
    with pytest.raises(InputError, match="at least 3 for 3 objectives"):
        NSGAIII(problem, roles_of(problem), seed=0, population=2)


@pytest.mark.parametrize("cls", [*PEERS, ParetoLocalSearch, EMSCO])
def test_other_spaces_are_refused(cls):
    problem = FunctionProblem("zdt1", 2)
    problem.space = OddSpace()
    with pytest.raises(InputError, match=f"{name_of(cls)} searches ordered partitions"):
        cls(problem, roles_of(problem), seed=0)


class Rows:
    """What the tournaments ask of pymoo's population."""

    def __init__(self, violation, losses):
        self.columns = {"CV": np.array(violation)[:, None], "F": np.array(losses)}

    def get(self, name):
        return self.columns[name]


def test_tournaments():
    rows = Rows([0.0, 0.0, 2.0, 1.0, 0.0], [[0, 0], [1, 1], [0, 0], [5, 5], [2, 0.5]])
    pairs = np.array([[0, 1], [1, 0], [0, 2], [2, 3], [1, 3]])
    rng = np.random.default_rng(0)
    winners = _dominating(rows, pairs, random_state=rng)[:, 0]
    assert winners.tolist() == [0, 0, 0, 3, 1]
    assert _less_infeasible(rows, pairs, random_state=rng)[2:, 0].tolist() == [0, 3, 1]
    ties = np.repeat([[1, 4]], 2000, axis=0)
    for tournament in (_dominating, _less_infeasible):
        share = (tournament(rows, ties, random_state=rng)[:, 0] == 1).mean()
        assert 0.45 < share < 0.55


@pytest.mark.parametrize("cls", [NSGAIII, RVEA])
def test_methods_with_directions_return_their_members(cls):
    problem = FunctionProblem("zed1")
    roles = roles_of(problem)
    more = {"horizon": 1000} if cls is RVEA else {}
    algorithm = cls(problem, roles, seed=0, population=50, **more)
    assert algorithm.outcome().returned is None
    rows = {}
    for batch in generations(algorithm, problem, 20):
        rows |= {int(i): x.tobytes() for i, x in zip(batch.ids, batch.X, strict=True)}
    returned = algorithm.outcome().returned
    members = {x.tobytes() for x in algorithm._search.pop.get("X")}
    assert {rows[int(i)] for i in returned} == members
    assert 10 < len(returned) <= 50
