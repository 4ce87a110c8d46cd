"""paretolab compare: what it reads, what it refuses, what it says."""

import json

import numpy as np
import pandas as pd
import pytest

from framework.analysis.indicators import Indicator
from framework.errors import InputError
from framework.experiment.comparison import compare, mean_indicators
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal
from tests.command import POINT, write
from tests.experiment.test_experiment import command


def searched(folder, name, *, batch=20, evaluations=200, repeats=4, function="zdt1"):
    file = folder / f"{name}.yaml"
    config = POINT | {
        "problem": {"kind": "function", "name": function, "d": 6},
        "algorithm": {"kind": "random", "batch": batch},
        "budget": {"evaluations": evaluations},
        "repeats": repeats,
    }
    write(file, config)
    command(folder, "run", file.name, "--out", name, "--no-plots", "--quiet")
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
    union = {tuple(row) for row in comparison.cases[0].reference.tolist()}
    for run, row in zip(comparison.cases[0].runs, frame.to_dict("records"), strict=True):
        single = RunDir(row["directory"])
        own = {tuple(losses) for losses in single.front().losses.tolist()}
        assert row["share"] == len(own & union) / len(union)
        assert row["hypervolume"] == single.summary()["indicators"]["hypervolume"]
        assert row["seed"] == single.summary()["seed"] == run.seed
    by_search = frame.groupby("method", sort=False)[["hypervolume", "igd_plus"]].mean()
    assert by_search["hypervolume"].is_monotonic_increasing
    assert by_search["igd_plus"].is_monotonic_decreasing
    assert comparison.cases[0].beaten() == 0
    assert comparison.judged == "the front of everything evaluated"  # a function has no records


def test_distinct_evaluations_are_told_beside_evaluations(runs, tmp_path):
    """Random search on six bits asks for few different candidates."""
    bits = searched(tmp_path, "bits", function="lotz", evaluations=600, repeats=2)
    for run in compare([bits]).frame.to_dict("records"):
        with Journal(RunDir(run["directory"]).journal_file) as journal:
            rows = [tuple(x) for batch in journal.evaluations() for x in batch.X.tolist()]
        assert len(rows) == run["evaluations"] == 600
        assert run["distinct"] == len(set(rows)) == 64
    shown = command(tmp_path, "compare", bits, "--out", "page").out
    assert "distinct" in shown
    assert " 64 " in shown
    assert "<td>64" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_searches_of_a_kind_are_told_apart_by_what_differs(runs):
    assert compare(runs).methods == [
        "random batch=20 evaluations=60",
        "random batch=40 evaluations=600",
        "random batch=30 evaluations=6000",
    ]
    assert compare(runs[:1]).methods == ["random"]


def test_summary_and_ranks(runs):
    comparison = compare(runs)
    summary = comparison.summary().set_index("method")
    assert summary["runs"].tolist() == [4, 4, 4]
    assert summary["hypervolume_rank"].tolist() == [3.0, 2.0, 1.0]
    values = comparison.frame.loc[comparison.frame["evaluations"] == 60, "hypervolume"]
    assert summary["hypervolume_mean"].iloc[0] == pytest.approx(values.mean())
    assert summary["hypervolume_std"].iloc[0] == pytest.approx(np.std(values, ddof=1))
    assert comparison.tests["igd_plus"].blocks == 4


def test_seeds_that_not_all_have_are_no_blocks(runs, tmp_path):
    shorter = searched(tmp_path, "shorter", batch=50, repeats=3)
    comparison = compare([runs[0], shorter])
    assert len(comparison.frame) == 7
    assert comparison.tests["share"].blocks == 3
    assert np.isnan(comparison.tests["share"].friedman)


def test_a_given_front_is_the_reference(runs, tmp_path):
    exact = runs[2] / "front.csv"
    comparison = compare(runs[:2], exact)
    case = comparison.cases[0]
    assert len(case.reference) == len(Front.load(exact, case.roles))
    assert case.reference_text == str(exact)
    empty = tmp_path / "empty.csv"
    empty.write_text(exact.read_text().partition("\n")[0] + "\n")
    with pytest.raises(InputError, match=r"--reference: expected solutions in .*empty.csv"):
        compare(runs, reference=empty)
    worse = compare(runs, runs[0] / "front.csv")
    assert worse.cases[0].beaten() > 0
    assert worse.frame["share"].iloc[:4].sum() == pytest.approx(1.0)
    (one, *_) = RunDir(runs[0]).children()
    assert compare([one.path]).cases[0].reference_text == "front of the run itself"


def test_an_unknown_word_is_named_with_those_that_there_are(runs):
    for key, one in {"judge": "front", "records": "test", "blocks": "cases"}.items():
        with pytest.raises(InputError, match=rf"{key}: expected one of .*{one}.*; found 'zz'"):
            compare(runs, **{key: "zz"})
    with pytest.raises(InputError, match="expected directories of finished runs, found none"):
        compare([])


def rewrite(run_dir, frame):
    """Put another front in the place of a run's, whose digest is forgotten."""
    frame.to_csv(run_dir.front_file, index=False)
    run_dir.write_summary(run_dir.summary() | {"files": {}})


def test_a_run_without_a_front_counts_as_worst(runs, tmp_path):
    empty = searched(tmp_path, "empty", batch=10, evaluations=60)
    for repeat in RunDir(empty).children():
        frame = pd.read_csv(repeat.front_file)
        rewrite(repeat, frame.iloc[:0])
    comparison = compare([*runs, empty])
    last = comparison.frame.iloc[-1]
    assert (last["hypervolume"], last["igd_plus"], last["share"]) == (0.0, np.inf, 0.0)
    assert comparison.tests["igd_plus"].ranks[-1] == 4.0


def test_one_run_with_a_front_does_not_speak_for_those_without(runs, tmp_path):
    lucky = searched(tmp_path, "lucky", batch=10, evaluations=60)
    for number, repeat in enumerate(RunDir(lucky).children()):
        frame = pd.read_csv(repeat.front_file)
        rewrite(repeat, frame.sort_values("f2").iloc[: 1 if number == 0 else 0])
    comparison = compare([*runs, lucky], indicators=["f2"])
    assert comparison.frame["f2"].iloc[-3:].tolist() == [np.inf] * 3
    assert comparison.tests["f2"].ranks[-1] > 3
    assert comparison.ordered()[-1] == comparison.methods[-1]
    json.dumps(mean_indicators(comparison), allow_nan=False)
    arguments = [*runs, lucky, "--indicators", "f2", "--out", "page"]
    assert "inf" in command(tmp_path, "compare", *arguments).out


def refused(*directories, match):
    with pytest.raises(InputError, match=match):
        compare(directories)


@pytest.mark.slow
def test_problems_are_cases_and_blocks(runs, tmp_path):
    """On each of three problems the longer search wins in every seed."""
    more = [
        searched(tmp_path, f"{name}-{evaluations}", function=name, evaluations=evaluations)
        for name in ("zdt2", "dtlz2")
        for evaluations in (60, 600)
    ]
    short = searched(tmp_path, "short", evaluations=60)
    long = searched(tmp_path, "long", evaluations=600)
    comparison = compare([short, long, *more])
    assert [case.name for case in comparison.cases] == [
        f"function name={name}" for name in ("zdt1", "zdt2", "dtlz2")
    ]
    assert comparison.methods == ["random evaluations=60", "random evaluations=600"]
    tests = comparison.tests["hypervolume"]
    assert (tests.blocks, comparison.blocks) == (3, "cases")
    assert tests.ranks.tolist() == [2.0, 1.0]
    by_run = compare([short, long, *more], blocks="runs")
    assert (by_run.tests["hypervolume"].blocks, by_run.blocks) == (12, "runs")
    for case in comparison.cases:  # each measured against its own runs
        alone = compare([run.path for run in case.runs])
        assert alone.frame["igd_plus"].tolist() == case.frame["igd_plus"].tolist()


def test_an_indicator_that_raises_is_named(runs, monkeypatch):
    mine = Indicator("mine", "high", "none", lambda judged: 1 / 0)
    monkeypatch.setattr("framework.analysis.indicators.indicators", lambda: {"mine": mine})
    with pytest.raises(InputError, match=r"indicators: mine: .* found ZeroDivisionError: division"):
        compare(runs[:1], indicators=["mine"])


def test_a_budget_of_each_problem_is_no_method(runs, tmp_path):
    other = searched(tmp_path, "other", function="zdt2", evaluations=100)
    assert compare([runs[0], other]).methods == ["random"]


def test_one_reference_for_several_problems_is_refused(runs, tmp_path):
    other = searched(tmp_path, "other", function="zdt2")
    with pytest.raises(InputError, match="runs on one problem, found 2"):
        compare([runs[0], other], runs[0] / "front.csv")


def test_what_is_returned_may_be_judged_also_of_one_old_search(runs, tmp_path):
    """Here each run returns its first solution; one without a returned set has its front judged."""
    own = searched(tmp_path, "own", batch=10)
    for repeat in RunDir(own).children():
        pd.read_csv(repeat.front_file).iloc[:1].to_csv(repeat.returned_file, index=False)
        summary = repeat.summary()
        del summary["distinct_evaluations"]  # once they were not counted
        repeat.write_summary(summary)
    comparison = compare([own, runs[0]], judge="returned")
    assert comparison.frame["solutions"].iloc[:4].tolist() == [1] * 4
    assert comparison.frame["solutions"].iloc[4:].tolist() == [
        len(RunDir(path).front()) for path in comparison.frame["directory"].iloc[4:]
    ]
    assert (compare([own, runs[0]]).frame["solutions"].iloc[:4] > 1).all()
    assert compare([own]).frame["distinct"].isna().all()
    shown = command(tmp_path, "compare", own, "--returned", "--out", "page").out
    assert "none: they need two searches" in shown
    assert "nan" not in shown
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "returns by its own definition" in page
    assert "<td>nan" not in page
    assert not (tmp_path / "page" / "plots" / "ranks.png").exists()


def test_values_on_test_records_may_be_judged(runs, tmp_path):
    own = searched(tmp_path, "own", batch=10)
    with pytest.raises(InputError, match="values on test records"):
        compare([own], records="test")
    for repeat in RunDir(own).children():
        frame = pd.read_csv(repeat.front_file)
        rewrite(repeat, frame.assign(test_f1=frame["f1"] / 2, test_f2=frame["f2"]))
    case = compare([own], records="test").cases[0]
    files = [repeat.front_file for repeat in RunDir(own).children()]
    whole = files[0].read_text()
    pd.read_csv(files[0]).assign(test_f1=np.nan).to_csv(files[0], index=False)  # as ROC AUC may be
    with pytest.raises(InputError, match="for every objective, found too few for f1"):
        compare([own], records="test")
    found = compare([own]).frame
    assert np.isnan(found["hypervolume_optimistic"]).tolist() == [True, False, False, False]
    files[0].write_text(whole)
    halved = case.runs[0].path / "front.csv"
    expected = pd.read_csv(halved)[["f1", "f2"]].to_numpy() * [0.5, 1.0]
    assert np.array_equal(case.runs[0].losses, expected)


def test_runs_that_cannot_be_compared_are_refused(runs, tmp_path):
    other = RunDir(searched(tmp_path, "other", batch=10, repeats=1))
    about = other.about()
    for key, value in (
        ("objectives", about["objectives"][:1]),
        ("constraints", [{"metric": "f1"}]),
    ):
        other.about_file.write_text(json.dumps(about | {key: value}))
        refused(runs[0], other.path, match=f"the same {key}")
    other.summary_file.unlink()
    refused(other.path, match="expected a finished run")
    refused(tmp_path, match="expected the directory of a run")
    refused(runs[0], runs[0], match="each search with a seed once")


def test_the_command_writes_and_prints(runs, tmp_path):
    out = tmp_path / "deep" / "comparison"
    printed = command(tmp_path, "compare", *runs, "--out", out).out
    frame = pd.read_csv(out / "tables" / "runs.csv")
    assert frame["share"].tolist() == compare(runs).frame["share"].tolist()
    assert "Friedman p = " in printed
    assert "Wilcoxon" not in printed  # of seeds the interval of each lead tells
    assert "best mean rank random batch=30 evaluations=6000 (1.00 over 4 seeds)\n" in printed
    assert printed.index(" 6,000 ") < printed.index(" 600 ") < printed.index(" 60 ")
    assert (out / "report.html").is_file()


def test_the_command_says_what_is_wrong(runs, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments, sentence in (
        ([runs[0], "--out", "file/below"], "cannot be written"),
        ([tmp_path], "expected the directory of a run"),
        ([runs[0], "--reference", "no.csv"], "expected a front"),
    ):
        assert sentence in command(tmp_path, "compare", *arguments, code=2).err


def test_a_reference_that_is_beaten_is_reported(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("tracking.figures.comparison_report.write_report", lambda *_, **__: [])
    arguments = [*runs, "--reference", runs[0] / "front.csv", "--out", tmp_path]
    assert "it is not exact" in command(tmp_path, "compare", *arguments).out
