"""95% ranges: of how many records they are, and what fitting anew changes, against slow twins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.analysis.ranges import (
    Spread,
    changes,
    mixed_spread,
    moments,
    promised,
    spreads,
    taken_over,
)
from framework.analysis.resamples import Resamples
from framework.answers import AnswerOutcomes, Records
from framework.answers import Answers as AnswerTable
from framework.measures import BetweenSubgroups, OverClasses, Tables, rates
from framework.outcomes import RecordOutcomes, Refits, WeightedOutcomes
from framework.roles import Metric
from tests.oracles import range_of_half, refit_changes

ACCURACY = Metric("accuracy", "max")
NO_LUCK = np.zeros(9)
shares = st.floats(0.0, 1.0)


class Answers(RecordOutcomes):
    """Designs that answer records, rightly or not."""

    def __init__(self, answered, right):
        super().__init__(len(answered), answered.shape[1], ("coverage", "accuracy"))
        self.answered, self.right = answered, right & answered

    def metrics(self, weights, candidates=slice(None), names=None):
        weights = weights.astype(float)
        answered = self.answered[candidates] @ weights
        right = self.right[candidates] @ weights
        return {"coverage": answered / np.maximum(weights.sum(axis=0), 1),
                "accuracy": right / np.maximum(answered, 1)}  # fmt: skip

    def figures(self, weights, candidates=slice(None), names=None, **_):
        total = np.maximum(weights.sum(axis=0), 1)
        every = np.repeat(weights.sum(axis=0)[None] > 0, len(self.answered[candidates]), 0)
        shares = {"accuracy": self.answered[candidates] @ weights / total, "coverage": every}
        return self.metrics(weights, candidates), shares


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 4), st.sampled_from([0.1, 0.6, 1])
)
def test_what_fitting_anew_changes_is_that_of_a_loop_over_records(seed, folds, designs, answering):
    rng = np.random.default_rng(seed)
    n = folds * int(rng.integers(2, 9))
    fold_of = rng.permutation(np.arange(n) % folds)
    answered = rng.random((folds + 1, designs, n)) < answering
    right = (rng.random((folds + 1, designs, n)) < 0.7) & answered
    models = [Answers(*of) for of in zip(answered, right, strict=True)]
    variance = rng.random(designs) * rng.integers(0, 2, designs)
    found = changes(Refits(models, fold_of), {"coverage": variance, "accuracy": variance})
    everyone = np.ones_like(answered)
    for name, values, counts in (
        ("coverage", answered, everyone), ("accuracy", right, answered)
    ):  # fmt: skip
        wanted = refit_changes(values, counts, fold_of, variance)
        got = np.column_stack(found[name])
        assert got == pytest.approx(np.array(wanted), abs=1e-9), name


@given(shares, shares, shares, st.floats(1, 500), st.floats(0, 0.01))
def test_a_range_is_that_of_half_the_records_and_one_at_each_end(claimed, expected, v, n, left):
    variance = v * claimed * (1 - claimed) / n
    spread = Spread(variance, n, (0.0, 1.0), 0.0, expected - claimed, left)
    found = promised(claimed, NO_LUCK, ACCURACY, spread)
    assert found.expected == pytest.approx(expected, abs=1e-9)
    more = max(left - variance, 0)
    wanted = range_of_half(claimed, found.expected, variance, n, more=more)
    assert found[2:] == pytest.approx(wanted, abs=1e-6)


def test_the_luck_of_choosing_widens_a_range_where_it_is_more_than_that_of_the_records():
    rng = np.random.default_rng(0)
    gained, variance = rng.normal(0.02, 0.04, 500), 0.8 * 0.2 / 90
    for share in (0.5, 2.0):
        found = promised(0.8, gained, ACCURACY, Spread(variance, 90, (0.0, 1.0), share))
        mean, more = 0.8 - gained.mean(), max(share * gained.var() - variance, 0)
        wanted = range_of_half(0.8, mean, variance, 90, more=more)
        assert found == pytest.approx((0.8, mean, *wanted))
    nothing = promised(0.8, np.full(9, np.nan), ACCURACY, Spread(variance, 90, (0.0, 1.0), 2))
    assert np.isnan(nothing[1:]).all()


def test_three_right_of_three_answers_do_not_promise_that_all_will_be():
    three = promised(1.0, NO_LUCK, ACCURACY, Spread(0.0, 3, (0.0, 1.0), 2.0))
    many = promised(1.0, NO_LUCK, ACCURACY, Spread(0.0, 300, (0.0, 1.0), 2.0))
    assert three.low < 0.5
    assert 0.95 < many.low < 0.99
    assert three.high == many.high == 1.0


def test_what_no_record_can_change_is_known():
    cost = Metric("cost", "min", "ratio", high=9.0)
    luck = np.full(9, 0.3)
    for end in (4.0, np.nextafter(4.0, 5.0)):  # of units that are added up in another order
        assert promised(4.0, luck, cost, Spread(0.0, 90, (end, end), 2.0)) == (4, 4, 4, 4)


def test_a_bound_that_is_a_scale_ends_no_range():
    loss = Metric("loss", "min", high=0.6, scale=True)
    found = promised(0.6, NO_LUCK, loss, Spread(0.0001, 90, None, 2.0))
    assert found.low == pytest.approx(1.2 - found.high)
    assert 0.62 < found.high < 0.64
    assert found.of_test(90, 90, loss)[1] > found.high
    assert loss._replace(sense="max", low=-2.0).ends == (-np.inf, 0.6)


def test_a_mean_of_rates_that_no_record_has_changed_yet_is_not_known():
    """All of one class are right and none of 20 of the other: the next one may be."""
    rate = Metric("rate", "max")
    of = promised(0.5, NO_LUCK, rate, Spread(0.0, 20, (0.0, 1.0), 2.0))
    assert of.low < 0.45 < 0.55 < of.high
    assert of.low > 0.35


def test_sizes_are_certain_alone_and_in_a_mixture():
    size = Metric("size", "min")
    parts = [Spread(0.0, 90, (value, value), 2.0) for value in (0.0, 0.4)]
    assert promised(0.0, NO_LUCK, size, parts[0]) == (0.0, 0.0, 0.0, 0.0)
    mixed = mixed_spread(parts, np.array([0.5, 0.5]), 1e-34, size)  # constants, rounded
    assert promised(0.2, NO_LUCK, size, mixed) == pytest.approx((0.2, 0.2, 0.2, 0.2))


def test_a_mixture_has_the_changes_of_its_parts_as_if_they_went_one_way():
    parts = [Spread(0, 90, None, 0.0, 0.02, 0.0004), Spread(0, 40, None, 0.0, -0.01, 0.0001)]
    found = mixed_spread(parts, np.array([0.25, 0.75]), 0.001, ACCURACY)
    left = (0.25 * 0.02 + 0.75 * 0.01) ** 2
    assert found.ends == (0.0, 1.0)
    assert found._replace(ends=0)[:6] == pytest.approx((0.001, 40, 0, 0.0, -0.0025, left))
    assert mixed_spread([], np.zeros(0), 0.0, ACCURACY).variance == 0


def test_a_range_reaches_as_far_about_the_figure_that_is_estimated():
    parts = [Spread(0.0, 90, (0.0, 1.0), 0.0, offset=offset) for offset in (0.04, -0.02)]
    mixed = mixed_spread(parts, np.array([0.75, 0.25]), 0.001, ACCURACY)
    assert mixed.offset == pytest.approx(0.025)  # what is too low in one is too high in the other
    for offset, ends in ((0.025, (0.0, 0.025)), (-0.02, (-0.02, 0.0)), (2.0, (0.0, 1.0))):
        spread = mixed._replace(offset=offset)
        alone = promised(0.6, NO_LUCK, ACCURACY, spread._replace(offset=0.0))
        wanted = (alone.low + ends[0], min(alone.high + ends[1], 1.0))
        found = promised(0.6, NO_LUCK, ACCURACY, spread)
        assert found == pytest.approx((0.6, alone.expected, *wanted))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=300))
def test_moments_are_rounded_once(values):
    """As exact sums are: the order of adding shows in the last bits of a plain one."""
    mean = math.fsum(values) / len(values)
    squares = [(value - mean) * (value - mean) for value in values]
    expected = mean, math.fsum(squares) / len(values)
    assert moments(np.array(values)) == pytest.approx(expected, rel=1e-14, abs=1e-12)


@pytest.mark.parametrize("bound", [-1e308, 1e308])
def test_a_bound_beyond_any_figure_ends_in_a_range(bound):
    """As in the description of a forged run: a power of it had raised."""
    spread = Spread(0.001, 90, (0.0, bound), 0.0)
    promised(0.8, NO_LUCK, ACCURACY._replace(high=bound), spread)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=30))
def test_a_record_that_counts_as_forty_is_not_forty_records(records):
    weights, answered = np.array([w for w, _ in records]), np.array([[a for _, a in records]])
    weights[0] = max(weights[0], 1)
    outcomes = WeightedOutcomes(Answers(answered, answered), weights)
    taken, whole = taken_over(outcomes, np.array([0]))

    def alike(counted):
        return sum(counted) ** 2 / max(sum(w * w for w in counted), 1) / len(records)

    assert whole == pytest.approx(alike(weights.tolist()))
    assert taken["accuracy"] == pytest.approx([alike(weights[answered[0]].tolist())])
    once, all_records = taken_over(Answers(answered, answered), np.array([0]))
    assert (once["accuracy"][0], all_records) == (pytest.approx(answered.mean()), 1.0)


def test_of_a_figure_over_no_record_nothing_is_known():
    assert promised(0.0, NO_LUCK, ACCURACY, Spread(0.0, 0.0, (0.0, 1.0), 2.0))[2:] == (0.0, 1.0)


@pytest.mark.parametrize("heavy", [1, 7, 9, 40])
@pytest.mark.parametrize("inside", [False, True])
def test_a_rare_class_is_ten_records_however_much_they_count(heavy, inside):
    """Of the sums of weights the rare class may have most, of their squares all."""
    labels = np.repeat([0, 1], [90, 10])
    weights = np.where(labels == 1, heavy, 1)
    records = Records(
        labels, ("a", "b"), 1, weights=weights if inside else None, subgroups=labels,
        subgroup_names=("a", "b"),
    )  # fmt: skip
    by_class = [Tables(2).ratio(ACCURACY, "recall", code) for code in (0, 1)]
    accuracy = Tables(2).ratio(ACCURACY, "accuracy")
    measures = (
        OverClasses(Metric("mean recall", "max"), by_class),
        BetweenSubgroups(Metric("gap", "min"), accuracy, worst=False),
        BetweenSubgroups(Metric("worst", "max"), accuracy, worst=True),
    )
    outcomes = AnswerOutcomes.of(measures, AnswerTable(records, labels[np.newaxis]))
    if not inside:
        outcomes = WeightedOutcomes(outcomes, weights)
    taken, _ = taken_over(outcomes, np.array([0]))
    for name in ("mean recall", "gap", "worst"):
        assert taken[name] == pytest.approx([0.1]), name


def test_the_part_that_has_no_record_makes_a_difference_unknown():
    labels = np.repeat([0, 1], 5)
    records = Records(labels, ("a", "b"), 1, subgroups=np.arange(10) % 2, subgroup_names=("u", "v"))
    codes = np.where(np.arange(10) % 2 == 0, 1, 0)[np.newaxis]  # nobody in v is called b
    measures = rates(["precision"], ("a", "b"), 1, ("u", "v"))
    taken, _ = taken_over(AnswerOutcomes.of(measures, AnswerTable(records, codes)), np.array([0]))
    assert taken["precision_difference"] == [0.0]


def test_a_quantile_of_the_records_is_expected_between_its_figures_in_resamples():
    metric = Metric("p95", "min", "ratio", high=100.0, statistic="quantile")
    spread = Spread(9.0, 90, None, 0.0, drawn=(1.0, 25.0))
    assert promised(1.0, np.array([0.3, 0.1]), metric, spread) == (1.0, 1.0, 1.0, 25.0)
    assert promised(30.0, NO_LUCK, metric, spread)[2:] == (1.0, 30.0)  # it never leaves the claim
    refitted = spread._replace(moved=2.0, left=1.0)
    assert promised(1.0, NO_LUCK, metric, refitted) == pytest.approx((1.0, 3.0, 1.0, 28.96))


def test_a_difference_is_no_share_and_is_seldom_more_than_chance():
    """Near 0 it varies as elsewhere; of six subgroups that are alike, two differ by chance."""
    rng, n, groups = np.random.default_rng(0), 600, 6
    labels, subgroups = rng.integers(2, size=n), np.arange(n) % groups
    names = tuple("uvwxyz")
    records = Records(labels, ("a", "b"), 1, subgroups=subgroups, subgroup_names=names)
    codes = np.where(rng.random((40, n)) < 0.85, labels, 1 - labels)
    measures = rates(["recall"], ("a", "b"), 1, names)
    outcomes = AnswerOutcomes.of(measures, AnswerTable(records, codes))
    metrics = {measure.metric.name: measure.metric for measure in measures}
    resamples, every, name = Resamples(outcomes, 0), np.arange(40), "recall_difference"
    claimed = outcomes.metrics(np.ones((n, 1)))[name][:, 0]
    spread = spreads(resamples, every, resamples.metrics(every), metrics)[name]
    unfair, of_subgroup = [], np.empty((groups, resamples.count))
    for i in range(40):
        for g in range(groups):
            of = (subgroups == g) & (labels == 1)
            right, drawn = codes[i, of] == 1, resamples.weights[of].astype(float)
            of_subgroup[g] = right @ drawn / drawn.sum(axis=0) - right.mean()
        seldom = np.quantile(np.ptp(of_subgroup, axis=0), 0.975, method="higher")
        assert spread[i].chance == pytest.approx(seldom)
        low, high = promised(claimed[i], NO_LUCK, metrics[name], spread[i])[2:]
        unfair.append(low > 0)
        assert 0.15 < high - low < 0.6
    assert sum(unfair) <= 2
    pair = Spread(0.001, 60, (0.0, 1.0), 0.0, chance=0.08)
    share = promised(0.0003, np.array([-0.02]), metrics[name], pair._replace(chance=0.0))
    assert share.high > 2 * promised(0.0003, np.array([-0.02]), metrics[name], pair).high
