"""What to expect of a front's solutions, against resamples that are gone through one by one."""

from dataclasses import replace

import numpy as np
import pytest

from framework.analysis import expectations
from framework.analysis.expectations import expect_front, standing_of
from framework.analysis.ranges import Spread, gain_share, promised
from framework.analysis.resample_fronts import ResampleFronts
from framework.analysis.resamples import Resamples
from framework.front import Front, expected_columns
from framework.roles import Constraint, Metric, Roles
from tests.analysis.test_expectations import METRICS, ROLES, MadeUp, front_of
from tests.oracles import optimism

LIMITED = Roles(METRICS, ROLES.objectives, [Constraint("coverage", at_least=0.7)])


def known(outcomes, front, resamples):
    claimed = front_of(outcomes, whole=True).rows.values
    return expect_front(resamples, front.roles, claimed, front.ids, front.ids)


def slowly(outcomes, front, resamples, drawn_from=None):
    """Return the gains of each spot's picks by metric, and where its solution is on the front."""
    span = np.ptp(front.losses, axis=0)
    gains = {name: np.full((len(front), resamples.count), np.nan) for name in outcomes.names}
    firm = np.zeros((len(front), resamples.count), dtype=bool)
    for b in range(resamples.count):
        before = None if drawn_from is None else drawn_from.weights[:, b]
        whole = front_of(outcomes, before, roles=front.roles, whole=True)
        drawn = front_of(outcomes, resamples.weights[:, b], roles=front.roles, whole=True)
        feasible = np.flatnonzero(front.roles.violation(drawn.rows.values) == 0)
        for i, id in enumerate(front.ids):
            scaled = (drawn.losses[feasible] - front.losses[i]) / span
            score = scaled.max(axis=1) + 1e-3 * scaled.sum(axis=1)
            if not len(feasible):
                continue
            pick = feasible[np.argmin(score)]
            for name, gained in gains.items():
                gained[i, b] = drawn.rows.values[name][pick] - whole.rows.values[name][pick]
            others, own = drawn.losses[feasible], drawn.losses[id]
            beaten = ((others <= own).all(axis=1) & (others < own).any(axis=1)).any()
            firm[i, b] = id in feasible and not beaten
    return gains, firm


@pytest.mark.parametrize(("roles", "refitted"), [(ROLES, False), (LIMITED, True)])
def test_each_spot_picks_again_in_each_resample(roles, refitted):
    outcomes = MadeUp(seed=3)
    outcomes.refitted = refitted
    front, resamples = front_of(outcomes, roles=roles), Resamples(outcomes, 5, 40)
    found = known(outcomes, front, resamples)
    gains, firm = slowly(outcomes, front, resamples)
    again, _ = slowly(outcomes, front, resamples.again(), resamples)
    assert found.whole
    assert (found.designs, found.resamples) == (60, 40)
    assert np.allclose(found.columns["firm"], firm.mean(axis=1))
    own = outcomes.metrics(resamples.weights, front.ids)
    for metric in METRICS:
        names = expected_columns([metric.name])[metric.name]
        for i in range(len(front)):
            ends = (metric.low, metric.high) if metric.kind == "bounded" else None
            variance = float(own[metric.name][i].var())
            about = resamples.units
            if metric.name == "accuracy":
                about = outcomes.answered[front.ids[i]].sum()
            spread = Spread(variance, about, ends, gain_share(refitted))
            claimed = float(front.rows.values[metric.name][i])
            gained = gains[metric.name][i], again[metric.name][i]
            wanted = promised(claimed, gained[0], metric, spread, gained[1])
            moved = min(max(claimed - optimism(*gained), metric.low), metric.high)
            assert wanted.expected == pytest.approx(moved)
            figures = [found.columns[name][i] for name in names]
            assert figures == pytest.approx(wanted[1:], abs=1e-12)
    claimed = front.rows.values["accuracy"]
    assert (claimed - found.columns["expected_accuracy"]).mean() > 0


def test_ties_begin_with_the_firmest_and_hold_what_is_not_told_apart():
    outcomes = MadeUp(120, 80, seed=6)
    front, resamples = front_of(outcomes), Resamples(outcomes, 1)
    columns = known(outcomes, front, resamples).columns
    leaders = dict(zip(front.ids.tolist(), columns["tied_with"].tolist(), strict=True))
    firm = dict(zip(front.ids.tolist(), columns["firm"].tolist(), strict=True))
    drawn = outcomes.metrics(resamples.weights)

    def alike(a, b):
        for name in ROLES.names:
            values = front.rows.values[name]
            gap = abs(values[front.ids == a] - values[front.ids == b])[0]
            if gap > 1.96 * (drawn[name][a] - drawn[name][b]).std():
                return False
        return True

    left = sorted(leaders, key=lambda id: (-firm[id], id))
    assert 1 < len(set(leaders.values())) < len(front)
    while left:
        first = left[0]
        tied = [id for id in left if id == first or alike(id, first)]
        assert all(leaders[id] == first for id in tied)
        left = [id for id in left if id not in tied]


def test_the_same_figures_whatever_part_is_looked_at_at_a_time(monkeypatch):
    outcomes = MadeUp(300, 60, seed=2)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 64)
    want = known(outcomes, front, resamples).columns
    monkeypatch.setattr("framework.analysis.resamples._VALUES", 640)
    found = known(outcomes, front, resamples).columns
    assert all(np.array_equal(column, found[name]) for name, column in want.items())


def test_a_resample_has_the_same_front_in_whatever_order_candidates_come():
    """Of candidates that are equal in all metrics it is the one with the lowest number."""
    outcomes = MadeUp(90, 40, seed=4)
    for table in (outcomes.answered, outcomes.right, outcomes.paid):
        table[60:] = table[:30]
    resamples, pool = Resamples(outcomes, 0, 30), np.arange(90)
    shuffled = np.random.default_rng(0).permutation(pool)
    one, other = (ResampleFronts.of(resamples, ROLES, order) for order in (pool, shuffled))
    assert one.sizes.tolist() == other.sizes.tolist()
    for b, size in enumerate(one.sizes):
        members = sorted(one.candidates[b, :size])
        assert members == sorted(other.candidates[b, :size])
        assert members[-1] < 60


def test_where_candidates_are_too_many_the_least_deep_are_kept_and_it_is_said(monkeypatch):
    outcomes = MadeUp(400, 60, seed=2)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 100)
    every = known(outcomes, front, resamples)
    for most in (100, 60):  # cut after the first resamples, and before them
        monkeypatch.setattr(expectations, "_WORK", most * 60 * 100)
        part = known(outcomes, front, resamples)
        assert not part.whole
        assert len(front) <= part.resampled <= most < every.resampled
        claimed, name = front.rows.values["accuracy"], "expected_accuracy"
        assert (claimed - part.columns[name]).mean() > 0


def test_a_very_large_front_has_fewer_resamples(monkeypatch):
    outcomes = MadeUp(100, 40, seed=1)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 200)
    monkeypatch.setattr(expectations, "_PAIRS", 60 * len(front) ** 2)
    assert known(outcomes, front, resamples).resamples == 60


def test_metrics_of_these_names_keep_their_columns():
    outcomes = MadeUp(30, 40)
    named = [*METRICS, Metric("firm", "max")]
    roles = Roles(named, ROLES.objectives)
    front = front_of(outcomes)
    columns = known(outcomes, Front(front.rows, roles, ("x",)), Resamples(outcomes, 0, 20)).columns
    assert "tied_with" not in columns
    assert "firm" not in columns
    assert "accuracy_low" in columns


@pytest.mark.parametrize(("size", "apart"), [(1, False), (2, True)])
def test_a_solution_alone_is_told_apart_from_nothing(size, apart):
    front = replace(
        front_of(MadeUp(30, 40)).take(np.arange(size)), expected={"tied_with": np.arange(size)}
    )
    assert ("apart" in standing_of(front, 0, {})) == apart
