"""The experiment of EMSCO and its baselines: the page, its claims, what baselines return."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from algorithms.multistage.papers.emsco_page import BUDGETED, EMSCO, SINGLE, claims_of
from framework.experiment.grid_load import load_grid
from tests.command import small, write
from tests.experiment.test_experiment import command

CONFIG = Path(__file__).parents[3] / "configs" / "emsco" / "rivals.yaml"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The shipped methods that are quick, on a small problem with two splits."""
    folder = tmp_path_factory.mktemp("rivals")
    write(folder / "small.yaml", small(problem__threshold=0.7))
    content = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    own = content["experiment"]
    slow = [m for m in own["methods"] if m.startswith(("CSTC", "Greedy", "CaCT"))]
    for method in slow:
        del own["methods"][method]
    own["cases"] = {"small": {"config": "small.yaml"}}
    own["product"] = {"problem.split.seed": [0, 1]}
    own["methods"][EMSCO]["population"] = 40
    content["budget"] = {"generations": 10}
    write(folder / "rivals.yaml", content | {"tracking": None})
    command(folder, "experiment", "rivals.yaml", "--workers", "serial", "--out", "out", "--quiet")
    return folder / "out"


@pytest.mark.slow
def test_everyone_answers_with_one_solution_on_test_records(whole):
    runs = pd.read_csv(whole / "tables" / "runs.csv")
    assert (runs["solutions"] == 1).all()
    for row in runs.to_dict("records"):
        answer = pd.read_csv(whole / row["directory"] / "returned.csv").iloc[0]
        assert row["coverage"] == answer["test_coverage"]
        assert row["cost"] == answer["test_cost"]
        about = json.loads((whole / row["directory"] / "about.json").read_text())
        [high] = [m["high"] for m in about["metrics"] if m["name"] == "cost"]
        total = row["coverage"] + row["accuracy"] + 1 - row["cost"] / high
        assert row["aggregate"] == pytest.approx(total)
    asking = runs[runs["method"] == "CEGB, asking"]
    assert (asking["cost"] > 0).all()


@pytest.mark.slow
def test_the_page_has_claims_and_figures(whole):
    said = pd.read_csv(whole / "tables" / "claims.csv").set_index("claim")
    means = pd.read_csv(whole / "tables" / "scenarios.csv")
    cost = means[(means["indicator"] == "cost") & ~means["method"].str.contains("CEGB")]
    lowest = cost.loc[cost["mean"].idxmin(), "method"] == EMSCO
    here = said.loc["lowest mean cost", "here"]
    assert here == ("1 of 1: small" if lowest else "0 of 1: none")
    stages = pd.read_csv(whole / "tables" / "stages.csv")
    assert (stages["mean_stage"] >= 1).all()
    for name in ("figures_8_to_12", "figure_13"):
        assert (whole / "plots" / f"{name}.png").stat().st_size > 10_000


def test_claims_on_made_up_means():
    def row(coverage, accuracy, cost):
        return {
            "coverage": coverage,
            "accuracy": accuracy,
            "cost": cost,
            "aggregate": coverage + accuracy + 1 - cost / 100,
        }

    means = {
        data: {
            EMSCO: row(0.95, 0.8, 10.0),
            SINGLE: row(1.0, 0.82, 100.0),
            **{name: row(0.5, 0.7, 20.0 + i) for i, name in enumerate(BUDGETED)},
        }
        for data in ("pima", "heart")
    }
    said = {c.claim: c for c in claims_of(means, {"pima": 0.65, "heart": 0.85})}
    assert said["lowest mean cost"].holds
    assert said["highest coverage of the budgeted"].here == "2 of 2: pima, heart"
    assert said["accuracy of at least p_hat"].here == "1 of 2: pima"
    assert not said["accuracy of at least p_hat"].holds
    assert said["dominated by none in (g1, g2, g3*)"].holds
    assert said["faster than a single stage (mean ratio of costs, less 1)"].here == "900%"
    assert said["records rejected by CSTC*"].here == "50.0%"
    means["pima"]["CSTC*"] = row(0.95, 0.8, 9.0)
    worse = {c.claim: c for c in claims_of(means, {"pima": 0.65, "heart": 0.85})}
    assert worse["dominated by none in (g1, g2, g3*)"].here == "1 of 2: heart"
    assert not worse["lowest mean cost"].holds


def test_the_shipped_grid_has_the_papers_parameters():
    cells = {(c.case.split()[0], c.method): c.config for c in load_grid(CONFIG).runs()}
    found = {
        data: tuple(
            getattr(cells[data, EMSCO].algorithm, key)
            for key in ("mutation_rate", "crossover_rate", "beta")
        )
        for data in ("pima", "credit", "heart", "synthetic30")
    }
    assert found == {
        "pima": (0.075, 0.8, 2.0),
        "credit": (0.075, 0.8, 2.5),
        "heart": (0.075, 0.75, 2.0),
        "synthetic30": (0.05, 0.8, 2.5),
    }
    assert np.all([cells[d, EMSCO].problem.max_stages in (8, 10, 15) for d in found])
    assert {c.problem.kind for (_, m), c in cells.items() if m != EMSCO} == {"rivals"}
