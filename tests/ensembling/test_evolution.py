"""HAPEns, QDO-ES and QO-ES as searches."""

import numpy as np
import pytest

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.ensembling.searches.evolution import QDOES, QOES, HAPEns, ParetoES
from framework.errors import InputError
from framework.problems.functions import FunctionProblem
from framework.roles import Metric
from tests.conftest import roles_of
from tests.ensembling.searching import searched, two_roles, volume
from tests.landscape import generations
from tests.made_up_libraries import made_up
from tests.toys import EnsembleToy

EVOLUTIONS = [HAPEns, QDOES, QOES, ParetoES]


def shares(X):
    return X // np.gcd.reduce(X, axis=1)[:, np.newaxis]


@pytest.mark.parametrize("cls", EVOLUTIONS)
def test_singles_come_first_then_disjoint_pairs_then_children(cls):
    problem = EnsembleToy(9)
    _, _, record = searched(cls, problem, evaluations=300)
    sizes = [len(batch) for batch in record.batches]
    assert sizes[:3] == [9, 4, 40]
    assert np.array_equal(record.batches[0].X, np.eye(9))
    pairs = record.batches[1].X
    assert (pairs.sum(axis=1) == 2).all()
    assert pairs.sum(axis=0).max() == 1


@pytest.mark.parametrize("cls", EVOLUTIONS)
def test_no_ensemble_is_asked_for_twice(cls):
    _, _, record = searched(cls, EnsembleToy(9), evaluations=1500)
    assert len(np.unique(shares(record.X), axis=0)) == len(record.X) == 1500


@pytest.mark.parametrize("start", ["pairs", "singles", "best_pairs"])
@pytest.mark.parametrize("parents", ["dynamic", "deterministic", "tournament"])
@pytest.mark.parametrize("crossover", ["two_point", "average"])
def test_options(start, parents, crossover):
    options = {"start": start, "parents": parents, "crossover": crossover}
    options |= {"adjust_every": 1, "count_retries": "batch", "credit": "child"}
    algorithm, _, record = searched(HAPEns, EnsembleToy(9), evaluations=500, **options)
    assert len(record.X) == 500
    assert len(algorithm.outcome().returned) > 5
    best = record.batches[0].X[np.argmax(record.batches[0].values["roc_auc"])] > 0
    if start == "best_pairs":
        assert len(record.batches[1]) == 8
        assert (record.batches[1].X[:, best] == 1).all()
    assert (len(record.batches[1]) == 40) == (start == "singles")


@pytest.mark.parametrize("cls", EVOLUTIONS)
def test_the_elites_are_rows_told_and_the_front_holds_more(cls):
    problem = EnsembleToy(20)
    roles = two_roles(problem)
    algorithm, front, record = searched(cls, problem, roles, evaluations=3000)
    returned = algorithm.outcome().returned
    assert len(returned) <= 49 or cls is ParetoES
    assert np.array_equal(returned, np.unique(returned))
    everything = volume(record, roles, front.ids)
    assert everything >= volume(record, roles, returned)
    if cls is ParetoES:  # the last batch, cut by the budget, is told to nobody
        whole = [i for i in front.ids if i < 3000 - len(record.batches[-1])]
        assert set(whole) <= set(returned.tolist())
    if cls is QOES:
        best = np.sort(record.column("roc_auc")[20:2980])[-49:]  # neither singles nor the last
        assert np.sort(record.column("roc_auc")[returned])[0] >= best[0] - 0.05


def test_the_archive_loses_the_cheap_end_and_the_front_keeps_it():
    """Boundaries slide to large ensembles; notes: .920 against 1.014 of everything."""
    problem = EnsembleToy(30)
    roles = two_roles(problem)
    algorithm, front, record = searched(HAPEns, problem, roles, evaluations=4000)
    memory = record.column("memory")
    assert memory[front.ids].min() < memory[algorithm.outcome().returned].min()


def test_the_front_as_archive_finds_more_than_hapens_returns():
    """Over six seeds, by chance alone 1 in 64."""
    problem = EnsembleProblem(made_up(30, 200))
    roles = two_roles(problem)
    for seed in range(6):
        algorithm, _, record = searched(HAPEns, problem, roles, 3000, seed)
        elites = volume(record, roles, algorithm.outcome().returned)
        algorithm, front, record = searched(ParetoES, problem, roles, 3000, seed)
        assert volume(record, roles, front.ids) > elites


@pytest.mark.parametrize("cells", [1, 3, 12])
def test_the_archive_has_as_many_cells_as_asked_for(cells):
    for cls, niches in ((HAPEns, ("members", "config_similarity")), (QOES, None)):
        given = {} if niches is None else {"behavior": niches}
        algorithm, _, record = searched(
            cls, EnsembleToy(20), evaluations=2000, cells=cells, **given
        )
        elites = algorithm.outcome().returned
        assert len(elites) == cells**2 if niches is None else 1 <= len(elites) <= cells**2
        if cells == 1:  # one niche: the best of all but the single models
            assert record.column("roc_auc")[elites[0]] == record.column("roc_auc")[20:1980].max()


@pytest.mark.parametrize("cls", EVOLUTIONS)
@pytest.mark.parametrize("n", [1, 2])
def test_few_models_end_the_run(cls, n):
    algorithm, _, record = searched(cls, EnsembleToy(n, 3), evaluations=1000)
    assert algorithm.done
    assert "not proposed before" in algorithm.reason
    found = {tuple(row) for row in shares(record.X).tolist()}
    if n == 1:
        assert algorithm.outcome().returned.tolist() == [0]
    assert found == ({(1,)} if n == 1 else {(1, 0), (0, 1), (1, 1)} | (found - {(0, 0)}))


def test_a_front_of_few_elites_does_not_end_the_search():
    """Its children are soon all known; it goes on with the best rows, dominated or not."""
    problem = EnsembleToy(5)
    roles = two_roles(problem, cost="members")
    algorithm, front, record = searched(ParetoES, problem, roles, evaluations=3000)
    assert len(front) <= 5
    assert not algorithm.done
    assert len(record.X) == 3000
    assert len(np.unique(shares(record.X), axis=0)) == 3000


@pytest.mark.parametrize("cls", EVOLUTIONS)
@pytest.mark.parametrize("evaluations", [1, 5, 9, 11, 13, 20])
def test_a_budget_shorter_than_the_start(cls, evaluations):
    algorithm, front, record = searched(cls, EnsembleToy(9), evaluations=evaluations)
    assert len(record.X) == evaluations
    assert len(front) > 0
    assert all(i < evaluations for i in algorithm.outcome().returned)


def test_all_models_alike():
    algorithm, front, _ = searched(HAPEns, EnsembleToy(6, alike=True), evaluations=400)
    assert len(algorithm.outcome().returned) > 0
    assert len(np.unique(front.rows.values["roc_auc"])) == 1


class Several(EnsembleToy):
    """Another score, its bound unknown."""

    def __init__(self):
        super().__init__(9)
        self.metrics = (*self.metrics, Metric("gain", "max", "ratio", -np.inf, np.inf))

    def evaluate(self, X, streams):
        values = super().evaluate(X, streams)
        return {**values, "gain": values["roc_auc"] - values["memory"]}


def test_mistakes_and_unbounded_measures():
    problem = Several()
    roles = roles_of(problem)
    algorithm = QOES(problem, roles, seed=0, fitness="gain")
    assert len(list(generations(algorithm, problem, 5))) == 5
    with pytest.raises(InputError, match=r"behavior: expected bounded metrics, found 'gain'"):
        HAPEns(problem, roles, seed=0, behavior=("gain", "memory"))
    with pytest.raises(
        InputError,
        match=r"behavior: expected a metric of the problem.*'memroy'.*"
        r"did you mean 'memory'",
    ):
        HAPEns(problem, roles, seed=0, behavior=("loss_correlation", "memroy"))
    with pytest.raises(InputError, match=r"fitness: expected an objective.*found 'auc'"):
        HAPEns(problem, roles, seed=0, fitness="auc")
    with pytest.raises(InputError, match="qo_es has no niches"):
        QOES(problem, roles, seed=0, behavior=("memory", "members"))
    other = FunctionProblem("lotz", 5)
    with pytest.raises(InputError, match="hapens searches counts of items"):
        HAPEns(other, roles_of(other), seed=0)
