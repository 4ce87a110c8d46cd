"""The paper's experiments, a thousandth of them: every page is made, and says what the runs say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from algorithms.hull.network import NetworkProblem
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from tests.experiment.test_experiment import command
from tests.experiment.test_papers import table

CONFIGS = Path(__file__).parents[2] / "configs" / "experiments"


def run(folder, name, keep, **changes):
    """Run a configuration of the paper with few cases, methods and rows; return its tables."""
    raw = yaml.safe_load((CONFIGS / f"hull_{name}.yaml").read_text(encoding="utf-8"))
    section = raw["experiment"]
    for key, names in keep.items():
        section[key] = {label: section[key][label] for label in names}
    if "cases" in keep:
        section["paper"] = {k: v for k, v in section["paper"].items() if k in keep["cases"]}
    if "methods" in keep:
        for of in section["paper"].values():
            for label in set(of) - set(keep["methods"]):
                del of[label]
    section.pop("claims", None)
    raw |= {"tracking": None, "workers": "serial", "budget": {"evaluations": 240}} | changes
    (folder / "few.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    command(folder, "experiment", "few.yaml", "--out", "out", "--repeats", "2", "--quiet")
    return folder / "out"


@pytest.mark.slow
def test_tables_of_functions(tmp_path):
    methods = ["Two_Arch2", "3DCH-EMOA", "3DFCH-EMOA"]
    out = run(tmp_path, "tables", {"cases": ["ZED1", "ZED2"], "methods": methods})
    assert list(table(out, "table5_seconds")["problem"]) == ["ZED1", "ZED2"]
    wins = table(out, "table7").set_index("indicator")
    assert list(wins.index) == ["vas", "gini", "igd", "pd", "seconds"]
    assert all(sum(map(int, cell.split("-"))) == 2 for cell in wins.to_numpy().ravel())
    dents = table(out, "in_the_dent").set_index("problem")
    assert list(dents.index) == ["ZED2"]  # the other one has none
    assert ((dents >= 0) & (dents <= 1)).all(axis=None)
    assert len(table(out, "claims")) == 3
    assert (out / "plots" / "figure_zed2.png").is_file()


@pytest.mark.slow
def test_sizes_and_selection(tmp_path):
    out = run(tmp_path, "sizes", {"cases": ["n=100", "n=200"]})
    found = table(out, "table9")
    assert found["population"].tolist() == [100, 200]
    assert found["ratio in the paper"].round(1).tolist() == [7.3, 15.9]
    (tmp_path / "next").mkdir()
    out = run(tmp_path / "next", "selection", {})
    way = table(out, "figure12")
    assert set(way) == {"evaluations", "oldest", "birth", "random"}
    claims = table(out, "claims")["claim"]
    assert claims.str.startswith("selection by age").all()
    assert len(claims) == 2
    own = [pd.read_csv(path)["vas"].iloc[-1] for path in out.glob("cells/*/oldest/*/hull.csv")]
    last = way.loc[way["evaluations"] == 200, "oldest"]
    assert last.item() == pytest.approx(np.mean(own))


@pytest.mark.slow
def test_tables_of_networks(tmp_path):
    methods = ["RVEA", "3DCH-EMOA", "3DFCH-EMOA"]
    out = run(tmp_path, "networks", {"cases": ["wdbc"], "methods": methods})
    chosen, hindsight = (table(out, f"table11_{how}") for how in ("chosen", "hindsight"))
    assert (hindsight[methods] >= chosen[methods]).all(axis=None)
    assert hindsight["majority"].item() == pytest.approx(0.627, abs=0.01)
    cell = next(RunDir(path) for path in out.glob("cells/*/RVEA/000"))
    problem = make_problem(cell.config(checked=True))
    assert isinstance(problem, NetworkProblem)
    everything = np.ones((1, problem.space.d), dtype=np.int8)
    whole = problem.evaluate_test(everything, None)["accuracy"][0]
    assert hindsight["no pruning"].item() == chosen["no pruning"].item() == pytest.approx(whole)
    rows = pd.concat(
        pd.read_csv(path.parent / "returned.csv")
        for path in out.glob("cells/*/3DFCH-EMOA/*/summary.json")
    )
    assert hindsight["3DFCH-EMOA"].item() <= rows["test_accuracy"].max()
    times = table(out, "table12")
    assert (times["scoring"] + times["overhead"]).to_numpy() == pytest.approx(times["seconds"])
    assert len(table(out, "claims")) == 4
