"""An experiment as a grid: cases x methods x repeats, each a run with a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import yaml
from pydantic import ConfigDict, Field, SerializeAsAny, field_validator, model_validator

from framework import registry
from framework.analysis.compare import Blocks
from framework.analysis.indicators import ON_NEW_RECORDS
from framework.analysis.report import ClaimConfig
from framework.errors import InputError
from framework.experiment.config import RunConfig, check, readable, with_horizon
from framework.experiment.options import AlgorithmOptions, ProblemOptions
from framework.experiment.run_dir import slug
from framework.registry import nearest
from framework.settings import Budget, Section
from framework.streams import repeat_seed

_OF_A_CASE = ("problem", "objectives", "constraints", "budget", "seed", "memory_limit")
_ALONE = {"repeats": 1, "workers": "serial"}  # of a run that is one of several
Judge = Literal["front", "returned"]
Records = Literal["validation", "test"]


class ReferenceConfig(Section):
    """What the runs of a case are measured against: the front of a search, or the true front.

    algorithm : section of a search, ``{kind: exact}`` say.
    budget : its own; that of the experiment by default.
    points : instead of a search, so many points of the true front of a problem that knows it.
    """

    algorithm: SerializeAsAny[AlgorithmOptions] | None = None
    budget: Budget | None = None
    points: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _one_of_both(self) -> ReferenceConfig:
        if (self.algorithm is None) == (self.points is None):
            raise ValueError("expected either algorithm or points, found both or neither")
        return self


class MethodOptions(AlgorithmOptions):
    """A method of an experiment: a section ``algorithm``, and what else is different in its runs.

    problem : keys of the section ``problem`` that are different for this method; ``null`` takes one
        away.
    budget : its own; that of the experiment by default.
    """

    _group: ClassVar[registry.Group] = "algorithms"

    problem: dict[str, Any] | None = None
    budget: Budget | None = None

    @property
    def search(self) -> AlgorithmOptions:
        """The section ``algorithm`` of its runs."""
        model = AlgorithmOptions.of_kind(self.kind)
        return model.model_construct(**{k: v for k, v in self if k in model.model_fields})


class CaseConfig(Section):
    """A case: dotted keys of the configuration and their values.

    config : file from which it takes problem, objectives and constraints.
    methods : other parameters of methods in this case, or another ``kind``.
    """

    model_config = ConfigDict(extra="allow")

    config: str = ""
    methods: dict[str, str | dict[str, Any] | None] | None = None

    @model_validator(mode="after")
    def _known(self) -> CaseConfig:
        _check_keys(self.model_extra or ())
        return self


def _check_keys(keys: Iterable[str]) -> None:
    """Refuse dotted keys that cases, product and folds cannot change."""
    allowed = [*_OF_A_CASE, *CaseConfig.model_fields]
    wrong = [key for key in keys if key.partition(".")[0] not in allowed]
    if wrong:
        near = nearest(wrong[0].partition(".")[0], allowed)
        names = ", ".join(map(repr, wrong))
        raise ValueError(f"expected keys of {', '.join(allowed)}; found {names}{near}")


class CasesConfig(Section):
    """The keys of the section ``experiment`` that make its cases.

    cases : by name, dotted keys of the configuration and their values; without cases the
        configuration itself is the only one.
    product : dotted keys and lists of values; every case with every combination of them.
    folds : the same, for parts of one measurement: values are averaged over them before means,
        intervals and tests are computed.
    folder : paths are relative to it, not to the file's; written into an experiment's directory.
    files : by path as cases name it, what they take from files; written there as well.
    """

    cases: dict[str, CaseConfig] = Field(default_factory=dict)
    product: dict[str, list[Any]] = Field(default_factory=dict)
    folds: dict[str, list[Any]] = Field(default_factory=dict)
    folder: str = ""
    files: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @field_validator("product", "folds")
    @classmethod
    def _has_values(cls, product: dict[str, list[Any]]) -> dict[str, list[Any]]:
        _check_keys(product)
        for key, values in product.items():
            if not values or len(set(map(repr, values))) < len(values):
                raise ValueError(f"expected different values for {key}, found {values}")
        return product


def cases_of(section: Mapping[str, Any], where: str) -> CasesConfig:
    """Return the keys of a section ``experiment`` that make its cases, checked."""
    keys = {key: value for key, value in section.items() if key in CasesConfig.model_fields}
    return check(CasesConfig, keys, where)


class GridConfig(CasesConfig):
    """Section ``experiment``.

    methods : by label, sections ``algorithm``. Beside its parameters, a method may have ``problem``
        and ``budget``.
    repeats : runs of each method on each case, with other seeds.
    indicators : what tables and figures show, the first one above all.
    judge : whether the front of everything that a run evaluated is judged, or what the method
        returns by its own definition (the front where it defines nothing else).
    records : whether solutions are judged by their values on validation or on test records.
    blocks : what tests take as a block: scenarios (the cases as given, with the mean over all that
        product and folds make of them), cases, with the mean over their runs (``auto`` where there
        are several), or runs.
    reference : the front that others are measured against; that of all runs of a case by default.
    paper : published values by case or scenario, method and indicator, shown beside ours.
    claims : statements on the methods, and how the means tell whether they hold.
    protocols : by name, dotted keys of the whole file and their values, such as more repeats.
    protocol : which of them is followed; the file as it is if None.
    pages : names of what packages add to the report (claims, tables, figures of one paper).
    """

    methods: dict[str, SerializeAsAny[MethodOptions]] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1)
    indicators: list[str] = Field(
        default=["hypervolume", "igd_plus", "share", *ON_NEW_RECORDS], min_length=1
    )
    judge: Judge = "front"
    blocks: Blocks = "auto"
    records: Records = "validation"
    reference: ReferenceConfig | None = None
    paper: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    claims: list[ClaimConfig] = Field(default_factory=list)
    pages: list[str] = Field(default_factory=list)
    protocols: dict[str, dict[str, Any]] = Field(default_factory=dict)
    protocol: str | None = None


def check_names(
    section: GridConfig, cases: Mapping[str, RunConfig], scenarios: Iterable[str], where: str
) -> None:
    """Check the names of indicators and pages, and those that values and claims are of.

    Indicators may be metrics, which a problem may have more of than its class lists: here a name is
    unknown only if it is very similar to a listed one; the others are checked once the problem is
    made. Pages check whether they can be made of these cases.

    Raises
    ------
    InputError
        Names are unknown; the message has a line for each.
    """
    indicators = registry.names("indicators")
    for case in cases.values():
        listed = [metric.name for metric in case.problem.registered_class.known_metrics]
        used = [*(o.metric for o in case.objectives), *(c.metric for c in case.constraints)]
        indicators = [*dict.fromkeys([*indicators, *listed, *used])]
    places, methods = [*dict.fromkeys([*scenarios, *cases])], list(section.methods)
    wanted = [(f"{where}.pages", name, registry.names("pages")) for name in section.pages]
    measured = [(f"{where}.indicators.{i}", name) for i, name in enumerate(section.indicators)]
    for place, values_of in section.paper.items():
        wanted.append((f"{where}.paper", place, places))
        for method, values in values_of.items():
            wanted.append((f"{where}.paper.{place}", method, methods))
            measured += [(f"{where}.paper.{place}.{method}", name) for name in values]
    for i, claim in enumerate(section.claims):
        wanted += [(f"{where}.claims.{i}", name, methods) for name in claim.methods]
        wanted += [
            (f"{where}.claims.{i}.scenarios", name, list(scenarios))
            for name in claim.scenarios or ()
        ]
        wanted.append((f"{where}.claims.{i}.indicator", claim.indicator, section.indicators))
    wanted += [
        (place, name, indicators)
        for place, name in measured
        if nearest(name.partition(":")[0], indicators, 0.8)
        and name.partition(":")[0] not in indicators
    ]
    messages = [
        f"{place}: expected one of {', '.join(names)}; found {name!r}{nearest(name, names)}"
        for place, name, names in wanted
        if name not in names
    ]
    if messages:
        raise InputError("\n".join(messages))
    for name in section.pages:
        check = getattr(registry.load("pages", name), "check", None)
        if check is not None:
            check(cases)


@dataclass(frozen=True)
class PlannedRun:
    """One run of an experiment.

    Attributes
    ----------
    case, method : str
        Names in the configuration; the method is None for the reference of the case.
    repeat : int
        From 0.
    config : RunConfig
    directory : str
        Its directory within the experiment's.
    """

    case: str
    method: str | None
    repeat: int
    config: RunConfig
    directory: str

    def same_run(self, other: RunConfig) -> bool:
        """Return whether a configuration asks for the same run as this one."""
        same = self.config.identity() == other.identity()
        return same and self.config.budget == other.budget


class CaseOrigin(NamedTuple):
    """What a case is a part of.

    Attributes
    ----------
    unit : str
        What it is a fold of; its own name without folds.
    scenario : str
        The case in the file from which product and folds made it.
    """

    unit: str
    scenario: str


@dataclass(frozen=True)
class Method:
    """A method on a case; its problem or its budget is None where it is the one of the case."""

    algorithm: AlgorithmOptions
    problem: ProblemOptions | None = None
    budget: Budget | None = None

    def of(self, config: RunConfig, seed: int) -> RunConfig:
        """Return the configuration of a run of it on a case."""
        budget = self.budget or config.budget
        algorithm = with_horizon(self.algorithm, budget)
        problem = self.problem or config.problem
        changes = {"problem": problem, "algorithm": algorithm, "budget": budget, "seed": seed}
        return config.model_copy(update=changes)


def repeats_of(config: RunConfig) -> list[PlannedRun]:
    """Return the repeats of a run, which are an experiment of one cell."""
    label, alone = config.algorithm.kind, config.model_copy(update=_ALONE)
    cell = _cell(config.name, label, Method(config.algorithm), alone, config.repeats, "repeats")
    return list(cell)


def _cell(
    case: str, label: str, method: Method, config: RunConfig, repeats: int, folder: str
) -> Iterator[PlannedRun]:
    """Yield the runs of a method on a case, which differ in their seeds."""
    for repeat in range(repeats):
        changed = method.of(config, repeat_seed(config.seed, repeat))
        yield PlannedRun(case, label, repeat, changed, f"{folder}/{repeat:03d}")


@dataclass(frozen=True)
class Grid:
    """A checked experiment.

    Attributes
    ----------
    section : GridConfig
        What is compared, and how.
    beside : mapping
        The sections beside it, as they were written.
    cases : mapping of str to RunConfig
        By name; their algorithm is that of the first method.
    origins : mapping of str to CaseOrigin
        What each case is a part of.
    of_case : mapping
        By case and label, the methods that a case changes.
    """

    section: GridConfig
    beside: Mapping[str, Any]
    cases: Mapping[str, RunConfig]
    origins: Mapping[str, CaseOrigin]
    of_case: Mapping[str, Mapping[str, Method]] = field(default_factory=dict)

    @property
    def base(self) -> RunConfig:
        """The configuration of the first case: name, workers and tracking are that of all."""
        return next(iter(self.cases.values()))

    def runs(self) -> list[PlannedRun]:
        """Return the runs, case by case; the reference of a case before its methods."""
        return [run for case in self.cases for run in self._of(case)]

    def _of(self, case: str) -> Iterator[PlannedRun]:
        config = self.cases[case].model_copy(update=_ALONE)
        reference = self.section.reference
        if reference is not None and reference.algorithm is not None:
            budget = {"budget": reference.budget} if reference.budget else {}
            changed = config.model_copy(update={"algorithm": reference.algorithm, **budget})
            yield PlannedRun(case, None, 0, changed, f"references/{slug(case)}")
        for label, usual in self.section.methods.items():
            method = self.of_case.get(case, {}).get(label) or Method(
                usual.search, None, usual.budget
            )
            folder = f"cells/{slug(case)}/{slug(label)}"
            yield from _cell(case, label, method, config, self.section.repeats, folder)

    def dump(self) -> str:
        """Return a configuration in YAML that makes the same runs, whatever folder it lies in."""
        of_all = self.base.model_dump(mode="json", exclude={*_OF_A_CASE, "algorithm", "repeats"})
        section = self.section.model_dump(mode="json", exclude={"protocols", "protocol"})
        written = self.section.model_dump(include={*CasesConfig.model_fields}, exclude_unset=True)
        of_cases = {key: self.beside[key] for key in _OF_A_CASE if key in self.beside}
        tree = of_all | of_cases | {"experiment": section | written}
        return readable(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
