"""The section ``sweep`` of a configuration: what a sweep varies and optimises, with its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import Field, ValidationInfo, field_validator, model_validator

from framework.effects import note
from framework.errors import InputError, damaged
from framework.experiment.config import (
    ConstraintConfig,
    RunConfig,
    changed,
    check,
    check_command,
    flatten,
    noting,
    override,
    patched,
    read_yaml,
)
from framework.experiment.options import AS_WRITTEN
from framework.experiment.run_dir import RunDir
from framework.extras import absent
from framework.registry import require_known
from framework.roles import Sense
from framework.security import (
    STORAGE,
    ask_now,
    note_address,
    received,
    without_password,
)
from framework.settings import Budget, Section
from tracking.mlflow_log.store import absolute_uri
from tracking.sweep.search_space import Dimension, Value, dimensions, variable_values

Start = dict[str, Value] | str


def _settings_of(
    start: Sequence[Start], space: Mapping[str, Dimension], base: Path, where: str
) -> list[dict[str, Any]]:
    """Return the settings to try first; directories of sweeps stand for their best trials."""
    settings: list[dict[str, Any]] = []
    for i, entry in enumerate(start):
        here = f"{where}.{i}"
        if isinstance(entry, str):
            note("read", str((base / entry).absolute()), "start", entry)
            ask_now()
            entries = _best_of(base / entry, here)
            here = f"{here} ({entry})"
        else:
            entries = [entry]
        settings += [_checked_setting(params, space, here) for params in entries]
    return settings


def _best_of(path: Path, where: str) -> list[dict[str, Any]]:
    """Return the values of the best trials of an earlier sweep."""
    sweep = RunDir(path)
    best = sweep.summary().get("best") if sweep.sweep_file.is_file() else None
    if not best:
        raise InputError(
            f"{where}: expected the directory of a sweep that has ended, found none in {path}"
        )
    with damaged(sweep.summary_file, "the best trials of a sweep"):
        return [dict(trial["params"]) for trial in best]


def _checked_setting(
    params: Mapping[str, Any], space: Mapping[str, Dimension], where: str
) -> dict[str, Any]:
    """Return a setting in the order of the search space; raises InputError if it is not in it."""
    require_known(params, space, f"{where}: expected keys of the search space,")
    setting = {key: params[key] for key in space if key in params}
    for key, value in setting.items():
        if not space[key].contains(value):
            number = "whole number" if space[key].whole else "value"
            raise InputError(
                f"{where}.{key}: expected a {number} of the search space, found {value!r}"
            )
        if not space[key].holds(setting):
            when = space[key].when.items()
            condition = ", ".join(f"{other} {' or '.join(map(str, of))}" for other, of in when)
            raise InputError(f"{where}.{key}: expected it beside {condition}, found it without")
    return setting


def _split_seed(config: RunConfig, where: str) -> str:
    """Return the key of the seed by which a problem splits its records; there must be one."""
    flat = flatten({"problem": config.problem.model_dump(mode="json")})
    keys = [key for key, v in flat.items() if key.endswith("split.seed") and isinstance(v, int)]
    if len(keys) != 1:
        raise InputError(
            f"{where}: expected a problem that splits its records by a key split.seed, found "
            f"{', '.join(keys) or 'none'}"
        )
    return keys[0]


def resplit(config: RunConfig, repeat: int, path: Path) -> RunConfig:
    """Return the configuration of a repeat with its own split; repeat 0 has the file's split."""
    key = _split_seed(config, "sweep.resplit")
    seed = int(flatten(config.model_dump(mode="json"))[key])
    return changed(config, {key: seed + repeat}, path)


class PruneConfig(Section):
    """Section ``sweep.prune``: which trials are ended early.

    ``{kind: median, at: [200, 400]}`` or ``{kind: halving, at: [100, 300, 900]}``.

    kind : ``median`` ends a trial that is worse than the median of the completed ones;
        ``halving`` is asynchronous successive halving in brackets: it lets the best 1 of ``eta`` of
        a trial's bracket continue. Trials belong to brackets in turn: those of the first bracket
        are checked from the first of ``at`` on, the next ones from the second, and so on; those of
        the last bracket are never checked.
    at : evaluations after which trials are checked.
    startup : trials to complete before the median is used.
    eta : of halving.
    """

    kind: Literal["median", "halving"]
    at: list[int] = Field(min_length=1)
    startup: int | None = Field(default=None, ge=1)
    eta: int | None = Field(default=None, ge=2)

    @field_validator("at")
    @classmethod
    def _rising(cls, at: list[int]) -> list[int]:
        if at[0] < 1 or any(b <= a for a, b in pairwise(at)):
            raise ValueError(f"expected rising numbers of at least 1, found {at}")
        return at

    @model_validator(mode="after")
    def _of_its_kind(self) -> PruneConfig:
        if self.kind == "median" and self.eta is not None:
            raise ValueError("expected eta with kind halving, found it with median")
        if self.kind == "halving" and self.startup is not None:
            raise ValueError("expected startup with kind median, found it with halving")
        return self


_CHANGEABLE = {"trials", "choose", "tolerance"}  # may change in a study that exists
_OURS = {"storage", "join", "grace"}  # do not influence trials


class Direction(Section):
    """What a sweep optimises, such as ``{metric: hypervolume, sense: max}``.

    metric : ``hypervolume``, ``front_size``, ``evaluations``, ``wall_s``, ``best_METRIC`` and
        others (:mod:`tracking.sweep.trial_values`).
    sense : whether it is minimised or maximised.
    """

    metric: str
    sense: Sense


class SweepConfig(Section):
    """Section ``sweep``.

    search_space : by dotted key of the configuration, the values to try.
    directions : the values of trials to maximise or minimise.
    start : settings to try first (missing keys are drawn), and directories of earlier sweeps,
        whose best trials are tried.
    trials : how many, failed ones included.
    batch : trials that are drawn together. The study depends on it, but not on the number of
        workers; more workers than this are idle.
    asynchronous : draw a new trial as soon as one ends, while ``batch`` are running. No worker
        waits, but the study depends on which trial is faster.
    repeats : runs a trial, with other seeds, whose values are averaged.
    resplit : whether each repeat also has its own split of the records.
    constraints : limits for trials, ``{metric: wall_s, at_most: 10}``.
    choose : the best trial by several directions: ``in_order`` takes those that are by the first
        direction within ``tolerance`` of the best, among them the best by the next, and so on;
        ``nearest`` the one nearest to the best value of each.
    tolerance : as a share of the range of the non-dominated trials.
    prune : which trials end early; see :class:`tracking.sweep.config.PruneConfig`.
    sampler : how Optuna draws settings; ``grid`` tries every combination of choices.
    storage : URL of Optuna's database; ``optuna.db`` in the sweep's directory by default. A
        password is written as the name of an environment variable, ``${NAME}``. Optuna's gRPC
        proxy is ``grpc://host:port``.
    join : whether several processes share the study, which then has the name of the
        configuration; see :meth:`tracking.sweep.study.SweepStudy.begin`.
    grace : seconds of silence after which a trial of another process is tried again.
    reference : a ``front.csv``, for ``share_of_reference``.
    seed : of the sampler; the runs have the seed of the configuration.
    """

    search_space: dict[str, dict[str, Any]] = Field(min_length=1)
    directions: list[Direction] = Field(min_length=1)
    start: list[Start] = Field(default_factory=list)
    trials: int = Field(default=50, ge=1)
    batch: int = Field(default=4, ge=1)
    asynchronous: bool = False
    repeats: int = Field(default=1, ge=1)
    resplit: bool = False
    constraints: list[ConstraintConfig] = Field(default_factory=list)
    choose: Literal["in_order", "nearest"] = "in_order"
    tolerance: float = Field(default=0.05, ge=0, le=1)
    prune: PruneConfig | None = None
    sampler: Literal["tpe", "random", "nsga2", "qmc", "gp", "grid"] = "tpe"
    storage: str | None = None
    join: bool = False
    grace: int = Field(default=60, ge=3)
    reference: str | None = None
    seed: int = Field(default=0, ge=0, lt=2**32)

    @field_validator("storage")
    @classmethod
    def _no_password(cls, storage: str | None) -> str | None:
        if storage is None:
            return None
        return note_address(without_password(storage), "storage", STORAGE)

    @field_validator("reference")
    @classmethod
    def _noted(cls, reference: str | None, info: ValidationInfo) -> str | None:
        if reference is not None:
            base = (info.context or {}).get("base", ".")
            note("read", str(Path(base, reference).absolute()), "reference", reference)
        return reference

    @field_validator("directions")
    @classmethod
    def _each_once(cls, directions: list[Direction]) -> list[Direction]:
        names = [direction.metric for direction in directions]
        if len(set(names)) < len(names):
            raise ValueError(f"expected each metric once, found {', '.join(names)}")
        return directions


class SweepPlan(NamedTuple):
    """A checked sweep.

    Attributes
    ----------
    config : RunConfig
        The configuration in which each trial replaces some values.
    sweep : SweepConfig
    space : mapping of str to Dimension
        By dotted key; a key comes after those that its ``when`` names.
    path : pathlib.Path
        The file, for messages.
    """

    config: RunConfig
    sweep: SweepConfig
    space: Mapping[str, Dimension]
    path: Path

    def config_with(self, params: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a trial.

        Raises
        ------
        InputError
            The values cannot be combined.
        """
        return changed(self.config, params, self.path)

    def draft_with(self, params: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a trial without checks, to record one that cannot be run."""
        return RunConfig.model_validate(patched(self.config, params), context={AS_WRITTEN: True})

    def dump(self) -> str:
        """Return the section ``sweep`` as the content of a YAML file."""
        section = self.sweep.model_dump(mode="json")
        return yaml.safe_dump(section, sort_keys=False, allow_unicode=True)

    def configured(self) -> dict[str, Any]:
        """Return the values that the configuration itself has for the keys of the search space."""
        flat = variable_values(self.config)
        setting: dict[str, Any] = {}
        for key, dimension in self.space.items():
            if key in flat and dimension.holds(setting):
                setting[key] = flat[key]
        return setting

    def is_complete(self, params: Mapping[str, Any]) -> bool:
        """Return whether every key whose condition holds has a value."""
        return all(key in params or not d.holds(params) for key, d in self.space.items())

    def first(self) -> list[dict[str, Any]]:
        """Return the first settings: the configuration's if in the search space, then ``start``."""
        if self.sweep.sampler == "grid":  # it tries only the points of the grid
            return []
        setting = self.configured()
        drawable = all(self.space[key].contains(value) for key, value in setting.items())
        start = [dict(entry) for entry in self.sweep.start if isinstance(entry, dict)]
        return [setting, *start] if drawable else start

    def identity(self) -> dict[str, Any]:
        """Return the values of all dotted keys on which the trials and their values depend."""
        section = self.sweep.model_dump(mode="json", exclude=_CHANGEABLE | _OURS)
        budget = self.config.budget.model_dump(mode="json")
        return self.config.identity() | flatten({"sweep": section, "budget": budget})


def load_plan(
    path: Path,
    overrides: Sequence[str] = (),
    raw: dict[str, Any] | None = None,
    **top_level: Any,
) -> SweepPlan:
    """Read and check a file of an experiment with a section ``sweep``.

    Parameters
    ----------
    path : pathlib.Path
    overrides : sequence of 'dotted.key=value'
    raw : dict, optional
        The content of the file, where it was read already.
    **top_level
        ``workers``, and ``trials`` and ``join`` of the sweep; None is ignored.

    Raises
    ------
    InputError
        The file has errors; the message has a line for each.
    """
    raw = read_yaml(path) if raw is None else raw
    override(raw, overrides)
    with received(path, overrides, dict(raw)):
        return _checked_plan(raw, path, **top_level)


def _checked_plan(
    raw: dict[str, Any],
    path: Path,
    *,
    workers: str | int | None = None,
    trials: int | None = None,
    join: bool | None = None,
) -> SweepPlan:
    where = f"{path}: sweep"
    check_command(raw, path, "sweep")
    section = raw.pop("sweep")
    section |= {} if trials is None else {"trials": trials}
    section |= {"join": True} if join else {}
    raw |= {} if workers is None else {"workers": workers}
    messages: list[str] = []
    with noting(messages):
        config = check(RunConfig, raw, path)
        if config.repeats != 1:
            raise InputError(
                f"{path}: repeats: expected 1 in a sweep (sweep.repeats averages over seeds), "
                f"found {config.repeats}"
            )
    with noting(messages):
        sweep = check(SweepConfig, section, where, {"base": path.parent})
    if messages:
        raise InputError("\n".join(messages))
    space = dimensions(sweep.search_space, config, path)
    if sweep.sampler == "grid":
        _check_grid(sweep, space, where)
    if without := absent(sweep.sampler):  # extras are named after samplers
        raise InputError(f"{where}.sampler: {without}; or take tpe")
    if sweep.prune is not None:
        _check_prune(sweep, sweep.prune, config.budget, where)
    if sweep.join:
        _check_join(sweep, config, where)
    if sweep.resplit:
        _split_seed(config, f"{where}.resplit")
        if sweep.repeats == 1:
            raise InputError(f"{where}.resplit: expected repeats of at least 2, found 1")
    absolute = _with_absolute_paths(sweep, path)
    if config.tracking and absolute.storage == absolute_uri(config.tracking.uri, Path.cwd()):
        raise InputError(
            f"{where}.storage: expected a database for Optuna alone, found the one of "
            "tracking.uri, where MLflow's tables are; name another, such as sqlite:///study.db"
        )
    if sweep.start:
        start = _settings_of(sweep.start, space, path.parent, f"{where}.start")
        absolute = absolute.model_copy(update={"start": start})
    return SweepPlan(config, absolute, space, path)


def _check_grid(sweep: SweepConfig, space: Mapping[str, Dimension], where: str) -> None:
    """Check that the search space is a grid, with a point for each trial."""
    points = 1
    if sweep.start:
        raise InputError(f"{where}.start: expected none in a grid, which has its points, found one")
    for key, dimension in space.items():
        if dimension.when:
            raise InputError(
                f"{where}.search_space.{key}.when: expected none in a grid, whose keys are all "
                "tried together, found one; take another sampler"
            )
        if dimension.choices is None:
            raise InputError(
                f"{where}.search_space.{key}: expected choices, which a grid is made of, found a "
                "range"
            )
        points *= len(dimension.choices)
    if sweep.trials > points:
        raise InputError(
            f"{where}.trials: expected at most the grid's {points} points, found {sweep.trials}"
        )


def _check_prune(sweep: SweepConfig, prune: PruneConfig, budget: Budget, where: str) -> None:
    """Check that trials have a value while they run, and are long enough to be pruned."""
    names = [direction.metric for direction in sweep.directions]
    if len(names) > 1 or names[0] in ("evaluations", "wall_s", "hypervolume_expected"):
        raise InputError(
            f"{where}.prune: expected one direction that a search has on its way (hypervolume, "
            f"front_size, best_METRIC, share_of_reference), found {', '.join(names)}"
        )
    if sweep.repeats > 1:
        raise InputError(
            f"{where}.prune: expected trials of one run, found repeats: {sweep.repeats}; leave out "
            "one of the two"
        )
    if budget.evaluations is not None and prune.at[-1] >= budget.evaluations:
        raise InputError(
            f"{where}.prune.at: expected less than budget.evaluations ({budget.evaluations}), "
            f"found {prune.at[-1]}"
        )


def _check_join(sweep: SweepConfig, config: RunConfig, where: str) -> None:
    """Check that there is a study to share, and no option that needs a single process."""
    if sweep.storage is None:
        raise InputError(
            f"{where}.storage: expected a database that all processes reach, such as "
            "sqlite:///study.db, found none"
        )
    if sweep.sampler == "grid":
        raise InputError(
            f"{where}.sampler: expected another one than grid, which one process goes through"
        )
    if config.workers not in ("auto", "serial"):
        raise InputError(
            f"{where}.join: expected workers auto or serial (each process runs one trial at "
            f"a time; start as many as you like), found {config.workers}"
        )


def _with_absolute_paths(sweep: SweepConfig, path: Path) -> SweepConfig:
    """Return the section with absolute paths: the sweep may be resumed from elsewhere."""
    changes = {}
    if sweep.reference is not None:
        changes["reference"] = str((path.parent / sweep.reference).absolute())
    if sweep.storage is not None:
        changes["storage"] = absolute_uri(sweep.storage, Path.cwd())
    return sweep.model_copy(update=changes)
