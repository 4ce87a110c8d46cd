import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from framework.analysis.alternatives import Compared, Gain
from framework.analysis.compare import Page, Ranking, compare_case, compare_cases
from framework.experiment.comparison import compare
from tests.command import run_program
from tests.tracking import made_up
from tests.tracking.pictures import is_a_picture
from tracking.figures.comparison_report import write_report
from tracking.figures.html_page import spread

NAMES = {
    "report.html",
    *(f"{name}.png" for name in ("ranks", "runs", "fronts", "found", "attainment")),
    *(f"anytime_{by}.png" for by in ("evaluations", "seconds")),
}


def beside(name, won, cost=120.0):
    """Return what a summary keeps of an alternative that the search beats, or does not."""
    low = 0.1 if won else -0.1
    values = {"coverage": [0.5], "accuracy": [0.5], "cost": [cost]}
    gains = {"accuracy": Gain(1, 0.2, 0.15, low, 0.3, 0.5)}
    return Compared(name, ("p",), values, {}, gains).to_json()


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Three searches that search alike, over three seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    places = []
    for kind in ("emsco", "<b>random</b>", "other"):
        for seed in range(3):
            place = made_up.start(folder / f"{len(places)}", seed=seed, algorithm={"kind": kind})
            made_up.search(place, seed, 4 + len(kind))
            made_up.end(place)
            summary = place.summary() | {"seed": seed, "status": "done"}
            if (kind, seed) != ("other", 2):  # of an older version
                summary["alternatives"] = [
                    beside("a <i>threshold</i>", kind != "emsco" or not seed)
                ]
                summary["alternatives"] += [beside("nothing", won=True, cost=0.0)]
            place.write_summary(summary)
            places.append(place.path)
    return compare(places)


@pytest.fixture(scope="module")
def out(comparison, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    assert {path.name for path in write_report(comparison, folder)} == NAMES
    return folder


def test_the_figures_are_pictures(out):
    assert all(is_a_picture(path) for path in out.glob("plots/*.png"))


def test_the_page_stands_alone_and_says_it_all(out, comparison):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("data:image/png;base64,") == len(NAMES) - 1
    assert "<b>random</b>" not in page
    assert "&lt;b&gt;random&lt;/b&gt; and other" in page
    assert f"{len(comparison.cases[0].reference)} distinct vectors" in page
    best = comparison.summary().sort_values("hypervolume_mean").iloc[-1]
    assert spread(best["hypervolume_mean"], best["hypervolume_std"]) in page
    assert not re.search(r"±[^<]*e[+-]", page)  # numbers and spreads are written alike
    first = page[page.index("</h1>") :]
    worth = (
        "<p>In 6 of 8 runs the search beats what one would do without it; in 2 it does not (emsco "
        "in 2 of 3, a &lt;i&gt;threshold&lt;/i&gt;); of 1 of 9 runs it is not known.</p>"
    )
    assert first.index("<h2>") < first.index(worth) < first.index("<h2>Result</h2>")
    assert first.index("Best mean hypervolume: ") < first.index("<h2>Methods</h2>")
    result = page[page.index("<h2>Result</h2>") : page.index("<h2>Methods</h2>")]
    assert result.count("<tr>") == 1 + len(comparison.methods)  # fewer cases: they are the columns
    assert "&lt;b&gt;random&lt;/b&gt; on 1 of 1" in page or " on 1 of 1 (" in page


def test_a_click_on_a_heading_sorts(out, tmp_path):
    """In a browser, if one is here: by number, down at the second click."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    script = """<pre id="out"></pre><script>
    const first = (t) => t.rows.length > 3 && t.rows[0].cells[0].textContent[0] === "m";
    const table = Array.from(document.querySelectorAll("table")).find(first);
    const column = Array.from(table.rows[0].cells).findIndex((c) => c.textContent[0] === "h");
    const told = [];
    for (let turn = 0; turn < 2; turn++) {
      table.rows[0].cells[column].querySelector("button").click();
      const rows = Array.from(table.rows).slice(1);
      told.push(rows.map((row) => parseFloat(row.cells[column].textContent)));
    }
    document.getElementById("out").textContent = JSON.stringify(told);
    </script></body>"""
    page = (out / "report.html").read_text(encoding="utf-8").replace("</body>", script)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = run_program([browser, *options, (tmp_path / "page.html").as_uri()], timeout=60)
    up, down = json.loads(re.search(r'id="out">([^<]*)', done.stdout)[1])
    assert up == sorted(up)
    assert down == sorted(up, reverse=True)


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (590.8, 130.2, "590.8 ± 130.2"),
        (0.81234, 0.0123, "0.8123 ± 0.0123"),
        (0.81234, 0.000012, "0.812340 ± 0.000012"),
        (12_345.6, 0.4, "12,345.60 ± 0.40"),
        (12_345.6, 130, "12,346 ± 130"),
        (0.5, 0.0, "0.5"),
        (0.5, float("nan"), "0.5"),
        (1e-12, 1e-13, "1e-12 ± 1e-13"),
    ],
)
def test_a_number_and_its_spread_are_written_alike(value, half, text):
    assert spread(value, half) == text


def test_a_single_objective_has_no_fronts(comparison, tmp_path):
    from framework.roles import Roles

    case = comparison.cases[0]
    single = Roles(list(case.roles.metrics.values()), case.roles.objectives[:1])
    runs = tuple(
        replace(run, losses=run.losses[:, :1], path=tmp_path / "gone") for run in case.runs
    )
    alone = compare_case(case.name, runs, single)
    page = Page("ranks", "of one data set", (), {}, {}, {"unranked": Ranking(["a"], {}, "sets")})
    compared = replace(compare_cases("one objective", [alone]), pages=[page])
    paths = write_report(compared, tmp_path)
    names = {path.name for path in paths}
    assert {"report.html", "runs.png"} <= names
    assert not names & {"fronts.png", "found.png", "attainment.png", "unranked.png"}


@pytest.mark.slow
def test_one_attained_point_is_no_surface(comparison, tmp_path):
    """As where the least cost has the best of the other objective that is drawn."""
    case = comparison.cases[0]
    best = case.reference.min(axis=0)
    runs = tuple(replace(run, losses=np.vstack([run.losses, best])) for run in case.runs)
    alone = compare_case(case.name, runs, case.roles)
    names = {path.name for path in write_report(compare_cases("corner", [alone]), tmp_path)}
    assert names == NAMES - {"attainment.png"}
