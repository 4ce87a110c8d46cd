"""Least expected cost, and the ranges of prior and cost ratio where each solution is best."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.analysis.choose import ExpectedCost, choose, lower_envelope, with_trivial
from framework.batch import Evaluated
from framework.capabilities import TrivialClassifier
from framework.errors import InputError
from framework.front import Front
from framework.roles import Constraint, Metric, Objective, Roles

NAMES = ("false_positive_rate", "false_negative_rate", "complexity")


def front(rows, constraints=()):
    metrics = [Metric(name, "min") for name in NAMES]
    roles = Roles(metrics, [Objective(n, "min") for n in NAMES], constraints)
    values = dict(zip(NAMES, np.array(rows, dtype=float).T, strict=True))
    ids = np.arange(len(rows)) + 10
    return Front(Evaluated(ids, np.zeros((len(rows), 1)), values), roles, ("a",))


ROC = front([(0.0, 0.9, 0.1), (0.05, 0.4, 0.2), (0.1, 0.1, 0.9), (1.0, 0.0, 0.0)])


def test_raw_metrics_decide_where_normalised_ones_would_not():
    """A false negative costs a quarter: weights of losses scaled over the front pick row 0."""
    three = front([(0.0, 0.9, 0.1), (0.05, 0.4, 0.2), (0.1, 0.1, 0.9)])
    assert choose(three, expected=ExpectedCost(4, 1, 0.5)) == 2
    assert choose(three, weights={"false_positive_rate": 4, "false_negative_rate": 1}) == 0


@pytest.mark.parametrize(
    ("cost", "best"),
    [
        (ExpectedCost(1, 1, 0.0), 0),
        (ExpectedCost(1, 1, 1.0), 3),
        (ExpectedCost(1, 5, 0.1), 2),
        (ExpectedCost(1, 5, 0.1, {"complexity": 1.0}), 1),
    ],
)
def test_costs_by_hand(cost, best):
    costs = cost.of(ROC.rows.values)
    assert choose(ROC, expected=cost) == best == int(costs.argmin())
    values = {name: column[best] for name, column in ROC.rows.values.items()}
    by_hand = cost.prior * cost.fn * values["false_negative_rate"]
    by_hand += (1 - cost.prior) * cost.fp * values["false_positive_rate"]
    by_hand += cost.per_unit.get("complexity", 0.0) * values["complexity"]
    assert costs[best] == pytest.approx(by_hand)


def test_ranges_are_where_the_least_cost_changes():
    cost = ExpectedCost(2, 3, 0.2, {"complexity": 0.05})
    for ranges, at in (
        (cost.by_prior(ROC), lambda t: ExpectedCost(2, 3, t, cost.per_unit)),
        (cost.by_ratio(ROC), lambda t: ExpectedCost(2, 2 * t, 0.2, cost.per_unit)),
    ):
        assert len(ranges) > 2
        assert ranges[0].low == 0
        for one, two in pairwise(ranges):
            assert one.high == two.low
        for piece in ranges:
            middle = (piece.low + min(piece.high, piece.low + 50)) / 2
            assert int(at(middle).of(ROC.rows.values).argmin()) == piece.position


numbers = st.integers(-6, 6).map(float)


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9), st.sampled_from([1.0, np.inf])
)
def test_the_envelope_is_the_least_line_everywhere(lines, end):
    starts, slopes = np.array(lines).T
    ranges = lower_envelope(starts, slopes, end)
    assert ranges[0].low == 0
    assert ranges[-1].high == end
    for piece in ranges:
        for share in (0.0, 0.3, 1.0):
            t = piece.low + share * (min(piece.high, piece.low + 20) - piece.low)
            least = (starts + slopes * t).min()
            assert starts[piece.position] + slopes[piece.position] * t == pytest.approx(
                least, abs=1e-9
            )


def test_what_is_no_cost_is_said():
    with pytest.raises(InputError, match="costs: expected numbers from 0"):
        ExpectedCost(-1, 1, 0.5)
    with pytest.raises(InputError, match="prior: expected a share"):
        ExpectedCost(1, 1, 1.5)
    with pytest.raises(InputError, match="did you mean 'complexity'"):
        ExpectedCost(1, 1, 0.5, {"complexty": 1}).of(ROC.rows.values)


TRIVIAL = [
    TrivialClassifier(
        f"always {label}", label, ("negative", "positive"), dict(zip(NAMES, values, strict=True))
    )
    for label, values in (("negative", (0.0, 1.0, 0.0)), ("positive", (1.0, 0.0, 0.0)))
]


def test_no_pick_costs_more_than_a_trivial_classifier():
    """100 settings: with a prior of .01 a network at .034 was picked, "always negative" is .010."""
    rng, trivial_picks = np.random.default_rng(0), 0
    for _ in range(100):
        solutions = front(rng.random((6, 3)) * [0.3, 0.3, 0.9])
        fp, fn = 10 ** rng.uniform(-2, 1, 2)
        cost = ExpectedCost(fp, fn, 10 ** rng.uniform(-3, 0), {"complexity": rng.random() / 4})
        both = with_trivial(solutions, TRIVIAL)
        pick = choose(both, expected=cost)
        always = (cost.prior * fn, (1 - cost.prior) * fp)
        assert cost.of(both.rows.values)[pick] <= min(*always, *cost.of(solutions.rows.values))
        assert cost.of(both.rows.values)[:6].tolist() == cost.of(solutions.rows.values).tolist()
        assert cost.of(both.rows.values)[6:] == pytest.approx(always)
        trivial_picks += pick >= 6
        for ranges, at in (
            (cost.by_prior(both), lambda t, c=cost: ExpectedCost(c.fp, c.fn, t, c.per_unit)),
            (
                cost.by_ratio(both),
                lambda t, c=cost: ExpectedCost(c.fp, c.fp * t, c.prior, c.per_unit),
            ),
        ):
            for piece in ranges:
                t = (piece.low + min(piece.high, piece.low + 1)) / 2
                costs = at(t).of(both.rows.values)
                assert costs[piece.position] == pytest.approx(costs.min())
    assert 20 < trivial_picks < 80


def test_trivial_classifiers_meet_conditions_as_solutions_do():
    cost = ExpectedCost(1, 1, 0.01)
    both = with_trivial(ROC, TRIVIAL)
    assert both.ids.tolist() == [10, 11, 12, 13, -1, -2]
    assert choose(both, expected=cost) in (0, 4)  # one costs .009, the other .010
    assert choose(both, expected=ExpectedCost(1, 1, 0.001, {"complexity": 1})) == 4
    assert choose(both, expected=cost, where=["false_negative_rate<=0.95"]) == 0
    bounded = front([(0.05, 0.4, 0.2)], [Constraint("false_negative_rate", at_most=0.5)])
    assert with_trivial(bounded, TRIVIAL).ids.tolist() == [10, -2]


def test_a_solution_goes_before_a_trivial_classifier_that_costs_as_much():
    """Hulls have both as solutions already: there is one to choose."""
    both = with_trivial(ROC, TRIVIAL)
    assert both.losses[3].tolist() in both.losses[4:].tolist()
    assert choose(both, expected=ExpectedCost(1, 9, 0.9)) == 3
    dear = ExpectedCost(1, 1, 0.001, {"complexity": 1})
    assert choose(both, expected=dear) == both.ids.tolist().index(-1)
