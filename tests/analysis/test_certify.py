"""Certificates, against sums over all outcomes and simulated draws of fresh records."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from framework.analysis.certify import joint_p_value, least_records, needed, order, p_value, passed
from framework.analysis.choose import parse_condition
from framework.outcomes import Sample
from tests.oracles import dominates


def tail(n, hits, share):
    """Return P[Bin(n, share) >= hits], summed up in fractions."""
    share = Fraction(share).limit_denominator(1000)
    terms = (math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(hits, n + 1))
    return float(sum(terms))


@pytest.mark.parametrize(("n", "limit"), [(1, 0.5), (9, 0.85), (40, 0.9), (57, 0.05)])
def test_shares_have_the_exact_binomial_test(n, limit):
    for hits in range(n + 1):
        at_least = p_value(Sample(hits / n, n), parse_condition(f"accuracy>={limit}"))
        assert at_least == pytest.approx(tail(n, hits, limit), rel=1e-9)
        assert at_least == pytest.approx(binom.sf(hits - 1, n, limit), rel=1e-9)
        at_most = p_value(Sample(hits / n, n), parse_condition(f"rate<={limit}"))
        assert at_most == pytest.approx(binom.cdf(hits, n, limit), rel=1e-9)


def test_limits_that_cannot_be_broken_or_kept():
    half = Sample(0.5, 20)
    assert p_value(half, parse_condition("accuracy>=0")) == 0
    assert p_value(half, parse_condition("cost<=1")) == 0
    assert p_value(Sample(1.0, 20), parse_condition("accuracy>=1")) == 1
    assert p_value(Sample(0.0, 0), parse_condition("accuracy>=0.1")) == 1
    assert least_records({"accuracy": [half]}, [parse_condition("accuracy>=1")], 0.1) is None


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("limit", ["m>=0.8", "m<=0.3", "m>0.55", "m<0.07"])
def test_p_values_are_rarely_small_where_the_limit_is_just_broken(share, limit):
    """At the limit itself, each level is met no more often than it says, by enumeration."""
    condition, n = parse_condition(limit), 60
    chances = binom.pmf(np.arange(n + 1), n, condition.value)
    found = np.array(
        [
            p_value(Sample(k / n * 7, n, 7.0, share), condition._replace(value=7 * condition.value))
            for k in range(n + 1)
        ]
    )
    for level in (0.01, 0.05, 0.1, 0.3):
        assert chances[found <= level].sum() <= level + 1e-12
    assert (found <= 0.1).any()  # it can be met at all


def test_bounded_means_have_the_bound_of_hoeffding_and_bentkus():
    n, mean, limit = 80, 2.2, 3.5
    low, bound = mean / 10, limit / 10
    entropy = low * math.log(low / bound) + (1 - low) * math.log((1 - low) / (1 - bound))
    hoeffding = math.exp(-n * entropy)
    bentkus = math.e * binom.cdf(math.ceil(n * low), n, bound)
    found = p_value(Sample(mean, n, 10.0, share=False), parse_condition("cost<=3.5"))
    assert found == pytest.approx(min(hoeffding, bentkus))
    mirrored = p_value(Sample(10 - mean, n, 10.0, share=False), parse_condition("cost>=6.5"))
    assert mirrored == pytest.approx(found)


def samples_of(rng, n, coverage=0.9, accuracy=0.9):
    """Return what a design with these figures does on records drawn at random."""
    answered = rng.random(n) < coverage
    right = rng.random(n) < accuracy
    whole = np.ones(n, dtype=bool)
    return {
        "coverage": [Sample.share_of(answered, whole)],
        "accuracy": [Sample.share_of(right, answered)],
    }


def test_the_chain_is_the_front_of_sureness_and_what_is_wanted():
    rng = np.random.default_rng(0)
    limit = parse_condition("accuracy>=0.8")
    accuracies, losses = rng.uniform(0.75, 0.95, 40), rng.integers(0, 25, 40).astype(float)
    claims = [{"accuracy": [Sample(a, 100)]} for a in accuracies]
    p = np.array([p_value(claim["accuracy"][0], limit) for claim in claims])
    chain = order(claims, [limit], losses)
    points = list(zip(p, losses, strict=True))
    best = {one for one in points if not any(dominates(other, one) for other in points)}
    assert [(p[i], losses[i]) for i in chain] == sorted(best)


LIMITS = [parse_condition("accuracy>=0.85"), parse_condition("coverage>=0.8")]
DESIGNS = [(0.9, 0.93), (0.86, 0.9), (0.9, 0.849), (0.799, 0.95), (0.9, 0.87), (0.82, 0.8)]


def wrong_certificates(draws, n, delta, designs=DESIGNS, limits=LIMITS):
    """Return how often some design is certified that breaks a limit, and how often any is."""
    breaks = [c < 0.8 or a < 0.85 for c, a in designs]
    wrong = some = 0
    for draw in range(draws):
        rng = np.random.default_rng([7, draw])
        chain = range(len(designs))
        fresh = [samples_of(rng, n, *design) for design in designs]
        tested = passed(chain, fresh.__getitem__, limits, delta)
        good = [i for i, _, p in tested if p <= delta]
        wrong += any(breaks[i] for i in good)
        some += bool(good)
    return wrong, some


@pytest.mark.parametrize("first", [0, 2])
def test_wrong_certificates_are_no_more_frequent_than_delta(first):
    """Also where the very first design of the chain just breaks a limit, the worst case."""
    draws, delta = 300, 0.1
    wrong, some = wrong_certificates(draws, 250, delta, DESIGNS[first:])
    assert wrong <= binom.ppf(0.999, draws, delta)
    if first:  # the level is used, not only kept
        assert wrong > 0
    else:  # what is good is certified
        assert some > draws / 2


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("n", [60, 500])
def test_wrong_certificates_over_many_draws(n, delta):
    draws = 1500
    for first in (0, 2, 3):
        wrong, _ = wrong_certificates(draws, n, delta, DESIGNS[first:])
        assert wrong <= binom.ppf(0.999, draws, delta)


def test_what_is_needed_certifies_in_about_four_of_five_draws():
    limits, delta = [parse_condition("accuracy>=0.85")], 0.1
    truth = {"accuracy": [Sample(0.9, 900)]}
    n = needed(truth, limits, 1000, delta)
    rng = np.random.default_rng(5)
    passes = np.mean([joint_p_value(samples_of(rng, n), limits) <= delta for _ in range(400)])
    assert 0.72 < passes < 0.9
    assert needed({"accuracy": [Sample(0.84, 900)]}, limits, 1000, delta) is None
    assert least_records(truth, limits, delta) == math.ceil(math.log(delta) / math.log(0.85))
