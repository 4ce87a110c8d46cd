"""What to expect of a pick, against resamples that are scored and chosen from one by one."""

import numpy as np
import pytest

from framework import outcomes as outcomes_module
from framework.analysis import resamples as resamples_module
from framework.analysis.choose import Condition, ExpectedCost, Rule, choose
from framework.analysis.expectations import expect
from framework.analysis.resamples import Resamples
from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import Front
from framework.outcomes import RecordOutcomes, resample_weights, weighted_sums
from framework.roles import Constraint, Metric, Objective, Roles
from tests.oracles import optimism, range_of_half
from tests.toys import COVERAGE_ACCURACY_COST

METRICS = (
    *COVERAGE_ACCURACY_COST,
    Metric("false_positive_rate", "min"),
    Metric("false_negative_rate", "min"),
)
ROLES = Roles(METRICS, [Objective(m.name, m.sense) for m in COVERAGE_ACCURACY_COST])


class MadeUp(RecordOutcomes):
    """Candidates that answer records by lot, rightly or not, at a price."""

    def __init__(self, candidates=60, records=45, seed=0, units=None, scale=1):
        super().__init__(candidates, records, [metric.name for metric in METRICS], units)
        rng = np.random.default_rng(seed)
        skill = rng.uniform(0.5, 0.95, (2, candidates, 1))
        self.answered = (rng.random((candidates, records)) < skill[0]).astype(np.uint8)
        self.right = self.answered * (rng.random((candidates, records)) < skill[1])
        self.paid = rng.integers(0, 9, (candidates, records)) * scale
        self.positive = rng.random(records) < 0.4

    def metrics(self, weights, candidates=slice(None), names=None):
        total = weights.sum(axis=0, dtype=np.float64)
        answered, right = self.answered[candidates], self.right[candidates]

        def rate(of_class):
            drawn = weights * of_class[:, None]
            wrong = weighted_sums(answered - right, drawn)
            return wrong / np.maximum(weighted_sums(answered, drawn), 1)

        sums = weighted_sums(answered, weights)
        return {
            "coverage": sums / total,
            "accuracy": weighted_sums(right, weights) / np.maximum(sums, 1),
            "cost": weighted_sums(self.paid[candidates], weights) / total,
            "false_positive_rate": rate(~self.positive),
            "false_negative_rate": rate(self.positive),
        }

    def figures(self, weights, candidates=slice(None), names=None, **_):
        answered = weighted_sums(self.answered[candidates], weights)
        return self.metrics(weights, candidates), {"accuracy": answered / weights.sum(axis=0)}


def front_of(outcomes, weights=None, roles=ROLES, *, whole=False):
    """Return the front under weights; with ``whole`` all candidates as if they were on it."""
    if weights is None:
        weights = np.ones(outcomes.records)
    values = {n: v[:, 0] for n, v in outcomes.metrics(weights[:, None]).items()}
    rows = Evaluated(np.arange(outcomes.candidates), np.zeros((outcomes.candidates, 1)), values)
    return Front(rows, roles, ("x",)) if whole else Front.of([rows], roles, ("x",))


RULES = [
    {"best": "accuracy"},
    {"where": ["coverage>=0.75"], "best": "accuracy"},
    {"where": ["coverage>0.7", "accuracy>=0.8"], "best": "cost"},
    {"where": ["cost<=4"], "within": ["accuracy=5%"], "best": "cost"},
    {"within": ["accuracy=0.1", "coverage=10%"], "best": "cost"},
    {"expected": ExpectedCost(1.0, 5.0, 0.3, {"cost": 0.1})},
    {"where": ["coverage>=0.6"], "expected": ExpectedCost(2.0, 1.0, 0.5)},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_picks_are_those_of_choose_in_each_resample(rule):
    outcomes = MadeUp()
    resamples = Resamples(outcomes, 3, 60)
    made = Rule(front_of(outcomes), **rule)
    pool, whole = resamples.pool(made)
    assert whole
    picks = resamples.picks(made, pool)
    for b, pick in enumerate(picks):
        front = front_of(outcomes, resamples.weights[:, b], whole=True)
        try:
            assert pick == choose(front, **rule)
        except InputError:
            assert pick == -1


@pytest.mark.parametrize("weights", [None, {"accuracy": 2.0, "cost": 1.0}])
def test_normalised_losses_are_scaled_by_the_front_of_all_records(weights):
    outcomes = MadeUp(seed=4)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 40)
    where = ["coverage>=0.6"]
    made = Rule(front, where=where, weights=weights)
    left = front.rows.values["coverage"] >= 0.6
    names = weights or dict.fromkeys(ROLES.names)
    sign = {"coverage": -1, "accuracy": -1, "cost": 1}
    drawn = outcomes.metrics(resamples.weights)
    score = np.zeros(drawn["cost"].shape)
    for name in names:
        own = sign[name] * front.rows.values[name][left]
        scaled = (sign[name] * drawn[name] - own.min()) / (own.max() - own.min())
        score += weights[name] * scaled if weights else np.maximum(scaled, 0) ** 2
    score[drawn["coverage"] < 0.6] = np.inf
    picks = resamples.picks(made, np.arange(outcomes.candidates))
    reached = score[picks, np.arange(40)]
    assert np.allclose(reached, score.min(axis=0), atol=1e-12)
    whole = choose(front, where=where, weights=weights)
    once = Resamples(outcomes, 0, 1)
    once.weights = np.ones_like(once.weights)
    assert once.picks(made, np.arange(outcomes.candidates))[0] == front.ids[whole]


def test_gains_are_raised_by_what_searches_made_anew_gain_more():
    outcomes, evaluated = MadeUp(), np.arange(25)
    both = np.arange(outcomes.candidates)
    rule = Rule(front_of(outcomes), best="accuracy")
    resamples = Resamples(outcomes, 3, 60, searched=len(both) - len(evaluated))
    drawn, on_all = (
        outcomes.metrics(weights)["accuracy"]
        for weights in (resamples.weights, np.ones((outcomes.records, 1)))
    )

    def gains(candidates):
        picks = resamples.picks(rule, candidates)
        return drawn[picks, np.arange(60)] - on_all[picks, 0]

    alone = gains(evaluated)
    factor = 1 + (gains(both)[:8] - alone[:8]).mean() / alone.mean()
    assert 1.02 < factor < 2  # else nothing is shown

    def pick(some, candidates):
        return some.picks(rule, candidates)[np.newaxis]

    picks = pick(resamples, evaluated)
    raised, again = resamples.gains_of_rules(pick, picks, both, ["accuracy"])
    assert np.allclose(raised["accuracy"][0], factor * alone)
    plain = Resamples(outcomes, 3, 60).gains_of_rules(pick, picks, evaluated, ["accuracy"])
    assert np.allclose(again["accuracy"], factor * plain[1]["accuracy"])


def gains_of(outcomes, rule, resamples, drawn_from=None):
    """Return what each pick gains in accuracy, and the picks; NaN and -1 where there is none."""
    gains, picks = np.full(resamples.count, np.nan), np.full(resamples.count, -1)
    for b in range(resamples.count):
        before = None if drawn_from is None else drawn_from.weights[:, b]
        whole = front_of(outcomes, before, whole=True).rows.values["accuracy"]
        drawn = front_of(outcomes, resamples.weights[:, b], whole=True)
        try:
            pick = choose(drawn, **rule)
        except InputError:
            continue
        gains[b], picks[b] = drawn.rows.values["accuracy"][pick] - whole[pick], pick
    return gains, picks


def test_expected_is_claimed_less_what_picks_gain_in_resamples_and_theirs():
    outcomes = MadeUp(seed=1)
    front, rule = front_of(outcomes), {"where": ["coverage>=0.75"], "best": "accuracy"}
    position = int(front.ids[choose(front, **rule)])
    resamples = Resamples(outcomes, 9, 200)
    known = expect(resamples, Rule(front, **rule), position)
    gains, picks = gains_of(outcomes, rule, resamples)
    again, _ = gains_of(outcomes, rule, resamples.again(), resamples)
    promise = known.of["accuracy"]
    assert promise.claimed == front.rows.values["accuracy"][front.ids == position][0]
    assert promise.expected == pytest.approx(promise.claimed - optimism(gains, again))
    own = outcomes.metrics(resamples.weights, np.array([position]))["accuracy"]
    more = max(0.5 * np.nanvar(gains) - own.var(), 0)
    answered = outcomes.answered[position].sum()
    of_half = range_of_half(*promise[:2], own.var(), answered, more=more)
    assert (promise.low, promise.high) == pytest.approx(of_half)
    assert known.again == np.mean(picks == position)
    assert known.others == len({*picks.tolist()} - {position, -1})
    assert known.unmet == pytest.approx(np.mean(picks < 0))
    assert promise.expected < promise.claimed - np.nanmean(gains)


class Guesses(MadeUp):
    """Candidates that answer every record, each rightly with its own chance."""

    def __init__(self, skill, records, seed):
        super().__init__(len(skill), records, seed)
        rng = np.random.default_rng(seed)
        self.answered[:] = 1
        self.right = (rng.random((len(skill), records)) < np.reshape(skill, (-1, 1))).astype("u1")


@pytest.mark.quick(1)
@pytest.mark.parametrize(("spread", "seeds"), [(0.0, 40), (0.02, 40), (0.2, 20)])
def test_of_guesses_the_whole_luck_is_taken_off(spread, seeds):
    gaps = []
    for seed in range(seeds):
        skill = 0.6 + spread * np.random.default_rng(seed).normal(size=30).clip(-1.5, 1.5)
        outcomes = Guesses(skill, 200, seed)
        front = front_of(outcomes)
        position = int(front.ids[choose(front, best="accuracy")])
        known = expect(Resamples(outcomes, seed, 200), Rule(front, best="accuracy"), position)
        promise = known.of["accuracy"]
        gaps.append([promise.claimed - skill[position], promise.expected - skill[position]])
    claimed, expected = np.mean(gaps, axis=0)
    error = np.std(gaps, axis=0)[1] / seeds**0.5
    assert claimed > 0.01
    assert abs(expected) < max(0.15 * claimed, 2.5 * error)


def test_candidates_that_cannot_win_are_left_out_and_the_picks_stay():
    outcomes = MadeUp(400, 200, seed=2)
    resamples, made = Resamples(outcomes, 0), Rule(front_of(outcomes), best="accuracy")
    pool, whole = resamples.pool(made)
    assert whole
    assert len(pool) < 150
    every = resamples.picks(made, np.arange(400))
    assert np.array_equal(resamples.picks(made, pool), every)


def test_where_candidates_are_too_many_the_nearest_are_kept(monkeypatch):
    outcomes = MadeUp(400, 200, seed=2)
    resamples, made = Resamples(outcomes, 0), Rule(front_of(outcomes))
    every, _ = resamples.pool(made)
    monkeypatch.setattr("framework.analysis.resamples._WORK", 0)
    monkeypatch.setattr("framework.analysis.resamples._FEWEST", 20)
    pool, whole = resamples.pool(made)
    assert not whole
    assert len(pool) == 20
    assert set(pool) < set(every)
    assert not expect(resamples, made, int(pool[0])).whole


def test_constraints_of_the_run_hold_in_each_resample():
    outcomes = MadeUp()
    roles = Roles(METRICS, ROLES.objectives, [Constraint("cost", at_most=4.0, at_least=1.0)])
    made = Rule(front_of(outcomes, roles=roles), best="accuracy")
    assert made.conditions == (Condition("cost", "<=", 4.0), Condition("cost", ">=", 1.0))
    resamples = Resamples(outcomes, 0, 50)
    picks = resamples.picks(made, np.arange(outcomes.candidates))
    costs = outcomes.metrics(resamples.weights)["cost"][picks, np.arange(50)]
    assert ((costs <= 4.0) & (costs >= 1.0)).all()


def test_nothing_can_be_expected_where_no_resample_has_a_pick():
    outcomes = MadeUp()
    made = Rule(front_of(outcomes), where=["cost<=100"])
    made.conditions = (Condition("cost", ">=", 1000.0),)
    with pytest.raises(InputError, match="in any of 500 resamples"):
        expect(Resamples(outcomes, 0), made, 0)


def test_a_rule_may_have_margins_below_a_limit_that_no_solution_meets():
    outcomes = MadeUp()
    made = Rule(front_of(outcomes), where=["cost<=0"], within=["accuracy=0%"], best="accuracy")
    assert not made.passing.any()
    assert (Resamples(outcomes, 0, 20).picks(made, np.arange(outcomes.candidates)) == -1).all()


@pytest.mark.parametrize("scale", [1, 2**20, 2**45])
@pytest.mark.parametrize("together", [7, 30, 64])
def test_weighted_sums_have_no_rounding(scale, together, monkeypatch):
    monkeypatch.setattr(outcomes_module, "_TOGETHER", together)
    rng = np.random.default_rng(0)
    plane, weights = rng.integers(0, 9, (7, 30)) * scale, rng.integers(0, 5, (30, 4))
    expected = [[sum(int(a) * int(b) for a, b in zip(row, column, strict=True))
                 for column in weights.T] for row in plane]  # fmt: skip
    assert weighted_sums(plane, weights.astype(np.float32)).tolist() == expected


def test_a_weighted_sum_beyond_64_bits_is_refused():
    plane, weights = np.full((1, 20), 10**18), np.ones((20, 1))
    with pytest.raises(InputError, match=r"below 2\^63 .* found up to 2e\+19; divide all costs"):
        weighted_sums(plane, weights)


def test_a_resample_of_a_resample_draws_its_units():
    units = np.array([0, 0, 1, 2, 2, 2, 3, 4])
    drawn = resample_weights(units, 400, np.random.default_rng(7))
    again = resample_weights(units, 400, np.random.default_rng(8), drawn)
    assert np.array_equal(again[3], again[5])
    assert (again[[0, 2, 3, 6, 7]].sum(axis=0) == 5).all()
    assert (again[drawn == 0] == 0).all()
    assert (again - drawn)[2].mean() == pytest.approx(0, abs=0.15)
    assert (again - drawn)[2].var() == pytest.approx(4 / 5 * 4 / 5, abs=0.2)


def test_units_are_drawn_together_and_fewer_resamples_are_the_first():
    units = np.array([0, 0, 1, 2, 2, 2, 3])
    drawn = resample_weights(units, 50, np.random.default_rng(7))
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[3], drawn[5])
    assert (drawn[[0, 2, 3, 6]].sum(axis=0) == 4).all()
    assert np.array_equal(drawn[:, :20], resample_weights(units, 20, np.random.default_rng(7)))


@pytest.mark.parametrize(("records", "resamples"), [(15_000, 500), (30_000, 250), (100_000, 100)])
def test_many_records_have_fewer_resamples(records, resamples, monkeypatch):
    asked = []
    monkeypatch.setattr(
        resamples_module, "resample_weights", lambda units, count, rng: asked.append(count)
    )
    Resamples(StubOutcomes(records), 0)
    assert asked == [resamples]


class StubOutcomes(RecordOutcomes):
    """A number of records."""

    def __init__(self, records: int) -> None:
        super().__init__(1, records, ())

    def metrics(self, weights, candidates=slice(None), names=None):
        raise AssertionError
