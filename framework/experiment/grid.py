"""The grid of an experiment: cases x methods x repeats, each cell a run with a directory."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from framework.errors import InputError
from framework.experiment.config import (
    RunConfig,
    check,
    check_config,
    noting,
    override,
    put,
    read_yaml,
    section,
)
from framework.experiment.grid_config import GridConfig, check_names
from framework.registry import nearest
from framework.streams import repeat_seed

_OF_A_FILE = ("problem", "objectives", "constraints")  # what `config: FILE` of a case takes
_NOT_OF_A_CASE = ("name", "algorithm", "repeats", "workers", "tracking", "experiment")
_ONLY = "configured"  # the name of the only case of a configuration without cases


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


@dataclass(frozen=True)
class Grid:
    """A checked experiment.

    Attributes
    ----------
    section : GridConfig
        What is compared, and how.
    cases : mapping of str to RunConfig
        By name; their algorithm is that of the first method.
    own : mapping
        By case and label, sections ``algorithm`` of methods that a case gives other parameters.
    """

    section: GridConfig
    cases: Mapping[str, RunConfig]
    own: Mapping[str, Mapping[str, dict[str, Any]]] = field(default_factory=dict)

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
        if reference is not None:
            budget = {"budget": reference.budget} if reference.budget else {}
            changed = config.model_copy(update={"algorithm": reference.algorithm, **budget})
            yield Cell(case, None, 0, changed, f"references/{slug(case)}")
        for method, usual in self.section.methods.items():
            algorithm = self.own.get(case, {}).get(method, usual)
            for repeat in range(self.section.repeats):
                seed = repeat_seed(config.seed, repeat)
                changed = config.model_copy(update={"algorithm": algorithm, "seed": seed})
                place = f"cells/{slug(case)}/{slug(method)}/{repeat:03d}"
                yield Cell(case, method, repeat, changed, place)

    def dump(self) -> str:
        """Return it as YAML that :func:`reload_grid` reads, from whichever folder."""
        cases = {name: config.model_dump(mode="json") for name, config in self.cases.items()}
        tree = {
            "experiment": self.section.model_dump(mode="json", exclude={"cases", "product"}),
            "cases": cases,
            "own_methods": {case: dict(methods) for case, methods in self.own.items()},
        }
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def load_grid(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    repeats: int | None = None,
    **top_level: Any,
) -> Grid:
    """Read and check a configuration with a section ``experiment``.

    Parameters
    ----------
    path : pathlib.Path
    overrides : sequence of 'dotted.key=value'
    repeats : int, optional
        Instead of the section's.
    **top_level
        Further top-level keys (``seed``, ``workers``); None is ignored.

    Raises
    ------
    InputError
        Whatever is wrong with it, a line a mistake. The data are not looked at.
    """
    raw = read_yaml(path)
    for text in overrides:
        override(raw, text)
    raw |= {key: value for key, value in top_level.items() if value is not None}
    own = raw.pop("experiment", None)
    if not isinstance(own, dict):
        raise InputError(f"{path}: experiment: expected a section (keys and values), found {own!r}")
    own |= {} if repeats is None else {"repeats": repeats}
    for key, instead in (("algorithm", "methods"), ("repeats", "repeats"), ("sweep", "methods")):
        if key in raw:
            raise InputError(f"{path}: {key}: expected in experiment.{instead}, found beside it")
    grid: GridConfig = check(GridConfig, own, f"{path}: experiment")
    found: list[str] = []
    with noting(found):
        grid = _with_methods(grid, path)
    first = next(iter(grid.methods.values()))
    cases: dict[str, RunConfig] = {}
    with noting(found):
        _check_keys(grid, f"{path}: experiment")
        cases = _checked_cases(raw | {"algorithm": first}, grid, path, bool(found))
    if cases:
        with noting(found):
            check_names(grid, cases, f"{path}: experiment")
    own = {}
    with noting(found):
        own = _own_methods(grid, list(cases), path)
    if found:
        raise InputError("\n".join(dict.fromkeys(found)))
    return Grid(grid, cases, own)


def reload_grid(path: Path, overrides: Sequence[str] = (), **top_level: Any) -> Grid:
    """Read what :meth:`Grid.dump` returned; ``overrides`` may change keys of ``experiment``.

    Raises
    ------
    InputError
        It is none, or an override would make another experiment of it.
    """
    raw = read_yaml(path)
    changes = {key: value for key, value in top_level.items() if value is not None}
    for text in overrides:
        if not text.startswith("experiment."):
            raise InputError(
                f"--set {text}: expected a key of the section experiment, such as "
                "experiment.repeats=20, found another; start a new experiment for the rest"
            )
        override(raw, text)
    if not isinstance(raw.get("experiment"), dict) or not isinstance(raw.get("cases"), dict):
        raise InputError(f"{path}: expected the experiment of a directory, found another file")
    grid: GridConfig = check(GridConfig, raw["experiment"], f"{path}: experiment")
    cases = {
        name: check(RunConfig, config | changes, f"{path}: cases.{name}")
        for name, config in raw["cases"].items()
    }
    grid = _with_methods(grid, path)
    check_names(grid, cases, f"{path}: experiment")
    return Grid(grid, cases, raw.get("own_methods") or {})


def slug(name: str) -> str:
    """Return a name as a folder's: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")


def _with_methods(grid: GridConfig, path: Path) -> GridConfig:
    """Return the section with the methods' defaults."""
    found: list[str] = []
    methods: dict[str, dict[str, Any]] = {}
    for label, raw in grid.methods.items():
        where = f"{path}: experiment.methods.{label}"
        with noting(found):
            methods[label] = section("algorithms", raw, where, base=path.parent)
    reference = grid.reference
    if reference is not None:
        where = f"{path}: experiment.reference.algorithm"
        with noting(found):
            algorithm = section("algorithms", reference.algorithm, where, base=path.parent)
            reference = reference.model_copy(update={"algorithm": algorithm})
    with noting(found):
        _folders(grid.methods, f"{path}: experiment.methods")
    if found:
        raise InputError("\n".join(found))
    return grid.model_copy(update={"methods": methods, "reference": reference})


def _folders(names: Mapping[str, Any], where: str) -> None:
    """Check that names make folders of their own."""
    seen: dict[str, str] = {}
    for name in names:
        folder = slug(name).lower()
        if not folder:
            raise InputError(f"{where}: expected a name with a letter or digit, found {name!r}")
        if folder in seen:
            raise InputError(
                f"{where}: expected names that differ in letters or digits, found {seen[folder]!r} "
                f"and {name!r}"
            )
        seen[folder] = name


def _own_methods(
    grid: GridConfig, cases: Sequence[str], path: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the sections of methods that a case gives other parameters, checked."""
    found: list[str] = []
    own: dict[str, dict[str, dict[str, Any]]] = {}
    for (name, change), crossed in zip(
        grid.cases.items(), _crossings(list(cases), len(grid.cases)), strict=True
    ):
        where = f"{path}: experiment.cases.{name}.methods"
        for label, parameters in dict(change.get("methods") or {}).items():
            with noting(found):
                if label not in grid.methods:
                    known = ", ".join(grid.methods)
                    raise InputError(
                        f"{where}: expected one of {known}; found {label!r}"
                        f"{nearest(label, grid.methods)}"
                    )
                raw = grid.methods[label] | dict(parameters)
                checked = section("algorithms", raw, f"{where}.{label}", base=path.parent)
                for case in crossed:
                    own.setdefault(case, {})[label] = checked
    if found:
        raise InputError("\n".join(found))
    return own


def _crossings(cases: Sequence[str], given: int) -> list[Sequence[str]]:
    """Return the cases that each of the ``given`` became in the product."""
    each = len(cases) // given if given else 0
    return [cases[i * each : (i + 1) * each] for i in range(given)]


def _check_keys(grid: GridConfig, where: str) -> None:
    """Check that cases leave alone what they have no say in."""
    places = {f"cases.{name}": change for name, change in grid.cases.items()}
    for place, change in (places | {"product": grid.product}).items():
        for key in change:
            if key.partition(".")[0] in _NOT_OF_A_CASE:
                raise InputError(
                    f"{where}.{place}: expected keys of problem, objectives, constraints, budget "
                    f"or seed, found {key!r}"
                )


def _checked_cases(
    raw: Mapping[str, Any], grid: GridConfig, path: Path, bad_methods: bool
) -> dict[str, RunConfig]:
    """Check the configuration of each case; what is wrong with all is said once.

    Where methods are wrong, that was said already.
    """
    cases: dict[str, RunConfig] = {}
    mistakes: dict[str, list[str]] = {}
    changes = _product(grid)
    _folders(changes, f"{path}: experiment.cases")
    for name, change in changes.items():
        found: list[str] = []
        with noting(found):
            cases[name] = _case(raw, change, path)
        if found:
            lines = [line for text in found for line in text.splitlines()]
            known = [": algorithm" in line and bad_methods for line in lines]
            own = [line for line, old in zip(lines, known, strict=True) if not old]
            mistakes |= {name: own} if own else {}
    if mistakes:
        every = set.intersection(*map(set, mistakes.values())) if not cases else set()
        lines = [
            line if line in every else f"{path}: experiment.cases.{name}: {_said(line, path)}"
            for name, own in mistakes.items()
            for line in own
        ]
        raise InputError("\n".join(dict.fromkeys(lines)))
    return cases


def _said(line: str, path: Path) -> str:
    return line.removeprefix(f"{path}: ").removeprefix("--set ")


def _product(grid: GridConfig) -> dict[str, dict[str, Any]]:
    """Return the changes of each case, crossed with the product."""
    cases = grid.cases or {_ONLY: {}}
    if not grid.product:
        return cases
    ends = {key: key.rpartition(".")[2] for key in grid.product}
    if len(set(ends.values())) < len(ends):
        ends = {key: key for key in grid.product}
    crossed = {}
    for name, change in cases.items():
        for values in itertools.product(*grid.product.values()):
            chosen = dict(zip(grid.product, values, strict=True))
            text = " ".join(f"{ends[key]}={value}" for key, value in chosen.items())
            crossed[text if name == _ONLY else f"{name} {text}"] = change | chosen
    return crossed


def _case(raw: Mapping[str, Any], change: Mapping[str, Any], path: Path) -> RunConfig:
    """Return the checked configuration of a case."""
    own: dict[str, Any] = copy.deepcopy(dict(raw))
    change = {key: value for key, value in change.items() if key != "methods"}
    place = path
    if "config" in change:
        place = path.parent / str(change.pop("config"))
        given = read_yaml(place)
        own = _over({key: given[key] for key in _OF_A_FILE if key in given}, own)
    for key, value in change.items():
        put(own, key, value)
    return check_config(own, place)


def _over(below: Any, above: Any) -> Any:
    """Return one tree laid over another; what is no mapping in both is that of ``above``."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = {key: _over(below[key], above[key]) if key in below else above[key] for key in above}
    return {**below, **merged}


def _text(config: RunConfig) -> str:
    kept = config.identity() | {"budget": config.budget.model_dump(mode="json")}
    return json.dumps(kept, sort_keys=True, default=str)
