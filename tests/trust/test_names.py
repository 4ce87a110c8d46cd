"""Names that strangers chose stay text wherever they are written: pages, Markdown, terminal, CSV.

Of features, classes, models, cases and methods; those of runs and experiments name folders.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import yaml
from markdown_it import MarkdownIt
from sklearn.tree import DecisionTreeClassifier

from framework.cli.main import main
from framework.experiment.run_dir import RunDir
from framework.libraries.importing import from_models
from framework.models.store import save_model
from framework.models.walk import StageWalk, Walk
from framework.security import csv_text_value
from tests.command import write
from tests.experiment import small
from tests.models.test_store import linear_model
from tests.trust.conftest import CONFIG
from tests.trust.pages import check_page, figure_markup, leading
from tracking.figures import comparison_report, explore, html_page, run_report
from tracking.figures.run_data import read_run_data

FEATURES = [
    "<script>alert(1)</script>",
    "a|b `x` [l](http://evil.example) ![p](http://evil.example/p.png)",
    "\x1b[31mred\x1b]0;owned\x07",
    "=cmd()|' /C calc'!A0",
    "line\n\n# break\n\n| x | y |\n| --- | --- |\r\x85",
    "\u202egnp.exe",
    "$50_$ to $\\frac{$",
    '"><img src=x onerror=alert(1)>',
]
CLASSES = ["=1+1", "<img src=x onerror=alert(1)>|\x1b[2J\n\n<script>x</script>"]
RATE = f"recall:{CLASSES[1]}"
DRAWN = (run_report.write_run_page, comparison_report.write_report)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of such names, and a run on it."""
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    X = rng.random((160, len(FEATURES))).round(3)
    target = np.array(CLASSES)[(X[:, 0] + X[:, 1] > 1).astype(int)]
    pd.DataFrame(X, columns=FEATURES).assign(target=target).to_csv(folder / "t.csv", index=False)
    config = yaml.safe_load(CONFIG)
    config["problem"]["dataset"] = {"path": "t.csv"}
    config["problem"]["rates"] = [RATE]
    for name in ("accuracy", RATE):
        config["objectives"].append({"metric": name, "sense": "max"})
    config["budget"] = {"evaluations": 40}
    file, place = write(folder / "config.yaml", config), str(folder / "run")
    assert main(["run", str(file), "--out", place, "--no-plots"]) == 0
    assert main(["choose", place, "--best", "accuracy", "--no-mlflow"]) == 0
    return folder


def check_markdown(text: str) -> None:
    """Fail where Markdown is more than text, tables and code of ours."""
    assert "\x1b" not in text
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert not leading(page)
    assert "<script" not in page
    assert "<img" not in page
    assert "<a " not in page
    for table in re.findall(r"<table>.*?</table>", page, re.S):
        rows = re.findall(r"<tr>.*?</tr>", table, re.S)
        assert len({len(re.findall(r"<t[hd]", row)) for row in rows}) == 1, table


def test_terminal_and_json(run, tmp_path, capfd):
    out = str(tmp_path / "out")
    assert main(["run", str(run / "config.yaml"), "--out", out, "--no-plots"]) == 0
    said = "".join(capfd.readouterr())
    assert not set(said) & {"\x1b", "\x07", "\x85", "\u202e"}
    assert "<script>alert(1)</script>" in said
    place = str(run / "run")
    for more in (["--best", "accuracy"], ["--costs", "fp=1,fn=1", "--prior", ".3"]):
        for form in ([], ["--json"]):
            assert main(["choose", place, *more, "--no-mlflow", *form]) == 0
            out, err = capfd.readouterr()
            assert not set(out + err) & {"\x1b", "\x07", "\r", "\x85", "\u202e"}
            assert not form or json.loads(out)["command"] == "choose"


def test_readme(run):
    text = (run / "run" / "model" / "README.md").read_text()
    check_markdown(text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_readme_of_a_class_that_is_never_answered(tmp_path):
    name = "<script>alert(1)</script>"
    stage = StageWalk(("a",), 1.0, 1.0, 60, {"no": 60, name: 0}, 40, 0.7, 0.0, 0.5)
    walk = Walk(60, 60, "none", (stage,), {"validation": ((40, 0, 0), (20, 0, 0))})
    save_model(linear_model(), tmp_path / "m", walk=walk)
    text = (tmp_path / "m" / "README.md").read_text()
    check_markdown(text)
    assert "no record is answered &lt;script&gt;" in text


def test_pages(run):
    run_dir = RunDir(run / "run")
    run_dir.plots.mkdir(exist_ok=True)
    data = read_run_data(run_dir)
    explore.explore_html(run_dir, data, run_dir.plots / "explore.html")
    DRAWN[0](run_dir)
    pages = [run_dir.path / "report.html", *run_dir.plots.glob("*.html")]
    assert len(pages) == 2
    for page in pages:
        check_page(page)
    assert "onerror=alert(1)\\u003e" in pages[1].read_text()


def test_pages_that_lead_are_noticed(tmp_path):
    """Else the tests above could not fail."""
    link = go.Figure(go.Bar(x=["<a href='http://evil.example'>x</a>"], y=[1]))
    safe = html_page.figure_html(link, first=False)
    assert not figure_markup(safe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_page, "_as_text", lambda content: content)
        assert figure_markup(html_page.figure_html(link, first=False))
    for page in ("<img src=x>", "<p onclick=x>", "<script>x</script>", "<base href=x>", "<form>"):
        (tmp_path / "page.html").write_text(f"<p>{page}</p>")
        with pytest.raises(AssertionError, match=r"page\.html"):
            check_page(tmp_path / "page.html")


@pytest.mark.slow
def test_page_of_a_sweep(run, tmp_path):
    """A key has a column's name, choices are classes, and so is what is best."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["problem"]["dataset"] = {"path": "t.csv", "positive": CLASSES[0]}
    config["problem"]["costs"] = {"values": dict.fromkeys(FEATURES, 2.0)}
    config["budget"] = {"evaluations": 8}
    config["sweep"] = {
        "search_space": {
            f"problem.costs.values.{FEATURES[-1]}": {"low": 1, "high": 9},
            "problem.dataset.positive": {"choices": CLASSES},
        },
        "directions": [{"metric": "hypervolume", "sense": "max"}],
        "trials": 10,
    }
    file = write(run / "sweep.yaml", config)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "sweep.html"
    check_page(page, scripts=8)
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.read_text()


def test_answers_in_csv(run, capfd):
    arguments = ["predict", str(run / "run" / "model"), str(run / "t.csv")]
    assert main(arguments) == 0
    plain, _ = capfd.readouterr()
    assert "\n=1+1," in plain
    assert main([*arguments, "--safe-csv"]) == 0
    safe, _ = capfd.readouterr()
    assert "\n=1+1," not in safe
    assert "\n'=1+1," in safe
    values = pd.read_csv(run / "t.csv")["target"].unique()
    assert set(CLASSES) == set(values)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b"])
def test_texts_that_spreadsheets_obey(sign):
    assert csv_text_value(f"{sign}cmd()") == f"'{sign}cmd()"
    assert csv_text_value(f"x{sign}") == f"x{sign}"


def test_models_of_cascades_and_libraries(tmp_path, capfd):
    rng = np.random.default_rng(1)
    names = ["<b>x<img src=x>", "a|b `x` [l](http:)", "\x1b[31mred", "=cmd()|' !A0"]
    columns = {
        f"{name}:{what}": rng.integers(0, 2, 40) if what == "correct" else rng.random(40)
        for name in names
        for what in ("correct", "confidence", "cost")
    }
    pd.DataFrame(columns).to_csv(tmp_path / "calls.csv", index=False)
    config: dict[str, Any] = {
        **yaml.safe_load(CONFIG),
        "problem": {"kind": "cascade", "calls": {"path": "calls.csv"}},
        "objectives": [{"metric": "accuracy", "sense": "max"}, {"metric": "cost", "sense": "min"}],
    }
    file, place = write(tmp_path / "config.yaml", config), tmp_path / "run"
    assert main(["run", str(file), "--out", str(place), "--no-plots"]) == 0
    check_markdown((place / "model" / "README.md").read_text())
    DRAWN[0](RunDir(place))
    check_page(place / "report.html")
    X = rng.random((60, 3))
    y = (X[:, 0] > 0.5).astype(int)
    models = {name: DecisionTreeClassifier(max_depth=2).fit(X, y) for name in names}
    from_models(models, X, y).save(tmp_path / "library")
    assert main(["library", "show", str(tmp_path / "library")]) == 0
    out, err = capfd.readouterr()
    assert not set(out + err) & {"\x1b", "\x07", "\r"}
    assert "\\x1b[31mred" in out


@pytest.mark.slow
def test_names_of_cases_and_methods(tmp_path, capfd, monkeypatch):
    raw = small.raw(repeats=1)
    section = raw["experiment"]
    for key in ("cases", "methods"):
        section[key] = dict(zip((FEATURES[0], FEATURES[2]), section[key].values(), strict=False))
    small.write(tmp_path, raw, "experiment.yaml")
    monkeypatch.setattr(comparison_report, "write_report", DRAWN[1])
    place = tmp_path / "out"
    assert main(["experiment", str(tmp_path / "experiment.yaml"), "--out", str(place)]) == 0
    said = "".join(capfd.readouterr())
    assert not set(said) & {"\x1b", "\x07"}
    assert "\\x1b[31mred" in said
    assert all(re.fullmatch(r"[\w-]+", path.name) for path in (place / "cells").iterdir())
    pages = list(place.glob("*.html"))
    assert pages
    for page in pages:
        check_page(page)


@pytest.mark.parametrize("name", [*FEATURES, "../x", ".x", ""])
def test_names_of_runs(name, tmp_path, capfd):
    file = write(tmp_path / "config.yaml", {**yaml.safe_load(CONFIG), "name": name})
    assert main(["check", str(file)]) == 2
    assert "\x1b" not in "".join(capfd.readouterr())
