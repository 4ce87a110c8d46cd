"""What the benchmark compares with scores the same as what it measures."""

from __future__ import annotations

import sys
from functools import partial

import bench
import bench_families
import numpy as np
import peers
import pytest

from algorithms.ensembling.ranks import auc, rank_table
from algorithms.pruning.problem import PruningProblem
from framework.front import volume
from framework.roles import Roles
from framework.space import Partition
from framework.streams import CandidateStreams


def test_the_loop_that_emsco_is_compared_with_scores_the_same():
    source = {"synthetic": {"samples": 200, "features": 5, "informative": 3}}
    problem = bench.stages(source, [1, 2, 3, 1, 2], 3)
    children = bench.late_children(problem, 4)
    values = problem.evaluate(children, CandidateStreams(0, np.arange(4)))
    plain = np.array([bench.plain_evaluation(problem, x) for x in children]).T
    for name, column in zip(("coverage", "accuracy", "cost"), plain, strict=True):
        assert values[name] == pytest.approx(column, abs=0.02), name  # two solvers, one model


def test_all_ways_to_compute_roc_auc_agree():
    library, X = bench_families.made_up(300), bench_families.random_rows(5)
    expected = bench_families.one_at_a_time(library, X)
    assert bench_families.numpy_auc(library, X) == pytest.approx(expected, abs=1e-5)
    table = rank_table(library.validation, library.y_validation)
    assert auc(table, X) == pytest.approx(expected, abs=1e-5)


def test_both_forms_of_pruning_are_solved_for_as_long():
    problem = PruningProblem(bench_families.made_up_pool(k=8, n=60))
    for solve in (bench_families.strong, bench_families.printed):
        value, bound, seconds = solve(problem, "accuracy", 20.0)
        assert value == bound == pytest.approx(value), solve
        assert 0.0 <= seconds < 20.0


def test_exponents_are_slopes_beside_those_of_the_papers():
    row = bench_families.grown("mine", [10, 100], [0.001, 0.1], "n log n")
    assert row[1:] == ("10", "100", "1", "100", "2.00", "n log n", "1.30")


def test_peers_have_as_many_evaluations_and_never_beat_the_exact_front():
    source = {"synthetic": {"samples": 200, "features": 5, "informative": 3}}
    problem = bench.stages(source, [1, 2, 3, 1, 2], 3)
    roles = Roles(problem.metrics, bench.OBJECTIVES)
    best = bench.exact_volume(problem, roles)
    for work in (partial(peers.ours, bench.DEFAULT), peers.pymoo_nsga2, peers.optuna_nsga2):
        losses, seconds = work(problem, roles, 0, 150)
        assert len(losses) == 150
        assert seconds > 0
        assert 0.8 * best < volume(losses, roles) <= best + 1e-12


def test_what_peers_propose_becomes_a_design_of_the_space():
    space = Partition(4, 3, removal=True, levels=2, values=5)
    X = peers.repaired(space, np.array([[-1, -1, -1, -1, 4, 4], [2, 2, 0, -1, 1, 3]]))
    assert X.tolist() == [[0, -1, -1, -1, 0, 0], [1, 1, 0, -1, 1, 0]]
    assert space.contains(X.astype(space.dtype)).all()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["emsco", "--repeats", "0"],
            "--repeats: expected a whole number of at least 1, found '0'",
        ),
        (["defaults", "--only", "nope"], "--only: expected problems such as breast_w or 'pima 10'"),
        (["pruning", "nowhere"], "nowhere: expected a library's folder"),
    ],
)
def test_bad_arguments_are_a_sentence(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        sys.exit(bench.main(words))
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
