"""Reads an experiment: the section ``experiment`` of a configuration, all errors at once."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from framework.errors import InputError
from framework.experiment.config import (
    RunConfig,
    check,
    check_command,
    flatten,
    noting,
    override,
    put,
    read_yaml,
)
from framework.experiment.grid import (
    CaseOrigin,
    Grid,
    GridConfig,
    Method,
    check_names,
    in_full,
    parts_of_method,
)
from framework.experiment.options import AlgorithmOptions, ProblemOptions
from framework.experiment.run_dir import slug
from framework.registry import nearest
from framework.security import note_configuration, received
from framework.settings import Budget

_OF_A_FILE = ("problem", "objectives", "constraints")  # what `config: FILE` of a case takes
_NOT_OF_A_CASE = ("name", "algorithm", "repeats", "workers", "tracking", "cluster", "experiment")
_ONLY = "configured"  # the name of the only case of a configuration without cases


def load_grid(
    path: Path, overrides: Sequence[str] = (), *, repeats: int | None = None, **top_level: Any
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
        Whatever is wrong with it, one line for each error. The data are not looked at.
    """
    raw = read_yaml(path, overrides)
    check_command(raw, path, "experiment")
    _follow_protocol(raw, path)
    override(raw, overrides)  # again, as they count more than the protocol
    with received(path, overrides, dict(raw)):
        return _checked_grid(raw, path, repeats, top_level)


def _checked_grid(
    raw: dict[str, Any], path: Path, repeats: int | None, top_level: Mapping[str, Any]
) -> Grid:
    raw |= {key: value for key, value in top_level.items() if value is not None}
    section = raw.pop("experiment")
    section |= {} if repeats is None else {"repeats": repeats}
    for key, instead in (("algorithm", "methods"), ("repeats", "repeats"), ("sweep", "methods")):
        if key in raw:
            raise InputError(f"{path}: {key}: expected in experiment.{instead}, found beside it")
    grid = check(GridConfig, section, f"{path}: experiment", {"base": path.parent})
    messages: list[str] = []
    usual: dict[str, Method] = {}
    with noting(messages):
        usual = _usual_methods(grid, path)
    first = next(iter(grid.methods.values()))
    crossed = _crossed(grid, str(raw.get("name")))
    origins = {name: case.origin for name, case in crossed.items()}
    cases: dict[str, RunConfig] = {}
    with noting(messages):
        _check_keys(grid, f"{path}: experiment")
        _folders(crossed, f"{path}: experiment.cases")
        whole = raw | {"algorithm": parts_of_method(first)[0]}
        cases = _checked_cases(whole, crossed, path, bool(messages))
    methods: dict[str, dict[str, Method]] = {}
    if cases:
        scenarios = dict.fromkeys(origin.scenario for origin in origins.values())
        with noting(messages):
            check_names(grid, cases, scenarios, f"{path}: experiment")
        with noting(messages):
            methods = _own_methods(grid, raw, crossed, path)
    if messages:
        raise InputError("\n".join(dict.fromkeys(messages)))
    return Grid(grid, cases, origins, usual, methods)


def resumed_grid(path: Path, overrides: Sequence[str], **top_level: Any) -> Grid:
    """Read the experiment of a directory, to go on with it; see :func:`load_grid`.

    Raises
    ------
    InputError
        An override would make another experiment of it.
    """
    for text in overrides:
        if not text.startswith(("experiment.", "cluster.")):
            raise InputError(
                f"--set {text}: expected a key of the section experiment, such as "
                "experiment.repeats=20, found another; start a new experiment for the rest"
            )
    return load_grid(path, overrides, **top_level)


def _usual_methods(grid: GridConfig, path: Path) -> dict[str, Method]:
    """Return the methods as they are unless a case changes them, checked."""
    messages: list[str] = []
    methods: dict[str, Method] = {}
    for label, raw in grid.methods.items():
        where = f"{path}: experiment.methods.{label}"
        with noting(messages):
            methods[label] = _checked_method(raw, where, path.parent)
    with noting(messages):
        _folders(grid.methods, f"{path}: experiment.methods")
    if messages:
        raise InputError("\n".join(messages))
    return methods


def _folders(names: Mapping[str, Any], where: str) -> None:
    """Check that each name makes a folder of its own."""
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
    grid: GridConfig, raw: Mapping[str, Any], crossed: Mapping[str, _Crossed], path: Path
) -> dict[str, dict[str, Method]]:
    """Return the methods that a case changes, by case and label, checked."""
    messages: list[str] = []
    by_case: dict[str, dict[str, Method]] = defaultdict(dict)
    for case, (case_label, change, *_) in crossed.items():
        where = f"{path}: experiment.cases.{case_label}.methods"
        changes = change.get("methods") or {}
        if not isinstance(changes, dict):
            messages.append(f"{where}: expected changes by method, found {changes!r}")
            continue
        changes = in_full(changes)
        for label, changed in changes.items():
            if not isinstance(changed, dict | None):
                messages.append(f"{where}.{label}: expected keys of a method, found {changed!r}")
                changes[label] = {}
            if label not in grid.methods:
                names = ", ".join(grid.methods)
                messages.append(
                    f"{where}: expected one of {names}; found {label!r}"
                    f"{nearest(label, grid.methods)}"
                )
        differing = [n for n, m in grid.methods.items() if n in changes or "problem" in m]
        if not differing:
            continue
        tree, place = _raw_case(raw, change, path)
        for label in differing:
            method = _changed(grid.methods[label], dict(changes.get(label) or {}))
            problem = tree.get("problem") or {}, place.parent
            with noting(messages):
                by_case[case][label] = _checked_method(
                    method, f"{where}.{label}", path.parent, *problem
                )
    if messages:
        raise InputError("\n".join(dict.fromkeys(messages)))
    return dict(by_case)


def _changed(usual: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method with the changes of a case; with another kind, it has these keys alone."""
    if changes.get("kind", usual["kind"]) != usual["kind"]:
        return dict(changes)
    return dict(_over(usual, changes))


def _checked_method(
    raw: Mapping[str, Any], where: str, base: Path, problem: Any = None, data: Path | None = None
) -> Method:
    """Return a checked method; if it has keys of the problem, with that of a case, ``problem``.

    ``base`` and ``data`` are the folders that paths of algorithm and problem are relative to.
    """
    section, beside = parts_of_method(raw)
    algorithm = check(AlgorithmOptions, section, where, {"base": base})
    keys, budget, options = beside.get("problem", {}), beside.get("budget"), None
    if not isinstance(keys, dict):
        raise InputError(f"{where}.problem: expected keys of the section problem, found {keys!r}")
    if "problem" in beside and problem is not None:
        merged = {key: value for key, value in _over(problem, keys).items() if value is not None}
        options = check(ProblemOptions, merged, f"{where}.problem", {"base": data})
    return Method(algorithm, options, budget and check(Budget, budget, f"{where}.budget"))


def _check_keys(grid: GridConfig, where: str) -> None:
    """Refuse keys that cases, product and folds cannot change."""
    places = {f"cases.{name}": change for name, change in grid.cases.items()}
    for place, change in (places | {"product": grid.product, "folds": grid.folds}).items():
        for key in change:
            if key.partition(".")[0] in _NOT_OF_A_CASE:
                raise InputError(
                    f"{where}.{place}: expected keys of problem, objectives, constraints, budget "
                    f"or seed, found {key!r}"
                )


def _checked_cases(
    raw: Mapping[str, Any], crossed: Mapping[str, _Crossed], path: Path, bad_methods: bool
) -> dict[str, RunConfig]:
    """Return the configuration of each case, checked; an error of all cases is told once.

    With ``bad_methods``, errors of the algorithm were told already.
    """
    cases: dict[str, RunConfig] = {}
    errors: dict[str, list[str]] = {}
    for name, case in crossed.items():
        messages: list[str] = []
        with noting(messages):
            cases[name] = check(RunConfig, *_raw_case(raw, case.change, path))
        texts = [line for text in messages for line in text.splitlines()]
        lines = [_placed(line, case, raw, path) for line in texts]
        fresh = [line for line in lines if not (bad_methods and ": algorithm" in line)]
        errors |= {name: fresh} if fresh else {}
    if errors:
        every = set.intersection(*map(set, errors.values())) if not cases else set()
        whole = (f"{path}: experiment.", *every)  # said as it is
        lines = [
            line
            if line.startswith(whole)
            else f"{path}: experiment.cases.{name}: {line.removeprefix(f'{path}: ')}"
            for name, fresh in errors.items()
            for line in fresh
        ]
        raise InputError("\n".join(dict.fromkeys(lines)))
    return cases


def _placed(line: str, case: _Crossed, raw: Mapping[str, Any], path: Path) -> str:
    """Return the line of an error, with the place of its key in the experiment if it is there."""
    text = line.removeprefix(f"{_file_of(case.change, path)}: ").removeprefix("--set ")
    key = text.partition(": ")[0]
    for above, section in case.sections.items():
        if f"{key}.".startswith(f"{above}."):
            return f"{path}: experiment.{section}: {text}"
    ours = key.partition(".")[0] in {*RunConfig.model_fields, *raw}.difference(_OF_A_FILE)
    ours |= any(f"{k}.".startswith(f"{key}.") for k in flatten(raw))
    return f"{path}: {text}" if ours and text != line else line


def _file_of(change: Mapping[str, Any], path: Path) -> Path:
    """Return the file that has the problem of a case."""
    return path.parent / str(change["config"]) if "config" in change else path


class _Crossed(NamedTuple):
    """A case of product and folds: its label, keys and origin, and the part each key is from."""

    label: str
    change: Mapping[str, Any]
    origin: CaseOrigin
    sections: Mapping[str, str]


def _crossed(grid: GridConfig, name: str) -> dict[str, _Crossed]:
    """Return the cases, crossed with product and folds, by name."""
    crossed = {}
    keys = [*grid.product, *grid.folds]
    short = {key: key.rpartition(".")[2] for key in keys}
    if len(set(short.values())) < len(short):
        short = {key: key for key in keys}

    def text(chosen: Mapping[str, Any]) -> list[str]:
        return [f"{short[key]}={value}" for key, value in chosen.items()]

    for label, change in (grid.cases or {_ONLY: {}}).items():
        words = [] if label == _ONLY else [label]
        for chosen in _combinations(grid.product):
            unit = " ".join([*words, *text(chosen)]) or _ONLY
            for fold in _combinations(grid.folds):
                case = " ".join([*words, *text(chosen), *text(fold)]) or _ONLY
                scenario = name if label == _ONLY and (chosen or fold) else label
                origin = CaseOrigin(*grid.origins.get(case, (unit, scenario)))
                sections = dict.fromkeys(change, f"cases.{label}")
                sections |= dict.fromkeys(chosen, "product") | dict.fromkeys(fold, "folds")
                crossed[case] = _Crossed(label, change | chosen | fold, origin, sections)
    return crossed


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for chosen in itertools.product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def _raw_case(
    raw: Mapping[str, Any], change: Mapping[str, Any], path: Path
) -> tuple[dict[str, Any], Path]:
    """Return the content of a case's configuration, and the file its paths are relative to."""
    case: dict[str, Any] = copy.deepcopy(dict(raw))
    change = {key: value for key, value in change.items() if key != "methods"}
    place = _file_of(change, path)
    if "config" in change:
        name = change.pop("config")
        if not isinstance(name, str):
            raise InputError(f"config: expected the path of a file, found {name!r}")
        note_configuration(place, "config", name)
        file = read_yaml(place)
        case = _over({key: file[key] for key in _OF_A_FILE if key in file}, case)
    for key, value in change.items():
        put(case, key, copy.deepcopy(value))
    return case, place


def _follow_protocol(raw: dict[str, Any], path: Path) -> None:
    """Put the keys of the protocol that is asked for into a configuration."""
    section = raw["experiment"]
    name, named = section.get("protocol"), section.get("protocols") or {}
    if name is None:
        return
    if not isinstance(named, dict) or name not in named or not isinstance(named[name], dict):
        raise InputError(
            f"{path}: experiment.protocol: expected one of {', '.join(map(str, named)) or 'none'}; "
            f"found {name!r}"
        )
    for key, value in named[name].items():
        put(raw, str(key), copy.deepcopy(value))


def _over(below: Any, above: Any) -> Any:
    """Return two trees as one: where both are not mappings, that is ``above``."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = {key: _over(below[key], above[key]) if key in below else above[key] for key in above}
    return {**below, **merged}
