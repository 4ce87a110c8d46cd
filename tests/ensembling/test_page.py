"""The pages and indicators of the HAPEns paper's experiments."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from algorithms.ensembling.papers import page as module
from algorithms.ensembling.papers.page import costs, ensembles, ranked, weights
from framework.errors import InputError
from framework.experiment.comparison import compare
from framework.experiment.grid_load import load_grid
from tests.experiment.test_experiment import command
from tests.made_up_libraries import checked, made_up

CONFIGS = Path(__file__).parents[2] / "configs" / "experiments"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run the paper's methods on two small libraries with its three costs."""
    folder = tmp_path_factory.mktemp("hapens")
    for name, seed in (("made-0", 0), ("made-1", 1)):
        made = made_up(k=4, seed=seed)
        costs = {**made.costs, "disk": made.costs["memory"]}
        checked(made, costs=costs, name=name).save(folder / name)
    cases = {f"made-{i}": {"problem.library": {"path": str(folder / f"made-{i}")}} for i in (0, 1)}
    arguments = ["--set", f"experiment.cases={cases}", "--set", "experiment.repeats=2"]
    arguments += ["--set", "budget.evaluations=60", "--workers", "serial", "--no-mlflow"]
    path = CONFIGS / "ensembling.yaml"
    command(folder, "experiment", path, *arguments, "--out", "out", "--quiet")
    return folder / "out"


@pytest.mark.slow
def test_tables_and_figures_of_the_paper(whole):
    table = pd.read_csv(whole / "tables" / "exp1_hardware_chosen.csv")
    assert {"HAPEns", "HAPEns + archive", "GES*", "single best"} <= set(table["method"])
    assert table["hypervolume"].between(0, 1.01**2).all()
    assert table["rank (hypervolume)"].is_monotonic_increasing
    pictures = {path.name for path in (whole / "plots").glob("*.png")}
    assert {"exp1_hardware_chosen.png", "figure7.png", "exp4.png", "figures_13_14.png"} <= pictures
    assert "EXP1 to EXP4" in (whole / "report.html").read_text(encoding="utf-8")
    claims = pd.read_csv(whole / "tables" / "claims.csv").set_index("claim").holds
    built = pd.read_csv(whole / "tables" / "exp4.csv").set_index("method").returned
    more = claims["GES* returns more ensembles than HAPEns"] == "yes"
    assert more == (built["GES*"] > built["HAPEns"])
    assert claims["HAPEns is significantly ahead of GES*, Multi-GES and QDO-ES"] == "no"  # two sets


@pytest.mark.slow
def test_ensembles_are_those_that_a_run_returns_and_its_front(whole):
    """Told from the journal, without the files of fronts."""
    comparison = compare([whole])
    rows = ensembles(comparison)
    for case in comparison.cases:
        for run in case.runs:
            own = rows[(rows.data == case.name) & (rows.method == run.method)]
            own = own[own.seed == run.seed]
            front = pd.read_csv(run.path / "front.csv")
            returned = run.path / "returned.csv"
            ids = set(pd.read_csv(returned)["id"]) if returned.is_file() else set(front["id"])
            assert len(own) == len(ids | set(front["id"]))
            assert own.returned.sum() == len(ids)
            assert own.val_loss.min() <= (1 - front["roc_auc"]).min() + 1e-12


@pytest.mark.slow
def test_one_data_set_has_means_and_no_ranks(whole):
    rows = ensembles(compare([whole]))
    table, ranking = ranked(rows[rows.data == "made-0"], "memory", hindsight=True)
    assert not ranking.tests
    assert "rank (IGD+)" not in table


@pytest.mark.slow
def test_other_pages_read_the_same_runs(whole):
    comparison = compare([whole])
    page = costs(comparison)
    assert "hypervolume" in page.tables["exp5"]
    assert not page.claims
    with pytest.raises(InputError, match="expected methods named by their weights, found 'GES"):
        weights(comparison)


@pytest.mark.slow
def test_the_best_weight_is_that_of_the_most_hypervolume(whole):
    page = weights(renamed(compare([whole]), {"single best": "0.50", "GES*": "0.05"}))
    table = page.tables["exp6"]
    assert table["weight of time"].tolist() == [0.05, 0.5]
    assert table["hypervolume"][0] >= table["hypervolume"][1]  # a step of GES* is the single best
    assert table["returned"].tolist()[1] == 1.0
    assert "Best weight here: 0.05" in page.text
    between, two_thirds, cheaper, worse = (claim.holds for claim in page.claims)
    assert not between
    assert not two_thirds
    assert cheaper == bool(table["hardware"][1] < table["hardware"][0])
    assert worse == bool(table["test_loss"][1] > table["test_loss"][0])


@pytest.mark.slow
def test_claims_on_niches_are_of_the_methods_of_their_names(whole):
    names = ("memory", "inference_time", "disk", "members")
    others = ("GES*", "QDO-ES", "HAPEns", "single best")
    pairs = {method: f"HAPEns by {name}" for method, name in zip(others, names, strict=True)}
    page = costs(renamed(compare([whole]), pairs))
    assert page.claims[0].here.startswith("memory 0.")
    assert not page.claims[2].holds  # the single best covers least


def renamed(comparison, names):
    """Return the runs of some methods under other names."""
    cases = []
    for case in comparison.cases:
        runs = [run for run in case.runs if run.method in names]
        runs = [replace(run, method=names[run.method]) for run in runs]
        cases.append(replace(case, runs=tuple(runs)))
    return replace(comparison, cases=tuple(cases))


@pytest.mark.parametrize("name", [path.stem for path in CONFIGS.glob("ensembling*.yaml")])
def test_all_have_the_budgets_of_the_paper_and_equal_ones(name):
    usual = load_grid(CONFIGS / f"{name}.yaml").runs()
    equal = load_grid(CONFIGS / f"{name}.yaml", ["experiment.protocol=equal"]).runs()
    assert {cell.config.budget.evaluations for cell in equal} == {3000}
    for cell in usual:
        greedy = cell.config.algorithm.kind in ("ges", "multi_ges")
        assert cell.config.budget.evaluations == (6000 if greedy else 180)


def task(*rows):
    """Return rows (method, returned, validation loss, test loss, cost); one cost for all three."""
    frame = pd.DataFrame(rows, columns=["method", "returned", "val_loss", "test_loss", "memory"])
    return frame.assign(inference_time=frame.memory, disk=frame.memory, weights="00")


def test_normalised_over_all_methods_and_constant_columns():
    rows = module.normalised(task(("a", True, 0.2, 3.0, 5.0), ("b", True, 0.4, 3.0, 1.0)))
    assert rows.val_loss.tolist() == [0.0, 1.0]
    assert rows.test_loss.tolist() == [0.0, 0.0]
    assert rows.hardware.tolist() == [1.0, 0.0]


def test_fronts_are_chosen_on_validation_and_scored_on_test():
    rows = task(
        ("HAPEns", True, 0.0, 1.0, 1.0),  # best on validation, worst on test
        ("HAPEns", True, 0.5, 0.0, 1.0),  # beaten on validation, best on test
        ("HAPEns", False, 1.0, 0.5, 0.0),  # cheapest, but the method itself lost it
        ("single best", True, 0.0, 1.0, 1.0),
    )
    chosen = module.fronts(rows, "memory", hindsight=False)
    assert {name: points.tolist() for name, points in chosen.items()} == {
        "HAPEns": [[1.0, 1.0]],
        "HAPEns + archive": [[1.0, 1.0], [0.5, 0.0]],
        "single best": [[1.0, 1.0]],
    }
    hindsight = module.fronts(rows, "memory", hindsight=True)
    assert hindsight["HAPEns"].tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert set(hindsight) == {"HAPEns", "single best"}


def test_scores_by_hand():
    rows = task(
        ("all singles", True, 0.0, 0.0, 1.0),
        ("all singles", True, 1.0, 1.0, 0.0),
        ("single best", True, 0.0, 0.0, 1.0),
    )
    found = module.scores(rows, "memory").set_index("method")
    corner = module.REFERENCE
    both = 2 * (corner - 1) * corner - (corner - 1) ** 2
    assert np.isclose(found.loc["all singles", "hypervolume"], both)
    assert np.isclose(found.loc["single best", "hypervolume"], corner * (corner - 1))
    assert found.loc["all singles", "igd_plus"] == 0.0
    assert np.isclose(found.loc["single best", "igd_plus"], 0.5)  # (0, 1) is found, (1, 0) is not


def test_counts_of_what_is_built():
    rows = task(("a", True, 0.0, 0.0, 1.0), ("a", True, 1.0, 1.0, 1.0), ("a", False, 1.0, 1.0, 0.0))
    found = module.built(rows).iloc[0]
    assert found[["returned", "unique", "on_front"]].tolist() == [2, 1, 1]
