"""The grid of an experiment: cases x methods x repeats, each cell a run with a directory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from framework.experiment.config import RunConfig, with_horizon
from framework.experiment.grid_config import GridConfig
from framework.settings import Budget
from framework.streams import repeat_seed

_BESIDE = ("problem", "budget")  # what a method may have beside parameters of its algorithm


@dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes
    ----------
    case, method : str
        Names in the configuration; the method is None for the reference of the case.
    repeat : int
        From 0.
    config : RunConfig
    place : str
        Its directory within the experiment's.
    """

    case: str
    method: str | None
    repeat: int
    config: RunConfig
    place: str

    def same_run(self, other: RunConfig) -> bool:
        """Tell whether a configuration asks for the same run as this cell's."""
        return _text(self.config) == _text(other)


class Place(NamedTuple):
    """What a case is a part of.

    Attributes
    ----------
    unit : str
        What it is a fold of; its own name without folds.
    group : str
        The case, as given, that product and folds made it of.
    """

    unit: str
    group: str


@dataclass(frozen=True)
class Method:
    """A checked method.

    Attributes
    ----------
    algorithm : dict
        Section ``algorithm``.
    problem : dict
        Keys of section ``problem`` that it needs otherwise.
    budget : Budget or None
        Its own.
    """

    algorithm: dict[str, Any]
    problem: dict[str, Any] = field(default_factory=dict)
    budget: Budget | None = None

    def of(self, config: RunConfig, seed: int) -> RunConfig:
        """Return the configuration of a run of it on a case."""
        budget = self.budget or config.budget
        algorithm = with_horizon(self.algorithm, budget)
        changes = {"algorithm": algorithm, "budget": budget, "seed": seed}
        return config.model_copy(
            update=changes | ({"problem": self.problem} if self.problem else {})
        )

    def dump(self) -> dict[str, Any]:
        """Return it as the content of a YAML file."""
        budget = {"budget": self.budget.model_dump(mode="json")} if self.budget else {}
        problem = {"problem": self.problem} if self.problem else {}
        return {"algorithm": self.algorithm, **problem, **budget}


@dataclass(frozen=True)
class Grid:
    """A checked experiment.

    Attributes
    ----------
    section : GridConfig
        What is compared, and how.
    cases : mapping of str to RunConfig
        By name; their algorithm is that of the first method.
    places : mapping of str to Place
        What each case is a part of.
    own : mapping
        By case and label, methods that are others than usual in a case.
    """

    section: GridConfig
    cases: Mapping[str, RunConfig]
    places: Mapping[str, Place]
    own: Mapping[str, Mapping[str, Method]] = field(default_factory=dict)

    @property
    def base(self) -> RunConfig:
        """The configuration of the first case: name, workers and tracking are that of all."""
        return next(iter(self.cases.values()))

    def cells(self) -> list[Cell]:
        """Return the cells, case by case; the reference of a case before its methods."""
        return [cell for case in self.cases for cell in self._of(case)]

    def _of(self, case: str) -> Iterator[Cell]:
        config = self.cases[case].model_copy(update={"repeats": 1, "workers": "serial"})
        reference = self.section.reference
        if reference is not None and reference.algorithm is not None:
            budget = {"budget": reference.budget} if reference.budget else {}
            changed = config.model_copy(update={"algorithm": reference.algorithm, **budget})
            yield Cell(case, None, 0, changed, f"references/{slug(case)}")
        for label, raw in self.section.methods.items():
            method = self.own.get(case, {}).get(label) or usual_method(raw)
            for repeat in range(self.section.repeats):
                changed = method.of(config, repeat_seed(config.seed, repeat))
                place = f"cells/{slug(case)}/{slug(label)}/{repeat:03d}"
                yield Cell(case, label, repeat, changed, place)

    def dump(self) -> str:
        """Return it as YAML that :func:`reload_grid` reads, from whichever folder."""
        cases = {name: config.model_dump(mode="json") for name, config in self.cases.items()}
        own = {
            case: {label: method.dump() for label, method in methods.items()}
            for case, methods in self.own.items()
        }
        tree = {
            "experiment": self.section.model_dump(
                mode="json", exclude={"cases", "product", "folds", "protocols"}
            ),
            "cases": cases,
            "parts_of": {case: list(place) for case, place in self.places.items()},
            "own_methods": own,
        }
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def slug(name: str) -> str:
    """Return a name as a folder's: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")


def parts_of_method(raw: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the section ``algorithm`` of a method, and what stands beside its parameters."""
    algorithm = {key: value for key, value in raw.items() if key not in _BESIDE}
    return algorithm, {key: raw[key] for key in _BESIDE if raw.get(key) is not None}


def usual_method(raw: Mapping[str, Any]) -> Method:
    """Return a checked method of the section as it is in most cases."""
    algorithm, beside = parts_of_method(raw)
    budget = beside.get("budget")
    return Method(algorithm, {}, None if budget is None else Budget.model_validate(budget))


def _text(config: RunConfig) -> str:
    kept = config.identity() | {"budget": config.budget.model_dump(mode="json")}
    return json.dumps(kept, sort_keys=True, default=str)
