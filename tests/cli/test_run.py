"""The command: run and resume, their files, exit codes, and what they say."""

import csv
import json
import re

import pytest
import yaml

from framework.front import expected_columns
from tests.cli.places import METRICS, front_of
from tests.command import rows, small, write
from tracking.mlflow_log.run_content import end_metrics


def run_small(command, out, *settings, **more):
    """Run the small configuration into a directory, with keys set and no pictures."""
    words = [word for setting in settings for word in ("--set", setting)]
    return command("run", "small.yaml", "--out", out, "--no-plots", *words, **more)


def test_run_says_what_it_did_and_what_to_do_next(finished):
    assert "evaluated in this process" in finished.err
    assert "gen 4 " in finished.err
    assert "ended by generations" in finished.err
    assert re.search(r"Front: \d+ solutions", finished.out)
    assert re.search(r"^run directory +first$", finished.out, re.MULTILINE)
    assert re.search(r"^recommended +first/model ", finished.out, re.MULTILINE)
    assert re.search(r"^choose another +\S*paretolab choose first --where", finished.out, re.M)
    assert "\x1b" not in finished.out + finished.err


def test_run_directory(finished):
    assert {path.name for path in finished.dir.iterdir()} == {
        *(".lock", "about.json", "config.yaml", "front.csv", "journal.bin"),
        *("model", "plots", "report.html", "resamples.npz", "summary.json"),
    }
    plots = {path.suffix for path in (finished.dir / "plots").iterdir()}
    assert plots == {".png", ".html"}
    assert (finished.dir / "model" / "model.json").is_file()


def test_front_csv(finished):
    with (finished.dir / "front.csv").open() as file:
        header, *records = csv.reader(file)
    tests = [f"test_{name}" for name in METRICS]
    told = [name for own in expected_columns(METRICS).values() for name in own]
    genes = [f"gene_f{i}" for i in range(1, 7)]
    assert header == ["id", *METRICS, *tests, *told, "firm", "tied_with", *genes]
    assert len(records) == json.loads((finished.dir / "summary.json").read_text())["front_size"]
    ids = [int(record[0]) for record in records]
    assert ids == sorted(ids)


@pytest.mark.slow
def test_the_front_shows_a_threshold_that_is_searched(command, place):
    """On the terminal, in the table of the report and in front.csv."""
    config = small(problem__threshold=[0.7, 0.9], algorithm={"kind": "random", "batch": 40})
    write(place / "levels.yaml", config | {"budget": {"evaluations": 80}})
    done = command("run", "levels.yaml", "--out", "levels", "--json", code=0)
    shown = {record["setting_threshold"] for record in json.loads(done.out)["front"]}
    assert shown == {0.7, 0.9}
    page = (place / "levels" / "report.html").read_text(encoding="utf-8")
    assert "<th>threshold</th>" in page
    table = command("choose", "levels")
    assert "threshold" in table.out
    assert {"0.7", "0.9"} <= set(re.findall(r"0\.\d+", table.out))


def test_summary(finished):
    summary = json.loads((finished.dir / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["algorithm"] == "emsco"
    assert summary["problem"] == "multistage"
    assert summary["seed"] == 0
    assert summary["rows_failed"] == 0
    assert summary["evaluations"] == sum(n for _, n in rows(finished.dir / "journal.bin"))
    assert summary["wall_s"] > 0
    assert 0 < summary["indicators"]["hypervolume"] < 1
    assert summary["front_size"] > 0
    assert {"python", "paretolab", "numpy", "scikit-learn"} <= summary["versions"].keys()


@pytest.mark.slow
def test_another_seed_is_another_run(finished, command, place):
    command("run", "small.yaml", "--out", "seed 5", "--no-plots", "--seed", "5", "--quiet", code=0)
    assert front_of(place / "seed 5") != front_of(finished.dir)
    assert yaml.safe_load((place / "seed 5" / "config.yaml").read_text())["seed"] == 5


def test_ray_workers_find_the_same_front(finished, command, place):
    done = run_small(command, "ray", "workers=2", env={"PARETOLAB_CACHE": "off"}, code=0)
    assert "evaluated by Ray" in done.err
    assert front_of(place / "ray") == front_of(finished.dir)
    names = {path.name for path in (place / "ray").iterdir()}
    assert names == {path.name for path in finished.dir.iterdir()} - {"plots", "report.html"}


@pytest.mark.slow
def test_without_out_runs_are_numbered(command, place):
    for number in (1, 2):
        command("run", "small.yaml", "--set", "budget.generations=0", code=0)
        assert (place / "runs" / f"small-00{number}" / "front.csv").is_file()


def test_a_front_without_a_feasible_row_is_empty(command, place):
    settings = "budget.generations=1", "constraints=[{metric: cost, at_most: 0.001}]"
    done = run_small(command, "infeasible", *settings, code=3)
    reason = r"the front is empty: no candidate has cost <= 0\.001; the best is [\d.]+ \(candidate "
    assert re.search(reason + r"\d+\), by [\d.]+ too high", done.out)
    assert json.loads((place / "infeasible" / "summary.json").read_text())["front_size"] == 0
    asked, table = ["--where", "coverage>=0.1"], str(write(place / "fresh.csv", {}))
    for words in (["choose"], ["choose", *asked, "--sure", "90"], ["certify", table, *asked]):
        done = command(words[0], "infeasible", *words[1:], code=2)
        assert "front: expected at least one solution, found none" in done.err


def test_a_run_all_of_whose_rows_failed_is_code_3_and_says_why(command, place):
    classifier = "problem.classifier={kind: k_neighbors, n_neighbors: 1000}"
    done = run_small(command, "all failed", "budget.generations=0", classifier, code=3)
    assert re.search(r"the front is empty: all 30 evaluations failed, \d+ of them by: ", done.out)
    assert "n_neighbors" in done.out
    summary = json.loads((place / "all failed" / "summary.json").read_text())
    assert (summary["status"], summary["rows_failed"]) == ("failed", 30)


@pytest.mark.slow
def test_resume_remembers_that_nothing_is_logged(command, place):
    uri = f"sqlite:///{place / 'not made.db'}"
    options = ["--set", f"tracking={{uri: '{uri}'}}", "--no-mlflow", "--no-plots"]
    command("run", "small.yaml", "--out", "unlogged", *options, code=0)
    more = ["--set", "budget.generations=6", "--no-plots"]
    command("resume", "unlogged", *more, code=0)
    assert not (place / "not made.db").exists()
    assert not (place / "unlogged" / "tracking.json").exists()


# --- resume ---------------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("setting", "key", "old", "new"),
    [
        ("algorithm.mutation_rate=0.5", "algorithm.mutation_rate", "0.075", "0.5"),
        ("seed=9", "seed", "0", "9"),
        ("problem.threshold=0.9", "problem.threshold", "0.8", "0.9"),
    ],
)
def test_resume_as_another_run_is_refused(finished, command, setting, key, old, new):
    config = (finished.dir / "config.yaml").read_bytes()
    done = command("resume", "first", "--set", setting, code=2)
    assert f"{key} is {old} there and {new} here" in done.err
    assert (finished.dir / "config.yaml").read_bytes() == config


def test_a_run_stands_beside_what_one_would_do_without_it(place, command, finished):
    summary = json.loads((finished.dir / "summary.json").read_text())
    plain, largest = summary["alternatives"]
    assert plain["name"] == "logistic regression on all 6 features with a reject threshold"
    assert "threshold 0.8" in plain["points"]
    assert largest["values"]["cost"] == [0.0]
    (line,) = [line for line in finished.out.splitlines() if line.startswith("the search ")]
    assert plain["name"] in line
    page = (finished.dir / "report.html").read_text()
    assert page.index("Against what one would do without it") < page.index("The chosen solution")
    assert line[1:60] in page  # the first sentence, as it was printed
    found = end_metrics(summary)
    for name in plain["gains"]:  # the least, over the strongest of what one would do without it
        gains = [one["gains"][name]["expected"] for one in summary["alternatives"] if one["gains"]]
        assert found[f"gain/{name}"] == pytest.approx(min(gains), abs=1e-4)
