"""3DFCH-EMOA and 3DCH-EMOA: decision by decision against their twins, and what they promise."""

import numpy as np
import pytest

from algorithms.hull.kernels import populations
from algorithms.hull.reference import TWO_CLASSES, ExactReference
from algorithms.hull.searches import CHEMOA, FCHEMOA
from framework.errors import InputError
from framework.problems.functions import FunctionProblem
from framework.roles import Metric
from tests.conftest import roles_of
from tests.hull.cloud import Cloud, Twin, searched
from tests.landscape import generations
from tests.toys import StagesToy


@pytest.mark.quick(8)
@pytest.mark.parametrize("mode", ["oldest", "birth"])
@pytest.mark.parametrize("anchors", [None, TWO_CLASSES])
@pytest.mark.parametrize("steps", [3, 8, 1 << 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_decision_is_the_twins(mode, anchors, steps, seed):
    """Coarse grids are full of equal and coplanar points; displaced rows come in any order."""
    problem = Cloud(steps, anchors)
    algorithm = FCHEMOA(problem, roles_of(problem), seed=seed, population=8, non_frontal=mode)
    twin = Twin(algorithm.reference.fixed.tolist(), 8, mode)
    for batch in generations(algorithm, problem, 150):
        points, usable = algorithm.reference.normalised(algorithm.roles.losses(batch.values))
        assert usable.all()
        for id, point in zip(batch.ids.tolist(), points.tolist(), strict=True):
            twin.add(id, tuple(point))
        outcome = algorithm.outcome()
        assert outcome.returned.tolist() == sorted(id for id, _ in twin.frontal)
        assert outcome.findings["vas"] == algorithm.reference.share(twin.volume6())
        of = populations.population(algorithm._arrays)
        assert of.ids[of.queue[: of.counts[1]]].tolist() == [id for id, _ in twin.queue]


@pytest.mark.parametrize("steps", [3, 8, 1 << 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_levels_of_3dch_emoa(steps, seed):
    """The row that goes is the last level's least contributor, levels found one by one."""
    problem = Cloud(steps)
    algorithm = CHEMOA(problem, roles_of(problem), seed=seed, population=9)
    members, twin = {}, Twin(algorithm.reference.fixed.tolist(), 9)
    for batch in generations(algorithm, problem, 120):
        points, _ = algorithm.reference.normalised(algorithm.roles.losses(batch.values))
        for id, point in zip(batch.ids.tolist(), points.tolist(), strict=True):
            members[id] = tuple(point)
            if len(members) > 9:
                del members[worst(twin, sorted(members.items()))]
        assert sorted(algorithm._ids[: algorithm._n].tolist()) == sorted(members)
        corners = twin.corners(sorted(members.items()))
        assert {members[id] for id in algorithm.outcome().returned.tolist()} == {
            point for _, point in corners
        }


def worst(twin, members):
    """Return the id that 3DCH-EMOA deletes."""
    points = [point for _, point in members]
    copies = [id for k, (id, point) in enumerate(members) if point in points[:k]]
    if copies:
        return min(copies)
    left = members
    while True:
        level = twin.corners(left)
        rest = [member for member in left if member not in level]
        if not level:
            return min(left)[0]
        if not rest:
            break
        left = rest
    whole = twin.hull(level).volume6

    def lost(member):
        others = [other for other in level if other != member]
        return whole - twin.hull(others).volume6, member[0]

    return min(level, key=lost)[0]


def test_the_tables_of_the_paper():
    """VAS of ZED1 prints as in Table 1 after a tenth of the evaluations, to 1%; the limits hold."""
    algorithm = searched(FCHEMOA, FunctionProblem("zed1"), 3000, population=100)
    assert algorithm.vas == pytest.approx(0.353, rel=0.01)
    assert algorithm.vas < np.pi / 6 - 1 / 6
    algorithm = searched(FCHEMOA, FunctionProblem("zejd1"), 3000, population=100)
    assert algorithm.vas == pytest.approx(0.465, rel=0.01)
    assert algorithm.vas < 0.4650688583


@pytest.mark.parametrize("cls", [FCHEMOA, CHEMOA])
def test_what_cannot_be_searched_is_said(cls):
    zdt = FunctionProblem("zdt1", 3)
    with pytest.raises(InputError, match="needs three"):
        cls(zdt, roles_of(zdt), seed=0)
    zed = FunctionProblem("zejd1")
    with pytest.raises(InputError, match=r"at least as many as R has points \(4\), found 3"):
        cls(zed, roles_of(zed), seed=0, population=3)
    toy = StagesToy()
    toy.metrics = tuple(Metric(name, "min") for name in "abcd")
    with pytest.raises(InputError, match=r"needs three .* found 4; ndfch_emoa takes two to six"):
        cls(toy, roles_of(toy), seed=0)
    toy.metrics = (*toy.metrics[:2], Metric("cost", "min", "ratio", high=np.inf))
    with pytest.raises(InputError, match="set worst"):
        cls(toy, roles_of(toy), seed=0)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(1, 1, 0), (1, 0, 1), (1, 0.5, 0.5)], "lie on one line"),
        ([(1, 1, 0), (1, 0, 1), (1, 0.5, 0.6)], "cuts the cube in"),
        ([(0, 1, 0), (1, 0, 0), (0, 0, 0), (1, 1, 0)], "the ideal point lies in their plane"),
        ([(1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)], "no part of the cube lies beyond"),
        ([(0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)], "the ideal point lies in their hull"),
        ([(2, 1, 0), (1, 0, 1), (0, 1, 1)], "from 0 .best. to 1 .worst."),
        ([(1, 1), (1, 0), (0, 1)], "3 numbers"),
    ],
)
def test_what_is_no_reference_is_said(points, message):
    with pytest.raises(InputError, match=message):
        ExactReference(points)


def test_a_reference_with_volume_needs_no_plane():
    """All corners of the cube but the ideal one: each point's own gain is its cone."""
    cube = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)][1:]
    algorithm = searched(FCHEMOA, FunctionProblem("zed1"), 200, population=20, reference=cube)
    assert algorithm.vas >= 5 / 6 - 1e-9


def test_counts_are_used_as_steps_where_they_fit():
    assert ExactReference(TWO_CLASSES, (30, 70, 162)).steps.tolist() == [30, 70, 162]
    assert ExactReference(TWO_CLASSES, (0, 70, 1 << 40)).steps.tolist() == [1 << 20] * 3
    halves = [(1, 0.5, 0), (1, 0, 0.5), (0.5, 1, 0), (0, 1, 0.5), (0.5, 0, 1), (0, 0.5, 1)]
    assert ExactReference(halves, (4, 6, 8)).steps.tolist() == [4, 6, 8]
    assert ExactReference(halves, (4, 7, 8)).steps.tolist() == [1 << 20] * 3


def test_the_volume_on_the_way_is_a_table():
    problem = FunctionProblem("zed1")
    algorithm = FCHEMOA(problem, roles_of(problem), seed=3, population=12, batch=5)
    assert len(algorithm.outcome().tables["hull"]["vas"]) == 0
    seen = {}
    for batch in generations(algorithm, problem, rows=100):
        seen[int(batch.ids[-1]) + 1] = algorithm.vas
    table = algorithm.outcome().tables["hull"]
    assert table["evaluations"].tolist() == [12, 27, 37, 52, 62, 72, 87, 97]
    assert table["vas"].tolist() == [seen[n] for n in table["evaluations"].tolist()]
