"""The benchmark's rows of other packages, which may be installed and yet not run."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from algorithms.multistage.problem import MultiStageProblem
from framework.libraries.library import Library
from framework.streams import CandidateStreams


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend("scripts")
    import bench_ensembling

    return bench_ensembling


def library(n=40):
    rng = np.random.default_rng(0)
    P = rng.random((3, n)).astype(np.float32)
    return Library(("a", "b", "c"), P, rng.integers(0, 2, n), (0, 1), {})


def test_a_rival_whose_metric_does_not_import_says_so(bench, monkeypatch, capsys):
    """Its module imports, but what it needs of a newer scikit-learn has moved."""
    for name in ("phem", "phem.methods", "phem.methods.ensemble_selection"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "phem.methods.ensemble_selection.qdo", ModuleType("qdo"))
    rows = [*bench.greedy_baselines(library(), 1), *bench.search_baselines(library(), 1)]
    phem = [row for row in rows if row.name.startswith("phem")]
    assert len(phem) == 2
    for row in phem:
        assert np.isnan(row.rate)
        assert row.note.startswith("does not run here (AttributeError")
    bench.show("title", "evaluations/s", [bench.Row("the first", 10.0), *phem])
    assert "does not run here" in capsys.readouterr().out


def test_a_rival_that_is_not_installed_has_no_row(bench, monkeypatch):
    monkeypatch.setattr(
        bench, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name))
    )
    assert bench.greedy_baselines(library(), 1) == bench.search_baselines(library(), 1) == []


def test_the_cost_of_a_search_is_measured_on_made_up_stages(monkeypatch):
    monkeypatch.syspath_prepend("scripts")
    import bench_multistage

    seconds, end = bench_multistage.search(bench_multistage.MadeUp(6, 400), 20, 2)
    assert seconds > 0.0
    assert end.evaluations > 40


def test_the_loop_that_emsco_is_compared_with_scores_the_same(monkeypatch):
    monkeypatch.syspath_prepend("scripts")
    import bench_multistage as bench

    source = {"synthetic": {"samples": 200, "features": 5, "informative": 3}}
    problem = MultiStageProblem.from_config(bench.stages_config(source, [1, 2, 3, 1, 2], 3))
    children = bench.late_children(problem, 4)
    found = problem.evaluate(children, CandidateStreams(0, np.arange(4)))
    plain = np.array([bench.plain_evaluation(problem, x) for x in children]).T
    for name, values in zip(("coverage", "accuracy", "cost"), plain, strict=True):
        assert found[name] == pytest.approx(values, abs=0.02), name  # two solvers, one model


def test_the_obvious_step_scores_every_kind_of_target(bench, monkeypatch):
    monkeypatch.setattr(bench, "rate", lambda work, n, repeats: (work(), 1.0)[1])
    monkeypatch.setattr(bench, "searched", lambda *_, **__: bench.Row("ours", 1.0))
    shown = []
    monkeypatch.setattr(bench, "show", lambda title, unit, rows: shown.append((title, rows)))
    monkeypatch.setattr(bench, "autogluons_row", lambda *_: [])
    for target in bench.TARGETS:
        bench.show_target(60, *target, 1)
    assert len(shown) == len(bench.TARGETS)
    assert "Greedy selection by rmse: 60 models, 60 records, regression" in dict(shown)


def test_the_time_to_a_gap_is_that_of_a_proof(monkeypatch):
    monkeypatch.syspath_prepend("scripts")
    import bench_pruning

    pool = bench_pruning.made_up(k=10, n=80)
    ((name, workers, *_, value, bound, programs),) = bench_pruning.by_workers(
        pool, "accuracy", 0.0, [0]
    )
    assert (name, workers) == ("made_up", "this process")
    assert float(bound) == float(value)
    assert int(programs) > 0
