"""What to expect of a chosen solution on new records: the luck of choosing, by resamples.

A figure that was chosen for being high is too high. How much is told by resamples of the records
(Efron and Tibshirani 1993, Chapter 17): in each, the user's rule picks again among all candidates
evaluated, and its pick has a better figure there than on all records. The mean of these
differences is the rule's optimism; what to expect is the claimed figure less the optimism. A
resample of each resample tells by how much that is too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from framework.analysis.choose import Rule
from framework.analysis.ranges import Spread, promised, spreads
from framework.analysis.resamples import Resamples
from framework.errors import InputError
from framework.front import Promise


@dataclass(frozen=True)
class Expectation:
    """What to expect of a solution that a rule picked.

    Attributes
    ----------
    of : mapping of str to Promise
        Every metric.
    again : float
        Share of the resamples in which the rule picks this design again.
    others : int
        How many other designs it picks in the rest.
    unmet : float
        Share of the resamples in which no design meets the conditions; they are left out.
    designs, resampled : int
        How many designs were evaluated, and how many of them may win a resample.
    whole : bool
        Whether all those that may win were looked at.
    beside : int
        How many of the designs were not evaluated: they are like those of an exact front.
    """

    of: Mapping[str, Promise]
    again: float
    others: int
    unmet: float
    designs: int
    resampled: int
    whole: bool
    beside: int = 0


def expect(
    resamples: Resamples, rule: Rule, position: int, spread: Mapping[str, Spread] | None = None
) -> Expectation:
    """Return what to expect of the candidate that a rule picked.

    Parameters
    ----------
    resamples : Resamples
    rule : Rule
    position : int
        The candidate's, among the outcomes.
    spread : mapping of str to Spread, optional
        What its ranges are made of, by metric; as without refits if None.

    Raises
    ------
    InputError
        No resample has a candidate that meets the conditions.
    """
    pool, whole = resamples.pool(rule)
    pool = np.union1d(pool, [position])
    picks = resamples.picks(rule, pool)
    picked = picks[picks >= 0]
    if not len(picked):
        raise InputError(
            f"where: no candidate meets the conditions in any of {resamples.count} resamples of "
            "the records; nothing can be expected of such a pick"
        )
    outcomes, at, metrics = resamples.outcomes, np.array([position]), rule.roles.metrics
    if spread is None:
        alone = spreads(outcomes, resamples.units, at, resamples.metrics(at), metrics)
        spread = {name: one[0] for name, one in alone.items()}
    # the description of a run that was sent may lack a metric
    claimed = {n: float(v[0]) for n, v in resamples.claimed(at).items() if n in spread}
    more = resamples.again()
    gains = resamples.gains(picks[np.newaxis], claimed)
    again = more.gains(more.picks(rule, pool)[np.newaxis], claimed)
    of = {
        name: promised(figure, gains[name][0], metrics[name], spread[name], again[name][0])
        for name, figure in claimed.items()
    }
    return Expectation(
        of,
        again=float(np.mean(picks == position)),
        others=len(np.setdiff1d(picked, [position])),
        unmet=1 - len(picked) / len(picks),
        designs=outcomes.candidates,
        resampled=len(pool),
        whole=whole,
    )
