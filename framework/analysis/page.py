"""What a package adds to the report of an experiment: the claims and odd figures of one paper.

A package registers a function under ``paretolab.pages`` that takes a
:class:`~framework.analysis.compare.Comparison` and returns a :class:`Page`; an experiment that
names it in ``experiment.pages`` has it in its report::

    [project.entry-points."paretolab.pages"]
    my-paper = "mine.paper:page"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from framework.analysis.rank_tests import RankTests

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Claim(NamedTuple):
    """A statement of a paper, what was found, and whether it holds."""

    claim: str
    paper: str
    here: str
    holds: bool


@dataclass(frozen=True)
class Ranking:
    """Methods ranked by numbers of a paper's own: drawn as critical-difference diagrams.

    Attributes
    ----------
    methods : sequence of str
    tests : mapping of str to RankTests
        By what is ranked, methods in that order.
    blocks : str
        What a block of the tests is, in the plural.
    """

    methods: Sequence[str]
    tests: Mapping[str, RankTests]
    blocks: str


@dataclass(frozen=True)
class Page:
    """A part of a report.

    Attributes
    ----------
    title, text : str
        ``text`` says what was done, in a sentence or two.
    claims : sequence of Claim
    tables : mapping of str to DataFrame
        By the name of their file in ``tables/``.
    figures : mapping of str to Figure
        By the name of their file in ``plots/``.
    rankings : mapping of str to Ranking
        By the name of their file in ``plots/``.
    """

    title: str
    text: str = ""
    claims: Sequence[Claim] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    rankings: Mapping[str, Ranking] = field(default_factory=dict)


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Return claims as a table; ``holds`` is yes or no."""
    table = pd.DataFrame(claims, columns=list(Claim._fields))
    return table.assign(holds=["yes" if claim.holds else "no" for claim in claims])
