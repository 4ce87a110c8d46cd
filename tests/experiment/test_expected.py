"""Limits that hold on new records, against resamples that are gone through one by one."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import parse_condition
from framework.analysis.resamples import Resamples
from framework.errors import InputError
from framework.estimators.search import roles_for
from framework.experiment.choice import Rescoring, RunSource
from framework.experiment.expected import Evidence, beside_of, evidence, sure_front, with_expected
from framework.experiment.run_dir import RunDir
from framework.front import TIED
from framework.journal import Journal
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from tests.analysis.test_expectations import MadeUp, front_of
from tests.command import TOY, call, small, write

WHERE = ["coverage>=0.6", "cost<=5"]
ACCURACY = "expected_accuracy"
SMALL = {
    "dataset": {"synthetic": {"samples": 300, "features": 4, "informative": 3, "class_sep": 1.5}},
    "max_stages": 3,
}


@pytest.mark.parametrize("luck", [None, 0.0, 0.04])
def test_sure_solutions_meet_all_limits_less_the_luck_of_the_front(luck):
    outcomes = MadeUp(seed=2)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 80)
    everyone = np.arange(outcomes.candidates)
    claimed = resamples.claimed(everyone)
    found = Evidence(everyone, claimed, resamples, np.zeros((outcomes.candidates, 1)))
    if luck is None:  # a front without what to expect of it: that is found here
        known = with_expected(front, found)[0].expected
    else:
        own = front.rows.values["coverage"] - luck
        known = {"expected_coverage": own, "coverage_low": own, "coverage_high": own}
        front = replace(front, expected=known)
    share, values = np.zeros(len(front)), front.rows.values
    coverage = known["expected_coverage"] - values["coverage"]
    cost = known.get("expected_cost", values["cost"]) - values["cost"]
    for b in range(resamples.count):
        drawn = front_of(outcomes, resamples.weights[:, b], whole=True).rows.values
        held = drawn["coverage"][front.ids] + coverage >= 0.6
        share += held & (drawn["cost"][front.ids] + cost <= 5)
    share /= resamples.count
    met = np.all([c.holds(values[c.metric]) for c in map(parse_condition, WHERE)], axis=0)
    low = known["coverage_low"] - known["expected_coverage"]
    high = known["cost_high"] - known["expected_cost"] if "cost_high" in known else 0.0
    for percent in (80.0, 97.0):
        z = norm.ppf(percent / 100) / 1.96  # of a range to each side
        passing = met & (share >= percent / 100)
        passing &= values["coverage"] + coverage + z * low >= 0.6
        passing &= values["cost"] + cost + z * high <= 5
        assert passing.any()
        sure = sure_front(found, front, WHERE, percent)
        assert sure.share == pytest.approx(dict(zip(front.ids.tolist(), share, strict=True)))
        assert sure.front.ids.tolist() == front.ids[passing].tolist()
    with pytest.raises(
        InputError, match=r"the tightest limit that one does meet is coverage>="
    ) as e:
        sure_front(found, front, ["coverage>=0.9999"], 90)
    (tightest,) = re.findall(r"coverage>=([0-9.]+)$", str(e.value))
    assert "the edge" in sure_front(found, front, [f"coverage>={tightest}"], 90).edge
    assert not sure_front(found, front, ["coverage>=0.2"], 90).edge


def test_a_solution_that_repeats_a_design_is_expected_to_do_as_that_does():
    """What a method returns may be a later candidate than the first one of its design."""
    outcomes = MadeUp(30, 60, seed=4)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 40)
    everyone, X = np.arange(30), np.arange(30, dtype=np.int8)[:, np.newaxis]
    found = Evidence(everyone, resamples.claimed(everyone), resamples, X)
    rows = replace(front.rows, ids=front.ids + 100, X=X[front.ids])
    repeated = with_expected(replace(front, rows=rows), found)[0].expected
    for name, column in with_expected(front, found)[0].expected.items():
        np.testing.assert_array_equal(repeated[name] - 100 * (name == TIED), column, err_msg=name)


def test_sure_counts_the_records_that_a_share_is_about():
    """Designs with three answers, all of them right, meet no limit on accuracy surely."""
    outcomes = MadeUp(80, 300, seed=5)
    rng = np.random.default_rng(0)
    for row in range(40):
        outcomes.answered[row] = outcomes.right[row] = 0
        three = rng.choice(300, 3, replace=False)
        outcomes.answered[row, three] = outcomes.right[row, three] = 1
    outcomes.right[40:] = outcomes.answered[40:] * (rng.random((40, 300)) < 0.7)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 200)
    everyone = np.arange(80)
    found = Evidence(everyone, resamples.claimed(everyone), resamples, np.zeros((80, 1)))
    assert front.rows.values["accuracy"].max() == 1.0
    with pytest.raises(InputError, match="by the number of records"):
        sure_front(found, front, ["accuracy>=0.9"], 90)


def test_what_is_known_of_no_record_meets_no_limit_surely():
    """A range from the least to the greatest value has no standard errors to take a part of."""
    outcomes = MadeUp(seed=2)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 80)
    everyone = np.arange(outcomes.candidates)
    found = Evidence(everyone, resamples.claimed(everyone), resamples, np.zeros((len(everyone), 1)))
    own = front.rows.values["coverage"]
    for low, sure in ((0.0, False), (0.001, True)):
        columns = {"coverage_low": np.full(len(own), low), "coverage_high": np.ones(len(own))}
        known = replace(front, expected={"expected_coverage": own, **columns})
        if sure:
            assert len(sure_front(found, known, ["coverage>=0.2"], 90).front)
        else:
            with pytest.raises(InputError, match="no solution meets"):
                sure_front(found, known, ["coverage>=0.2"], 90)


def test_designs_stand_beside_the_front_of_an_exact_method(tmp_path):
    problem = MultiStageProblem.from_config(MultiStageConfig.model_validate(SMALL))
    roles = roles_for(problem, ("coverage", "accuracy", "cost"))
    searched = Exact(problem, roles, seed=0)
    metrics, space = problem.metric_names, problem.space
    about = {"metrics": metrics, "d": space.d, "dtype": space.dtype}
    with Journal(tmp_path / "journal.bin", {}, **about) as journal:
        budget = Budget(generations=1)
        front = search(
            problem, searched, SerialEvaluator(problem, 0), budget=budget, journal=journal
        )
        near = beside_of("exact", front, problem, 0)
        batches = list(journal.evaluations())
    alone, beside = evidence(batches, problem, 0), evidence(batches, problem, 0, near)
    again = evidence(batches, problem, 0, near)
    n = len(alone.ids)
    assert (alone.beside, len(front)) == (0, n)
    others = {tuple(x) for x in beside.X[n:].tolist()} - {tuple(x) for x in front.X.tolist()}
    assert len(others) == beside.beside > 0
    assert space.checked(beside.X) is not None
    assert again.X.tolist() == beside.X.tolist()
    for name, column in problem.evaluate(beside.X).items():
        assert beside.values[name].tolist() == column.tolist()
    assert np.all(np.diff(beside.ids) > 0)
    # more designs to choose from: more of what is claimed is luck
    luck = [
        (front.rows.values["accuracy"] - with_expected(front, found)[0].expected[ACCURACY]).mean()
        for found in (alone, beside)
    ]
    assert luck[0] < luck[1]


def test_other_shares_score_what_was_evaluated_and_keep_what_stands_beside_it(tmp_path):
    config = small(
        problem={"kind": "multistage", **SMALL},
        algorithm={"kind": "exact"},
        budget={"generations": 1},
    )
    write(tmp_path / "exact.yaml", config)
    call("run", "exact.yaml", "--out", "out", "--no-mlflow", "--no-plots", cwd=tmp_path, code=0)
    source = RunSource(RunDir(tmp_path / "out"))
    again = source.rescored(Rescoring(shares={"0": 0.05, "1": 0.95}))
    assert source.evidence().beside > 0
    assert {*again.ids} <= {*source.front.ids}


def test_a_problem_without_records_has_no_expectations(tmp_path):
    write(tmp_path / "plain.yaml", TOY)
    done = call("run", "plain.yaml", "--out", "out", "--no-mlflow", "--no-plots", cwd=tmp_path)
    assert done.code == 0, done.err
    assert RunDir(tmp_path / "out").summary()["expected"] == {}
    assert "records" not in done.out
    refused = call("choose", "out", "--where", "f1<=0.5", "--sure", "90", cwd=tmp_path, code=2)
    assert "sure: expected metrics that follow from what each record contributes" in refused.err
