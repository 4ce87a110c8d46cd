"""paretolab compare: what it reads, what it refuses, what it says."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from framework.analysis.compare import beaten
from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.comparison import compare
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal

CONFIG = """
name: compared
problem: {{kind: function, name: {function}, d: 6}}
objectives: [{{metric: f1, sense: min}}, {{metric: f2, sense: min}}]
algorithm: {{kind: random, batch: {batch}}}
budget: {{evaluations: {evaluations}}}
repeats: {repeats}
workers: serial
tracking: null
"""


def searched(folder, name, *, batch=20, evaluations=200, repeats=4, function="zdt1"):
    file = folder / f"{name}.yaml"
    file.write_text(
        CONFIG.format(batch=batch, evaluations=evaluations, repeats=repeats, function=function)
    )
    assert main(["run", str(file), "--out", str(folder / name), "--quiet"]) == 0
    return folder / name


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Random search four times over, with more and more evaluations; batches differ too."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        searched(folder, "few", evaluations=60),
        searched(folder, "some", batch=40, evaluations=600),
        searched(folder, "many", batch=30, evaluations=6000),
    ]


def test_indicators_are_those_of_the_fronts(runs):
    comparison = compare(runs)
    frame = comparison.frame
    assert len(frame) == 12
    assert frame["evaluations"].tolist() == [60] * 4 + [600] * 4 + [6000] * 4
    union = {tuple(row) for row in comparison.reference.tolist()}
    for run, row in zip(comparison.runs, frame.to_dict("records"), strict=True):
        single = RunDir(row["directory"])
        own = {tuple(losses) for losses in single.front().losses.tolist()}
        assert row["share"] == len(own & union) / len(union)
        assert row["hypervolume"] == single.summary()["indicators"]["hypervolume"]
        assert row["seed"] == single.summary()["seed"] == run.seed
    by_search = frame.groupby("algorithm", sort=False)[["hypervolume", "igd_plus"]].mean()
    assert by_search["hypervolume"].is_monotonic_increasing
    assert by_search["igd_plus"].is_monotonic_decreasing
    assert beaten(comparison) == 0


def test_distinct_evaluations_are_told_beside_evaluations(runs, tmp_path, capsys):
    """Random search on six bits asks for few different candidates."""
    bits = searched(tmp_path, "bits", function="lotz", evaluations=600)
    for run in compare([bits]).frame.to_dict("records"):
        with Journal(RunDir(run["directory"]).journal_file) as journal:
            rows = [tuple(x) for batch, _ in journal.batches() for x in batch.X.tolist()]
        assert len(rows) == run["evaluations"] == 600
        assert run["distinct"] == len(set(rows)) == 64
    assert main(["compare", str(bits), "--out", str(tmp_path / "page")]) == 0
    shown = capsys.readouterr().out
    assert "distinct" in shown
    assert " 64 " in shown
    assert "<td>64" in (tmp_path / "page" / "compare.html").read_text(encoding="utf-8")


def test_runs_of_before_distinct_candidates_were_counted(runs, tmp_path, capsys):
    old = searched(tmp_path, "old")
    for repeat in RunDir(old).children():
        summary = repeat.summary()
        del summary["distinct_evaluations"]
        repeat.write_summary(summary)
    assert compare([old]).frame["distinct"].isna().all()
    assert main(["compare", str(old), "--out", str(tmp_path / "page")]) == 0
    assert "nan" not in capsys.readouterr().out
    assert "<td>nan" not in (tmp_path / "page" / "compare.html").read_text(encoding="utf-8")


def test_searches_of_a_kind_are_told_apart_by_what_differs(runs):
    assert compare(runs).algorithms == [
        "random batch=20 evaluations=60",
        "random batch=40 evaluations=600",
        "random batch=30 evaluations=6000",
    ]
    assert compare(runs[:1]).algorithms == ["random"]


def test_summary_and_ranks(runs):
    comparison = compare(runs)
    summary = comparison.summary().set_index("algorithm")
    assert summary["runs"].tolist() == [4, 4, 4]
    assert summary["hypervolume_rank"].tolist() == [3.0, 2.0, 1.0]
    values = comparison.frame.loc[comparison.frame["evaluations"] == 60, "hypervolume"]
    assert summary["hypervolume_mean"].iloc[0] == pytest.approx(values.mean())
    assert summary["hypervolume_std"].iloc[0] == pytest.approx(np.std(values, ddof=1))
    assert comparison.tests["igd_plus"].blocks == 4


def test_seeds_that_not_all_have_are_no_blocks(runs, tmp_path):
    shorter = searched(tmp_path, "shorter", batch=50, repeats=3)
    comparison = compare([runs[0], shorter])
    assert len(comparison.runs) == 7
    assert comparison.tests["share"].blocks == 3
    assert np.isnan(comparison.tests["share"].friedman)


def test_a_given_front_is_the_reference(runs, tmp_path):
    exact = runs[2] / "front.csv"
    comparison = compare(runs[:2], exact)
    wanted = Front.load(exact, comparison.roles)
    assert len(comparison.reference) == len(wanted)
    assert comparison.reference_text == str(exact)
    worse = compare(runs, runs[0] / "front.csv")
    assert beaten(worse) > 0
    assert worse.frame["share"].iloc[:4].sum() == pytest.approx(1.0)


def test_a_run_without_a_front_counts_as_worst(runs, tmp_path):
    empty = searched(tmp_path, "empty", batch=10, evaluations=60)
    for repeat in RunDir(empty).children():
        frame = pd.read_csv(repeat.front_file)
        frame.iloc[:0].to_csv(repeat.front_file, index=False)
    comparison = compare([*runs, empty])
    last = comparison.frame.iloc[-1]
    assert (last["hypervolume"], last["igd_plus"], last["share"]) == (0.0, np.inf, 0.0)
    assert comparison.tests["igd_plus"].ranks[-1] == 4.0


def refused(*directories, match):
    with pytest.raises(InputError, match=match):
        compare(directories)


def test_other_problems_are_refused(runs, tmp_path):
    refused(runs[0], searched(tmp_path, "other", function="zdt2"), match="the same problem")


@pytest.mark.parametrize("key", ["objectives", "constraints"])
def test_other_roles_are_refused(runs, tmp_path, key):
    other = RunDir(searched(tmp_path, key, batch=10, repeats=1))
    about = other.about()
    about[key] = about["objectives"][:1] if key == "objectives" else [{"metric": "f1"}]
    other.about_file.write_text(json.dumps(about))
    refused(runs[0], other.path, match=f"the same {key}")


def test_unfinished_runs_and_other_folders_are_refused(runs, tmp_path):
    other = RunDir(searched(tmp_path, "cut", batch=10, repeats=1))
    other.summary_file.unlink()
    refused(other.path, match="expected a finished run")
    refused(tmp_path, match="expected the directory of a run")


def test_a_run_given_twice_is_refused(runs):
    refused(runs[0], runs[0], match="each search with a seed once")


def test_the_command_writes_and_prints(runs, tmp_path, capsys):
    out = tmp_path / "deep" / "comparison"
    assert main(["compare", *map(str, runs), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    frame = pd.read_csv(out / "compare.csv")
    assert frame["share"].tolist() == compare(runs).frame["share"].tolist()
    assert "Friedman p = " in printed
    assert "too few for Wilcoxon" in printed  # p is 1/8 at least
    assert "best mean rank random batch=30 evaluations=6000 (1.00 over 4 seeds" in printed
    assert printed.index(" 6,000 ") < printed.index(" 600 ") < printed.index(" 60 ")
    assert (out / "compare.html").is_file()


def test_the_command_says_what_is_wrong(runs, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["compare", str(runs[0]), "--out", str(file / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["compare", str(tmp_path)]) == 2
    assert main(["compare", str(runs[0]), "--reference", str(tmp_path / "no.csv")]) == 2
    assert "expected a front" in capsys.readouterr().err


def test_one_search_needs_no_tests(runs, tmp_path, capsys):
    assert main(["compare", str(runs[0]), "--out", str(tmp_path)]) == 0
    assert "none: they need two searches" in capsys.readouterr().out
    assert not (tmp_path / "compare_cd.png").exists()


def test_a_reference_that_is_beaten_is_reported(runs, tmp_path, capsys):
    reference = str(runs[0] / "front.csv")
    assert main(["compare", *map(str, runs), "--reference", reference, "--out", str(tmp_path)]) == 0
    assert "it is not exact" in capsys.readouterr().out
