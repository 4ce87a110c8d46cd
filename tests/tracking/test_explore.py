import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from framework.analysis.choose import ExpectedCost, choose
from framework.arrays import FloatArray
from framework.experiment.resamples import STEPS
from framework.experiment.run_dir import RunDir
from tests.tracking import made_up
from tracking.figures.explore import explore_html
from tracking.figures.run_data import read_run_data

FORGED = '</script><script>document.title="forged"</script><img src=x onerror="alert(1)">'


def drawn(run_dir: RunDir) -> tuple[str, dict]:
    """Return the page and what its script reads."""
    path = run_dir.path / "explore.html"
    explore_html(run_dir, read_run_data(run_dir), path)
    page = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="front-data">(.*?)</script>', page, re.S)
    assert found is not None
    return page, json.loads(found[1])


def column(text: str) -> FloatArray:
    return np.frombuffer(base64.b64decode(text), "<f8")


def test_the_page_has_the_whole_front_to_the_bit(tmp_path):
    run_dir = made_up.finished(tmp_path / "out")
    front, (_, content) = run_dir.front(), drawn(run_dir)
    assert content["n"] == len(front)
    np.testing.assert_array_equal(column(content["ids"]), front.ids)
    for metric in content["metrics"]:
        np.testing.assert_array_equal(column(metric["values"]), front.rows.values[metric["name"]])
        np.testing.assert_array_equal(column(metric["test"]), front.test[metric["name"]])
    genes = np.frombuffer(base64.b64decode(content["genes"]["data"]), "i1")
    np.testing.assert_array_equal(genes.reshape(len(front), -1), front.X)
    assert content["draws"] is None  # this run kept none


def test_only_our_script_runs_and_nothing_of_a_run_is_markup(tmp_path):
    run_dir = made_up.finished(tmp_path / "out")
    about = run_dir.about()
    for metric in about["metrics"]:
        metric["text"] = metric["unit"] = FORGED
    about["gene_names"] = [FORGED + str(i) for i in range(made_up.GENES)]
    about["data"]["name"] = FORGED
    run_dir.about_file.write_text(json.dumps(about))
    front = run_dir.front_file.read_text()
    for i in range(made_up.GENES):
        front = front.replace(f"gene_x{i},", f'"gene_{FORGED.replace(chr(34), chr(34) * 2)}{i}",')
    run_dir.front_file.write_text(front)
    page, content = drawn(run_dir)
    assert content["metrics"][0]["unit"] == FORGED  # it is there, as text
    assert "<img" not in page
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.S)
    assert [attributes for attributes, _ in scripts] == [
        ' type="application/json" id="front-data"',
        "",
    ]
    digest = base64.b64encode(hashlib.sha256(scripts[1][1].encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;;" in page
    assert "innerHTML" not in scripts[1][1]


def with_resamples(run_dir: RunDir, count: int) -> FloatArray:
    """Keep made-up resamples of every metric beside the front; return them as they are read."""
    front = run_dir.front()
    rng = np.random.default_rng(1)
    values = np.array(
        [
            column + 0.05 * np.ptp(column) * rng.standard_normal((count, len(front)))
            for column in front.rows.values.values()
        ]
    ).transpose(0, 2, 1)
    low, high = values.min(axis=(1, 2)), values.max(axis=(1, 2))
    span = (high - low)[:, None, None]
    steps = np.rint((values - low[:, None, None]) / span * STEPS).astype(np.uint16)
    metrics = np.arange(len(values))
    np.savez(
        run_dir.resamples_file, ids=front.ids, metrics=metrics, low=low, high=high, steps=steps
    )
    return low[:, None, None] + steps * span / STEPS


def test_damaged_resamples_are_none(tmp_path):
    run_dir = made_up.finished(tmp_path / "out")
    with_resamples(run_dir, 7)
    assert drawn(run_dir)[1]["draws"]["count"] == 7
    whole = run_dir.resamples_file.read_bytes()
    kept = dict(np.load(run_dir.resamples_file))
    for change in (
        {"ids": kept["ids"] + 1},
        {"steps": kept["steps"].astype(np.float64)},
        {"steps": kept["steps"][:, :-1]},
        {"metrics": kept["metrics"] - 1},
        {"metrics": kept["metrics"] * 0},
        {"low": kept["low"] * np.nan},
    ):
        np.savez(run_dir.resamples_file, **{**kept, **change})
        assert drawn(run_dir)[1]["draws"] is None, change
    run_dir.resamples_file.write_bytes(whole[: len(whole) // 2])
    assert drawn(run_dir)[1]["draws"] is None


@contextmanager
def browsed(run_dir: RunDir, width: int) -> Iterator[Any]:
    """Open the page in Chromium, which may ask nobody for anything; needs playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": width, "height": 800})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto((run_dir.path / "explore.html").as_uri())
        page.wait_for_timeout(300)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not [text for text in said if not text.startswith(("file:", "blob:"))]
        assert page.title() != "forged"
        opened.close()


def chosen(page: Any) -> int:
    page.wait_for_timeout(150)
    return int(page.inner_text("#chosen p").split()[1].strip(",."))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_chooses_what_the_command_chooses(tmp_path, width):
    """Limits, sureness and rules of the page against ``choose``."""
    run_dir = made_up.finished(tmp_path / "out")
    about = run_dir.about()
    about["data"]["name"] = about["metrics"][0]["unit"] = FORGED
    about["metrics"].append({**about["metrics"][3], "name": "false_positive_rate"})
    run_dir.about_file.write_text(json.dumps(about))
    lines = run_dir.front_file.read_text().splitlines()
    rate = ["false_positive_rate,test_false_positive_rate,expected_cost,cost_low,cost_high"]
    rate += [f"0.{k % 7},0.{k % 5},3,3,3" for k in range(len(lines) - 1)]
    run_dir.front_file.write_text(
        "\n".join(f"{a},{b}" for a, b in zip(lines, rate, strict=True)) + "\n"
    )
    front, values = run_dir.front(), with_resamples(run_dir, 50)
    run_dir.journal_file.unlink()  # it knows nothing of the metric that was added
    drawn(run_dir)
    names = list(front.roles.metrics)
    coverage, cost = front.rows.values["coverage"], front.rows.values["cost"]
    with browsed(run_dir, width) as page:
        assert chosen(page) == front.ids[choose(front)]
        assert "3 to 3" not in page.inner_text("#chosen")
        least = float(f"{np.quantile(coverage, 0.3):.4g}")
        most = float(f"{np.quantile(cost, 0.8):.4g}")
        limits = [f"coverage>={least}", f"cost<={most}"]
        for name, value in (("coverage at least", least), ("cost at most", most)):
            page.get_by_label(name, exact=True).fill(str(value))
            page.keyboard.press("Tab")
        assert chosen(page) == front.ids[choose(front, where=limits)]
        page.select_option("#rule", label="best accuracy")
        assert chosen(page) == front.ids[choose(front, where=limits, best="accuracy")]
        held = (values[names.index("coverage")] >= least) & (values[names.index("cost")] <= most)
        share = held.mean(axis=1)
        met = (coverage >= least) & (cost <= most)
        page.evaluate(
            "() => { const s = document.getElementById('sure'); s.value = 70;"
            "s.dispatchEvent(new Event('input')); }"
        )
        kept = np.flatnonzero(met & (share >= 0.7))
        assert 0 < len(kept) < met.sum()
        assert chosen(page) == front.ids[kept][choose(front.take(kept), best="accuracy")]
        assert page.inner_text("#count").startswith(f"{len(kept)} of {len(front)} ")
        assert 'sure=70, best="accuracy")' in page.inner_text("#commands")
        page.click("#reset")
        page.select_option("#rule", label="least expected cost of errors")
        for id, number in (("cost-fp", 1), ("cost-fn", 3), ("prior", 0.2)):
            page.fill(f"#{id}", str(number))
        assert chosen(page) == front.ids[choose(front, expected=ExpectedCost(1, 3, 0.2))]
        line = '.choose(costs={"fp": 1, "fn": 3}, prior=0.2)'
        assert line in page.inner_text("#commands")
        box = page.locator("#scatter").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
