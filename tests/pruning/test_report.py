"""The picture of a solved run."""

import pytest
from matplotlib.figure import Figure

from algorithms.pruning.report import write_pruning
from algorithms.pruning.searches.ip import IntegerProgram
from framework.experiment.run_dir import RunDir
from framework.front import Front
from tests.conftest import pruning
from tests.pruning.test_ip import roles, solve


def solved(path, test=True):
    problem = pruning(9)
    search, front = solve(IntegerProgram, problem, roles(problem), looks=20)
    if test:
        front = Front(front.rows, front.roles, front.gene_names, problem.evaluate_test(front.X))
    run_dir = RunDir(path)
    front.save(run_dir.front_file)
    for name, table in search.outcome().tables.items():
        run_dir.write_listing(name, table)
    return run_dir, search


@pytest.mark.parametrize("test", [True, False])
def test_a_solved_run_is_drawn_with_test_records_or_without(tmp_path, test, monkeypatch):
    run_dir, _ = solved(tmp_path, test)
    monkeypatch.setattr(run_dir, "data", lambda: {"measured": "out-of-fold on 60 records"})
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **how: drawn.append(figure))
    write_pruning(run_dir)
    labels = [label.get_text() for label in drawn[0].axes[2].get_xticklabels()]
    assert labels[:2] == ["called +\nout-of-fold", "called -\nout-of-fold"]
    monkeypatch.undo()
    assert write_pruning(run_dir) == [run_dir.plots / "pruning.png"]
    assert (run_dir.plots / "pruning.png").stat().st_size > 10_000


def test_votes_are_those_of_the_validation_records(tmp_path):
    _, search = solved(tmp_path)
    table, best = search.outcome().tables["votes"], search._solver.incumbent
    problem = pruning(9)
    above = table["votes"] > table["threshold"][0]
    fp, tp = problem.votes.positives(best.x[None], [best.threshold])[0]
    assert (table["negative"][above].sum(), table["positive"][above].sum()) == (fp, tp)
    assert table["negative"].sum() + table["positive"].sum() == 60


def test_other_runs_are_left_alone(tmp_path):
    assert write_pruning(RunDir(tmp_path)) == []
    assert not (tmp_path / "plots").exists()
