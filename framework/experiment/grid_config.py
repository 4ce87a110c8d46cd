"""What an experiment compares: section ``experiment`` of a configuration, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from framework import registry
from framework.analysis.compare import Blocks
from framework.errors import InputError
from framework.registry import nearest
from framework.settings import Budget, Section

Judge = Literal["front", "returned"]
Records = Literal["validation", "test"]


class ReferenceConfig(Section):
    """A search whose front the runs of a case are measured against, such as an exact one.

    algorithm : its section, ``{kind: exact}`` say.
    budget : its own; that of the experiment by default.
    """

    algorithm: dict[str, Any]
    budget: Budget | None = None


class GridConfig(Section):
    """Section ``experiment``.

    cases : by name, dotted keys of the configuration and their values. ``config: FILE`` takes
        problem, objectives and constraints of another configuration; ``methods: {LABEL: {...}}``
        gives methods other parameters in this case. Without cases the configuration itself is the
        only one.
    product : dotted keys and lists of values; every case with every combination of them.
    methods : by label, sections ``algorithm``.
    repeats : runs of each method on each case, with other seeds.
    indicators : what tables and figures show, the first one above all.
    judge : whether the front of everything that a run evaluated is judged, or what the method
        returns by its own definition (the front where it defines nothing else).
    records : whether solutions are judged by their values on validation or on test records.
    blocks : what tests take as a block: cases, with the mean over their runs (``auto`` where there
        are several), or runs.
    reference : whose front is measured against; that of all runs of a case by default.
    paper : published values by case, method and indicator, shown beside ours.
    """

    cases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    product: dict[str, list[Any]] = Field(default_factory=dict)
    methods: dict[str, dict[str, Any]] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1)
    indicators: list[str] = Field(default=["hypervolume", "igd_plus", "share"], min_length=1)
    judge: Judge = "front"
    blocks: Blocks = "auto"
    records: Records = "validation"
    reference: ReferenceConfig | None = None
    paper: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)

    @field_validator("product")
    @classmethod
    def _has_values(cls, product: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in product.items():
            if not values or len(set(map(repr, values))) < len(values):
                raise ValueError(f"expected different values for {key}, found {values}")
        return product


def check_indicators(names: Sequence[str], where: str) -> None:
    """Check that indicators are registered.

    Raises
    ------
    InputError
        One is not.
    """
    known = registry.names("indicators")
    for name in names:
        if name not in known:
            raise InputError(
                f"{where}: expected one of {', '.join(known)}; found {name!r}{nearest(name, known)}"
            )


def check_names(section: GridConfig, cases: Mapping[str, Any], where: str) -> None:
    """Check that indicators, and what the paper's values are of, exist.

    Raises
    ------
    InputError
        A name is unknown, a line each.
    """
    indicators = registry.names("indicators")
    wanted = [
        (f"{where}.indicators.{i}", name, indicators) for i, name in enumerate(section.indicators)
    ]
    for case, methods in section.paper.items():
        wanted.append((f"{where}.paper", case, list(cases)))
        for method, values in methods.items():
            wanted.append((f"{where}.paper.{case}", method, list(section.methods)))
            wanted += [(f"{where}.paper.{case}.{method}", name, indicators) for name in values]
    found = [
        f"{place}: expected one of {', '.join(known)}; found {name!r}{nearest(name, known)}"
        for place, name, known in wanted
        if name not in known
    ]
    if found:
        raise InputError("\n".join(found))
