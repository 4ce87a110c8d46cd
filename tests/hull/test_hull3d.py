"""The exact hull: against Qhull in general position, against brute force where points are not."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from algorithms.hull.kernels import hull3d
from framework.errors import InputError
from tests.conftest import examples


def det(a, b, c, p):
    """Six times the signed volume of a tetrahedron, in Python's own whole numbers."""
    u, v, w = ([int(y) - int(x) for x, y in zip(a, other, strict=True)] for other in (b, c, p))
    return (
        w[0] * (u[1] * v[2] - u[2] * v[1])
        + w[1] * (u[2] * v[0] - u[0] * v[2])
        + w[2] * (u[0] * v[1] - u[1] * v[0])
    )


def brute_force(points):
    """Return the extreme points and six times the volume, from every plane through three points.

    A supporting plane's points are one face: its corners are found in the plane, and the cone of
    the face over the first point is added to the volume. None where the points lie in a plane.
    """
    points = sorted({tuple(map(int, p)) for p in points})
    if len(points) < 4 or not any(det(*four) for four in combinations(points, 4)):
        return None
    faces = {}
    for a, b, c in combinations(points, 3):
        heights = [det(a, b, c, p) for p in points]
        if any(h > 0 for h in heights) and any(h < 0 for h in heights):
            continue
        flat = frozenset(p for p, h in zip(points, heights, strict=True) if h == 0)
        if len(flat) == len(points):  # a, b and c are collinear
            continue
        faces[flat] = (a, b, c)
    extreme, volume = set(), 0
    for flat, (a, b, c) in faces.items():
        corners = face_corners(sorted(flat), a, b, c)
        extreme |= set(corners)
        base = corners[0]
        for one, two in pairwise(corners[1:]):
            volume += abs(det(base, one, two, points[0]))
    return extreme, volume


def face_corners(flat, a, b, c):
    """Return the corners of coplanar points in cyclic order (monotone chain along two axes)."""
    normal = [
        (b[i] - a[i]) * (c[j] - a[j]) - (b[j] - a[j]) * (c[i] - a[i])
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    dropped = max(range(3), key=lambda i: abs(normal[i]))
    i, j = (axis for axis in range(3) if axis != dropped)

    def turn(p, q, r):
        return (q[i] - p[i]) * (r[j] - p[j]) - (q[j] - p[j]) * (r[i] - p[i])

    chains = []
    ordered = sorted(flat, key=lambda p: (p[i], p[j]))
    for run in (ordered, ordered[::-1]):
        chain = []
        for p in run:
            while len(chain) > 1 and turn(chain[-2], chain[-1], p) <= 0:
                chain.pop()
            chain.append(p)
        chains += chain[:-1]
    return chains


class Changing(hull3d.Hull3D):
    """A hull to which points come and from which they go, by the kernels that searches call."""

    def __init__(self, points, room=0):  # equal points, which are no vertices, keep the room
        super().__init__(np.concatenate([points, np.repeat(points[:1], room, axis=0)]))
        self._n, self._gone = len(points), set()

    def insert(self, point):
        self._state.points[self._n] = point
        hull3d.insert(self._state, self._n)
        self._n += 1
        return self._n - 1

    def delete(self, number):
        """Remove a point, for which hidden ones become vertices."""
        self._gone.add(number)
        if self._state.facet_of[number] >= 0:
            hull3d.delete(self._state, number)
            for p in sorted(set(range(self._n)) - self._gone):
                hull3d.insert(self._state, p)


def assert_closed(hull):
    """Assert that the facets of a hull close, and that they are as many as Euler's formula says."""
    facets = hull._state.corners[hull._state.corners[:, 0] >= 0]
    edges = {(int(f[i]), int(f[(i + 1) % 3])) for f in facets for i in range(3)}
    assert len(edges) == 3 * len(facets)
    assert {(b, a) for a, b in edges} == edges
    assert len(facets) == 2 * len(hull.vertices) - 4


grids = st.integers(1, 4).flatmap(
    lambda side: st.lists(
        st.tuples(*[st.integers(0, side)] * 3), min_size=4, max_size=14, unique=False
    )
)


@examples(150)
@given(grids)
def test_small_grids_agree_with_brute_force(points):
    array = np.array(points)
    if brute_force(points) is None:
        with pytest.raises(InputError, match="span a volume"):
            hull3d.Hull3D(array)
        return
    hull = Changing(array)
    assert ({tuple(array[v].tolist()) for v in hull.vertices}, hull.volume6) == brute_force(points)
    assert_closed(hull)


@examples(100)
@given(grids, st.randoms(use_true_random=False))
def test_any_point_comes_and_goes(points, random):
    """No point stays for good, but for those without which the others would lie in a plane."""
    if brute_force(points) is None:
        return
    hull, there = Changing(np.array(points), room=40), dict(enumerate(points))
    for _ in range(40):
        gone = random.choice(sorted(there))
        rest = [point for number, point in there.items() if number != gone]
        if random.random() < 0.6 and brute_force(rest) is not None:
            inside = set(there) - set(hull.vertices.tolist())
            left = hull.volume6 - (0 if gone in inside else hull3d.contribution(hull._state, gone))
            hull.delete(gone)
            del there[gone]
            if not inside - {gone}:
                assert hull.volume6 == left
        else:
            point = random.choice(points)
            there[hull.insert(np.array(point))] = point
        expected = brute_force(list(there.values()))
        assert expected is not None
        found = hull.vertices.tolist()
        assert set(found) <= set(there)  # by number too: nothing that left is a vertex
        assert len(found) == len(expected[0])  # of equal points one
        assert ({there[number] for number in found}, hull.volume6) == expected
        assert_closed(hull)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_spheres_agree_with_qhull_at_full_scale(n):
    rng = np.random.default_rng(n)
    directions = rng.normal(size=(n, 3))
    sphere = directions / np.linalg.norm(directions, axis=1)[:, None]
    points = np.rint((sphere + 1) * 2.0**19).astype(np.int64)
    hull, qhull = hull3d.Hull3D(points), ConvexHull(points)
    assert set(hull.vertices) == set(qhull.vertices)
    assert hull.volume6 / 6 == pytest.approx(qhull.volume, rel=1e-12)
    for v in hull.vertices[:10]:
        rest = np.delete(points, v, axis=0)
        assert hull3d.contribution(hull._state, v) / 6 == pytest.approx(
            qhull.volume - ConvexHull(rest).volume, rel=1e-3, abs=1e3
        )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((4, 2), np.int64), r"shape \(n, 3\)"),
        (np.array([[-1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), "coordinates"),
        (np.full((4, 3), 1 << 21), "coordinates"),
        (np.zeros((0, 3), np.int64), "span a volume"),
        (np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [5, 5, 1]]), "span a volume"),
    ],
)
def test_what_is_no_hull_is_refused(points, message):
    with pytest.raises(InputError, match=message):
        hull3d.Hull3D(points)


@pytest.mark.parametrize("seed", range(30))
def test_made_at_once_is_as_made_point_by_point(seed):
    """On small grids, full of equal and coplanar points; of equal ones the first is a vertex."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, rng.integers(2, 6), size=(40, 3))
    corners = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
    grown = Changing(corners, room=40)
    for point in points:
        grown.insert(point)
    whole = Changing(np.concatenate([corners, points]))
    assert whole.volume6 == grown.volume6
    assert whole.vertices.tolist() == grown.vertices.tolist()
    assert_closed(whole)
