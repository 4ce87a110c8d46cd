"""`paretolab experiment`, as its users run it: runs, tables, failures."""

import json
import re
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.experiment.comparison import compare
from framework.experiment.run_dir import RunDir
from tests.command import call, write
from tests.command import small as small_run
from tests.experiment import small

CONTENT = small.raw(paper={"convex": {"grid*": {"hypervolume": 0.123}}})
TABLES = {
    *("runs.csv", "seconds.csv", "means.csv", "ranks.csv"),
    *("pairs.csv", "wins.csv", "winners.csv"),
}


def tables(out):
    """Return the tables that do not depend on how fast the machine is."""
    names = sorted(TABLES - {"seconds.csv"})
    return {name: (out / "tables" / name).read_bytes() for name in names}


class Done(NamedTuple):
    """What a command said."""

    out: str
    err: str


def command(folder, *arguments, code=0):
    """Run the command in this process: starting another takes seconds."""
    out, err = StringIO(), StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        assert main(list(map(str, arguments))) == code, err.getvalue()
    return Done(out.getvalue(), err.getvalue())


def little(folder, content=CONTENT, *options, code=0):
    """Run an experiment in a folder, into ``out``."""
    small.write(folder, content)
    return command(folder, "experiment", "little.yaml", "--out", "out", *options, code=code)


@pytest.fixture
def plain(monkeypatch):
    """Draw nothing: that takes longer than the runs."""
    monkeypatch.setattr("tracking.figures.comparison_report.write_report", lambda *_, **__: [])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An experiment that nothing incidents."""
    folder = tmp_path_factory.mktemp("whole")
    small.write(folder, CONTENT)
    done = call("experiment", "little.yaml", "--out", "out", cwd=folder, code=0)  # as installed
    assert re.search(r"^12/12 runs · 0:00:00 left · concave · grid\* · 3: ", done.err, re.M)
    assert "report" in done.out
    return folder / "out"


def test_it_ends_in_tables_and_one_page(whole):
    assert {path.name for path in (whole / "tables").iterdir()} == TABLES
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:)', page)
    names = {path.stem for path in (whole / "plots").iterdir()}
    assert names == {
        *("ranks", "means", "fronts", "attainment", "anytime_evaluations", "anytime_seconds")
    }
    assert page.count("data:image/png;base64,") == len(names)
    means = pd.read_csv(whole / "tables" / "means.csv")
    assert len(means) == 2 * 2 * 3
    best = means[means["indicator"] == "hypervolume"]["mean"].iloc[0]
    assert f"{best:.4g} ±" in page
    published = means[means["paper"].notna()]
    assert published[["case", "method", "indicator", "paper"]].to_numpy().tolist() == [
        ["convex", "grid*", "hypervolume", 0.123]
    ]
    assert page.count('<span class="paper">(0.123)</span>') == 1


def test_a_run_of_an_experiment_is_like_any_other(whole, tmp_path):
    """The same configuration run by itself ends in the same front."""
    cell = RunDir(whole / "cells" / "concave" / "by-tens" / "001")
    assert cell.summary()["status"] == "done"
    alone = tmp_path / "alone"
    command(tmp_path, "run", cell.config_file, "--out", alone, "--no-plots", "--quiet")
    assert (alone / "front.csv").read_bytes() == cell.front_file.read_bytes()
    command(tmp_path, "choose", cell.path, "--best", "f1")


def test_tables_are_those_of_the_runs(whole):
    runs = pd.read_csv(whole / "tables" / "runs.csv")
    for row in runs.to_dict("records"):
        place = RunDir(whole / row["directory"])
        assert row["hypervolume"] == place.summary()["indicators"]["hypervolume"]
        assert (row["seed"], row["evaluations"]) == (place.config().seed, 60)
    again = compare([whole])
    assert again.methods == ["by tens", "grid*"]
    assert again.frame["igd_plus"].tolist() == runs["igd_plus"].tolist()


def test_what_is_done_is_not_done_again(whole, tmp_path, plain):
    shutil.copytree(whole, tmp_path / "out")
    journals = {p: p.stat().st_mtime_ns for p in tmp_path.glob("out/cells/*/*/*/journal.bin")}
    assert " runs · " not in little(tmp_path).err
    seconds = sum(run.summary()["wall_s"] for run in RunDir(whole).children())
    assert RunDir(tmp_path / "out").summary()["wall_s"] == pytest.approx(seconds)
    fewer = command(tmp_path, "resume", "out", "--set", "experiment.repeats=2")
    assert "cells/convex/by-tens/002, and 1 more: left out of tables and figures" in fewer.err
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "runs.csv")) == 8
    more = command(tmp_path, "resume", "out", "--set", "experiment.repeats=4")
    assert "left out" not in more.err
    assert len(re.findall(r" runs · ", more.err)) == 4
    assert all(path.stat().st_mtime_ns == time for path, time in journals.items())
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "runs.csv")) == 16


def test_other_runs_in_the_directories_are_refused(whole, tmp_path, plain):
    shutil.copytree(whole, tmp_path / "out")
    done = little(tmp_path, CONTENT, "--set", "problem.d=5", code=2)
    assert "expected a run of by tens on convex as configured" in done.err
    assert tables(tmp_path / "out") == tables(whole)


def test_a_run_that_fails_is_reported_and_resume_runs_exactly_it(whole, tmp_path, plain):
    """A directory where its journal should be: it cannot be written."""
    broken = tmp_path / "out" / "cells" / "convex" / "grid" / "001"
    (broken / "journal.bin").mkdir(parents=True)
    done = little(tmp_path, code=3)
    assert done.err.count("convex · grid* · 2: failed: JournalError: ") == 2  # tried twice
    assert "1 of 12 runs could not be run; try them with: " in done.err
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "runs.csv")) == 11
    assert list(RunDir(tmp_path / "out").summary()["failed_cells"]) == ["cells/convex/grid/001"]
    again = command(tmp_path, "resume", "out", code=3)
    assert re.findall(r"(\S+) runs", again.err) == ["11/12", "11/12", "12"]
    (broken / "journal.bin").rmdir()
    last = command(tmp_path, "resume", "out")
    assert re.findall(r"(\d+/\d+) runs · \S+ left · (.*): front", last.err) == [
        ("12/12", "convex · grid* · 2")
    ]
    assert tables(tmp_path / "out") == tables(whole)


def test_a_method_that_cannot_search_a_case_is_said_before_anything_runs(tmp_path):
    methods = {"fine": {"kind": "random"}, "HAPEns": {"kind": "hapens"}}
    done = little(tmp_path, small.raw(methods=methods), code=2)
    assert "experiment: HAPEns on convex: " in done.err
    assert "experiment: HAPEns on concave: " in done.err
    assert not list(tmp_path.glob("out/**/journal.bin"))


@pytest.mark.slow
def test_too_many_failed_rows_are_said(tmp_path):
    """Half of the rows of a problem fail: the run has ended, and the experiment says so."""
    content = small.raw(cases={}, repeats=1)
    content["problem"] = {"kind": "function", "name": "zdt1", "d": 4}
    content["budget"] = {"evaluations": 60}
    little(tmp_path, content)
    cell = RunDir(tmp_path / "out" / "cells" / "configured" / "grid" / "000")
    cell.write_summary(cell.summary() | {"status": "failed"})
    done = command(tmp_path, "resume", "out", code=3)
    assert "more rows failed than budget.max_failed_share allows" in done.err


def test_where_every_run_fails_the_most_frequent_error_is_said(tmp_path, plain):
    classifier = {"kind": "sklearn.neighbors.KNeighborsClassifier", "n_neighbors": 3000}
    config = small_run(problem__classifier=classifier, budget={"evaluations": 60})
    del config["algorithm"]
    config["experiment"] = {"methods": {"lots": {"kind": "random"}, "emsco": {"kind": "emsco"}}}
    write(tmp_path / "bad.yaml", config)
    options = ["--out", "out", "--no-mlflow", "--json"]
    done = command(tmp_path, "experiment", "bad.yaml", *options, code=3)
    failed = json.loads(done.out)["failed_runs"]
    assert list(failed) == ["cells/configured/lots/000", "cells/configured/emsco/000"]
    for reason in failed.values():
        assert re.match(r"all 60 evaluations failed, 60 of them by: .*n_neighbors", reason)
        assert reason in done.err


@pytest.mark.quick(1)
@pytest.mark.parametrize("hopeless", [["hard"], ["hard", "convex", "concave"]])
def test_a_case_without_a_solution_is_left_out_and_said(hopeless, tmp_path, plain):
    """The tables are of the other cases; where there is none, the experiment has ended too."""
    cases = {"hard": {"problem.name": "zdt1"}, **small.RAW["experiment"]["cases"]}
    never = {"constraints": [{"metric": "f1", "at_most": -1}]}
    cases = {name: keys | never if name in hopeless else keys for name, keys in cases.items()}
    some = len(hopeless) < len(cases)
    done = little(tmp_path, small.raw(cases=cases), code=3 if some else 2)
    out = RunDir(tmp_path / "out")
    assert out.summary()["status"] == "done"
    if some:
        assert "No run found a solution on hard: left out here." in done.out
        assert set(pd.read_csv(out.path / "tables" / "ranks.csv")["blocks"]) == {2}
    else:
        assert "expected a solution of some run, found none on hard, convex, concave" in done.err


def test_a_reference_search_is_what_runs_are_measured_against(tmp_path, plain):
    """A search of the same seed and batch, ten times as long, finds all that the short one kept."""
    reference = {"algorithm": {"kind": "random", "batch": 10}, "budget": {"evaluations": 600}}
    done = little(tmp_path, small.raw(reference=reference))
    assert "front of random" in done.out
    case = compare([tmp_path / "out"]).cases[0]
    front = RunDir(tmp_path / "out" / "references" / "convex").front()
    assert np.array_equal(np.unique(case.reference, axis=0), np.unique(front.losses, axis=0))
    assert {run.method for run in case.runs} == {"by tens", "grid*"}


@pytest.mark.slow
def test_on_ray_the_tables_are_the_same(whole, tmp_path):
    done = little(tmp_path, CONTENT, "--workers", "2")
    assert "runs are on Ray, 2 workers" in done.err
    assert tables(tmp_path / "out") == tables(whole)


def test_run_says_where_an_experiment_belongs(tmp_path):
    small.write(tmp_path, CONTENT)
    done = command(tmp_path, "run", "little.yaml", code=2)
    assert "found an experiment; use `paretolab experiment little.yaml`" in done.err
