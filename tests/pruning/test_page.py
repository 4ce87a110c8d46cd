"""The page of the paper's experiment: ranks and claims, told anew from the tables of runs."""

import json

import pytest

from tests.command import POINT, write
from tests.experiment.test_experiment import command
from tests.experiment.test_papers import table
from tests.made_up_libraries import checked, made_up

F1 = {"kind": "ip", "weights": "accuracy", "looks": 30}
METHODS = {
    "F1": F1,
    "F2": {**F1, "diversity": "f2"},
    "F3": {**F1, "diversity": "f3"},
    "BFT": {"kind": "backfitting"},
    "HC-CON": {"kind": "hill_climbing", "fitness": "concurrency"},
    "HC-UWA": {"kind": "hill_climbing", "fitness": "uwa"},
    "FE": {"kind": "full_ensemble"},
}
CASES = {
    "one K=40": {"problem.models": 6},
    "two K=40": {"problem.models": 8, "problem.positive": "no"},
}


def started(place, cases, folds):
    """Run the methods on the cases in a folder; return where the results are."""
    section = {
        "cases": cases,
        "folds": {"problem.library.path": folds},
        "methods": METHODS,
        "indicators": ["accuracy", "proof_gap"],
        "judge": "returned",
        "pages": ["pruning"],
    }
    changes = {
        "problem": {"kind": "pruning", "library": {"path": "pool0"}},
        "objectives": [{"metric": "accuracy", "sense": "max"}],
        "budget": {"evaluations": 10},
        "experiment": section,
    }
    write(place / "little.yaml", POINT | changes)
    command(place, "experiment", "little.yaml", "--out", "out", "--quiet")
    return place / "out"


def pool(seed=0):
    """Return a library without test records."""
    return checked(made_up(n=40, m=30, seed=seed), test=None, y_test=None, name="pool")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two data sets (a library, and its classes turned round) with two libraries as folds."""
    place = tmp_path_factory.mktemp("pruning")
    for number in (0, 1):
        pool(seed=number).save(place / f"pool{number}")
    return started(place, CASES, ["pool0", "pool1"])


@pytest.mark.slow
def test_ranks_are_over_data_sets_with_folds_averaged(whole):
    runs, found = table(whole, "runs"), table(whole, "table4")
    assert found["figures"].tolist() == ["here, 2 blocks", "paper"]
    blocks = runs.groupby(["scenario", "unit", "method"])["accuracy"].mean().unstack()
    ranks = blocks.rank(axis=1, ascending=False).mean()
    assert found.iloc[0][list(METHODS)].tolist() == pytest.approx(ranks[list(METHODS)].tolist())
    assert found.iloc[1]["FE"] == 5.25


@pytest.mark.slow
def test_the_gap_of_a_proof_is_read_from_what_was_found(whole):
    runs = table(whole, "runs")
    exact = runs["method"].isin(["F1", "F2", "F3"])
    assert runs.loc[~exact, "proof_gap"].isna().all()
    for row in runs[exact].to_dict("records"):
        summary = json.loads((whole / row["directory"] / "summary.json").read_text())
        assert row["proof_gap"] == summary["findings"]["gap"]
    ranked = table(whole, "ranks")  # of those that every method has
    assert set(ranked["indicator"]) == {"accuracy"}


@pytest.mark.slow
def test_claims_follow_from_the_ranks(whole):
    found, said = table(whole, "table4"), table(whole, "claims").set_index("claim")
    ranks = found.iloc[0][list(METHODS)].astype(float)
    claim = said.loc["FE is last (accuracy)"]
    assert claim["holds"] == ("yes" if ranks.idxmax() == "FE" else "no")
    assert claim["here"].endswith(f"FE {ranks['FE']:.2f}")
    assert not said.index.str.contains("balanced").any()  # nothing here maximised it
    means = table(whole, "runs").groupby(["scenario", "method"])["accuracy"].mean().unstack()
    rivals = means[["BFT", "HC-CON", "HC-UWA", "FE"]].max(axis=1)
    won = int((means["F2"] > rivals).sum())
    assert said.loc["F2 beats all benchmarks", "here"] == f"{won} of 2"


@pytest.mark.slow
def test_the_page_gives_gaps_of_exact_methods_alone(whole):
    page = (whole / "report.html").read_text()
    gaps = page.split("gap&nbsp;↓")[2].split("</table>")[0]  # the first is of all methods
    assert "F3" in gaps
    assert "BFT" not in gaps


@pytest.mark.slow
def test_cases_without_a_k_in_their_names_have_that_of_their_pool(tmp_path):
    pool().save(tmp_path / "pool0")
    out = started(tmp_path, {"any name": {"problem.models": 7}}, ["pool0"])
    assert table(out, "table4")["K"].tolist() == [7]
