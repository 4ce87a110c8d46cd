"""What the benchmark compares with scores the same as what it measures."""

from __future__ import annotations

import sys

import bench
import numpy as np
import pytest

from algorithms.ensembling.ranks import auc, rank_table
from algorithms.pruning.problem import PruningProblem


def test_the_loop_that_emsco_is_compared_with_scores_the_same():
    source = {"synthetic": {"samples": 200, "features": 5, "informative": 3}}
    problem = bench.stages(source, [1, 2, 3, 1, 2], 3)
    X = problem.space.sample(np.random.default_rng(0), 4)
    values = problem.evaluate(X)
    plain = np.array([bench.plain_evaluation(problem, x) for x in X]).T
    for name, column in zip(("coverage", "accuracy", "cost"), plain, strict=True):
        assert values[name] == pytest.approx(column, abs=0.02), name  # two solvers, one model


def test_both_ways_to_compute_roc_auc_agree():
    library, X = bench.made_up(300), bench.random_ensembles(5)
    table = rank_table(library.validation, library.y_validation)
    assert auc(table, X) == pytest.approx(bench.one_at_a_time(library, X), abs=1e-5)


def test_both_forms_of_pruning_are_solved_for_as_long():
    problem = PruningProblem(bench.made_up(60).first(8))
    for solve in (bench.strong, bench.printed):
        value, bound, seconds = solve(problem, "accuracy", 20.0)
        assert value == bound == pytest.approx(value), solve
        assert 0.0 <= seconds < 20.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["emsco", "--repeats", "0"],
            "--repeats: expected a whole number of at least 1, found '0'",
        ),
        (["pruning", "nowhere"], "nowhere: expected a library's folder"),
    ],
)
def test_bad_arguments_are_a_sentence(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        sys.exit(bench.main(words))
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
