import json
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from framework.analysis.alternatives import Compared
from framework.analysis.choose import choose
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.models.walk import StageWalk, Walk
from tests.tracking import made_up
from tests.tracking.pictures import is_a_picture
from tracking.figures import run_report, system_figures
from tracking.figures.run_data import read_run_data
from tracking.figures.run_figures import scatter_front
from tracking.figures.run_report import write_chosen, write_plots, write_run_page

PLOTS = {"progress.png", "test.png"}
FRONT = {"explore.html", "front.png"}


def with_objectives(run_dir: RunDir, n: int) -> RunDir:
    """Keep the first n objectives."""
    return made_up.describe(run_dir, objectives=run_dir.about()["objectives"][:n])


def test_amounts_of_several_orders_of_magnitude_are_drawn_by_ratios(tmp_path):
    data = read_run_data(made_up.finished(tmp_path / "out"))
    scales = {o.metric: data.scale(o) for o in data.roles.objectives}
    assert set(scales.values()) == {"linear"}
    cost = next(o for o in data.roles.objectives if data.roles.metrics[o.metric].kind == "ratio")
    values = data.front.rows.values[cost.metric]
    data.front.rows.values[cost.metric] = np.geomspace(0.1, 100.0, len(values))
    least = {name: [0.0, 0.5] for name in data.roles.names}
    one = Compared("the largest class", ("0", "1"), least, {}, {})
    assert data.scale(cost) == "log"
    assert data.points(one).tolist() == [[0.5], [0.5]]  # 0 has no place there


def test_a_colour_of_one_value_has_no_others_beside_it(tmp_path):
    data = read_run_data(made_up.finished(tmp_path / "out"))
    figure = Figure()
    data.front.rows.values[data.roles.drawn()[2].metric] = np.ones(len(data.front))
    scatter_front(data, figure, figure.subplots())
    assert figure.axes[1].get_yticks().tolist() == [1.0]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    found = made_up.finished(tmp_path_factory.mktemp("plots") / "out")
    write_plots(found)
    write_chosen(found)
    return found


def test_all_plots_are_pictures(run_dir):
    assert {path.name for path in run_dir.plots.iterdir()} == PLOTS | FRONT
    assert all(is_a_picture(path) for path in run_dir.plots.glob("*.png"))


def test_pages_need_no_network_and_upload_nothing(run_dir):
    for path in run_dir.plots.glob("*.html"):
        page = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
        assert "made_up (299 records, 12 features)" in page


def test_the_report_of_a_run_is_one_page(run_dir):
    (path,) = write_run_page(run_dir)
    page = path.read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(list(run_dir.plots.glob("*.png")))
    assert not re.search(r'(src|href)="(?!data:)', page)
    chosen = run_dir.front().ids[choose(run_dir.front())]
    assert f"Solution {chosen}, nearest to the ideal point." in page
    assert f"<td>{chosen} *</td>" in page
    run_dir.write_choice(int(run_dir.front().ids[-1]))
    assert "as chosen" in write_run_page(run_dir)[0].read_text(encoding="utf-8")
    run_dir.choice_file.unlink()


def test_ties_are_named_by_ids_as_they_are_written(run_dir):
    data = read_run_data(run_dir)
    tied = replace(data.front, expected={"tied_with": np.full(len(data.front), 12345)})
    assert "<td>12345</td>" in run_report._front(replace(data, front=tied))


def are_dominated(losses, by) -> np.ndarray:
    """Return which rows some row of ``by`` dominates, shape (n,)."""
    found = [(by <= row).all(axis=1) & (by < row).any(axis=1) for row in losses]
    return np.array([any_of.any() for any_of in found], dtype=bool)


def test_background_is_dominated_and_sampled(run_dir):
    data = read_run_data(run_dir)
    losses = data.roles.losses(data.background.dominated)
    assert 0 < len(losses) <= 2000
    assert are_dominated(losses, data.front.losses).all()
    assert np.isfinite(losses).all()
    assert not len(data.background.infeasible["cost"])


def with_constraint(run_dir: RunDir, **constraint) -> RunDir:
    """Let a constraint hold, for a front that keeps to it."""
    made_up.describe(run_dir, constraints=[constraint])
    names = run_dir.front().gene_names
    with run_dir.journal() as journal:
        Front.from_journal(journal, run_dir.roles(), names).save(run_dir.front_file)
    return run_dir


def test_what_breaks_a_constraint_is_not_called_dominated(tmp_path):
    run_dir = with_constraint(made_up.finished(tmp_path / "out"), metric="accuracy", at_least=0.8)
    data = read_run_data(run_dir)
    dominated, infeasible = (data.roles.losses(part) for part in data.background)
    assert len(dominated)
    assert are_dominated(dominated, data.front.losses).all()
    assert not are_dominated(infeasible, data.front.losses).all()
    assert (data.background.infeasible["accuracy"] < 0.8).all()
    assert (data.background.dominated["accuracy"] >= 0.8).all()
    with run_dir.journal() as journal:
        rows = sum(int(batch.ok.sum()) for batch in journal.evaluations())
    assert len(dominated) + len(infeasible) + len(data.front) == rows
    write_chosen(run_dir)
    assert is_a_picture(run_dir.plots / "front.png")


def test_what_it_costs_goes_to_the_right(run_dir):
    data = read_run_data(run_dir)
    assert [o.metric for o in data.roles.drawn()] == ["cost", "coverage", "accuracy"]
    assert data.label(data.roles.drawn()[0]) == "cost (cost units)  ↓ better"
    assert data.label(data.roles.drawn()[1]) == "coverage  ↑ better"


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("n", "batches", "names"), [(1, 5, PLOTS), (2, 5, PLOTS | FRONT), (2, 1, {"test.png"} | FRONT)]
)
def test_fewer_objectives_and_batches(tmp_path, n, batches, names):
    run_dir = with_objectives(made_up.start(tmp_path / "out"), n)
    made_up.search(run_dir, 0, batches)
    made_up.end(run_dir)
    written = [*write_plots(run_dir), *write_chosen(run_dir)]
    assert {path.name for path in written} == names


def test_trials_have_a_line_each(tmp_path):
    run_dir = made_up.finished(tmp_path / "out", repeats=2)
    for number in range(2):
        made_up.finished(run_dir.path / "repeats" / f"{number:03d}")
    data = read_run_data(run_dir)
    assert len(data.progress) == 2
    assert "2 repeats" in data.subtitle
    assert {path.name for path in write_plots(run_dir)} == PLOTS


def with_system(run_dir: RunDir, stages: int, features: int, classes: int = 2) -> RunDir:
    """Put a chosen system into a directory, as its model would."""
    run_dir.model.mkdir(exist_ok=True)
    answers = {f"class {c} & <more>": 20 // classes for c in range(classes)}
    names = [tuple(f"feature_{j}_{i}" for i in range(features)) for j in range(stages)]
    found = [
        StageWalk(own, 5.0, 5.0 * (j + 1), 299 - 20 * j, answers, 9, 0.91, 0.1, 1e-6)
        for j, own in enumerate(names)
    ]
    walk = Walk(299, 500, "none", tuple(found))
    solution = int(run_dir.front().ids[0])
    run_dir.write_choice(solution)
    plain = {"about": {"solution": solution}, "walk": walk.to_json()}
    (run_dir.model / "model.json").write_text(json.dumps(plain))
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stages", "features", "classes"), [pytest.param(1, 1, 2, marks=pytest.mark.slow), (10, 30, 9)]
)
def test_the_chosen_system_is_drawn(tmp_path, stages, features, classes):
    run_dir = with_system(made_up.finished(tmp_path / "out"), stages, features, classes)
    assert {path.name for path in write_chosen(run_dir)} == FRONT | {"system.png"}
    assert is_a_picture(run_dir.plots / "system.png")


def test_long_names_of_classes_stay_apart_in_the_table_of_answers():
    names = [
        "hyperparathyroidism",
        "hypoparathyroidism",
        "severe, at stage 1",
        "severe, at stage 2",
    ]
    stage = StageWalk(("a",), 1.0, 1.0, 4, dict.fromkeys([*names, "well"], 0), 0, 0.0, 0.0, 1.0)
    axes = Figure().subplots()
    answers = {"validation": ((1,) * 6,) * 5}
    system_figures._draw_confusion(axes, Walk(4, 4, "none", (stage,), answers))
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert (len(set(shown)), shown[-1]) == (5, "well")
    assert max(map(len, shown)) == 14


def test_a_run_without_a_chosen_system_has_no_picture_of_it(tmp_path):
    run_dir = made_up.finished(tmp_path / "out")
    assert {path.name for path in write_chosen(run_dir)} == FRONT
    with_system(run_dir, 2, 2)
    file = run_dir.model / "model.json"
    file.write_text(file.read_text().replace('"solution": ', '"solution": 999'))
    assert {path.name for path in write_chosen(run_dir)} == FRONT


def test_of_a_large_front_as_much_is_drawn_as_a_picture_shows(run_dir, monkeypatch):
    complete = read_run_data(run_dir)
    assert complete.reduced() is complete
    most = len(complete.front) // 2
    monkeypatch.setattr("tracking.figures.run_data._DRAWN", most)
    reduced = complete.reduced()
    assert 1 < len(reduced.front) <= most + 1
    assert set(reduced.front.ids.tolist()) <= set(complete.front.ids.tolist())
    assert reduced.front.ids[reduced.position] == complete.front.ids[complete.position]
    assert reduced.subtitle.endswith(f"evaluated, {len(reduced.front)} drawn")
    assert len(reduced.front.test["cost"]) == len(reduced.front)
    for name, values in complete.background.dominated.items():  # what is not drawn is not dominated
        np.testing.assert_array_equal(reduced.background.dominated[name], values)
