"""The hull in two to six dimensions, against its definition in whole numbers and against Qhull."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, QhullError

from algorithms.hull.kernels.hull_nd import HullND, most_steps


def volume(points):
    """Return the volume by Qhull; 0 of what is flat."""
    try:
        return ConvexHull(points).volume
    except (QhullError, ValueError):
        return 0.0


def determinant(rows):
    """Return a determinant in whole numbers of any size."""
    if not rows:
        return 1
    return sum(
        (-1) ** j * x * determinant([[*row[:j], *row[j + 1 :]] for row in rows[1:]])
        for j, x in enumerate(rows[0])
        if x
    )


def check(hull, there):
    """Assert that facets are simplices with all points below, joined at their ridges, and few."""
    state, m = hull._state, hull.points.shape[1]
    facets = np.flatnonzero(state.corners[: state.counts[0], 0] >= 0)
    ridges = {}
    for f in facets:
        corners = [hull.points[v].tolist() for v in state.corners[f]]
        for p in there:
            rows = [[a - b for a, b in zip(q, corners[0], strict=True)] for q in corners[1:]]
            rows.append([a - b for a, b in zip(hull.points[p].tolist(), corners[0], strict=True)])
            normal = [int(n) for n in state.normals[f]]
            height = sum(n * x for n, x in zip(normal, rows[-1], strict=True))
            assert height <= 0
            assert abs(determinant(rows)) == -height
        assert any(state.normals[f])
        for i in range(m):
            ridges.setdefault(frozenset(np.delete(state.corners[f], i).tolist()), []).append((f, i))
    for (f, i), (g, j) in ridges.values():
        assert state.across[f, i] == g
        assert state.across[g, j] == f
    vertices = [p for p in there if hull.is_vertex(p)]
    assert sorted(set(state.corners[facets].ravel().tolist())) == sorted(vertices)
    return vertices


@st.composite
def changes(draw):
    """Return points of a coarse or a fine grid in a cube of some dimension, and which to delete."""
    m = draw(st.sampled_from([2, 3, 3, 4, 4, 5]))
    most = draw(st.sampled_from([1, 2, 3, most_steps(m)]))
    n = draw(st.integers(m + 2, 14 if m < 5 else 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(0, most + 1, (n, m)), rng.random(n) < 0.5


@given(changes())
def test_points_join_and_leave(case):
    points, goes = case
    n, m = points.shape
    hull = HullND(n, m)
    hull.points[:] = points
    first = next((k for k in range(n + 1) if volume(points[:k]) > 0), n)
    assert hull.is_flat
    assert hull.build(np.arange(first)) == (volume(points[:first]) > 0)
    if hull.is_flat:
        return
    there = list(range(first))
    for p in range(first, n):
        outside = volume(points[: p + 1]) > volume(points[:p]) * (1 + 1e-12)
        before = {q for q in there if hull.is_vertex(q)}
        hidden = hull.insert(p)
        assert (hidden is not None) == outside
        there.append(p)
        if hidden is not None:
            assert before - {q for q in there if hull.is_vertex(q)} == set(hidden.tolist())
    vertices = check(hull, there)
    whole = volume(points)
    assert hull.volume == pytest.approx(whole, rel=1e-9)
    for v, loss in zip(vertices, hull.losses(np.array(vertices)), strict=True):
        others = volume(points[[q for q in vertices if q != v]])
        assert loss == pytest.approx(whole - others, rel=1e-6, abs=1e-9 * whole)
        assert loss > 0.5 / math.factorial(m)  # a volume of whole points is a multiple of 1 / m!
    for v in vertices:
        others = [q for q in vertices if q != v]
        if goes[v] and volume(points[others]) > 0:
            hull.delete(v)
            vertices = check(hull, others)
            assert vertices == others
            assert hull.volume == pytest.approx(volume(points[others]), rel=1e-9)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_corners_of_the_greatest_cube_are_told_apart_from_a_step_inside(m):
    most = most_steps(m)
    cube = np.array([[x >> j & 1 for j in range(m)] for x in range(1 << m)]) * most
    hull = HullND(len(cube) + 3, m)
    hull.points[: len(cube)] = cube
    assert hull.build(np.arange(len(cube)))
    assert hull.volume == pytest.approx(float(most) ** m)
    middle = np.full(m, most // 2)
    middle[0] = 1
    hull.points[len(cube)] = middle  # a step inside a facet of the cube
    assert hull.insert(len(cube)) is None
    hull.points[len(cube) + 1] = middle - np.eye(m, dtype=int)[0]  # in that facet
    assert hull.insert(len(cube) + 1) is None
    for v in range(len(cube)):
        assert len(hull.neighbours(v)) >= m
    if m < 5:
        check(hull, range(len(cube) + 2))


@pytest.mark.parametrize("m", [3, 4, 5])
def test_what_is_in_a_hyperplane_but_for_a_step_has_a_volume(m):
    most = most_steps(m)
    points = np.eye(m, dtype=np.int64) * most
    points[1:, 0] = 1
    hull = HullND(m + 1, m)
    hull.points[:m], hull.points[m] = points, points.sum(axis=0) // m
    rows = [[int(x - y) for x, y in zip(p, points[0], strict=True)] for p in hull.points[1:]]
    wide = abs(determinant(rows))
    assert hull.build(np.arange(m + 1)) == (wide > 0)
    assert hull.volume * math.factorial(m) == pytest.approx(wide)
