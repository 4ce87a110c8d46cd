"""Reads an experiment: the section ``experiment`` of a configuration, all errors at once."""

from __future__ import annotations

import copy
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    CaseConfig,
    CaseOrigin,
    CasesConfig,
    Grid,
    GridConfig,
    Method,
    MethodOptions,
    cases_of,
    check_names,
)
from framework.experiment.options import Options, ProblemOptions
from framework.experiment.run_dir import slug
from framework.registry import nearest
from framework.security import CASES, note_configuration, received

_OF_A_FILE = ("problem", "objectives", "constraints")  # what `config: FILE` of a case takes
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
    where = f"{path}: experiment"
    messages: list[str] = []
    grid, cases_written = None, None
    with noting(messages):
        cases_written = cases_of(section, where)
    source = _Source(path, raw, cases_written or CasesConfig())
    with noting(messages):
        grid = check(GridConfig, section, where, {"base": source.folder})
        _folders(grid.methods, f"{where}.methods")
    crossed: dict[str, _Crossed] = {}
    cases: dict[str, RunConfig] = {}
    with noting(messages):
        if cases_written:
            crossed = _crossed(cases_written, str(raw.get("name")), where)
        cases = _checked_cases(source, grid, crossed)
    origins = {name: case.origin for name, case in crossed.items()}
    methods: dict[str, dict[str, Method]] = {}
    if grid and cases:
        scenarios = dict.fromkeys(origin.scenario for origin in origins.values())
        with noting(messages):
            check_names(grid, cases, scenarios, where)
        with noting(messages):
            methods = _own_methods(grid, cases, crossed, source)
    if messages or grid is None:
        raise InputError("\n".join(dict.fromkeys("\n".join(messages).splitlines())))
    return Grid(source.noted_in(grid), raw, cases, origins, methods)


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


def _folders(names: Iterable[str], where: str) -> None:
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
    grid: GridConfig,
    cases: Mapping[str, RunConfig],
    crossed: Mapping[str, _Crossed],
    source: _Source,
) -> dict[str, dict[str, Method]]:
    """Return the methods that a case changes, by case and label, checked."""
    messages: list[str] = []
    by_case: dict[str, dict[str, Method]] = defaultdict(dict)
    for name, case in crossed.items():
        where = f"{source.path}: experiment.cases.{case.label}.methods"
        changes, of_case = case.change.methods or {}, _written(cases[name].problem)
        messages += [
            f"{where}: expected one of {', '.join(grid.methods)}; found {label!r}"
            f"{nearest(label, grid.methods)}"
            for label in changes
            if label not in grid.methods
        ]
        for label, usual in grid.methods.items():
            if label not in changes and usual.problem is None:
                continue
            with noting(messages):
                place, changed = f"{where}.{label}", _changed(usual, changes.get(label))
                method = check(MethodOptions, changed, place, {"base": source.folder})
                problem = None
                if method.problem is not None:
                    keys = _over(of_case, method.problem).items()
                    section = {key: value for key, value in keys if value is not None}
                    base = {"base": source.folder_of(case.change)}
                    problem = check(ProblemOptions, section, f"{place}.problem", base)
                by_case[name][label] = Method(method.search, problem, method.budget)
    if messages:
        raise InputError("\n".join(dict.fromkeys(messages)))
    return dict(by_case)


def _changed(usual: MethodOptions, changes: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a method with the changes of a case; with another kind, it has these keys alone."""
    keys = {"kind": changes} if isinstance(changes, str) else dict(changes or {})
    if keys.get("kind", usual.kind) != usual.kind:
        return keys
    return dict(_over(_written(usual), keys))


def _written(options: Options) -> dict[str, Any]:
    """Return the keys of a section that were given."""
    return options.model_dump(mode="json", exclude_unset=True)


def _checked_cases(
    source: _Source, grid: GridConfig | None, crossed: Mapping[str, _Crossed]
) -> dict[str, RunConfig]:
    """Return the configuration of each case; an error of all cases is told once.

    Their algorithm is the first method; the grid is None if something is wrong with it.
    """
    path = source.path
    first = next(iter(grid.methods.values())).search.model_dump(mode="json") if grid else None
    cases: dict[str, RunConfig] = {}
    errors: dict[str, list[str]] = {}
    for name, case in crossed.items():
        messages: list[str] = []
        with noting(messages):
            raw = source.raw_case(case.change) | {"algorithm": first}
            base = {"base": source.folder_of(case.change)}
            cases[name] = check(RunConfig, raw, str(source.file_of(case.change)), base)
        texts = [line for text in messages for line in text.splitlines()]
        lines = [
            _placed(line, case, source) for line in texts if grid or ": algorithm:" not in line
        ]
        errors |= {name: lines} if lines else {}
    if errors:
        every = set.intersection(*map(set, errors.values())) if not cases else set()
        whole = (f"{path}: experiment.", *every)  # said as it is
        lines = [
            line
            if line.startswith(whole)
            else f"{path}: experiment.cases.{name}: {line.removeprefix(f'{path}: ')}"
            for name, of_case in errors.items()
            for line in of_case
        ]
        raise InputError("\n".join(dict.fromkeys(lines)))
    return cases


def _placed(line: str, case: _Crossed, source: _Source) -> str:
    """Return the line of an error, with the place of its key in the experiment if it is there."""
    path, raw = source.path, source.raw
    text = line.removeprefix(f"{source.file_of(case.change)}: ").removeprefix("--set ")
    key = text.partition(": ")[0]
    for above, section in case.sections.items():
        if f"{key}.".startswith(f"{above}."):
            return f"{path}: experiment.{section}: {text}"
    ours = key.partition(".")[0] in {*RunConfig.model_fields, *raw}.difference(_OF_A_FILE)
    ours |= any(f"{k}.".startswith(f"{key}.") for k in flatten(raw))
    return f"{path}: {text}" if ours and text != line else line


class _Source:
    """What cases are made of: the sections beside ``experiment``, and the files that cases name.

    Attributes
    ----------
    path : pathlib.Path
        The configuration.
    folder : pathlib.Path
        To which its paths are relative.
    raw : mapping
        Its sections beside ``experiment``.
    files : dict
        By path as cases name it, what they take from a file.
    """

    def __init__(self, path: Path, raw: Mapping[str, Any], made: CasesConfig) -> None:
        self.path, self.raw = path, raw
        self.folder = path.parent / made.folder
        self.files = dict(made.files)

    def noted_in(self, grid: GridConfig) -> GridConfig:
        """Return a section that makes the same cases, whatever folder its file lies in."""
        updates = {"folder": str(self.folder.absolute()), "files": self.files}
        return grid.model_copy(update=updates)

    def file_of(self, change: CaseConfig) -> Path:
        """Return the file that has the problem of a case."""
        return self.folder / change.config if _names_a_file(change) else self.path

    def folder_of(self, change: CaseConfig) -> Path:
        """Return the folder that paths of a case's problem are relative to."""
        return self.file_of(change).parent if _names_a_file(change) else self.folder

    def raw_case(self, change: CaseConfig) -> dict[str, Any]:
        """Return the content of a case's configuration."""
        case: dict[str, Any] = copy.deepcopy(dict(self.raw))
        if _names_a_file(change):
            case = _over(self._content(self.file_of(change), change.config), case)
        for key, value in (change.model_extra or {}).items():
            put(case, key, copy.deepcopy(value))
        return case

    def _content(self, place: Path, text: str) -> dict[str, Any]:
        """Return what cases take from a file that they name as ``text``."""
        if text not in self.files:
            note_configuration(place, "config", text)
            content = read_yaml(place)
            self.files[text] = {key: content[key] for key in _OF_A_FILE if key in content}
        return copy.deepcopy(self.files[text])


def _names_a_file(change: CaseConfig) -> bool:
    return "config" in change.model_fields_set


class _Crossed(NamedTuple):
    """A case of product and folds: its label, keys and origin, and the part each key is from."""

    label: str
    change: CaseConfig
    origin: CaseOrigin
    sections: Mapping[str, str]


def _crossed(grid: CasesConfig, name: str, where: str) -> dict[str, _Crossed]:
    """Return the cases, crossed with product and folds, by name."""
    crossed: dict[str, _Crossed] = {}
    keys = [*grid.product, *grid.folds]
    many = math.prod(
        map(len, [grid.cases or [_ONLY], *grid.product.values(), *grid.folds.values()])
    )
    if many > CASES:
        raise InputError(f"{where}: expected at most {CASES:,} cases, found {many:,}")
    short = {key: key.rpartition(".")[2] for key in keys}
    if len(set(short.values())) < len(short):
        short = {key: key for key in keys}

    def text(chosen: Mapping[str, Any]) -> list[str]:
        return [f"{short[key]}={value}" for key, value in chosen.items()]

    for label, change in (grid.cases or {_ONLY: CaseConfig()}).items():
        words = [] if label == _ONLY else [label]
        for chosen in _combinations(grid.product):
            unit = " ".join([*words, *text(chosen)]) or _ONLY
            for fold in _combinations(grid.folds):
                case = " ".join([*words, *text(chosen), *text(fold)]) or _ONLY
                scenario = name if label == _ONLY and (chosen or fold) else label
                origin = CaseOrigin(unit, scenario)
                content = change.model_dump(exclude_unset=True)
                sections = dict.fromkeys(content, f"cases.{label}")
                sections |= dict.fromkeys(chosen, "product") | dict.fromkeys(fold, "folds")
                changed = check(CaseConfig, content | chosen | fold, f"{where}.cases.{label}")
                if case in crossed:  # such as of 3 and "3"
                    raise InputError(f"{where}: expected cases that differ, found {case!r} twice")
                crossed[case] = _Crossed(label, changed, origin, sections)
    _folders(crossed, f"{where}.cases")
    return crossed


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for chosen in itertools.product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


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
