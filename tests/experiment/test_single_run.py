"""Who evaluates: the right evaluator for what was asked, and nothing left running."""

from pathlib import Path

import numpy as np
import pytest
import ray

from framework.experiment.config import RunConfig, check
from framework.experiment.execute import Options, execute
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import LastProgress, SingleRun, evaluator_for
from framework.parallel import auto_evaluator
from framework.parallel.config import uses_ray
from framework.problems.functions import FunctionProblem
from framework.run.driver import Progress
from tests.command import TOY
from tests.experiment import small
from tests.parallel.asking import score


def test_ray_is_asked_for_by_a_number_by_all_or_by_an_address():
    assert uses_ray(2, None)
    assert uses_ray("all", None)
    assert uses_ray("serial", "auto")
    assert not uses_ray("serial", None)
    assert not uses_ray("auto", None)


def test_the_budget_left_is_what_is_not_spent():
    last = LastProgress()
    assert last.budget_left() == 1.0
    last.on_batch(Progress(share=0.25))
    assert last.budget_left() == 0.75
    last.on_batch(Progress(share=None))
    assert last.budget_left() is None


def config(workers):
    """Return the configuration of a run on ZDT1."""
    raw = TOY | {"budget": {"evaluations": 40}, "workers": workers}
    return check(RunConfig, raw, Path("zdt1.yaml"))


@pytest.mark.quick(1)
@pytest.mark.parametrize("workers", ["serial", 1])
def test_every_evaluator_scores_and_leaves_nothing_running(workers):
    problem, lines = FunctionProblem("zdt1", 3), []
    X = problem.space.sample(np.random.default_rng(0), 8)
    made = evaluator_for(config(workers), problem, None, LastProgress(), lines.append)
    with made as (evaluator, description):
        score(evaluator, X)
    assert len(lines) == 1
    assert description().startswith("serial" if workers == "serial" else "Ray, 1 worker")
    assert not ray.is_initialized()


@pytest.mark.slow
def test_auto_that_moved_to_ray_ends_the_actors_before_their_cluster(monkeypatch):
    monkeypatch.setattr(auto_evaluator, "RAY_PAYS_SECONDS", 0.0)
    problem, lines = FunctionProblem("zdt1", 3), []
    X = problem.space.sample(np.random.default_rng(0), 600)
    made = evaluator_for(config("auto"), problem, None, LastProgress(), lines.append)
    with made as (evaluator, description):
        for first in range(0, 600, 100):
            score(evaluator, X[first : first + 100], first)
    assert "Ray" in lines[0]
    assert description().startswith("serial then Ray")
    # closing an actor of a cluster that is gone would start or join another one
    assert not ray.is_initialized()


def test_repeats_that_are_cut_off_before_a_larger_budget_still_reach_it(tmp_path, monkeypatch):
    raw = {key: value for key, value in small.raw().items() if key != "experiment"}
    raw |= {"algorithm": {"kind": "random", "batch": 10}, "repeats": 2, "workers": "serial"}
    run_dir, options = RunDir(tmp_path), Options(None, lambda line: None, plots=False)

    def go(evaluations):
        budget = {"budget": {"evaluations": evaluations}}
        execute(check(RunConfig, raw | budget, run_dir.config_file), run_dir, options)
        return [run.summary()["evaluations"] for run in run_dir.runs()]

    def killed(*_, **__):
        raise KeyboardInterrupt

    assert go(20) == [20, 20]
    with monkeypatch.context() as patch:
        patch.setattr(SingleRun, "__enter__", killed)
        with pytest.raises(KeyboardInterrupt):
            go(40)
    assert go(40) == [40, 40]
