"""What to expect of a chosen solution on new records: the luck of choosing, by resamples.

A figure that was chosen for being high is too high on average. Resamples of the records tell by how
much (Efron and Tibshirani 1993, Chapter 17): in each, the user's rule picks again among all
candidates evaluated, and its pick has a better figure there than on all records. The mean of these
differences is the optimism of the rule; the expected figure is the claimed one less the optimism.
This estimate is somewhat too small; a resample of each resample tells by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from framework.analysis.choose import Rule
from framework.analysis.ranges import Spread, promised, spreads
from framework.analysis.resamples import Resamples
from framework.arrays import IntArray
from framework.errors import InputError
from framework.front import Promise


@dataclass(frozen=True)
class Expectation:
    """What to expect of a solution that a rule picked.

    Attributes
    ----------
    of : mapping of str to Promise
        The promise of every metric.
    again : float
        Share of the resamples in which the rule picks this design again.
    others : int
        How many other designs it picks in the remaining resamples.
    unmet : float
        Share of the resamples in which no design meets the conditions; they are left out.
    designs, resampled : int
        How many designs there are, and how many of them were resampled.
    whole : bool
        Whether all designs that may win were resampled.
    beside : int
        How many of the designs the search did not evaluate, although it could have chosen them.
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
        The position of the candidate among the outcomes.
    spread : mapping of str to Spread, optional
        What the ranges are computed from, by metric; as without refits if None.

    Raises
    ------
    InputError
        In no resample does any candidate meet the conditions.
    """
    pool, whole = resamples.pool(rule)
    pool = np.union1d(pool, [position])

    def pick(drawn: Resamples, candidates: IntArray) -> IntArray:
        return drawn.picks(rule, candidates)[np.newaxis]

    picks = pick(resamples, resamples.evaluated(pool))
    picked = picks[picks >= 0]
    if not len(picked):
        raise InputError(
            f"where: no candidate meets the conditions in any of {resamples.count} resamples of "
            "the records; nothing can be expected of such a pick"
        )
    outcomes, chosen, metrics = resamples.outcomes, np.array([position]), rule.roles.metrics
    if spread is None:
        alone = spreads(resamples, chosen, resamples.metrics(chosen), metrics)
        spread = {name: of_solutions[0] for name, of_solutions in alone.items()}
    # the description of a run that was received from others may lack a metric
    claimed = {n: float(v[0]) for n, v in resamples.claimed(chosen).items() if n in spread}
    gains, again = resamples.gains_of_rules(pick, picks, pool, claimed)
    promises = {
        name: promised(figure, gains[name][0], metrics[name], spread[name], again[name][0])
        for name, figure in claimed.items()
    }
    return Expectation(
        promises,
        again=float(np.mean(picks == position)),
        others=len(np.setdiff1d(picked, [position])),
        unmet=1 - len(picked) / picks.size,
        designs=outcomes.candidates,
        resampled=len(pool),
        whole=whole,
    )
