"""A front beside what one would do without a search, against resamples looked at one by one."""

import json

import numpy as np
import pytest

from framework.analysis.alternatives import (
    Compared,
    Gain,
    Worth,
    compare_alternatives,
    verdict,
    verdict_of_runs,
    worth_of,
)
from framework.analysis.resamples import Resamples
from framework.capabilities import Alternative
from framework.roles import Objective, Roles
from tests.analysis.test_expectations import METRICS, ROLES, MadeUp, front_of

NAMES, SIGNS = ROLES.names, {"coverage": -1, "accuracy": -1, "cost": 1}


def losses_of(outcomes, weights):
    """Return the losses of all candidates under some weights, (n, objectives)."""
    values = outcomes.metrics(weights[:, None])
    return np.column_stack([SIGNS[name] * values[name][:, 0] for name in NAMES])


def best_of(losses, limits, k):
    """Return the row with the least loss k within limits on the others; None where none is."""
    others = [q for q in range(len(NAMES)) if q != k]
    rows = [i for i in range(len(losses)) if (losses[i, others] <= limits[others]).all()]
    return min(rows, key=lambda i: (losses[i, k], *losses[i], i), default=None)


def compared(outcomes, points, count=500, seed=3, best=()):
    front = front_of(outcomes)
    resamples = Resamples(outcomes, seed, count)
    one = Alternative(
        "a guess", [f"point {i}" for i in range(points.candidates)], points, best=best
    )
    claimed = resamples.claimed(np.arange(outcomes.candidates))
    return *compare_alternatives(resamples, front, front.ids, claimed, [one]), resamples, front


def test_gains_are_those_of_choosing_anew_in_each_resample():
    outcomes, points = MadeUp(40, 60, seed=1), MadeUp(3, 60, seed=8)
    found, resamples, front = compared(outcomes, points, count=25)
    whole = losses_of(outcomes, np.ones(60))
    limits = losses_of(points, np.ones(60))
    assert found.gains
    no_better = [(limits <= whole[i]).all(axis=1).any() for i in front.ids]
    assert found.dominated == sum(no_better)
    for k, name in enumerate(NAMES):
        claims, luck, used = [], {}, []
        for t in range(points.candidates):
            own = best_of(whole, limits[t], k)
            if own is None:
                continue
            gained = {}
            for b in range(resamples.count):
                drawn = resamples.weights[:, b]
                there, limit = losses_of(outcomes, drawn), losses_of(points, drawn)[t]
                pick = best_of(there, limit, k)
                if pick is not None:
                    gained[b] = (limit[k] - there[pick, k]) - (limits[t, k] - whole[pick, k])
            if gained:
                used.append(t)
                claims.append(limits[t, k] - whole[own, k])
                assert own in front.ids
                for b, gain in gained.items():
                    luck.setdefault(b, []).append(gain)
        if not used:
            assert name not in found.gains
            continue
        gain = found.gains[name]
        assert gain.points == len(used)
        assert gain.claimed == pytest.approx(np.mean(claims))
        means = [np.mean(of) for of in luck.values()]
        assert gain.expected == pytest.approx(np.mean(claims) - np.mean(means))
        assert gain.low < gain.expected < gain.high


def test_the_best_of_several_points_is_chosen_anew_in_each_resample():
    outcomes, points = MadeUp(40, 60, seed=1), MadeUp(5, 60, seed=8)
    found, resamples, _ = compared(outcomes, points, count=25, best=("speed", "accuracy"))
    whole, ones = losses_of(outcomes, np.ones(60)), losses_of(points, np.ones(60))
    at = int(np.argmin(ones[:, 1]))
    assert found.points == (f"point {at}",)
    assert [found.values[name][0] * SIGNS[name] for name in NAMES] == list(ones[at])
    assert found.gains
    others = set()
    for k, name in enumerate(NAMES):
        own = best_of(whole, ones[at], k)
        gained = []
        for b in range(resamples.count):
            drawn = resamples.weights[:, b]
            there, guesses = losses_of(outcomes, drawn), losses_of(points, drawn)
            taken = int(np.argmin(guesses[:, 1]))
            others.add(taken)
            pick = best_of(there, guesses[taken], k)
            if pick is not None:  # less the luck of both choices
                luck = whole[pick, k] - there[pick, k]
                gained.append(luck - (ones[taken, k] - guesses[taken, k]))
        if own is None or not gained:
            assert name not in found.gains
            continue
        claimed = ones[at, k] - whole[own, k]
        assert found.gains[name].claimed == pytest.approx(claimed)
        assert found.gains[name].expected == pytest.approx(claimed - np.mean(gained))
    assert len(others) > 1


def test_one_that_is_refitted_has_a_wider_range():
    widths = []
    for refitted in (False, True):
        outcomes = MadeUp(40, 60, seed=1)
        outcomes.refitted = refitted
        found, _, _ = compared(outcomes, MadeUp(3, 60, seed=8), count=25)
        widths.append([gain.high - gain.low for gain in found.gains.values()])
    assert np.all(np.array(widths[0]) < widths[1])


def test_many_designs_that_are_no_better_are_not_said_to_be():
    """Of 120 designs of one skill the best one claims much; less than half of it is expected."""
    claimed, expected, wrong = [], [], 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        outcomes, points = MadeUp(120, 100, seed=seed), MadeUp(1, 100, seed=500 + seed)
        for one in (outcomes, points):
            one.answered[:] = 1
            one.right = (rng.random(one.right.shape) < 0.8).astype(np.uint8)
            one.paid[:] = 5
        found, _, _ = compared(outcomes, points, seed=seed)
        gain = found.gains["accuracy"]
        claimed.append(gain.claimed)
        expected.append(gain.expected)
        wrong += gain.low > 0
    assert np.mean(claimed) > 0.07
    assert abs(np.mean(expected)) < 0.5 * np.mean(claimed)
    assert wrong <= 1


def test_what_is_better_is_said_to_be():
    rng = np.random.default_rng(0)
    outcomes, points = MadeUp(30, 400, seed=0), MadeUp(1, 400, seed=9)
    for one, skill in ((outcomes, 0.9), (points, 0.75)):
        one.answered[:] = 1
        one.right = (rng.random(one.right.shape) < skill).astype(np.uint8)
        one.paid[:] = 5
    found, _, front = compared(outcomes, points)
    assert found.beaten
    assert verdict([found], front).startswith("the search beats a guess (at its coverage and cost")
    reverse, _, front = compared(points, outcomes)
    assert not reverse.beaten
    assert verdict([reverse], front).startswith("the search does not beat a guess (at")
    both = verdict([reverse, found], front)  # the gain first
    assert both.startswith("the search beats a guess (at its coverage and cost")
    assert "; the search does not beat a guess (at" in both
    assert Compared.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_costs_less_than_every_solution_is_not_compared():
    outcomes, points = MadeUp(30, 60, seed=0), MadeUp(1, 60, seed=9)
    points.paid[:] = 0
    outcomes.paid += 1
    found, _, front = compared(outcomes, points)
    assert "search (a guess) costs less than every solution" in verdict([found], front)
    points.paid[:] = points.answered[:] = points.right[:] = 1  # as good as all in everything
    assert "found anything as good" in verdict([compared(outcomes, points)[0]], front)
    points.paid[:] = 100
    points.answered[:] = points.right[:] = 1
    found, _, front = compared(outcomes, points)
    assert "found anything as good" in verdict([found], front)


def test_a_gain_in_cost_is_told_as_a_share_and_what_is_no_gain_beside_it():
    gains = {"cost": Gain(1, 600, 597, 580, 610, 630), "accuracy": Gain(1, 0, 0, -0.01, 0.01, 0.99)}
    values = {"coverage": [0.5], "accuracy": [0.5], "cost": [1e6]}
    front = front_of(MadeUp(5, 60, seed=0))
    text = verdict([Compared("it", ("a",), values, {}, gains)], front)
    assert text.startswith(
        "the search beats it (at its coverage and accuracy, cost is expected to be 597 lower than "
        "its 630, which leaves 1/19 of it, in a 95% range from 580 lower to 610 lower; "
    )
    assert text.endswith("at its coverage and cost, accuracy is within noise)")
    still = Compared("it", ("a",), values, {}, {"cost": Gain(1, 0, 0.0, 0.0, 0.0, 6.416)})
    what = "(at its coverage and accuracy, cost is expected to be the same as its 6.42)"
    assert verdict([still], front) == f"the search does not beat it {what}"


def test_half_of_the_points_must_be_reached():
    gain = Gain(1, 2.0, 2.0, 1.0, 3.0, 20.0)
    values = {name: [0.5] * 3 for name in NAMES}
    assert not Compared("it", ("a", "b", "c"), values, {}, {"cost": gain}).beaten
    assert Compared("it", ("a", "b"), values, {}, {"cost": gain}).beaten


def test_runs_are_told_by_what_they_belong_to():
    won, lost = Worth(("a", "b"), ()), Worth(("b",), ("a",))
    both = Worth((), ("a", "b"))
    without = "what one would do without it"
    assert verdict_of_runs([("x", None)]) is None
    assert verdict_of_runs([("x", won)] * 3) == f"in all 3 runs the search beats {without} (a, b)"
    no, yes = "runs the search does not beat", "runs the search beats"
    some = [("x", won), ("x", lost), ("x", both), ("x", None)]
    assert verdict_of_runs(some) == (
        f"in 1 of 3 {yes} {without}; in 2 it does not (a, b in 1); of 1 of 4 runs it is not known"
    )
    several = [("x", won), ("x", lost), ("y", both), ("y", both), ("z", won)]
    assert verdict_of_runs(several) == (
        f"in 2 of 5 {yes} {without}; in 3 it does not (y in 2 of 2, a, b; x in 1 of 2, a)"
    )
    assert verdict_of_runs([("x", lost), ("y", lost)]) == f"in 2 of 2 {no} {without} (a)"


def test_what_a_run_beats_is_that_of_its_verdict():
    gain = Gain(1, 2.0, 2.0, 1.0, 3.0, 20.0)
    values = {"coverage": [0.5], "accuracy": [0.5], "cost": [1e6]}
    front = front_of(MadeUp(30, 60, seed=0))
    won = Compared("won", ("p",), values, {}, {"cost": gain})
    lost = Compared("lost", ("p",), values, {}, {})
    free = Compared("free", ("p",), values | {"cost": [-1.0]}, {}, {})
    other = Compared("other", ("p",), {"speed": [1.0]}, {}, {})
    assert worth_of([won, lost, free, other], front) == Worth(("won",), ("lost",))
    assert worth_of([free], front) is None


@pytest.mark.parametrize("key", ["name", "points", "values", "gains"])
def test_what_is_damaged_is_no_comparison(key):
    whole = Compared("it", ("a",), {"cost": [1.0]}, {}, {"cost": Gain(1, 1, 1, 1, 1, 1)}).to_json()
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Compared.from_json({k: v for k, v in whole.items() if k != key})
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Compared.from_json({**whole, "values": {"cost": [1.0, 2.0]}})


def test_one_objective_is_compared_too():
    outcomes, points = MadeUp(40, 60, seed=1), MadeUp(3, 60, seed=8)
    roles = Roles(METRICS, [Objective("accuracy", "max")])
    front, resamples = front_of(outcomes, roles=roles), Resamples(outcomes, 3, 30)
    one = Alternative("a guess", ["a", "b", "c"], points)
    claimed = resamples.claimed(np.arange(40))
    (found,) = compare_alternatives(resamples, front, front.ids, claimed, [one])
    theirs = points.metrics(np.ones((60, 1)))["accuracy"][:, 0]
    assert found.gains["accuracy"].claimed == pytest.approx(
        claimed["accuracy"].max() - theirs.mean()
    )
    drawn = outcomes.metrics(resamples.weights)["accuracy"]
    at = points.metrics(resamples.weights)["accuracy"]
    picks = drawn.argmax(axis=0)
    own = drawn.max(axis=0) - claimed["accuracy"][picks]
    luck = own.mean() - (at - theirs[:, None]).mean()
    assert found.gains["accuracy"].expected == pytest.approx(found.gains["accuracy"].claimed - luck)
    text = verdict([found], front)
    gain = found.gains["accuracy"]
    assert text == (
        f"the search beats a guess (accuracy is expected to be {gain.expected:.3g} higher than its "
        f"{gain.of:.3g}, in a 95% range from {gain.low:.3g} higher to {gain.high:.3g} higher)"
    )
