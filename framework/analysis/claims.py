"""What a paper says of methods, and whether the means of a comparison bear it out."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from pydantic import model_validator

from framework.analysis.compare import Comparison
from framework.analysis.page import Claim
from framework.analysis.tables import groups
from framework.settings import Section


class ClaimConfig(Section):
    """Something that a paper says of a method, and how it is told from the means by group.

    says : in words.
    paper : what it printed, in words.
    indicator : one of the experiment's.
    method : of whom it is said.
    better_than : the method's mean is at least as good as that of each of these.
    at_least, at_most : the method's mean is within these.
    groups : those on each of which it must hold; all by default.
    """

    says: str
    paper: str = ""
    indicator: str
    method: str
    better_than: list[str] | None = None
    at_least: float | None = None
    at_most: float | None = None
    groups: list[str] | None = None

    @property
    def methods(self) -> list[str]:
        """The methods that it names."""
        return [self.method, *(self.better_than or ())]

    @model_validator(mode="after")
    def _tells(self) -> ClaimConfig:
        if self.better_than is None and self.at_least is None and self.at_most is None:
            raise ValueError("expected one of better_than, at_least, at_most; found none")
        return self


def judge_claims(comparison: Comparison, claims: Sequence[ClaimConfig]) -> list[Claim]:
    """Tell which claims hold, from the means by group; one without any value does not."""
    if not claims:
        return []
    table = groups(comparison).set_index(["indicator", "group", "method"])["mean"]
    return [_judged(comparison, claim, table) for claim in claims]


def _judged(comparison: Comparison, claim: ClaimConfig, table: pd.Series[float]) -> Claim:
    sign = -1.0 if comparison.indicators[claim.indicator].better == "high" else 1.0
    wanted = claim.groups or comparison.groups
    held, values = [], []
    for group in wanted:
        found = [table.get((claim.indicator, group, method)) for method in claim.methods]
        if any(value is None for value in found):
            continue
        own, *others = [float(value) for value in found if value is not None]
        holds = all(sign * own <= sign * other for other in others)
        holds &= claim.at_least is None or own >= claim.at_least
        holds &= claim.at_most is None or own <= claim.at_most
        values.append(f"{own:.4g}")
        held += [group] if holds else []
    where = f"{len(held)} of {len(wanted)}"
    if 0 < len(held) < len(wanted):
        where += f": {', '.join(held)}"
    here = f"{', '.join(values)} ({where})" if len(values) == 1 else where
    return Claim(claim.says, claim.paper, here, len(held) == len(wanted))
