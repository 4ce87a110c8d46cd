"""The files of a comparison: its tables, and what installed packages draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from framework import registry
from framework.analysis.compare import Comparison
from framework.analysis.report import claims_table, tables
from framework.errors import InputError
from framework.files import write_whole


def write_results(comparison: Comparison, out: Path) -> list[Path]:
    """Write ``tables/*.csv``, ``report.html`` and its figures; return the paths, pages first.

    Only ``tables/seconds.csv`` depends on how fast the runs were.

    Raises
    ------
    InputError
        The directory cannot be written.
    """
    place = out / "tables"
    pages = [registry.load("pages", name)(comparison) for name in comparison.wanted_pages]
    comparison = replace(comparison, pages=pages)
    found = tables(comparison)
    for page in pages:
        found |= page.tables
    claims = [*comparison.claims, *(claim for page in pages for claim in page.claims)]
    if claims:
        found["claims"] = claims_table(claims)
    try:
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for name, table in found.items():
            write_whole(place / f"{name}.csv", table.to_csv(index=False))
            written.append(place / f"{name}.csv")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from error
    drawn: list[Path] = []
    for name in registry.names("comparisons"):
        drawn += registry.load("comparisons", name)(comparison, out)
    return [*drawn, *written]


def mean_indicators(comparison: Comparison) -> Mapping[str, Mapping[str, float]]:
    """Return each method's mean of each indicator over all its runs."""
    means = comparison.frame.groupby("method", sort=False)[list(comparison.indicators)].mean()
    return {
        str(method): {name: float(row[name]) for name in comparison.indicators}
        for method, row in means.iterrows()
    }
