"""Limits that hold on new records, against resamples that are gone through one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framework.analysis.choose import parse_condition
from framework.analysis.expectations import Resamples
from framework.errors import InputError
from framework.experiment.expected import Evidence, sure_front, with_expected
from tests.analysis.test_expectations import MadeUp, front_of

WHERE = ["coverage>=0.6", "cost<=5"]


@pytest.mark.parametrize("luck", [None, 0.0, 0.04])
def test_sure_solutions_meet_all_limits_less_the_luck_of_the_front(luck):
    outcomes = MadeUp(seed=2)
    front, resamples = front_of(outcomes), Resamples(outcomes, 0, 80)
    everyone = np.arange(outcomes.candidates)
    claimed = resamples.claimed(everyone)
    found = Evidence(everyone, claimed, resamples, np.zeros((outcomes.candidates, 1)))
    if luck is None:  # a front without what to expect of it: that is found here
        known = with_expected(front, found)[0].expected
    else:
        own = front.rows.values["coverage"] - luck
        known = {"expected_coverage": own, "coverage_low": own, "coverage_high": own}
        front = replace(front, expected=known)
    share, values = np.zeros(len(front)), front.rows.values
    coverage = known["expected_coverage"] - values["coverage"]
    cost = known.get("expected_cost", values["cost"]) - values["cost"]
    for b in range(resamples.count):
        drawn = front_of(outcomes, resamples.weights[:, b], whole=True).rows.values
        held = drawn["coverage"][front.ids] + coverage >= 0.6
        share += held & (drawn["cost"][front.ids] + cost <= 5)
    share /= resamples.count
    met = np.all([c.holds(values[c.metric]) for c in map(parse_condition, WHERE)], axis=0)
    percent = min(100 * float(np.median(share[met])), 99.0)
    sure = sure_front(found, front, WHERE, percent)
    assert sure.share == pytest.approx(dict(zip(front.ids.tolist(), share, strict=True)))
    assert sure.front.ids.tolist() == front.ids[met & (share >= percent / 100)].tolist()
    with pytest.raises(InputError, match=r"the tightest limit that one does meet is coverage>="):
        sure_front(found, front, ["coverage>=0.9999"], 99)
