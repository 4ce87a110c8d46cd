"""What the experiment of a paper needs: scenarios, folds, methods, protocols, claims."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from framework import registry
from framework.analysis.compare import Claim, Page
from framework.errors import InputError
from framework.experiment.comparison import compare, write_results
from framework.experiment.grid_load import load_grid
from framework.pareto import nondominated
from framework.problems.functions import FunctionProblem
from tests.experiment import small
from tests.experiment.test_experiment import little

CONTENT = small.raw(
    product={"problem.noise": [0.0, 0.1]},
    folds={"problem.d": [3, 4]},
    repeats=2,
    indicators=["hypervolume", "f1", "distinct"],
    paper={"convex": {"by tens": {"f1": 0.25}}},
    claims=[
        {"says": "grid is worse", "indicator": "f1", "method": "grid*", "better_than": ["by tens"]},
        {"says": "few", "paper": "60", "indicator": "distinct", "method": "by tens", "at_most": 60},
        {"says": "many", "indicator": "distinct", "method": "by tens", "at_least": 61},
    ],
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    little(folder, CONTENT, "--quiet")
    return folder / "out"


def table(out, name):
    return pd.read_csv(out / "tables" / f"{name}.csv")


@pytest.mark.slow
def test_folds_are_averaged_then_repeats_then_the_product(whole):
    """The paper's table from the rows of runs, by hand."""
    runs = table(whole, "runs")
    assert len(runs) == 2 * 2 * 2 * 2 * 2
    one = runs[(runs["scenario"] == "concave") & (runs["method"] == "grid*")]
    units = one.groupby(["unit", "seed"])["hypervolume"].mean()  # over two folds
    assert len(units) == 4
    means = table(whole, "means").set_index(["case", "method", "indicator"])
    row = means.loc["concave noise=0.1", "grid*", "hypervolume"]
    assert (row["runs"], row["mean"]) == (2, pytest.approx(units["concave noise=0.1"].mean()))
    by_case = units.groupby("unit").mean()
    row = table(whole, "scenarios").set_index(["scenario", "method", "indicator"])
    row = row.loc["concave", "grid*", "hypervolume"]
    assert (row["cases"], row["mean"]) == (2, pytest.approx(by_case.mean()))
    half = stats.t.ppf(0.975, 1) * by_case.std(ddof=1) / np.sqrt(2)
    assert row["high"] - row["mean"] == pytest.approx(half)


@pytest.mark.slow
def test_a_metric_is_an_indicator_and_the_papers_value_stands_beside_its_scenario(whole):
    runs = table(whole, "runs")
    for row in runs.to_dict("records"):
        front = pd.read_csv(whole / row["directory"] / "front.csv")
        assert row["f1"] == pytest.approx(front["f1"].mean())
    given = table(whole, "scenarios").dropna(subset="paper")
    assert given[["scenario", "method", "indicator", "paper"]].to_numpy().tolist() == [
        ["convex", "by tens", "f1", 0.25]
    ]
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert page.count('<span class="paper">(0.25)</span>') == 1


def test_tests_are_over_units_or_scenarios(whole):
    found = compare([whole])
    assert (found.tests["f1"].blocks, found.blocks) == (4, "cases")
    units = table(whole, "runs").groupby(["unit", "method"])["f1"].mean().unstack()
    ranks = units[found.methods].rank(axis=1).mean()
    assert found.tests["f1"].ranks.tolist() == ranks.tolist()
    by_scenario = compare([whole], blocks="scenarios")
    assert (by_scenario.tests["f1"].blocks, by_scenario.blocks) == (2, "scenarios")


def test_claims_are_told_from_the_means_by_scenario(whole):
    means = table(whole, "scenarios").set_index(["indicator", "scenario", "method"])["mean"]["f1"]
    better = [g for g in ("convex", "concave") if means[g, "grid*"] <= means[g, "by tens"]]
    said = table(whole, "claims").set_index("claim")
    assert said.loc["grid is worse", "here"].startswith(f"{len(better)} of 2")
    assert said["holds"].to_dict() == {
        "grid is worse": "yes" if len(better) == 2 else "no",
        "few": "yes",
        "many": "no",
    }
    assert "What the paper says" in (whole / "report.html").read_text(encoding="utf-8")


def test_a_method_may_have_a_problem_and_a_budget_of_its_own(tmp_path):
    content = small.raw(repeats=1)
    own = {"problem": {"d": 7, "noise": None}, "budget": {"evaluations": 30}}
    content["experiment"]["methods"]["other"] = {"kind": "random", **own}
    content["problem"]["noise"] = 0.3
    content["experiment"]["cases"]["concave"]["methods"] = {"other": {"problem": {"d": 8}}}
    grid = load_grid(small.write(tmp_path, content))
    found = {(c.case, c.method): c.config for c in grid.runs()}
    problem = {"kind": "function", "name": "zdt1", "d": 7, "noise": 0.0}
    assert dict(found["convex", "other"].problem) == problem
    assert found["concave", "other"].problem.d == 8
    assert found["concave", "other"].problem.name == "zdt2"
    assert found["convex", "other"].budget.evaluations == 30
    assert found["convex", "by tens"].budget.evaluations == 60
    assert not hasattr(found["convex", "other"].algorithm, "problem")
    (tmp_path / "kept.yaml").write_text(grid.dump(), encoding="utf-8")
    assert load_grid(tmp_path / "kept.yaml").runs() == grid.runs()


def test_a_protocol_is_one_key_and_what_is_given_by_hand_counts_more(tmp_path):
    protocols = {"paper": {"experiment.repeats": 7, "budget.evaluations": 500}}
    path = small.write(tmp_path, small.raw(protocols=protocols))
    usual, paper = load_grid(path), load_grid(path, ["experiment.protocol=paper"])
    assert (usual.section.repeats, usual.base.budget.evaluations) == (3, 60)
    assert (paper.section.repeats, paper.base.budget.evaluations) == (7, 500)
    mixed = load_grid(path, ["experiment.protocol=paper", "budget.evaluations=80"])
    assert (mixed.section.repeats, mixed.base.budget.evaluations) == (7, 80)
    with pytest.raises(InputError, match=r"protocol: expected one of paper; found 'papr'"):
        load_grid(path, ["experiment.protocol=papr"])


def test_an_unknown_metric_is_said_before_anything_runs(tmp_path):
    done = little(tmp_path, small.raw(indicators=["f3"]), code=2)
    assert "indicators: expected one of" in done.err
    assert "found 'f3'" in done.err
    assert not list(tmp_path.glob("out/**/journal.bin"))


@pytest.mark.slow
def test_what_a_package_adds_is_in_the_report(whole, tmp_path, monkeypatch):
    def page(comparison):
        figure = Figure()
        figure.subplots().plot([1, 2])
        rows = pd.DataFrame({"method": comparison.methods, "value": [1.23456, 2.0]})
        said = [Claim("it holds", "Section 4", "here", True)]
        return Page("Odd", "As in Figure 3.", said, {"odd_rows": rows}, {"odd_figure": figure})

    load = registry.load
    monkeypatch.setattr(
        registry, "load", lambda kind, name: page if name == "odd" else load(kind, name)
    )
    paths = write_results(replace(compare([whole]), wanted_pages=("odd",)), tmp_path)
    assert tmp_path / "plots" / "odd_figure.png" in paths
    assert table(tmp_path, "odd_rows")["value"].tolist() == [1.23456, 2.0]
    assert "it holds" in table(tmp_path, "claims")["claim"].tolist()
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for shown in ("Odd", "As in Figure 3.", "<td>1.235</td>", "<td>it holds</td>"):
        assert shown in text


def test_runs_are_measured_against_the_true_front(tmp_path):
    """Dents and all: those that others dominate stay in it."""
    content = small.raw(
        cases={"dent": {"problem.name": "zed2"}}, reference={"points": 500}, indicators=["igd"]
    )
    content["problem"] = {"kind": "function", "name": "zed2"}
    content["objectives"].append({"metric": "f3", "sense": "min"})
    little(tmp_path, content, "--quiet")
    case = compare([tmp_path / "out"]).cases[0]
    front = FunctionProblem("zed2").true_front(500)
    np.testing.assert_array_equal(case.reference, front)
    assert not nondominated(front).all()
    assert case.beaten() == 0
    distance = np.linalg.norm(front[:, None] - case.runs[0].losses[None], axis=2).min(axis=1)
    low, high = front.min(axis=0), front.max(axis=0)
    np.testing.assert_allclose(high - low, 1, atol=0.02)
    assert case.frame["igd"][0] == pytest.approx(distance.mean(), rel=0.02)


def test_a_true_front_that_nobody_knows_is_said_before_anything_runs(tmp_path):
    done = little(tmp_path, small.raw(reference={"points": 500}), code=2)
    assert "experiment: convex: reference.points: expected a problem that knows" in done.err
    assert not list(tmp_path.glob("out/**/journal.bin"))
