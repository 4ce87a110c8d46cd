from itertools import combinations

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from framework.analysis.hulls import facing_hull, hull_corners, recommend
from framework.batch import Evaluated
from framework.experiment.export import marked
from framework.front import Front
from framework.roles import Metric, Objective, Roles
from tests.tracking.made_up import describe, finished
from tests.tracking.pictures import is_a_picture
from tracking.figures.hull_figures import _det, rates_png, read_error_rates, read_hull
from tracking.figures.run_data import read_run_data
from tracking.figures.run_report import write_plots

R = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]


def facets_of(points: np.ndarray) -> set[frozenset[int]]:
    """Return the facets that see the ideal point: every plane through three points tried."""
    found = set()
    for corners in combinations(range(len(points)), points.shape[1]):
        a, *others = points[list(corners)]
        spanned = np.array(others) - a
        normal = (
            np.cross(*spanned) if len(spanned) == 2 else np.array([-spanned[0][1], spanned[0][0]])
        )
        heights = (points - a) @ normal
        if abs(normal).max() < 1e-9 or ((heights > 1e-9).any() and (heights < -1e-9).any()):
            continue
        side = 1 if (heights < -1e-9).any() else -1
        if side * ((-1e-6 - a) @ normal) > 1e-8:
            found.add(frozenset(corners))
    return found


@pytest.mark.parametrize("m", [2, 3])
@given(seed=st.integers(0, 2**20), n=st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_facets_are_those_that_every_point_lies_behind(m, seed, n):
    points = np.random.default_rng(seed).random((n, m))
    reference = np.array(R) if m == 3 else np.array([[0.0, 1.0], [1.0, 0.0]])
    points = np.concatenate([points, reference])
    corners = {tuple(sorted(f)) for f in map(frozenset, facing_hull(points).tolist())}
    wanted = facets_of(points)
    inner = {c for f in wanted for c in f}
    assert {c for f in corners for c in f} == inner  # of four coplanar points two halves are drawn


def test_points_in_a_plane_have_no_facets():
    assert facing_hull(np.array(R)).shape == (0, 3)
    assert facing_hull(np.array(R)[:2]).shape == (0, 3)


@pytest.fixture
def run_dir(tmp_path):
    anchors = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    return describe(finished(tmp_path / "out"), anchors=anchors)


def test_a_front_with_points_of_reference_is_drawn_with_its_hull(run_dir):
    names = {path.name for path in write_plots(run_dir)}
    assert "hull.png" in names
    assert is_a_picture(run_dir.plots / "hull.png")
    data = read_run_data(run_dir)
    hull = read_hull(run_dir, data)
    assert hull is not None
    assert 0 < len(hull.corners) < len(data.front)
    natural = hull.points[: hull.solutions]
    for j, name in enumerate(data.roles.names):
        np.testing.assert_allclose(natural[:, j], data.front.rows.values[name], atol=1e-12)


def test_no_points_of_reference_no_hull(run_dir):
    describe(run_dir, anchors=None)
    assert read_hull(run_dir, read_run_data(run_dir)) is None
    assert read_error_rates(read_run_data(run_dir)) is None  # it has one of the two rates


def with_error_rates(run_dir, *, mixes):
    """Return what is drawn of a run whose solutions have rates of both errors, made up."""
    data = read_run_data(run_dir)
    n = len(data.front)
    rng = np.random.default_rng(0)
    for name in ("false_positive_rate", "false_negative_rate"):
        data.front.rows.values[name] = rng.random(n) * 0.5
        data.roles.metrics[name] = Metric(name, "min", mixes=mixes)
    return data


def test_rates_of_errors_are_drawn_with_the_corners_of_their_hull(run_dir, tmp_path):
    data = with_error_rates(run_dir, mixes=True)
    x, y, corners = read_error_rates(data)
    chain = np.concatenate([[0], x[corners], [1]]), np.concatenate([[1], y[corners], [0]])
    assert (np.diff(chain[0]) >= 0).all()
    slopes = np.diff(chain[1]) / np.diff(chain[0])
    assert (np.diff(slopes) > 0).all()  # convex
    assert (np.interp(x, *chain) <= y + 1e-12).all()  # nothing is below it
    rates_png(data, (x, y, corners), tmp_path / "rates.png")
    assert is_a_picture(tmp_path / "rates.png")
    axes = Figure().subplots()
    _det(axes, chain, (x, y))
    line, points = axes.lines[0].get_xydata(), axes.collections[0].get_offsets()
    assert all((line == points[corner]).all(axis=1).any() for corner in corners)


def test_systems_that_may_not_answer_have_no_chords(run_dir, tmp_path):
    data = with_error_rates(run_dir, mixes=False)
    rates = read_error_rates(data)
    assert rates[2] is None
    rates_png(data, rates, tmp_path / "rates.png")
    pixels = matplotlib.image.imread(tmp_path / "rates.png")[..., :3].reshape(-1, 3)
    blue = np.array([0x00, 0x72, 0xB2]) / 255
    assert np.abs(pixels - blue).max(axis=1).min() > 0.02  # no line of the hull
    assert is_a_picture(tmp_path / "rates.png")


def test_the_recommended_design_is_a_corner(run_dir):
    """Also where the solution nearest to the ideal point is none: mixtures are better than it."""
    front, reference = run_dir.front(), run_dir.anchors()
    corners = hull_corners(front, reference)
    hull = read_hull(run_dir, read_run_data(run_dir))
    assert hull is not None
    assert corners.tolist() == hull.corners.tolist()
    assert marked(run_dir, front) in corners
    assert 0 < len(corners) < len(front)
    assert len(hull_corners(front, None)) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_corner_is_recommended_before_what_lies_nearer(seed):
    names = ("a", "b", "c")
    metrics = [Metric(name, "min") for name in names]
    roles = Roles(metrics, [Objective(name, "min") for name in names])
    values = dict(zip(names, np.random.default_rng(seed).random((3, 12)), strict=True))
    front = Front(Evaluated(np.arange(12), np.zeros((12, 1)), values), roles, ("x",))
    reference = np.array(R)
    corners = hull_corners(front, reference)
    assert recommend(front, reference) in corners or len(corners) == 0
    outside = [f"a>={values['a'].max()}"]
    assert recommend(front, reference, where=outside) == values["a"].argmax()
