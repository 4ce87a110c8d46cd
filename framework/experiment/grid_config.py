"""What an experiment compares: section ``experiment`` of a configuration, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from framework import registry
from framework.analysis.compare import Blocks
from framework.analysis.report import ClaimConfig
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.registry import nearest
from framework.settings import Budget, Section

Judge = Literal["front", "returned"]
Records = Literal["validation", "test"]


class ReferenceConfig(Section):
    """What the runs of a case are measured against: the front of a search, or the true front.

    algorithm : section of a search, ``{kind: exact}`` say.
    budget : its own; that of the experiment by default.
    points : instead of a search, so many points of the true front of a problem that knows it.
    """

    algorithm: dict[str, Any] | None = None
    budget: Budget | None = None
    points: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _one_of_both(self) -> ReferenceConfig:
        if (self.algorithm is None) == (self.points is None):
            raise ValueError("expected either algorithm or points, found both or neither")
        return self


class GridConfig(Section):
    """Section ``experiment``.

    cases : by name, dotted keys of the configuration and their values. ``config: FILE`` takes
        problem, objectives and constraints of another configuration; ``methods: {LABEL: {...}}``
        gives methods other parameters in this case, or another ``kind``. Without cases the
        configuration itself is the only one.
    product : dotted keys and lists of values; every case with every combination of them.
    folds : the same, but parts of one measurement: whatever is measured is averaged over them
        before there are means, intervals and tests.
    methods : by label, sections ``algorithm``. Beside its parameters, ``problem`` has keys of the
        section ``problem`` that this method needs otherwise (``null`` takes one away), ``budget``
        a budget of its own.
    repeats : runs of each method on each case, with other seeds.
    indicators : what tables and figures show, the first one above all.
    judge : whether the front of everything that a run evaluated is judged, or what the method
        returns by its own definition (the front where it defines nothing else).
    records : whether solutions are judged by their values on validation or on test records.
    blocks : what tests take as a block: groups (the cases as given, with the mean over all that
        product and folds make of them), cases, with the mean over their runs (``auto`` where there
        are several), or runs.
    reference : whose front is measured against; that of all runs of a case by default.
    paper : published values by case or group, method and indicator, shown beside ours.
    claims : what is said of the methods, and how the means tell whether it holds.
    protocols : by name, dotted keys of the whole file and their values, such as more repeats.
    protocol : which of them is followed; the file as it is if None.
    pages : names of what packages add to the report (claims, tables, figures of one paper).
    """

    cases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    product: dict[str, list[Any]] = Field(default_factory=dict)
    folds: dict[str, list[Any]] = Field(default_factory=dict)
    methods: dict[str, dict[str, Any]] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1)
    indicators: list[str] = Field(default=["hypervolume", "igd_plus", "share"], min_length=1)
    judge: Judge = "front"
    blocks: Blocks = "auto"
    records: Records = "validation"
    reference: ReferenceConfig | None = None
    paper: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    claims: list[ClaimConfig] = Field(default_factory=list)
    pages: list[str] = Field(default_factory=list)
    protocols: dict[str, dict[str, Any]] = Field(default_factory=dict)
    protocol: str | None = None

    @field_validator("product", "folds")
    @classmethod
    def _has_values(cls, product: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in product.items():
            if not values or len(set(map(repr, values))) < len(values):
                raise ValueError(f"expected different values for {key}, found {values}")
        return product


def check_names(
    section: GridConfig, cases: Mapping[str, RunConfig], groups: Iterable[str], where: str
) -> None:
    """Check that indicators, and what values and claims are of, exist.

    A problem that does not list its metrics may have any: its indicators are looked at once it is
    made.

    Raises
    ------
    InputError
        A name is unknown, a line each.
    """
    indicators, listed = registry.names("indicators"), True
    for kind in dict.fromkeys(str(config.problem["kind"]) for config in cases.values()):
        metrics = [m.name for m in registry.load("problems", kind).known_metrics]
        indicators += [name for name in metrics if name not in indicators]
        listed &= bool(metrics)
    places, methods = [*dict.fromkeys([*groups, *cases])], list(section.methods)
    wanted = [(f"{where}.pages", name, registry.names("pages")) for name in section.pages]
    measured = [(f"{where}.indicators.{i}", name) for i, name in enumerate(section.indicators)]
    for case, values_of in section.paper.items():
        wanted.append((f"{where}.paper", case, places))
        for method, values in values_of.items():
            wanted.append((f"{where}.paper.{case}", method, methods))
            measured += [(f"{where}.paper.{case}.{method}", name) for name in values]
    for i, claim in enumerate(section.claims):
        wanted += [(f"{where}.claims.{i}", name, methods) for name in claim.methods]
        wanted += [
            (f"{where}.claims.{i}.groups", name, list(groups)) for name in claim.groups or ()
        ]
        wanted.append((f"{where}.claims.{i}.indicator", claim.indicator, section.indicators))
    wanted += [(place, name, indicators) for place, name in measured if listed]
    found = [
        f"{place}: expected one of {', '.join(known)}; found {name!r}{nearest(name, known)}"
        for place, name, known in wanted
        if name not in known
    ]
    if found:
        raise InputError("\n".join(found))
